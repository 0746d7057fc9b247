//! Sequences on a connection: responses in the order of their requests, and nothing after the last one (RFC 9112 §9).
//! Rows are numbered in `tests/regressions.md`; sections are those of RFC 9112 unless noted.

use std::io::{self, Cursor, Read};
use std::pin::Pin;
use std::sync::{Arc, LazyLock};
use std::task::{self, Poll};
use std::time::Duration;

use corehttp::middleware::wrap;
use corehttp::{BodyPlan, Context, Handler, Method, Server, Status};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt, ReadBuf, duplex};
use tokio::sync::Notify;
use tokio::time::{sleep, timeout};

use crate::support::responses::{ReceivedResponse, responses};
use crate::support::wired::{Then, Wired, count_handled, shortened, take_handled};
use crate::support::{Served, get, paused};

/// Answers with the method, the path and the body, in the way that the path names.
#[derive(Clone, Copy)]
struct App;

static SERVED: LazyLock<Served> = LazyLock::new(|| Served::new(App));

impl Handler for App {
    fn on_head(&self, ctx: &mut Context) -> BodyPlan {
        match (ctx.request.method(), ctx.request.path()) {
            (Method::Connect, _) => BodyPlan::Tunnel,
            (_, "/ignored" | "/pulled" | "/tasted" | "/sipped" | "/exact") => BodyPlan::Stream,
            (_, "/forbidden") => BodyPlan::Refuse(Status::FORBIDDEN),
            _ => BodyPlan::Buffer,
        }
    }

    async fn handle(&self, ctx: &mut Context) -> corehttp::Result {
        count_handled();
        let (method, path) = (ctx.request.method(), ctx.request.path().to_owned());
        match &*path {
            "/pulled" => ctx.buffer_body().await?,
            "/tasted" => drop(ctx.body_reader().chunk().await?),
            "/sipped" => drop(ctx.body_reader().read(&mut [0; 2]).await?),
            "/exact" => drop(ctx.body_reader().read_exact(&mut [0; 5]).await?),
            _ => {}
        }
        if method == Method::Head {
            ctx.response.headers.set("asked", "HEAD")?;
        }
        let saw = format!("{method} {path} {}", ctx.request.body.bytes().escape_ascii());
        answer(ctx, &path, saw.trim_end()).await
    }
}

async fn answer(ctx: &mut Context, path: &str, saw: &str) -> corehttp::Result {
    let response = &mut ctx.response;
    match path {
        "/sized" => response.body.set_stream(Cursor::new(saw.to_owned()), Some(saw.len() as u64)),
        "/unsized" => response.body.set_stream(Cursor::new(saw.to_owned()), None),
        "/written" | "/written-sized" => {
            if path == "/written-sized" {
                response.headers.set("content-length", saw.len())?;
            }
            let mut out = ctx.body_writer().await?;
            // An empty chunk would be the last one.
            out.write_all(b"").await?;
            out.write_all(saw.as_bytes()).await?;
            out.write_all(b"").await?;
            out.finish().await?;
        }
        "/written-204" | "/written-205" | "/written-304" => {
            response.status = Status::new(path[9..].parse()?).unwrap();
            let mut out = ctx.body_writer().await?;
            out.write_all(saw.as_bytes()).await?;
            out.finish().await?;
        }
        "/none" => {}
        "/204" | "/205" | "/304" => {
            response.set_text(saw);
            response.status = Status::new(path[1..].parse()?).unwrap();
        }
        "/not-modified" => response.set_not_modified(),
        "/missing" => return Err(Status::NOT_FOUND.into()),
        "/closing" => {
            response.headers.set("connection", "Keep-Alive, Close")?;
            response.set_text(saw);
        }
        "/broken" => response.body.set_stream(Broken, None),
        "/slow" => {
            tokio::task::yield_now().await;
            response.set_text(saw);
        }
        _ => response.set_text(saw),
    }
    Ok(())
}

/// A source that fails.
struct Broken;

impl AsyncRead for Broken {
    fn poll_read(
        self: Pin<&mut Self>,
        _: &mut task::Context<'_>,
        _: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Poll::Ready(Err(io::ErrorKind::Other.into()))
    }
}

/// Sends `wire` in every way. `expected` is, for each response, its status, its body and its field `connection`; there
/// are no other responses, and the handler ran once for each that is not a refusal.
#[track_caller]
fn check(wire: impl AsRef<[u8]>, expected: &[&str]) {
    let wire = wire.as_ref();
    let (received, handled) = Wired::new(App).ask_in_every_way(&SERVED, wire);
    compare(wire, &received, handled, expected);
}

#[track_caller]
fn compare(wire: &[u8], received: &str, handled: usize, expected: &[&str]) {
    let responses = responses(received);
    assert_eq!(responses.iter().map(told).collect::<Vec<_>>(), expected, "{:?}", shortened(wire));
    let final_ones = responses.iter().filter(|response| response.status >= 200);
    let refused = responses.iter().filter(|response| response.status >= 400 && response.is_last());
    refused.clone().for_each(|response| response.check_refusal());
    assert_eq!(handled, final_ones.count() - refused.count(), "{:?}", shortened(wire));
}

fn told(response: &ReceivedResponse) -> String {
    let body = if matches!(response.status, 200 | 205) { &*response.body } else { "" };
    let parts = [&response.status.to_string(), body, response.field("connection").unwrap_or_default()];
    parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" ")
}

fn post(path: &str, lines: &str, body: &str) -> String {
    let length = body.len();
    format!("POST {path} HTTP/1.1\r\nHost: a\r\n{lines}Content-Length: {length}\r\n\r\n{body}")
}

/// Bytes that must not be taken for a request.
const SMUGGLED: &str = "GET /smuggled HTTP/1.1\r\nHost: s\r\n\r\n";

/// The end of a conversation in which all is well.
const LAST: &str = "GET /last HTTP/1.0\r\n\r\n";
const LAST_TOLD: &str = "200 GET /last close";

#[test]
fn row_47_an_unread_body_is_never_taken_for_a_request_rfc9112_9_3() {
    check(post("/ignored", "", SMUGGLED) + LAST, &["200 POST /ignored", LAST_TOLD]);
    check(post("/ignored", "Connection: close\r\n", SMUGGLED) + SMUGGLED, &["200 POST /ignored close"]);
    let chunks = format!("{:x}\r\n{SMUGGLED}\r\n3;a=b\r\nabc\r\n0\r\nx: y\r\n\r\n", SMUGGLED.len());
    let chunked = "POST /ignored HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
    check(format!("{chunked}{chunks}{LAST}"), &["200 POST /ignored", LAST_TOLD]);
    // Nor is the rest of a body that the handler has begun to read.
    for path in ["/tasted", "/sipped"] {
        let told = format!("200 POST {path}");
        check(post(path, "", SMUGGLED) + LAST, &[&told, LAST_TOLD]);
        check(format!("{}{chunks}{LAST}", chunked.replacen("/ignored", path, 1)), &[&told, LAST_TOLD]);
    }
    // Too much to be worth the connection.
    let much = SMUGGLED.repeat(10_000);
    check(post("/ignored", "", &much) + SMUGGLED, &["200 POST /ignored close"]);
    let much = format!("{chunked}{:x}\r\n{much}\r\n0\r\n\r\n{SMUGGLED}", much.len());
    // The response has promised that the connection persists, so this one has the time to end, and a request follows
    // it.
    check(much, &["200 POST /ignored", "200 GET /smuggled"]);
}

#[test]
fn row_48_nothing_behind_a_malformed_unread_body_is_served_rfc9112_7_1() {
    for bad in
        ["3\r\nabcd\r\n", "3\nabc\r\n", "+3\r\nabc\r\n", "3;\r\nabc\r\n", "\r\n", "0\r\nhost: b\r\n\r\n"]
    {
        let head = "POST /ignored HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
        check(format!("{head}{bad}0\r\n\r\n{SMUGGLED}"), &["200 POST /ignored"]);
        check(format!("{head}1\r\nx\r\n{bad}0\r\n\r\n{SMUGGLED}"), &["200 POST /ignored"]);
    }
}

#[test]
fn row_49_a_multipart_epilogue_belongs_to_the_body_rfc9112_6_3() {
    let lines = "Content-Type: multipart/form-data; boundary=b\r\n";
    let parts = format!("--b\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\n1\r\n--b--\r\n{SMUGGLED}");
    for path in ["/ignored", "/pulled", "/"] {
        let told = match path {
            "/ignored" => "200 POST /ignored".to_owned(),
            path => format!("200 POST {path} {}", parts.as_bytes().escape_ascii()),
        };
        check(post(path, lines, &parts) + LAST, &[&told, LAST_TOLD]);
    }
}

/// Sends a POST request with `expect` and a body of five bytes, which comes in `packets` behind the head, and then
/// another request.
#[track_caller]
fn expecting(line: &str, expect: &str, packets: &[&str], expected: &[&str]) {
    let head = format!("{line}\r\nHost: a\r\nExpect: {expect}\r\nContent-Length: 5\r\n\r\n");
    let wired = Wired::new(App);
    let packets = match packets {
        [] => vec![format!("{head}12345{LAST}")],
        [first, rest @ ..] => {
            let rest = rest.iter().map(|packet| packet.to_string());
            [format!("{head}{first}")].into_iter().chain(rest).chain([LAST.to_owned()]).collect()
        }
    };
    let packets: Vec<_> = packets.iter().map(String::as_bytes).collect();
    let received = wired.ask(&packets, Then::Waits);
    compare(&packets.concat(), &received, take_handled(), expected);
}

#[test]
fn row_50_a_refused_expectation_ends_the_connection_rfc9110_10_1_1() {
    for packets in [&[][..], &["", "12345"], &["12", "345"], &[""]] {
        expecting("POST /forbidden HTTP/1.1", "100-continue", packets, &["403 close"]);
        expecting("POST /ignored HTTP/1.1", "100-continue", packets, &["200 POST /ignored close"]);
        for other in [
            "foo",
            ", foo,",
            "100-continue, foo",
            "foo, 100-continue",
            "100-continued",
            "100",
            "100-continue;q=1",
        ] {
            expecting("POST / HTTP/1.1", other, packets, &["417 close"]);
            expecting("POST /ignored HTTP/1.1", other, packets, &["417 close"]);
        }
    }
    check(format!("GET / HTTP/1.1\r\nHost: a\r\nExpect: foo\r\n\r\n{SMUGGLED}"), &["417 close"]);
    check(
        format!("GET / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nExpect: x\r\n\r\n{SMUGGLED}"),
        &["417 close"],
    );
    let large = "POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 5000000\r\n\r\n";
    check(format!("{large}{SMUGGLED}"), &["413 close"]);
}

#[test]
fn row_51_and_52_100_is_sent_only_for_a_body_that_is_wanted_and_missing_rfc9110_10_1_1() {
    for (path, told) in [("/", "200 POST / 12345"), ("/pulled", "200 POST /pulled 12345")] {
        let line = &format!("POST {path} HTTP/1.1");
        for expect in ["100-continue", "100-Continue", "100-CONTINUE", "\t100-continue "] {
            expecting(line, expect, &["", "12345"], &["100", told, LAST_TOLD]);
            expecting(line, expect, &["", "1", "234", "5"], &["100", told, LAST_TOLD]);
            expecting(line, expect, &["12", "345"], &["100", told, LAST_TOLD]);
            expecting(line, expect, &["12345"], &[told, LAST_TOLD]);
            expecting(line, expect, &[], &[told, LAST_TOLD]);
        }
        // HTTP/1.0 has no 100, whatever such a peer sends.
        for expect in ["100-continue", "foo"] {
            let line = &format!("POST {path} HTTP/1.0\r\nConnection: keep-alive");
            expecting(line, expect, &["", "12345"], &[&format!("{told} keep-alive"), LAST_TOLD]);
        }
    }
    let get = "GET / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\n\r\n";
    check(format!("{get}{LAST}"), &["200 GET /", LAST_TOLD]);
    check(post("/", "Expect: 100-continue\r\n", "") + LAST, &["200 POST /", LAST_TOLD]);
    check(post("/ignored", "Expect: 100-continue\r\n", "") + LAST, &["200 POST /ignored", LAST_TOLD]);
    // Another field, but with the same tag.
    check(post("/", "Expert: a\r\n", "12345") + LAST, &["200 POST / 12345", LAST_TOLD]);
    let chunked = "POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nTransfer-Encoding: chunked\r\n\r\n";
    let received =
        Wired::new(App).ask(&[chunked.as_bytes(), b"1\r\na\r\n", b"0\r\n\r\n", LAST.as_bytes()], Then::Waits);
    compare(chunked.as_bytes(), &received, take_handled(), &["100", "200 POST / a", LAST_TOLD]);
}

#[test]
fn row_53_responses_without_a_body_leave_no_stray_bytes_rfc9112_6_3() {
    for path in ["/", "/sized", "/unsized", "/written", "/written-sized", "/none", "/slow"] {
        let (both, head) = (get(path), get(path).replacen("GET", "HEAD", 1));
        let told = if path == "/none" { "200".to_owned() } else { format!("200 GET {path}") };
        check(format!("{head}{both}{head}{head}{LAST}"), &["200", &told, "200", "200", LAST_TOLD]);
    }
    for path in ["/204", "/205", "/304", "/not-modified", "/written-204", "/written-205", "/written-304"] {
        let (both, head) = (get(path), get(path).replacen("GET", "HEAD", 1));
        let status = ["204", "205"].into_iter().find(|status| path.ends_with(status)).unwrap_or("304");
        check(
            format!("{both}{}{head}{both}{LAST}", get("/")),
            &[status, "200 GET /", status, status, LAST_TOLD],
        );
    }
    let heads = get("/missing").replacen("GET", "HEAD", 1) + &get("/missing") + LAST;
    check(heads, &["404", "404", LAST_TOLD]);
}

#[test]
fn head_is_answered_with_the_fields_that_get_has_rfc9110_9_3_2() {
    let wired = Wired::new(App);
    for path in ["/", "/sized", "/unsized", "/written", "/written-sized", "/slow", "/304", "/204", "/205"] {
        // Both methods have four letters, so that both bodies are as long.
        let gets = wired.ask(&[get(path).replacen("GET", "LOOK", 1).as_bytes()], Then::Ends);
        let head = wired.ask(&[get(path).replacen("GET", "HEAD", 1).as_bytes()], Then::Ends);
        let (gets, head) = (responses(&gets).remove(0), responses(&head).remove(0));
        for field in ["content-length", "transfer-encoding", "content-type"] {
            assert_eq!(gets.field(field), head.field(field), "{path}");
        }
    }
}

#[test]
fn row_54_close_ends_the_connection_however_it_is_spelled_rfc9112_9_6() {
    for lines in [
        "Connection: close",
        "Connection: Close",
        "connection: CLOSE",
        "Connection: keep-alive, close",
        "Connection: close, keep-alive",
        "Connection: ,\t, x ,close",
        "Connection: keep-alive\r\nConnection: close",
        "Connection: close\r\nX: y\r\nConnection: keep-alive",
        "Connection: Upgrade, close\r\nUpgrade: websocket",
    ] {
        for version in ["HTTP/1.1", "HTTP/1.0"] {
            check(format!("GET / {version}\r\nHost: a\r\n{lines}\r\n\r\n{SMUGGLED}"), &["200 GET / close"]);
        }
    }
    check(get("/closing") + SMUGGLED, &["200 GET /closing close"]);
    check(
        get("/closing").replacen("HTTP/1.1", "HTTP/1.0\r\nConnection: keep-alive", 1) + SMUGGLED,
        &["200 GET /closing close"],
    );
}

#[test]
fn a_connection_persists_unless_close_is_said_rfc9112_9_3() {
    for line in [
        "keep-alive",
        "closed",
        "x-close",
        "\"close\"",
        "close;x",
        "",
        "clo se",
        "Upgrade",
        "host",
        "TE, \"a, close\"",
    ] {
        check(
            format!("GET / HTTP/1.1\r\nHost: a\r\nConnection: {line}\r\n\r\n{LAST}"),
            &["200 GET /", LAST_TOLD],
        );
    }
    for line in [
        "Proxy-Connection: close",
        "Close: close",
        "Keep-Alive: timeout=0, max=0",
        "Connection: TE\r\nTE: trailers, deflate;q=0.5",
        "TE: chunked, \"close\"",
        "TE: ,",
        "Trailer: x-sum",
        "Trailer:",
    ] {
        check(format!("GET / HTTP/1.1\r\nHost: a\r\n{line}\r\n\r\n{LAST}"), &["200 GET /", LAST_TOLD]);
    }
    check(get("/missing") + LAST, &["404", LAST_TOLD]);
}

#[test]
fn row_55_http_1_0_persists_if_asked_to_and_says_so_rfc9112_9_3() {
    for line in ["Keep-Alive", "keep-alive", "KEEP-ALIVE", "x, keep-alive", "keep-alive\r\nConnection: x"] {
        let kept = format!("GET / HTTP/1.0\r\nConnection: {line}\r\n\r\n");
        check(format!("{kept}{kept}{LAST}"), &["200 GET / keep-alive", "200 GET / keep-alive", LAST_TOLD]);
        // Without chunks, its end is the end of the response.
        let endless = kept.replacen('/', "/unsized", 1);
        check(format!("{endless}{SMUGGLED}"), &["200 GET /unsized close"]);
    }
    for line in ["", "keepalive", "\"keep-alive\"", "Upgrade", "alive", "keep-alive;x"] {
        check(format!("GET / HTTP/1.0\r\nConnection: {line}\r\n\r\n{SMUGGLED}"), &["200 GET / close"]);
    }
    check(
        format!("GET / HTTP/1.0\r\nKeep-Alive: 5\r\nProxy-Connection: keep-alive\r\n\r\n{SMUGGLED}"),
        &["200 GET / close"],
    );
}

#[test]
fn row_57_responses_come_in_the_order_of_their_requests_rfc9112_9_3_2() {
    let paths = ["/1", "/slow", "/unsized", "/204", "/written", "/missing", "/sized", "/none", "/2"];
    let told = [
        "200 GET /1",
        "200 GET /slow",
        "200 GET /unsized",
        "204",
        "200 GET /written",
        "404",
        "200 GET /sized",
        "200",
    ];
    let wire: String = paths.iter().map(|path| get(path)).collect();
    check(wire + LAST, &[&told[..], &["200 GET /2", LAST_TOLD]].concat());
}

#[test]
fn row_57_responses_to_one_write_leave_in_one_write_rfc9112_9_3_2() {
    let twenty = get("/1").repeat(20);
    let writes = Wired::new(App).ask_for_writes(&[twenty.as_bytes()], Then::Ends);
    assert_eq!(writes.len(), 1, "{writes:?}");
    assert_eq!(responses(&writes[0]).len(), 20);
}

#[test]
fn row_57_a_thousand_requests_in_one_write_have_a_thousand_responses_rfc9112_9_3_2() {
    let wire: String = (0..1000).map(|number| get(&format!("/n{number}"))).collect();
    let expected: Vec<_> = (0..1000).map(|number| format!("200 GET /n{number}")).collect();
    let received = responses(&SERVED.ask(&wire));
    assert_eq!(received.iter().map(told).collect::<Vec<_>>(), expected);
    let (received, handled) = Wired::new(App).ask_counting(wire.as_bytes(), Then::Waits);
    assert_eq!((responses(&received).iter().map(told).collect::<Vec<_>>(), handled), (expected, 1000));
}

#[test]
fn row_57_a_response_does_not_wait_for_the_next_handler_rfc9112_9_3_2() {
    let received = Arc::new(Notify::new());
    let gate = received.clone();
    let served = Served::new(async move |ctx: &mut Context| {
        if ctx.request.path() == "/held" {
            gate.notified().await;
        }
        ctx.response.set_text(ctx.request.path());
    });
    let mut peer = served.connect();
    peer.send(get("/1") + &get("/held") + &get("/3"));
    assert!(peer.receive().ends_with("/1"));
    received.notify_one();
    assert!(peer.receive().ends_with("/held"));
    assert!(peer.receive().ends_with("/3"));
}

#[test]
fn row_58_a_response_does_not_wait_for_the_rest_of_the_next_request_rfc9112_9_3_2() {
    for (start, rest) in [
        (post("/", "", "12345").replacen("12345", "", 1), "12345"),
        (post("/pulled", "", "12345").replacen("2345", "", 1), "2345"),
        (
            "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n1".to_owned(),
            "2345\r\n0\r\n\r\n",
        ),
        ("POST / HTTP/1.1\r\nHos".to_owned(), "t: a\r\nContent-Length: 5\r\n\r\n12345"),
        ("\r".to_owned(), &post("/", "", "12345").replacen("POST", "\nPOST", 1)),
    ] {
        let mut peer = SERVED.connect();
        peer.send(get("/1") + &get("/2") + &start);
        assert!(peer.receive().ends_with("GET /1"));
        assert!(peer.receive().ends_with("GET /2"));
        peer.send(rest);
        assert!(peer.receive().ends_with("12345"));
    }
}

/// A large body with nothing behind it changes hands without a copy: it must be whole, and not be seen again.
#[test]
fn bodies_of_all_sizes_come_back_in_the_order_of_their_requests_rfc9112_9_3_2() {
    let wired = Wired::new(async |ctx: &mut Context| {
        let Context { request, response, .. } = ctx;
        std::mem::swap(&mut request.body, &mut response.body);
    });
    let sizes = [70_000, 66_000, 0, 66_000, 3, 40_000, 16_384, 1, 69_000, 68_000, 9_000, 30_000, 30_000];
    let body = |size: &usize| ('a'..='z').cycle().skip(size % 26).take(*size).collect::<String>();
    let requests: Vec<String> = sizes.iter().map(|size| post("/", "", &body(size))).collect();
    let one_by_one: Vec<&[u8]> = requests.iter().map(String::as_bytes).collect();
    let all = requests.concat();
    for packets in [one_by_one, vec![all.as_bytes()], all.as_bytes().chunks(68 << 10).collect()] {
        let responses = responses(&wired.ask(&packets, Then::Ends));
        let came: Vec<usize> = responses.iter().map(|reply| reply.body.len()).collect();
        assert_eq!(came, sizes);
        assert!(responses.iter().zip(&sizes).all(|(reply, size)| reply.body == body(size)));
    }
}

#[test]
fn row_59_an_idle_connection_is_closed_silently_rfc9112_9_5() {
    check(get("/"), &["200 GET /"]);
    check(post("/ignored", "", "12345"), &["200 POST /ignored"]);
    check("", &[]);
}

#[test]
fn row_59_a_connection_is_idle_however_much_of_the_last_body_was_read_rfc9112_9_5() {
    let wired = Wired::new(App);
    for path in ["/", "/pulled", "/tasted", "/sipped", "/exact", "/ignored"] {
        let start = wired.now();
        wired.ask(&[post(path, "", "12345").as_bytes()], Then::Waits);
        assert_eq!(
            (wired.now() - start).as_secs(),
            60,
            "{path} is not given the time that idle connections have"
        );
    }
}

#[test]
fn row_60_a_head_that_stops_half_way_is_answered_408_or_400_rfc9112_9_5() {
    for part in [
        "G",
        "GET / HTTP/1.1",
        "GET / HTTP/1.1\r\n",
        "GET / HTTP/1.1\r\nHost: a\r",
        "GET / HTTP/1.1\r\nHost: a\r\n\r",
    ] {
        for before in ["", &get("/1")] {
            let wire = format!("{before}{part}");
            for (then, status) in [(Then::Waits, "408 close"), (Then::Ends, "400 close")] {
                let expected = if before.is_empty() { vec![status] } else { vec!["200 GET /1", status] };
                let (received, handled) = Wired::new(App).ask_counting(wire.as_bytes(), then);
                compare(wire.as_bytes(), &received, handled, &expected);
            }
        }
    }
}

#[test]
fn nothing_behind_a_refused_request_is_looked_at_rfc9112_9_6() {
    for bad in [
        "GET /\r\n\r\n",
        "\0",
        "GET / HTTP/3.0\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: +1\r\n\r\n1",
    ] {
        let told = if bad.contains("3.0") { "505 close" } else { "400 close" };
        check(
            format!("{}{}{bad}{SMUGGLED}{SMUGGLED}", get("/1"), get("/2")),
            &["200 GET /1", "200 GET /2", told],
        );
        check(format!("{}{bad}{SMUGGLED}", post("/ignored", "", SMUGGLED)), &["200 POST /ignored", told]);
    }
}

#[test]
fn a_refusal_takes_nothing_from_the_request_before_it() {
    let head = get("/1").replacen("GET", "HEAD", 1);
    let old = "GET /1 HTTP/1.0\r\nConnection: keep-alive\r\n\r\n";
    for bad in ["GET /\r\n\r\n", "GET / HTTP/1.1\r\n\r\n", "\0"] {
        check(format!("{head}{bad}{SMUGGLED}"), &["200", "400 close"]);
        check(format!("{old}{bad}{SMUGGLED}"), &["200 GET /1 keep-alive", "400 close"]);
        check(format!("{bad}{SMUGGLED}"), &["400 close"]);
    }
    // The memory of one connection serves the next one.
    let wired = Wired::new(App);
    wired.ask(&[head.as_bytes()], Then::Ends);
    let received = wired.ask(&[b"GET /\r\n\r\n"], Then::Waits);
    take_handled();
    compare(b"GET / after HEAD /", &received, 0, &["400 close"]);
}

#[test]
fn a_response_arrives_though_the_next_one_fails_rfc9112_9_6() {
    let received = SERVED.ask(get("/1") + &get("/broken") + SMUGGLED);
    let (first, behind) =
        received.split_at(received.find("GET /1").expect("the first response is there") + "GET /1".len());
    assert_eq!(responses(first).iter().map(told).collect::<Vec<_>>(), ["200 GET /1"]);
    assert!(!behind.contains("smuggled") && !behind.contains("0\r\n\r\n"), "{behind:?}");
    assert!(behind.ends_with("<ConnectionReset>"), "{behind:?} looks whole");
}

#[test]
fn a_peer_that_is_still_sending_hears_its_refusal_rfc9112_9_6() {
    let mut peer = SERVED.connect();
    peer.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10737418240\r\n\r\n");
    for _ in 0..20 {
        peer.send([b'x'; 10_000]);
    }
    let responses = responses(&peer.receive_all());
    assert_eq!(responses.iter().map(told).collect::<Vec<_>>(), ["413 close"]);
    let much = post("/ignored", "", &SMUGGLED.repeat(10_000));
    assert!(SERVED.ask(much).ends_with("POST /ignored"));
}

/// The peer's system drops the response if its data meets a closed connection.
#[test]
fn a_peer_that_said_close_and_still_sends_is_heard_rfc9112_9_6() {
    for (asked, more) in [
        ("POST /ignored HTTP/1.1\r\nhost: a\r\nconnection: close\r\ncontent-length: 5\r\n\r\n", "hello"),
        ("GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\nGET /", " HTTP/1.1"),
    ] {
        let (mut near, far) = duplex(1 << 16);
        let said = paused(async {
            let peer = async {
                near.write_all(asked.as_bytes()).await?;
                let mut received = String::new();
                near.read_to_string(&mut received).await?;
                assert_eq!(responses(&received).len(), 1, "{asked:?}");
                near.write_all(more.as_bytes()).await
            };
            let service = Server::new().service(App);
            tokio::join!(service.serve_connection(far), peer).1
        });
        assert!(said.is_ok(), "{asked:?}: {said:?}");
    }
}

#[test]
fn a_peer_that_has_ended_its_side_is_answered_rfc9112_9_6() {
    for path in ["/", "/slow", "/written", "/unsized"] {
        let mut peer = SERVED.connect();
        peer.send(get(path));
        peer.end();
        let received = responses(&peer.receive_all());
        assert_eq!(received.iter().map(told).collect::<Vec<_>>(), [format!("200 GET {path}")]);
    }
}

#[test]
fn an_idle_connection_closes_as_soon_as_its_peer_ends_rfc9112_9_5() {
    let mut peer = SERVED.connect();
    peer.send(get("/"));
    assert!(peer.receive().ends_with("GET /"));
    peer.end();
    assert_eq!(peer.stream.read(&mut [0]).unwrap(), 0);
}

#[test]
fn an_upgrade_that_nobody_wants_is_ignored_rfc9110_7_8() {
    for lines in [
        "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
        "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__",
        "Connection: keep-alive, upgrade\r\nUpgrade: TLS/1.0, HTTP/2.0",
        "Upgrade: websocket",
        "Connection: upgrade",
    ] {
        check(format!("GET / HTTP/1.1\r\nHost: a\r\n{lines}\r\n\r\n{LAST}"), &["200 GET /", LAST_TOLD]);
        check(post("/", &format!("{lines}\r\n"), "12345") + LAST, &["200 POST / 12345", LAST_TOLD]);
    }
    check(
        format!("GET / HTTP/1.0\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n{SMUGGLED}"),
        &["200 GET / close"],
    );
}

#[test]
fn bytes_behind_connect_are_never_a_request_rfc9110_9_3_6() {
    // The peer may take its tunnel for open, and send requests through it that a third party wants to smuggle.
    check(format!("CONNECT h:1 HTTP/1.1\r\nHost: h:1\r\n\r\n{SMUGGLED}"), &["200 CONNECT close"]);
}

/// A response must not follow a 101 or a 200 that hands the connection over.
#[test]
fn a_connection_that_was_handed_to_nobody_is_closed_rfc9110_7_8() {
    let hands_over = async |ctx: &mut Context| {
        let second = Duration::from_secs(1);
        let given_up = match ctx.request.method() {
            Method::Connect => timeout(second, ctx.accept_tunnel()).await.is_err(),
            _ => timeout(second, ctx.upgrade("x")).await.is_err(),
        };
        assert!(given_up, "nobody reads what it is told");
        ctx.response.set_text("too late");
    };
    for (request, status) in [
        ("GET / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n", "101"),
        ("CONNECT a:1 HTTP/1.1\r\nHost: a:1\r\n\r\n", "200"),
    ] {
        let service = Server::new().service(wrap(BodyPlan::Tunnel, hands_over));
        let (mut near, far) = duplex(30);
        let peer = async {
            near.write_all(request.as_bytes()).await.unwrap();
            sleep(Duration::from_secs(5)).await;
            let mut received = String::new();
            near.read_to_string(&mut received).await.unwrap();
            received
        };
        let (_, received) = paused(async { tokio::join!(service.serve_connection(far), peer) });
        assert!(received.starts_with(&format!("HTTP/1.1 {status} ")), "{received}");
        assert!(received.matches("HTTP/1.1").count() == 1 && !received.contains("too late"), "{received}");
    }
}
