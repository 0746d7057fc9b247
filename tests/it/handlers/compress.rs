//! Responses are compressed with the coding that the peer prefers, and requests decoded if the handler asks (RFC 9110
//! §8.4, §12.5.3).

use std::cell::Cell;
use std::io::{self, Read, Write};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::task::{self, Poll};
use std::thread;

use corehttp::coding::{Coding, Flush};
use corehttp::middleware::Compress;
use corehttp::middleware::wrap;
use corehttp::server::{Transform, TransformAction};
use corehttp::{
    BodyPlan, Context, Handler, Headers, IntoHandler, Limits, Method, Request, Response, Server, Status,
};
use flate2::read::{GzDecoder, ZlibDecoder};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt, ReadBuf};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::unconstrained;

use crate::support::wired::{Then, Wired};
use crate::support::{ErrorReports, Peer, Served, is_over_with_its_head, paused, status, streaming};

/// Returns the response of `handler` to a request with these fields.
fn respond<Kind, H>(handler: H, method: &str, fields: &[(&str, &str)], body: &[u8]) -> Response
where
    H: IntoHandler<Kind>,
{
    respond_up_to(BODY_MAX, handler, method, fields, body)
}

/// As [`respond`], with another limit of bodies.
fn respond_up_to<Kind, H>(
    body_max: usize,
    handler: H,
    method: &str,
    fields: &[(&str, &str)],
    body: &[u8],
) -> Response
where
    H: IntoHandler<Kind>,
{
    let limits = Limits { body_max, ..Limits::default() };
    let service = Server::new().limits(limits).service(handler);
    let mut request = Request::new(method, "/").unwrap();
    fields.iter().for_each(|(name, value)| request.headers.append(name, *value).unwrap());
    request.body.set_bytes(body);
    paused(service.respond(request))
}

const BODY_MAX: usize = 32 << 10;

/// Returns the response of `handler`, compressed, to a peer that accepts `accepted`.
fn get<Kind, H: IntoHandler<Kind>>(handler: H, accepted: &str) -> Response
where
    H::Handler: Send,
{
    respond(wrap(Compress::new(), handler), "GET", &[("accept-encoding", accepted)], b"")
}

/// The content of a response, decoded by flate2, or by this crate's server where flate2 cannot.
#[track_caller]
pub fn decoded(response: &Response) -> Vec<u8> {
    let (content, mut out) = (response.body.bytes(), Vec::new());
    match response.headers.get("content-encoding") {
        None => return content.to_vec(),
        Some("gzip") => GzDecoder::new(content).read_to_end(&mut out).unwrap(),
        Some("deflate") => ZlibDecoder::new(content).read_to_end(&mut out).unwrap(),
        Some(coding) => {
            let decoded = respond(decode, "POST", &[("content-encoding", coding)], content);
            assert_eq!(decoded.status, Status::OK);
            out.extend_from_slice(decoded.body.bytes());
            out.len()
        }
    };
    out
}

/// Sends back what it was sent, decoded.
async fn decode(ctx: &mut Context) -> corehttp::Result {
    ctx.decode_body().await?;
    std::mem::swap(&mut ctx.request.body, &mut ctx.response.body);
    Ok(())
}

fn page() -> String {
    "<p>The raven, never flitting, still is sitting.</p>\n".repeat(100)
}

fn html(ctx: &mut Context) {
    ctx.response.set_html(page());
}

#[test]
fn a_response_has_the_coding_that_the_peer_prefers_rfc9110_12_5_3() {
    for (accepted, coding) in [
        ("br, gzip, deflate", Some("gzip")),
        ("br, gzip;q=0.9", Some("br")),
        ("deflate, br", Some("br")),
        ("br;q=0.9, gzip", Some("gzip")),
        ("gzip;q=0, deflate", Some("deflate")),
        ("identity, *;q=0", None),
        ("identity;q=0, x", None),
        ("", None),
        ("compress", None),
    ] {
        let response = get(html, accepted);
        assert_eq!(response.headers.get("content-encoding"), coding, "{accepted}");
        assert_eq!(response.headers.get("vary"), Some("accept-encoding"), "{accepted}");
        assert_eq!(decoded(&response), page().as_bytes(), "{accepted}");
        assert!(coding.is_none() || response.body.len() < page().len() / 10);
    }
    let unasked = respond(wrap(Compress::new(), html), "GET", &[], b"");
    assert_eq!((unasked.body.len(), unasked.headers.get("vary")), (page().len(), Some("accept-encoding")));
    let own = wrap(Compress::new().codings(&[Coding::Deflate, Coding::Gzip]).level(Coding::Deflate, 1), html);
    let response = respond(own, "GET", &[("accept-encoding", "br, gzip, deflate")], b"");
    assert_eq!(response.headers.get("content-encoding"), Some("deflate"));
    assert_eq!(decoded(&response), page().as_bytes());
}

/// Caches kept a copy of the same content for each way to ask for it.
#[test]
fn where_there_is_no_coding_to_choose_nothing_varies_rfc9110_12_5_5() {
    for status in [Status::OK, Status::PARTIAL_CONTENT, Status::NOT_MODIFIED] {
        let handler = move |ctx: &mut Context| {
            html(ctx);
            ctx.response.status = status;
            ctx.response.headers.set("etag", "\"tag\"").unwrap();
        };
        for accepted in ["gzip", "gzip, identity;q=0"] {
            let none = wrap(Compress::new().codings(&[]), handler);
            let response = respond(none, "GET", &[("accept-encoding", accepted)], b"");
            assert_eq!(response, respond(handler, "GET", &[], b""), "{status}, {accepted}");
        }
    }
}

/// Checks that the response of `fill` is not coded for a peer that accepts `accepted`.
#[track_caller]
fn check_left_alone(why: &str, accepted: &str, fill: fn(&mut Response)) {
    let handler = move |ctx: &mut Context| {
        ctx.response.set_html(page());
        ctx.response.headers.set("etag", "\"tag\"").unwrap();
        fill(&mut ctx.response);
    };
    let (plain, response) = (respond(handler, "GET", &[], b""), get(handler, accepted));
    assert_eq!(response, plain, "{why}");
}

#[test]
fn a_partial_response_is_not_coded_and_varies_like_the_whole_rfc9110_15_3_7() {
    for (content_type, name, value, vary) in [
        ("text/html", "x", "", Some("accept-encoding")),
        ("multipart/byteranges; boundary=x", "x", "", Some("accept-encoding")),
        ("text/html", "vary", "Accept-Encoding", Some("Accept-Encoding")),
        ("image/png", "x", "", None),
        ("multipart/mixed; boundary=x", "x", "", None),
        ("text/html", "content-encoding", "br", None),
        ("text/html", "cache-control", "no-transform", None),
    ] {
        let handler = move |ctx: &mut Context| {
            ctx.response.set_shared_bytes(content_type, page()).unwrap();
            ctx.response.status = Status::PARTIAL_CONTENT;
            ctx.response.headers.set("etag", "\"tag\"").unwrap();
            ctx.response.headers.set(name, value).unwrap();
        };
        for accepted in ["gzip", ""] {
            let mut response = get(handler, accepted);
            assert_eq!(response.headers.get("vary"), vary, "{content_type} {name}");
            let mut plain = respond(handler, "GET", &[], b"");
            for of in [&mut response, &mut plain] {
                of.headers.remove("vary");
            }
            assert_eq!(response, plain, "{content_type} {name}");
        }
    }
}

/// Coded and plain content have the same date, and the peer may have a part of either.
#[test]
fn if_range_with_a_date_gets_the_whole_where_it_may_be_coded_rfc9110_13_1_5() {
    const DATE: &str = "Sun, 06 Nov 1994 08:49:37 GMT";
    let handler = |ctx: &mut Context| {
        html(ctx);
        if ctx.request.headers.contains("range") {
            ctx.response.status = Status::PARTIAL_CONTENT;
        }
    };
    for (accepted, if_range, expected) in [
        ("gzip", DATE, 200),
        ("br, gzip", DATE, 200),
        ("gzip", "x", 200),
        ("gzip", "\"tag\"", 206),
        ("gzip", "W/\"tag\"", 206),
        ("identity", DATE, 206),
        ("gzip;q=0", DATE, 206),
        ("", DATE, 206),
    ] {
        let range = [("accept-encoding", accepted), ("range", "bytes=0-1"), ("if-range", if_range)];
        let response = respond(wrap(Compress::new(), handler), "GET", &range, b"");
        assert_eq!(response.status.as_u16(), expected, "{accepted}, {if_range}");
        assert_eq!(response.headers.contains("content-encoding"), expected == 200, "{accepted}, {if_range}");
        let without = respond(wrap(Compress::new(), handler), "GET", &range[..2], b"");
        assert_eq!(without.status, Status::PARTIAL_CONTENT, "{accepted}");
    }
}

#[test]
fn content_that_gains_nothing_or_must_not_change_is_left_alone() {
    check_left_alone("small", "gzip", |response| response.body.set_bytes("x".repeat(1023)));
    check_left_alone("empty", "gzip", |response| response.body.clear());
    check_left_alone("of no type", "gzip", |response| {
        response.headers.remove("content-type");
    });
    check_left_alone("packed", "gzip", |response| response.headers.set("content-type", "image/png").unwrap());
    check_left_alone("coded", "gzip", |response| response.headers.set("content-encoding", "br").unwrap());
    check_left_alone("an unknown coding", "gzip", |response| {
        response.headers.set("content-encoding", "aes128gcm").unwrap();
    });
    check_left_alone("no part", "gzip", |response| {
        response.headers.set("content-range", "bytes */5").unwrap();
    });
    check_left_alone("forbidden", "gzip", |response| {
        response.headers.set("cache-control", "public, No-Transform").unwrap();
    });
    check_left_alone("forbidden, though nothing else will do", "gzip, identity;q=0", |response| {
        response.headers.set("cache-control", "no-transform").unwrap();
    });
    check_left_alone("no content", "gzip", |response| response.status = Status::NO_CONTENT);
    let opts_out = |ctx: &mut Context| {
        ctx.transform = None;
        ctx.response.set_html(page());
    };
    assert_eq!(get(opts_out, "gzip"), respond(opts_out, "GET", &[], b""));
    let nested = wrap(Compress::new(), wrap(Compress::new().codings(&[Coding::Gzip]), html));
    assert_eq!(decoded(&get(nested, "br, gzip")), page().as_bytes());
}

#[test]
fn a_peer_that_refuses_identity_gets_even_small_content_coded() {
    let small = |ctx: &mut Context| ctx.response.set_shared_bytes("image/png", "small").unwrap();
    let response = get(small, "gzip, identity;q=0");
    assert_eq!(response.headers.get("content-encoding"), Some("gzip"));
    assert_eq!(decoded(&response), b"small");
    // No coding that is available would do: a response is better than 406 (§12.5.3).
    let response = get(small, "identity;q=0");
    assert_eq!((response.status, response.body.bytes()), (Status::OK, &b"small"[..]));
}

/// A field with this value is `expected` when the content is coded.
#[track_caller]
fn check_fields(name: &'static str, value: &'static str, expected: Option<&str>) {
    let handler = move |ctx: &mut Context| {
        ctx.response.set_html(page());
        ctx.response.headers.append(name, value).unwrap();
    };
    let response = get(handler, "gzip");
    let values: Vec<_> = response.headers.all(name).map(|value| str::from_utf8(value).unwrap()).collect();
    assert_eq!((values.join("|")), expected.unwrap_or_default(), "{name}: {value}");
}

#[test]
fn fields_describe_the_coded_content_rfc9110_8_8_3() {
    check_fields("etag", "\"tag\"", Some("W/\"tag\""));
    check_fields("etag", "W/\"tag\"", Some("W/\"tag\""));
    check_fields("vary", "origin", Some("origin|accept-encoding"));
    check_fields("vary", "Origin, Accept-Encoding", Some("Origin, Accept-Encoding"));
    check_fields("vary", "*", Some("*"));
    check_fields("last-modified", "Sun, 06 Nov 1994 08:49:37 GMT", Some("Sun, 06 Nov 1994 08:49:37 GMT"));
    for name in ["accept-ranges", "content-length", "content-md5", "digest", "content-digest", "repr-digest"]
    {
        check_fields(name, "5300", None);
    }
}

fn unchanged(ctx: &mut Context) {
    ctx.response.headers.set("etag", "\"tag\"").unwrap();
    ctx.response.set_not_modified();
}

/// As a gateway forwards it. Such a response once kept its strong tag.
async fn streams_unchanged(ctx: &mut Context) -> corehttp::Result {
    unchanged(ctx);
    Ok(ctx.body_writer().await?.finish().await?)
}

/// With the length of the response to GET.
fn unchanged_with_length(ctx: &mut Context) {
    unchanged(ctx);
    ctx.response.headers.set("content-length", 5300).unwrap();
}

#[test]
fn not_modified_has_the_etag_of_the_coded_content_rfc9110_15_4_5() {
    for (accepted, tag) in [("gzip", "W/\"tag\""), ("identity", "\"tag\""), ("", "\"tag\"")] {
        for method in ["GET", "HEAD"] {
            let asked = [("accept-encoding", accepted)];
            for response in [
                respond(wrap(Compress::new(), unchanged), method, &asked, b""),
                respond(wrap(Compress::new(), unchanged_with_length), method, &asked, b""),
                respond(wrap(Compress::new(), streams_unchanged), method, &asked, b""),
            ] {
                let fields = ["etag", "vary", "content-encoding"].map(|name| response.headers.get(name));
                assert_eq!(fields, [Some(tag), Some("accept-encoding"), None], "{method} {accepted}");
            }
        }
    }
}

/// An image, for example, is never coded, and its tag never weak: the response that confirms it does not know the type.
#[test]
fn not_modified_has_the_etag_that_the_peer_has_rfc9110_15_4_5() {
    for (lines, tag) in [
        (&["\"tag\""][..], "\"tag\""),
        (&["\"a\", \"tag\""], "\"tag\""),
        (&["\"a\"", "\"tag\""], "\"tag\""),
        (&["W/\"tag\""], "W/\"tag\""),
        (&["\"a\", W/\"tag\""], "W/\"tag\""),
        (&["\"tag\"", "W/\"tag\""], "W/\"tag\""),
        (&["*"], "W/\"tag\""),
        (&[""], "W/\"tag\""),
    ] {
        let conditions = lines.iter().map(|line| ("if-none-match", *line));
        let fields: Vec<_> = conditions.chain([("accept-encoding", "gzip")]).collect();
        let response = respond(wrap(Compress::new(), unchanged), "GET", &fields, b"");
        assert_eq!(response.headers.get("etag"), Some(tag), "{lines:?}");
    }
    let forbidden = |ctx: &mut Context| {
        unchanged(ctx);
        ctx.response.headers.set("cache-control", "no-transform").unwrap();
    };
    let response = get(wrap(Compress::new(), forbidden), "gzip");
    assert_eq!(response.headers.get("etag"), Some("\"tag\""), "it was never coded");
}

/// A handler may rewrite the request for another server: what counts is what the peer accepted.
#[test]
fn a_handler_that_rewrites_the_request_does_not_change_the_coding() {
    let rewrites = |accepted: &'static str| {
        move |ctx: &mut Context| {
            ctx.request.headers.set("accept-encoding", accepted).unwrap();
            ctx.response.set_html(page());
        }
    };
    assert!(!get(rewrites("gzip"), "identity").headers.contains("content-encoding"));
    assert!(get(rewrites("identity"), "gzip").headers.contains("content-encoding"));
}

#[test]
fn content_of_any_size_is_coded_on_this_thread_or_another() {
    let large = |ctx: &mut Context| ctx.response.set_html(page().repeat(60));
    for accepted in ["gzip", "br"] {
        let response = get(large, accepted);
        assert_eq!(response.headers.get("content-encoding"), Some(accepted));
        assert!(response.body.len() < page().len());
    }
    for inline_max in [0, 1, usize::MAX] {
        let somewhere = wrap(Compress::new().inline_max(inline_max), html);
        let response = respond(somewhere, "GET", &[("accept-encoding", "br")], b"");
        assert_eq!(decoded(&response), page().as_bytes());
    }
    let hardly =
        respond(wrap(Compress::new().size_min(usize::MAX), html), "GET", &[("accept-encoding", "br")], b"");
    assert!(!hardly.headers.contains("content-encoding"));
}

/// The bytes that a server sends to `wire`, until it closes.
fn ask(served: &Served, wire: &str) -> Vec<u8> {
    let (mut peer, mut received) = (served.connect(), Vec::new());
    peer.send(wire);
    peer.end();
    peer.stream.read_to_end(&mut received).unwrap();
    received
}

/// The head and the body of the one response in `received`, without its chunks.
fn taken_apart(received: &[u8]) -> (String, Vec<u8>) {
    let at = received.windows(4).position(|window| window == b"\r\n\r\n").expect("a head ends") + 4;
    let (head, mut rest) = (String::from_utf8(received[..at].to_vec()).unwrap(), &received[at..]);
    if !head.contains("transfer-encoding: chunked") {
        return (head, rest.to_vec());
    }
    let mut body = Vec::new();
    while !rest.is_empty() {
        let end = rest.windows(2).position(|window| window == b"\r\n").expect("a size ends");
        let size = usize::from_str_radix(str::from_utf8(&rest[..end]).unwrap(), 16).unwrap();
        body.extend_from_slice(&rest[end + 2..][..size]);
        rest = &rest[end + 2 + size + 2..];
    }
    (head, body)
}

fn gunzip(content: &[u8]) -> String {
    let mut text = String::new();
    GzDecoder::new(content).read_to_string(&mut text).unwrap();
    text
}

const GET: &str = "GET / HTTP/1.1\r\nHost: a\r\nAccept-Encoding: gzip\r\n\r\n";

async fn streams(ctx: &mut Context) -> corehttp::Result {
    ctx.response.headers.set("content-type", "text/html")?;
    ctx.response.headers.set("content-length", page().len())?;
    let mut out = ctx.body_writer().await?;
    for line in page().split_inclusive('\n') {
        out.write_all(line.as_bytes()).await?;
    }
    Ok(out.finish().await?)
}

async fn writes(ctx: &mut Context) -> corehttp::Result {
    ctx.response.headers.set("content-type", "text/html")?;
    let (mut body, mut out) = ctx.duplex().await?;
    assert_eq!(body.chunk().await?, None);
    AsyncWriteExt::write_all(&mut out, page().as_bytes()).await?;
    AsyncWriteExt::flush(&mut out).await?;
    Ok(out.shutdown().await?)
}

fn has_source(ctx: &mut Context) {
    ctx.response.set_html("");
    ctx.response.body.set_stream(io::Cursor::new(page()), Some(page().len() as u64));
}

#[test]
fn streams_are_coded_as_they_pass() {
    let servers = [
        Served::new(wrap(Compress::new(), streams)),
        Served::new(wrap(Compress::new(), writes)),
        Served::new(wrap(Compress::new(), has_source)),
    ];
    for served in &servers {
        let (head, body) = taken_apart(&ask(served, GET));
        assert!(
            head.contains("\r\ncontent-encoding: gzip\r\n") && !head.contains("content-length"),
            "{head}"
        );
        assert!(
            head.contains("transfer-encoding: chunked") && head.contains("vary: accept-encoding"),
            "{head}"
        );
        assert_eq!(gunzip(&body), page());
        // Without chunks the end of the connection is the end of the content.
        let (head, body) = taken_apart(&ask(served, &GET.replace("1.1", "1.0")));
        assert!(head.contains("connection: close") && !head.contains("chunked"), "{head}");
        assert_eq!(gunzip(&body), page());
        let (head, body) = taken_apart(&ask(served, &GET.replace("gzip", "identity")));
        assert!(!head.contains("content-encoding") && head.contains("vary: accept-encoding"), "{head}");
        assert_eq!(body, page().as_bytes());
    }
}

#[test]
fn head_has_the_fields_of_get_except_those_of_framing_rfc9110_9_3_2() {
    let with_length = |ctx: &mut Context| {
        ctx.response.headers.set("content-type", "text/html").unwrap();
        ctx.response.headers.set("content-length", page().len()).unwrap();
        if ctx.request.method() == Method::Get {
            ctx.response.body.set_bytes(page());
        }
    };
    let without_length = |ctx: &mut Context| {
        ctx.response.set_html(page());
        ctx.response.headers.set("etag", "\"tag\"").unwrap();
    };
    let servers = [
        Served::new(wrap(Compress::new(), with_length)),
        Served::new(wrap(Compress::new(), without_length)),
        Served::new(wrap(Compress::new(), streams)),
        Served::new(wrap(Compress::new(), has_source)),
    ];
    for served in &servers {
        let fields = |wire: &str| {
            let (head, body) = taken_apart(&ask(served, wire));
            let is_framing = |line: &&str| {
                ["content-length", "transfer-encoding", "date"].iter().any(|name| line.starts_with(name))
            };
            (head.lines().filter(|line| !is_framing(line)).collect::<Vec<_>>().join("\n"), body)
        };
        let (of_get, of_head) = (fields(GET), fields(&GET.replace("GET", "HEAD")));
        assert_eq!(of_head, (of_get.0.clone(), Vec::new()));
        assert!(of_get.0.contains("content-encoding: gzip"), "{of_get:?}");
        let (head, _) = taken_apart(&ask(served, &GET.replace("GET", "HEAD")));
        assert!(!head.contains("content-length"), "nobody knows it yet: {head}");
    }
}

/// Yields an event each time it is asked, and then says that there is none for now, until it is woken.
struct Events {
    left: usize,
    is_due: bool,
    may_go_on: UnboundedReceiver<()>,
}

impl AsyncRead for Events {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut task::Context<'_>,
        out: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.left == 0 {
            return Poll::Ready(Ok(()));
        }
        if !self.is_due {
            std::task::ready!(self.may_go_on.poll_recv(cx));
        }
        (self.is_due, self.left) = (false, self.left - 1);
        out.put_slice(b"data: tick\n\n");
        Poll::Ready(Ok(()))
    }
}

/// Receives three events, each before the next is there.
#[track_caller]
fn check_events(served: &Served, go_on: &UnboundedSender<()>) {
    let mut peer = served.connect();
    peer.send(GET);
    let mut content = events(peer);
    for _ in 0..3 {
        let mut event = [0; 12];
        content.read_exact(&mut event).unwrap();
        assert_eq!(&event, b"data: tick\n\n");
        let _ = go_on.send(());
    }
    assert_eq!(content.read(&mut [0; 1]).unwrap(), 0);
}

#[test]
fn flushed_content_arrives_at_once() {
    let (go_on, may_go_on) = unbounded_channel();
    let may_go_on = Arc::new(tokio::sync::Mutex::new(may_go_on));
    let writes = async move |ctx: &mut Context| -> corehttp::Result {
        ctx.response.headers.set("content-type", "text/event-stream")?;
        let mut out = ctx.body_writer().await?;
        for _ in 0..3 {
            out.write_all(b"data: ").await?;
            out.write_all(b"tick\n\n").await?;
            out.flush().await?;
            may_go_on.lock().await.recv().await;
        }
        Ok(out.finish().await?)
    };
    check_events(&Served::new(wrap(Compress::new(), writes)), &go_on);
}

#[test]
fn a_source_is_flushed_whenever_it_pauses() {
    let (go_on, may_go_on) = unbounded_channel();
    let source = Mutex::new(Some(Events { left: 3, is_due: true, may_go_on }));
    let yields = move |ctx: &mut Context| {
        ctx.response.headers.set("content-type", "text/event-stream").unwrap();
        ctx.response.body.set_stream(source.lock().unwrap().take().expect("one request"), None);
    };
    check_events(&Served::new(wrap(Compress::new(), yields)), &go_on);
}

/// The content of a response in chunks, decoded as it arrives.
fn events(mut peer: Peer) -> impl Read {
    let head = peer.receive();
    assert!(head.contains("content-encoding: gzip") && head.contains("transfer-encoding: chunked"), "{head}");
    GzDecoder::new(Chunks { peer, left: 0 })
}

struct Chunks {
    peer: Peer,
    left: usize,
}

impl Read for Chunks {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if self.left == 0 {
            let size = self.peer.receive_through("\r\n");
            self.left = usize::from_str_radix(size.trim_end(), 16).unwrap();
            if self.left == 0 {
                return Ok(0);
            }
        }
        let count = out.len().min(self.left);
        let count = self.peer.stream.read(&mut out[..count])?;
        self.left -= count;
        if self.left == 0 {
            self.peer.receive_through("\r\n");
        }
        Ok(count)
    }
}

/// Counts the bytes that pass, writes the count at each flush, and fails at a word.
struct Counting(usize);

impl Transform for Counting {
    fn begin(&mut self, response: &mut Response) -> TransformAction {
        response.headers.set("x-passes", "1").unwrap();
        if response.headers.contains("x-around") { TransformAction::Bypass } else { TransformAction::Apply }
    }

    fn apply(&mut self, data: &[u8], flush: Flush, out: &mut Vec<u8>) -> io::Result<()> {
        self.0 += data.len();
        match flush {
            _ if data == b"fail" => Err(io::Error::other("as told")),
            Flush::Later => Write::write_all(out, data),
            Flush::Now => write!(out, "[{}]", self.0),
            Flush::End => write!(out, "({})", self.0),
        }
    }
}

struct Counted<H>(H);

impl<H: Handler> Handler for Counted<H> {
    async fn handle(&self, ctx: &mut Context) -> corehttp::Result {
        ctx.transform = Some(Box::new(Counting(0)));
        self.0.handle(ctx).await
    }
}

#[test]
fn a_transform_sees_the_head_and_all_that_is_written() {
    let (plain, around, failing) = (false, true, ["fail", "fail"]);
    let handler = |is_around: bool, words: [&'static str; 2]| {
        Counted(
            (async move |ctx: &mut Context| -> corehttp::Result {
                if is_around {
                    ctx.response.headers.set("x-around", 1)?;
                }
                let mut out = ctx.body_writer().await?;
                out.flush().await?;
                for word in words {
                    out.write_all(word.as_bytes()).await?;
                    out.flush().await?;
                }
                Ok(out.finish().await?)
            })
            .into_handler(),
        )
    };
    let text = |served: &Served, wire: &str| String::from_utf8(taken_apart(&ask(served, wire)).1).unwrap();
    let served = Served::new(handler(plain, ["one", "two"]));
    assert_eq!(text(&served, GET), "one[3]two[6](6)");
    assert!(served.ask(GET).contains("x-passes: 1"));
    assert_eq!(text(&served, &GET.replace("GET", "HEAD")), "");
    assert_eq!(text(&Served::new(handler(around, ["one", "two"])), GET), "onetwo");
    // The next exchange of the connection has none unless it is given one.
    assert_eq!(served.ask(GET.repeat(2)).matches("(6)").count(), 2);
    let refusals = ErrorReports::default();
    let served = Served::with(|server| refusals.attach(server), handler(plain, failing));
    let received = served.ask(GET);
    assert!(!received.contains("\r\n0\r\n"), "{received}");
    assert_eq!(refusals.take(), [(0, "the handler failed: as told".to_owned())]);
}

/// A handler that went on after an error ended its response as if it were whole, and what followed the end was taken.
#[test]
fn nothing_follows_the_end_or_the_error_of_a_transform() {
    let handler = |word: &'static str| {
        let page = async move |ctx: &mut Context| -> corehttp::Result {
            let mut out = ctx.body_writer().await?;
            out.write_all(b"one").await?;
            let ended =
                if word.is_empty() { out.shutdown().await } else { out.write_all(word.as_bytes()).await };
            assert_eq!(ended.is_ok(), word.is_empty());
            assert!(out.write_all(b"two").await.is_err());
            assert_eq!(out.flush().await.is_ok(), word.is_empty());
            assert_eq!(out.shutdown().await.is_ok(), word.is_empty());
            let _ = out.finish().await;
            Ok(())
        };
        Counted(page.into_handler())
    };
    let (_, content) = taken_apart(&ask(&Served::new(handler("")), GET));
    assert_eq!(content, b"one(3)");
    let received = Served::new(handler("fail")).ask(GET);
    assert!(!received.contains("\r\n0\r\n"), "{received}");
}

/// As a gateway passes on the trailers of a server that sends digests. They once went out as they were.
#[test]
fn trailers_describe_the_coded_content_rfc9530_4() {
    let page = async |ctx: &mut Context| -> corehttp::Result {
        ctx.response.headers.set("content-type", "text/html")?;
        let (mut trailers, mut out) = (Headers::new(), ctx.body_writer().await?);
        trailers.set("content-digest", "x")?;
        trailers.set("x-own", "x")?;
        out.write_all(page().as_bytes()).await?;
        Ok(out.finish_with_trailers(&trailers).await?)
    };
    let ends = |served: Served, wire: &str, end: &str| {
        let received = ask(&served, wire);
        assert!(received.ends_with(end.as_bytes()), "{}", received.escape_ascii());
    };
    let (all, own) = ("\r\n0\r\ncontent-digest: x\r\nx-own: x\r\n\r\n", "\r\n0\r\nx-own: x\r\n\r\n");
    ends(Served::new(wrap(Compress::new(), page)), GET, own);
    ends(Served::new(wrap(Compress::new(), wrap(Compress::new(), page))), GET, own);
    ends(Served::new(Inverted(wrap(Compress::new(), page))), GET, own);
    ends(Served::new(wrap(Compress::new(), page)), &GET.replace("gzip", "identity"), all);
    let source = |ctx: &mut Context| {
        has_source(ctx);
        ctx.response.trailers.set("content-digest", "x").unwrap();
        ctx.response.trailers.set("x-own", "x").unwrap();
    };
    ends(Served::new(wrap(Compress::new(), source)), GET, own);
    ends(Served::new(wrap(Compress::new(), source)), &GET.replace("gzip", "identity"), all);
}

/// Inverts each octet, holds them back until they must come out, and tells in which coding it has met them.
#[derive(Default)]
struct Inverting(Vec<u8>);

impl Transform for Inverting {
    fn begin(&mut self, response: &mut Response) -> TransformAction {
        let coding = response.headers.get("content-encoding").unwrap_or("none").to_owned();
        response.headers.set("x-inverted", coding).unwrap();
        if response.headers.contains("x-around") { TransformAction::Bypass } else { TransformAction::Apply }
    }

    fn apply(&mut self, data: &[u8], flush: Flush, out: &mut Vec<u8>) -> io::Result<()> {
        assert!(flush != Flush::End || data.is_empty());
        self.0.extend(data.iter().map(|octet| !octet));
        if flush != Flush::Later {
            out.append(&mut self.0);
        }
        Ok(())
    }
}

struct Inverted<H>(H);

impl<H: Handler> Handler for Inverted<H> {
    async fn handle(&self, ctx: &mut Context) -> corehttp::Result {
        ctx.transform = Some(Box::new(Inverting::default()));
        self.0.handle(ctx).await
    }
}

/// A transform of middleware in front once saw nothing of a stream, whether that was compressed or not.
#[test]
fn an_outer_transform_gets_the_coded_content() {
    let page = async |ctx: &mut Context| -> corehttp::Result {
        let path = ctx.request.path().to_owned();
        let (kind, around) = path.trim_matches('/').split_once('.').unwrap();
        ctx.response.headers.set("content-type", kind)?;
        if around == "around" {
            ctx.response.headers.set("x-around", 1)?;
        }
        let mut out = ctx.body_writer().await?;
        for word in ["one ", "two ", "three"] {
            out.write_all(word.as_bytes()).await?;
            out.flush().await?;
        }
        Ok(out.finish().await?)
    };
    let served = Served::new(Inverted(wrap(Compress::new(), page)));
    for (path, coding, is_inverted) in [
        ("text/html.through", "gzip", true),
        ("text/html.around", "gzip", false),
        ("image/png.through", "none", true),
        ("image/png.around", "none", false),
    ] {
        let wire = GET.replace("GET /", &format!("GET /{path}"));
        let (head, mut content) = taken_apart(&ask(&served, &wire));
        assert!(head.contains(&format!("x-inverted: {coding}\r\n")), "{path}: {head}");
        if is_inverted {
            content.iter_mut().for_each(|octet| *octet = !*octet);
        }
        let text = if coding == "gzip" { gunzip(&content) } else { String::from_utf8(content).unwrap() };
        assert_eq!(text, "one two three", "{path}");
    }
}

/// A stream that never waits, to a peer that reads all of it, lets others have their turn.
#[test]
fn an_endless_stream_gives_others_their_turn() {
    static PIECES: AtomicUsize = AtomicUsize::new(0);
    let endless = async |ctx: &mut Context| -> corehttp::Result {
        if ctx.request.path() == "/short" {
            ctx.response.set_text(PIECES.load(Relaxed).to_string());
            return Ok(());
        }
        ctx.response.headers.set("content-type", "text/plain")?;
        let mut out = ctx.body_writer().await?;
        loop {
            out.write_all(&[b'a'; 16 << 10]).await?;
            PIECES.fetch_add(1, Relaxed);
        }
    };
    let served = Served::new(wrap(Compress::new().level(Coding::Gzip, 1), endless));
    let mut peer = served.connect();
    peer.send(GET);
    let reads = thread::spawn(move || io::copy(&mut peer.stream, &mut io::sink()));
    let mut other = served.connect();
    let mut waited = [(); 5].map(|()| {
        let before = PIECES.load(Relaxed);
        other.send("GET /short HTTP/1.1\r\nHost: a\r\n\r\n");
        let received = other.receive();
        received.rsplit("\r\n").next().unwrap().parse::<usize>().unwrap() - before
    });
    // Each turn is 16 pieces. The thread of the test may lose its own turn while it waits for a response, but hardly
    // every time.
    waited.sort();
    assert!(waited[2] <= 48, "a request waited for so many pieces: {waited:?}");
    drop(served);
    let _ = reads.join();
}

/// Nor is a core left to a source that is always ready, for a peer that reads as fast.
#[test]
fn a_large_source_is_coded_in_turns() {
    const LEN: usize = 2 << 20;
    let large = |ctx: &mut Context| {
        ctx.response.set_html("");
        ctx.response.body.set_stream(tokio::io::repeat(b'x').take(LEN as u64), None);
    };
    let service = Server::new().half_close(true).service(wrap(Compress::new(), large));
    let peer = tokio::io::join(io::Cursor::new(GET), tokio::io::sink());
    let serving = unconstrained(service.serve_connection(peer));
    let (served, polls) = paused(polls(serving, usize::MAX));
    assert!(matches!(served, Some(Ok(()))) && polls >= LEN / (256 << 10), "{polls} polls");
}

/// Bodies that break off leave no whole response.
#[test]
fn a_source_that_fails_aborts_the_response() {
    struct Failing;
    impl AsyncRead for Failing {
        fn poll_read(
            self: Pin<&mut Self>,
            _: &mut task::Context<'_>,
            _: &mut ReadBuf<'_>,
        ) -> Poll<io::Result<()>> {
            Poll::Ready(Err(io::Error::other("disk")))
        }
    }
    let fails = |ctx: &mut Context| {
        ctx.response.set_html("");
        ctx.response.body.set_stream(Failing, None);
    };
    let received = Served::new(wrap(Compress::new(), fails)).ask(GET);
    assert!(received.contains("content-encoding: gzip") && !received.contains("\r\n0\r\n"), "{received}");
}

pub fn gzip(content: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(content).unwrap();
    encoder.finish().unwrap()
}

/// Reads the body decoded, piece by piece, and sends it back.
async fn read_pieces(ctx: &mut Context) -> corehttp::Result {
    read_pieces_within(ctx, BODY_MAX).await
}

async fn read_pieces_within(ctx: &mut Context, limit: usize) -> corehttp::Result {
    let (mut content, mut body) = (Vec::new(), ctx.body_reader().decoded_up_to(limit)?);
    while let Some(piece) = body.chunk().await? {
        content.extend_from_slice(piece);
    }
    assert!(matches!(body.chunk().await, Ok(None)), "an end stays one");
    ctx.response.body.set_bytes(content);
    Ok(())
}

/// Reads the body decoded, a few bytes at a time, and sometimes none.
async fn read_bytes(ctx: &mut Context) -> corehttp::Result {
    let (mut content, mut some) = (Vec::new(), [0; 600]);
    let mut body = ctx.body_reader().decoded_up_to(BODY_MAX)?;
    loop {
        assert_eq!(body.read(&mut []).await?, 0);
        match body.read(&mut some).await? {
            0 => break,
            count => content.extend_from_slice(&some[..count]),
        }
    }
    ctx.response.body.set_bytes(content);
    Ok(())
}

/// However a handler decodes it, a body with this coding has this content, or is answered with this status.
#[track_caller]
fn check_decoded(coding: &str, body: &[u8], expected: Result<&[u8], u16>) {
    check_decoded_by(decode, coding, body, expected);
    check_decoded_by(read_pieces, coding, body, expected);
    check_decoded_by(read_bytes, coding, body, expected);
}

#[track_caller]
fn check_decoded_by<Kind, H: IntoHandler<Kind>>(
    handler: H,
    coding: &str,
    body: &[u8],
    expected: Result<&[u8], u16>,
) {
    let response = respond(handler, "POST", &[("content-encoding", coding)], body);
    match expected {
        Ok(content) => assert!(response.status == Status::OK && response.body.bytes() == content, "{coding}"),
        Err(status) => assert_eq!(response.status.as_u16(), status, "{coding}"),
    }
    // A 415 tells which codings would do (RFC 9110 §15.5.16).
    let known = response.headers.get("accept-encoding");
    assert_eq!(known.is_some(), expected == Err(415), "{coding}");
    assert!(known.is_none_or(|known| known.contains("br") && known.contains("gzip, deflate")));
}

#[test]
fn a_body_is_decoded_when_the_handler_asks_rfc9110_8_4() {
    let (text, coded) = (page().into_bytes(), gzip(page().as_bytes()));
    check_decoded("gzip", &coded, Ok(&text));
    check_decoded("X-Gzip", &coded, Ok(&text));
    check_decoded("gzip, gzip", &gzip(&coded), Ok(&text));
    check_decoded("identity", &text, Ok(&text));
    check_decoded("", &text, Ok(&text));
    check_decoded("gzip", b"", Ok(b""));
    check_decoded("gzip", &gzip(&vec![0; BODY_MAX]), Ok(&vec![0; BODY_MAX]));
    check_decoded("gzip", &gzip(&vec![0; BODY_MAX + 1]), Err(413));
    check_decoded("gzip", &gzip(&vec![0; 32 * BODY_MAX]), Err(413));
    check_decoded("gzip, gzip", &gzip(&gzip(&vec![0; 40 * BODY_MAX])), Err(413));
    check_decoded("gzip", &text, Err(400));
    check_decoded("gzip", &coded[..coded.len() - 1], Err(400));
    check_decoded("gzip", &[&coded[..], b"x"].concat(), Err(400));
    check_decoded("deflate", &coded, Err(400));
    check_decoded("br", &coded, Err(400));
    check_decoded("compress", &text, Err(415));
    check_decoded("gzip, chunked", &text, Err(415));
    check_decoded("gzip, gzip, gzip, gzip, gzip", &text, Err(415));
    // Each would claim a window of 16 MiB.
    check_decoded(
        "br, br, br, br",
        b"\xcf\xff\xff\xff\xcf\xff\xff\xff\xcf\xff\xff\xff\xcf\xff\xff\xff\x78",
        Err(415),
    );
    check_decoded("br", b"\xcf\xff\xff\xff", Err(400));
}

#[test]
fn a_streamed_body_is_received_and_decoded() {
    let served = Served::new(wrap(BodyPlan::Stream, decode));
    let body = gzip(b"streamed");
    let head = format!(
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Encoding: gzip\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    let received = served.ask([head.as_bytes(), &body].concat());
    assert!(received.ends_with("\r\n\r\nstreamed"), "{received}");
    let received =
        served.ask("POST / HTTP/1.1\r\nHost: a\r\nContent-Encoding: x\r\nContent-Length: 1\r\n\r\nx");
    assert_eq!(status(&received), 415);
}

#[test]
fn a_decoded_body_loses_the_fields_of_its_coding() {
    let handler = async |ctx: &mut Context| -> corehttp::Result {
        ctx.decode_body().await?;
        let names: Vec<_> = ctx.request.headers.iter().map(|(name, _)| name).collect();
        ctx.response.set_text(format!("{} {}", names.join(","), ctx.request.body.text()?));
        Ok(())
    };
    let of_coded =
        ["content-encoding", "content-length", "content-md5", "digest", "content-digest", "repr-digest"];
    let fields = of_coded.into_iter().chain(["x-own"]).map(|name| (name, "gzip"));
    let body = gzip(b"hello");
    let response = respond(handler, "POST", &Vec::from_iter(fields), &body);
    assert_eq!(response.body.text(), Ok("x-own,content-length hello"));
    let response = respond(handler, "POST", &[("content-digest", "x"), ("x-own", "x")], b"hello");
    assert_eq!(response.body.text(), Ok("content-digest,x-own,content-length hello"));
    let trailers = async |ctx: &mut Context| -> corehttp::Result {
        ctx.decode_body().await?;
        let names: Vec<_> = ctx.request.trailers.iter().map(|(name, _)| name).collect();
        ctx.response.set_text(names.join(","));
        Ok(())
    };
    let mut wire = upload("gzip", &body, true);
    assert!(wire.ends_with(b"\r\n0\r\n\r\n"));
    wire.truncate(wire.len() - 2);
    wire.extend_from_slice(b"content-digest: x\r\nx-own: x\r\n\r\n");
    for plan in [BodyPlan::Buffer, BodyPlan::Stream] {
        let received = Served::new(wrap(plan, trailers)).ask(&wire);
        assert!(received.ends_with("\r\n\r\nx-own"), "{received}");
    }
}

#[test]
fn a_body_that_cannot_be_decoded_stays_as_it_was() {
    let handler = async |ctx: &mut Context| -> corehttp::Result {
        assert!(ctx.decode_body().await.is_err());
        assert!(ctx.decode_body_up_to(usize::MAX).await.is_err());
        std::mem::swap(&mut ctx.response.body, &mut ctx.request.body);
        Ok(())
    };
    let response = respond(handler, "POST", &[("content-encoding", "gzip")], b"no gzip");
    assert_eq!(response.body.text(), Ok("no gzip"));
}

/// `content` in each of the codings, and in two.
fn coded(content: &[u8]) -> [(&'static str, Vec<u8>); 4] {
    let as_response = |coding: &'static str| {
        let handler = |ctx: &mut Context| {
            ctx.response.set_html("");
            std::mem::swap(&mut ctx.request.body, &mut ctx.response.body);
        };
        let response = respond(
            wrap(Compress::new().size_min(0), handler),
            "POST",
            &[("accept-encoding", coding)],
            content,
        );
        assert_eq!(response.headers.get("content-encoding"), Some(coding));
        (coding, response.body.bytes().to_vec())
    };
    [("gzip", gzip(content)), ("gzip, gzip", gzip(&gzip(content))), as_response("br"), as_response("deflate")]
}

/// A request with a body that is framed by its length, or else in chunks of seven bytes.
fn upload(coding: &str, body: &[u8], is_chunked: bool) -> Vec<u8> {
    let head = |framing: String| {
        format!("POST / HTTP/1.1\r\nHost: a\r\nContent-Encoding: {coding}\r\n{framing}\r\n\r\n")
    };
    if !is_chunked {
        return [head(format!("Content-Length: {}", body.len())).as_bytes(), body].concat();
    }
    let chunk = |data: &[u8]| [format!("{:x}\r\n", data.len()).as_bytes(), data, b"\r\n"].concat();
    let chunks = body.chunks(7).flat_map(chunk).collect::<Vec<_>>();
    [head("Transfer-Encoding: chunked".to_owned()).as_bytes(), &chunks, b"0\r\n\r\n"].concat()
}

#[test]
fn a_stream_is_decoded_wherever_it_is_cut() {
    let text = "a raven, a raven, and nothing more";
    for (coding, body) in coded(text.as_bytes()) {
        for is_chunked in [false, true] {
            let wire = [upload(coding, &body, is_chunked), GET.into()].concat();
            let by_pieces = Wired::new(streaming(read_pieces)).ask_cut(&wire, Then::Ends);
            let by_bytes = Wired::new(streaming(read_bytes)).ask_cut(&wire, Then::Ends);
            for received in [by_pieces, by_bytes] {
                assert!(
                    received.contains(&format!("\r\n\r\n{text}HTTP/1.1 200 OK\r\n")),
                    "{coding}: {received}"
                );
            }
        }
    }
}

#[test]
fn a_stream_that_ends_before_its_coding_does_is_not_taken_for_whole() {
    for (coding, body) in coded(page().as_bytes()) {
        let wired = Wired::new(streaming(read_pieces));
        for len in 0..body.len() {
            // The coding is cut and the message is not: the peer is told, and may send another request.
            let wire = [upload(coding, &body[..len], false), GET.into()].concat();
            let received = wired.ask(&[&wire], Then::Ends);
            assert_eq!(status(&received), if len == 0 { 200 } else { 400 }, "{coding} cut to {len}");
            assert_eq!(received.matches("HTTP/1.1 200 OK\r\n").count(), if len == 0 { 2 } else { 1 });
            // Now the message is cut, too.
            let received = wired.ask(&[&wire[..wire.len() - GET.len() - len.min(1)]], Then::Ends);
            assert_eq!(
                status(&received),
                if len == 0 { 200 } else { 400 },
                "{coding} and its message cut to {len}"
            );
        }
    }
}

/// A little that decodes to a lot: no more comes out than the limit allows, other tasks have their turn meanwhile, and
/// the error stays.
#[test]
fn a_streamed_bomb_is_stopped_at_its_limit() {
    const LIMIT: usize = 600 << 10;
    let zeros = vec![0; LIMIT + 1];
    for body in [gzip(&zeros), gzip(&vec![0; 2 * LIMIT])] {
        let others = Rc::new(Cell::new(0));
        let turns = Rc::clone(&others);
        let reads = async move |ctx: &mut Context| -> corehttp::Result {
            let mut body = ctx.body_reader().decoded_up_to(LIMIT)?;
            let reading = async {
                let mut size = 0;
                let error = loop {
                    match body.chunk().await {
                        Ok(Some(piece)) => size += piece.len(),
                        Ok(None) => panic!("an end, after {size} bytes"),
                        Err(error) => break error,
                    }
                };
                assert!(size <= LIMIT && size > LIMIT - (64 << 10), "{size} bytes");
                assert!(body.chunk().await.is_err(), "there is no end behind an error");
                error
            };
            let (error, polls) = polls(reading, usize::MAX).await;
            turns.set(polls);
            Err(error.expect("it was polled to its end").into())
        };
        let received = Wired::new(streaming(reads)).ask(&[&upload("gzip", &body, false)], Then::Ends);
        assert_eq!(status(&received), 413, "{received}");
        assert!(others.get() > LIMIT / (512 << 10) + 1, "{} turns", others.get());
    }
    check_decoded("", &[0; BODY_MAX], Ok(&[0; BODY_MAX]));
    check_decoded_by(read_pieces, "", &[0; BODY_MAX + 1], Err(413));
    check_decoded_by(read_bytes, "identity", &[0; BODY_MAX + 1], Err(413));
}

/// The output was once made in one go, and the core served nothing else meanwhile. So it was with input that decodes to
/// nothing.
#[test]
fn a_large_body_is_decoded_in_turns() {
    const LEN: usize = 1 << 20;
    const TURN: usize = 256 << 10;
    let whole = async |ctx: &mut Context| -> corehttp::Result {
        // The first attempt is given up half way, and the body is what it was.
        let (given_up, _) = polls(ctx.decode_body_up_to(LEN), 1).await;
        assert!(given_up.is_none() && ctx.request.headers.contains("content-encoding"));
        let (decoded, polls) = polls(ctx.decode_body_up_to(LEN), usize::MAX).await;
        assert!(matches!(decoded, Some(Ok(()))) && polls >= LEN / TURN, "{polls} polls");
        std::mem::swap(&mut ctx.response.body, &mut ctx.request.body);
        Ok(())
    };
    let in_pieces = async |ctx: &mut Context| -> corehttp::Result {
        let (read, polls) = polls(read_pieces_within(ctx, LEN), usize::MAX).await;
        assert!(polls >= LEN / TURN, "{polls} polls");
        read.expect("it was polled to its end")
    };
    let coding = [("content-encoding", "gzip")];
    for (coded, len) in [(gzip(&[b'x'; LEN]), LEN), (gzip(b"").repeat(LEN / 20), 0)] {
        let whole = respond_up_to(LEN, whole, "POST", &coding, &coded);
        let in_pieces = respond_up_to(LEN, in_pieces, "POST", &coding, &coded);
        for response in [whole, in_pieces] {
            assert!(response.status == Status::OK && response.body.bytes() == &[b'x'; LEN][..len], "{len}");
        }
    }
}

/// The output of `future`, if it has one after at most so many polls, and how often it was polled.
async fn polls<F: Future>(future: F, most: usize) -> (Option<F::Output>, usize) {
    let (mut future, mut polls) = (std::pin::pin!(future), 0);
    std::future::poll_fn(|cx| {
        polls += 1;
        match future.as_mut().poll(cx) {
            Poll::Ready(output) => Poll::Ready((Some(output), polls)),
            Poll::Pending if polls == most => Poll::Ready((None, polls)),
            Poll::Pending => Poll::Pending,
        }
    })
    .await
}

#[test]
fn the_head_of_a_compressed_stream_does_not_hold_its_connection_rfc9110_9_3_2() {
    let ticks = async |ctx: &mut Context| -> corehttp::Result {
        ctx.response.headers.set("content-type", "text/plain")?;
        let mut out = ctx.body_writer().await?;
        loop {
            out.write_all(b"tick").await?;
            out.flush().await?;
            tokio::time::sleep(std::time::Duration::from_millis(1)).await;
        }
    };
    let head = "HEAD / HTTP/1.1\r\nhost: a\r\naccept-encoding: gzip\r\n\r\n";
    is_over_with_its_head(head, wrap(Compress::new(), ticks));
}
