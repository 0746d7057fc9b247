//! Filters of request bodies: whoever reads the content gets what the filter makes of it, however it arrives, and an error of
//! the filter ends it.

use std::io::Write;
use std::sync::{Arc, OnceLock};

use corehttp::coding::Flush;
use corehttp::middleware::{Middleware, defer_body, handle_deferred, wrap};
use corehttp::server::{BodyFilter, CoreCounters, CoreEvents};
use corehttp::{
    BodyPlan, Context, Error, Handler, Headers, IntoHandler, Limits, Problem, Request, Response, Result,
    Server, Status,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

use crate::support::{paused, status, undated};

/// Puts brackets around the content, in capitals, and fails at a `!`. Says in a trailer how much it was.
#[derive(Default)]
struct Loud {
    has_begun: bool,
    len: usize,
}

impl BodyFilter for Loud {
    fn apply(&mut self, data: &[u8], flush: Flush, out: &mut Vec<u8>) -> Result {
        assert!(data.len() <= 16 << 10 && (flush != Flush::End || data.is_empty()));
        if data.contains(&b'!') {
            return Err(Problem::new(Status::UNPROCESSABLE_CONTENT).with_detail("not so loud").into());
        }
        if !std::mem::replace(&mut self.has_begun, true) {
            out.push(b'[');
        }
        self.len += data.len();
        out.extend(data.to_ascii_uppercase());
        if flush == Flush::End {
            out.push(b']');
        }
        Ok(())
    }

    fn end(&mut self, trailers: &mut Headers) -> Result {
        trailers.remove("x-sum");
        Ok(trailers.set("x-len", self.len)?)
    }
}

/// Holds all back until it is told to flush.
#[derive(Default)]
struct Held(Vec<u8>);

impl BodyFilter for Held {
    fn apply(&mut self, data: &[u8], flush: Flush, out: &mut Vec<u8>) -> Result {
        self.0.extend_from_slice(data);
        if flush != Flush::Later {
            out.append(&mut self.0);
        }
        Ok(())
    }
}

/// Refuses content with a `!`, and lets all other pass.
struct Checked;

impl BodyFilter for Checked {
    fn apply(&mut self, data: &[u8], _: Flush, out: &mut Vec<u8>) -> Result {
        if data.contains(&b'!') {
            return Err(Status::UNPROCESSABLE_CONTENT.into());
        }
        out.extend_from_slice(data);
        Ok(())
    }

    fn keeps_length(&self) -> bool {
        true
    }
}

/// Middleware that sets the filters which the query names.
#[derive(Clone)]
struct Filtered;

impl Middleware for Filtered {
    fn on_head(&self, ctx: &mut Context, next: &impl Handler) -> BodyPlan {
        defer_body(ctx, next)
    }

    async fn call(&self, ctx: &mut Context, next: &impl Handler) -> Result {
        set_filters(ctx).await?;
        handle_deferred(ctx, next).await
    }
}

async fn set_filters(ctx: &mut Context) -> Result {
    let names = ctx.request.query().get("f").unwrap_or_default().to_string();
    for name in names.split(',') {
        match name {
            "loud" => ctx.filter_body(Loud::default()).await?,
            "held" => ctx.filter_body(Held::default()).await?,
            "checked" => ctx.filter_body(Checked).await?,
            _ => {}
        }
    }
    Ok(())
}

/// Reads the content as the path says, and answers with it, with the trailer of the filter and the framing.
async fn echo(ctx: &mut Context) -> Result {
    let mut content = Vec::new();
    match ctx.request.path() {
        "/chunks" => {
            let mut body = ctx.body_reader();
            while let Some(piece) = body.chunk().await? {
                content.extend_from_slice(piece);
            }
        }
        "/read" => drop(ctx.body_reader().read_to_end(&mut content).await?),
        "/bytes" => {
            let mut body = ctx.body_reader();
            while let Ok(octet) = body.read_u8().await {
                content.push(octet);
            }
        }
        "/decoded" => drop(ctx.body_reader().decoded_up_to(1 << 20)?.read_to_end(&mut content).await?),
        "/late" => {
            ctx.buffer_body().await?;
            content.extend_from_slice(ctx.request.body.bytes());
        }
        "/twice" => {
            ctx.buffer_body().await?;
            ctx.buffer_body().await?;
            ctx.body_reader().read_to_end(&mut content).await?;
        }
        "/here" => {
            set_filters(ctx).await?;
            content.extend_from_slice(ctx.request.body.bytes());
        }
        _ => content.extend_from_slice(ctx.request.body.bytes()),
    }
    let len = ctx.body_reader().trailers().get("x-len").map(str::to_owned);
    let framing = ctx.request.headers.get("content-length").map(str::to_owned);
    let framing = framing.or_else(|| ctx.request.headers.get("transfer-encoding").map(str::to_owned));
    ctx.response.headers.set("x-framing", framing.unwrap_or_default())?;
    ctx.response.headers.set("x-len", len.unwrap_or_default())?;
    ctx.response.body.set_bytes(content);
    Ok(())
}

/// The plan of a path.
fn app() -> impl Handler {
    let plan = corehttp::middleware::plan(|request: &Request| match request.path() {
        "/buffered" | "/here" => BodyPlan::Buffer,
        "/few" => BodyPlan::BufferUpTo(4),
        _ => BodyPlan::Stream,
    });
    wrap((Outside, plan), echo)
}

/// [`Filtered`], but for the path whose handler sets the filter itself.
#[derive(Clone)]
struct Outside;

impl Middleware for Outside {
    fn on_head(&self, ctx: &mut Context, next: &impl Handler) -> BodyPlan {
        match ctx.request.path() {
            "/here" => next.on_head(ctx),
            _ => Filtered.on_head(ctx, next),
        }
    }

    async fn call(&self, ctx: &mut Context, next: &impl Handler) -> Result {
        match ctx.request.path() {
            "/here" => next.handle(ctx).await,
            _ => Filtered.call(ctx, next).await,
        }
    }
}

/// Sends `wire` cut at `cut`, and returns all that comes until the connection closes.
async fn ask<Kind>(server: Server, handler: impl IntoHandler<Kind>, wire: &[u8], cut: usize) -> String {
    let service = server.service(handler);
    let (mut near, far) = duplex(64 << 10);
    let peer = async {
        let (first, second) = wire.split_at(cut);
        near.write_all(first).await.unwrap();
        for _ in 0..8 {
            tokio::task::yield_now().await;
        }
        near.write_all(second).await.unwrap();
        let mut received = String::new();
        near.read_to_string(&mut received).await.unwrap();
        received
    };
    undated(&tokio::join!(peer, service.serve_connection(far)).0)
}

const LENGTH: &str = "content-length: 5\r\n\r\nhello";
const CHUNKS: &str = "transfer-encoding: chunked\r\n\r\n2\r\nhe\r\n3\r\nllo\r\n0\r\nx-sum: 1\r\n\r\n";

/// A POST of `content` for `target` is answered with `expected`: the framing that the handler sees, the trailer, the content.
/// The answer does not depend on where packets end.
#[track_caller]
fn check(target: &str, content: &str, expected: [&str; 3]) {
    let wire = format!("POST {target} HTTP/1.1\r\nhost: a\r\nconnection: close\r\n{content}");
    let [framing, len, body] = expected;
    let head = format!("x-framing: {framing}\r\nx-len: {len}\r\ncontent-length: {}\r\n", body.len());
    for cut in wire.len() - content.len()..wire.len() {
        let received = paused(ask(Server::new(), app(), wire.as_bytes(), cut));
        let expected = format!("HTTP/1.1 200 OK\r\n{head}connection: close\r\n\r\n{body}");
        assert_eq!(received, expected, "{target} cut at {cut}: {wire}");
    }
}

#[test]
fn whoever_reads_gets_what_the_filter_makes() {
    for path in ["chunks", "read", "bytes", "decoded", "late", "twice", "buffered"] {
        check(&format!("/{path}?f=loud"), LENGTH, ["chunked", "5", "[HELLO]"]);
        check(&format!("/{path}?f=loud"), CHUNKS, ["chunked", "5", "[HELLO]"]);
        check(&format!("/{path}?f=held"), CHUNKS, ["chunked", "", "hello"]);
        check(&format!("/{path}?f=checked"), LENGTH, ["5", "", "hello"]);
        // The second gets what the first has made.
        check(&format!("/{path}?f=held,loud,checked,loud"), LENGTH, ["chunked", "7", "[[HELLO]]"]);
        check(&format!("/{path}?f="), LENGTH, ["5", "", "hello"]);
    }
    check("/here?f=loud", LENGTH, ["7", "5", "[HELLO]"]);
    check("/here?f=loud", CHUNKS, ["chunked", "5", "[HELLO]"]);
    check("/here?f=loud,loud", LENGTH, ["9", "7", "[[HELLO]]"]);
    check("/here?f=checked", LENGTH, ["5", "", "hello"]);
}

#[test]
fn a_request_without_content_passes_no_filter() {
    for path in ["/read", "/buffered", "/here", "/late"] {
        let target = format!("{path}?f=loud");
        check(&target, "content-length: 0\r\n\r\n", ["0", "", ""]);
        check(&target, "\r\n", ["", "", ""]);
    }
    // Whether there is content is seen at the end of it.
    let empty = "transfer-encoding: chunked\r\n\r\n0\r\n\r\n";
    check("/read?f=loud", empty, ["chunked", "0", "[]"]);
    check("/buffered?f=loud", empty, ["chunked", "0", "[]"]);
}

/// A refusal is a response with its problem, whichever part of the content is the reason.
#[test]
fn an_error_of_a_filter_is_the_response() {
    for content in ["content-length: 5\r\n\r\nhell!", "transfer-encoding: chunked\r\n\r\n1\r\n!\r\n0\r\n\r\n"]
    {
        for path in ["chunks", "read", "decoded", "late", "twice", "buffered", "here"] {
            for (filter, text) in [("loud", "not so loud"), ("checked", ""), ("held,checked", "")] {
                let wire = format!(
                    "POST /{path}?f={filter} HTTP/1.1\r\nhost: a\r\n{content}GET /read HTTP/1.1\r\nhost: a\r\n\
                     connection: close\r\n\r\n"
                );
                let received = paused(ask(Server::new(), app(), wire.as_bytes(), wire.len()));
                assert_eq!(status(&received), 422, "{wire}: {received}");
                assert!(received.contains(text), "{wire}: {received}");
                // The framing is as good as ever, so the connection carries the next request, unless the body was to be
                // received and was not.
                let persists = matches!(path, "chunks" | "read" | "decoded" | "here");
                assert!(!persists || received.contains("HTTP/1.1 200 OK\r\n"), "{wire}: {received}");
            }
        }
    }
}

/// No part of content passes for the whole once a filter has failed.
#[tokio::test]
async fn nothing_is_read_after_a_failure() {
    let handler = async |ctx: &mut Context| -> Result {
        ctx.filter_body(Checked).await?;
        let mut body = ctx.body_reader();
        while let Ok(Some(piece)) = body.chunk().await {
            assert_eq!(piece, b"ab");
        }
        assert!(body.chunk().await.is_err(), "the reader has failed");
        assert!(ctx.body_reader().chunk().await.is_err(), "another reader fails, too");
        assert!(ctx.buffer_body().await.is_err() && ctx.request.body.is_empty());
        let refused = ctx.filter_body(Checked).await.unwrap_err();
        assert_eq!(refused.status(), Status::INTERNAL_SERVER_ERROR);
        Ok(())
    };
    let wire = "POST / HTTP/1.1\r\nhost: a\r\nconnection: close\r\ntransfer-encoding: chunked\r\n\r\n\
        2\r\nab\r\n2\r\nc!\r\n2\r\nde\r\n0\r\n\r\n";
    let received = ask(Server::new(), wrap(BodyPlan::Stream, handler), wire.as_bytes(), wire.len()).await;
    assert_eq!(status(&received), 200, "{received}");
}

#[test]
fn limits_hold_for_what_a_filter_makes() {
    let server = || Server::new().limits(Limits { body_max: 6, ..Limits::default() });
    for (target, content, expected) in [
        ("/buffered?f=loud", LENGTH, 413),
        ("/buffered?f=loud", CHUNKS, 413),
        ("/here?f=loud", LENGTH, 413),
        ("/late?f=loud", LENGTH, 413),
        ("/few?f=checked", LENGTH, 413),
        ("/buffered?f=checked", LENGTH, 200),
        // Beyond the limit before the filter, and a reader has no limit.
        ("/here?f=checked", "content-length: 7\r\n\r\nabcdefg", 413),
        ("/read?f=loud", LENGTH, 200),
    ] {
        let wire = format!("POST {target} HTTP/1.1\r\nhost: a\r\nconnection: close\r\n{content}");
        let received = paused(ask(server(), app(), wire.as_bytes(), wire.len()));
        assert_eq!(status(&received), expected, "{target}: {received}");
    }
    // More than one step, and more than what needs no memory.
    let size = 1 << 20;
    for (memory_max, expected) in [(usize::MAX, 200), (256 << 10, 413)] {
        for path in ["buffered", "late", "here"] {
            let server = Server::new().limits(Limits { memory_max, ..Limits::default() });
            let mut wire = Vec::new();
            write!(wire, "POST /{path}?f=loud HTTP/1.1\r\nhost: a\r\nconnection: close\r\n").unwrap();
            write!(wire, "content-length: {size}\r\n\r\n{}", "x".repeat(size)).unwrap();
            let received = paused(ask(server, app(), &wire, wire.len()));
            assert_eq!(status(&received), expected, "{path}");
            assert_eq!(received.matches('X').count(), if expected == 200 { size } else { 0 }, "{path}");
        }
    }
}

/// Content of unknown length, as that which a filter makes, was once charged with as much memory as a body may have.
#[test]
fn content_holds_no_more_memory_than_it_needs() {
    const SIZE: usize = 1 << 20;
    let length = format!("content-length: {SIZE}\r\n\r\n{}", "x".repeat(SIZE));
    let chunk = format!("{SIZE:x}\r\n{}\r\n", "x".repeat(SIZE));
    let chunks = format!("transfer-encoding: chunked\r\n\r\n{chunk}0\r\n\r\n");
    for (plan, framing, is_filtered) in [
        (BodyPlan::Buffer, &length, true),
        (BodyPlan::Buffer, &length, false),
        (BodyPlan::Buffer, &chunks, false),
        (BodyPlan::Stream, &chunks, false),
        (BodyPlan::Stream, &chunks, true),
    ] {
        let counters = Arc::<OnceLock<CoreCounters>>::default();
        let (noted, most) = (counters.clone(), Limits { body_max: 16 << 20, ..Limits::default() });
        let server = Server::new().limits(Limits { memory_max: 256 << 20, ..most });
        let server = server.observe(move |core: &mut CoreEvents| drop(noted.set(core.counters())));
        let handler = async move |ctx: &mut Context| -> Result {
            if is_filtered {
                ctx.filter_body(Loud::default()).await?;
            }
            ctx.buffer_body().await?;
            let reserved = counters.get().unwrap().memory().reserved;
            ctx.response.set_text(format!("{} {reserved}", ctx.request.body.len()));
            Ok(())
        };
        let wire = format!("POST / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n{framing}");
        let received = paused(ask(server, wrap(plan, handler), wire.as_bytes(), wire.len()));
        let (len, reserved) = received.rsplit_once("\r\n").unwrap().1.split_once(' ').unwrap();
        assert_eq!(len, (SIZE + 2 * usize::from(is_filtered)).to_string(), "{plan:?}");
        let reserved: usize = reserved.parse().unwrap();
        assert!((SIZE..3 * SIZE).contains(&reserved), "{plan:?} {is_filtered}: {reserved}");
    }
}

/// Drops all content.
struct Nothing;

impl BodyFilter for Nothing {
    fn apply(&mut self, _: &[u8], _: Flush, _: &mut Vec<u8>) -> Result {
        Ok(())
    }
}

#[test]
fn content_that_is_dropped_has_the_limit_of_content_that_is_kept() {
    for (content, expected) in [
        ("content-length: 7\r\nexpect: 100-continue\r\n\r\n", 413),
        ("transfer-encoding: chunked\r\n\r\n7\r\nabcdefg\r\n0\r\n\r\n", 413),
        ("transfer-encoding: chunked\r\n\r\n6\r\nabcdef\r\n0\r\n\r\n", 200),
        ("content-length: 6\r\n\r\nabcdef", 200),
    ] {
        let handler = async |ctx: &mut Context| -> Result {
            ctx.filter_body(Nothing).await?;
            ctx.buffer_body().await?;
            Ok(())
        };
        let server = Server::new().limits(Limits { body_max: 6, ..Limits::default() });
        let wire = format!("POST / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n{content}");
        let received = paused(ask(server, wrap(BodyPlan::Stream, handler), wire.as_bytes(), wire.len()));
        assert_eq!(status(&received), expected, "{content}: {received}");
    }
}

/// The content that a peer has sent is there before it goes on, though the filter would rather wait.
#[tokio::test(start_paused = true)]
async fn a_filter_flushes_while_the_peer_pauses() {
    let handler = async |ctx: &mut Context| -> Result {
        ctx.filter_body(Held::default()).await?;
        let (mut body, mut out) = ctx.duplex().await?;
        while let Some(piece) = body.chunk().await? {
            out.write_all(piece).await?;
            out.flush().await?;
        }
        Ok(out.finish().await?)
    };
    let service = Server::new().service(wrap(BodyPlan::Stream, handler));
    let (mut near, far) = duplex(64 << 10);
    let peer = async {
        let head = "POST / HTTP/1.1\r\nhost: a\r\nconnection: close\r\ncontent-length: 3\r\n\r\n";
        near.write_all(head.as_bytes()).await.unwrap();
        for octet in b"abc" {
            near.write_u8(*octet).await.unwrap();
            let mut received = Vec::new();
            while !received.ends_with(&[b'\n', *octet, b'\r', b'\n']) {
                received.push(near.read_u8().await.unwrap());
            }
        }
        near.read_to_end(&mut Vec::new()).await.unwrap();
    };
    let _ = tokio::join!(peer, service.serve_connection(far));
}

/// The peer is told to go on when the content is wanted, and not when it is refused before (RFC 9110 §10.1.1).
#[tokio::test(start_paused = true)]
async fn a_filter_alone_wants_no_content_rfc9110_10_1_1() {
    for (target, wants) in [("/read?f=loud", true), ("/buffered?f=loud", true), ("/refused", false)] {
        let plan = corehttp::middleware::plan(|request: &Request| match request.path() {
            "/buffered" => BodyPlan::Buffer,
            _ => BodyPlan::Stream,
        });
        let app = wrap((Outside, plan), async |ctx: &mut Context| match ctx.request.path() {
            "/refused" => {
                ctx.filter_body(Checked).await?;
                Err(Error::from(Status::FORBIDDEN))
            }
            _ => echo(ctx).await,
        });
        let service = Server::new().service(app);
        let (mut near, far) = duplex(64 << 10);
        let peer = async {
            let head = "connection: close\r\nexpect: 100-continue\r\ncontent-length: 5\r\n\r\n";
            near.write_all(format!("POST {target} HTTP/1.1\r\nhost: a\r\n{head}").as_bytes()).await.unwrap();
            let mut received = vec![0; 12];
            near.read_exact(&mut received).await.unwrap();
            assert_eq!(received.ends_with(b"100"), wants, "{target}");
            if wants {
                near.write_all(b"hello").await.unwrap();
            }
            let mut received = String::new();
            near.read_to_string(&mut received).await.unwrap();
            assert_eq!(received.contains("[HELLO]"), wants, "{received}");
        };
        let _ = tokio::join!(peer, service.serve_connection(far));
    }
}

/// A request without a connection, and a body that a handler has replaced.
#[tokio::test]
async fn content_without_a_connection_is_filtered_alike() {
    let mut request = Request::post("/read?f=loud").unwrap();
    for path in ["/read?f=loud", "/buffered?f=loud", "/here?f=loud", "/late?f=loud"] {
        request.set_url(path).unwrap();
        request.set_text("hello");
        let response = Server::new().service(app()).respond(request.clone()).await;
        assert_eq!(response.body.bytes(), b"[HELLO]", "{path}");
    }
    let replaced = async |ctx: &mut Context| -> Result {
        ctx.request.body.set_stream(&b"x"[..], None);
        ctx.filter_body(Checked).await
    };
    let response: Response = Server::new().service(replaced).respond(request).await;
    assert_eq!(response.status, Status::INTERNAL_SERVER_ERROR);
}

/// The next request on a connection has no filter of the one before.
#[test]
fn a_filter_is_that_of_one_request() {
    let wire = format!(
        "POST /read?f=loud HTTP/1.1\r\nhost: a\r\n{LENGTH}POST /read HTTP/1.1\r\nhost: a\r\n{LENGTH}\
         POST /read HTTP/1.1\r\nhost: a\r\nconnection: close\r\n{LENGTH}"
    );
    let received = paused(ask(Server::new(), app(), wire.as_bytes(), 120));
    assert_eq!(
        (received.matches("[HELLO]").count(), received.matches("hello").count()),
        (1, 2),
        "{received}"
    );
}
