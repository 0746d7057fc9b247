//! The attempts of tools that look for request smuggling, against a server and through a gateway: octets that two
//! readers could take for different requests are refused, and requests that go on are framed in one way (RFC 9112 §6.3,
//! §11.2).

use corehttp::middleware::wrap;
use corehttp::{BodyPlan, Client, Context, Handler, Server, Service};
use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

use crate::support::{OK, Stage, paused, settle};

/// The outcome of a request.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Outcome {
    /// It is served, and so is the one behind it.
    Served,
    Refused(u16),
}

use Outcome::{Refused, Served};

const BAD: Outcome = Refused(400);

/// The request behind each of the table.
const NEXT: &str = "GET /next HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";

/// A server, and gateways that stream and buffer, in front of `stage`.
fn fronts(stage: &Stage) -> [Service<impl Handler + use<>>; 3] {
    let front = |plan, client: Option<Client>| {
        let handler = async move |ctx: &mut Context| match &client {
            Some(client) => ctx.forward(client.open_call(&ctx.request.forwarded_to("http://b")?)).await,
            None => {
                ctx.response.set_text("ok");
                Ok(())
            }
        };
        Server::new().service(wrap(plan, handler))
    };
    [
        front(BodyPlan::Buffer, None),
        front(BodyPlan::Stream, Some(stage.client())),
        front(BodyPlan::Buffer, Some(stage.client())),
    ]
}

/// The statuses that a peer receives that sends `wire` and then waits.
async fn receive(front: &Service<impl Handler>, wire: &[u8]) -> Vec<u16> {
    let (mut near, far) = duplex(64 << 10);
    let peer = async {
        near.write_all(wire).await.unwrap();
        let mut received = Vec::new();
        near.read_to_end(&mut received).await.unwrap();
        received
    };
    let received = tokio::join!(peer, front.serve_connection(far)).0;
    let received = String::from_utf8_lossy(&received);
    let statuses = received.split("HTTP/1.1 ").skip(1).map(|response| response[..3].parse().unwrap());
    statuses.filter(|status| *status >= 200).collect()
}

/// Each request that went on is framed once, in a way that cannot be read otherwise.
#[track_caller]
fn check_onward(request: &str, wire: &str) {
    let head = request.split("\r\n\r\n").next().unwrap();
    assert!(
        head.split("\r\n").all(|line| !line.contains(['\r', '\n', '\0']) && !line.starts_with([' ', '\t']))
    );
    let framing = head.split("\r\n").skip(1).filter(|line| {
        let name = line.split(':').next().unwrap().to_ascii_lowercase();
        ["content-length", "transfer-encoding"].contains(&&*name)
    });
    let framing: Vec<_> = framing.collect();
    let is_clear = match &framing[..] {
        [] | ["transfer-encoding: chunked"] => true,
        [length] => length.strip_prefix("content-length: ").is_some_and(|length| {
            length.bytes().all(|digit| digit.is_ascii_digit()) && (length == "0" || !length.starts_with('0'))
        }),
        [_, _, ..] => false,
    };
    assert!(is_clear, "{framing:?} for {wire:?}");
}

#[track_caller]
fn check(wire: impl AsRef<[u8]>, outcome: Outcome) {
    let wire = wire.as_ref();
    let shown = wire.escape_ascii().to_string();
    paused(async {
        let stage = Stage::always(OK);
        for (number, front) in fronts(&stage).iter().enumerate() {
            let received = receive(front, &[wire, NEXT.as_bytes()].concat()).await;
            settle().await;
            let expected = match outcome {
                Served => vec![200, 200],
                Refused(status) => vec![status],
            };
            assert_eq!(received, expected, "{number}: {shown}");
            let onward = stage.received();
            onward.iter().for_each(|request| check_onward(request, &shown));
            let expected = if number > 0 && outcome == Served { 2 } else { 0 };
            assert_eq!(onward.len(), expected, "{number}: {shown}: {onward:?}");
            assert!(onward.last().is_none_or(|last| last.starts_with("GET /next ")), "{onward:?}");
        }
    });
}

/// Each line alone, and before and behind another one that frames the body.
#[track_caller]
fn check_lines(rows: &[(&[u8], Outcome)], other: &str, body: &str, beside: Outcome) {
    for (line, outcome) in rows {
        let with = |lines: &[&[u8]]| {
            [b"POST / HTTP/1.1\r\nHost: a\r\n", &*lines.join(&b"\r\n"[..]), b"\r\n\r\n", body.as_bytes()]
                .concat()
        };
        check(with(&[line]), *outcome);
        // A line that means nothing leaves the other one its meaning.
        let beside = if *outcome == Served { beside } else { *outcome };
        check(with(&[line, other.as_bytes()]), beside);
        check(with(&[other.as_bytes(), line]), beside);
    }
}

#[test]
fn transfer_encoding_as_tools_spell_it_rfc9112_6_1() {
    let good: &[&[u8]] = &[
        b"Transfer-Encoding: chunked",
        b"Transfer-Encoding:chunked",
        b"Transfer-Encoding:\tchunked",
        b"Transfer-Encoding: chunked ",
        b"Transfer-Encoding: chunked\t",
        b"tRANSFER-ENCODING: chunked",
        b"Transfer-Encoding: cHuNkEd",
        // Empty members of a list are ignored (RFC 9110 §5.6.1.2).
        b"Transfer-Encoding: ,chunked",
        b"Transfer-Encoding: chunked,",
        b"Transfer-Encoding: , chunked ,\t, ",
    ];
    let bad: &[&[u8]] = &[
        b"Transfer-Encoding : chunked",
        b"Transfer-Encoding\t: chunked",
        b" Transfer-Encoding: chunked",
        b"\tTransfer-Encoding: chunked",
        b"\x0bTransfer-Encoding: chunked",
        b"\0Transfer-Encoding: chunked",
        b"Transfer-Encoding\0: chunked",
        b"Transfer-Encoding\xa0: chunked",
        b"Transfer-Encoding\n: chunked",
        b"Transfer-Encoding\r\n : chunked",
        b"Transfer-Encoding:\x0bchunked",
        b"Transfer-Encoding:\x0cchunked",
        b"Transfer-Encoding: \0chunked",
        b"Transfer-Encoding: chunked\0",
        b"Transfer-Encoding:\xa0chunked",
        b"Transfer-Encoding:\xffchunked",
        b"Transfer-Encoding: \x96chunked",
        b"Transfer-Encoding: chunked\x0b",
        b"Transfer-Encoding: chunked\r",
        b"Transfer-Encoding: chunked\n",
        b"Transfer-Encoding: \rchunked",
        b"Transfer-Encoding:\r\n chunked",
        b"Transfer-Encoding:\n chunked",
        b"Transfer-Encoding: x\r\n\tchunked",
        b"Transfer-Encoding: chunked\r\n x",
        b"X: x\nTransfer-Encoding: chunked",
        b"X: x\rTransfer-Encoding: chunked",
        b"X: x\r\n\rTransfer-Encoding: chunked",
        b"X: x\r\n Transfer-Encoding: chunked",
        b"Transfer-Encoding: xchunked",
        b"Transfer-Encoding: chunk",
        b"Transfer-Encoding: chunkedx",
        b"Transfer-Encoding: \"chunked\"",
        b"Transfer-Encoding: 'chunked'",
        b"Transfer-Encoding: chunked;a",
        b"Transfer-Encoding: chunked; q=0",
        b"Transfer-Encoding: identity",
        b"Transfer-Encoding: identity, chunked, identity",
        b"Transfer-Encoding: chunked, identity",
        b"Transfer-Encoding: chunked, chunked",
        b"Transfer-Encoding: chunked, , chunked",
        b"Transfer-Encoding: ,",
        b"Transfer-Encoding: ,\r\nTransfer-Encoding: chunked",
        b"Transfer-Encoding: \x0b,chunked",
        b"Transfer-Encoding: chunked cow",
        b"Transfer-Encoding: cow chunked",
        b"Transfer-Encoding: cow",
        b"Transfer-Encoding:",
        b"Transfer-Encoding: chun\xe2\x84\xaaed",
        b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked",
        b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity",
        b"Transfer-Encoding: identity\r\nTransfer-Encoding: chunked",
        b"Transfer-Encoding: cow\r\nTransfer-Encoding: chunked",
        b"Transfer-Encoding:\r\nTransfer-Encoding: chunked",
    ];
    let rows: Vec<_> =
        good.iter().map(|line| (*line, Served)).chain(bad.iter().map(|line| (*line, BAD))).collect();
    check_lines(&rows, "Content-Length: 5", "0\r\n\r\n", BAD);
    // They name no coding, so that the length counts.
    for line in [
        "Transfer_Encoding: chunked",
        "X-Transfer-Encoding: chunked",
        "Transfer-Encodings: chunked",
        "Content-Transfer-Encoding: chunked",
        "TE: chunked",
        "Content-Encoding: chunked",
    ] {
        check(format!("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n{line}\r\n\r\n0\r\n\r\n"), Served);
    }
    for line in ["Transfer-Encoding: gzip, chunked", "Transfer-Encoding: identity, chunked"] {
        check(format!("POST / HTTP/1.1\r\nHost: a\r\n{line}\r\n\r\n0\r\n\r\n"), Refused(501));
    }
    for version in ["1.0", "0.9", "2.0"] {
        let wire = format!("POST / HTTP/{version}\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n");
        check(wire, if version == "1.0" { BAD } else { Refused(505) });
    }
}

#[test]
fn content_length_as_tools_spell_it_rfc9112_6_3() {
    let good: &[&[u8]] = &[b"Content-Length: 5", b"Content-Length:5", b"CONTENT-length:\t005 "];
    let bad: &[&[u8]] = &[
        b"Content-Length : 5",
        b" Content-Length: 5",
        b"\0Content-Length: 5",
        b"Content-Length\n: 5",
        b"Content-Length:\n 5",
        b"Content-Length:\r\n 5",
        b"X: x\nContent-Length: 5",
        b"X: x\r\n Content-Length: 5",
        b"Content-Length:\x0b5",
        b"Content-Length:\xa05",
        b"Content-Length: 5\0",
        b"Content-Length: +5",
        b"Content-Length: -5",
        b"Content-Length: 0x5",
        b"Content-Length: 5h",
        b"Content-Length: 5 5",
        b"Content-Length: 5,",
        b"Content-Length: ,5",
        b"Content-Length: 5, 5",
        b"Content-Length: 5, 6",
        b"Content-Length: 5;a",
        b"Content-Length: \"5\"",
        b"Content-Length: '5'",
        b"Content-Length: 5.0",
        b"Content-Length: 5e0",
        b"Content-Length: 1_0",
        b"Content-Length: \xd9\xa5",
        b"Content-Length:",
        b"Content-Length: x",
        b"Content-Length: 18446744073709551621",
        b"Content-Length: 5\r\nContent-Length: 5",
        b"Content-Length: 5\r\nContent-Length: 6",
        b"Content-Length: 0\r\nContent-Length: 5",
        b"Content-Length: 5\r\ncontent-length: 0",
        b"Content-Length:\r\nContent-Length: 5",
    ];
    let rows: Vec<_> =
        good.iter().map(|line| (*line, Served)).chain(bad.iter().map(|line| (*line, BAD))).collect();
    check_lines(&rows, "Transfer-Encoding: chunked", "0\r\n\r\n", BAD);
}

#[test]
fn chunks_as_tools_spell_them_rfc9112_7_1() {
    let chunked = |chunks: &[u8]| {
        [b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n", chunks].concat()
    };
    for chunks in
        ["3\r\nabc\r\n0\r\n\r\n", "03;a=\"b;\"\r\nabc\r\n0\r\n\r\n", "3 ;a\r\nabc\r\n000;b\r\nX: y\r\n\r\n"]
    {
        check(chunked(chunks.as_bytes()), Served);
    }
    for size in [
        &b"0x3"[..],
        b"+3",
        b"-3",
        b" 3",
        b"3 ",
        b"\t3",
        b"3\t",
        b"3;",
        b"3;;a",
        b"3;a\nb",
        b"3\n",
        b"3\r",
        b"\r3",
        b"3;a\r",
        b"3\0",
        b"3;a\0",
        b"3_0",
        b"3,0",
        b"3.0",
        b"",
        b"x3",
        b"3x",
        b"00000000000000003",
        b"\xd9\xa3",
        b"3\x0b",
        b"3\xa0",
    ] {
        check(chunked(&[size, b"\r\nabc\r\n0\r\n\r\n"].concat()), BAD);
    }
    for line in [&b"3\nabc\r\n"[..], b"3;a\nabc\r\n", b"3\rabc\r\n", b"3\r\r\nabc\r\n", b"3\n\nabc\r\n"] {
        check(chunked(&[line, b"0\r\n\r\n"].concat()), BAD);
    }
    // Where data or the body ends.
    for chunks in [
        "3\r\nabcX\r\n0\r\n\r\n",
        "3\r\nabcXX0\r\n\r\n",
        "3\r\nabc0\r\n\r\n",
        "3\r\nabc\n0\r\n\r\n",
        "3\r\nabc\r0\r\n\r\n",
        "2\r\nabc\r\n0\r\n\r\n",
        "3\r\nabc\r\n0\n\r\n",
        "3\r\nabc\r\n0\r\n\n",
        "3\r\nabc\r\n0\r\n\rX",
        "3\r\nabc\r\n-0\r\n\r\n",
        "0\r\nContent-Length: 5\r\n\r\n",
        "0\r\nHost: b\r\n\r\n",
        "0\r\nX : y\r\n\r\n",
        "0\r\nX: y\n\r\n",
        "0\r\n X: y\r\n\r\n",
        "0\r\n",
    ] {
        check(chunked(chunks.as_bytes()), BAD);
    }
}

#[test]
fn expectations_as_tools_spell_them_rfc9110_10_1_1() {
    let with =
        |lines: &str| format!("POST / HTTP/1.1\r\nHost: a\r\n{lines}\r\nContent-Length: 5\r\n\r\nhello");
    for lines in [
        "Expect: 100-continue",
        "Expect: 100-Continue, 100-continue",
        "Expect:",
        "Expect: ,",
        "Expect: \r\nExpect: 100-continue",
    ] {
        check(with(lines), Served);
    }
    for lines in
        ["Expect: y 100-continue", "Expect: 100-continue x", "Expect: x", "Expect: 100-continue\r\nExpect: x"]
    {
        check(with(lines), Refused(417));
    }
    for lines in [
        "Expect : 100-continue",
        "Expect: 100-continue\nX: y",
        "Expect: \x00100-continue",
        "Expect: x\r\n 100-continue",
    ] {
        check(with(lines), BAD);
    }
}

/// One reader sees a body, and the other one does not.
#[test]
fn a_body_in_an_unlikely_place_is_a_body_for_all_rfc9112_6() {
    let hidden = "GET /hidden HTTP/1.1\r\nHost: a\r\n\r\n";
    for method in ["GET", "DELETE", "OPTIONS", "QUERY", "PROPFIND", "get", "POST"] {
        for target in ["/", "http://a/", "/index.html?a=b", "/a.css"] {
            check(
                format!(
                    "{method} {target} HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n{hidden}",
                    hidden.len()
                ),
                Served,
            );
            let chunk = format!("{:x}\r\n{hidden}\r\n0\r\n\r\n", hidden.len());
            check(
                format!("{method} {target} HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n{chunk}"),
                Served,
            );
        }
    }
    // The length does not count to whoever drops what `connection` lists.
    for listed in ["content-length", "transfer-encoding, host", "Content-Length, close-not"] {
        check(
            format!(
                "POST / HTTP/1.1\r\nHost: a\r\nConnection: {listed}\r\nContent-Length: {}\r\n\r\n{hidden}",
                hidden.len()
            ),
            Served,
        );
    }
    // Both forms of a target, and two hosts.
    for (lines, outcome) in [
        ("GET http://b/ HTTP/1.1\r\nHost: a", Served),
        ("GET http://b/ HTTP/1.1\r\nHost:", Served),
        ("GET http://b/ HTTP/1.1\r\nHost: a\r\nHost: b", BAD),
        ("GET http://u@b/ HTTP/1.1\r\nHost: b", BAD),
        ("GET http://:80/ HTTP/1.1\r\nHost: b", BAD),
        ("GET / HTTP/1.1\r\nHost: :80", BAD),
        ("GET / HTTP/1.1\r\nHost: a@b", BAD),
        ("GET / HTTP/1.1\r\nHost: a b", BAD),
        ("GET / HTTP/1.1\r\nHost : a", BAD),
        ("GET /a b HTTP/1.1\r\nHost: a", BAD),
        ("GET /a\tb HTTP/1.1\r\nHost: a", BAD),
        ("GET /a#b HTTP/1.1\r\nHost: a", BAD),
        ("GET /a\\b HTTP/1.1\r\nHost: a", BAD),
        ("GET /a HTTP/1.1 HTTP/1.1\r\nHost: a", BAD),
        ("GET /\rHTTP/1.1\r\nHost: a", BAD),
    ] {
        check(format!("{lines}\r\n\r\n"), outcome);
    }
}

/// A server that does not read the body of a request must not find another one in it, neither here nor behind a
/// gateway.
#[test]
fn a_body_that_nobody_reads_is_no_request_rfc9112_9_3() {
    let hidden = "GET /hidden HTTP/1.1\r\nHost: a\r\n\r\n";
    for method in ["POST", "GET"] {
        let wire = format!(
            "{method} / HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n{hidden}{NEXT}",
            hidden.len()
        );
        paused(async {
            // It answers each head at once, and takes all that follows for the next one.
            let hasty = Stage::new(|mut peer, _| async move {
                while peer.head().await?.is_some() {
                    peer.send(OK).await?;
                }
                Ok(())
            });
            for (number, front) in fronts(&hasty).iter().enumerate() {
                let received = receive(front, wire.as_bytes()).await;
                assert_eq!(received, [200, 200], "{number}: {method}");
            }
        });
        let unread = wrap(BodyPlan::Stream, |ctx: &mut Context| {
            let path = ctx.request.path().to_owned();
            assert_ne!(path, "/hidden");
            ctx.response.set_text(path);
        });
        let received = paused(async { receive(&Server::new().service(unread), wire.as_bytes()).await });
        assert_eq!(received, [200, 200], "{method}");
    }
}
