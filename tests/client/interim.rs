//! Interim responses that somebody takes, one by one, before the final one (RFC 9110 §15.2).

use std::sync::Arc;
use std::time::Duration;

use corehttp::client::{Call, CallReader, ClientCause, ClientLimits, ClientPhase};
use corehttp::{ClientError, Response};
use tokio::io::AsyncReadExt;
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout};

use crate::support::{OK, Stage, cancelled_after, get, post, settle};

/// Status and `link` of each interim response that `reader` still gets.
async fn taken(reader: &mut CallReader) -> Result<String, ClientError> {
    let mut all = String::new();
    while let Some((status, fields)) = reader.informational().await? {
        all.push_str(&format!("{} {}; ", status.as_u16(), fields.get("link").unwrap_or_default()));
    }
    Ok(all)
}

/// The interim responses that are taken, and the status and body of the final one.
async fn received(call: Call) -> Result<(String, u16, String), ClientError> {
    let (mut writer, mut reader) = call.split();
    writer.finish().await?;
    drop(writer);
    let (mut response, mut body) = (Response::new(), String::new());
    let all = taken(&mut reader).await?;
    reader.head(&mut response).await?;
    while let Some(chunk) = reader.chunk().await? {
        body.push_str(str::from_utf8(chunk).unwrap());
    }
    Ok((all, response.status.as_u16(), body))
}

/// A server that answers `wire`, cut at each byte, is read as `expected`, whether the request has a body or not.
async fn check(wire: &str, expected: Result<(&str, u16, &str), &str>) {
    for request in [get(), post()] {
        for cut in 0..=wire.len() {
            let said = wire.to_owned();
            let stage = Stage::new(move |mut peer, _| {
                let said = said.clone();
                async move {
                    peer.request().await?;
                    peer.send_cut(said, cut).await
                }
            });
            let client = stage.client();
            let received = async { received(client.open_call(&request).await?).await }.await;
            match (&received, expected) {
                (Ok((all, status, body)), Ok(expected)) => {
                    assert_eq!((&**all, *status, &**body), expected, "{wire:?} cut at {cut}");
                }
                (Err(error), Err(cause)) => {
                    assert!(format!("{:?}", error.cause()).contains(cause), "{wire:?}: {error:?}");
                    assert_eq!(
                        (error.phase(), client.busy_connections()),
                        (ClientPhase::Wait, 0),
                        "{wire:?}"
                    );
                }
                (received, _) => panic!("{wire:?} cut at {cut}: {received:?}, {expected:?}"),
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn each_interim_response_is_taken_in_turn_rfc9110_15_2() {
    let hint = |link: &str| format!("HTTP/1.1 103 Early Hints\r\nlink: {link}\r\n\r\n");
    check(OK, Ok(("", 200, "ok"))).await;
    check(&format!("{}{OK}", hint("</a>")), Ok(("103 </a>; ", 200, "ok"))).await;
    check(
        &format!("{}HTTP/1.1 102 x\r\n\r\n{}{}{OK}", hint("</a>"), hint("</b>"), hint("</c>")),
        Ok(("103 </a>; 102 ; 103 </b>; 103 </c>; ", 200, "ok")),
    )
    .await;
    check(&format!("HTTP/1.1 100\r\n\r\n{}{OK}", hint("</a>")), Ok(("100 ; 103 </a>; ", 200, "ok"))).await;
    check(&format!("HTTP/1.0 103 x\r\n\r\n{OK}"), Ok(("103 ; ", 200, "ok"))).await;
    check(
        &format!("{}HTTP/1.0 404 x\r\ncontent-length: 2\r\n\r\nno", hint("</a>")),
        Ok(("103 </a>; ", 404, "no")),
    )
    .await;
    check(&format!("{}HTTP/1.1 204 x\r\n\r\n", hint("a")), Ok(("103 a; ", 204, ""))).await;
    check(&hint("a"), Err("Closed")).await;
    check(&format!("{}HTTP/1.1 101 x\r\nupgrade: x\r\n\r\n", hint("a")), Err("Upgrade")).await;
    check(&format!("{}HTTP/1.1 103 x\nlink: a\r\n\r\n{OK}", hint("a")), Err("LineEnd")).await;
}

/// A resumable upload sends one for each part, and a caller that takes each has bounded them itself. Of those that are
/// dropped, there may be as many bytes as one head has.
#[tokio::test(start_paused = true)]
async fn interim_responses_are_bounded_unless_they_are_taken_rfc9110_15_2() {
    const HEAD: &str = "HTTP/1.1 104 x\r\n\r\n";
    let early = |count| HEAD.repeat(count);
    let at_most = 1000 / HEAD.len();
    for request in [get(), post()] {
        for count in [17, at_most, at_most + 1, 5000] {
            let stage = Stage::always(format!("{}{OK}", early(count)));
            let client =
                stage.builder().limits(ClientLimits { head_max: 1000, ..ClientLimits::default() }).build();
            let taken = received(client.open_call(&request).await.unwrap()).await.unwrap();
            assert_eq!(taken, ("104 ; ".repeat(count), 200, "ok".to_owned()));
            assert_eq!(
                (client.idle_connections(), client.busy_connections()),
                (1, 0),
                "the connection is used again"
            );
            let mut response = Response::new();
            let dropped = client.send(&request, &mut response).await;
            match count <= at_most {
                true => assert_eq!((dropped.is_ok(), response.status.as_u16()), (true, 200), "{count}"),
                false => {
                    let error = dropped.unwrap_err();
                    assert!(matches!(error.cause(), ClientCause::TooManyInformational), "{error:?}");
                    assert_eq!(
                        (error.phase(), client.busy_connections(), client.idle_connections()),
                        (ClientPhase::Wait, 0, 0)
                    );
                }
            }
        }
    }
    // Each of those that are taken is bounded as a head is.
    let large = format!("HTTP/1.1 104 x\r\nlink: {}\r\n\r\n", "a".repeat(1000));
    let client = Stage::always(format!("{}{large}{OK}", early(3)))
        .builder()
        .limits(ClientLimits { head_max: 1000, ..ClientLimits::default() })
        .build();
    let error = received(client.open_call(&get()).await.unwrap()).await.unwrap_err();
    assert!(
        format!("{error:#}").ends_with("the head is too large: more than 1000 bytes (`head_max`)"),
        "{error:#}"
    );
}

/// A server that says each of `said` as soon as `more` allows it, and then reads to the end.
fn in_steps(said: &'static [&'static str], more: &Arc<Semaphore>) -> Stage {
    let more = more.clone();
    Stage::new(move |mut peer, _| {
        let more = more.clone();
        async move {
            peer.head().await?;
            for said in said {
                more.acquire().await.unwrap().forget();
                peer.send(said).await?;
            }
            peer.receive_all().await
        }
    })
}

/// The server waits until the one before was taken.
#[tokio::test(start_paused = true)]
async fn each_interim_response_is_taken_as_it_comes() {
    const SAID: [&str; 3] = ["HTTP/1.1 103 x\r\nlink: a\r\n\r\n", "HTTP/1.1 103 x\r\nlink: b\r\n\r\n", OK];
    for request in [get(), post()] {
        let more = Arc::new(Semaphore::new(1));
        let client = in_steps(&SAID, &more).client();
        let (mut writer, mut reader) = client.open_call(&request).await.unwrap().split();
        for link in ["a", "b"] {
            let (status, fields) = reader.informational().await.unwrap().unwrap();
            assert_eq!((status.as_u16(), fields.get("link")), (103, Some(link)));
            more.add_permits(1);
        }
        // There is no other before the final one, however often that is asked.
        assert_eq!(reader.informational().await.unwrap(), None);
        assert_eq!(reader.informational().await.unwrap(), None);
        writer.finish().await.unwrap();
        let mut response = Response::new();
        reader.head(&mut response).await.unwrap();
        assert_eq!((response.status.as_u16(), response.headers.contains("link")), (200, false));
        assert_eq!(reader.chunk().await.unwrap(), Some(&b"ok"[..]));
        assert_eq!(reader.informational().await.unwrap(), None);
    }
}

#[tokio::test(start_paused = true)]
async fn interim_responses_that_nobody_takes_are_dropped() {
    let said = format!("{}{OK}", "HTTP/1.1 103 x\r\nlink: a\r\n\r\n".repeat(3));
    for request in [get(), post()] {
        let (client, mut response) = (Stage::always(&said).client(), Response::new());
        for takes in 0..3 {
            let (mut writer, mut reader) = client.open_call(&request).await.unwrap().split();
            writer.finish().await.unwrap();
            for _ in 0..takes {
                assert!(reader.informational().await.unwrap().is_some());
            }
            reader.head(&mut response).await.unwrap();
            assert_eq!((response.status.as_u16(), response.headers.len()), (200, 1), "{takes} taken");
            assert_eq!(reader.chunk().await.unwrap(), Some(&b"ok"[..]));
            assert_eq!(reader.chunk().await.unwrap(), None);
        }
        let mut received = client.open_call(&request).await.unwrap().finish(&mut response).await.unwrap();
        assert_eq!((response.status.as_u16(), response.headers.len()), (200, 1));
        assert_eq!(received.chunk().await.unwrap(), Some(&b"ok"[..]));
        assert_eq!(received.chunk().await.unwrap(), None);
        assert_eq!(
            (client.idle_connections(), client.busy_connections()),
            (1, 0),
            "one connection carried all"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_dropped_wait_for_an_interim_response_loses_none() {
    const SAID: [&str; 3] = ["HTTP/1.1 103 x\r\nlink: a\r\n\r\nHTTP/1.1 103 x\r\nli", "nk: b\r\n\r\n", OK];
    for polls in 1..8 {
        let more = Arc::new(Semaphore::new(0));
        let client = in_steps(&SAID, &more).client();
        let (mut writer, mut reader) = client.open_call(&post()).await.unwrap().split();
        let mut all = Vec::new();
        while all.len() < 2 {
            match cancelled_after(polls, reader.informational()).await {
                Some(taken) => all.push(taken.unwrap().unwrap().1.get("link").unwrap().to_owned()),
                None => more.add_permits(1),
            }
        }
        more.add_permits(1);
        assert_eq!((all.concat(), taken(&mut reader).await.unwrap()), ("ab".to_owned(), String::new()));
        writer.finish().await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_dropped_beside_an_interim_response_frees_its_place() {
    let more = Arc::new(Semaphore::new(9));
    let client = in_steps(&["HTTP/1.1 103 x\r\n\r\n"], &more).client();
    drop(client.open_call(&get()).await.unwrap());
    assert_eq!((client.idle_connections(), client.busy_connections()), (0, 0));
    let (writer, mut reader) = client.open_call(&get()).await.unwrap().split();
    assert!(reader.informational().await.unwrap().is_some());
    assert!(timeout(Duration::from_secs(1), reader.informational()).await.is_err(), "no other comes");
    drop((writer, reader));
    assert_eq!((client.idle_connections(), client.busy_connections()), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn the_wait_for_the_response_is_not_prolonged_by_interim_ones() {
    for request in [get(), post()] {
        let more = Arc::new(Semaphore::new(1));
        let client = in_steps(&["HTTP/1.1 103 x\r\n\r\n"], &more).client();
        let error = received(client.open_call(&request).await.unwrap()).await.unwrap_err();
        assert!(error.is_timeout() && error.phase() == ClientPhase::Wait, "{error:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_body_waits_for_the_100_that_is_taken_rfc9110_10_1_1() {
    let more = Arc::new(Semaphore::new(0));
    let client = in_steps(&["HTTP/1.1 100 x\r\n\r\nHTTP/1.1 103 x\r\nlink: a\r\n\r\n", OK], &more).client();
    let mut request = post();
    request.headers.set("expect", "100-continue").unwrap();
    request.headers.set("content-length", 4).unwrap();
    let (mut writer, mut reader) = client.open_call(&request).await.unwrap().split();
    let write = async {
        writer.write_all(b"body").await?;
        writer.finish().await
    };
    let read = async {
        let is_early = timeout(Duration::from_millis(10), reader.informational()).await;
        assert!(is_early.is_err());
        more.add_permits(2);
        taken(&mut reader).await
    };
    let (written, taken) = tokio::join!(write, read);
    assert_eq!((written.is_ok(), &*taken.unwrap()), (true, "100 ; 103 a; "));
}

const SIZE: usize = 1 << 20;

/// The writer is polled first, and meets each of them while it waits for room: it must not drop them.
#[tokio::test(start_paused = true)]
async fn a_writer_that_meets_an_interim_response_leaves_it_to_the_reader() {
    let stage = Stage::new(|mut peer, _| async move {
        peer.head().await?;
        let mut piece = vec![0; SIZE / 8];
        for number in 0..8 {
            peer.send(format!("HTTP/1.1 103 x\r\nlink: {number}\r\n\r\n")).await?;
            settle().await;
            peer.stream.read_exact(&mut piece).await?;
        }
        peer.send(OK).await
    });
    let mut request = post();
    request.headers.set("content-length", SIZE).unwrap();
    for is_first in [true, false] {
        let (mut writer, mut reader) = stage.client().open_call(&request).await.unwrap().split();
        assert!(timeout(Duration::ZERO, reader.informational()).await.is_err(), "from now on they are taken");
        let write = async {
            writer.write_all(&vec![b'x'; SIZE]).await?;
            writer.finish().await
        };
        let (written, taken) = match is_first {
            true => tokio::join!(biased; write, taken(&mut reader)),
            false => {
                let (taken, written) = tokio::join!(biased; taken(&mut reader), write);
                (written, taken)
            }
        };
        let all = (0..8).map(|number| format!("103 {number}; ")).collect::<String>();
        assert_eq!((written.is_ok(), taken.unwrap()), (true, all));
    }
}

/// The refusal is behind an interim response that waits to be taken. Once it is, the writer must be told.
#[tokio::test(start_paused = true)]
async fn a_writer_learns_of_a_refusal_behind_an_interim_response() {
    let refusal = "HTTP/1.1 103 x\r\n\r\nHTTP/1.1 103 x\r\n\r\nHTTP/1.1 413 x\r\ncontent-length: 0\r\n\r\n";
    for takes in 0..4 {
        let more = Arc::new(Semaphore::new(0));
        let go = more.clone();
        let stage = Stage::new(move |mut peer, _| {
            let go = go.clone();
            async move {
                peer.head().await?;
                go.acquire().await.unwrap().forget();
                peer.send(refusal).await?;
                // It reads no more, and does not close either.
                std::future::pending().await
            }
        });
        let (mut writer, mut reader) = stage.client().open_call(&post()).await.unwrap().split();
        assert!(timeout(Duration::ZERO, reader.informational()).await.is_err());
        let writing = tokio::spawn(async move {
            writer.write_all(&vec![b'x'; SIZE]).await?;
            Ok::<bool, ClientError>(writer.is_body_wanted())
        });
        settle().await;
        more.add_permits(1);
        // Now the writer has met the first of them, and waits.
        settle().await;
        for taken in 0..takes {
            assert_eq!(reader.informational().await.unwrap().is_some(), taken < 2);
        }
        let mut response = Response::new();
        reader.head(&mut response).await.unwrap();
        assert_eq!(response.status.as_u16(), 413);
        let wanted = timeout(Duration::from_secs(1), writing).await.expect("it waits in vain");
        assert!(!wanted.unwrap().unwrap(), "{takes} taken");
    }
}

/// A writer whose connection has failed must not wait for a reader that takes no more of them.
#[tokio::test(start_paused = true)]
async fn a_writer_that_has_failed_beside_an_interim_response_does_not_wait_for_ever() {
    let stage = Stage::new(|mut peer, _| async move {
        peer.head().await?;
        peer.send("HTTP/1.1 103 x\r\n\r\nHTTP/1.1 103 x\r\n\r\n").await
    });
    let client = stage.client();
    let (mut writer, mut reader) = client.open_call(&post()).await.unwrap().split();
    assert!(reader.informational().await.unwrap().is_some());
    let (start, body) = (Instant::now(), vec![b'x'; SIZE]);
    let written = timeout(Duration::from_secs(60), writer.write_all(&body)).await.expect("it waits in vain");
    assert_eq!((written.unwrap_err().phase(), start.elapsed().as_secs()), (ClientPhase::Send, 30));
    assert!(reader.informational().await.unwrap().is_some(), "the other is still there");
    assert_eq!(reader.head(&mut Response::new()).await.unwrap_err().phase(), ClientPhase::Send);
    drop((writer, reader));
    assert_eq!(client.busy_connections(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_reader_dropped_beside_an_interim_response_ends_the_writing_too() {
    let more = Arc::new(Semaphore::new(1));
    let client = in_steps(&["HTTP/1.1 103 x\r\n\r\nHTTP/1.1 103 x\r\n\r\n"], &more).client();
    let (mut writer, mut reader) = client.open_call(&post()).await.unwrap().split();
    assert!(reader.informational().await.unwrap().is_some());
    writer.write_all(b"piece").await.unwrap();
    drop(reader);
    let error = match timeout(Duration::from_secs(1), writer.flush()).await.expect("it waits in vain") {
        Ok(()) => writer.finish().await.unwrap_err(),
        Err(error) => error,
    };
    assert!(!matches!(error.cause(), ClientCause::TimedOut), "{error:?}");
    drop(writer);
    assert_eq!((client.idle_connections(), client.busy_connections()), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_request_that_is_sent_again_has_interim_responses_too() {
    let stage = Stage::new(|mut peer, number| async move {
        peer.request().await?;
        if number == 1 {
            peer.send("HTTP/1.1 103 x\r\nlink: a\r\n\r\n").await?;
        }
        peer.send(OK).await?;
        peer.request().await.map(drop)
    });
    let client = stage.client();
    for expected in ["", "103 a; "] {
        let (_, mut reader) = client.open_call(&get()).await.unwrap().split();
        assert_eq!(taken(&mut reader).await.unwrap(), expected);
        reader.head(&mut Response::new()).await.unwrap();
        while reader.chunk().await.unwrap().is_some() {}
    }
    assert_eq!(stage.dialed().len(), 2);
}

/// A server that has begun to answer is not asked again (RFC 9110 §9.2.2); one whose connection is stale still is.
#[tokio::test(start_paused = true)]
async fn a_stale_connection_is_noticed_before_interim_responses_are_taken() {
    let stage = Stage::new(|mut peer, number| async move {
        peer.request().await?;
        peer.send(OK).await?;
        peer.request().await?;
        peer.send(if number == 1 { "HTTP/1.1 103 x\r\nlink: a\r\n\r\n" } else { "" }).await
    });
    let client = stage.client();
    for dialed in [1, 2] {
        received(client.open_call(&get()).await.unwrap()).await.unwrap();
        assert_eq!(stage.dialed().len(), dialed);
    }
    let (_, mut reader) = client.open_call(&get()).await.unwrap().split();
    assert_eq!(reader.informational().await.unwrap().unwrap().1.get("link"), Some("a"));
    let error = reader.informational().await.unwrap_err();
    assert!(matches!(error.cause(), ClientCause::Closed) && stage.dialed().len() == 2, "{error:?}");
}
