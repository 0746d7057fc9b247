//! The close handshake, and what ends a WebSocket without one (RFC 6455 §7).

use std::io::{Read, Write};
use std::thread;
use std::time::Duration;

use corehttp::websocket::{self, CloseCode, WebSocket};
use corehttp::{Context, Server};
use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};
use tokio::time::{Instant, sleep};

use super::support::{
    CLOSE, Echo, HEAD, PING, TEXT, check, check_echo, check_with, close, echo, frame, shown, talk,
};
use crate::support::{ErrorReports, Served, eventually, paused};

#[test]
fn a_close_frame_is_answered_by_its_code_autobahn_7() {
    check(&frame(CLOSE, ""), &["close"]);
    check(&close(1000, "Hello World!"), &["close 1000 \"\""]);
    check(&close(1000, &"*".repeat(123)), &["close 1000 \"\""]);
    check(
        &[frame(TEXT, "a"), close(4999, ""), frame(TEXT, "b"), frame(PING, "")].concat(),
        &["text \"a\"", "close 4999 \"\""],
    );
    check(&[close(1000, ""), close(1000, "")].concat(), &["close 1000 \"\""]);
    for code in [1000, 1001, 1002, 1003, 1007, 1008, 1009, 1010, 1011, 1012, 1013, 1014, 3000, 3999, 4000] {
        check(&close(code, ""), &[&format!("close {code} \"\"")]);
    }
}

#[test]
fn bad_close_frames_are_refused_autobahn_7() {
    for code in [0, 999, 1004, 1005, 1006, 1015, 1016, 1100, 2000, 2999, 5000, 65535] {
        check(&close(code, ""), &["close 1002 \"\""]);
    }
    check(&frame(CLOSE, [3]), &["close 1002 \"\""]);
    check(
        &frame(CLOSE, [b"\x03\xe8".as_slice(), b"\xce\xba\xe1\xbd\xb9\xed\xa0\x80"].concat()),
        &["close 1007 \"\""],
    );
    check(&close(1000, &"*".repeat(124)), &["close 1002 \"\""]);
}

/// The handler ends with these errors, by the reports of the server.
#[track_caller]
fn check_report(sent: &[u8], expected: &[&str]) {
    let reports = ErrorReports::default();
    let service = reports
        .attach(Server::new())
        .service(async |ctx: &mut Context| echo(ctx, &websocket::Options::default()).await);
    paused(async { talk(&service, "", &[sent]).await });
    let causes: Vec<String> = reports.take().into_iter().map(|(_, cause)| cause).collect();
    assert_eq!(causes, expected);
}

#[test]
fn ends_are_reported() {
    check_report(&close(1000, ""), &[]);
    check_report(&frame(TEXT, "a"), &["the peer closed the connection without a close frame"]);
    check_report(&[0xff], &["the opcode 0xf is reserved"]);
}

/// The server sends a close frame, and discards what the peer still sends until that has closed, too.
#[test]
fn a_server_closes_rfc6455_7_1_2() {
    let service = Server::new().service(async |ctx: &mut Context| -> corehttp::Result {
        let mut socket = ctx.websocket(&websocket::Options::default()).await?;
        socket.send("last").await?;
        socket.close(CloseCode(4001), "enough").await?;
        assert_eq!(socket.close_reason().unwrap().code, CloseCode(4001));
        let late = socket.send("late").await.unwrap_err();
        assert!(matches!(late.get_ref().unwrap().downcast_ref(), Some(websocket::Error::Closed)));
        assert!(socket.receive().await?.is_none() && socket.writer.is_closed());
        Ok(())
    });
    paused(async {
        let sent = [frame(TEXT, "on its way"), close(4001, "")].concat();
        let (_, received) = talk(&service, "", &[&sent]).await;
        assert_eq!(shown(&received), ["text \"last\"", "close 4001 \"enough\""]);
    });
}

#[test]
fn codes_and_reasons_that_cannot_be_sent_are_refused() {
    let service = Server::new().service(async |ctx: &mut Context| -> corehttp::Result {
        let mut socket = ctx.websocket(&websocket::Options::default()).await?;
        for code in [CloseCode::ABNORMAL, CloseCode(1004), CloseCode(0)] {
            assert!(socket.close(code, "").await.is_err());
        }
        assert!(socket.close(CloseCode::NONE, "why").await.is_err());
        assert!(socket.close(CloseCode::NORMAL, &"x".repeat(124)).await.is_err());
        assert!(socket.writer.ping(&[0; 126]).await.is_err());
        socket.send("still open").await?;
        Ok(socket.close(CloseCode::NONE, "").await?)
    });
    paused(async {
        let (_, received) = talk(&service, "", &[&frame(CLOSE, "")]).await;
        assert_eq!(shown(&received), ["text \"still open\"", "close"]);
    });
}

/// A peer that is still sending when its WebSocket fails: a proxy that saw the end at once would reset it.
#[test]
fn the_half_is_closed_once_the_peer_pauses_rfc6455_7_1_7() {
    let service =
        Server::new().service(async |ctx: &mut Context| echo(ctx, &websocket::Options::default()).await);
    paused(async {
        let (near, far) = duplex(1 << 20);
        let (mut reader, mut writer) = tokio::io::split(near);
        let start = Instant::now();
        let sends = async {
            writer.write_all(format!("{HEAD}\r\n").as_bytes()).await.unwrap();
            for _ in 0..20 {
                writer.write_all(&[0xff; 100]).await.unwrap();
                sleep(Duration::from_millis(90)).await;
            }
            writer
        };
        let reads = async {
            let mut received = Vec::new();
            reader.read_to_end(&mut received).await.unwrap();
            assert!(received.ends_with(&[CLOSE, 2, 0x03, 0xea]), "{received:?}");
            start.elapsed()
        };
        let (_, _, took) = tokio::join!(service.serve_connection(far), async { drop(sends.await) }, reads);
        assert!((1710..2000).contains(&took.as_millis()), "{took:?}");
    });
}

/// A peer that never closes is given up.
#[test]
fn a_close_has_a_time_limit() {
    let reports = ErrorReports::default();
    let service = reports.attach(Server::new()).service(async |ctx: &mut Context| -> corehttp::Result {
        let mut socket = ctx.websocket(&websocket::Options::default()).await?;
        Ok(socket.close(CloseCode::NORMAL, "").await?)
    });
    paused(async {
        let (mut near, far) = duplex(1 << 20);
        near.write_all(format!("{HEAD}\r\n").as_bytes()).await.unwrap();
        let start = Instant::now();
        let chatter = async {
            while near.write_all(&frame(TEXT, "go on")).await.is_ok() {
                sleep(Duration::from_millis(100)).await;
            }
            start.elapsed()
        };
        let (_, took) = tokio::join!(service.serve_connection(far), chatter);
        assert!((5..7).contains(&took.as_secs()), "{took:?}");
    });
    assert_eq!(reports.take(), [(0, "the wait for the peer to close took longer than 5 s".into())]);
}

/// A peer that is silent gets a ping, and is given up if it does not answer.
#[test]
fn silence_has_a_time_limit() {
    for answers in [false, true] {
        let reports = ErrorReports::default();
        let service = reports
            .attach(Server::new())
            .service(async |ctx: &mut Context| echo(ctx, &websocket::Options::default()).await);
        paused(async {
            let (mut near, far) = duplex(1 << 20);
            near.write_all(format!("{HEAD}\r\n").as_bytes()).await.unwrap();
            let (start, mut received) = (Instant::now(), Vec::new());
            let talk = async {
                while near.read_buf(&mut received).await.unwrap_or(0) > 0 {
                    if answers && received.ends_with(&[PING, 0]) && start.elapsed().as_secs() < 100 {
                        near.write_all(&frame(0x8a, "")).await.unwrap();
                    }
                }
                start.elapsed()
            };
            let (_, took) = tokio::join!(service.serve_connection(far), talk);
            let expected = if answers { 150..153 } else { 60..62 };
            assert!(expected.contains(&took.as_secs()), "{took:?}");
        });
        assert_eq!(reports.take(), [(0, "the silence of the peer took longer than 30 s".into())]);
    }
}

/// A peer that takes what is sent is not silent, however far it has to read up to a ping.
#[test]
fn a_slow_reader_is_not_silent() {
    let service = Server::new().service(async |ctx: &mut Context| -> corehttp::Result {
        let mut socket = ctx.websocket(&websocket::Options::default()).await?;
        let WebSocket { reader, writer, .. } = &mut socket;
        let long = [b'x'; 100_000];
        let (sent, received) = tokio::join!(writer.send(&long[..]), reader.receive());
        sent?;
        assert!(received?.is_none());
        Ok(())
    });
    paused(async {
        let (mut near, far) = duplex(1000);
        near.write_all(format!("{HEAD}\r\n").as_bytes()).await.unwrap();
        let talk = async {
            let mut received = Vec::new();
            while received.len() < 100_000 && near.read_buf(&mut received).await.unwrap_or(0) > 0 {
                sleep(Duration::from_secs(2)).await;
            }
            let _ = near.write_all(&close(1000, "")).await;
            near.read_to_end(&mut received).await.unwrap();
            received
        };
        let (_, received) = tokio::join!(service.serve_connection(far), talk);
        let end = received.windows(4).position(|end| end == b"\r\n\r\n").unwrap() + 4;
        assert_eq!(shown(&received[end..]), ["binary of 100000", "close 1000 \"\""]);
    });
}

/// A peer that reads nothing is given up, whatever it sends.
#[test]
fn a_peer_that_never_reads_is_given_up() {
    let reports = ErrorReports::default();
    let settings =
        websocket::Options { write_timeout: Duration::from_secs(3), ..websocket::Options::default() };
    let service =
        reports.attach(Server::new()).service(async move |ctx: &mut Context| echo(ctx, &settings).await);
    paused(async {
        let (mut near, far) = duplex(4096);
        near.write_all(format!("{HEAD}\r\n").as_bytes()).await.unwrap();
        let flood = async { while near.write_all(&frame(TEXT, "x".repeat(1000))).await.is_ok() {} };
        let _ = tokio::join!(service.serve_connection(far), flood);
    });
    assert_eq!(reports.take(), [(0, "the wait for the peer to read took longer than 3 s".into())]);
}

/// The connection may end anywhere.
#[test]
fn ends_at_every_byte_are_errors() {
    let sent = [frame(TEXT, "hello"), frame(PING, "p"), frame(0x01, "a"), frame(0x80, "b")].concat();
    for end in 0..sent.len() {
        let reports = ErrorReports::default();
        let service = reports
            .attach(Server::new())
            .service(async |ctx: &mut Context| echo(ctx, &websocket::Options::default()).await);
        paused(async { talk(&service, "", &[&sent[..end]]).await });
        let causes: Vec<String> = reports.take().into_iter().map(|(_, cause)| cause).collect();
        assert_eq!(causes, ["the peer closed the connection without a close frame"], "{end}");
    }
}

/// A receive that is given up has lost nothing, wherever it was.
#[test]
fn a_receive_can_be_given_up() {
    let sent = [
        frame(TEXT, "hello"),
        frame(0x01, "\u{e9}"),
        frame(PING, "p"),
        frame(0x00, ""),
        frame(0x80, "\u{e9}"),
        close(1000, ""),
    ];
    let expected = ["text \"hello\"", "pong \"p\"", "text \"\u{e9}\u{e9}\"", "close 1000 \"\""];
    check_echo(Echo::Impatient, &websocket::Options::default(), "", &sent.concat(), &expected);
}

/// The peer may reset the connection anywhere.
#[test]
fn resets_at_every_byte_leave_the_server_well() {
    let served = Served::new(async |ctx: &mut Context| echo(ctx, &websocket::Options::default()).await);
    let head = format!("{HEAD}\r\n");
    let sent = [head.as_bytes(), &frame(TEXT, "hello"), &frame(PING, "p"), &close(1000, "")].concat();
    for end in 0..=sent.len() {
        let mut peer = served.connect();
        peer.send(&sent[..end]);
        peer.reset();
    }
    eventually("all are gone", || served.running.counts().total.open == 0);
    assert_eq!(served.running.counts().total.errors.panic, 0);
    let mut peer = served.connect();
    peer.send(&sent);
    assert!(peer.receive_all().contains("hello"));
}

/// The server closes with 1001 when it stops, and waits for the peer to close, too.
#[test]
fn a_stop_closes_with_1001() {
    let served = Served::new(async |ctx: &mut Context| echo(ctx, &websocket::Options::default()).await);
    let mut peer = served.connect();
    peer.send(format!("{HEAD}\r\n"));
    peer.receive();
    peer.send(frame(TEXT, "a"));
    assert_eq!(peer.receive_through("a"), "\u{fffd}\u{1}a");
    served.running.stop(Duration::from_secs(30));
    assert_eq!(peer.receive_through("\u{3}").len(), 5);
    peer.send([frame(TEXT, "on its way"), close(1001, "")].concat());
    let rest = peer.receive_all();
    assert!(!rest.contains("Reset"), "{rest}");
    served.running.wait().unwrap();
}

/// A peer that is behind when the server stops gets the answers that wait, and 1001 behind them.
#[test]
fn a_stop_cuts_nothing_that_waits() {
    let served = Served::new(async |ctx: &mut Context| echo(ctx, &websocket::Options::default()).await);
    let mut peer = served.connect();
    peer.send(format!("{HEAD}\r\n"));
    peer.receive();
    let mut stream = peer.stream.try_clone().unwrap();
    let sender = thread::spawn(move || {
        let sent = [frame(TEXT, "x".repeat(100)).repeat(40_000), close(1001, "")].concat();
        stream.write_all(&sent)
    });
    let mut received = vec![0; 102];
    peer.stream.read_exact(&mut received).unwrap();
    served.running.stop(Duration::from_secs(30));
    peer.stream.read_to_end(&mut received).unwrap();
    sender.join().unwrap().unwrap();
    let mut frames = shown(&received);
    assert_eq!(frames.pop().unwrap(), "close 1001 \"\"");
    assert!(frames.iter().all(|frame| *frame == format!("text {:?}", "x".repeat(100))));
    served.running.wait().unwrap();
}

/// A message that is under way when the server stops is received to its end, before it closes.
#[test]
fn a_stop_leaves_time_for_a_message_that_was_begun() {
    let received = std::sync::Arc::<std::sync::Mutex<Vec<String>>>::default();
    let noted = received.clone();
    let served = Served::new(async move |ctx: &mut Context| -> corehttp::Result {
        let mut socket = ctx.websocket(&websocket::Options::default()).await?;
        while let Some(message) = socket.receive().await? {
            noted.lock().unwrap().push(message.text().unwrap().to_owned());
        }
        Ok(())
    });
    let mut peer = served.connect();
    peer.send(format!("{HEAD}\r\n"));
    peer.receive();
    peer.send([frame(0x01, "a"), frame(PING, "p")].concat());
    peer.receive_through("p");
    served.running.stop(Duration::from_secs(30));
    for piece in [frame(0x00, "b"), frame(PING, "q"), frame(0x80, "c")] {
        peer.send(piece);
    }
    assert_eq!(peer.receive_through("\u{3}"), "\u{fffd}\u{1}q\u{fffd}\u{2}\u{3}");
    peer.send(close(1001, ""));
    assert_eq!(peer.receive_all().replace('\u{fffd}', ""), "");
    served.running.wait().unwrap();
    assert_eq!(*received.lock().unwrap(), ["abc"]);
}

/// The halves may live in two tasks of the core.
#[test]
fn halves_live_in_tasks_of_their_own() {
    let served = Served::new(async |ctx: &mut Context| -> corehttp::Result {
        let WebSocket { mut reader, mut writer, .. } = ctx.websocket(&websocket::Options::default()).await?;
        let (sender, mut receiver) = tokio::sync::mpsc::channel::<String>(4);
        tokio::task::spawn_local(async move {
            while let Some(text) = receiver.recv().await {
                writer.send(&text).await.unwrap();
            }
            writer.close(CloseCode::NORMAL, "done").await
        });
        tokio::task::spawn_local(async move {
            while let Ok(Some(message)) = reader.receive().await {
                sender.send(message.text().unwrap().to_uppercase()).await.unwrap();
                if message.text() == Some("end") {
                    break;
                }
            }
            drop(sender);
            while let Ok(Some(_)) = reader.receive().await {}
        });
        Ok(())
    });
    let mut peer = served.connect();
    peer.send(format!("{HEAD}\r\n"));
    peer.receive();
    for text in ["one", "two", "end"] {
        peer.send(frame(TEXT, text));
        peer.receive_through(&text.to_uppercase());
    }
    peer.receive_through("done");
    peer.send(close(1000, ""));
    assert_eq!(peer.receive_all(), "");
}

#[test]
fn requests_that_open_no_websocket_are_refused() {
    let settings = websocket::Options::default();
    let refused = |request: String, expected: &str| {
        let service =
            Server::new().service(async |ctx: &mut Context| echo(ctx, &websocket::Options::default()).await);
        paused(async {
            let (mut near, far) = duplex(1 << 16);
            let talk = async {
                near.write_all(request.as_bytes()).await.unwrap();
                near.shutdown().await.unwrap();
                let mut received = String::new();
                near.read_to_string(&mut received).await.unwrap();
                received
            };
            let (_, received) = tokio::join!(service.serve_connection(far), talk);
            assert!(received.starts_with(&format!("HTTP/1.1 {expected}")), "{request}\n{received}");
            assert!(!received.contains("101 ") && !received.contains("sec-websocket-accept"), "{received}");
            received
        })
    };
    let head = format!("{HEAD}\r\n");
    for method in ["POST", "HEAD"] {
        let other = refused(head.replace("GET", method), "405");
        assert!(other.contains("allow: GET\r\n"), "{other}");
    }
    refused(format!("{HEAD}Content-Length: 1\r\n\r\nx"), "400");
    refused(head.replace("Upgrade: websocket\r\n", ""), "426");
    refused(head.replace("keep-alive, Upgrade", "keep-alive"), "426");
    refused(head.replace("HTTP/1.1", "HTTP/1.0"), "426");
    let other = refused(head.replace("Version: 13", "Version: 8"), "426");
    assert!(
        other.contains("sec-websocket-version: 13\r\n") && other.contains("upgrade: websocket\r\n"),
        "{other}"
    );
    refused(head.replace("Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n", ""), "400");
    refused(head.replace("ZQ==", "Z"), "400");
    refused(format!("{HEAD}Origin: http://evil.example\r\n\r\n"), "403");
    check_with(&settings, "Origin: http://a\r\n", &close(1000, ""), &["close 1000 \"\""]);
}

#[test]
fn a_subprotocol_is_agreed_on_rfc6455_1_9() {
    let settings =
        websocket::Options { protocols: vec!["v2".into(), "v1".into()], ..websocket::Options::default() };
    let service = Server::new().service(async move |ctx: &mut Context| -> corehttp::Result {
        let mut socket = ctx.websocket(&settings).await?;
        let protocol = socket.protocol.clone();
        socket.send(protocol.as_deref().unwrap_or("none")).await?;
        Ok(socket.close(CloseCode::NORMAL, "").await?)
    });
    for (lines, expected) in [
        ("", "none"),
        ("Sec-WebSocket-Protocol: v3\r\n", "none"),
        ("Sec-WebSocket-Protocol: v1, v2\r\n", "v2"),
        ("Sec-WebSocket-Protocol: v3\r\nSec-WebSocket-Protocol: v1\r\n", "v1"),
    ] {
        let (head, received) = paused(async { talk(&service, lines, &[&close(1000, "")]).await });
        assert_eq!(shown(&received)[0], format!("text {expected:?}"));
        assert_eq!(head.contains("sec-websocket-protocol: "), expected != "none", "{head}");
    }
}
