//! Where a body ends: in the same place for every reader, or else the body is refused (RFC 9112 §6, §7). Rows are
//! numbered in `tests/regressions.md`; sections are those of RFC 9112 unless noted.

use std::io;
use std::sync::LazyLock;
use std::time::Duration;

use corehttp::middleware::wrap;
use corehttp::{BodyPlan, Context, Handler, Limits, Server};
use tokio::io::AsyncReadExt;

use crate::oracle;
#[cfg(target_os = "linux")]
use crate::support::resident;
use crate::support::responses::{check_expected, check_responses, responses};
use crate::support::wired::{Then, Wired, count_handled, shortened, take_handled};
use crate::support::{Served, status};

/// How a handler receives a body. ErrorReports must not depend on the way.
#[derive(Clone, Copy, Debug)]
enum Way {
    /// Whole, before the handler runs.
    Buffered,
    /// In pieces as they arrive.
    Pulled,
    /// Byte by byte.
    Sipped,
    /// Whole, when the handler asks for it.
    BufferedLater,
}

static WAYS: LazyLock<Vec<(Way, Served)>> = LazyLock::new(|| {
    let ways = [Way::Buffered, Way::Pulled, Way::Sipped, Way::BufferedLater];
    ways.map(|way| (way, Served::new(way))).into()
});

impl Handler for Way {
    fn on_head(&self, _: &mut Context) -> BodyPlan {
        match self {
            Way::Buffered => BodyPlan::Buffer,
            Way::Pulled | Way::Sipped | Way::BufferedLater => BodyPlan::Stream,
        }
    }

    /// Answers with what it saw: method, path, body and trailers.
    async fn handle(&self, ctx: &mut Context) -> corehttp::Result {
        let (body, trailers) = self.read(ctx).await?;
        count_handled();
        assert!(!ctx.request.headers.contains("x-sum"), "trailers are no headers");
        let saw =
            format!("{} {} {}{trailers}", ctx.request.method(), ctx.request.path(), body.escape_ascii());
        if ctx.request.method() == "HEAD" {
            ctx.response.headers.set("asked", "HEAD")?;
        }
        ctx.response.set_text(saw);
        Ok(())
    }
}

impl Way {
    fn buffers(self) -> bool {
        matches!(self, Way::Buffered | Way::BufferedLater)
    }

    async fn read(self, ctx: &mut Context) -> io::Result<(Vec<u8>, String)> {
        let mut content = Vec::new();
        match self {
            Way::Buffered => {}
            Way::BufferedLater => ctx.buffer_body().await?,
            Way::Pulled => {
                let mut body = ctx.body_reader();
                while let Some(chunk) = body.chunk().await? {
                    content.extend_from_slice(chunk);
                }
                assert_eq!(body.chunk().await?, None, "an end stays the end");
                return Ok((content, told(body.trailers())));
            }
            Way::Sipped => {
                let (mut body, mut byte) = (ctx.body_reader(), [0]);
                while body.read(&mut byte).await? > 0 {
                    content.push(byte[0]);
                }
                assert_eq!(body.read(&mut byte).await?, 0, "an end stays the end");
                return Ok((content, told(body.trailers())));
            }
        }
        Ok((ctx.request.body.bytes().to_vec(), told(&ctx.request.trailers)))
    }
}

fn told(trailers: &corehttp::Headers) -> String {
    trailers.iter().map(|(name, value)| format!(" {name}={}", value.escape_ascii())).collect()
}

/// Sends `wire` in every way, to handlers that read in every way. `expected` is, for each request, what the handler
/// saw, or the status of a refusal, for which no handler saw a whole body.
#[track_caller]
fn check(wire: &[u8], expected: &[&str]) {
    check_expected(wire, expected, &note);
    for (way, served) in &*WAYS {
        let wired = Wired::new(*way);
        let (received, handled) = match way {
            Way::Buffered | Way::Pulled => wired.ask_in_every_way(served, wire),
            Way::Sipped | Way::BufferedLater => {
                let bytes: Vec<_> = wire.chunks(wire.len().div_ceil(500)).collect();
                (wired.ask(&bytes, Then::Waits), take_handled())
            }
        };
        check_responses(&received, handled, expected, (way, shortened(wire)));
    }
}

/// The request as a handler sees it, after the oracle has read it.
fn note(request: &oracle::Request) -> String {
    let text = |octets: &[u8]| String::from_utf8_lossy(octets).into_owned();
    if request.method == b"HEAD" {
        return String::new();
    }
    let mut saw = format!("{} {} ", text(&request.method), text(request.path()));
    saw += &request.content.escape_ascii().to_string();
    for field in &request.trailers {
        saw += &format!(" {}={}", text(&field.name), field.value.escape_ascii());
    }
    saw
}

/// A good message, of which the handler sees `saw`; a second request behind it must be answered, too.
#[track_caller]
fn served(wire: impl AsRef<[u8]>, saw: &str) {
    check(&[wire.as_ref(), b"GET /next HTTP/1.0\r\n\r\n"].concat(), &[saw, "GET /next "]);
}

/// A bad message, refused with `status`; a second request behind it must not be served.
#[track_caller]
fn refused(wire: impl AsRef<[u8]>, status: u16) {
    check(&[wire.as_ref(), b"GET /smuggled HTTP/1.0\r\n\r\n"].concat(), &[&status.to_string()]);
}

/// The start of a message: a peer that ends there is answered 400, and one that waits for ever 408.
#[track_caller]
fn cut_short(wire: &str) {
    check_expected(wire.as_bytes(), &["400"], &note);
    for (way, _) in &*WAYS {
        for (then, status) in [(Then::Ends, "400"), (Then::Waits, "408")] {
            let (received, handled) = Wired::new(*way).ask_counting(wire.as_bytes(), then);
            check_responses(&received, handled, &[status], (way, wire));
        }
    }
}

/// A POST request with these field lines and the body `12345`.
fn post(lines: &str) -> String {
    format!("POST / HTTP/1.1\r\nHost: a\r\n{lines}\r\n\r\n12345")
}

/// A chunked POST request.
fn chunked(body: impl AsRef<[u8]>) -> Vec<u8> {
    [b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n", body.as_ref()].concat()
}

#[test]
fn a_length_is_one_decimal_number_rfc9112_6_3() {
    served(post("Content-Length: 5"), "POST / 12345");
    served(post("content-LENGTH:\t5 \t"), "POST / 12345");
    served(post("Content-Length: 00005"), "POST / 12345");
    served("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n", "POST / ");
    served("POST / HTTP/1.1\r\nHost: a\r\n\r\n", "POST / ");
    for method in ["GET", "DELETE", "OPTIONS", "QUERY", "PROPFIND", "get"] {
        served(post("Content-Length: 5").replacen("POST", method, 1), &format!("{method} / 12345"));
    }
    served(post("Content-Length: 5").replacen("POST", "HEAD", 1), "");
    check(post("Content-Length: 5").replacen("1.1", "1.0", 1).as_bytes(), &["POST / 12345"]);
}

#[test]
fn row_25_a_second_content_length_is_refused_rfc9112_6_3() {
    for second in [
        "Content-Length: 5",
        "Content-Length: 6",
        "content-length: 0",
        "CONTENT-LENGTH: x",
        "Content-Length:",
    ] {
        refused(post(&format!("Content-Length: 5\r\n{second}")), 400);
        refused(post(&format!("Content-Length: 5\r\nX: y\r\n{second}")), 400);
        refused(post(&format!("{second}\r\nContent-Length: 5")), 400);
    }
    for list in ["5, 5", "5,5", "5, 6", "5,", ",5", "5 5", "5;5"] {
        refused(post(&format!("Content-Length: {list}")), 400);
    }
}

#[test]
fn row_26_and_27_a_length_is_digits_that_fit_63_bits_rfc9110_8_6() {
    for length in [
        "+5", "-1", "-0", "0x5", "5h", "", "1nope", "5.0", "5e0", "\"5\"", "1_0", "5\u{a0}", "５", "٥", "²",
        "'5'", "5L", "infinity",
    ] {
        refused(post(&format!("Content-Length: {length}")), 400);
    }
    for length in [
        "9223372036854775808",
        "18446744073709551615",
        "18446744073709551616",
        "21000000000000000000",
        "99999999999999999999999999",
    ] {
        refused(post(&format!("Content-Length: {length}")), 400);
    }
    // The sum of a length and a position may wrap where the length alone does not.
    let wired = Wired::new(Way::Buffered);
    for length in ["9223372036854775807", "4294967296", "10737418240"] {
        let wire = post(&format!("Content-Length: {length}"));
        let (received, handled) = wired.ask_counting(wire.as_bytes(), Then::Waits);
        check_expected(wire.as_bytes(), &["413"], &note);
        check_responses(&received, handled, &["413"], wire);
    }
}

#[test]
fn row_28_a_coding_beside_a_length_is_refused_rfc9112_6_3() {
    for length in ["5", "0", "nope", "", "5, 5"] {
        for coding in ["chunked", "Chunked", "identity", "gzip, chunked", "", "x"] {
            let (length, coding) =
                (format!("Content-Length: {length}"), format!("Transfer-Encoding: {coding}"));
            for lines in [format!("{length}\r\n{coding}"), format!("{coding}\r\n{length}")] {
                check_head(&format!("POST / HTTP/1.1\r\nHost: a\r\n{lines}\r\n\r\n0\r\n\r\n"));
            }
        }
    }
    refused(post("Content-Length: 5\r\nTransfer-Encoding: chunked"), 400);
    refused(post("Transfer-Encoding: chunked\r\nContent-Length: 5\r\nConnection: Content-Length"), 400);
}

/// Checks a request that is refused for its head alone: no body is read, so one way to read it is enough.
#[track_caller]
fn check_head(wire: &str) {
    let wire = format!("{wire}GET /smuggled HTTP/1.0\r\n\r\n");
    check_expected(wire.as_bytes(), &["400"], &note);
    let (received, handled) = Wired::new(Way::Pulled).ask_in_every_way(&WAYS[1].1, wire.as_bytes());
    check_responses(&received, handled, &["400"], wire);
}

#[test]
fn row_29_and_30_chunked_is_the_only_coding_and_stands_once_rfc9112_6_1() {
    let body = "5\r\n12345\r\n0\r\n\r\n";
    let with =
        |coding: &str| format!("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding:{coding}\r\n\r\n{body}");
    for coding in [" chunked", "chunked", "\tchunked", " Chunked", " CHUNKED\t ", " cHuNkEd"] {
        served(with(coding), "POST / 12345");
    }
    // Empty members of a list are ignored (RFC 9110 §5.6.1.2).
    for coding in [" , chunked,", "chunked,", ",chunked", "\t, ,\t,Chunked ,,"] {
        served(with(coding), "POST / 12345");
    }
    for coding in [
        "identity",
        "xchunked",
        "chunkedx",
        "chunk",
        "",
        "gzip",
        "x",
        ",",
        ", ,",
        "chunked;",
        "chunked;,",
        "chunked;a",
        "\"chunked\"",
        "'chunked'",
        "chun\u{212a}ed",
        "chunked=1",
        "[chunked]",
        "chunked\u{a0}",
        "\u{441}hunked",
        "chun ked",
        "0",
    ] {
        check_head(&with(&format!(" {coding}")));
    }
    for coding in [
        "chunked, chunked",
        "chunked,chunked",
        "chunked, , chunked",
        ", chunked,, chunked,",
        "chunked, gzip",
        "chunked, identity",
        "chunked chunked",
        "gzip chunked",
        "gzip;q=1, chunked",
        "\"gzip, chunked\"",
        "gzip, chunked, gzip",
        "chunked, gzip, chunked",
    ] {
        check_head(&with(&format!(" {coding}")));
    }
    for control in ["\x0b", "\x0c", "\0", "\x7f", "\x08", "\r"] {
        check_head(&with(&format!(" chunked{control}")));
        check_head(&with(&format!(" {control}chunked")));
    }
    for list in ["gzip, chunked", "identity, chunked", "deflate, gzip, Chunked", "x, chunked"] {
        let wire = with(&format!(" {list}"));
        refused(&wire, 501);
    }
}

#[test]
fn row_29_a_second_transfer_encoding_is_refused_rfc9112_6_1() {
    for second in ["chunked", "identity", "", "gzip", "x"] {
        let (first, second) = ("Transfer-Encoding: chunked", format!("transfer-encoding: {second}"));
        for lines in [
            format!("{first}\r\n{second}"),
            format!("{second}\r\n{first}"),
            format!("{first}\r\nX: y\r\n{second}"),
        ] {
            check_head(&format!("POST / HTTP/1.1\r\nHost: a\r\n{lines}\r\n\r\n0\r\n\r\n"));
        }
    }
}

#[test]
fn row_31_a_transfer_encoding_in_http_1_0_is_refused_rfc9112_6_1() {
    for lines in [
        "Transfer-Encoding: chunked",
        "Transfer-Encoding: identity",
        "Transfer-Encoding: chunked\r\nContent-Length: 5",
        "Connection: keep-alive\r\nTransfer-Encoding: chunked",
    ] {
        refused(format!("POST / HTTP/1.0\r\nHost: a\r\n{lines}\r\n\r\n0\r\n\r\n"), 400);
    }
}

#[test]
fn row_32_framing_fields_are_found_in_any_case_rfc9112_5_1() {
    for name in ["transfer-encoding", "TRANSFER-ENCODING", "tRaNsFeR-eNcOdInG"] {
        served(
            format!("POST / HTTP/1.1\r\nHost: a\r\n{name}: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n"),
            "POST / a",
        );
    }
    for name in [
        "transfer_encoding",
        "Transfer-Encodin",
        "Transfer-Encodings",
        "X-Transfer-Encoding",
        "Content_Length",
    ] {
        served(format!("POST / HTTP/1.1\r\nHost: a\r\n{name}: chunked\r\n\r\n"), "POST / ");
    }
    // Naming a field in Connection does not take its framing away.
    for name in ["Content-Length", "transfer-encoding", "Host", "close-not"] {
        served(post(&format!("Content-Length: 5\r\nConnection: {name}, keep-alive")), "POST / 12345");
    }
}

#[test]
fn row_33_a_body_that_is_cut_short_is_never_taken_for_whole_rfc9112_6_3() {
    cut_short("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n123");
    cut_short("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\n");
    cut_short("POST / HTTP/1.0\r\nContent-Length: 5\r\n\r\n123");
    let start = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
    for body in [
        "",
        "5",
        "5\r\n",
        "5\r\nabc",
        "5\r\nabcde\r",
        "1\r\na\r\n",
        "0\r",
        "0\r\n",
        "0\r\n\r",
        "0\r\nX: y\r\n",
    ] {
        cut_short(&format!("{start}{body}"));
    }
}

#[test]
fn row_34_and_40_a_body_above_the_limit_is_refused_rfc9110_15_5_14() {
    let small = |server: Server| server.limits(Limits { body_max: 10, ..Limits::default() });
    let head = "POST / HTTP/1.1\r\nHost: a\r\n";
    for way in [Way::Buffered, Way::BufferedLater] {
        let wired = Wired::with(small, way);
        for (wire, expected) in [
            ("Content-Length: 10\r\n\r\n0123456789", "POST / 0123456789"),
            ("Transfer-Encoding: chunked\r\n\r\n5\r\n01234\r\n5\r\n56789\r\n0\r\n\r\n", "POST / 0123456789"),
            ("Content-Length: 11\r\n\r\n", "413"),
            ("Content-Length: 10737418240\r\n\r\n0", "413"),
            ("Content-Length: 11\r\nExpect: 100-continue\r\n\r\n", "413"),
            ("Transfer-Encoding: chunked\r\n\r\nb\r\n0123456789a\r\n0\r\n\r\n", "413"),
            ("Transfer-Encoding: chunked\r\n\r\n5\r\n01234\r\n6\r\n56789a\r\n0\r\n\r\n", "413"),
            ("Transfer-Encoding: chunked\r\n\r\nfffffffffff\r\n0123456789a", "413"),
        ] {
            let wire = format!("{head}Connection: close\r\n{wire}");
            let (received, handled) = wired.ask_counting(wire.as_bytes(), Then::Waits);
            check_expected(wire.as_bytes(), &[expected], &note);
            check_responses(&received, handled, &[expected], (way, wire));
        }
    }
}

/// A refusal only at the end of the chunk would leave the peer waiting for a response that does not come.
#[test]
fn a_chunk_above_the_limit_is_refused_when_it_is_announced_rfc9110_15_5_14() {
    for way in [Way::Buffered, Way::BufferedLater] {
        let wired = Wired::new(way);
        for (expectation, said) in [("", ""), ("Expect: 100-continue\r\n", "HTTP/1.1 100 Continue\r\n\r\n")] {
            for chunks in [
                "FFFFFFFFFF\r\n".into(),
                "400001\r\n".into(),
                "400001;a=b\r\nx".into(),
                format!("5\r\nhello\r\n{:x}\r\n", (4 << 20) - 4),
                format!("{}ffffffffffffffff\r\n", "5\r\nhello\r\n".repeat(99)),
            ] {
                let head =
                    format!("POST / HTTP/1.1\r\nHost: a\r\n{expectation}Transfer-Encoding: chunked\r\n\r\n");
                let start = wired.now();
                let received = wired.ask(&[head.as_bytes(), chunks.as_bytes()], Then::Waits);
                let received = received.strip_prefix(said).expect("it was invited");
                check_responses(received, take_handled(), &["413"], (way, &chunks));
                assert_eq!(wired.now() - start, Duration::ZERO, "{way:?} {chunks}");
            }
        }
    }
}

#[test]
#[cfg(target_os = "linux")]
fn row_35_memory_grows_with_the_bytes_that_came_and_not_with_those_announced() {
    const ANNOUNCED: usize = 16 << 20;
    const PEERS: usize = 100;
    let roomy = |server: Server| server.limits(Limits { body_max: ANNOUNCED, ..Limits::default() });
    let served = Served::with(roomy, Way::Buffered);
    let before = resident();
    let lines = format!("Expect: 100-continue\r\nContent-Length: {ANNOUNCED}");
    let mut peers: Vec<_> = (0..PEERS).map(|_| served.connect()).collect();
    for peer in &mut peers {
        peer.send(format!("POST / HTTP/1.1\r\nHost: a\r\n{lines}\r\n\r\n"));
        assert_eq!(status(&peer.receive()), 100);
    }
    for piece in [&b"drip"[..], &[b'x'; 1000], b"drop"] {
        peers.iter_mut().for_each(|peer| peer.send(piece));
        assert_eq!(status(&served.ask("GET / HTTP/1.0\r\n\r\n")), 200);
    }
    let grown = resident().saturating_sub(before);
    assert!(grown < PEERS * ANNOUNCED / 8, "{grown} bytes for {PEERS} bodies that have hardly begun");
}

#[test]
fn row_36_a_chunk_size_may_have_zeros_and_extensions_rfc9112_7_1() {
    for size in
        ["3", "03", "0000000000000003", "3;a", "3;a=b", "3;a=\"b\"", "3 ;a", "3\t; a = b", "3;a;b;c=\"\\\"\""]
    {
        served(chunked(format!("{size}\r\nabc\r\n0\r\n\r\n")), "POST / abc");
        served(chunked(format!("1\r\nx\r\n{size}\r\nabc\r\n0\r\n\r\n")), "POST / xabc");
    }
    served(chunked("A\r\n0123456789\r\na\r\n0123456789\r\n0\r\n\r\n"), "POST / 01234567890123456789");
}

#[test]
fn row_36_and_37_a_chunk_size_is_hex_digits_only_rfc9112_7_1() {
    for size in [
        "3 ", "3\t", " 3", "\t3", "0x3", "0X3", "+3", "-3", "-0", "3g", "", "_3", "3_", "3.0", "3,3", "3 3",
        "\"3\"", "h", "3\0", "\x003", "3h", "x3", "３", "3\u{a0}", "3\n", "\n3", "3\r", "\r3", "3;a\nb",
        "3;a\rb", "3;\n", "3\x0b", "3#",
    ] {
        refused(chunked(format!("1\r\nx\r\n{size}\r\nabc\r\n0\r\n\r\n")), 400);
    }
    for end in ["3\nabc\r\n", "3\n\nabc\r\n", "3\rabc\r\n", "3\r\r\nabc\r\n", "3\r\rabc\r\n", "3 abc\r\n"] {
        refused(chunked(format!("{end}0\r\n\r\n")), 400);
    }
}

#[test]
fn row_37_a_malformed_extension_is_refused_rfc9112_7_1_1() {
    for extension in [
        ";",
        ";;",
        "; ",
        ";=",
        ";a=",
        ";=b",
        ";a=;b",
        ";a b",
        ";a=b c",
        ";a,b",
        ";a=\"b",
        ";a=\"b\"c",
        ";a=\"\n\"",
        ";a=\"\\\n\"",
        ";a\0",
        ";a=\0",
        ";a=\"\0\"",
        ";\x7f",
        ";a\x0b",
        ";é",
        ";a=\"\r\n\"",
        ";a/b",
        ";a ",
        ";a=b\t",
        ";{}",
    ] {
        refused(chunked(format!("3{extension}\r\nabc\r\n0\r\n\r\n")), 400);
        refused(chunked(format!("3\r\nabc\r\n0{extension}\r\n\r\n")), 400);
    }
}

#[test]
fn row_38_a_chunk_size_does_not_wrap_rfc9112_7_1() {
    for size in [
        "00000000000000003",
        "10000000000000003",
        "fffffffffffffffff",
        "ffffffffffffffff3",
        "100000000000000000000000003",
    ] {
        refused(chunked(format!("{size}\r\nabc\r\n0\r\n\r\n")), 400);
    }
    // These sizes fit 64 bits: the rest is data, which never comes to its end, or is more than may be buffered.
    for size in ["ffffffffffffffff", "fffffffffffffffd", "8000000000000000", "7fffffffffffffff", "100000003"]
    {
        let wire = chunked(format!("{size}\r\nabc\r\n0\r\n\r\n"));
        for (way, _) in &*WAYS {
            for (then, unbuffered) in [(Then::Ends, "400"), (Then::Waits, "408")] {
                let (received, handled) = Wired::new(*way).ask_counting(&wire, then);
                let expected = if way.buffers() { "413" } else { unbuffered };
                check_responses(&received, handled, &[expected], (way, size));
            }
        }
    }
}

#[test]
fn row_39_the_data_of_a_chunk_ends_with_crlf_rfc9112_7_1() {
    for end in ["", "X", "X\r\n", "\n", "\r", "\rX", "\r\r\n", "\n\r\n", " \r\n", "\0\r\n", "\r\n\n"] {
        refused(chunked(format!("3\r\nabc{end}0\r\n\r\n")), 400);
    }
    refused(chunked("2\r\nabc\r\n0\r\n\r\n"), 400);
    refused(chunked("4\r\nabc\r\n0\r\n\r\n"), 400);
    refused(chunked("3\r\nabc\r\n\r\n0\r\n\r\n"), 400);
}

#[test]
fn row_41_extensions_have_a_bound_rfc9112_7_1_1() {
    refused(chunked(format!("3;{}\r\nabc\r\n0\r\n\r\n", "a".repeat(5_000))), 400);
    refused(chunked(format!("3;a=\"{}\"\r\nabc\r\n0\r\n\r\n", "a".repeat(5_000))), 400);
    refused(chunked(format!("{}0\r\n\r\n", format!("1;{}\r\nx\r\n", "a".repeat(4_000)).repeat(5))), 400);
    for endless in ["a=b;", " ", "\t;x", "a", "x=\"y\" ;"] {
        let wire = chunked(format!("3;{}", endless.repeat((1 << 20) / endless.len())));
        WAYS.iter()
            .for_each(|(way, served)| assert_eq!(status(&served.ask(&wire)), 400, "{way:?} {endless}"));
    }
}

#[test]
fn row_42_the_last_chunk_has_the_size_zero_rfc9112_7_1() {
    for last in ["0", "00", "000", "0000000000000000", "0;a", "0;a=\"b\"", "0 ;a"] {
        served(chunked(format!("3\r\nabc\r\n{last}\r\n\r\n")), "POST / abc");
        served(chunked(format!("{last}\r\n\r\n")), "POST / ");
    }
    for last in
        ["-0", "+0", "0x0", " 0", "0 ", "0\n", "00000000000000000", "0h", "0\r\n\n", "0\r\n\r\r\n", "0\n\r\n"]
    {
        refused(chunked(format!("3\r\nabc\r\n{last}\r\n\r\n")), 400);
    }
    // The lines behind it are trailers, and not a request.
    refused(chunked("0\r\nGET /smuggled HTTP/1.1\r\nHost: s\r\n\r\n"), 400);
    refused(chunked("0\r\n0\r\n\r\n"), 400);
}

#[test]
fn row_43_trailers_that_frame_or_route_are_refused_rfc9110_6_5_1() {
    served(chunked("3\r\nabc\r\n0\r\nX-Sum: 1\r\ny:\r\n\r\n"), "POST / abc X-Sum=1 y=");
    for name in [
        "Content-Length",
        "Transfer-Encoding",
        "transfer-encoding",
        "Host",
        "Cookie",
        "Set-Cookie",
        "Authorization",
        "Trailer",
        "Connection",
        "Expect",
        "TE",
        "Upgrade",
        "Content-Type",
        "Content-Encoding",
        "Content-Language",
        "Content-Location",
        "Content-Range",
        "Range",
        "Cache-Control",
        "Max-Forwards",
        "Proxy-Authorization",
        "Forwarded",
        "X-Forwarded-For",
        "X-Real-IP",
        "Keep-Alive",
        "Proxy-Connection",
    ] {
        refused(chunked(format!("1\r\nx\r\n0\r\na: b\r\n{name}: 1\r\n\r\n")), 400);
    }
    for declared in ["Content-Length", "X-Sum, host", "transfer-encoding,x", "x,,TRAILER"] {
        refused(
            format!(
                "POST / HTTP/1.1\r\nHost: a\r\nTrailer: {declared}\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
            ),
            400,
        );
    }
}

#[test]
fn row_44_malformed_trailers_are_refused_rfc9112_7_1_2() {
    for line in [
        "a: \0",
        "a: b\rc",
        "a: b\x01",
        "a: \x7f",
        "a : b",
        " a: b",
        "\ta: b",
        "a",
        "a b: c",
        ": b",
        ":",
        "a: b\r\n c",
        "a:\r\n\tb",
        "a\0: b",
        "é: b",
        "a: b\n",
        "a: b\nc: d",
        "\n",
        "a: b\r",
        "a: b\r\r\n",
        " ",
    ] {
        refused(chunked(format!("1\r\nx\r\n0\r\n{line}\r\n\r\n")), 400);
    }
}

#[test]
fn row_45_a_trailer_section_above_its_limits_is_431_rfc9110_5_4() {
    served(chunked(format!("0\r\n{}\r\n", "a:\r\n".repeat(64))), &format!("POST / {}", " a=".repeat(64)));
    refused(chunked(format!("0\r\n{}\r\n", "a:\r\n".repeat(65))), 431);
    for endless in ["a: b\r\n", "a", "a: b\r\nb:   "] {
        let wire = chunked(format!("0\r\n{}", endless.repeat((17 << 10) / endless.len())));
        WAYS.iter()
            .for_each(|(way, served)| assert_eq!(status(&served.ask(&wire)), 431, "{way:?} {endless}"));
    }
}

#[test]
fn row_46_one_message_ends_where_the_next_begins_rfc9112_9_3_2() {
    let first = chunked("3\r\nabc\r\n0\r\nX-Sum: 1\r\n\r\n");
    let second = chunked("2\r\nde\r\n0\r\n\r\n");
    let third = post("Content-Length: 5");
    let all = [&first[..], &second, third.as_bytes(), &first].concat();
    check(&all, &["POST / abc X-Sum=1", "POST / de", "POST / 12345", "POST / abc X-Sum=1"]);
    let inner = "GET /smuggled HTTP/1.1\r\nHost: s\r\n\r\n";
    let outer = format!("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n{inner}", inner.len());
    served(outer, &format!("POST / {}", inner.as_bytes().escape_ascii()));
    let outer = chunked(format!("{:x}\r\n{inner}\r\n0\r\n\r\n", inner.len()));
    served(outer, &format!("POST / {}", inner.as_bytes().escape_ascii()));
}

#[test]
fn a_body_that_failed_fails_again_however_often_it_is_read_rfc9112_7_1() {
    let stubborn = wrap(BodyPlan::Stream, async |ctx: &mut Context| {
        let (mut seen, mut body) = (Vec::new(), ctx.body_reader());
        for _ in 0..20 {
            match body.chunk().await {
                Ok(Some(chunk)) => seen.extend_from_slice(chunk),
                Ok(None) => seen.extend_from_slice(b"END"),
                Err(_) => seen.push(b'!'),
            }
        }
        ctx.response.set_text(seen.escape_ascii().to_string());
    });
    let wired = Wired::new(stubborn);
    // The bytes before the error would be a good chunk if they were read a second time.
    for bad in ["5;a\nb\r\n0\r\n\r\n", "5;\n=\"b\r\n0\r\n\r\n", "5\n", "+5", "5;;", "5;a b", "5;a=\"\n"] {
        let wire = chunked(format!("1\r\nA\r\n{bad}GET /smuggled HTTP/1.0\r\n\r\n"));
        let responses = responses(&wired.ask_cut(&wire, Then::Waits));
        assert_eq!(responses.len(), 1, "{bad:?} {responses:?}");
        assert_eq!(responses[0].body, format!("A{}", "!".repeat(19)), "{bad:?}");
        assert!(responses[0].is_last(), "{bad:?}");
    }
}

#[test]
fn refused_trailers_are_not_shown_rfc9112_7_1_2() {
    let curious = wrap(BodyPlan::Stream, async |ctx: &mut Context| {
        let mut body = ctx.body_reader();
        while let Ok(Some(_)) = body.chunk().await {}
        let trailers = told(body.trailers());
        ctx.response.set_text(trailers);
    });
    let wired = Wired::new(curious);
    let good = chunked("0\r\nX-Sum: good\r\n\r\n");
    for bad in ["X-Sum: 1\nX-Sum: 2", "X-Sum: 1\r\nHost: a", "X-Sum: 1\r\n : 2", "X-Sum: 1\r\nX: \0"] {
        let wire = [&good[..], &chunked(format!("0\r\n{bad}\r\n\r\n"))].concat();
        let responses = responses(&wired.ask_cut(&wire, Then::Waits));
        let told: Vec<_> = responses.iter().map(|response| (response.status, &*response.body)).collect();
        assert_eq!(told, [(200, " X-Sum=good"), (200, "")], "{bad:?}");
    }
}
