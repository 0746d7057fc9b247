//! Bodies that are read and written piece by piece, and connections that are handed over.

use std::time::Duration;

use corehttp::client::{ClientCause, ClientLimits, ClientPhase};
use corehttp::error::{ExchangeError, WireError};
use corehttp::{Method, Request, Response};
use tokio::io::{AsyncReadExt, AsyncWriteExt, repeat};
use tokio::task::yield_now;
use tokio::time::Instant;

use crate::support::{OK, Stage, ask, get, post, settle};

const CHUNKED: &str =
    "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nx-sum: 1\r\n\r\n";
const SIZED: &str = "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello";

/// Says `wire`, cut at that byte, to every request.
fn cutting(wire: &'static str, cut: usize) -> Stage {
    Stage::new(move |mut peer, _| async move {
        while peer.request().await?.is_some() {
            peer.send_cut(wire, cut).await?;
        }
        Ok(())
    })
}

#[tokio::test(start_paused = true)]
async fn a_body_is_read_as_it_comes_and_then_its_connection_is_kept() {
    for wire in [SIZED, CHUNKED] {
        for cut in 0..=wire.len() {
            let (stage, mut response) = (cutting(wire, cut), Response::new());
            let client = stage.client();
            let mut reader = client.open_response(&get(), &mut response).await.unwrap();
            assert_eq!(
                (response.status.as_u16(), response.body.len(), client.busy_connections()),
                (200, 0, 1)
            );
            let mut body = Vec::new();
            while let Some(chunk) = reader.chunk().await.unwrap() {
                assert!(!chunk.is_empty());
                body.extend_from_slice(chunk);
            }
            assert_eq!(
                (&body[..], client.idle_connections(), client.busy_connections()),
                (&b"hello"[..], 1, 0),
                "cut at {cut}"
            );
            assert_eq!(reader.trailers().get("x-sum"), (wire == CHUNKED).then_some("1"));
            assert_eq!(reader.chunk().await.unwrap(), None, "it stays at its end");
            let mut reader = client.open_response(&get(), &mut response).await.unwrap();
            let (mut some, mut all) = ([0; 2], String::new());
            assert_eq!(reader.read(&mut []).await.unwrap(), 0);
            reader.read_exact(&mut some).await.unwrap();
            reader.read_to_string(&mut all).await.unwrap();
            assert_eq!((&some, &*all, client.idle_connections()), (b"he", "llo", 1));
            assert_eq!(stage.dialed().len(), 1);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_response_without_a_body_gives_its_connection_back_at_once() {
    for (method, wire) in [
        (Method::Get, "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"),
        (Method::Get, "HTTP/1.1 204 x\r\n\r\n"),
        (Method::Head, "HTTP/1.1 200 x\r\ncontent-length: 5\r\n\r\n"),
    ] {
        let (client, mut response) = (Stage::always(wire).client(), Response::new());
        let mut reader =
            client.open_response(&Request::new(method, "http://a/").unwrap(), &mut response).await.unwrap();
        assert_eq!((client.idle_connections(), client.busy_connections()), (1, 0));
        assert_eq!(reader.chunk().await.unwrap(), None);
    }
}

#[tokio::test(start_paused = true)]
async fn row_84_a_response_that_is_dropped_half_way_closes_its_connection() {
    for wire in [SIZED, CHUNKED, "HTTP/1.1 200 OK\r\n\r\nhello"] {
        for reads in [0, 1] {
            let stage = Stage::new(move |mut peer, _| async move {
                peer.request().await?;
                peer.send(&wire[..wire.len() - 1]).await?;
                peer.receive_all().await
            });
            let (client, mut response) = (stage.client(), Response::new());
            let mut reader = client.open_response(&get(), &mut response).await.unwrap();
            for _ in 0..reads {
                assert!(reader.chunk().await.unwrap().is_some());
            }
            drop(reader);
            settle().await;
            assert_eq!(
                (client.idle_connections(), client.busy_connections(), stage.received().len()),
                (0, 0, 2),
                "{wire:?} after {reads}"
            );
        }
    }
}

/// Who reads as much as was announced has no reason to ask for more. The connection must not be closed then.
#[tokio::test(start_paused = true)]
async fn a_response_that_is_dropped_at_its_last_byte_gives_its_connection_back() {
    for (most, idle) in [(4, 0), (5, 1), (6, 1)] {
        let (client, mut response) = (Stage::always(SIZED).client(), Response::new());
        let mut reader = client.open_response(&get(), &mut response).await.unwrap();
        assert_eq!(reader.read(&mut vec![0; most]).await.unwrap(), most.min(5));
        drop(reader);
        assert_eq!((client.idle_connections(), client.busy_connections()), (idle, 0), "{most}");
    }
    let (client, mut response) = (Stage::always(SIZED).client(), Response::new());
    let mut reader = client.open_response(&get(), &mut response).await.unwrap();
    assert_eq!(reader.chunk().await.unwrap(), Some(&b"hello"[..]));
    drop(reader);
    assert_eq!((client.idle_connections(), client.busy_connections()), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn a_streamed_body_that_broke_stays_an_error() {
    for (wire, expected) in [
        (&SIZED[..SIZED.len() - 1], None),
        (&CHUNKED[..CHUNKED.len() - 1], None),
        ("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\nx", Some(WireError::ChunkSize)),
        ("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello6\r\n", Some(WireError::ChunkData)),
    ] {
        let stage = Stage::new(move |mut peer, _| async move {
            peer.request().await?;
            peer.send(wire).await
        });
        let (client, mut response) = (stage.client(), Response::new());
        let mut reader = client.open_response(&get(), &mut response).await.unwrap();
        let error = loop {
            match reader.chunk().await {
                Ok(chunk) => assert!(chunk.is_some(), "{wire:?} has no end"),
                Err(error) => break error,
            }
        };
        let found = match error.cause() {
            ClientCause::Exchange(ExchangeError::Wire(error, _)) => Some(*error),
            ClientCause::Exchange(ExchangeError::Incomplete) => None,
            cause => panic!("{cause:?}"),
        };
        assert_eq!((found, error.phase()), (expected, ClientPhase::Receive));
        for _ in 0..3 {
            assert!(reader.chunk().await.is_err(), "{wire:?}: once broken, always broken");
            assert!(reader.read(&mut [0; 9]).await.is_err());
        }
        // A caller that sends again at once need not drop it first.
        assert_eq!((client.idle_connections(), client.busy_connections()), (0, 0));
    }
}

#[tokio::test(start_paused = true)]
async fn a_body_is_written_as_it_comes() {
    let stage = Stage::always(OK);
    let (client, mut response) = (stage.client(), Response::new());
    let mut sized = post();
    sized.headers.set("content-length", 11).unwrap();
    let mut trailed = post();
    trailed.trailers.set("x-sum", 1).unwrap();
    let head = "POST / HTTP/1.1\r\nhost: a\r\n";
    for (request, expected) in [
        (sized, "content-length: 11\r\n\r\nhello world"),
        (post(), "transfer-encoding: chunked\r\n\r\n6\r\nhello \r\n5\r\nworld\r\n0\r\n\r\n"),
        (trailed, "transfer-encoding: chunked\r\n\r\n6\r\nhello \r\n5\r\nworld\r\n0\r\nx-sum: 1\r\n\r\n"),
    ] {
        let mut call = client.open_call(&request).await.unwrap();
        call.write_all(b"hello ").await.unwrap();
        call.write_all(b"").await.unwrap();
        call.flush().await.unwrap();
        AsyncWriteExt::write_all(&mut call, b"world").await.unwrap();
        AsyncWriteExt::shutdown(&mut call).await.unwrap();
        let mut reader = call.finish(&mut response).await.unwrap();
        assert_eq!(reader.chunk().await.unwrap(), Some(&b"ok"[..]));
        assert_eq!(reader.chunk().await.unwrap(), None);
        assert_eq!(stage.received(), [format!("{head}{expected}")]);
    }
    let call = client.open_call(&get()).await.unwrap();
    call.finish(&mut response).await.unwrap();
    assert_eq!(stage.received(), ["GET / HTTP/1.1\r\nhost: a\r\n\r\n"]);
    assert_eq!(stage.dialed().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn flushed_content_arrives_before_the_end() {
    let stage = Stage::new(|mut peer, _| async move {
        peer.head().await?;
        let mut piece = [0; 10];
        peer.stream.read_exact(&mut piece).await?;
        assert_eq!(&piece, b"5\r\nhello\r\n");
        peer.send(OK).await?;
        peer.receive_all().await
    });
    let (client, mut response) = (stage.client(), Response::new());
    let mut call = client.open_call(&post()).await.unwrap();
    call.write_all(b"hello").await.unwrap();
    call.flush().await.unwrap();
    settle().await;
    let mut reader = call.finish(&mut response).await.unwrap();
    assert_eq!(reader.chunk().await.unwrap(), Some(&b"ok"[..]));
}

#[tokio::test(start_paused = true)]
async fn a_written_body_of_another_length_than_announced_is_an_error() {
    let bodies = [(5, "hell", false), (5, "", false), (5, "hello!", true), (0, "h", true)];
    for ((length, written, fails_early), trailers) in
        bodies.into_iter().flat_map(|body| [(body, 0), (body, 1)])
    {
        let (client, mut request, mut response) = (Stage::always(OK).client(), post(), Response::new());
        request.headers.set("content-length", length).unwrap();
        // With trailers it goes in chunks, which do not tell the length.
        (0..trailers).for_each(|_| request.trailers.set("x-sum", 1).unwrap());
        let mut call = client.open_call(&request).await.unwrap();
        let error = match call.write_all(written.as_bytes()).await {
            Ok(()) => call.finish(&mut response).await.unwrap_err(),
            Err(error) => {
                assert!(fails_early);
                drop(call);
                error
            }
        };
        assert!(matches!(error.cause(), ClientCause::Exchange(ExchangeError::Length)), "{error:?}");
        assert_eq!(
            (error.phase(), client.idle_connections(), client.busy_connections()),
            (ClientPhase::Send, 0, 0)
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_that_is_dropped_closes_its_connection() {
    for written in ["", "hello"] {
        let stage = Stage::new(|mut peer, _| async move {
            peer.head().await?;
            peer.receive_all().await
        });
        let client = stage.client();
        let mut call = client.open_call(&post()).await.unwrap();
        call.write_all(written.as_bytes()).await.unwrap();
        assert_eq!(client.busy_connections(), 1);
        drop(call);
        settle().await;
        assert_eq!((client.busy_connections(), client.idle_connections(), stage.received().len()), (0, 0, 1));
    }
}

const SWITCHING: &str = "HTTP/1.1 101 x\r\nconnection: upgrade\r\nupgrade: own\r\n\r\nearly";

fn upgrade() -> Request {
    let mut request = get();
    request.headers.set("upgrade", "own").unwrap();
    request
}

#[tokio::test(start_paused = true)]
async fn a_connection_is_handed_over_with_what_came_early_rfc9110_7_8() {
    for cut in 0..=SWITCHING.len() {
        let stage = Stage::new(move |mut peer, _| async move {
            peer.request().await?;
            peer.send_cut(SWITCHING, cut).await?;
            let mut received = [0; 4];
            peer.stream.read_exact(&mut received).await?;
            peer.send(received).await
        });
        let (client, mut response) = (stage.client(), Response::new());
        let mut tunnel = client.upgrade(&upgrade(), &mut response).await.unwrap();
        assert_eq!((response.status.as_u16(), response.headers.get("upgrade")), (101, Some("own")));
        assert_eq!(
            (client.busy_connections(), client.idle_connections()),
            (0, 0),
            "it has no place in the pool"
        );
        let mut early = [0; 5];
        tunnel.read_exact(&mut early).await.unwrap();
        tunnel.write_all(b"ping").await.unwrap();
        let mut rest = String::new();
        tunnel.read_to_string(&mut rest).await.unwrap();
        assert_eq!((&early, &*rest), (b"early", "ping"), "cut at {cut}");
        assert_eq!(
            stage.received(),
            ["GET / HTTP/1.1\r\nhost: a\r\nupgrade: own\r\nconnection: upgrade\r\n\r\n"]
        );
    }
}

#[tokio::test(start_paused = true)]
async fn an_upgrade_has_to_be_asked_for_and_granted_rfc9110_7_8() {
    let mut response = Response::new();
    // A server may always say what it could upgrade to.
    for refusal in [OK, "HTTP/1.1 200 OK\r\nconnection: upgrade\r\nupgrade: own\r\ncontent-length: 0\r\n\r\n"]
    {
        let refuses = Stage::always(refusal);
        let client = refuses.client();
        let error = client.upgrade(&upgrade(), &mut response).await.unwrap_err();
        assert!(matches!(error.cause(), ClientCause::Upgrade), "{error:?}");
        assert_eq!((response.status.as_u16(), client.busy_connections()), (200, 0));
    }
    let switches = Stage::always(SWITCHING);
    let client = switches.client();
    let error = client.open_response(&get(), &mut response).await.unwrap_err();
    assert!(matches!(error.cause(), ClientCause::Upgrade), "{error:?}");
    let error = client.open_call(&post()).await.unwrap().finish(&mut response).await.unwrap_err();
    assert!(matches!(error.cause(), ClientCause::Upgrade), "{error:?}");
    let error = client.upgrade(&get(), &mut response).await.unwrap_err();
    assert!(matches!(error.cause(), ClientCause::Upgrade), "{error:?}");
    let exact = Stage::always(SWITCHING.strip_suffix("early").unwrap());
    let client = exact.client();
    assert_eq!(ask(&client, &upgrade()).await.unwrap().0, 101);
    assert_eq!(
        (client.idle_connections(), client.busy_connections()),
        (0, 0),
        "a connection that speaks something else is not kept"
    );
    drop(client.open_response(&upgrade(), &mut response).await.unwrap());
    let call = client.open_call(&upgrade()).await.unwrap();
    drop(call.finish(&mut response).await.unwrap());
    assert_eq!((client.idle_connections(), client.busy_connections(), exact.dialed().len()), (0, 0, 3));
}

/// A server that speaks another protocol must not be taken for one that speaks this one.
#[tokio::test(start_paused = true)]
async fn a_connection_is_handed_over_only_for_what_was_asked_rfc9110_7_8() {
    for (fields, is_granted) in [
        ("connection: upgrade\r\nupgrade: own\r\n", true),
        ("connection: x, Upgrade\r\nupgrade: own\r\n", true),
        ("connection: x\r\nconnection: upgrade\r\nupgrade: own\r\n", true),
        ("upgrade: own\r\n", false),
        ("connection: x\r\nupgrade: own\r\n", false),
        ("connection: upgraded\r\nupgrade: own\r\n", false),
        ("connection: close\r\nupgrade: own\r\n", false),
        ("proxy-connection: upgrade\r\nupgrade: own\r\n", false),
    ] {
        check_switch(fields, is_granted).await;
    }
    for (fields, is_granted) in [
        ("upgrade: own\r\n", true),
        ("upgrade: OWN\r\n", true),
        ("upgrade: own, TLS/1.0\r\n", true),
        ("upgrade: tls/1.0\r\nupgrade: own\r\n", true),
        ("", false),
        ("upgrade: \r\n", false),
        ("upgrade: owned\r\n", false),
        ("upgrade: own/1\r\n", false),
        ("upgrade: TLS\r\n", false),
        ("upgrade: own, h2c\r\n", false),
        ("upgrade: own\r\nupgrade: h2c\r\n", false),
    ] {
        check_switch(&format!("connection: upgrade\r\n{fields}"), is_granted).await;
    }
}

/// A 101 with these fields hands the connection over, or fails, however the request was sent.
async fn check_switch(fields: &str, is_granted: bool) {
    let stage = Stage::always(format!("HTTP/1.1 101 x\r\n{fields}\r\n"));
    let (client, mut response, mut request) = (stage.client(), Response::new(), upgrade());
    request.headers.append("upgrade", "tls/1.0").unwrap();
    let upgraded = client.upgrade(&request, &mut response).await.map(drop);
    assert_eq!(
        (response.status.as_u16(), client.busy_connections(), client.idle_connections()),
        (101, 0, 0),
        "{fields:?}"
    );
    let called =
        async { client.open_call(&request).await?.finish(&mut Response::new()).await.map(drop) }.await;
    let whole = client.send(&request, &mut response).await;
    for switched in [upgraded, called, whole] {
        match switched {
            Ok(()) => assert!(is_granted, "{fields:?}"),
            Err(error) => {
                assert!(!is_granted && matches!(error.cause(), ClientCause::Upgrade), "{fields:?}: {error:?}")
            }
        }
    }
    assert_eq!((client.busy_connections(), client.idle_connections()), (0, 0), "{fields:?}");
}

/// An upgrade that is answered with `wire`, cut at each byte, has failed, and says why: with this status, body and
/// trailer. Then so many connections rest.
async fn check_refused(wire: &'static str, (status, body, sum): (u16, &str, Option<&str>), idle: usize) {
    for cut in 0..=wire.len() {
        let stage = Stage::new(move |mut peer, _| async move {
            peer.request().await?;
            peer.send_cut(wire, cut).await?;
            // Who may be asked again waits, and all others close.
            if idle > 0 { peer.receive_all().await } else { Ok(()) }
        });
        let (client, mut response) = (
            stage.builder().limits(ClientLimits { body_max: 8, ..ClientLimits::default() }).build(),
            Response::new(),
        );
        response.body.set_bytes("of another response");
        let error = client.upgrade(&upgrade(), &mut response).await.unwrap_err();
        let case = format!("{wire:?} cut at {cut}: {error:?}");
        assert!(
            matches!((error.cause(), error.phase()), (ClientCause::Upgrade, ClientPhase::Wait)),
            "{case}"
        );
        assert!(error.is_sent() && !error.is_timeout(), "{case}");
        assert_eq!((response.status.as_u16(), response.body.text()), (status, Ok(body)), "{case}");
        assert_eq!(response.trailers.get("x-sum"), sum, "{case}");
        assert_eq!((client.idle_connections(), client.busy_connections()), (idle, 0), "{case}");
    }
}

/// Found as an explanation that was thrown away, along with its connection.
#[tokio::test(start_paused = true)]
async fn a_refused_upgrade_says_why() {
    for (wire, received, idle) in [
        ("HTTP/1.1 401 x\r\ncontent-length: 3\r\n\r\nwhy", (401, "why", None), 1),
        ("HTTP/1.1 400 x\r\ncontent-length: 8\r\n\r\nthe most", (400, "the most", None), 1),
        (
            "HTTP/1.1 400 x\r\ntransfer-encoding: chunked\r\n\r\n3\r\nwhy\r\n0\r\nx-sum: 1\r\n\r\n",
            (400, "why", Some("1")),
            1,
        ),
        ("HTTP/1.1 307 x\r\nlocation: /b\r\ncontent-length: 3\r\n\r\nwhy", (307, "why", None), 1),
        ("HTTP/1.1 426 x\r\nconnection: close\r\ncontent-length: 3\r\n\r\nwhy", (426, "why", None), 0),
        ("HTTP/1.1 503 x\r\n\r\nwhy", (503, "why", None), 0),
        ("HTTP/1.1 204 x\r\n\r\n", (204, "", None), 1),
        ("HTTP/1.1 304 x\r\ncontent-length: 3\r\n\r\n", (304, "", None), 1),
        // Content that is not here as a whole is not shown in part.
        ("HTTP/1.1 401 x\r\ncontent-length: 4\r\n\r\nwhy", (401, "", None), 0),
        ("HTTP/1.1 401 x\r\ntransfer-encoding: chunked\r\n\r\n3\r\nwhy\r\n", (401, "", None), 0),
        ("HTTP/1.1 401 x\r\ntransfer-encoding: chunked\r\n\r\n3\r\nwhy\r\nx", (401, "", None), 0),
        ("HTTP/1.1 401 x\r\ncontent-length: 9\r\n\r\ntoo large", (401, "", None), 0),
        ("HTTP/1.1 401 x\r\n\r\ntoo large", (401, "", None), 0),
    ] {
        check_refused(wire, received, idle).await;
    }
    let silent = Stage::new(|mut peer, _| async move {
        peer.request().await?;
        peer.send("HTTP/1.1 401 x\r\ncontent-length: 4\r\n\r\nwhy").await?;
        peer.receive_all().await
    });
    for (client, seconds) in
        [(silent.client(), 30), (silent.builder().timeout(Duration::from_secs(2)).build(), 2)]
    {
        let (began, mut response) = (Instant::now(), Response::new());
        let error = client.upgrade(&upgrade(), &mut response).await.unwrap_err();
        assert!(matches!(error.cause(), ClientCause::Upgrade), "{error:?}");
        assert_eq!((response.status.as_u16(), response.body.len(), client.busy_connections()), (401, 0, 0));
        assert_eq!(began.elapsed().as_secs(), seconds);
    }
}

const LARGE: u64 = 256 << 20;

/// A streamed body is never held as a whole: the pipe in between holds 64 KiB, and `tests/alloc.rs` counts.
#[tokio::test]
async fn bodies_larger_than_all_buffers_are_streamed_both_ways() {
    let stage = Stage::new(|mut peer, _| async move {
        peer.head().await?;
        let (mut read, mut piece) = (0, vec![0; 64 << 10]);
        while read < LARGE {
            read += peer.stream.read(&mut piece).await? as u64;
        }
        peer.send(format!("HTTP/1.1 200 OK\r\ncontent-length: {LARGE}\r\n\r\n")).await?;
        for _ in 0..LARGE / (64 << 10) {
            peer.send(&piece).await?;
        }
        Ok(())
    });
    let (client, mut request, mut response) = (stage.client(), post(), Response::new());
    request.body.set_stream(repeat(b'x').take(LARGE), Some(LARGE));
    let mut reader = client.open_response(&request, &mut response).await.unwrap();
    let mut read = 0;
    while let Some(chunk) = reader.chunk().await.unwrap() {
        assert!(chunk.len() <= 256 << 10);
        read += chunk.len() as u64;
    }
    assert_eq!((read, client.idle_connections()), (LARGE, 1));
}

/// If the client does not read, the server cannot write.
#[tokio::test(start_paused = true)]
async fn a_response_that_is_not_read_holds_the_server_back() {
    let (told, written) = tokio::sync::watch::channel(0);
    let stage = Stage::new(move |mut peer, _| {
        let told = told.clone();
        async move {
            peer.request().await?;
            peer.send("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n").await?;
            loop {
                peer.send(format!("400\r\n{}\r\n", "x".repeat(1024))).await?;
                told.send_modify(|count| *count += 1);
                yield_now().await;
            }
        }
    });
    let (client, mut response) = (stage.client(), Response::new());
    let mut reader = client.open_response(&get(), &mut response).await.unwrap();
    assert!(reader.chunk().await.unwrap().is_some());
    tokio::time::sleep(Duration::from_secs(60)).await;
    let most = *written.borrow();
    assert!(most < 256, "{most} KiB");
    drop(reader);
    assert_eq!(client.busy_connections(), 0);
}
