//! The response is read while the request is written: neither side waits for the other (RFC 9110 §7.5).

use std::io::{self, ErrorKind, Read, Write};
use std::pin::{Pin, pin};
use std::sync::{Arc, mpsc};
use std::task::{self, Poll, Wake, Waker};
use std::thread;
use std::time::Duration;

use corehttp::client::{CallReader, CallWriter, ClientCause, ClientLimits, ClientPhase, ClientTimeouts};
use corehttp::error::ExchangeError;
use corehttp::middleware::wrap;
use corehttp::net::Dialer;
use corehttp::{BodyPlan, Client, ClientBuilder, ClientError, Context, Request, Response, Server};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::time::{Instant, sleep, timeout};

use crate::support::{OK, Scripted, Stage, post, settle};

const SIZE: usize = 24 << 20;

/// More than all buffers on the way hold goes there and comes back, from a server that answers as it reads.
#[test]
fn an_echo_larger_than_all_buffers_comes_back_while_it_is_sent() {
    let echo = async |ctx: &mut Context| {
        let (mut body, mut out) = ctx.duplex().await?;
        while let Some(chunk) = body.chunk().await? {
            out.write_all(chunk).await?;
        }
        Ok(out.finish().await?)
    };
    let running = Server::bind("127.0.0.1:0").cores(1).start(wrap(BodyPlan::Stream, echo)).unwrap();
    let url = format!("http://{}/", running.local_addr());
    let asked = corehttp::block_on(async {
        let (client, mut response) = (Client::new(), Response::new());
        for length in [Some(SIZE), None] {
            let mut request = Request::post(&url).unwrap();
            if let Some(length) = length {
                request.headers.set("content-length", length).unwrap();
            }
            let (mut writer, mut reader) = client.open_call(&request).await.unwrap().split();
            let write = async {
                let piece = [b'x'; 48 << 10];
                let mut left = SIZE;
                while left > 0 {
                    left -= writer.write(&piece[..piece.len().min(left)]).await?;
                }
                writer.finish().await
            };
            let read = async {
                let mut size = 0;
                reader.head(&mut response).await?;
                while let Some(chunk) = reader.chunk().await? {
                    assert!(chunk.len() <= 1 << 20 && chunk.iter().all(|byte| *byte == b'x'));
                    size += chunk.len();
                }
                Ok(size)
            };
            assert_eq!(tokio::try_join!(write, read).unwrap().1, SIZE);
            drop((writer, reader));
            assert_eq!(
                (client.idle_connections(), client.busy_connections()),
                (1, 0),
                "the connection is used again"
            );
        }
    });
    asked.unwrap();
    running.stop(Duration::ZERO);
}

/// The pipe between them holds 64 KiB: server and client must not wait for each other to read.
#[tokio::test(start_paused = true)]
async fn a_response_is_read_while_its_request_is_sent() {
    let stage = Stage::new(|mut peer, _| async move {
        while peer.head().await?.is_some() {
            peer.send(format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", 1 << 20)).await?;
            let mut piece = vec![0; 16 << 10];
            for _ in 0..64 {
                peer.stream.read_exact(&mut piece).await?;
                peer.send(&piece).await?;
            }
        }
        Ok(())
    });
    let client = stage.client();
    let (mut request, mut response) = (post(), Response::new());
    request.body.set_bytes(vec![b'x'; 1 << 20]);
    client.send(&request, &mut response).await.unwrap();
    assert!(response.body.bytes() == request.body.bytes());
    request.body.set_stream(tokio::io::repeat(b'x').take(1 << 20), Some(1 << 20));
    let (mut reader, mut size) = (client.open_response(&request, &mut response).await.unwrap(), 0);
    while let Some(chunk) = reader.chunk().await.unwrap() {
        size += chunk.len();
    }
    assert_eq!((size, client.idle_connections(), client.busy_connections()), (1 << 20, 1, 0));

    let little =
        stage.builder().limits(ClientLimits { body_max: 256 << 10, ..ClientLimits::default() }).build();
    request.body.set_bytes(vec![b'x'; 1 << 20]);
    let error = little.send(&request, &mut response).await.unwrap_err();
    assert!(error.is_timeout(), "no more is kept than a body may have: {error:#}");
    assert_eq!(little.busy_connections(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_half_dropped_too_early_closes_the_connection_and_frees_its_place() {
    let stage = Stage::always("HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello");
    let client = stage.client();
    let mut request = post();
    request.headers.set("content-length", 3).unwrap();
    let mut response = Response::new();

    let (mut writer, mut reader) = client.open_call(&request).await.unwrap().split();
    writer.write_all(b"ab").await.unwrap();
    drop(writer);
    drop(reader);
    assert_eq!((client.idle_connections(), client.busy_connections()), (0, 0));

    (writer, reader) = client.open_call(&request).await.unwrap().split();
    writer.write_all(b"abc").await.unwrap();
    writer.finish().await.unwrap();
    reader.head(&mut response).await.unwrap();
    drop((writer, reader));
    assert_eq!((client.idle_connections(), client.busy_connections()), (0, 0), "its body was not read");

    (writer, reader) = client.open_call(&request).await.unwrap().split();
    writer.write_all(b"abc").await.unwrap();
    writer.finish().await.unwrap();
    reader.head(&mut response).await.unwrap();
    let mut body = String::new();
    reader.read_to_string(&mut body).await.unwrap();
    assert_eq!((body.as_str(), client.busy_connections()), ("hello", 1));
    drop((writer, reader));
    assert_eq!((client.idle_connections(), client.busy_connections()), (1, 0));
}

/// A connection without a reader must not stay open for as long as its writer, which is to be told.
#[tokio::test(start_paused = true)]
async fn a_reader_dropped_too_early_ends_the_writing_too() {
    for said in ["", "HTTP/1.1 103 x\r\n\r\n", "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhe"] {
        let (left, mut leaving) = tokio::sync::mpsc::unbounded_channel();
        let stage = Stage::new(move |mut peer, _| {
            let left = left.clone();
            async move {
                peer.head().await?;
                peer.send(said).await?;
                peer.receive_all().await?;
                left.send(()).map_err(io::Error::other)
            }
        });
        let (client, mut response) = (stage.client(), Response::new());
        let (mut writer, mut reader) = client.open_call(&post()).await.unwrap().split();
        let head = timeout(Duration::from_secs(1), reader.head(&mut response)).await;
        assert_eq!(head.is_ok(), said.contains("200"), "{said:?}");
        if head.is_ok() {
            // It is still in the input, which is dropped with the connection: to give it back must not panic.
            assert_eq!(reader.chunk().await.unwrap(), Some(&b"he"[..]));
        }
        let writing = tokio::spawn(async move {
            for _ in 0..60 {
                writer.write_all(b"piece").await?;
                writer.flush().await?;
                if !writer.is_body_wanted() {
                    break;
                }
                sleep(Duration::from_secs(1)).await;
            }
            Ok::<(), ClientError>(())
        });
        settle().await;
        let began = Instant::now();
        drop(reader);
        leaving.recv().await.unwrap();
        assert_eq!(began.elapsed(), Duration::ZERO, "{said:?}");
        // If the response has begun, nothing failed: the rest of the request is only not wanted any more.
        assert_eq!(writing.await.unwrap().is_ok(), said.contains("200"), "{said:?}");
        assert_eq!(
            (began.elapsed().as_secs(), client.busy_connections(), client.idle_connections()),
            (1, 0, 0),
            "{said:?}"
        );
    }
}

/// The writer waits already, also for an interim response to be taken that it has met, and nothing else wakes it.
#[tokio::test(start_paused = true)]
async fn a_writer_in_another_task_learns_that_its_reader_was_dropped() {
    for said in ["", "HTTP/1.1 103 x\r\n\r\nHTTP/1.1 103 x\r\n\r\n"] {
        let stage = Stage::new(move |mut peer, _| async move {
            peer.head().await?;
            peer.send(said).await?;
            std::future::pending().await
        });
        let (mut writer, mut reader) = silence(stage.builder()).await;
        if !said.is_empty() {
            assert!(reader.informational().await.unwrap().is_some());
        }
        let write = tokio::spawn(async move { writer.write_all(&[0; 1 << 20]).await });
        settle().await;
        let dropped = Instant::now();
        drop(reader);
        let written = timeout(Duration::from_secs(60), write).await.expect("it is woken").unwrap();
        assert!(written.is_err() && dropped.elapsed().is_zero(), "{:?}, {said:?}", dropped.elapsed());
    }
}

/// A writer that waits when the reader fails must not wait on, until its own time is over.
#[tokio::test(start_paused = true)]
async fn a_body_that_fails_ends_the_writing_too() {
    for bad in ["zz\r\n", ""] {
        let stage = Stage::new(move |mut peer, _| async move {
            peer.head().await?;
            peer.send("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n").await?;
            sleep(Duration::from_secs(1)).await;
            peer.send(bad).await?;
            sleep(Duration::from_secs(100)).await;
            Ok(())
        });
        let second = Duration::from_secs(1);
        let timeouts = ClientTimeouts { send: 60 * second, receive: 2 * second, ..ClientTimeouts::default() };
        let call = stage.builder().timeouts(timeouts).build().open_call(&post()).await.unwrap();
        let ((mut writer, mut reader), mut response) = (call.split(), Response::new());
        let began = Instant::now();
        let write = async {
            while writer.is_body_wanted() {
                writer.write_all(&[0; 8192]).await.unwrap();
            }
            began.elapsed()
        };
        let read = async {
            reader.head(&mut response).await.unwrap();
            while reader.chunk().await.is_ok() {}
            began.elapsed()
        };
        let (wrote, read) = tokio::join!(write, read);
        assert_eq!((wrote, read.as_secs()), (read, if bad.is_empty() { 2 } else { 1 }), "{bad:?}");
    }
}

/// The reader sends what waits, too, and must not say that the response took too long.
#[tokio::test(start_paused = true)]
async fn a_write_that_stalls_is_told_as_one_whichever_half_finds_out() {
    let stage = Stage::new(|mut peer, _| async move {
        peer.head().await?;
        peer.send("HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhe").await?;
        sleep(Duration::from_secs(100)).await;
        Ok(())
    });
    let second = Duration::from_secs(1);
    let timeouts = ClientTimeouts { send: 2 * second, receive: 5 * second, ..ClientTimeouts::default() };
    let call = stage.builder().timeouts(timeouts).build().open_call(&post()).await.unwrap();
    let ((mut writer, mut reader), mut response) = (call.split(), Response::new());
    let read = async {
        reader.head(&mut response).await.unwrap();
        assert_eq!(reader.chunk().await.unwrap(), Some(&b"he"[..]));
        reader.chunk().await.map(drop).unwrap_err()
    };
    let began = Instant::now();
    let (error, _) = tokio::join!(read, async {
        while writer.write(&[0; 8192]).await.is_ok_and(|_| writer.is_body_wanted()) {}
    });
    let told = (error.phase(), error.is_timeout(), began.elapsed().as_secs());
    assert_eq!(told, (ClientPhase::Send, true, 2));
}

/// A waker that has another thread drop the other half once it is dropped itself, and waits for that.
struct Last(Option<CallReader>, mpsc::Sender<bool>);

impl Wake for Last {
    fn wake(self: Arc<Last>) {
        drop(self);
    }
}

impl Drop for Last {
    fn drop(&mut self) {
        let (reader, (done, is_done)) = (self.0.take(), mpsc::channel());
        thread::spawn(move || {
            drop(reader);
            done.send(())
        });
        self.1.send(is_done.recv_timeout(Duration::from_secs(10)).is_ok()).unwrap();
    }
}

/// It may be the last that holds its task, which may hold the other half: dropping that must not wait for itself.
#[tokio::test(start_paused = true)]
async fn a_waker_may_drop_the_other_half() {
    let (mut writer, reader) = silence(silent().builder()).await;
    let (noted, is_free) = mpsc::channel();
    let mut write = pin!(async { while writer.write(&[0; 8192]).await.is_ok() {} });
    for waker in [Waker::from(Arc::new(Last(Some(reader), noted))), Waker::noop().clone()] {
        let _ = write.as_mut().poll(&mut task::Context::from_waker(&waker));
    }
    // The server takes nothing, and the end of that wait is the next event. It wakes both wakers.
    sleep(Duration::from_secs(120)).await;
    assert_eq!(is_free.try_recv(), Ok(true));
}

/// If the halves of a call are dropped after its request was sent, its response must not go to the next request.
#[tokio::test(start_paused = true)]
async fn an_abandoned_answer_never_goes_to_the_next_request() {
    for limit in [0, 1, 1000].map(Duration::from_millis) {
        for interim in ["", "HTTP/1.1 103 x\r\n\r\n"] {
            let stage = Stage::new(move |mut peer, number| async move {
                while peer.request().await?.is_some() {
                    peer.send(interim).await?;
                    sleep(Duration::from_millis(2)).await;
                    peer.send(format!("HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\n{number}")).await?;
                }
                Ok(())
            });
            let (client, mut response) = (stage.client(), Response::new());
            let (mut writer, mut reader) = client.open_call(&post()).await.unwrap().split();
            writer.finish().await.unwrap();
            let head = timeout(Duration::from_millis(1), reader.head(&mut response)).await;
            assert!(head.is_err(), "it comes later");
            drop((writer, reader));
            assert_eq!((client.idle_connections(), client.busy_connections()), (0, 0));
            sleep(limit).await;
            assert_eq!(client.get("http://a/").await.unwrap().body.bytes(), b"1");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_body_that_is_shorter_or_longer_than_announced_is_an_error() {
    let stage = Stage::always("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n");
    let mut request = post();
    request.headers.set("content-length", 3).unwrap();
    for body in ["ab", "abcd"] {
        let (mut writer, _reader) = stage.client().open_call(&request).await.unwrap().split();
        let written = async {
            writer.write_all(body.as_bytes()).await?;
            writer.finish().await
        };
        written.await.unwrap_err();
    }
    // That of an earlier exchange must not pass for the response.
    let (client, mut response) = (Stage::always(OK).client(), Response::new());
    client.send(&post(), &mut response).await.unwrap();
    let mut call = client.open_call(&request).await.unwrap();
    call.write_all(b"ab").await.unwrap();
    call.finish(&mut response).await.unwrap_err();
    assert_eq!((response.headers.len(), response.body.bytes()), (0, &b""[..]));
}

/// A reader that asks again, after its time is over, must not give back the connection: the next request would be taken
/// for the rest of the one that was never ended.
#[tokio::test(start_paused = true)]
async fn a_connection_whose_request_was_never_ended_is_not_used_again() {
    let stage = Stage::new(|mut peer, _| async move {
        peer.head().await?;
        sleep(Duration::from_secs(40)).await;
        peer.send(OK).await?;
        peer.receive_all().await
    });
    let (client, mut response) = (stage.client(), Response::new());
    let (writer, mut reader) = client.open_call(&post()).await.unwrap().split();
    drop(writer);
    let error = reader.head(&mut response).await.unwrap_err();
    assert!(matches!(error.cause(), ClientCause::Exchange(ExchangeError::Length)), "{error:?}");
    sleep(Duration::from_secs(20)).await;
    reader.head(&mut response).await.unwrap();
    while reader.chunk().await.unwrap().is_some() {}
    drop(reader);
    assert_eq!((client.idle_connections(), client.busy_connections()), (0, 0));
}

/// A head that is refused has come, and is lost. A reader that asks again must not take an empty one for it.
#[cfg(feature = "compress")]
#[tokio::test(start_paused = true)]
async fn a_head_that_was_refused_is_refused_again() {
    let codings = ["gzip"; 5].join(", ");
    let stage = Stage::always(format!(
        "HTTP/1.1 404 x\r\ncontent-encoding: {codings}\r\ncontent-length: 2\r\n\r\nok"
    ));
    let client = stage.builder().decode_up_to(1 << 20).build();
    for request in [crate::support::get(), post()] {
        let (mut writer, mut reader) = client.open_call(&request).await.unwrap().split();
        writer.finish().await.unwrap();
        let (mut response, mut shown) = (Response::new(), Vec::new());
        for _ in 0..3 {
            let error = reader.head(&mut response).await.unwrap_err();
            assert!(matches!(error.cause(), ClientCause::Coding(_)), "{error:?}");
            shown.push(format!("{error:#}"));
            assert!(reader.chunk().await.is_err());
        }
        assert!(shown.iter().all(|again| *again == shown[0]), "{shown:?}");
        assert_eq!(response.headers.iter().next(), None);
        drop((writer, reader));
        assert_eq!((client.idle_connections(), client.busy_connections()), (0, 0));
    }
}

/// A body that is read through [`AsyncRead`](tokio::io::AsyncRead) has its trailers at the end, also if the end is read
/// twice; a read without any room loses nothing.
#[tokio::test(start_paused = true)]
async fn a_body_and_its_trailers_are_the_same_however_they_are_read() {
    let stage = Stage::always(
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nx-sum: 5\r\n\r\n",
    );
    let (client, mut response) = (stage.client(), Response::new());
    for is_read in [false, true] {
        let (mut writer, mut reader) = client.open_call(&post()).await.unwrap().split();
        writer.finish().await.unwrap();
        reader.head(&mut response).await.unwrap();
        let mut body = Vec::new();
        match is_read {
            true => {
                assert_eq!(reader.read(&mut []).await.unwrap(), 0);
                reader.read_to_end(&mut body).await.unwrap();
            }
            false => {
                while let Some(chunk) = reader.chunk().await.unwrap() {
                    body.extend_from_slice(chunk);
                }
            }
        }
        assert_eq!((&body[..], reader.trailers().get("x-sum")), (&b"hello"[..], Some("5")), "{is_read}");
        assert_eq!(reader.chunk().await.unwrap(), None);
        assert_eq!(reader.trailers().get("x-sum"), Some("5"), "{is_read}");
    }
}

/// A body whose head has not come has no end, and no content either.
#[tokio::test(start_paused = true)]
async fn a_body_without_its_head_is_an_error_however_it_is_read() {
    for said in ["", "HTTP/1.1 200", "HTTP/1.1 103 x\r\n\r\nHTTP/1.1 404 x\r\nx: y", "nonsense\r\n\r\n"] {
        let stage = Stage::new(move |mut peer, _| async move {
            peer.request().await?;
            peer.send(said).await
        });
        for is_asked in [false, true] {
            let (client, mut response) = (stage.client(), Response::new());
            let (mut writer, mut reader) = client.open_call(&post()).await.unwrap().split();
            writer.finish().await.unwrap();
            if is_asked {
                reader.head(&mut response).await.unwrap_err();
                assert_eq!(response.status.as_u16(), 200, "{said:?}");
            }
            assert!(reader.chunk().await.is_err(), "{said:?}");
            assert!(reader.read_to_end(&mut Vec::new()).await.is_err(), "{said:?}");
            drop((writer, reader));
            assert_eq!((client.idle_connections(), client.busy_connections()), (0, 0));
        }
        let (client, mut response) = (stage.client(), Response::new());
        client.send(&post(), &mut response).await.unwrap_err();
        assert_eq!(response.status.as_u16(), 200, "{said:?}");
    }
}

/// Every read behind the cut fails, and the connection is closed.
#[tokio::test(start_paused = true)]
async fn a_body_that_is_cut_short_is_an_error_however_it_is_read() {
    for is_read in [false, true] {
        let stage = Stage::new(|mut peer, _| async move {
            peer.request().await?;
            peer.send("HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhell").await
        });
        let (client, mut response, mut body) = (stage.client(), Response::new(), Vec::new());
        let (mut writer, mut reader) = client.open_call(&post()).await.unwrap().split();
        writer.finish().await.unwrap();
        reader.head(&mut response).await.unwrap();
        for _ in 0..2 {
            match is_read {
                true => drop(reader.read_to_end(&mut body).await.unwrap_err()),
                false => while reader.chunk().await.is_ok_and(|chunk| chunk.is_some()) {},
            }
            assert!(reader.chunk().await.is_err(), "{is_read}");
        }
        drop((writer, reader));
        assert_eq!((client.idle_connections(), client.busy_connections()), (0, 0));
    }
}

/// A response that comes before the call is split must not be lost: its reader would see a 200.
#[tokio::test(start_paused = true)]
async fn a_response_that_came_before_the_split_is_not_lost() {
    for (status, is_read) in [(413, false), (201, true)] {
        let stage = Stage::new(move |mut peer, _| async move {
            peer.head().await?;
            peer.send(format!("HTTP/1.1 {status} x\r\nx-early: yes\r\ncontent-length: 2\r\n\r\nok")).await?;
            match is_read {
                true => peer.receive_all().await,
                false => std::future::pending().await,
            }
        });
        let mut call = stage.client().open_call(&post()).await.unwrap();
        for piece in vec![0; 1 << 20].chunks(1 << 17) {
            call.write_all(piece).await.unwrap();
            settle().await;
        }
        assert_eq!(call.is_body_wanted(), is_read, "{status}");
        let (mut writer, mut reader) = call.split();
        writer.finish().await.unwrap();
        let mut response = Response::new();
        reader.head(&mut response).await.unwrap();
        assert_eq!((response.status.as_u16(), response.headers.get("x-early")), (status, Some("yes")));
        assert_eq!(reader.chunk().await.unwrap(), Some(&b"ok"[..]));
    }
}

/// The time of the response begins when the request is sent, though its reader waits for longer.
#[tokio::test(start_paused = true)]
async fn a_silent_server_is_timed_from_the_end_of_the_request() {
    let stage = Stage::new(|mut peer, _| async move { peer.receive_all().await });
    let (mut writer, mut reader) = stage.client().open_call(&post()).await.unwrap().split();
    let write = async {
        for _ in 0..10 {
            writer.write_all(b"piece").await.unwrap();
            writer.flush().await.unwrap();
            tokio::time::sleep(Duration::from_secs(20)).await;
        }
        writer.finish().await.unwrap();
        tokio::time::Instant::now()
    };
    let mut response = Response::new();
    let (sent, head) = tokio::join!(write, reader.head(&mut response));
    let waited = sent.elapsed().as_secs();
    assert!(head.unwrap_err().is_timeout() && (29..=31).contains(&waited), "{waited} s");
}

#[tokio::test(start_paused = true)]
async fn the_time_of_a_response_runs_though_nobody_reads_it_yet() {
    let (mut writer, mut reader) = silence(silent().builder()).await;
    writer.finish().await.unwrap();
    let sent = Instant::now();
    sleep(Duration::from_secs(20)).await;
    let head = reader.head(&mut Response::new()).await;
    assert!(head.unwrap_err().is_timeout() && sent.elapsed().as_secs() == 30);
}

#[tokio::test(start_paused = true)]
async fn the_time_of_a_response_is_over_once_its_head_has_come() {
    let second = Duration::from_secs(1);
    let stage = Stage::new(move |mut peer, _| async move {
        peer.head().await?;
        peer.send("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n").await?;
        sleep(9 * second).await;
        peer.send("ok").await?;
        peer.receive_all().await
    });
    let timeouts = ClientTimeouts { wait: 3 * second, ..ClientTimeouts::default() };
    let (mut writer, mut reader) = silence(stage.builder().timeouts(timeouts)).await;
    reader.head(&mut Response::new()).await.unwrap();
    writer.finish().await.unwrap();
    assert_eq!(reader.chunk().await.unwrap(), Some(&b"ok"[..]));
}

/// Small pieces are gathered, and gathered pieces cannot leave.
#[tokio::test(start_paused = true)]
async fn a_response_is_read_though_the_server_has_stopped_reading() {
    for piece in [1000, 32 << 10] {
        let stage = Stage::new(|mut peer, _| async move {
            peer.head().await?;
            peer.send("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\no").await?;
            sleep(Duration::from_secs(1)).await;
            peer.send("k").await?;
            std::future::pending().await
        });
        let (mut writer, mut reader) = silence(stage.builder()).await;
        let write = async {
            for _ in 0..1000 {
                writer.write_all(&vec![0; piece]).await.unwrap();
            }
        };
        let read = async {
            let mut received = Vec::new();
            reader.head(&mut Response::new()).await.unwrap();
            reader.read_to_end(&mut received).await.map(|_| received)
        };
        tokio::select! {
            received = read => assert_eq!(received.unwrap(), b"ok", "{piece}"),
            () = async { tokio::join!(write, std::future::pending::<()>()); } => unreachable!("it does not end"),
        }
    }
}

/// The halves of a call to a server that neither reads nor answers.
async fn silence(client: ClientBuilder) -> (CallWriter, CallReader) {
    client.build().open_call(&post()).await.unwrap().split()
}

fn silent() -> Stage {
    Stage::new(|peer, _| async move {
        std::future::pending::<()>().await;
        drop(peer);
        Ok(())
    })
}

/// A connection has one alarm. If it woke only the half that polled last, the other one would wait for ever.
#[tokio::test(start_paused = true)]
async fn halves_in_two_tasks_time_out_whichever_polls_last() {
    let second = Duration::from_secs(1);
    let timeouts = ClientTimeouts { send: 2 * second, wait: 3 * second, ..ClientTimeouts::default() };
    let (whole, phases) =
        (|| silent().builder().timeout(5 * second), || silent().builder().timeouts(timeouts));
    for (client, is_reader_last, expected) in [
        (whole(), true, (5, 5)),
        (whole(), false, (5, 5)),
        // The writer fails, is dropped, and then the server has its time.
        (phases(), true, (2, 5)),
        (phases(), false, (2, 5)),
    ] {
        let (mut writer, mut reader) = silence(client).await;
        let start = Instant::now();
        let write = async move {
            let failed = loop {
                if let Err(error) = writer.write(&[0; 8192]).await {
                    break error;
                }
            };
            (failed.is_timeout(), start.elapsed().as_secs())
        };
        let read = async move {
            let failed = reader.head(&mut Response::new()).await.unwrap_err();
            (failed.is_timeout() || failed.phase() == ClientPhase::Send, start.elapsed().as_secs())
        };
        let (write, read) = match is_reader_last {
            true => {
                let write = tokio::spawn(write);
                settle().await;
                (write, tokio::spawn(read))
            }
            false => {
                let read = tokio::spawn(read);
                settle().await;
                (tokio::spawn(write), read)
            }
        };
        let ended =
            tokio::time::timeout(60 * second, async { (write.await.unwrap(), read.await.unwrap()) }).await;
        let ((is_timeout, wrote), (is_told, read)) = ended.expect("both are woken");
        assert!(
            is_timeout && is_told && (wrote, read) == expected,
            "{wrote} s and {read} s, not {expected:?}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_wait_for_an_interim_response_ends_with_the_time_of_the_exchange() {
    let (_writer, mut reader) = silence(silent().builder().timeout(Duration::from_secs(5))).await;
    let start = Instant::now();
    let waited = timeout(Duration::from_secs(60), reader.informational()).await.expect("it ends");
    assert!(waited.unwrap_err().is_timeout() && start.elapsed().as_secs() == 5);
}

#[tokio::test(start_paused = true)]
async fn a_reader_whose_writer_was_dropped_does_not_wait_for_ever() {
    let (mut writer, mut reader) = silence(silent().builder()).await;
    let start = Instant::now();
    let read = tokio::spawn(async move { reader.head(&mut Response::new()).await });
    writer.write(b"a piece").await.unwrap();
    drop(writer);
    let error = tokio::time::timeout(Duration::from_secs(60), read).await.expect("it is woken").unwrap();
    assert_eq!((error.unwrap_err().phase(), start.elapsed().as_secs()), (ClientPhase::Send, 30));
}

/// A writer that has failed and is still there must not have the reader wait, as if more of the request could come.
#[tokio::test(start_paused = true)]
async fn a_reader_whose_writer_has_failed_does_not_wait_for_ever() {
    for said in ["", "HTTP/1.1 200 OK\r\n", "HTTP/1.1 100 Continue\r\n\r\n"] {
        // Too much to be written, too much to be flushed at the end, and more or less than was announced.
        for (size, announced, seconds) in
            [(1 << 20, None, 90), (65 << 10, None, 90), (5, Some(4), 30), (5, Some(6), 30)]
        {
            let stage = Stage::new(move |mut peer, _| async move {
                peer.send(said).await?;
                std::future::pending().await
            });
            let mut request = post();
            announced.iter().for_each(|length| request.headers.set("content-length", *length).unwrap());
            let (mut writer, mut reader) = stage.client().open_call(&request).await.unwrap().split();
            let (start, body) = (Instant::now(), vec![0; size]);
            let write = async {
                writer.write_all(&body).await?;
                writer.finish().await
            };
            let mut response = Response::new();
            let both = async { tokio::join!(write, reader.head(&mut response)) };
            let (written, head) = timeout(Duration::from_secs(100), both).await.expect("it ends");
            for error in [written.unwrap_err(), head.unwrap_err()] {
                assert_eq!(
                    (error.phase(), error.is_timeout()),
                    (ClientPhase::Send, announced.is_none()),
                    "{said:?} {size}: {error:?}"
                );
            }
            assert_eq!(start.elapsed().as_secs(), seconds, "{said:?} {size}: the server has its time");
        }
    }
}

/// The half that finds out must not leave the other one to wait for ever, or to take what follows for the response.
#[tokio::test(start_paused = true)]
async fn nothing_follows_a_bad_head_whichever_half_finds_out() {
    for bad in [
        "HTTP/1.1 200 OK\r\ncontent-length: 2, 2\r\n\r\n".into(),
        "HTTP/1.1 200 OK\r\ntransfer-encoding: gzip\r\n\r\n".into(),
        "HTTP/1.1 200\n\r\n".into(),
        "HTTP/1.1 101 Switching Protocols\r\n\r\n".into(),
        "HTTP/1.1 102 Processing\r\n\r\n".repeat(2_429),
    ] {
        for (rest, is_found_by_writer) in [("", true), ("", false), (OK, true), (OK, false)] {
            let said = format!("{bad}{rest}");
            let stage = Stage::new(move |mut peer, _| {
                let said = said.clone();
                async move {
                    peer.head().await?;
                    peer.send(said).await?;
                    std::future::pending().await
                }
            });
            let (mut writer, mut reader) = silence(stage.builder()).await;
            let (start, mut response) = (Instant::now(), Response::new());
            let (write, read) = (writer.write_all(&[0; 1 << 20]), reader.head(&mut response));
            let (wrote, read) = match is_found_by_writer {
                true => tokio::join!(write, read),
                false => {
                    let (read, wrote) = tokio::join!(read, write);
                    (wrote, read)
                }
            };
            assert!(wrote.is_err() && read.is_err(), "{bad:?} {rest:?}: {wrote:?}, {read:?}");
            assert!(start.elapsed().is_zero(), "{bad:?} {rest:?}: {:?}", start.elapsed());
        }
    }
}

/// The reader waits already, and nothing else wakes it.
#[tokio::test(start_paused = true)]
async fn a_reader_in_another_task_learns_that_its_writer_is_over() {
    for finishes in [true, false] {
        let (mut writer, mut reader) = silence(silent().builder()).await;
        let read = tokio::spawn(async move { reader.head(&mut Response::new()).await.unwrap_err() });
        settle().await;
        if finishes {
            writer.finish().await.unwrap();
        }
        let _rest = finishes.then_some(writer);
        let error = timeout(Duration::from_secs(60), read).await.expect("it is woken").unwrap();
        assert_eq!(error.is_timeout(), finishes, "{error:?}");
    }
}

/// A writer that meets the closed connection must not fail: the response would be lost.
#[tokio::test(start_paused = true)]
async fn a_refusal_before_a_close_is_heard_whichever_half_finds_out() {
    for (close, is_found_by_writer) in [("", true), ("", false), ("connection: close\r\n", true)] {
        let refusal = format!("HTTP/1.1 413 x\r\n{close}content-length: 8\r\n\r\nenough!\n");
        let stage = Stage::new(move |mut peer, _| {
            let refusal = refusal.clone();
            async move {
                peer.head().await?;
                peer.send(refusal).await
            }
        });
        let (client, mut response) = (stage.client(), Response::new());
        let (mut writer, mut reader) = client.open_call(&post()).await.unwrap().split();
        settle().await;
        let write = async {
            for _ in 0..100 {
                writer.write_all(&[0; 8192]).await?;
            }
            writer.finish().await
        };
        match is_found_by_writer {
            true => {
                write.await.unwrap();
                reader.head(&mut response).await.unwrap();
            }
            false => {
                reader.head(&mut response).await.unwrap();
                write.await.unwrap();
            }
        }
        let mut body = String::new();
        reader.read_to_string(&mut body).await.unwrap();
        assert_eq!((response.status.as_u16(), &*body), (413, "enough!\n"));
        drop((writer, reader));
        assert_eq!((client.idle_connections(), client.busy_connections()), (0, 0));
    }
}

/// The system tells at once that nothing can be written, and only later that there is something to read.
#[tokio::test]
async fn a_failed_write_waits_for_a_response_that_is_on_its_way() {
    for is_split in [false, true] {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap());
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            assert!(stream.read(&mut [0; 4096]).unwrap() > 0);
            stream.write_all(b"HTTP/1.1 413 x\r\ncontent-length: 2\r\n\r\nno").unwrap();
        });
        let call = Client::new().open_call(&Request::post(&url).unwrap()).await.unwrap();
        server.join().unwrap();
        let (mut response, mut body) = (Response::new(), String::new());
        match is_split {
            true => {
                let (mut writer, mut reader) = call.split();
                flood(async |data| writer.write_all(data).await).await;
                reader.head(&mut response).await.unwrap();
                reader.read_to_string(&mut body).await.unwrap();
            }
            false => {
                let mut call = call;
                flood(async |data| call.write_all(data).await).await;
                let mut response = call.finish(&mut response).await.unwrap();
                response.read_to_string(&mut body).await.unwrap();
            }
        }
        assert_eq!((response.status.as_u16(), &*body), (413, "no"));
    }
}

/// Writes more than a connection buffers if its peer does not read.
async fn flood(mut write: impl AsyncFnMut(&[u8]) -> Result<(), ClientError>) {
    for _ in 0..1000 {
        write(&[0; 32 << 10]).await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_closes_without_a_response_fails_both_halves() {
    let stage = Stage::new(|mut peer, _| async move { peer.head().await.map(drop) });
    let (mut writer, mut reader) = stage.client().open_call(&post()).await.unwrap().split();
    settle().await;
    let failed = loop {
        if let Err(error) = writer.write_all(&[0; 8192]).await {
            break error;
        }
    };
    assert_eq!(failed.phase(), ClientPhase::Send);
    reader.head(&mut Response::new()).await.unwrap_err();
}

/// The outcome with a server that answers `hello` with this framing while the request is sent, and then is gone.
async fn hello_before_the_end(
    framing: &'static str,
    is_reset: bool,
    way: Way,
) -> Result<String, ClientError> {
    let server = Scripted::new(move |mut peer, _| async move {
        peer.head().await?;
        peer.send(format!("HTTP/1.1 200 OK\r\n{framing}\r\nhello")).await?;
        // A reset would overtake what was just said. Behind an end it is not received.
        tokio::time::sleep(Duration::from_millis(20)).await;
        if !is_reset {
            peer.stream.shutdown().await?;
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        peer.reset();
        Ok(())
    })
    .await;
    let (client, mut request, mut response) =
        (Client::new(), Request::post(&server.url).unwrap(), Response::new());
    match way {
        Way::Whole => {
            request.body.set_bytes(vec![0; SIZE]);
            client.send(&request, &mut response).await?;
            Ok(response.body.text().unwrap().into())
        }
        Way::Streamed => {
            request.body.set_stream(tokio::io::repeat(0), None);
            let mut received = client.open_response(&request, &mut response).await?;
            let mut body = String::new();
            while let Some(chunk) = received.chunk().await? {
                body.push_str(str::from_utf8(chunk).unwrap());
            }
            Ok(body)
        }
        Way::Split => {
            let (mut writer, mut reader) = client.open_call(&request).await?.split();
            flood(async |data| writer.write_all(data).await).await;
            reader.head(&mut response).await?;
            let mut body = String::new();
            while let Some(chunk) = reader.chunk().await? {
                body.push_str(str::from_utf8(chunk).unwrap());
            }
            Ok(body)
        }
    }
}

#[derive(Clone, Copy, Debug)]
enum Way {
    Whole,
    Streamed,
    Split,
}

/// The operating system reports a reset only once, to the writer. The reader then sees a clean end, which is also the
/// only end of such a body (RFC 9112 §6.3, §8).
#[tokio::test]
async fn a_reset_that_the_writer_has_heard_of_does_not_end_a_body() {
    for way in [Way::Whole, Way::Streamed, Way::Split] {
        for (framing, is_reset) in
            [("", false), ("content-length: 5\r\n", false), ("content-length: 5\r\n", true)]
        {
            let received = hello_before_the_end(framing, is_reset, way).await;
            assert_eq!(received.unwrap(), "hello", "{framing:?} {is_reset} {way:?}");
        }
        let received = hello_before_the_end("", true, way).await;
        let error = received.expect_err(&format!("{way:?}"));
        assert!(
            matches!(error.cause(), ClientCause::Exchange(ExchangeError::Io(error))
                if error.kind() == ErrorKind::ConnectionReset),
            "{way:?}: {error:?}"
        );
    }
}

/// A stream that takes little, says something, and reports a reset only once: after that it seems to end.
struct Reset {
    room: usize,
    said: &'static [u8],
    is_told: bool,
}

struct Resets(&'static [u8]);

impl Dialer for Resets {
    type Stream = Reset;

    async fn dial(&self, _: &str, _: u16) -> io::Result<Reset> {
        Ok(Reset { room: 1000, said: self.0, is_told: false })
    }
}

impl AsyncRead for Reset {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _: &mut task::Context<'_>,
        out: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        out.put_slice(std::mem::take(&mut self.said));
        match !out.filled().is_empty() || std::mem::replace(&mut self.is_told, true) {
            true => Poll::Ready(Ok(())),
            false => Poll::Ready(Err(ErrorKind::ConnectionReset.into())),
        }
    }
}

impl AsyncWrite for Reset {
    fn poll_write(
        mut self: Pin<&mut Self>,
        _: &mut task::Context<'_>,
        data: &[u8],
    ) -> Poll<io::Result<usize>> {
        match data.len().min(self.room) {
            0 => Poll::Pending,
            count => {
                self.room -= count;
                Poll::Ready(Ok(count))
            }
        }
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut task::Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut task::Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

/// The reset may be reported to the read that looks for a response while the request is still being sent.
#[tokio::test(start_paused = true)]
async fn a_reset_while_the_request_is_sent_does_not_end_a_body() {
    for (wire, is_good) in [
        (&b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello"[..], true),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\nhello", false),
        (b"HTTP/1.1 200 OK\r\n\r\nhello", false),
        (b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n", true),
        (b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n", false),
    ] {
        let client = Client::builder().dialer(Resets(wire)).build();
        let (mut request, mut response) = (post(), Response::new());
        request.body.set_bytes(vec![0; 1 << 20]);
        match client.send(&request, &mut response).await {
            Ok(()) => assert!(is_good && response.body.bytes() == b"hello", "{}", wire.escape_ascii()),
            Err(error) => assert!(!is_good && !error.is_timeout(), "{}: {error:#}", wire.escape_ascii()),
        }
        assert_eq!((client.idle_connections(), client.busy_connections()), (0, 0));
    }
}
