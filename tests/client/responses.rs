//! Which responses are accepted, and which are refused (RFC 9112 §4, §6, §7).

use std::future::pending;
use std::io;
use std::time::Duration;

use corehttp::client::{ClientCause, ClientLimits};
use corehttp::error::ExchangeError;
use corehttp::{ClientError, Method, Request, Response, Status};
use tokio::time::{Instant, timeout};

use crate::oracle;
use crate::oracle::client::{Call, LIMITS, Limits};
use crate::support::{OK, Stage, ask, get, post, settle};

/// The fate of a connection whose response was read.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Then {
    Rests,
    Closes,
}

/// A server says `wire`, cut at every byte, and then waits. `expected` is the status, the body and what becomes of the
/// connection, or the name of the error. A second exchange follows, and is not affected.
async fn check(method: Method, wire: &str, expected: Result<(u16, &str, Then), &str>) {
    for cut in 0..=wire.len() {
        let said = wire.to_owned();
        let stage = Stage::new(move |mut peer, number| {
            let said = said.clone();
            async move {
                if number == 0 && peer.request().await?.is_some() {
                    peer.send_cut(&said, cut).await?;
                }
                peer.answer(OK).await
            }
        });
        let client = stage.client();
        let response = ask(&client, &Request::new(method, "http://a/").unwrap()).await;
        settle().await;
        let next = ask(&client, &get()).await.unwrap();
        let then = if stage.dialed().len() == 1 { Then::Rests } else { Then::Closes };
        let said = format!("{:?} cut at {cut}", wire);
        assert_eq!(next, (200, "ok".into()), "after {said}");
        let call = Call { method: method.as_str(), wire: wire.as_bytes(), is_closed: false, limits: LIMITS };
        check_read(call, (&response, then));
        match (&response, expected) {
            (Ok((status, body)), expected) => assert_eq!(Ok((*status, &**body, then)), expected, "{said}"),
            (Err(error), expected) => {
                assert_eq!(
                    (Err(reason(error).as_str()), then),
                    (expected, Then::Closes),
                    "{said}: {error:#}"
                );
                assert!(error.is_sent() && !error.is_reused(), "{said}");
            }
        }
    }
}

/// Checks that the oracle reads the same.
#[track_caller]
fn check_read(call: Call, (response, then): (&Result<(u16, String), ClientError>, Then)) {
    let why = response.as_ref().err().map(reason);
    let outcome = match (response, &why) {
        (Ok((status, body)), _) => Ok((*status, body.as_bytes(), then == Then::Rests)),
        (Err(_), why) => Err(why.as_deref().unwrap_or_default()),
    };
    oracle::client::check(call, outcome);
}

/// The innermost name of what went wrong.
fn reason(error: &ClientError) -> String {
    let name = match error.cause() {
        ClientCause::Exchange(ExchangeError::Wire(error, _)) => format!("{error:?}"),
        ClientCause::Exchange(error) => format!("{error:?}"),
        cause => format!("{cause:?}"),
    };
    name.split('(').next().unwrap().into()
}

async fn check_get(wire: &str, expected: Result<(u16, &str, Then), &str>) {
    check(Method::Get, wire, expected).await;
}

/// A server that closes behind `wire`.
fn closing(wire: &str) -> Stage {
    let wire = wire.to_owned();
    Stage::new(move |mut peer, _| {
        let wire = wire.clone();
        async move {
            peer.request().await?;
            peer.send(wire).await
        }
    })
}

fn get_closed(wire: &str, limits: Limits) -> Call<'_> {
    Call { method: "GET", wire: wire.as_bytes(), is_closed: true, limits }
}

/// The status and content that the client reads from the response of such a server.
async fn closed(wire: &str) -> Result<(u16, String), ClientError> {
    let response = ask(&closing(wire).client(), &get()).await;
    check_read(get_closed(wire, LIMITS), (&response, Then::Closes));
    response
}

#[tokio::test(start_paused = true)]
async fn row_76_a_status_line_is_version_status_and_perhaps_a_reason_rfc9112_4() {
    for line in ["200 OK", "200", "200 ", "200 a b\t\u{e9}"] {
        let wire = format!("HTTP/1.1 {line}\r\ncontent-length: 1\r\n\r\nx");
        if wire.is_ascii() {
            check_get(&wire, Ok((200, "x", Then::Rests))).await;
        } else {
            assert_eq!(closed(&wire).await.unwrap(), (200, "x".into()));
        }
    }
    check_get("HTTP/1.1 299 x\r\ncontent-length: 0\r\n\r\n", Ok((299, "", Then::Rests))).await;
    check_get("HTTP/1.1 599 x\r\ncontent-length: 0\r\n\r\n", Ok((599, "", Then::Rests))).await;
    check_get("HTTP/1.9 200 OK\r\ncontent-length: 0\r\n\r\n", Ok((200, "", Then::Rests))).await;
    for line in ["20", "2000 OK", "abc", "2xx OK", "+20 OK", " 200 OK", "-200 OK", "20\u{b2} OK", ""] {
        let wire = format!("HTTP/1.1 {line}\r\ncontent-length: 0\r\n\r\n");
        check_get(&wire, Err("StatusLine")).await;
    }
    for line in [
        "HTTP/2.0 200 OK",
        "HTTP/0.9 200 OK",
        "http/1.1 200 OK",
        "ICY 200 OK",
        "HTTP/1 200",
        "<html>",
        "220 ftp",
    ] {
        check_get(&format!("{line}\r\ncontent-length: 0\r\n\r\n"), Err("Version")).await;
    }
    for before in ["\r\n", "\n", "\r\n\r\n"] {
        check_get(&format!("{before}{OK}"), Err("StatusLine")).await;
    }
}

/// Servers make up numbers, and proxies pass them on. A number that is not a status code is a server error, with a body
/// like any other.
#[tokio::test(start_paused = true)]
async fn a_number_that_is_no_status_code_is_read_as_a_server_error_rfc9110_15() {
    for code in [600, 601, 799, 999] {
        let wire = format!("HTTP/1.1 {code} x\r\ncontent-length: 1\r\n\r\nx");
        check_get(&wire, Ok((code, "x", Then::Rests))).await;
        let (client, mut response) = (Stage::always(wire).client(), Response::new());
        client.send(&get(), &mut response).await.unwrap();
        assert!(response.status.is_server_error(), "{code}");
    }
    for code in ["000", "001", "009", "010", "099"] {
        for rest in ["", " ", " x"] {
            check_get(&format!("HTTP/1.1 {code}{rest}\r\ncontent-length: 1\r\n\r\nx"), Err("StatusLine"))
                .await;
        }
        check(Method::Head, &format!("HTTP/1.0 {code} x\r\n\r\n"), Err("StatusLine")).await;
        assert_eq!(reason(&closed(&format!("HTTP/1.1 {code} x\r\n\r\nx")).await.unwrap_err()), "StatusLine");
    }
    for code in ["600", "999"] {
        assert_eq!(closed(&format!("HTTP/1.1 {code}\r\n\r\nx")).await.unwrap().1, "x", "{code}");
        check(Method::Head, &format!("HTTP/1.1 {code}\r\ncontent-length: 1\r\n\r\n"), {
            Ok((code.parse().unwrap(), "", Then::Rests))
        })
        .await;
    }
}

#[tokio::test(start_paused = true)]
async fn field_lines_end_with_crlf_and_hold_no_controls_rfc9112_5() {
    let with = |line: &str| format!("HTTP/1.1 200 OK\r\n{line}\r\ncontent-length: 0\r\n\r\n");
    for line in ["a:b", "a:", "a: \t b \t", "a: \u{1f600}", "a: b\r\n c", "a: b\r\n\tc\r\n d"] {
        match line.is_ascii() {
            true => check_get(&with(line), Ok((200, "", Then::Rests))).await,
            false => assert_eq!(closed(&with(line)).await.unwrap().0, 200),
        }
    }
    for (line, error) in [
        ("a", "FieldName"),
        ("a : b", "FieldName"),
        (" a: b", "FieldName"),
        (": b", "FieldName"),
        ("a b: c", "FieldName"),
        ("a(: c", "FieldName"),
        ("a\0: c", "FieldName"),
        ("a: b\0c", "FieldValue"),
        ("a: b\x7fc", "FieldValue"),
        ("a: b\x01c", "FieldValue"),
        ("a: b\rc", "FieldValue"),
        ("a: b\nc: d", "LineEnd"),
        ("a: b\n c", "LineEnd"),
        ("a:\n b", "LineEnd"),
        ("a: b\n ", "LineEnd"),
    ] {
        check_get(&with(line), Err(error)).await;
    }
    check_get("HTTP/1.1 200 OK\ncontent-length: 0\r\n\r\n", Err("LineEnd")).await;
    check_get("HTTP/1.1 200 OK\r\ncontent-length: 0\n\r\n", Err("LineEnd")).await;
}

#[tokio::test(start_paused = true)]
async fn a_folded_line_is_unfolded_with_spaces_rfc9112_5_2() {
    let stage = Stage::always("HTTP/1.1 200 OK\r\na: b\r\n\tc\r\ncontent-length: 0\r\n\r\n");
    let response = stage.client().get("http://a/").await.unwrap();
    let value = response.headers.get("a").unwrap();
    assert_eq!(value.split_whitespace().collect::<Vec<_>>(), ["b", "c"]);
    assert!(!value.contains(['\r', '\n']));
}

#[tokio::test(start_paused = true)]
async fn row_75_a_length_is_one_decimal_number_rfc9112_6_3() {
    let with = |lines: &str| format!("HTTP/1.1 200 OK\r\n{lines}\r\n\r\nhello");
    check_get(&with("Content-Length: 5"), Ok((200, "hello", Then::Rests))).await;
    check_get(&with("content-length:\t005 "), Ok((200, "hello", Then::Rests))).await;
    for length in
        ["+5", "-5", "0x5", "5 5", "", "5,5", "5, 6", "5a", "\"5\"", "5.0", "18446744073709551616", "five"]
    {
        check_get(&with(&format!("content-length: {length}")), Err("ContentLength")).await;
    }
    check_get(&with("content-length: 5\r\ncontent-length: 5"), Err("ContentLength")).await;
    check_get(&with("content-length: 5\r\nx: y\r\nContent-Length: 6"), Err("ContentLength")).await;
}

#[tokio::test(start_paused = true)]
async fn row_75_chunks_beside_a_length_or_in_1_0_are_refused_rfc9112_6_1() {
    let with = |line: &str, fields: &str| format!("HTTP/1.{line}\r\n{fields}\r\n\r\n5\r\nhello\r\n0\r\n\r\n");
    let (chunked, length) = ("transfer-encoding: chunked", "content-length: 5");
    check_get(&with("1 200", chunked), Ok((200, "hello", Then::Rests))).await;
    check_get(&with("1 200", "Transfer-Encoding: CHUNKED"), Ok((200, "hello", Then::Rests))).await;
    check_get(&with("1 200", &format!("{chunked}\r\n{length}")), Err("TransferEncoding")).await;
    check_get(&with("1 200", &format!("{length}\r\n{chunked}")), Err("TransferEncoding")).await;
    check_get(&with("0 200", chunked), Err("TransferEncoding")).await;
    check_get(&with("0 200", &format!("{chunked}\r\nconnection: keep-alive")), Err("TransferEncoding")).await;
    // Empty members of a list are ignored (RFC 9110 §5.6.1.2).
    for coding in [", chunked,", ",chunked", "chunked\t, ,"] {
        let field = format!("transfer-encoding: {coding}");
        check_get(&with("1 200", &field), Ok((200, "hello", Then::Rests))).await;
        check_get(&with("1 200", &format!("{field}\r\n{length}")), Err("TransferEncoding")).await;
    }
    for coding in [
        "identity",
        "gzip",
        "chunked, gzip",
        "chunked, chunked",
        "chunked, , chunked",
        "",
        ",",
        "xchunked",
        "chunked;a=b",
    ] {
        check_get(&with("1 200", &format!("transfer-encoding: {coding}")), Err("TransferEncoding")).await;
    }
    check_get(&with("1 200", &format!("{chunked}\r\n{chunked}")), Err("TransferEncoding")).await;
    check_get(&with("1 200", "transfer-encoding: gzip, chunked"), Err("CodingNotImplemented")).await;
}

#[tokio::test(start_paused = true)]
async fn malformed_chunks_are_refused_rfc9112_7_1() {
    let with = |chunks: &str| format!("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n{chunks}");
    for chunks in [
        "5\r\nhello\r\n0\r\n\r\n",
        "2\r\nhe\r\n0003\r\nllo\r\n0\r\n\r\n",
        "5;a=b;c=\"d; \\\"e\"\r\nhello\r\n0\r\n\r\n",
        "5 ; a\r\nhello\r\n0;x\r\n\r\n",
        "5\r\nhello\r\n000\r\na: b\r\nx-sum: 1\r\n\r\n",
    ] {
        check_get(&with(chunks), Ok((200, "hello", Then::Rests))).await;
    }
    for (chunks, error) in [
        ("+5\r\nhello\r\n0\r\n\r\n", "ChunkSize"),
        ("-5\r\nhello\r\n0\r\n\r\n", "ChunkSize"),
        ("0x5\r\nhello\r\n0\r\n\r\n", "ChunkSize"),
        (" 5\r\nhello\r\n0\r\n\r\n", "ChunkSize"),
        ("5 \r\nhello\r\n0\r\n\r\n", "ChunkSize"),
        ("5\nhello\r\n0\r\n\r\n", "ChunkSize"),
        ("5\rhello\r\n0\r\n\r\n", "ChunkSize"),
        ("\r\n5\r\nhello\r\n0\r\n\r\n", "ChunkSize"),
        ("g\r\n\r\n", "ChunkSize"),
        ("10000000000000000\r\n", "ChunkSize"),
        ("5;\r\nhello\r\n0\r\n\r\n", "ChunkExtension"),
        ("5;a=\"\0\"\r\nhello\r\n0\r\n\r\n", "ChunkExtension"),
        ("4\r\nhello\r\n0\r\n\r\n", "ChunkData"),
        ("5\r\nhello0\r\n\r\n", "ChunkData"),
        ("5\r\nhello\n0\r\n\r\n", "ChunkData"),
        ("0\r\na\r\n\r\n", "Trailer"),
        ("0\r\na: b\n\r\n", "Trailer"),
        ("0\r\na: b\0\r\n\r\n", "Trailer"),
        ("0\r\nSet-Cookie : a=b\r\n\r\n", "Trailer"),
    ] {
        check_get(&with(chunks), Err(error)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn trailers_are_kept_apart_from_headers_rfc9110_6_5() {
    let stage = Stage::always(
        "HTTP/1.1 200 OK\r\nx-sum: 1\r\ntransfer-encoding: chunked\r\n\r\n1\r\nx\r\n0\r\nX-Sum: 2\r\nb: c\r\n\r\n",
    );
    let (client, request, mut response) = (stage.client(), get(), Response::new());
    client.send(&request, &mut response).await.unwrap();
    assert_eq!((response.headers.get("x-sum"), response.trailers.get("x-sum")), (Some("1"), Some("2")));
    assert_eq!((response.trailers.len(), response.headers.contains("b")), (2, false));
    let plain = Stage::always(OK).client();
    plain.send(&request, &mut response).await.unwrap();
    assert!(response.trailers.is_empty(), "those of the last response are gone");
}

#[tokio::test(start_paused = true)]
async fn row_77_some_responses_have_no_body_whatever_they_announce_rfc9112_6_3() {
    let said = [
        "content-length: 5",
        "transfer-encoding: chunked",
        "content-length: 5\r\nconnection: keep-alive",
        "a: b",
    ];
    for fields in said {
        for status in [204, 304] {
            let wire = format!("HTTP/1.1 {status} x\r\n{fields}\r\n\r\n");
            check_get(&wire, Ok((status, "", Then::Rests))).await;
            check_get(&format!("{wire}hello"), Ok((status, "", Then::Closes))).await;
        }
        for status in [200, 404, 500] {
            let wire = format!("HTTP/1.1 {status} x\r\n{fields}\r\n\r\n");
            check(Method::Head, &wire, Ok((status, "", Then::Rests))).await;
        }
    }
    check(Method::Head, "HTTP/1.1 200 x\r\ncontent-length: 5\r\n\r\nhello", Ok((200, "", Then::Closes)))
        .await;
    check_get("HTTP/1.1 205 x\r\ncontent-length: 0\r\n\r\n", Ok((205, "", Then::Rests))).await;
    // A 205 must not have content, but it is framed like any other response.
    check_get("HTTP/1.1 205 x\r\ncontent-length: 2\r\n\r\nok", Ok((205, "ok", Then::Rests))).await;
    check_get("HTTP/1.1 205 x\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n", Ok((205, "", Then::Rests)))
        .await;
}

/// Many servers announce what does not follow in ways that they would not if it did.
#[tokio::test(start_paused = true)]
async fn fields_do_not_count_where_no_body_can_follow_rfc9112_6_3() {
    for fields in AMBIGUOUS {
        check(Method::Head, &format!("HTTP/1.1 200 x\r\n{fields}\r\n\r\n"), Ok((200, "", Then::Rests))).await;
        for status in [204, 304] {
            let wire = format!("HTTP/1.1 {status} x\r\n{fields}\r\n\r\n");
            check_get(&wire, Ok((status, "", Then::Rests))).await;
        }
        let stage = Stage::always(format!("HTTP/1.1 304 x\r\na: b\r\n{fields}\r\n\r\n"));
        let response = stage.client().get("http://a/").await.unwrap();
        assert!(response.headers.iter().map(|(name, _)| name).eq(["a"]), "{response:?}");
    }
}

/// Fields that frame a body in a way that is refused if one can follow.
const AMBIGUOUS: [&str; 9] = [
    "content-length: 5\r\ncontent-length: 5",
    "content-length: 5\r\ncontent-length: 6",
    "content-length: 5, 5",
    "content-length: +5",
    "content-length: 18446744073709551615",
    "transfer-encoding: chunked\r\ncontent-length: 5",
    "transfer-encoding: chunked, chunked",
    "transfer-encoding: identity",
    "transfer-encoding: gzip",
];

/// The body is whole, and fields that change what was said before it have no meaning behind it.
#[tokio::test(start_paused = true)]
async fn trailers_that_must_not_be_there_are_discarded_rfc9112_7_1_2() {
    let head = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n";
    for lines in [
        "Set-Cookie: a=b",
        "content-length: 5",
        "transfer-encoding: chunked\r\nhost: b",
        "x-forwarded-for: 1\r\nAuthorization: x\r\ntrailer: x",
    ] {
        check_get(&format!("{head}{lines}\r\n\r\n"), Ok((200, "ok", Then::Rests))).await;
        let stage = Stage::always(format!("{head}x-sum: 1\r\n{lines}\r\nx-b: 2\r\n\r\n"));
        let (client, mut response) = (stage.client(), Response::new());
        client.send(&get(), &mut response).await.unwrap();
        assert!(response.trailers.iter().map(|(name, _)| name).eq(["x-sum", "x-b"]), "{response:?}");
        let mut reader = client.open_response(&get(), &mut response).await.unwrap();
        assert_eq!(reader.chunk().await.unwrap(), Some(&b"ok"[..]));
        assert_eq!(reader.chunk().await.unwrap(), None);
        assert_eq!(reader.trailers().len(), 2, "{lines}");
    }
}

/// As soon as it is announced, and not when it is complete: a server may send no more.
#[tokio::test(start_paused = true)]
async fn a_chunk_beyond_the_limit_is_an_error_when_it_is_announced() {
    for chunks in ["65\r\n", "FFFFFFFFFF\r\nx", "4\r\nabcd\r\n61\r\n", "64\r\n", "4\r\nabcd\r\n60\r\n"] {
        let wire = format!("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n{chunks}");
        let stage = Stage::new(move |mut peer, _| {
            let wire = wire.clone();
            async move {
                peer.request().await?;
                peer.send(wire).await?;
                pending().await
            }
        });
        let (client, start) = (
            stage.builder().limits(ClientLimits { body_max: 100, ..ClientLimits::default() }).build(),
            Instant::now(),
        );
        let error = ask(&client, &get()).await.unwrap_err();
        let is_at_once = start.elapsed() == Duration::ZERO;
        match chunks.contains("64") || chunks.contains("60") {
            false => assert_eq!((reason(&error).as_str(), is_at_once), ("BodyTooLarge", true), "{chunks:?}"),
            true => assert!(error.is_timeout() && !is_at_once, "{chunks:?}: {error:#}"),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn row_74_interim_responses_are_skipped_rfc9110_15_2() {
    let early = "HTTP/1.1 103 Early\r\nlink: </a>\r\n\r\n";
    check_get(&format!("HTTP/1.1 100 Continue\r\n\r\n{OK}"), Ok((200, "ok", Then::Rests))).await;
    check_get(&format!("{early}{early}{OK}"), Ok((200, "ok", Then::Rests))).await;
    check_get(&format!("HTTP/1.1 100\r\n\r\n{OK}"), Ok((200, "ok", Then::Rests))).await;
    check_get(&format!("HTTP/1.1 150 x\r\na: b\r\n c\r\n\r\n{OK}"), Ok((200, "ok", Then::Rests))).await;
    check_get(&format!("HTTP/1.1 103 x\r\nconnection: close\r\n\r\n{OK}"), Ok((200, "ok", Then::Closes)))
        .await;
    check_get(&format!("HTTP/1.0 100 Continue\r\n\r\n{OK}"), Ok((200, "ok", Then::Closes))).await;
    check_get(&format!("HTTP/1.1 100 Continue\r\n{OK}"), Err("FieldName")).await;
    check_get("HTTP/1.1 100 Continue\r\ncontent-length: 2\r\n\r\nok", Err("Version")).await;
    check(
        Method::Head,
        &format!("{early}HTTP/1.1 200 x\r\ncontent-length: 2\r\n\r\n"),
        Ok((200, "", Then::Rests)),
    )
    .await;
    for framing in ["content-length: 5", "transfer-encoding: chunked", "content-length: nope"] {
        check_get(&format!("HTTP/1.1 102 x\r\n{framing}\r\n\r\n{OK}"), Ok((200, "ok", Then::Rests))).await;
    }
    check_get(&format!("{}{OK}", "HTTP/1.1 199 x\r\n\r\n".repeat(17)), Ok((200, "ok", Then::Rests))).await;
    check_get(&format!("HTTP/1.1 102 x\nlink: a\r\n\r\n{OK}"), Err("LineEnd")).await;
    check_get("HTTP/1.1 101 Switching\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n", Err("Upgrade")).await;
    let response = Stage::always(format!("{early}{OK}")).client().get("http://a/").await.unwrap();
    assert_eq!((response.headers.len(), response.headers.contains("link")), (1, false));
}

#[tokio::test(start_paused = true)]
async fn row_80_a_connection_is_kept_only_if_both_sides_agree_rfc9112_9_3() {
    let with =
        |version, fields: &str| format!("HTTP/1.{version} 200 OK\r\ncontent-length: 2\r\n{fields}\r\nok");
    for (version, fields, then) in [
        (1, "", Then::Rests),
        (1, "connection: keep-alive\r\n", Then::Rests),
        (1, "connection: x, y\r\n", Then::Rests),
        (1, "connection: close\r\n", Then::Closes),
        (1, "Connection: Close\r\n", Then::Closes),
        (1, "connection: keep-alive, CLOSE\r\n", Then::Closes),
        (1, "connection: keep-alive\r\nconnection: close\r\n", Then::Closes),
        (0, "", Then::Closes),
        (0, "connection: Keep-Alive\r\n", Then::Rests),
        (0, "connection: close, keep-alive\r\n", Then::Closes),
        (1, "connection: ,\t, x ,close,\r\n", Then::Closes),
        (1, "connection: closed, \"close\", close;x\r\n", Then::Rests),
        (1, "connection:\r\nproxy-connection: close\r\n", Then::Rests),
        (0, "connection: x, keep-alive\r\n", Then::Rests),
        (0, "connection: keepalive, \"keep-alive\"\r\n", Then::Closes),
        (0, "proxy-connection: keep-alive\r\nkeep-alive: timeout=5\r\n", Then::Closes),
        (1, "keep-alive: timeout=0\r\n", Then::Closes),
    ] {
        check_get(&with(version, fields), Ok((200, "ok", then))).await;
    }
    for stray in ["x", "\r\n", OK] {
        check_get(&format!("{OK}{stray}"), Ok((200, "ok", Then::Closes))).await;
    }
}

#[tokio::test(start_paused = true)]
async fn without_a_length_a_body_ends_with_the_connection_rfc9112_6_3() {
    for (wire, body) in [
        ("HTTP/1.1 200 OK\r\n\r\nhello", "hello"),
        ("HTTP/1.0 200 OK\r\nconnection: keep-alive\r\n\r\nhello", "hello"),
        ("HTTP/1.1 200 OK\r\n\r\n", ""),
    ] {
        for cut in 0..=wire.len() {
            let stage = Stage::new(move |mut peer, _| async move {
                peer.request().await?;
                peer.send_cut(wire, cut).await
            });
            let client = stage.client();
            let response = ask(&client, &get()).await;
            check_read(get_closed(wire, LIMITS), (&response, Then::Closes));
            assert_eq!(
                (response.unwrap(), client.idle_connections()),
                ((200, body.into()), 0),
                "{wire:?} cut at {cut}"
            );
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_response_that_is_cut_short_is_an_error_at_every_byte_rfc9112_8() {
    for wire in [
        OK,
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2;a=b\r\nok\r\n0\r\nx: y\r\n\r\n",
        "HTTP/1.1 103 Early\r\nlink: a\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok",
    ] {
        assert_eq!(closed(wire).await.unwrap(), (200, "ok".into()));
        for end in 0..wire.len() {
            let error = closed(&wire[..end]).await.unwrap_err();
            let found = reason(&error);
            let is_between =
                end == 0 || wire[..end].ends_with("\r\n\r\n") && wire[end..].starts_with("HTTP/1.1 200");
            let expected = if is_between { "Closed" } else { "Incomplete" };
            assert_eq!(found, expected, "{wire:?} ends at {end}: {error:#}");
            assert!(!error.is_timeout() && error.is_sent());
            assert_eq!(error.status(), Status::BAD_GATEWAY);
            assert_eq!(io::Error::from(error).kind(), io::ErrorKind::UnexpectedEof);
        }
    }
}

/// The fields that have come cannot be read without the rest: to look at them was a panic.
#[tokio::test(start_paused = true)]
async fn a_head_that_does_not_come_leaves_no_fields() {
    let (whole, request) = ("HTTP/1.1 200 OK\r\nx-a: 1\r\nx-b: 2\r\n\r\n", get());
    for wire in
        (1..whole.len()).map(|end| &whole[..end]).chain(["HTTP/1.1 200 OK\r\nx-a: 1\r\nx b: 2\r\n\r\n"])
    {
        let mut response = Response::new();
        closing(wire).client().send(&request, &mut response).await.unwrap_err();
        assert_eq!(response.headers.iter().next(), None, "{wire:?}");
        // The same, given up.
        let owned = wire.to_owned();
        let stage = Stage::new(move |mut peer, _| {
            let wire = owned.clone();
            async move {
                peer.send(wire).await?;
                pending().await
            }
        });
        let client = stage.client();
        let _ = timeout(Duration::from_secs(1), client.send(&request, &mut response)).await;
        assert_eq!(response.headers.get_bytes("x-a"), None, "{wire:?}");
    }
}

/// An interim response is not the response, whatever fails after it.
#[tokio::test(start_paused = true)]
async fn a_response_that_fails_after_an_interim_one_has_no_field_of_it_rfc9110_15_2() {
    let early = "HTTP/1.1 103 Early\r\nlink: </a>\r\nset-cookie: a=b\r\n\r\n";
    let wires =
        ["", "HTTP/1.1 200", "HTTP/1.1 200 OK\r\nx-a: 1\r\n", "HTTP/1.1 200 OK\r\nx-a: 1\r\nx b: 2\r\n\r\n"];
    for wire in wires.map(|rest| format!("{early}{rest}")).into_iter().chain([early.repeat(2_000)]) {
        let client = closing(&wire).client();
        let pipeline = client.pipeline("http://a").unwrap().build();
        for way in ["send", "open_response", "upgrade", "finish", "head", "pipeline"] {
            let mut response = Response::new();
            let failed = match way {
                "send" => client.send(&get(), &mut response).await.err(),
                "open_response" => client.open_response(&get(), &mut response).await.err(),
                "upgrade" => client.upgrade(&get(), &mut response).await.err(),
                "finish" => client.open_call(&post()).await.unwrap().finish(&mut response).await.err(),
                "head" => client.open_call(&get()).await.unwrap().split().1.head(&mut response).await.err(),
                _ => pipeline.send(&get(), &mut response).await.err(),
            };
            assert!(failed.is_some(), "{way}: {wire:?}");
            let first = response.headers.iter().next();
            assert_eq!((response.status, first), (Status::OK, None), "{way}: {wire:?}");
        }
    }
}

/// A large head is not parsed again for each piece of it that comes, but a fault in a late piece counts all the same.
#[tokio::test(start_paused = true)]
async fn a_late_fault_in_a_large_head_is_found_without_waiting_for_more() {
    let begun = format!("HTTP/1.1 200 OK\r\nx: {}", "x".repeat(5000));
    for (late, expected) in [
        ("x", "Incomplete"),
        ("\r\ny: y\r\n", "Incomplete"),
        ("\0", "FieldValue"),
        ("\r\ny : y", "FieldName"),
    ] {
        let (wire, cut) = (format!("{begun}{late}"), begun.len());
        let stage = Stage::new(move |mut peer, _| {
            let wire = wire.clone();
            async move {
                peer.request().await?;
                peer.send_cut(wire, cut).await
            }
        });
        let error = ask(&stage.client(), &get()).await.unwrap_err();
        assert_eq!(reason(&error), expected, "{late:?}: {error:#}");
    }
}

/// As documented. The largest body is not sent to its end here, because its length alone shows that it is allowed.
#[tokio::test(start_paused = true)]
async fn row_86_the_default_limits_hold() {
    let sized = |size: usize| format!("HTTP/1.1 200 OK\r\ncontent-length: {size}\r\n\r\n");
    let fields = |count: usize| format!("HTTP/1.1 204 x\r\n{}\r\n", "a: b\r\n".repeat(count));
    let head = |size: usize| format!("HTTP/1.1 204 x\r\na: {}\r\n\r\n", "x".repeat(size - 23));
    assert_eq!(head(1000).len(), 1000);
    for (wire, expected) in [
        (sized(16 << 20), Err("Incomplete")),
        (sized((16 << 20) + 1), Err("BodyTooLarge")),
        (fields(128), Ok(())),
        (fields(129), Err("TooManyFields")),
        (head(64 << 10), Ok(())),
        (head((64 << 10) + 1), Err("HeadTooLarge")),
        (format!("HTTP/1.1 204 {}", "x".repeat(64 << 10)), Err("HeadTooLarge")),
        (format!("HTTP/1.1 204 x\r\n{}", "x".repeat(64 << 10)), Err("HeadTooLarge")),
    ] {
        let found = closed(&wire).await.map(drop).map_err(|error| reason(&error));
        assert_eq!(found.as_ref().copied().map_err(String::as_str), expected, "{}", wire.len());
    }
}

#[tokio::test(start_paused = true)]
async fn row_86_a_response_beyond_a_limit_is_an_error() {
    let sized =
        |size: usize| format!("HTTP/1.1 200 OK\r\ncontent-length: {size}\r\n\r\n{}", "x".repeat(size));
    let chunked = |size: usize| {
        let chunks = "1\r\nx\r\n".repeat(size);
        format!("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n{chunks}0\r\n\r\n")
    };
    let until_close = |size: usize| format!("HTTP/1.1 200 OK\r\n\r\n{}", "x".repeat(size));
    let fields = |count: usize| {
        format!("HTTP/1.1 200 OK\r\n{}content-length: 0\r\n\r\n", "a: b\r\n".repeat(count - 1))
    };
    let head =
        |size: usize| format!("HTTP/1.1 200 OK\r\ncontent-length: 0\r\na: {}\r\n\r\n", "x".repeat(size - 43));
    let trailers = |size| {
        format!("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n0\r\na: {}\r\n\r\n", "x".repeat(size))
    };
    let endless = |start: &str, rest: &str| format!("{start}{}", rest.repeat(100_000 / rest.len()));
    for (wire, expected) in [
        (sized(100), Ok(())),
        (chunked(100), Ok(())),
        (until_close(100), Ok(())),
        (fields(8), Ok(())),
        (head(1000), Ok(())),
        (sized(101), Err("BodyTooLarge")),
        (chunked(101), Err("BodyTooLarge")),
        (until_close(101), Err("BodyTooLarge")),
        (format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", i64::MAX), Err("BodyTooLarge")),
        (fields(9), Err("TooManyFields")),
        (head(1001), Err("HeadTooLarge")),
        (endless("HTTP/1.1 200 ", "x"), Err("HeadTooLarge")),
        (endless("HTTP/1.1 200 OK\r\na", "a"), Err("HeadTooLarge")),
        (endless("HTTP/1.1 200 OK\r\na: ", "a"), Err("HeadTooLarge")),
        (endless("HTTP/1.1 200 OK\r\n", "a: b\r\n"), Err("TooManyFields")),
        (endless("HTTP/1.1 200 OK\r\na: b", "\r\n c"), Err("HeadTooLarge")),
        (endless("", "HTTP/1.1 100 Continue\r\n\r\n"), Err("TooManyInformational")),
        (
            endless("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1;", "x"),
            Err("ChunkExtensionTooLong"),
        ),
        (trailers(16 << 10), Err("TrailersTooLarge")),
    ] {
        let client = closing(&wire)
            .builder()
            .limits(ClientLimits { body_max: 100, head_max: 1000, fields_max: 8, ..ClientLimits::default() })
            .build();
        let response = ask(&client, &get()).await;
        let limits = Limits { body_max: 100, head_max: 1000, fields_max: 8 };
        check_read(get_closed(&wire, limits), (&response, Then::Closes));
        let found = response.as_ref().map(drop).map_err(reason);
        assert_eq!(
            found.as_ref().copied().map_err(String::as_str),
            expected,
            "{}",
            &wire[..wire.len().min(99)]
        );
    }
}
