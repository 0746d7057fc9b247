//! Responses that two readers could understand differently, or that are no responses: an error for the client, and 502
//! or a cut from a gateway (RFC 9112 §4 to §8, RFC 9110 §15).

use std::future::pending;
use std::time::Duration;

use corehttp::{Context, Response, Server};
use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};
use tokio::time::timeout;

use crate::support::{Stage, ask, get, paused};

/// The outcome of a response.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Outcome {
    /// It is the response, with this body, and a gateway forwards it with this status.
    Taken(u16, &'static str),
    /// It is an error, which a gateway reports.
    Refused,
    /// It is an error that shows behind the head: what a gateway forwards is cut.
    Cut,
}

use Outcome::{Cut, Refused, Taken};

/// A server that says `response` to each request, and closes, or waits for ever.
fn server_with(response: &[u8], closes: bool) -> Stage {
    let response = response.to_vec();
    Stage::new(move |mut peer, _| {
        let response = response.clone();
        async move {
            if peer.request().await?.is_some() {
                peer.send(response).await?;
            }
            if closes { Ok(()) } else { pending().await }
        }
    })
}

/// All that a peer of a gateway in front of `stage` receives. A cut shows at the end, as a response that is not whole.
async fn through_gateway(stage: &Stage) -> String {
    let client = stage.client();
    let gateway = async move |ctx: &mut Context| {
        let onward = ctx.request.forwarded_to("http://b")?;
        ctx.forward(client.open_call(&onward)).await
    };
    let service = Server::new().service(gateway);
    let (mut near, far) = duplex(64 << 10);
    let peer = async {
        near.write_all(b"GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n").await.unwrap();
        let mut received = Vec::new();
        let _ = near.read_to_end(&mut received).await;
        String::from_utf8_lossy(&received).into_owned()
    };
    tokio::join!(peer, service.serve_connection(far)).0
}

/// Whether a response is whole, by what its head announces.
fn is_whole(response: &str) -> bool {
    let (head, body) = response.split_once("\r\n\r\n").expect("it has a head");
    let length = head.split("\r\n").find_map(|line| line.strip_prefix("content-length: "));
    match length {
        Some(length) => body.len() == length.parse::<usize>().unwrap(),
        None => body.contains("\r\n0\r\n") && body.ends_with("\r\n\r\n"),
    }
}

#[track_caller]
fn check(wire: impl AsRef<[u8]>, closes: bool, outcome: Outcome) {
    let wire = wire.as_ref();
    let shown = wire[..wire.len().min(200)].escape_ascii().to_string();
    paused(async {
        let stage = server_with(wire, closes);
        let taken = ask(&stage.client(), &get()).await;
        match outcome {
            Taken(status, body) => assert_eq!(taken.ok(), Some((status, body.to_owned())), "{shown}"),
            Refused | Cut => {
                assert!(taken.as_ref().is_err_and(|error| error.is_sent()), "{taken:?} of {shown}")
            }
        }
        // A caller that reads piece by piece never comes to an end that looks good.
        let mut response = Response::new();
        if let (Refused | Cut, Ok(mut pieces)) =
            (outcome, stage.client().open_response(&get(), &mut response).await)
        {
            let end = loop {
                match timeout(Duration::from_secs(100), pieces.chunk()).await.expect("it ends") {
                    Ok(Some(_)) => {}
                    end => break end.map(drop),
                }
            };
            assert!(outcome == Cut && end.is_err(), "{shown}");
        }
        let received = through_gateway(&stage).await;
        match outcome {
            Taken(status, body) => {
                let is_right = received.starts_with(&format!("HTTP/1.1 {status} ")) && is_whole(&received);
                assert!(is_right && received.contains(body), "{received:?} of {shown}");
            }
            Refused => {
                assert!(
                    received.starts_with("HTTP/1.1 502 ") || received.starts_with("HTTP/1.1 504 "),
                    "{received:?} of {shown}"
                );
                assert!(is_whole(&received), "{received:?}");
            }
            Cut => assert!(!is_whole(&received), "{received:?} of {shown}"),
        }
    });
}

#[test]
fn status_lines_rfc9112_4() {
    let rest = "\r\ncontent-length: 2\r\n\r\nok";
    for (line, status) in [
        ("HTTP/1.1 200 OK", 200),
        ("HTTP/1.1 200", 200),
        ("HTTP/1.0 200 OK", 200),
        ("HTTP/1.1 299 x", 299),
        ("HTTP/1.1 600 x", 600),
        ("HTTP/1.1 999 x", 999),
    ] {
        check(format!("{line}{rest}"), false, Taken(status, "ok"));
    }
    for line in [
        "HTTP/1.1 000 X",
        "HTTP/1.1 001 X",
        "HTTP/1.1 010 X",
        "HTTP/1.1 099 X",
        "HTTP/1.0 099",
        "HTTP/1.1 20 OK",
        "HTTP/1.1 2000 OK",
        "HTTP/1.1 -20 OK",
        "HTTP/1.1 +20 OK",
        "HTTP/1.1 2xx OK",
        "HTTP/1.1  200 OK",
        "HTTP/1.1\t200 OK",
        " HTTP/1.1 200 OK",
        "HTTP/2.0 200 OK",
        "HTTP/0.9 200 OK",
        "http/1.1 200 OK",
        "HTTP/1.1",
        "ICY 200 OK",
        "200 OK",
        "<html>",
        "HTTP/1.1 200 O\0K",
        "HTTP/1.1 200 OK\nx: y",
        "HTTP/1.1 200 OK\r",
        "HTTP/1.1 101 x",
        "GET / HTTP/1.1",
    ] {
        check(format!("{line}{rest}"), true, Refused);
    }
    for before in ["\r\n", "\n", "ok", "\0", "\u{feff}"] {
        check(format!("{before}HTTP/1.1 200 OK{rest}"), true, Refused);
    }
}

#[test]
fn fields_rfc9112_5() {
    let with = |line: &[u8]| [b"HTTP/1.1 200 OK\r\n", line, b"\r\ncontent-length: 2\r\n\r\nok"].concat();
    for line in [&b"a:b"[..], b"a: \xff", b"a: b\r\n c", b"a:"] {
        check(with(line), false, Taken(200, "ok"));
    }
    for line in [
        &b"a : b"[..],
        b" a: b",
        b"\ta: b",
        b"a",
        b": b",
        b"a b: c",
        b"a\0: b",
        b"a: \0",
        b"a: b\rc",
        b"a: b\nc: d",
        b"a: b\r",
        b"a: \x7f",
        b"a: b\n c",
        b"a(: b",
        b"\xe9: b",
    ] {
        check(with(line), true, Refused);
    }
}

#[test]
fn framing_rfc9112_6_3() {
    let with = |lines: &str, body: &str| format!("HTTP/1.1 200 OK\r\n{lines}\r\n\r\n{body}");
    check(with("transfer-encoding: Chunked", "2\r\nok\r\n0\r\n\r\n"), false, Taken(200, "ok"));
    for lines in [
        "content-length: 2\r\ncontent-length: 2",
        "content-length: 2\r\ncontent-length: 3",
        "content-length: 2, 2",
        "content-length: +2",
        "content-length: -2",
        "content-length: 0x2",
        "content-length: 2 2",
        "content-length:",
        "content-length: 2;",
        "content-length: 18446744073709551618",
        "content-length: 2\r\ntransfer-encoding: chunked",
        "transfer-encoding: chunked\r\ncontent-length: 2",
        "transfer-encoding: identity",
        "transfer-encoding: chunked, chunked",
        "transfer-encoding: chunked, ,chunked",
        "transfer-encoding: gzip, chunked",
        "transfer-encoding: xchunked",
        "transfer-encoding: \"chunked\"",
        "transfer-encoding: chunked\r\ntransfer-encoding: chunked",
        "transfer-encoding : chunked",
        "transfer-encoding:\r\n\tidentity",
    ] {
        check(with(lines, "2\r\nok\r\n0\r\n\r\n"), true, Refused);
    }
    check("HTTP/1.0 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n", true, Refused);
}

#[test]
fn bodies_rfc9112_7_1_rfc9112_8() {
    let chunked = |chunks: &str| format!("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n{chunks}");
    for chunks in [
        "2\r\nok\r\n0\r\n\r\n",
        "02;a=b\r\nok\r\n000\r\nx-sum: 1\r\n\r\n",
        // The body is whole before these, which say nothing about it.
        "2\r\nok\r\n0\r\nSet-Cookie: a=b\r\n\r\n",
        "2\r\nok\r\n0\r\nContent-Length: 9\r\nHost: c\r\nx-sum: 1\r\n\r\n",
    ] {
        check(chunked(chunks), false, Taken(200, "ok"));
    }
    for chunks in [
        "+2\r\nok\r\n0\r\n\r\n",
        "0x2\r\nok\r\n0\r\n\r\n",
        "2 \r\nok\r\n0\r\n\r\n",
        "2\nok\r\n0\r\n\r\n",
        "2;\r\nok\r\n0\r\n\r\n",
        "2\r\nokX\r\n0\r\n\r\n",
        "2\r\nok\n0\r\n\r\n",
        "2\r\nok0\r\n\r\n",
        "2\r\nok\r\n-0\r\n\r\n",
        "2\r\nok\r\n0\n\r\n",
        "2\r\nok\r\n0\r\nx : y\r\n\r\n",
        "2\r\nok\r\n0\r\nx: y\n\r\n",
        "2\r\nok\r\n0\r\nx: \0\r\n\r\n",
        "2\r\nok\r\n00000000000000000\r\n\r\n",
        "2\r\nok\r\n",
        "2\r\nok\r\n0\r\n",
        "2\r\nok",
        "ffffffffffffffff\r\nok",
        "10000000000000002\r\nok\r\n0\r\n\r\n",
        "",
    ] {
        check(chunked(chunks), true, Cut);
    }
    for cut in ["content-length: 3\r\n\r\nok", "content-length: 9223372036854775807\r\n\r\nok"] {
        check(format!("HTTP/1.1 200 OK\r\n{cut}"), true, Cut);
    }
}

/// Where no body can follow, the fields that would frame one do not count, but those that contradict each other go no
/// further (RFC 9112 §6.3).
#[test]
fn responses_without_a_body_rfc9112_6_3() {
    for (fields, kept) in [
        ("content-length: 5", true),
        ("a: b", false),
        ("content-length: 5\r\ncontent-length: 5", false),
        ("content-length: 5\r\ncontent-length: 6", false),
        ("content-length: 5, 5", false),
        ("content-length: 18446744073709551615", false),
        ("transfer-encoding: chunked\r\ncontent-length: 5", false),
        ("content-length: 5\r\ntransfer-encoding: identity", false),
        ("transfer-encoding: chunked, chunked", false),
    ] {
        for (method, status) in [("GET", 304), ("HEAD", 304), ("HEAD", 200), ("HEAD", 404)] {
            let stage = server_with(format!("HTTP/1.1 {status} x\r\n{fields}\r\n\r\n").as_bytes(), false);
            let client = stage.client();
            let gateway = async move |ctx: &mut Context| {
                ctx.forward(client.open_call(&ctx.request.forwarded_to("http://b")?)).await
            };
            let received = paused(async {
                let service = Server::new().service(gateway);
                let (mut near, far) = duplex(64 << 10);
                let peer = async {
                    let asked = format!("{method} / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n");
                    near.write_all(asked.as_bytes()).await.unwrap();
                    let mut received = String::new();
                    near.read_to_string(&mut received).await.unwrap();
                    received
                };
                tokio::join!(peer, service.serve_connection(far)).0
            });
            assert!(
                received.starts_with(&format!("HTTP/1.1 {status} ")) && received.ends_with("\r\n\r\n"),
                "{received:?}"
            );
            let lengths: Vec<_> =
                received.split("\r\n").filter(|line| line.starts_with("content-length")).collect();
            let expected = if kept { vec!["content-length: 5"] } else { vec![] };
            assert_eq!(lengths, expected, "{method} {status} {fields:?}: {received:?}");
            assert!(received.matches("transfer-encoding").count() + lengths.len() <= 1, "{received:?}");
        }
    }
}

/// The framing that reaches each side: trailers only if the peer takes them, and chunks only in 1.1.
#[test]
fn a_gateway_asks_as_its_peer_and_its_server_can_rfc9110_10_1_4() {
    let onward = |lines: &str| {
        paused(async {
            let stage = Stage::always("HTTP/1.0 200 OK\r\ncontent-length: 2\r\n\r\nok");
            let client = stage.client();
            let gateway = async move |ctx: &mut Context| {
                ctx.forward(client.open_call(&ctx.request.forwarded_to("http://b")?)).await
            };
            let service = Server::new().service(gateway);
            let (mut near, far) = duplex(64 << 10);
            let peer = async {
                near.write_all(lines.as_bytes()).await.unwrap();
                let mut received = String::new();
                near.read_to_string(&mut received).await.unwrap();
                received
            };
            let received = tokio::join!(peer, service.serve_connection(far)).0;
            (stage.received(), received)
        })
    };
    let (asked, _) = onward("GET / HTTP/1.1\r\nhost: a\r\nte: trailers\r\nconnection: te, close\r\n\r\n");
    assert_eq!(asked, ["GET / HTTP/1.1\r\nhost: b\r\nte: trailers\r\nconnection: te\r\n\r\n"]);
    let (asked, _) = onward("GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n");
    assert_eq!(asked, ["GET / HTTP/1.1\r\nhost: b\r\n\r\n"]);
    let chunked = "POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n";
    let sized = "POST / HTTP/1.1\r\nhost: a\r\nconnection: close\r\ncontent-length: 2\r\n\r\nhi";
    let (asked, received) = onward(&[chunked, chunked, sized].concat());
    assert_eq!(asked.len(), 2, "{asked:?}");
    assert!(
        asked[0].contains("transfer-encoding: chunked") && asked[1].contains("content-length: 2"),
        "{asked:?}"
    );
    let statuses: Vec<_> = received.split("HTTP/1.1 ").skip(1).map(|response| &response[..3]).collect();
    assert_eq!(statuses, ["200", "411", "200"], "{received}");
}
