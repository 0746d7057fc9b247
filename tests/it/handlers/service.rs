//! Connections that the application accepts itself: their peers, and how they are stopped; and requests without any
//! connection.

use std::future::pending;
use std::io::{self, Cursor};
use std::net::SocketAddr;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::task::{self, Poll};
use std::time::Duration;

use corehttp::middleware::{self, wrap};
use corehttp::server::{CoreCounters, CoreEvents};
use corehttp::{BodyPlan, Context, Handler, Limits, PeerAddr, Request, Server, Service, Status};
use tokio::io::{AsyncReadExt, AsyncWrite, AsyncWriteExt, BufStream, DuplexStream};
use tokio::task::{JoinHandle, LocalSet, spawn_local};
use tokio::time::{Instant, sleep, timeout};

use crate::support::{paused, status, undated};

const GET: &str = "GET / HTTP/1.1\r\nhost: a\r\n\r\n";
const SLOW: &str = "GET /slow HTTP/1.1\r\nhost: a\r\n\r\n";
const RESPONSE: &str = "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";
const LAST: &str = "HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";

const SECOND: Duration = Duration::from_secs(1);

fn service() -> Service<impl Handler> {
    Server::new().service(async |ctx: &mut Context| {
        if ctx.request.path() == "/slow" {
            sleep(5 * SECOND).await;
        }
    })
}

/// The peer's end of a connection that `service` serves, and the task that serves it.
fn connect(service: &Service<impl Handler>) -> (DuplexStream, JoinHandle<io::Result<()>>) {
    let (service, (near, far)) = (service.clone(), tokio::io::duplex(1024));
    (near, spawn_local(async move { service.serve_connection(far).await }))
}

/// Runs `test` with local tasks, on a paused clock.
fn run(test: impl Future<Output = ()>) {
    paused(LocalSet::new().run_until(test));
}

/// Sends `before`, stops the service half a second later, and sends `after` soon. Checks that all responses are
/// `expected`, and that the connection ends so many seconds after the stop.
#[track_caller]
fn check(before: &str, after: &str, expected: &str, seconds: u32) {
    check_paused(SECOND / 2, before, after, expected, seconds);
}

/// Checks the same as [`check`], with another pause before the stop.
#[track_caller]
fn check_paused(pause: Duration, before: &str, after: &str, expected: &str, seconds: u32) {
    run(async {
        let service = service();
        let (mut near, serving) = connect(&service);
        near.write_all(before.as_bytes()).await.unwrap();
        sleep(pause).await;
        let start = Instant::now();
        service.clone().stop();
        sleep(SECOND / 20).await;
        // The connection may be closed by now.
        let _ = near.write_all(after.as_bytes()).await;
        let mut received = String::new();
        near.read_to_string(&mut received).await.unwrap();
        assert_eq!(undated(&received), expected, "{before:?}, then {after:?}");
        drop(near);
        serving.await.unwrap().unwrap();
        let elapsed = start.elapsed().as_secs_f32().round() as u32;
        assert_eq!(elapsed, seconds, "{before:?}, then {after:?}");
    });
}

/// As those that a server accepts.
#[test]
fn connections_are_counted_until_they_end() {
    run(async {
        let counters = Arc::new(Mutex::new(None::<CoreCounters>));
        let kept = counters.clone();
        let observe = move |core: &mut CoreEvents| *kept.lock().unwrap() = Some(core.counters());
        let service = Server::new().observe(observe).service(|_: &mut Context| {});
        let check = async |expected: [u64; 2]| {
            sleep(SECOND / 10).await;
            let counts = counters.lock().unwrap().as_ref().unwrap().counts();
            assert_eq!([counts.open, counts.accepted], expected);
        };
        check([0, 0]).await;
        let (mut near, served) = connect(&service);
        near.write_all(GET.as_bytes()).await.unwrap();
        check([1, 1]).await;
        let (_near, cut) = connect(&service);
        check([2, 2]).await;
        drop(near);
        served.await.unwrap().unwrap();
        check([1, 2]).await;
        cut.abort();
        check([0, 2]).await;
        service.respond(Request::get("/").unwrap()).await;
        check([0, 2]).await;
    });
}

#[test]
fn a_stop_ends_idle_connections_at_once_and_busy_ones_with_their_answer() {
    check(GET, "", RESPONSE, 0);
    check(GET, GET, RESPONSE, 0);
    check(SLOW, "", LAST, 5);
    check(&[GET, SLOW].concat(), GET, &[RESPONSE, LAST].concat(), 5);
}

/// The next request may be on its way. A POST that meets a closed connection is lost, and its client cannot find out
/// whether the server has acted on it.
#[test]
fn a_connection_that_was_just_answered_has_a_moment_to_send_its_next_request() {
    for pause in [SECOND / 100, SECOND / 25] {
        check_paused(pause, GET, GET, &[RESPONSE, LAST].concat(), 0);
        check_paused(pause, GET, SLOW, &[RESPONSE, LAST].concat(), 5);
        check_paused(pause, GET, "", RESPONSE, 0);
    }
    // A client that has been silent for longer than that has nothing on its way.
    check_paused(SECOND / 5, GET, GET, RESPONSE, 0);
}

#[test]
fn a_new_connection_has_a_second_to_send_its_request() {
    check("", GET, LAST, 0);
    check("", SLOW, LAST, 5);
    check("", "", "", 1);
}

#[test]
fn a_connection_after_the_stop_is_served_one_request() {
    run(async {
        let service = service();
        service.stop();
        let (mut near, serving) = connect(&service);
        near.write_all(GET.repeat(2).as_bytes()).await.unwrap();
        let mut received = String::new();
        near.read_to_string(&mut received).await.unwrap();
        assert_eq!(undated(&received), LAST);
        drop(near);
        serving.await.unwrap().unwrap();
    });
}

/// A stream that the application supplies may hold data back until it is flushed, although its peer reads at once.
#[test]
fn what_a_stream_holds_back_leaves_while_the_handler_waits() {
    paused(async {
        let (mut near, far) = tokio::io::duplex(16);
        let service = Server::new().service(async |ctx: &mut Context| -> corehttp::Result {
            let mut out = ctx.body_writer().await?;
            out.write_all(b"news").await?;
            pending().await
        });
        let peer = async {
            near.write_all(GET.as_bytes()).await.unwrap();
            let mut received = Vec::new();
            while !received.ends_with(b"news\r\n") {
                received.push(near.read_u8().await.unwrap());
            }
        };
        tokio::select! {
            received = timeout(SECOND, peer) => received.expect("the rest is flushed"),
            served = service.serve_connection(BufStream::new(far)) => panic!("{served:?}"),
        }
    });
}

#[test]
fn handlers_and_operators_see_the_peer_that_the_caller_names() {
    let named = PeerAddr::from(SocketAddr::from(([192, 0, 2, 1], 4711)));
    for (peer, told) in [(named, "192.0.2.1:4711"), (PeerAddr::Unix, "unix"), (PeerAddr::Memory, "memory")] {
        let seen: Arc<Mutex<Vec<String>>> = Arc::default();
        let (received, shown) = (seen.clone(), seen.clone());
        let server =
            Server::new().on_error(move |report| received.lock().unwrap().push(report.peer_addr.to_string()));
        let service = server.service(move |ctx: &mut Context| {
            shown.lock().unwrap().push(ctx.peer_addr().to_string());
        });
        run(async {
            let (mut near, far) = tokio::io::duplex(1024);
            near.write_all(format!("{GET}no request\r\n\r\n").as_bytes()).await.unwrap();
            near.shutdown().await.unwrap();
            let read = async { near.read_to_end(&mut Vec::new()).await.unwrap() };
            let (served, _) = tokio::join!(service.serve_connection_from(peer, far), read);
            assert!(served.is_err());
        });
        assert_eq!(*seen.lock().unwrap(), [told, told]);
    }
}

/// A service that plans by the path, and echoes under the length that the request names.
fn planned() -> Service<impl Handler> {
    let plan = |request: &Request| match request.path() {
        "/refuse" => BodyPlan::Refuse(Status::FORBIDDEN),
        "/little" => BodyPlan::BufferUpTo(4),
        "/stream" => BodyPlan::Stream,
        _ => BodyPlan::Buffer,
    };
    let limits = Limits { body_max: 16, ..Limits::default() };
    Server::new().limits(limits).service(wrap(middleware::plan(plan), async |ctx: &mut Context| {
        if let Some(length) = ctx.request.headers.get("x-announce").map(str::to_owned) {
            ctx.response.headers.set("content-length", length)?;
        }
        let (mut body, mut out) = ctx.duplex().await?;
        while let Some(chunk) = body.chunk().await? {
            out.write_all(chunk).await?;
        }
        Ok(out.finish().await?)
    }))
}

/// Checks that a POST of `content` is answered with `expected`, over a connection and without one.
#[track_caller]
fn check_respond(path: &str, field: (&str, &str), content: &str, expected: (u16, &str)) {
    run(async {
        let service = planned();
        let mut request = Request::post(path).unwrap();
        request.headers.set(field.0, field.1).unwrap();
        request.body.set_bytes(content);
        let mut streamed = request.clone();
        streamed.body.set_stream(Cursor::new(content.to_owned()), None);
        for request in [request, streamed] {
            let response = service.respond(request).await;
            let text = response.body.text().unwrap();
            assert_eq!((response.status.as_u16(), text), expected, "{path} {field:?} {content:?}");
        }

        let (mut near, _serving) = connect(&service);
        let (name, value, length) = (field.0, field.1, content.len());
        let head = format!("POST {path} HTTP/1.0\r\n{name}: {value}\r\ncontent-length: {length}\r\n\r\n");
        near.write_all(format!("{head}{content}").as_bytes()).await.unwrap();
        let mut received = String::new();
        near.read_to_string(&mut received).await.unwrap();
        let content = received.split_once("\r\n\r\n").unwrap().1;
        assert_eq!((status(&received), content), expected, "{path} {field:?} over a connection");
    });
}

/// The plan, the limits, the lengths and the streams of a request count as they do on a connection.
#[test]
fn without_a_connection_a_request_is_answered_the_same() {
    let none = ("x-none", "");
    check_respond("/", none, "hello", (200, "hello"));
    check_respond("/refuse", none, "hello", (403, "Forbidden"));
    check_respond("/little", none, "hell", (200, "hell"));
    check_respond("/little", none, "hello", (413, "Content Too Large"));
    check_respond("/", none, "hello, hello, hello", (413, "Content Too Large"));
    check_respond("/stream", none, "hello, hello, hello", (200, "hello, hello, hello"));
    check_respond("/", ("x-announce", "5"), "hello", (200, "hello"));
    check_respond("/", ("x-announce", "4"), "hello", (200, ""));
    check_respond("/", ("x-announce", "6"), "hello", (200, "hello"));
}

/// The peer of a request without a connection is never gone while its handler runs.
#[test]
fn without_a_connection_the_peer_waits_for_its_response() {
    let service = Server::new().service(async |ctx: &mut Context| {
        let said = tokio::select! {
            biased;
            () = ctx.peer_closed() => "the peer has gone",
            () = sleep(SECOND) => "done",
        };
        ctx.response.set_text(said);
    });
    run(async {
        let response = service.respond(Request::get("/").unwrap()).await;
        assert_eq!(response.body.text(), Ok("done"));
        let start = Instant::now();
        check_refused(&service).await;
        assert_eq!(start.elapsed(), Duration::ZERO, "nobody is waited for who has received all");
    });
}

/// The future that serves a connection fails with it, also if the failure occurs in the handler.
#[test]
fn a_connection_that_fails_under_a_handler_has_ended_early() {
    run(async {
        let endless = async |ctx: &mut Context| -> corehttp::Result {
            let mut out = ctx.body_writer().await?;
            loop {
                out.write_all(b"and so on").await?;
                out.flush().await?;
            }
        };
        let (mut near, serving) = connect(&Server::new().service(endless));
        near.write_all(GET.as_bytes()).await.unwrap();
        near.read_u8().await.unwrap();
        drop(near);
        let ended = serving.await.unwrap();
        assert_eq!(ended.unwrap_err().kind(), io::ErrorKind::BrokenPipe);
    });
}

/// A connection whose handler panics, or cuts its response off, has not ended well.
#[test]
fn a_connection_that_its_handler_ends_has_ended_early() {
    for path in ["/panics", "/cuts", "/cuts-barely"] {
        run(async {
            let service = Server::new().service(async |ctx: &mut Context| -> corehttp::Result {
                if ctx.request.path() == "/panics" {
                    std::panic::resume_unwind(Box::new("quietly"));
                }
                let is_bare = ctx.request.path() == "/cuts-barely";
                ctx.body_writer().await?.write_all(b"half of it").await?;
                Err(if is_bare { Status::NOT_FOUND.into() } else { io::Error::other("as told").into() })
            });
            let (mut near, serving) = connect(&service);
            near.write_all(GET.replacen('/', path, 1).as_bytes()).await.unwrap();
            near.shutdown().await.unwrap();
            near.read_to_end(&mut Vec::new()).await.unwrap();
            assert_eq!(serving.await.unwrap().unwrap_err().to_string(), "the handler failed", "{path}");
        });
    }
}

/// The memory of a connection is used again for the next one, and must not keep the reset: the end of a request that is
/// cut short would pass for another reset, and its peer would not be answered.
#[test]
fn a_reset_is_forgotten_with_its_connection() {
    struct Resets;
    impl AsyncWrite for Resets {
        fn poll_write(self: Pin<&mut Self>, _: &mut task::Context<'_>, _: &[u8]) -> Poll<io::Result<usize>> {
            Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()))
        }

        fn poll_flush(self: Pin<&mut Self>, _: &mut task::Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }

        fn poll_shutdown(self: Pin<&mut Self>, _: &mut task::Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }
    }
    run(async {
        let service = service();
        let failing = tokio::io::join(Cursor::new(GET), Resets);
        let failed = service.serve_connection(failing).await;
        assert_eq!(failed.unwrap_err().kind(), io::ErrorKind::ConnectionReset);
        let (mut near, _serving) = connect(&service);
        near.write_all(&GET.as_bytes()[..9]).await.unwrap();
        near.shutdown().await.unwrap();
        let mut received = String::new();
        near.read_to_string(&mut received).await.unwrap();
        assert_eq!(status(&received), 400, "{received}");
    });
}

/// `spawn_local` works as on the core of a server.
#[test]
fn without_a_connection_a_handler_may_start_tasks_that_are_not_send() {
    let service = Server::new().service(async |ctx: &mut Context| -> corehttp::Result {
        let text = Rc::new("done");
        let task = spawn_local(async move { *text });
        ctx.response.set_text(task.await?);
        Ok(())
    });
    let response = corehttp::block_on(service.respond(Request::get("/").unwrap())).unwrap();
    assert_eq!(response.body.text(), Ok("done"));
}

/// Checks a request that is refused before the handler runs.
async fn check_refused(service: &Service<impl Handler>) {
    let mut request = Request::get("/").unwrap();
    request.headers.set("expect", "wonders").unwrap();
    assert_eq!(service.respond(request).await.status, Status::EXPECTATION_FAILED);
}

/// The future that serves a busy connection is kept for the next one, and must not keep the service alive.
#[test]
fn a_service_that_is_dropped_takes_its_handler_along() {
    run(async {
        let kept = Arc::new(());
        let own = kept.clone();
        let service = Server::new().service(move |ctx: &mut Context| {
            ctx.response.set_text(Arc::strong_count(&own).to_string());
        });
        let (mut near, serving) = connect(&service);
        near.write_all(GET.as_bytes()).await.unwrap();
        near.shutdown().await.unwrap();
        let mut received = String::new();
        near.read_to_string(&mut received).await.unwrap();
        assert!(received.ends_with("\r\n\r\n2"), "{received:?}");
        serving.await.unwrap().unwrap();
        drop(service);
        assert_eq!(Arc::strong_count(&kept), 1);
    });
}

/// Reads the content as the path says, and answers with what it finds.
async fn read(ctx: &mut Context) -> corehttp::Result {
    if ctx.request.path().starts_with("/buffered") {
        ctx.buffer_body().await?;
    }
    let Context { request, response, .. } = &mut *ctx;
    match request.path().rsplit('/').next().unwrap() {
        "text" => response.set_text(request.text()?),
        "decoded" => response.set_text(request.text_decoded()?),
        "bytes" => response.set_bytes("text/plain", request.bytes())?,
        "form" => response.set_text(request.form()?.get("a").unwrap_or_default()),
        #[cfg(feature = "json")]
        "json" => response.set_text(request.json::<u8>()?.to_string()),
        "length" => response.set_text(format!("{:?}", request.headers.content_length())),
        "reader" => {
            let mut content = String::new();
            ctx.body_reader().read_to_string(&mut content).await?;
            ctx.response.set_text(content);
        }
        _ => return Err(Status::NOT_FOUND.into()),
    }
    Ok(())
}

/// Checks how a handler that streams is answered if it reads `content` of this type, over a connection and without one.
#[track_caller]
fn check_read(path: &str, content_type: &str, content: &str, expected: (u16, &str)) {
    run(async {
        let limits = Limits { body_max: 16, ..Limits::default() };
        let service = Server::new().limits(limits).service(wrap(BodyPlan::Stream, read));
        let mut request = Request::post(path).unwrap();
        request.set_bytes(content_type, content).unwrap();
        let mut shared = request.clone();
        shared.body.set_shared_bytes(content.to_owned());
        let mut sized = request.clone();
        sized.body.set_stream(Cursor::new(content.to_owned()), Some(content.len() as u64));
        for request in [request, shared, sized] {
            let response = service.respond(request).await;
            assert_eq!((response.status.as_u16(), response.text().unwrap()), expected, "{path} {content:?}");
        }

        let (mut near, _serving) = connect(&service);
        let fields = format!("content-type: {content_type}\r\ncontent-length: {}", content.len());
        near.write_all(format!("POST {path} HTTP/1.0\r\n{fields}\r\n\r\n{content}").as_bytes())
            .await
            .unwrap();
        let mut received = String::new();
        near.read_to_string(&mut received).await.unwrap();
        let content = received.split_once("\r\n\r\n").unwrap().1;
        assert_eq!((status(&received), content), expected, "{path} {content:?} over a connection");
    });
}

/// Content that the plan has left for the handler is not there before the handler reads it, with a connection or without.
#[test]
fn content_that_was_not_read_is_refused() {
    const FORM: &str = "application/x-www-form-urlencoded";
    const FAILED: (u16, &str) = (500, "Internal Server Error");
    for (way, content_type, content, answer) in [
        ("text", "text/plain", "hello", "hello"),
        ("decoded", "text/plain", "hello", "hello"),
        ("form", FORM, "a=1", "1"),
        #[cfg(feature = "json")]
        ("json", "application/json", "7", "7"),
    ] {
        check_read(&format!("/{way}"), content_type, content, FAILED);
        check_read(&format!("/buffered/{way}"), content_type, content, (200, answer));
        check_read(&format!("/buffered/{way}"), content_type, &"x".repeat(17), (413, "Content Too Large"));
    }
    check_read("/bytes", "text/plain", "hello", (200, ""));
    check_read("/buffered/bytes", "text/plain", "hello", (200, "hello"));
    check_read("/reader", "text/plain", "hello", (200, "hello"));
    check_read("/reader", "text/plain", &"hello ".repeat(10_000), (200, &"hello ".repeat(10_000)));
    check_read("/length", "text/plain", "hello", (200, "Some(5)"));
    // Nothing is left of a body without content.
    check_read("/text", "text/plain", "", (200, ""));
    check_read("/reader", "text/plain", "", (200, ""));
}

/// A stream of another length than announced is a body that is cut short, whatever the plan for it.
#[test]
fn without_a_connection_a_stream_may_be_cut_short() {
    run(async {
        for (plan, len, path, expected) in [
            (BodyPlan::Stream, Some(9), "/reader", 400),
            (BodyPlan::Stream, Some(4), "/reader", 400),
            (BodyPlan::Stream, Some(9), "/buffered/text", 400),
            (BodyPlan::Stream, Some(4), "/buffered/text", 400),
            (BodyPlan::Stream, Some(5), "/reader", 200),
            (BodyPlan::Stream, Some(5), "/buffered/text", 200),
            (BodyPlan::Stream, None, "/reader", 200),
            (BodyPlan::Stream, None, "/buffered/text", 200),
            (BodyPlan::Stream, None, "/text", 500),
            (BodyPlan::Buffer, Some(9), "/text", 400),
            (BodyPlan::Buffer, Some(4), "/text", 400),
            (BodyPlan::Buffer, Some(5), "/text", 200),
            (BodyPlan::Buffer, None, "/text", 200),
            (BodyPlan::BufferUpTo(4), Some(5), "/text", 413),
            (BodyPlan::BufferUpTo(4), None, "/text", 413),
        ] {
            let service = Server::new().service(wrap(plan, read));
            for in_pieces in [false, true] {
                let mut request = Request::post(path).unwrap();
                match in_pieces {
                    false => request.body.set_stream(&b"hello"[..], len),
                    true => request.body.set_stream(b"hell".chain(&b"o"[..]), len),
                }
                let status = service.respond(request).await.status.as_u16();
                assert_eq!(status, expected, "{plan:?} {len:?} {path} {in_pieces}");
            }
        }
    });
}

/// A part of a body, left by a wait for all of it that was given up, passes for none.
#[test]
fn a_part_of_a_body_is_no_content() {
    async fn read(ctx: &mut Context) -> corehttp::Result {
        assert!(timeout(SECOND, ctx.buffer_body()).await.is_err(), "the rest comes later");
        assert_eq!(ctx.request.body.bytes(), b"1234");
        let Context { request, .. } = &*ctx;
        const UNREAD: &str = "the content was not read yet";
        assert_eq!(request.text().unwrap_err().to_string(), UNREAD);
        assert_eq!(request.text_decoded().unwrap_err().to_string(), UNREAD);
        #[cfg(feature = "json")]
        assert_eq!(request.json::<u64>().unwrap_err().to_string(), UNREAD);
        ctx.buffer_body().await?;
        ctx.response.set_text(ctx.request.text()?);
        Ok(())
    }

    let sized = ["content-length: 10\r\n\r\n1234", "567890"];
    let chunked = ["transfer-encoding: chunked\r\n\r\n4\r\n1234\r\n", "6\r\n567890\r\n0\r\n\r\n"];
    let in_chunk = ["transfer-encoding: chunked\r\n\r\na\r\n1234", "567890\r\n0\r\n\r\n"];
    for [first, rest] in [sized, chunked, in_chunk] {
        run(async {
            let service = Server::new().service(wrap(BodyPlan::Stream, read));
            let (mut near, _serving) = connect(&service);
            let head =
                "POST / HTTP/1.1\r\nhost: a\r\ncontent-type: application/json\r\nconnection: close\r\n";
            near.write_all(format!("{head}{first}").as_bytes()).await.unwrap();
            sleep(2 * SECOND).await;
            near.write_all(rest.as_bytes()).await.unwrap();
            let mut received = String::new();
            near.read_to_string(&mut received).await.unwrap();
            assert!(
                received.starts_with("HTTP/1.1 200 ") && received.ends_with("\r\n\r\n1234567890"),
                "{received}"
            );
        });
    }
}

/// A stream is no text: its reader would take it for an empty one.
#[test]
fn a_stream_is_refused_as_text() {
    let mut response = corehttp::Response::new();
    response.body.set_stream(&b"7"[..], None);
    assert_eq!(response.text().unwrap_err().to_string(), "the content was not read yet");
    assert_eq!(response.text_decoded().unwrap_err().to_string(), "the content was not read yet");
    #[cfg(feature = "json")]
    assert_eq!(response.json::<u8>().unwrap_err().to_string(), "the content was not read yet");
}
