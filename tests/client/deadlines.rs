//! A limit for the whole exchange is over whatever the server does and however the caller polls; a limit of a phase or
//! of a rate counts only the time of the server. The clock is paused.

use std::future::pending;
use std::io;
use std::time::Duration;

use corehttp::client::{ClientLimits, ClientTimeouts, ResponseReader};
use corehttp::sse::EventReader;
use corehttp::{Client, Request, Response};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::{Instant, sleep, timeout};

use crate::support::{OK, Stage, ask, get, post, settle};

const SECOND: Duration = Duration::from_secs(1);
const TOTAL: Duration = Duration::from_millis(300);
/// The pause of a caller between two reads or writes.
const PAUSE: Duration = Duration::from_millis(5);

/// A server that sends `head`, and then `piece` again and again, as fast as it is read.
fn flood(head: &'static str, piece: Vec<u8>) -> Stage {
    Stage::new(move |mut peer, _| {
        let piece = piece.clone();
        async move {
            peer.head().await?;
            peer.send(head).await?;
            loop {
                peer.send(&piece).await?;
            }
        }
    })
}

const CHUNKED: &str = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";

fn chunks() -> Stage {
    flood(CHUNKED, format!("400\r\n{:1024}\r\n", "").into_bytes())
}

/// Does `step` with a pause after each, which fails once the time of the exchange is over, and not a step later.
async fn ends_in_time(what: &str, mut step: impl AsyncFnMut() -> io::Result<()>) {
    let start = Instant::now();
    let error = loop {
        match step().await {
            Ok(()) if start.elapsed() > 10 * TOTAL => panic!("{what}: no error after {:?}", start.elapsed()),
            Ok(()) => sleep(PAUSE).await,
            Err(error) => break error,
        }
    };
    let took = start.elapsed();
    assert_eq!(error.kind(), io::ErrorKind::TimedOut, "{what}: {error:?}");
    // Bytes that are read through a buffer may come from there for a few steps.
    assert!((TOTAL..TOTAL + 10 * PAUSE).contains(&took), "{what}: {took:?}");
}

async fn open_response(client: &Client) -> ResponseReader {
    client.open_response(&get(), &mut Response::new()).await.unwrap()
}

/// A flood kept each read ready, and the limit was only looked at by one that had to wait.
#[tokio::test(start_paused = true)]
async fn the_total_time_ends_a_read_although_there_is_always_data() {
    let client = chunks().builder().timeout(TOTAL).build();
    let mut streamed = open_response(&client).await;
    ends_in_time("stream", async || Ok(streamed.chunk().await.map(drop)?)).await;
    assert_eq!((client.busy_connections(), client.idle_connections()), (0, 0));
    let mut read = open_response(&client).await;
    ends_in_time("AsyncRead", async || read.read(&mut [0; 100]).await.map(drop)).await;
    let host = client.host("http://a").unwrap();
    let mut streamed = host.open_response(&get(), &mut Response::new()).await.unwrap();
    ends_in_time("host", async || Ok(streamed.chunk().await.map(drop)?)).await;
    let balancer = client.balance(["http://a"]).unwrap().build();
    let mut streamed =
        balancer.open_response(&Request::get("/").unwrap(), &mut Response::new()).await.unwrap();
    ends_in_time("balancer", async || Ok(streamed.chunk().await.map(drop)?)).await;
    let (_writer, mut reader) = client.open_call(&get()).await.unwrap().split();
    reader.head(&mut Response::new()).await.unwrap();
    ends_in_time("half", async || Ok(reader.chunk().await.map(drop)?)).await;
    let (_writer, mut reader) = client.open_call(&get()).await.unwrap().split();
    reader.head(&mut Response::new()).await.unwrap();
    ends_in_time("half, AsyncRead", async || reader.read(&mut [0; 100]).await.map(drop)).await;
    let mut finished = client.open_call(&post()).await.unwrap().finish(&mut Response::new()).await.unwrap();
    ends_in_time("finished call", async || Ok(finished.chunk().await.map(drop)?)).await;
    let until_close = flood("HTTP/1.1 200 OK\r\n\r\n", vec![0; 1000]);
    let mut streamed = open_response(&until_close.builder().timeout(TOTAL).build()).await;
    ends_in_time("until close", async || Ok(streamed.chunk().await.map(drop)?)).await;
}

/// To take bytes from a buffer is a read, too.
#[tokio::test(start_paused = true)]
async fn the_total_time_ends_a_reader_of_events() {
    let events = flood("HTTP/1.1 200 OK\r\n\r\n", b"data: x\n\n".repeat(100));
    let mut reader = EventReader::new(open_response(&events.builder().timeout(TOTAL).build()).await);
    ends_in_time("events", async || reader.event().await.map(drop)).await;
    let (_writer, reader) = events.builder().timeout(TOTAL).build().open_call(&get()).await.unwrap().split();
    let mut reader = EventReader::new(reader);
    ends_in_time("events of a half", async || reader.event().await.map(drop)).await;
}

#[cfg(feature = "multipart")]
#[tokio::test(start_paused = true)]
async fn the_total_time_ends_a_reader_of_parts() {
    use corehttp::multipart::{Multipart, MultipartLimits};

    let part = b"\r\n--b\r\ncontent-disposition: form-data; name=\"a\"\r\n\r\nx".repeat(100);
    let parts = flood("HTTP/1.1 200 OK\r\n\r\n", part);
    let client = parts.builder().timeout(TOTAL).build();
    let limits = MultipartLimits { parts_max: usize::MAX, ..MultipartLimits::default() };
    let mut parts = Multipart::new(open_response(&client).await, "b", limits).unwrap();
    ends_in_time("parts", async || parts.part().await.map(drop)).await;
}

#[cfg(feature = "compress")]
#[tokio::test(start_paused = true)]
async fn the_total_time_ends_decoding() {
    use std::io::Write;

    let mut coded = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    coded.write_all(&vec![0; 1 << 20]).unwrap();
    let members = flood("HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\n\r\n", coded.finish().unwrap());
    let client = members.builder().decode_up_to(usize::MAX).timeout(TOTAL).build();
    let mut decoded = open_response(&client).await;
    ends_in_time("decoded", async || Ok(decoded.chunk().await.map(drop)?)).await;
    let mut decoded = open_response(&client).await;
    ends_in_time("decoded, AsyncRead", async || decoded.read(&mut [0; 100]).await.map(drop)).await;
}

/// A server that reads all that comes, and never answers.
fn sink() -> Stage {
    Stage::new(|mut peer, _| async move { peer.receive_all().await })
}

#[tokio::test(start_paused = true)]
async fn the_total_time_ends_a_write_although_there_is_always_room() {
    let (client, piece) = (sink().builder().timeout(TOTAL).build(), vec![0; 20_000]);
    for size in [1, piece.len()] {
        let mut call = client.open_call(&post()).await.unwrap();
        ends_in_time("call", async || Ok(call.write_all(&piece[..size]).await?)).await;
        let mut call = client.open_call(&post()).await.unwrap();
        ends_in_time("call, flushed", async || {
            call.write_all(&piece[..size]).await?;
            Ok(call.flush().await?)
        })
        .await;
        let mut call = client.open_call(&post()).await.unwrap();
        ends_in_time("call, AsyncWrite", async || {
            AsyncWriteExt::write_all(&mut call, &piece[..size]).await?;
            AsyncWriteExt::flush(&mut call).await
        })
        .await;
        let (mut writer, _reader) = client.open_call(&post()).await.unwrap().split();
        ends_in_time("half", async || Ok(writer.write_all(&piece[..size]).await?)).await;
        let balancer = client.balance(["http://a"]).unwrap().build();
        let mut call = balancer.open_call(&Request::post("/").unwrap()).await.unwrap();
        ends_in_time("balancer", async || Ok(call.write_all(&piece[..size]).await?)).await;
    }
    let mut call = client.open_call(&post()).await.unwrap();
    ends_in_time("nothing but flushes", async || Ok(call.flush().await?)).await;
    // A server that has refused the request takes whatever is written.
    let refuses = Stage::new(|mut peer, _| async move {
        peer.head().await?;
        peer.send("HTTP/1.1 413 x\r\ncontent-length: 9\r\n\r\n").await?;
        pending().await
    });
    let mut call = refuses.builder().timeout(TOTAL).build().open_call(&post()).await.unwrap();
    settle().await;
    ends_in_time("refused", async || Ok(call.write_all(&piece).await?)).await;
    // Interim responses without end, taken one by one.
    let hints = flood("", b"HTTP/1.1 103 x\r\n\r\n".to_vec());
    let (_writer, mut reader) =
        hints.builder().timeout(TOTAL).build().open_call(&post()).await.unwrap().split();
    ends_in_time("interim responses", async || {
        // There may be 16 of them.
        sleep(4 * PAUSE).await;
        Ok(reader.informational().await.map(drop)?)
    })
    .await;
}

/// A future that is always ready to go on is stopped as well.
#[tokio::test(start_paused = true)]
async fn the_total_time_ends_an_exchange_that_never_waits() {
    let client = chunks()
        .builder()
        .timeout(TOTAL)
        .limits(ClientLimits { body_max: usize::MAX, ..ClientLimits::default() })
        .build();
    let busy = async || {
        // The clock of a test stands still while there is anything to do.
        loop {
            tokio::time::advance(PAUSE).await;
        }
    };
    let (request, mut response, start) = (get(), Response::new(), Instant::now());
    let error = tokio::select! {
        sent = client.send(&request, &mut response) => sent.unwrap_err(),
        () = busy() => unreachable!("it is never done"),
    };
    assert!(error.is_timeout() && start.elapsed() < 2 * TOTAL, "{error:?} after {:?}", start.elapsed());
}

/// A caller who sleeps longer than the whole exchange may take finds that it is over, whatever has come meanwhile.
#[tokio::test(start_paused = true)]
async fn the_sleep_of_the_caller_counts_against_the_total_time() {
    let large = Stage::always(format!("HTTP/1.1 200 OK\r\ncontent-length: 30000\r\n\r\n{:30000}", ""));
    let client = large.builder().timeout(SECOND).build();
    for pause in [SECOND / 2, 2 * SECOND] {
        let mut read = open_response(&client).await;
        sleep(pause).await;
        let end = read.read_to_end(&mut Vec::new()).await.map_err(|error| error.kind());
        assert_eq!(end, if pause < SECOND { Ok(30_000) } else { Err(io::ErrorKind::TimedOut) });
    }
    let (pipeline, path, request) =
        (client.pipeline("http://a").unwrap().build(), Request::get("/").unwrap(), get());
    let (mut response, mut other) = (Response::new(), Response::new());
    let mut piped = Box::pin(pipeline.send(&path, &mut response));
    let mut sent = Box::pin(client.send(&request, &mut other));
    for begun in [timeout(Duration::ZERO, piped.as_mut()).await, timeout(Duration::ZERO, sent.as_mut()).await]
    {
        assert!(begun.is_err());
    }
    sleep(2 * SECOND).await;
    assert!(piped.await.unwrap_err().is_timeout());
    assert!(sent.await.unwrap_err().is_timeout());
    // All of it was received before.
    let mut short = open_response(&Stage::always(OK).builder().timeout(SECOND).build()).await;
    assert_eq!(short.chunk().await.unwrap(), Some(&b"ok"[..]));
    sleep(2 * SECOND).await;
    assert_eq!(short.chunk().await.unwrap(), None);
}

/// The server's silence is timed while somebody waits for it.
#[tokio::test(start_paused = true)]
async fn the_sleep_of_the_caller_does_not_count_against_a_phase() {
    // A piece comes 50 seconds after the one before, and is waited for in the last 5 of them.
    let slow = || {
        Stage::new(|mut peer, _| async move {
            peer.head().await?;
            peer.send("HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\n").await?;
            for piece in ["a", "b", "c"] {
                sleep(50 * SECOND).await;
                peer.send(piece).await?;
            }
            Ok(())
        })
    };
    for gives_up in [false, true] {
        let (client, mut received) = (slow().client(), String::new());
        let (mut chunks, mut read) = (open_response(&client).await, open_response(&client).await);
        let (_writer, mut half) = client.open_call(&get()).await.unwrap().split();
        half.head(&mut Response::new()).await.unwrap();
        for _ in 0..3 {
            let start = Instant::now();
            if gives_up {
                timeout(SECOND, chunks.chunk()).await.unwrap_err();
                timeout(SECOND, read.read_u8()).await.unwrap_err();
                timeout(SECOND, half.chunk()).await.unwrap_err();
            }
            sleep(45 * SECOND - start.elapsed()).await;
            let (chunk, read, half) = tokio::join!(chunks.chunk(), read.read_u8(), half.chunk());
            let pieces = [chunk.unwrap().unwrap(), &[read.unwrap()], half.unwrap().unwrap()];
            received.extend(pieces.map(|piece| str::from_utf8(piece).unwrap()));
        }
        assert_eq!(received, "aaabbbccc");
    }
    // But each time that is waited counts, until they are too long together.
    let silent = Stage::new(|mut peer, _| async move {
        peer.send("HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\n").await?;
        pending().await
    });
    let (client, mut rounds) = (silent.client(), [0, 0]);
    let (mut chunks, mut read) = (open_response(&client).await, open_response(&client).await);
    while timeout(SECOND, chunks.chunk()).await.map(Result::unwrap_err).is_err() {
        rounds[0] += 1;
        sleep(45 * SECOND).await;
    }
    while timeout(SECOND, read.read_u8()).await.map(Result::unwrap_err).is_err() {
        rounds[1] += 1;
        sleep(45 * SECOND).await;
    }
    assert!(rounds.iter().all(|rounds| (28..=30).contains(rounds)), "{rounds:?}");
}

/// Says each packet after so many milliseconds.
fn packets(packets: &[(u64, &[u8])]) -> Stage {
    let packets = Vec::from_iter(packets.iter().map(|(after, packet)| (*after, packet.to_vec())));
    Stage::new(move |mut peer, _| {
        let packets = packets.clone();
        async move {
            peer.request().await?;
            for (after, packet) in packets {
                sleep(Duration::from_millis(after)).await;
                peer.send(packet).await?;
                settle().await;
            }
            pending().await
        }
    })
}

/// The milliseconds after the one before it, and its bytes.
type Packet<'a> = (u64, &'a [u8]);

/// Whether a response in these packets is whole, by default and with a minimal rate.
async fn check(what: &str, said: &[Packet<'_>], [by_default, with_rate]: [bool; 2]) {
    let rated = ClientTimeouts { receive_rate_min: 500, ..ClientTimeouts::default() };
    for (timeouts, is_whole) in [(ClientTimeouts::default(), by_default), (rated, with_rate)] {
        let asked = ask(&packets(said).builder().timeouts(timeouts).build(), &get()).await;
        assert_eq!(asked.is_ok(), is_whole, "{what}: {asked:?}");
    }
}

/// A complete response was thrown away after 10 seconds, and so was one that had come with its head, but for its end.
#[tokio::test(start_paused = true)]
async fn a_rate_counts_all_bytes_and_rejects_none_that_complete_a_response() {
    const BOTH: [bool; 2] = [true; 2];
    let (sized, chunked) = (&b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n"[..], CHUNKED.as_bytes());
    check("late and whole", &[(0, sized), (10_500, b"ok")], BOTH).await;
    check("late, in two packets", &[(0, sized), (29_000, b"o"), (0, b"k")], BOTH).await;
    check("late twice", &[(0, sized), (29_000, b"o"), (29_000, b"k")], [true, false]).await;
    check("late chunk", &[(0, chunked), (12_000, b"2\r\nok\r\n0\r\n\r\n")], BOTH).await;
    check("late chunk, in two packets", &[(0, chunked), (12_000, b"2\r\nok\r\n"), (0, b"0\r\n\r\n")], BOTH)
        .await;
    check("space", &[(0, chunked), (9_000, b"1\r\n \r\n"), (9_000, b"2\r\nok\r\n0\r\n\r\n")], BOTH).await;
    let large = b"HTTP/1.1 200 OK\r\ncontent-length: 8100\r\n\r\n";
    let (body, end) = (&[b'x'; 8000], &[b'x'; 100]);
    let whole = [&large[..], body].concat();
    // Bytes ahead of the rate count for the ten seconds of the grace, and no longer.
    let ends: [(&[Packet<'_>], [bool; 2]); 3] = [
        (&[(12_000, end)], BOTH),
        (&[(10_050, &end[..50]), (1_000, &end[50..])], BOTH),
        (&[(11_000, &end[..50]), (1_000, &end[50..])], [true, false]),
    ];
    for (end, expected) in ends {
        check("in the packet of the head", &[&[(0, &whole[..])], end].concat(), expected).await;
        check("behind the head", &[&[(0, &large[..]), (0, body)], end].concat(), expected).await;
        check("later than the head", &[&[(0, &large[..]), (300, body)], end].concat(), expected).await;
    }
    check("drops", &[&[(0, &large[..])][..], &[(1_000, &b"x"[..]); 100]].concat(), [false; 2]).await;
    check("silence", &[(0, sized)], [false; 2]).await;
}

/// Bytes that arrive while the request is still being sent count, too.
#[tokio::test(start_paused = true)]
async fn a_rate_counts_what_was_received_ahead() {
    let early = Stage::new(|mut peer, _| async move {
        peer.head().await?;
        peer.send("HTTP/1.1 200 OK\r\ncontent-length: 8100\r\n\r\n").await?;
        settle().await;
        peer.send([b'x'; 8000]).await?;
        peer.stream.read_exact(&mut vec![0; 1 << 20]).await?;
        sleep(Duration::from_millis(10_050)).await;
        peer.send([b'x'; 50]).await?;
        sleep(SECOND).await;
        peer.send([b'x'; 50]).await?;
        pending().await
    });
    let timeouts = ClientTimeouts { receive_rate_min: 500, ..ClientTimeouts::default() };
    let mut request = post();
    request.body.set_bytes(vec![0; 1 << 20]);
    let client = early.builder().timeouts(timeouts).build();
    assert_eq!(ask(&client, &request).await.unwrap().1.len(), 8100);
}
