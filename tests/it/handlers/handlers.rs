//! Handlers: what they may do, in which order, and what happens if they fail.
#![allow(clippy::unit_arg, clippy::unwrap_used, reason = "a test is short, and may panic")]

use std::collections::BTreeSet;
use std::io;
use std::panic::resume_unwind;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::task::{self, Poll};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use bytes::Bytes;
use corehttp::coding::Flush;
use corehttp::middleware::{Next, wrap};
use corehttp::server::{RespondError, ServerCore, Transform, TransformAction};
use corehttp::{
    BodyPlan, Context, Error, Handler, Headers, IntoHandler, PeerAddr, Request, Response, Server, Status,
    Timeouts, TrustedProxies,
};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt, ReadBuf};
use tokio::sync::{Notify, Semaphore};
use tokio::time::timeout;

use crate::support::{ErrorReports, Peer, Served, eventually, get, paused, status, streaming, undated};

const GET: &str = "GET / HTTP/1.1\r\nhost: a\r\n\r\n";

/// Fields that describe the content, and go with it.
const OF_CONTENT: [&str; 13] = [
    "etag",
    "last-modified",
    "content-encoding",
    "content-language",
    "content-length",
    "content-location",
    "content-range",
    "content-disposition",
    "content-digest",
    "content-md5",
    "digest",
    "repr-digest",
    "trailer",
];

mod errors {
    use super::*;

    /// Checks that a handler which fails with `fail` answers `expected`; the cause, if any, is passed to `on_error` and
    /// nowhere else.
    #[track_caller]
    fn check(fail: fn() -> Error, expected: &str, cause: Option<&str>) {
        let refusals = ErrorReports::default();
        let served = Served::with(
            |server| refusals.attach(server),
            move |ctx: &mut Context| match ctx.request.path() {
                "/fail" => Err(fail()),
                _ => Ok(()),
            },
        );
        let received = undated(&served.ask(get("/fail") + GET));
        let next = "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";
        assert_eq!(received, format!("{expected}{next}"), "the connection goes on");
        let refusals = refusals.take();
        assert_eq!(refusals.len(), cause.iter().len());
        for ((status, told), cause) in refusals.iter().zip(cause) {
            assert!(told.contains(cause) && expected.contains(&format!(" {status} ")), "{told}");
        }
    }

    fn response_text(status: &str, text: &str) -> String {
        let length = text.len();
        format!(
            "HTTP/1.1 {status}\r\ncontent-type: text/plain; charset=utf-8\r\ncontent-length: {length}\r\n\r\n{text}"
        )
    }

    #[test]
    fn a_status_as_an_error_is_answered_with_its_reason() {
        check(|| Status::NOT_FOUND.into(), &response_text("404 Not Found", "Not Found"), None);
        check(|| Status::IM_USED.into(), &response_text("226 IM Used", "IM Used"), None);
        check(|| Status::new(599).unwrap().into(), &response_text("599 ", ""), None);
        check(
            || Status::NO_CONTENT.into(),
            "HTTP/1.1 204 No Content\r\ncontent-type: text/plain; charset=utf-8\r\n\r\n",
            None,
        );
    }

    #[test]
    fn a_cause_is_never_told_to_the_peer() {
        let internal = response_text("500 Internal Server Error", "Internal Server Error");
        check(|| io::Error::other("secret").into(), &internal, Some("secret"));
        check(|| "secret".parse::<u16>().unwrap_err().into(), &internal, Some("invalid digit"));
        check(
            || Error::new(Status::CONFLICT, "secret"),
            &response_text("409 Conflict", "Conflict"),
            Some("secret"),
        );
    }

    #[test]
    fn a_1xx_status_is_answered_500_rfc9110_15_2() {
        for code in [100, 101, 102, 103, 199] {
            let refusals = ErrorReports::default();
            let set = move |ctx: &mut Context| {
                ctx.response.status = Status::new(code).unwrap();
                ctx.response.set_text("early");
            };
            let received = Served::with(|server| refusals.attach(server), set).ask(GET);
            assert_eq!(
                undated(&received),
                response_text("500 Internal Server Error", "Internal Server Error"),
                "{code}"
            );
            assert_eq!(refusals.take(), [(500, "the handler failed: a final status of 1xx".into())]);
        }
    }

    #[test]
    fn a_1xx_status_of_an_error_a_stream_or_a_plan_is_answered_500_too() {
        for early in [100, 101, 103, 199].map(|code| Status::new(code).unwrap()) {
            let fails = move |_: &mut Context| -> corehttp::Result { Err(early.into()) };
            let streams = async move |ctx: &mut Context| -> corehttp::Result {
                ctx.response.status = early;
                let mut out = ctx.body_writer().await?;
                out.write_all(b"text").await?;
                Ok(out.finish().await?)
            };
            let refuses = wrap(BodyPlan::Refuse(early), |_: &mut Context| {});
            for served in [Served::new(fails), Served::new(streams), Served::new(refuses)] {
                let received = served.ask(GET);
                assert_eq!(
                    (status(&received), received.matches("HTTP/1.1").count()),
                    (500, 1),
                    "{early}: {received}"
                );
            }
        }
    }

    #[test]
    fn an_error_keeps_the_fields_that_were_set_but_those_of_the_content() {
        let served = Served::new(|ctx: &mut Context| -> corehttp::Result {
            ctx.response.headers.set("x-before", "kept")?;
            for of_content in OF_CONTENT {
                ctx.response.headers.set(of_content, "1")?;
            }
            ctx.response.trailers.set("x-sum", "1")?;
            ctx.response.set_shared_bytes("image/png", "not sent")?;
            Err(Status::FORBIDDEN.into())
        });
        let expected = "HTTP/1.1 403 Forbidden\r\nx-before: kept\r\ncontent-type: text/plain; charset=utf-8\r\n\
                        content-length: 9\r\n\r\nForbidden";
        assert_eq!(undated(&served.ask(GET)), expected);
    }

    #[test]
    fn an_error_after_the_head_has_left_cuts_the_connection() {
        let refusals = ErrorReports::default();
        let served = Served::with(
            |server| refusals.attach(server),
            async |ctx: &mut Context| -> corehttp::Result {
                let mut out = ctx.body_writer().await?;
                out.write_all(b"half").await?;
                out.flush().await?;
                Err(Error::new(Status::CONFLICT, "secret"))
            },
        );
        let received = served.ask(get("/") + GET);
        assert!(received.ends_with("\r\n\r\n4\r\nhalf\r\n<ConnectionReset>"), "{received}");
        assert_eq!(refusals.take(), [(0, "secret".into())]);
    }
}

/// A body that fails while the handler reads it is answered like one that fails while it is buffered.
mod bodies_that_fail {
    use super::*;

    /// Checks that `wire` gets `expected`, however it is read, the connection closes well, and `on_error` is called
    /// once.
    #[track_caller]
    fn check(wire: &str, expected: u16) {
        check_reader(|_| BodyPlan::Buffer, async |_: &mut Context| {}, wire, expected);
        let by_chunk = async |ctx: &mut Context| -> corehttp::Result {
            let mut body = ctx.body_reader();
            while body.chunk().await?.is_some() {}
            Ok(())
        };
        check_reader(|_| BodyPlan::Stream, by_chunk, wire, expected);
        let by_read = async |ctx: &mut Context| -> corehttp::Result {
            Ok(_ = ctx.body_reader().read_to_end(&mut Vec::new()).await?)
        };
        check_reader(|_| BodyPlan::Stream, by_read, wire, expected);
        let buffered = async |ctx: &mut Context| -> corehttp::Result { Ok(ctx.buffer_body().await?) };
        check_reader(|_| BodyPlan::Stream, buffered, wire, expected);
        let wrapped = async |ctx: &mut Context| -> corehttp::Result {
            Ok(ctx.buffer_body().await.map_err(io::Error::other)?)
        };
        check_reader(|_| BodyPlan::Stream, wrapped, wire, expected);
    }

    #[track_caller]
    fn check_reader<Kind, H>(plan: fn(&Request) -> BodyPlan, read: H, wire: &str, expected: u16)
    where
        H: IntoHandler<Kind>,
        H::Handler: Send + Sync,
    {
        let refusals = ErrorReports::default();
        let served =
            Served::with(|server| refusals.attach(server), wrap(corehttp::middleware::plan(plan), read));
        let received = served.ask(wire);
        assert_eq!(status(&received), expected, "{wire:?}: {received}");
        assert!(
            received.contains("\r\nconnection: close\r\n") && !received.contains("<"),
            "{wire:?}: {received}"
        );
        assert_eq!(received.matches("HTTP/1.1").count(), 1, "{wire:?}: {received}");
        let refusals = refusals.take();
        assert!(matches!(refusals[..], [(status, _)] if status == expected), "{wire:?}: {refusals:?}");
    }

    #[test]
    fn a_body_that_is_cut_short_is_400_rfc9112_8() {
        check("POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 5\r\n\r\n", 400);
        check("POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 5\r\n\r\nhel", 400);
        check("POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n", 400);
        check("POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhel", 400);
        check("POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n", 400);
    }

    #[test]
    fn a_malformed_body_is_400_and_nothing_behind_it_is_parsed_rfc9112_7_1() {
        for body in
            ["x\r\n", "5\r\nhelloworld", "5\nhello", "+5\r\nhello\r\n0\r\n\r\n", "0\r\nhost: a\r\n\r\n"]
        {
            let wire = format!("POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n{body}{GET}");
            check(&wire, 400);
        }
    }

    #[test]
    fn trailers_that_are_too_large_are_431() {
        let wire = "POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n0\r\n";
        check(&format!("{wire}x: {}\r\n\r\n", "x".repeat(17 << 10)), 431);
    }

    #[test]
    fn a_handler_may_buffer_less_or_more_than_is_usual() {
        for (most, expected) in [(3, 413), (4, 200), (5 << 20, 200)] {
            let buffers = async move |ctx: &mut Context| -> corehttp::Result {
                ctx.buffer_body_up_to(most).await?;
                Ok(ctx.response.body.set_bytes(ctx.request.body.bytes()))
            };
            let served = Served::new(wrap(BodyPlan::Stream, buffers));
            let received = served.ask("POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 4\r\n\r\ntext");
            assert_eq!(
                (status(&received), received.ends_with("text")),
                (expected, expected == 200),
                "{received}"
            );
        }
    }

    /// A guard buffers a body by itself, to keep the fields that it has set, and passes the body on.
    #[test]
    fn a_handler_that_buffers_the_body_keeps_its_fields_if_that_fails_and_the_body_if_it_is_buffered_again() {
        let buffers = async |ctx: &mut Context| -> corehttp::Result {
            ctx.response.headers.set("x-before", "kept")?;
            ctx.buffer_body().await?;
            ctx.buffer_body().await?;
            Ok(std::mem::swap(&mut ctx.response.body, &mut ctx.request.body))
        };
        let served = Served::new(wrap(BodyPlan::Stream, buffers));
        for (body, expected) in [("4194305\r\n\r\n", 413), ("4\r\n\r\ntext", 200)] {
            let received = served.ask(format!("POST / HTTP/1.1\r\nhost: a\r\ncontent-length: {body}"));
            assert_eq!(status(&received), expected, "{received}");
            assert!(received.contains("\r\nx-before: kept\r\n"), "{received}");
            assert_eq!(received.ends_with("\r\n\r\ntext"), expected == 200, "{received}");
        }
    }

    #[test]
    fn a_body_larger_than_may_be_buffered_is_413() {
        let buffers = || async |ctx: &mut Context| -> corehttp::Result { Ok(ctx.buffer_body().await?) };
        for wire in [
            "POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 4194305\r\n\r\n",
            "POST / HTTP/1.1\r\nhost: a\r\nexpect: 100-continue\r\ncontent-length: 4194305\r\n\r\n",
        ] {
            check_reader(|_| BodyPlan::Stream, buffers(), wire, 413);
            check_reader(|_| BodyPlan::Buffer, |_: &mut Context| {}, wire, 413);
            check_reader(|_| BodyPlan::BufferUpTo(9), |_: &mut Context| {}, wire, 413);
        }
        let small = "POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n5\r\nhello\r\n0\r\n\r\n";
        check_reader(|_| BodyPlan::BufferUpTo(9), |_: &mut Context| {}, small, 413);
    }

    #[test]
    fn a_body_that_is_too_slow_is_408() {
        let (refusals, timeouts) =
            (ErrorReports::default(), Timeouts { body: Duration::from_millis(1), ..Timeouts::default() });
        let served = Served::with(
            |server| refusals.attach(server).timeouts(timeouts),
            wrap(BodyPlan::Stream, async |ctx: &mut Context| -> corehttp::Result {
                Ok(_ = ctx.body_reader().read_to_end(&mut Vec::new()).await?)
            }),
        );
        let mut peer = served.connect();
        peer.send("POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 5\r\n\r\nhel");
        let received = peer.receive();
        assert!(status(&received) == 408 && received.contains("\r\nconnection: close\r\n"), "{received}");
        assert_eq!(refusals.take(), [(408, "the body took longer than 1 ms".into())]);
    }
}

mod panics {
    use super::*;

    async fn fragile(ctx: &mut Context) -> corehttp::Result {
        ctx.response.headers.set("x-set", "before")?;
        match ctx.request.path() {
            "/at-once" => resume_unwind(Box::new("without a trace")),
            "/later" => {
                tokio::task::yield_now().await;
                resume_unwind(Box::new("without a trace"))
            }
            "/streaming" => {
                let mut out = ctx.body_writer().await?;
                out.write_all(b"half").await?;
                out.flush().await?;
                resume_unwind(Box::new("without a trace"))
            }
            _ => Ok(ctx.response.set_text("well")),
        }
    }

    fn plan(request: &Request) -> BodyPlan {
        match request.path() {
            "/plan" => resume_unwind(Box::new("without a trace")),
            _ => BodyPlan::Stream,
        }
    }

    /// Checks that a panic ends the exchange of `path` with `expected`, and nothing else.
    #[track_caller]
    fn check(path: &str, expected: &str, told: u16) {
        let refusals = ErrorReports::default();
        let served =
            Served::with(|server| refusals.attach(server), wrap(corehttp::middleware::plan(plan), fragile));
        let mut other = served.connect();
        other.send(GET);
        assert!(other.receive().ends_with("well"));
        let received = undated(&served.ask(get("/") + &get(path) + GET));
        let well = "HTTP/1.1 200 OK\r\nx-set: before\r\ncontent-type: text/plain; charset=utf-8\r\n\
                    content-length: 4\r\n\r\nwell";
        assert_eq!(received, format!("{well}{expected}"), "{path}");
        other.send(GET);
        assert!(other.receive().ends_with("well"), "the others live");
        assert_eq!(refusals.take(), [(told, "the handler panicked".into())]);
        assert_eq!(served.running.counts().total.errors.panic, 1);
    }

    #[test]
    fn row_64_a_panic_is_500_and_the_connection_closes() {
        let internal = "HTTP/1.1 500 Internal Server Error\r\ncontent-type: text/plain; charset=utf-8\r\n\
                        content-length: 21\r\nconnection: close\r\n\r\nInternal Server Error";
        check("/plan", internal, 500);
        // The fields that were set stay, as after an error.
        let internal = internal.replacen("\r\n", "\r\nx-set: before\r\n", 1);
        check("/at-once", &internal, 500);
        check("/later", &internal, 500);
    }

    #[test]
    fn row_64_a_panic_after_the_head_has_left_cuts_the_connection() {
        let half = "HTTP/1.1 200 OK\r\nx-set: before\r\ntransfer-encoding: chunked\r\n\r\n4\r\nhalf\r\n";
        check("/streaming", &format!("{half}<ConnectionReset>"), 0);
    }

    /// Panics when it is dropped.
    struct Fragile;

    impl Drop for Fragile {
        fn drop(&mut self) {
            if !thread::panicking() {
                resume_unwind(Box::new("without a trace"));
            }
        }
    }

    /// Panics even when it is dropped because of another panic.
    struct Stubborn;

    impl Drop for Stubborn {
        fn drop(&mut self) {
            resume_unwind(Box::new("without a trace"));
        }
    }

    impl AsRef<[u8]> for Fragile {
        fn as_ref(&self) -> &[u8] {
            b"owned"
        }
    }

    impl AsyncRead for Fragile {
        fn poll_read(
            self: Pin<&mut Self>,
            _: &mut task::Context<'_>,
            _: &mut ReadBuf<'_>,
        ) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }
    }

    impl Transform for Fragile {
        fn begin(&mut self, _: &mut Response) -> TransformAction {
            TransformAction::Apply
        }

        fn apply(&mut self, data: &[u8], _: Flush, out: &mut Vec<u8>) -> io::Result<()> {
            out.extend(data);
            Ok(())
        }
    }

    /// Answers, and leaves a value behind that panics when it is dropped.
    async fn careless(ctx: &mut Context) -> corehttp::Result {
        let Context { request, response, extensions, transform, .. } = ctx;
        response.set_text("well");
        match request.path() {
            "/extension" => drop(extensions.insert(Fragile)),
            "/extensions" => {
                extensions.insert(Fragile);
                extensions.insert([Fragile]);
            }
            "/transform" => *transform = Some(Box::new(Fragile)),
            "/request" => request.body.set_stream(Fragile, None),
            "/all" => {
                extensions.insert(Fragile);
                *transform = Some(Box::new(Fragile));
                request.body.set_stream(Fragile, None);
                response.body.set_shared_bytes(Bytes::from_owner(Fragile));
            }
            "/owned" => response.body.set_shared_bytes(Bytes::from_owner(Fragile)),
            "/source" => response.body.set_stream(Fragile, None),
            "/unread" => {
                response.body.set_stream(Fragile, None);
                response.status = Status::NO_CONTENT;
            }
            "/streamed" => {
                *transform = Some(Box::new(Fragile));
                let mut out = ctx.body_writer().await?;
                out.write_all(b"well").await?;
                out.finish().await?;
            }
            "/refused" => {
                response.body.set_stream(Fragile, None);
                resume_unwind(Box::new("without a trace"));
            }
            "/pending" => {
                extensions.insert(Stubborn);
                let _held = Fragile;
                std::future::pending().await
            }
            "/upgraded" => {
                extensions.insert(Fragile);
                drop(ctx.upgrade("x").await?);
            }
            "/taken" => {
                let _taken = ctx.upgrade("x").await?;
                resume_unwind(Box::new("without a trace"));
            }
            _ => {}
        }
        Ok(())
    }

    /// Checks that the values of an exchange of `path` panic so often when they are dropped; each panic is reported
    /// with the status `told`. The response begins with `expected` and is the last one, whether or not another request
    /// has come.
    #[track_caller]
    fn check_left(path: &str, expected: &str, told: u16, panics: usize) {
        let asked = format!("GET {path} HTTP/1.1\r\nhost: a\r\nconnection: upgrade\r\nupgrade: x\r\n\r\n");
        let refusals = ErrorReports::default();
        let served = Served::with(|server| refusals.attach(server), careless);
        let mut other = served.connect();
        for next in ["", GET] {
            let received = undated(&served.ask(get("/") + &asked + next));
            let (_, last) = received.split_at(received.find("well").unwrap() + "well".len());
            assert!(
                last.starts_with(expected) && last.matches("HTTP/1.1").count() == 1,
                "{path}: {received}"
            );
            // A connection that was handed over may close before the panic is reported. The other one is served later.
            other.send(GET);
            assert!(other.receive().ends_with("well"), "the others live");
            assert_eq!(refusals.take(), vec![(told, "the handler panicked".to_owned()); panics], "{path}");
        }
        assert_eq!(served.running.counts().total.errors.panic, 2 * panics as u64);
        assert_eq!(served.running.counts().total.errors.handler, 0);
        drop(other);
        eventually("all are gone", || served.running.counts().total.open == 0);
    }

    #[test]
    fn a_value_that_panics_when_dropped_is_reported_and_the_response_arrives() {
        let ok = "HTTP/1.1 200 OK\r\n";
        for (path, panics) in [
            ("/extension", 1),
            ("/extensions", 2),
            ("/transform", 1),
            ("/request", 1),
            ("/all", 4),
            ("/owned", 1),
            ("/streamed", 1),
        ] {
            check_left(path, ok, 0, panics);
        }
        check_left("/unread", "HTTP/1.1 204 No Content\r\n", 0, 1);
        check_left("/upgraded", "HTTP/1.1 101 Switching Protocols\r\n", 0, 1);
        check_left("/taken", "HTTP/1.1 101 Switching Protocols\r\n", 0, 1);
    }

    #[test]
    fn a_value_that_panics_before_the_response_is_whole_ends_it() {
        check_left("/source", "HTTP/1.1 200 OK\r\n", 0, 1);
        let timeouts = Timeouts { handler: Some(Duration::from_millis(1)), ..Timeouts::default() };
        let refusals = ErrorReports::default();
        let served = Served::with(|server| refusals.attach(server).timeouts(timeouts), careless);
        assert_eq!(served.ask(get("/pending") + GET), "");
        let panicked = (0, "the handler panicked".to_owned());
        assert_eq!(refusals.take(), [panicked.clone(), panicked]);
    }

    #[test]
    fn a_panic_that_follows_a_panic_is_reported_too() {
        let refusals = ErrorReports::default();
        let served = Served::with(|server| refusals.attach(server), careless);
        let received = served.ask(get("/refused") + GET);
        assert!(status(&received) == 500 && received.matches("HTTP/1.1").count() == 1, "{received}");
        assert_eq!(refusals.take(), [0, 500].map(|told| (told, "the handler panicked".to_owned())));
    }

    /// An error that panics when it is dropped, too.
    struct FragileError(#[allow(dead_code, reason = "it is there to be dropped")] Fragile);

    impl std::fmt::Debug for FragileError {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            std::fmt::Display::fmt(self, f)
        }
    }

    impl std::fmt::Display for FragileError {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("it is fragile")
        }
    }

    impl std::error::Error for FragileError {}

    #[test]
    fn a_cause_that_panics_when_dropped_harms_no_connection() {
        for is_told in [true, false] {
            let refusals = ErrorReports::default();
            let fails = |_: &mut Context| Err(Error::new(Status::CONFLICT, FragileError(Fragile)));
            let served = Served::with(|server| if is_told { refusals.attach(server) } else { server }, fails);
            assert_eq!(served.ask(GET.repeat(3)).matches("HTTP/1.1 409 Conflict\r\n").count(), 3);
            let told = (409, "it is fragile".to_owned());
            assert_eq!(refusals.take(), vec![told; if is_told { 3 } else { 0 }]);
        }
    }

    #[tokio::test]
    async fn panics_are_caught_without_a_connection_too() {
        for (path, code, body, panics) in [
            ("/extensions", 200, "well", 2),
            ("/refused", 500, "Internal Server Error", 2),
            ("/source", 200, "", 1),
        ] {
            let refusals = ErrorReports::default();
            let service = refusals.attach(Server::new()).service(careless);
            let response = service.respond(Request::get(path).unwrap()).await;
            assert_eq!((response.status.as_u16(), response.body.text()), (code, Ok(body)), "{path}");
            assert_eq!(refusals.take().len(), panics, "{path}");
        }
    }
}

mod facts {
    use super::*;

    #[test]
    fn connections_and_exchanges_are_numbered() {
        let served = Served::new(|ctx: &mut Context| {
            ctx.response.set_text(format!("<{}:{}>", ctx.connection_id(), ctx.exchange_number()));
        });
        let (mut first, mut second) = (served.connect(), served.connect());
        let ask = |peer: &mut Peer, requests: &str| {
            peer.send(requests);
            let count = requests.matches("GET").count();
            (0..count).map(|_| number(&peer.receive())).collect::<Vec<_>>()
        };
        let [id, other] = [&mut first, &mut second].map(|peer| ask(peer, GET)[0].0);
        assert_ne!(id, other);
        assert_eq!(ask(&mut first, GET), [(id, 2)]);
        assert_eq!(ask(&mut second, &GET.repeat(3)), [(other, 2), (other, 3), (other, 4)]);
        assert_eq!(ask(&mut first, &GET.repeat(2)), [(id, 3), (id, 4)]);
    }

    #[test]
    fn connections_on_different_cores_have_different_numbers() {
        let served = Served::with(
            |server| server.cores(2).balanced(true),
            |ctx: &mut Context| ctx.response.set_text(format!("<{}:{}>", ctx.connection_id(), 0)),
        );
        let mut peers = [(); 8].map(|()| served.connect());
        let numbers = peers.each_mut().map(|peer| {
            peer.send(GET);
            number(&peer.receive()).0
        });
        assert_eq!(BTreeSet::from(numbers).len(), 8, "{numbers:?}");
        assert!(served.running.counts().cores.iter().all(|core| core.requests == 4));
    }

    fn number(received: &str) -> (u64, u64) {
        let (_, numbers) = received.split_once('<').unwrap();
        let (id, number) = numbers.trim_end_matches('>').split_once(':').unwrap();
        (id.parse().unwrap(), number.parse().unwrap())
    }

    #[test]
    fn both_addresses_are_those_of_the_socket_and_a_proxy_names_its_client() {
        let (sender, facts) = channel();
        let proxies = TrustedProxies::new(["127.0.0.0/8"]).unwrap();
        let served = Served::with(
            |server| server.trusted_proxies(proxies),
            move |ctx: &mut Context| {
                let client = ctx.client_ip();
                sender.send((ctx.peer_addr(), ctx.local_addr(), client)).unwrap();
            },
        );
        let mut peer = served.connect();
        peer.send(
            "GET / HTTP/1.1\r\nhost: a\r\nx-forwarded-for: 192.0.2.1\r\nforwarded: for=192.0.2.1\r\n\r\n",
        );
        peer.receive();
        let peer = PeerAddr::Tcp(peer.stream.local_addr().unwrap());
        let client = "192.0.2.1".parse().unwrap();
        assert_eq!(facts.recv().unwrap(), (peer, Some(served.addr()), Some(client)));
    }

    #[test]
    fn a_request_arrives_with_its_head() {
        let (sender, facts) = channel();
        let served = Served::new(move |ctx: &mut Context| sender.send(ctx.arrived_at()).unwrap());
        let mut peer = served.connect();
        for _ in 0..3 {
            let before = Instant::now();
            peer.send(GET);
            peer.receive();
            assert!((before..=Instant::now()).contains(&facts.recv().unwrap()));
        }
    }

    /// A request that arrives with the end of a streamed exchange must not seem as old as that, although no other event
    /// reads the clock.
    #[test]
    fn a_request_has_not_arrived_before_it_was_sent() {
        let (sender, facts) = channel();
        let service = Server::new().service(streaming(async move |ctx: &mut Context| -> corehttp::Result {
            sender.send(ctx.arrived_at()).unwrap();
            let (mut body, mut out) = ctx.duplex().await?;
            out.flush().await?;
            while body.chunk().await?.is_some() {}
            Ok(out.finish().await?)
        }));
        paused(async {
            let (mut near, far) = tokio::io::duplex(1 << 10);
            let talks = async {
                near.write_all(b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 1\r\n\r\n").await.unwrap();
                near.read_u8().await.unwrap();
                let before = Instant::now();
                near.write_all(format!("x{GET}").as_bytes()).await.unwrap();
                near.shutdown().await.unwrap();
                near.read_to_end(&mut Vec::new()).await.unwrap();
                before
            };
            let (before, served) = tokio::join!(talks, service.serve_connection(far));
            served.unwrap();
            assert!(facts.recv().unwrap() < before);
            assert!((before..=Instant::now()).contains(&facts.recv().unwrap()));
        });
    }

    #[test]
    fn extensions_last_for_one_exchange() {
        struct Seen;
        let served = Served::new(|ctx: &mut Context| -> corehttp::Result {
            let was_there = ctx.extensions.insert(Seen).is_some() || ctx.extensions.insert("text").is_some();
            ctx.response.set_text(if was_there { "left over" } else { "new" });
            if ctx.request.path() == "/fail" { Err(Status::GONE.into()) } else { Ok(()) }
        });
        let received = served.ask(get("/fail") + GET + GET);
        assert_eq!(received.matches("\r\n\r\nnew").count(), 2, "{received}");
        assert!(served.ask(GET).ends_with("new"));
    }
}

mod peer_closed {
    use super::*;

    /// A server whose handler works until `done` has a permit or the peer is gone, and reports which of the two.
    fn working() -> (Served, Arc<Semaphore>, Receiver<&'static str>) {
        let ((sender, ends), done) = (channel(), Arc::new(Semaphore::new(0)));
        let work = done.clone();
        let served = Served::new(async move |ctx: &mut Context| {
            sender.send("started").unwrap();
            let end = tokio::select! {
                biased;
                () = ctx.peer_closed() => "closed",
                permit = work.acquire() => {
                    permit.unwrap().forget();
                    "done"
                }
            };
            sender.send(end).unwrap();
            ctx.response.set_text(end);
        });
        (served, done, ends)
    }

    /// The peer does `leave` while the handler works.
    #[track_caller]
    fn check(sent: &str, leave: impl FnOnce(Peer)) {
        let (served, _, ends) = working();
        let mut peer = served.connect();
        peer.send(sent);
        assert_eq!(ends.recv(), Ok("started"));
        leave(peer);
        assert_eq!(ends.recv(), Ok("closed"));
    }

    #[test]
    fn a_handler_hears_that_its_peer_has_left() {
        check(GET, drop);
        check(GET, Peer::reset);
        check(&GET.repeat(3), drop);
        check(GET, |mut peer| {
            peer.send("half a requ");
            drop(peer);
        });
    }

    #[test]
    fn a_peer_that_ends_only_its_own_side_still_gets_its_response() {
        check(GET, |mut peer| {
            peer.end();
            assert!(peer.receive_all().ends_with("\r\n\r\nclosed"));
        });
    }

    /// A connection that waits for its next request takes a context only once bytes have arrived, though its handler has
    /// waited to read as well.
    #[test]
    fn a_connection_takes_one_context_for_each_request() {
        let (served, done, ends) = working();
        let mut peer = served.connect();
        for _ in 0..8 {
            peer.send(GET);
            assert_eq!(ends.recv(), Ok("started"));
            done.add_permits(1);
            assert!(peer.receive_through("done").starts_with("HTTP/1.1 200 OK"));
            assert_eq!(ends.recv(), Ok("done"));
        }
        served.running.stop(Duration::ZERO);
        served.running.wait().unwrap();
        let total = served.running.counts().total;
        let taken =
            total.pools().find(|(name, _)| *name == "contexts").map(|(_, pool)| pool.created + pool.reused);
        // The end of the connection may take one, too.
        assert!(matches!(taken, Some(8 | 9)), "{taken:?}");
    }

    #[test]
    fn bytes_that_come_meanwhile_are_kept_up_to_a_bound() {
        let service = Server::new().service(async |ctx: &mut Context| ctx.peer_closed().await);
        paused(async {
            let (mut near, far) = tokio::io::duplex(1 << 10);
            let talks = async {
                near.write_all(GET.as_bytes()).await.unwrap();
                let mut said = 0;
                // The clock is paused: a second is over only when nothing else can happen.
                while let Ok(count) = timeout(Duration::from_secs(1), near.write(&[b'x'; 100])).await {
                    said += count.unwrap();
                    assert!(said < 70 << 10, "{said} bytes are kept");
                }
                assert!(said > 60 << 10, "only {said} bytes are kept");
            };
            tokio::select! {
                () = talks => {}
                served = service.serve_connection(far) => panic!("{served:?}"),
            }
        });
    }

    #[test]
    fn a_close_behind_as_much_as_is_kept_is_noticed() {
        let service = Server::new().service(async |ctx: &mut Context| ctx.peer_closed().await);
        paused(async {
            let (mut near, far) = tokio::io::duplex(1 << 10);
            let talks = async {
                near.write_all(GET.as_bytes()).await.unwrap();
                near.write_all(&[b'x'; 64 << 10]).await.unwrap();
                near.shutdown().await.unwrap();
                timeout(Duration::from_secs(1), near.read_u8()).await.expect("it is noticed").unwrap();
            };
            // The connection ends then, because no request follows.
            let _ = tokio::join!(talks, service.serve_connection(far));
        });
    }

    #[test]
    fn a_writer_hears_that_its_peer_has_left() {
        let (sender, ends) = channel();
        let served = Served::new(streaming(async move |ctx: &mut Context| -> corehttp::Result {
            let mut out = ctx.body_writer().await?;
            out.write_all(b"begun").await?;
            out.peer_closed().await;
            sender.send("closed").unwrap();
            out.write_all(b"closed").await?;
            Ok(out.finish().await?)
        }));
        // The end of the request's body, which is cut short, concerns only its reader.
        for sent in [GET, &GET.replace("\r\n\r\n", "\r\ncontent-length: 5\r\n\r\n12")] {
            let mut peer = served.connect();
            peer.send(sent);
            peer.receive_through("begun\r\n");
            peer.end();
            assert_eq!(ends.recv(), Ok("closed"));
            assert_eq!(peer.receive_all(), "6\r\nclosed\r\n0\r\n\r\n");
        }
    }

    #[test]
    fn requests_that_come_while_a_response_is_streamed_are_not_lost() {
        let done = Arc::new(Semaphore::new(0));
        let work = done.clone();
        let served = Served::new(async move |ctx: &mut Context| -> corehttp::Result {
            let mut out = ctx.body_writer().await?;
            out.write_all(b"begun").await?;
            tokio::select! {
                () = out.peer_closed() => out.write_all(b"closed").await?,
                permit = work.acquire() => permit?.forget(),
            }
            Ok(out.finish().await?)
        });
        let mut peer = served.connect();
        peer.send(GET);
        for _ in 0..3 {
            peer.receive_through("begun\r\n");
            peer.send(GET);
            done.add_permits(1);
            peer.receive_through("0\r\n\r\n");
        }
    }

    #[test]
    fn beside_a_reader_only_the_reader_hears_that_the_peer_has_left() {
        let (sender, ends) = channel();
        let served = Served::new(streaming(async move |ctx: &mut Context| {
            let (mut body, out) = ctx.duplex().await.unwrap();
            let end = tokio::select! {
                biased;
                () = out.peer_closed() => None,
                end = body.chunk() => Some(end.unwrap_err().kind()),
            };
            sender.send(end).unwrap();
        }));
        let mut peer = served.connect();
        peer.send(GET.replace("\r\n\r\n", "\r\ncontent-length: 5\r\n\r\n"));
        peer.receive_through("\r\n\r\n");
        peer.end();
        assert_eq!(ends.recv(), Ok(Some(io::ErrorKind::UnexpectedEof)));
    }

    #[test]
    fn requests_that_come_meanwhile_are_not_lost() {
        let (served, done, ends) = working();
        let mut peer = served.connect();
        peer.send(GET);
        assert_eq!(ends.recv(), Ok("started"));
        peer.send(GET.repeat(2));
        done.add_permits(3);
        for _ in 0..3 {
            assert!(peer.receive().ends_with("\r\n\r\ndone"));
        }
    }
}

mod middleware {
    use super::*;

    /// Marks requests and responses that pass through, also those of errors.
    struct Mark<H>(&'static str, H);

    impl<H: Handler> Handler for Mark<H> {
        fn on_head(&self, ctx: &mut Context) -> BodyPlan {
            self.1.on_head(ctx)
        }

        async fn handle(&self, ctx: &mut Context) -> corehttp::Result {
            let path = ctx.extensions.get::<String>().cloned().unwrap_or_default();
            ctx.extensions.insert(path + self.0);
            let outcome = self.1.handle(ctx).await;
            ctx.response.headers.append("via", self.0)?;
            outcome
        }
    }

    /// Lets only requests with the password through.
    struct Guard<H>(H);

    impl<H: Handler> Handler for Guard<H> {
        async fn handle(&self, ctx: &mut Context) -> corehttp::Result {
            match ctx.request.headers.get("authorization") {
                Some("sesame") => self.0.handle(ctx).await,
                _ => Err(Status::UNAUTHORIZED.into()),
            }
        }
    }

    fn inner(ctx: &mut Context) -> corehttp::Result {
        let marks = ctx.extensions.get::<String>().cloned().unwrap_or_default();
        ctx.response.set_text(marks);
        if ctx.request.path() == "/fail" { Err(Status::GONE.into()) } else { Ok(()) }
    }

    #[test]
    fn a_handler_may_wrap_another() {
        let served = Served::new(Mark("a", Guard(Mark("b", inner.into_handler()))));
        for (request, expected) in [
            (
                "GET / HTTP/1.1\r\nhost: a\r\nauthorization: sesame\r\n\r\n",
                ("200 OK", "via: b\r\nvia: a\r\n", "ab"),
            ),
            ("GET / HTTP/1.1\r\nhost: a\r\n\r\n", ("401 Unauthorized", "via: a\r\n", "Unauthorized")),
            (
                "GET /fail HTTP/1.1\r\nhost: a\r\nauthorization: sesame\r\n\r\n",
                ("410 Gone", "via: b\r\nvia: a\r\n", "Gone"),
            ),
        ] {
            let received = undated(&served.ask(request));
            assert!(received.starts_with(&format!("HTTP/1.1 {}\r\n", expected.0)), "{received}");
            assert!(
                received.contains(expected.1)
                    && received.matches("via").count() == expected.1.matches("via").count()
            );
            assert!(received.ends_with(&format!("\r\n\r\n{}", expected.2)), "{received}");
        }
    }

    /// Records on which side of the handler it ran.
    async fn notes(ctx: &mut Context, next: Next<'_>) -> corehttp::Result {
        ctx.response.headers.append("x-notes", "before")?;
        let outcome = next.handle(ctx).await;
        ctx.response.headers.append("x-notes", "after")?;
        outcome
    }

    async fn refuses(_: &mut Context, _: Next<'_>) -> corehttp::Result {
        Err(Status::FORBIDDEN.into())
    }

    fn counts(ctx: &mut Context) {
        let (is_buffered, notes) =
            (!ctx.request.body.is_empty(), ctx.response.headers.all("x-notes").count());
        ctx.response.set_text(format!("{is_buffered} {notes}"));
    }

    fn check(handler: impl Handler + Send + Sync + 'static, expected: u16, notes: usize, text: &str) {
        let received = Served::new(handler).ask("POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 1\r\n\r\nx");
        assert_eq!((status(&received), received.matches("x-notes").count()), (expected, notes), "{received}");
        assert!(received.ends_with(text), "{received}");
    }

    #[test]
    fn a_function_may_wrap_a_handler_whose_plan_stays() {
        check(wrap(notes, counts), 200, 2, "true 1");
        check(wrap(notes, wrap(notes, counts)), 200, 4, "true 2");
        check(wrap(notes, wrap(BodyPlan::Stream, counts)), 200, 2, "false 1");
        check(wrap(notes, wrap(BodyPlan::Refuse(Status::CONFLICT), counts)), 409, 2, "Conflict");
        check(wrap(notes, wrap(refuses, counts)), 403, 2, "Forbidden");
        check(wrap(refuses, wrap(notes, counts)), 403, 0, "Forbidden");
    }

    #[test]
    fn a_plan_passes_through_the_handlers_around_it() {
        let refuse = wrap(BodyPlan::Refuse(Status::LOCKED), inner);
        assert_eq!(status(&Served::new(Arc::new(Mark("a", refuse))).ask(GET)), 423);
        let make = async move |_: ServerCore| Ok(Rc::new(Mark("a", refuse)));
        let running = Server::bind("127.0.0.1:0").cores(1).start_per_core(make).unwrap();
        assert_eq!(status(&Served { running }.ask(GET)), 423);
    }
}

mod responses {
    use super::*;

    /// Checks that `handler` answers `request` with `expected`, byte for byte except for the date.
    #[track_caller]
    fn check(request: &str, handler: fn(&mut Context) -> corehttp::Result, expected: &str) {
        assert_eq!(undated(&Served::new(handler).ask(request)), expected);
    }

    #[test]
    fn helpers_set_what_they_are_named_after() {
        check(
            GET,
            |ctx| Ok(ctx.response.set_html("<p>")),
            "HTTP/1.1 200 OK\r\ncontent-type: text/html; charset=utf-8\r\ncontent-length: 3\r\n\r\n<p>",
        );
        check(
            GET,
            |ctx| Ok(ctx.response.set_shared_bytes("image/gif", b"GIF".as_slice())?),
            "HTTP/1.1 200 OK\r\ncontent-type: image/gif\r\ncontent-length: 3\r\n\r\nGIF",
        );
        check(
            GET,
            |ctx| {
                for of_content in OF_CONTENT {
                    ctx.response.headers.set(of_content, "1")?;
                }
                ctx.response.trailers.set("x-sum", "1")?;
                ctx.response.set_text("not sent");
                Ok(ctx.response.set_redirect(Status::FOUND, "/there?q=1")?)
            },
            "HTTP/1.1 302 Found\r\nlocation: /there?q=1\r\ncontent-length: 0\r\n\r\n",
        );
        check(
            GET,
            |ctx| {
                ctx.response.headers.set("etag", "\"1\"")?;
                ctx.response.set_text("not sent");
                Ok(ctx.response.set_not_modified())
            },
            "HTTP/1.1 304 Not Modified\r\netag: \"1\"\r\n\r\n",
        );
        check(
            GET,
            |ctx| {
                Ok(ctx
                    .response
                    .headers
                    .set_date("last-modified", SystemTime::UNIX_EPOCH + Duration::from_secs(784_111_777))?)
            },
            "HTTP/1.1 200 OK\r\nlast-modified: Sun, 06 Nov 1994 08:49:37 GMT\r\ncontent-length: 0\r\n\r\n",
        );
    }

    #[test]
    fn a_helper_that_refuses_changes_nothing() {
        check(
            GET,
            |ctx| {
                ctx.response.set_text("kept");
                assert!(ctx.response.set_redirect(Status::FOUND, "/a\r\nx-evil: 1").is_err());
                assert!(ctx.response.set_shared_bytes("a/b\nx-evil: 1", "x").is_err());
                assert!(ctx.response.headers.set_date("a b", SystemTime::now()).is_err());
                Ok(())
            },
            "HTTP/1.1 200 OK\r\ncontent-type: text/plain; charset=utf-8\r\ncontent-length: 4\r\n\r\nkept",
        );
    }

    #[test]
    fn anything_may_be_set_in_any_order() {
        type Step = fn(&mut Response);
        let steps: [Step; 3] = [
            |response| response.status = Status::CREATED,
            |response| response.headers.set("x-a", "1").unwrap(),
            |response| response.body.set_bytes("body"),
        ];
        for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
            let served = Served::new(move |ctx: &mut Context| {
                ctx.response.set_text("set first, and then again");
                ctx.response.headers.clear();
                order.iter().for_each(|step: &usize| steps[*step](&mut ctx.response));
            });
            let expected = "HTTP/1.1 201 Created\r\nx-a: 1\r\ncontent-length: 4\r\n\r\nbody";
            assert_eq!(undated(&served.ask(GET)), expected, "{order:?}");
        }
    }

    #[test]
    fn whole_values_may_be_moved() {
        let post = "POST / HTTP/1.1\r\nhost: a\r\nX-Own: 1\r\ncontent-length: 5\r\n\r\nhello";
        check(
            post,
            |ctx| Ok(std::mem::swap(&mut ctx.request.body, &mut ctx.response.body)),
            "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello",
        );
        check(
            post,
            |ctx| Ok(ctx.response.headers = std::mem::take(&mut ctx.request.headers)),
            "HTTP/1.1 200 OK\r\nhost: a\r\nX-Own: 1\r\ncontent-length: 0\r\n\r\n",
        );
        check(
            post,
            |ctx| Ok(ctx.response = Response { body: ctx.request.body.clone(), ..Response::new() }),
            "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello",
        );
    }

    #[test]
    fn rewriting_the_request_does_not_change_how_it_is_answered() {
        let rewrite: fn(&mut Context) -> corehttp::Result = |ctx| {
            ctx.request = Request::post("/elsewhere")?;
            ctx.request.headers.set("connection", "close")?;
            Ok(ctx.response.body.set_bytes("body"))
        };
        let head = "HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\n";
        check(&GET.repeat(2), rewrite, &format!("{head}body{head}body"));
        check(&GET.replace("GET", "HEAD").repeat(2), rewrite, &head.repeat(2));
        let close = "GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n";
        check(
            &close.repeat(2),
            rewrite,
            "HTTP/1.1 200 OK\r\ncontent-length: 4\r\nconnection: close\r\n\r\nbody",
        );
        check(
            "GET / HTTP/1.0\r\n\r\n",
            rewrite,
            "HTTP/1.1 200 OK\r\ncontent-length: 4\r\nconnection: close\r\n\r\nbody",
        );
    }
}

mod informational {
    use super::*;

    fn hints(link: &str) -> Headers {
        let mut hints = Headers::new();
        hints.set("link", link).unwrap();
        hints
    }

    const HINTED: &str = "HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: </b>\r\n\r\n\
                          HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nbody";
    const BARE: &str = "HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nbody";

    async fn hinting(ctx: &mut Context) -> corehttp::Result {
        ctx.response.body.set_bytes("body");
        if ctx.request.path() == "/hints" {
            ctx.send_informational(Status::EARLY_HINTS, &hints("</a>")).await?;
            ctx.send_informational(Status::EARLY_HINTS, &hints("</b>")).await?;
        }
        Ok(())
    }

    #[test]
    fn hints_come_right_before_their_own_response_rfc9110_15_2() {
        let served = Served::new(hinting);
        let asked = get("/") + &get("/hints") + &get("/") + &get("/hints");
        assert_eq!(undated(&served.ask(asked)), format!("{BARE}{HINTED}{BARE}{HINTED}"));
    }

    #[test]
    fn a_hint_leaves_at_once() {
        let go = Arc::new(Notify::new());
        let going = go.clone();
        let served = Served::new(async move |ctx: &mut Context| -> corehttp::Result {
            ctx.send_informational(Status::EARLY_HINTS, &hints("</a>")).await?;
            Ok(going.notified().await)
        });
        let mut peer = served.connect();
        peer.send(GET);
        assert_eq!(peer.receive_through("\r\n\r\n"), "HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n");
        go.notify_one();
        assert_eq!(status(&peer.receive()), 200);
    }

    #[test]
    fn http_1_0_is_sent_no_hints_rfc9110_15_2() {
        let received = Served::new(hinting).ask("GET /hints HTTP/1.0\r\n\r\n");
        assert_eq!(undated(&received), BARE.replace("4\r\n", "4\r\nconnection: close\r\n"));
    }

    #[test]
    fn informational_responses_need_their_status_and_come_before_the_head() {
        let served = Served::new(async |ctx: &mut Context| -> corehttp::Result {
            for code in [101, 200, 204, 304, 404, 599] {
                let status = Status::new(code).unwrap();
                let refused = ctx.send_informational(status, &Headers::new()).await.unwrap_err();
                assert_eq!(
                    refused.get_ref().unwrap().downcast_ref(),
                    Some(&RespondError::Status(code)),
                    "{code}"
                );
            }
            ctx.body_writer().await?.finish().await?;
            assert!(
                ctx.send_informational(Status::EARLY_HINTS, &Headers::new()).await.is_err(),
                "the response has left"
            );
            Ok(())
        });
        let expected = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n";
        assert_eq!(undated(&served.ask(GET)), expected);
    }
}

/// Each refusal is reported once, with the status that was answered; a good response is not reported.
#[test]
fn on_error_sees_each_refusal_once() {
    let heads = Arc::new(Mutex::new(0));
    for (wire, expected) in [
        (GET, None),
        ("GET /x HTTP/1.1\r\nhost: a\r\n\r\n", None),
        ("nonsense\r\n\r\n", Some((400, "the request line is malformed"))),
        ("GET / HTTP/1.1\r\n\r\n", Some((400, "the field host is missing, repeated or malformed"))),
        ("GET / HT", Some((400, "the peer closed before the message was complete"))),
        (
            "PUT / HTTP/1.1\r\nhost: a\r\ncontent-length: 1\r\n\r\n",
            Some((400, "the peer closed before the message was complete")),
        ),
        (
            "GET / HTTP/1.1\r\nhost: a\r\nexpect: more\r\n\r\n",
            Some((417, "the field expect has an unknown expectation")),
        ),
        (
            "CONNECT a:1 HTTP/1.1\r\nhost: a\r\n\r\n",
            Some((501, "the handler refused the request by its head")),
        ),
        (
            "GET /refused HTTP/1.1\r\nhost: a\r\n\r\n",
            Some((403, "the handler refused the request by its head")),
        ),
        ("GET /broken HTTP/1.1\r\nhost: a\r\n\r\n", Some((502, "the handler failed: it broke: because"))),
    ] {
        let refusals = ErrorReports::default();
        let heads = heads.clone();
        let plan = move |request: &Request| {
            *heads.lock().unwrap() += 1;
            if request.path() == "/refused" { BodyPlan::Refuse(Status::FORBIDDEN) } else { BodyPlan::Buffer }
        };
        let served = Served::with(
            |server: Server| refusals.attach(server),
            wrap(corehttp::middleware::plan(plan), broken),
        );
        let received = served.ask(wire);
        let expected = expected.map(|(status, cause)| (status, cause.to_owned()));
        assert_eq!(refusals.take(), expected.clone().into_iter().collect::<Vec<_>>(), "{wire:?}");
        assert_eq!(status(&received), expected.map_or(200, |(status, _)| status), "{wire:?}");
    }
    assert_eq!(*heads.lock().unwrap(), 6, "only good heads are planned for");
}

fn broken(ctx: &mut Context) -> corehttp::Result {
    #[derive(Debug)]
    struct Broke(io::Error);
    impl std::fmt::Display for Broke {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("it broke")
        }
    }
    impl std::error::Error for Broke {
        fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
            Some(&self.0)
        }
    }
    match ctx.request.path() {
        "/broken" => Err(Error::new(Status::BAD_GATEWAY, Broke(io::Error::other("because")))),
        _ => Ok(()),
    }
}
