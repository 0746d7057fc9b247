//! The public interface: every way to write a program with it compiles, runs and answers.
#![allow(clippy::unit_arg, clippy::unwrap_used, reason = "a test is short, and may panic")]

use std::cell::Cell;
use std::collections::HashMap;
use std::error::Error as StdError;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::num::ParseIntError;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use corehttp::error::{ExchangeError, Phase, WireError};
use corehttp::middleware::{self, wrap};
use corehttp::net::MemoryListener;
use corehttp::server::{IntoResult, RespondError};
use corehttp::{
    Body, BodyPlan, BoxHandler, Context, Error, Handler, Headers, IntoHandler, Limits, Method, PeerAddr,
    Request, Response, Server, ServerHandle, Service, Status, Timeouts,
};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::runtime::Builder;

const GET: &str = "GET /?q=tea HTTP/1.1\r\nhost: a\r\n\r\n";
const SOON: Duration = Duration::from_secs(5);

/// Serves until it has answered one request, and receives `expected` in the response.
#[track_caller]
fn check(run: impl FnOnce(Server) -> corehttp::Result + Send + 'static, request: &str, expected: &str) {
    let listener = MemoryListener::new();
    let (connector, (stop, stopped)) = (listener.connector(), tokio::sync::oneshot::channel::<()>());
    let server =
        Server::bind(listener).cores(2).half_close(true).stop_on(async { drop(stopped.await) }, SOON);
    let serving = std::thread::spawn(move || run(server));
    let received = block_on(async {
        let mut peer = connector.connect().await.unwrap();
        peer.write_all(request.as_bytes()).await.unwrap();
        peer.shutdown().await.unwrap();
        let mut received = String::new();
        peer.read_to_string(&mut received).await.unwrap();
        received
    });
    stop.send(()).unwrap();
    serving.join().unwrap().expect("it stops well");
    assert!(received.contains(expected), "{received:?} has no {expected:?}");
}

mod handlers {
    use super::*;

    const POST: &str = "POST /save HTTP/1.1\r\nhost: a\r\ncontent-length: 5\r\n\r\nhello";
    fn plain(ctx: &mut Context) {
        ctx.response.set_text("plain");
    }

    fn plain_that_may_fail(ctx: &mut Context) -> corehttp::Result {
        ctx.response.set_text(std::str::from_utf8(ctx.request.body.bytes())?);
        Ok(())
    }

    async fn waiting(ctx: &mut Context) {
        tokio::task::yield_now().await;
        ctx.response.set_text("waiting");
    }

    async fn save(ctx: &mut Context) -> corehttp::Result {
        let size = ctx.request.body.len();
        ctx.response.status = Status::CREATED;
        ctx.response.headers.set("x-size", size)?;
        Ok(())
    }

    #[test]
    fn a_closure_is_a_handler() {
        check(|server| server.run(|ctx: &mut Context| ctx.response.set_text("Hello")), GET, "\r\n\r\nHello");
    }

    #[test]
    fn a_closure_that_may_fail_is_a_handler() {
        let fails = |ctx: &mut Context| -> corehttp::Result {
            ctx.response.set_text(ctx.request.query().get("q").ok_or(Status::BAD_REQUEST)?);
            Ok(())
        };
        check(move |server| server.run(fails), GET, "\r\n\r\ntea");
    }

    #[test]
    fn an_async_closure_is_a_handler() {
        let waits = async |ctx: &mut Context| {
            tokio::task::yield_now().await;
            ctx.response.set_text("Hello");
        };
        check(move |server| server.run(waits), GET, "\r\n\r\nHello");
    }

    #[test]
    fn an_async_closure_can_route() {
        let route = async |ctx: &mut Context| {
            match (ctx.request.method(), ctx.request.path()) {
                (Method::Get | Method::Head, "/search") => ctx.response.set_html("<h1>hi</h1>"),
                (Method::Post, "/save") => save(ctx).await?,
                (Method::Get | Method::Head, "/") => {
                    let term = ctx.request.query().get("q").unwrap_or_default();
                    ctx.response.set_text(format!("you asked for {term}"));
                }
                _ => return Err(Status::NOT_FOUND.into()),
            }
            Ok(())
        };
        check(move |server| server.run(route), GET, "you asked for tea");
        check(move |server| server.run(route), POST, "HTTP/1.1 201 Created\r\nx-size: 5\r\n");
        check(move |server| server.run(route), "GET /x HTTP/1.1\r\nhost: a\r\n\r\n", "Not Found");
    }

    #[test]
    fn functions_are_handlers() {
        check(|server| server.run(plain), GET, "plain");
        check(|server| server.run(plain_that_may_fail), POST, "hello");
        check(|server| server.run(waiting), GET, "waiting");
        check(|server| server.run(save), POST, "HTTP/1.1 201 Created\r\nx-size: 5\r\n");
    }

    struct Upload;

    impl Handler for Upload {
        fn on_head(&self, ctx: &mut Context) -> BodyPlan {
            match ctx.request.headers.content_length() {
                Some(n) if n > 1 << 30 => BodyPlan::Refuse(Status::CONTENT_TOO_LARGE),
                _ => BodyPlan::Stream,
            }
        }

        async fn handle(&self, ctx: &mut Context) -> corehttp::Result {
            let mut total = 0;
            let mut body = ctx.body_reader();
            while let Some(chunk) = body.chunk().await? {
                total += chunk.len();
            }
            ctx.response.set_text(total.to_string());
            Ok(())
        }
    }

    #[test]
    fn a_type_is_a_handler_shared_or_not() {
        check(|server| server.run(Upload), POST, "\r\n\r\n5");
        check(|server| server.run(Arc::new(Upload)), POST, "\r\n\r\n5");
        check(|server| server.run_per_core(async |_| Ok(Rc::new(Upload))), POST, "\r\n\r\n5");
        let huge = "POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 1073741825\r\n\r\n";
        check(|server| server.run(Arc::new(Upload)), huge, "\r\n\r\nContent Too Large");
    }

    /// Handlers of all kinds behind one type, on several cores.
    #[test]
    fn handlers_of_all_kinds_fit_into_one_map() {
        struct Routes(HashMap<&'static str, BoxHandler>);

        impl Handler for Routes {
            fn on_head(&self, ctx: &mut Context) -> BodyPlan {
                self.0.get(ctx.request.path()).map_or(BodyPlan::Buffer, |handler| handler.on_head(ctx))
            }

            async fn handle(&self, ctx: &mut Context) -> corehttp::Result {
                match self.0.get(ctx.request.path()) {
                    Some(handler) => handler.handle(ctx).await,
                    None => Err(Status::NOT_FOUND.into()),
                }
            }
        }

        fn routes() -> Routes {
            Routes(HashMap::from([
                ("/closure", BoxHandler::new(|ctx: &mut Context| ctx.response.set_text("closure"))),
                ("/plain", BoxHandler::new(plain)),
                (
                    "/async",
                    BoxHandler::new(async |ctx: &mut Context| -> corehttp::Result {
                        tokio::task::yield_now().await;
                        Ok(ctx.response.set_text("async"))
                    }),
                ),
                (
                    "/fails",
                    BoxHandler::new(|_: &mut Context| -> corehttp::Result { Err(Status::GONE.into()) }),
                ),
                ("/planned", wrap(BodyPlan::Refuse(Status::CONFLICT), plain).boxed().boxed()),
            ]))
        }
        for (path, status) in [
            ("/closure", "200 OK"),
            ("/plain", "200 OK"),
            ("/async", "200 OK"),
            ("/fails", "410 Gone"),
            ("/planned", "409 Conflict"),
            ("/none", "404 Not Found"),
        ] {
            check(|server| server.run(routes()), &format!("GET {path} HTTP/1.1\r\nhost: a\r\n\r\n"), status);
        }
    }

    #[test]
    fn a_closure_can_have_a_plan() {
        let planned = || {
            wrap(
                middleware::plan(|request| match request.method() {
                    Method::Post => BodyPlan::Stream,
                    _ => BodyPlan::Refuse(Status::METHOD_NOT_ALLOWED),
                }),
                async |ctx: &mut Context| -> corehttp::Result {
                    let length = ctx.body_reader().chunk().await?.map_or(0, <[u8]>::len);
                    ctx.response.set_text(length.to_string());
                    Ok(())
                },
            )
        };
        check(move |server| server.run(planned()), POST, "\r\n\r\n5");
        check(move |server| server.run(planned()), GET, "\r\n\r\nMethod Not Allowed");
    }

    #[test]
    fn each_core_can_have_a_handler_with_its_own_state() {
        check(
            |server| {
                server.run_per_core(async |core| {
                    let hits = Rc::new(Cell::new(0u64));
                    Ok(async move |ctx: &mut Context| {
                        hits.set(hits.get() + 1);
                        ctx.response.set_text(format!("{} of {}", hits.get(), core.count()));
                    })
                })
            },
            GET,
            "\r\n\r\n1 of 2",
        );
    }

    #[test]
    fn a_factory_may_wait_and_fail() {
        let failed = Server::bind("127.0.0.1:0").run_per_core(async |_| {
            tokio::task::yield_now().await;
            let port: u16 = "http".parse()?;
            Ok(move |ctx: &mut Context| ctx.response.set_text(port.to_string()))
        });
        assert_eq!(failed.unwrap_err().to_string(), "invalid digit found in string");
    }
}

mod starting {
    use super::*;

    #[test]
    fn a_server_runs_beside_other_things_and_stops_well() -> Result<(), Box<dyn StdError>> {
        let running = Server::bind("127.0.0.1:0")
            .limits(Limits { body_max: 64 << 20, ..Limits::default() })
            .timeouts(Timeouts { idle: Duration::from_secs(30), ..Timeouts::default() })
            .on_error(|report| eprintln!("{report}"))
            .start(|ctx: &mut Context| ctx.response.set_text("Hello, World!"))?;
        let addr = running.local_addr();
        assert!(addr.ip().is_loopback() && addr.port() != 0);
        let elsewhere = running.clone();
        std::thread::spawn(move || elsewhere.stop(Duration::from_secs(10)));
        running.wait()?;
        assert_eq!(running.counts().total.open, 0);
        Ok(())
    }

    #[test]
    fn a_start_that_fails_is_an_ordinary_error() {
        fn start(taken: SocketAddr) -> Result<(), Box<dyn StdError + Send + Sync>> {
            Server::bind(taken).start(|_: &mut Context| {})?;
            Ok(())
        }
        let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let error = start(taken.local_addr().unwrap()).unwrap_err().to_string();
        assert!(error.contains(&taken.local_addr().unwrap().to_string()), "{error}");
    }
}

mod services {
    use super::*;

    fn hello() -> Service<impl Handler> {
        Server::new().name("corehttp").unwrap().service(|ctx: &mut Context| ctx.response.set_text("hi"))
    }

    async fn ask(mut near: tokio::io::DuplexStream) -> String {
        let mut received = String::new();
        near.write_all(b"GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n").await.unwrap();
        near.read_to_string(&mut received).await.unwrap();
        received
    }

    #[test]
    fn a_connection_is_served_where_it_is_awaited() {
        let (service, (near, far)) = (hello(), tokio::io::duplex(64));
        let (served, received) = block_on(async { tokio::join!(service.serve_connection(far), ask(near)) });
        served.unwrap();
        assert!(
            received.contains("\r\nserver: corehttp\r\n") && received.ends_with("\r\n\r\nhi"),
            "{received}"
        );
    }

    #[test]
    fn connections_are_served_side_by_side_in_local_tasks() {
        block_on(tokio::task::LocalSet::new().run_until(async {
            let service = hello();
            let mut tasks = Vec::new();
            for _ in 0..3 {
                let (service, (near, far)) = (service.clone(), tokio::io::duplex(64));
                tokio::task::spawn_local(async move { service.serve_connection(far).await });
                tasks.push(tokio::task::spawn_local(ask(near)));
            }
            for task in tasks {
                assert!(task.await.unwrap().ends_with("\r\n\r\nhi"));
            }
        }));
    }

    /// The response to `request`, made without a connection.
    fn respond<Kind>(handler: impl IntoHandler<Kind>, request: Request) -> Response {
        let service = Server::new().service(handler);
        block_on(service.respond(request))
    }

    #[test]
    fn a_handler_is_tested_without_a_connection() {
        let response = respond(|ctx: &mut Context| ctx.response.set_text("hi"), Request::get("/").unwrap());
        assert_eq!((response.status, response.body.text()), (Status::OK, Ok("hi")));
        assert_eq!(response.headers.content_type(), Some("text/plain; charset=utf-8"));

        let mut request = Request::post("/save?deep=1").unwrap();
        request.body.set_bytes("hello");
        request.headers.set("x-from", "here").unwrap();
        let response = respond(
            async |ctx: &mut Context| {
                let Context { request, response, .. } = ctx;
                assert_eq!(request.query().get("deep").as_deref(), Some("1"));
                response.headers.set("x-size", request.body.len())?;
                response.body.set_bytes(request.headers.get_bytes("x-from").unwrap_or_default());
                corehttp::Result::Ok(())
            },
            request,
        );
        assert_eq!((response.headers.get("x-size"), response.body.text()), (Some("5"), Ok("here")));
    }

    /// Programs that must not compile are in `tests/compile_fail`.
    #[test]
    fn views_of_a_request_live_as_long_as_its_handler() {
        async fn keeps_views(ctx: &mut Context) -> corehttp::Result {
            let (cookie, path) = (ctx.request.headers.get("cookie"), ctx.request.path());
            ctx.response.headers.set("x-path", path)?;
            tokio::task::yield_now().await;
            ctx.response.set_text(cookie.unwrap_or_default());
            ctx.response.headers.append("x-path", path)?;
            Ok(())
        }
        let mut request = Request::get("/tea").unwrap();
        request.headers.set("cookie", "a=b").unwrap();
        let response = respond(keeps_views, request);
        let paths: Vec<&[u8]> = response.headers.all("x-path").collect();
        assert_eq!((response.body.bytes(), &*paths), (&b"a=b"[..], &[&b"/tea"[..]; 2][..]));
    }

    #[test]
    fn an_error_and_a_panic_are_responses_without_a_connection_too() {
        let fails = |_: &mut Context| -> corehttp::Result { Err(Status::GONE.into()) };
        assert_eq!(respond(fails, Request::get("/").unwrap()).status, Status::GONE);
        let panics = |_: &mut Context| -> () { std::panic::resume_unwind(Box::new("without a trace")) };
        assert_eq!(respond(panics, Request::get("/").unwrap()).status, Status::INTERNAL_SERVER_ERROR);
    }

    #[test]
    fn a_streamed_response_becomes_the_body() {
        let streams = async |ctx: &mut Context| -> corehttp::Result {
            let mut request_body = Vec::new();
            ctx.body_reader().read_to_end(&mut request_body).await?;
            let mut out = ctx.body_writer().await?;
            out.write_all(b"you said ").await?;
            out.flush().await?;
            out.write_all(&request_body).await?;
            out.finish().await?;
            Ok(())
        };
        let mut request = Request::post("/").unwrap();
        request.body.set_bytes("hello");
        assert_eq!(respond(streams, request).body.text(), Ok("you said hello"));

        let source = |ctx: &mut Context| ctx.response.body.set_stream(&b"from a source"[..], None);
        assert_eq!(respond(source, Request::get("/").unwrap()).body.text(), Ok("from a source"));
    }
}

mod errors {
    use super::*;

    #[track_caller]
    fn check(fail: impl Fn() -> corehttp::Result, expected_status: u16, text: &str) {
        let error = fail().unwrap_err();
        assert_eq!((error.status().as_u16(), error.to_string().as_str()), (expected_status, text));
        let error: Box<dyn StdError> = error.into();
        assert_eq!(error.to_string(), text);
    }

    #[test]
    fn an_error_is_a_status_or_has_a_cause() {
        check(|| Err(Status::NOT_FOUND)?, 404, "404 Not Found");
        check(|| Err(Status::NOT_FOUND.into()), 404, "404 Not Found");
        check(|| Err(Error::new(Status::BAD_GATEWAY, "text")), 502, "text");
        check(|| Err(Error::new(Status::BAD_GATEWAY, String::from("text"))), 502, "text");
        check(|| Err(Error::new(Status::CONFLICT, io::Error::other("lost"))), 409, "lost");
        let boxed = || -> Box<dyn StdError + Send + Sync> { "boxed".into() };
        check(|| Err(Error::new(Status::CONFLICT, boxed())), 409, "boxed");
    }

    #[test]
    fn an_error_whose_source_is_a_status_gives_it() {
        /// A cause, and what is behind it.
        #[derive(Debug)]
        struct Own(Box<dyn StdError + Send + Sync>);

        impl fmt::Display for Own {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("own")
            }
        }

        impl StdError for Own {
            fn source(&self) -> Option<&(dyn StdError + 'static)> {
                Some(&*self.0)
            }
        }

        let own = |source: &'static dyn Fn() -> Box<dyn StdError + Send + Sync>| Own(source());
        let gone = &|| Status::GONE.into();
        check(|| Err(own(gone))?, 410, "own");
        check(|| Err(io::Error::other(own(gone)))?, 410, "own");
        check(|| Err(own(&|| "text".into()))?, 500, "own");
        check(|| Err(own(&|| Own(Status::GONE.into()).into()))?, 500, "own");
        let error = Error::from(own(gone));
        assert_eq!(format!("{error:?}"), "own");
    }

    #[test]
    fn an_error_of_anything_else_gives_500() {
        check(|| Ok(_ = "x".parse::<u8>()?), 500, "invalid digit found in string");
        check(
            || Ok(_ = Request::get("no path")?),
            500,
            "the url `no path` does not begin with http:// or https://",
        );
        check(|| Ok(Headers::new().set("a b", "c")?), 500, "the field name `a b` is not a token");
        check(|| Err(io::Error::other("lost"))?, 500, "lost");
        check(|| Err(io::Error::from(io::ErrorKind::UnexpectedEof))?, 500, "unexpected end of file");
        check(|| Err(io::Error::other(io::Error::other("deep")))?, 500, "deep");
    }

    #[test]
    fn text_that_is_not_utf8_gives_400_only_if_the_peer_sent_it() {
        for (escaped, content) in
            [("/%ff", &b"\xff"[..]), ("/a/%c3(", b"a\xc3("), ("/%ed%a0%80", b"\xed\xa0\x80")]
        {
            let mut request = Request::post(escaped).unwrap();
            request.body.set_bytes(content);
            let (text, content) =
                ("the path of the request is not UTF-8", "the content of the request is not UTF-8");
            check(|| Ok(_ = request.path_decoded()?), 400, text);
            check(|| request.target().segments().try_for_each(|segment| Ok(drop(segment?))), 400, text);
            check(|| Ok(_ = request.text()?), 400, content);
            check(|| Err(io::Error::other(request.text().unwrap_err()))?, 400, content);
            check(|| Ok(_ = request.body.text()?), 500, &request.body.text().unwrap_err().to_string());
        }
        let mut request = Request::post("/%c3%a9").unwrap();
        request.body.set_bytes("\u{e9}");
        assert_eq!((request.path_decoded().unwrap().as_ref(), request.text()), ("/\u{e9}", Ok("\u{e9}")));
    }

    const LIMIT: Duration = Duration::from_secs(30);

    #[test]
    fn an_error_of_the_exchange_gives_the_same_as_an_io_error() {
        use ExchangeError::{Incomplete, Io, Length, TimedOut};
        let of_source = || ExchangeError::Source(io::Error::other("lost"));
        check_status(|| Incomplete, 400);
        check_status(|| Io(io::ErrorKind::ConnectionReset.into()), 499);
        check_status(|| TimedOut(Phase::Head, LIMIT.into()), 408);
        check_status(|| TimedOut(Phase::Body, LIMIT.into()), 408);
        check_status(|| TimedOut(Phase::Write, LIMIT.into()), 499);
        check_status(|| TimedOut(Phase::Handler, LIMIT.into()), 503);
        check_status(|| WireError::BodyTooLarge.into(), 413);
        check_status(|| WireError::ChunkSize.into(), 400);
        check_status(|| WireError::TrailersTooLarge.into(), 431);
        check_status(|| Length, 500);
        check_status(of_source, 500);
    }

    #[test]
    fn an_invalid_answer_gives_its_status() {
        use RespondError::{Detached, Protocol, Sent, Status, Tunnel, Unread, Upgrade};
        let expected_status = [(Upgrade("own".into()), 426), (Tunnel, 400)];
        let own_fault =
            [Detached, Protocol("``".into()), Sent, Status(777), Unread].map(|response| (response, 500));
        for (response, expected_status) in expected_status.into_iter().chain(own_fault) {
            check(|| Err(response.clone())?, expected_status, &response.to_string());
            check(|| Err(io::Error::from(response.clone()))?, expected_status, &response.to_string());
        }
        let respond = |handler| {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            let mut request = Request::get("/").unwrap();
            request.headers.set("connection", "upgrade").unwrap();
            request.headers.set("upgrade", "own").unwrap();
            runtime.block_on(Server::new().service(handler).respond(request))
        };
        let upgrades = async |ctx: &mut Context| -> corehttp::Result { Ok(drop(ctx.upgrade("own").await?)) };
        assert_eq!(respond(upgrades).status, corehttp::Status::INTERNAL_SERVER_ERROR);
    }

    #[track_caller]
    fn check_status(error: fn() -> ExchangeError, expected_status: u16) {
        let text = error().to_string();
        check(|| Err(error())?, expected_status, &text);
        check(|| Err(io::Error::from(error()))?, expected_status, &text);
        check(|| Err(io::Error::other(io::Error::from(error())))?, expected_status, &text);
    }

    #[test]
    fn a_result_holds_anything() {
        fn number(text: &str) -> corehttp::Result<u32> {
            Ok(text.parse()?)
        }
        fn narrow(text: &str) -> corehttp::Result<u32, ParseIntError> {
            text.parse()
        }
        assert_eq!((number("7").unwrap(), narrow("7").unwrap()), (7, 7));
        assert_eq!(number("x").unwrap_err().status(), Status::INTERNAL_SERVER_ERROR);
    }
}

/// Programs that wait for peers for ever, or need one to talk to: it is enough that they compile.
#[expect(dead_code, reason = "it is enough that they compile")]
mod programs {
    use super::*;

    fn main() -> corehttp::Result {
        Server::bind("127.0.0.1:8080").run(|ctx: &mut Context| ctx.response.set_text("Hello, World!"))
    }

    async fn streams_out(ctx: &mut Context) -> corehttp::Result {
        ctx.response.headers.set("content-type", "text/event-stream")?;
        let mut out = ctx.body_writer().await?;
        let since = out.request.query().get("since").unwrap_or_default();
        out.write_all(since.as_bytes()).await?;
        out.flush().await?;
        out.finish().await?;
        ctx.extensions.insert("ctx is free again");
        Ok(())
    }

    async fn streams_both_ways(ctx: &mut Context) -> corehttp::Result {
        let (mut body, mut out) = ctx.duplex().await?;
        while let Some(chunk) = body.chunk().await? {
            out.write_all(chunk).await?;
        }
        out.finish().await?;
        Ok(())
    }

    async fn upgrades(ctx: &mut Context) -> corehttp::Result {
        let mut io = ctx.upgrade("websocket").await?;
        io.write_all(b"ours now").await?;
        fn is_free<T: AsyncRead + AsyncWrite + Unpin + 'static>(_: &T) {}
        is_free(&io);
        Ok(())
    }

    async fn serves_whatever_reads_and_writes<H: Handler>(
        service: Service<H>,
        io: impl AsyncRead + AsyncWrite + 'static,
    ) -> io::Result<()> {
        service.serve_connection(io).await
    }

    async fn asks_about_the_exchange(ctx: &mut Context) -> corehttp::Result {
        let _: (PeerAddr, Option<SocketAddr>) = (ctx.peer_addr(), ctx.local_addr());
        let _: (u64, u64, std::time::Instant) =
            (ctx.connection_id(), ctx.exchange_number(), ctx.arrived_at());
        let mut hints = Headers::new();
        hints.set("link", "</style.css>; rel=preload")?;
        ctx.send_informational(Status::EARLY_HINTS, &hints).await?;
        ctx.buffer_body().await?;
        ctx.extensions.insert(7u8);
        tokio::select! {
            () = ctx.peer_closed() => return Ok(()),
            () = tokio::task::yield_now() => {}
        }
        ctx.response.set_text("still there");
        Ok(())
    }

    fn values_of_many_kinds(headers: &mut Headers) -> Result<(), corehttp::error::MessageError> {
        headers.set("a", "str")?;
        headers.set("a", String::from("string"))?;
        headers.set("a", b"bytes")?;
        headers.set("a", &b"a slice"[..])?;
        headers.set("a", std::borrow::Cow::Borrowed("either"))?;
        headers.set("a", 7u8)?;
        headers.set("a", -7i64)?;
        headers.set("a", true)?;
        headers.set("a", 'c')?;
        let _: (Option<&[u8]>, Option<&str>) = (headers.get_bytes("a"), headers.get("a"));
        Ok(())
    }
}

/// The programs of a client.
mod clients {
    use super::*;

    use corehttp::client::{Call, ClientLimits, ClientTimeouts, Host, Redirects, ResponseReader};
    use corehttp::{Client, ClientError};

    type TestResult = Result<(), Box<dyn StdError>>;

    /// A server whose response is the method, the path and the body; and where it is.
    fn parrot() -> (ServerHandle, String) {
        let running = Server::bind("127.0.0.1:0").cores(1).start(|ctx: &mut Context| {
            let Context { request, response, .. } = ctx;
            let body = request.body.text().unwrap();
            response.set_text(format!("{} {} {body}", request.method(), request.target()));
        });
        let running = running.unwrap();
        let url = format!("http://{}", running.local_addr());
        (running, url)
    }

    async fn with_parrot(ask: impl AsyncFn(Client, &str) -> TestResult) -> TestResult {
        let (running, url) = parrot();
        let asked = ask(Client::new(), &url).await;
        running.stop(SOON);
        asked
    }

    #[tokio::test]
    async fn a_request_takes_one_line() -> TestResult {
        with_parrot(async |client, url| {
            let response = client.get(&format!("{url}/a?b")).await?;
            assert_eq!(response.status, Status::OK);
            assert_eq!(response.body.text()?, "GET /a?b ");
            assert_eq!(client.post(url).text("text").await?.body.text()?, "POST / text");
            assert_eq!(client.put(url).bytes("text/plain", "B").await?.body.text()?, "PUT / B");
            assert_eq!(client.patch(url).text("text").await?.body.text()?, "PATCH / text");
            assert_eq!(client.delete(url).await?.body.text()?, "DELETE / ");
            assert_eq!(client.head(url).await?.body.len(), 0);
            Ok(())
        })
        .await
    }

    #[tokio::test]
    async fn messages_can_be_used_again() -> TestResult {
        with_parrot(async |client, url| {
            let request = Request::get(&format!("{url}/items?page=2"))?;
            let mut response = Response::new();
            for _ in 0..10 {
                client.send(&request, &mut response).await?;
            }
            assert_eq!(response.status.as_u16(), 200);
            assert_eq!(response.body.bytes(), b"GET /items?page=2 ");

            let mut request = Request::post(&format!("{url}/items"))?;
            request.headers.set("content-type", "application/json")?;
            request.body.set_bytes(r#"{"a":1}"#);
            client.send(&request, &mut response).await?;
            assert_eq!(response.body.text()?, r#"POST /items {"a":1}"#);
            assert!(response.timings().reused);
            Ok(())
        })
        .await
    }

    #[tokio::test]
    async fn bodies_are_read_piece_by_piece_and_deadlines_kept() -> TestResult {
        let client = Client::builder()
            .timeout(Duration::from_secs(5))
            .timeouts(ClientTimeouts::default())
            .limits(ClientLimits { connections_per_host_max: 64, ..ClientLimits::default() })
            .redirects(Redirects::Follow(10))
            .build();
        with_parrot(async |_, url| {
            let (request, mut response, mut all) = (Request::new("GET", url)?, Response::new(), Vec::new());
            let mut body = client.open_response(&request, &mut response).await?;
            while let Some(chunk) = body.chunk().await? {
                all.extend_from_slice(chunk);
            }
            assert_eq!(all, b"GET / ");
            let hasty = client.with_timeout(Duration::ZERO).with_redirects(Redirects::Return);
            assert!(hasty.send(&request, &mut response).await.unwrap_err().is_timeout());
            let host = client.host(url)?;
            host.send(&Request::get("/only/a/path")?, &mut response).await?;
            assert_eq!(response.body.text()?, "GET /only/a/path ");
            Ok(())
        })
        .await
    }

    #[test]
    fn each_core_can_have_a_client_of_its_own() {
        let (backend, url) = parrot();
        check(
            |server| {
                server.run_per_core(async move |_| {
                    let (client, url, hits) = (Client::new(), url.clone(), Cell::new(0u64));
                    Ok(async move |ctx: &mut Context| {
                        hits.set(hits.get() + 1);
                        ctx.response = client.get(&url).await?;
                        Ok(())
                    })
                })
            },
            GET,
            "\r\n\r\nGET / ",
        );
        backend.stop(SOON);
    }

    #[test]
    fn types_and_futures_of_a_client_can_be_sent() {
        fn is_send_and_sync<T: Send + Sync + 'static>() {}
        fn is_send<T: Send>(_: T) {}
        is_send_and_sync::<Client>();
        is_send_and_sync::<Host>();
        is_send_and_sync::<ClientError>();
        fn is_owned<T: Send + 'static>() {}
        is_owned::<ResponseReader>();
        is_owned::<Call>();
        let (client, request, mut response) = (Client::new(), Request::default(), Response::new());
        is_send(client.get(""));
        is_send(client.send(&request, &mut response));
        is_send(client.open_response(&request, &mut response));
        is_send(client.open_call(&request));
        is_send(client.upgrade(&request, &mut response));
        let host = client.host("http://a").unwrap();
        is_send(host.send(&request, &mut response));
        is_send(host.open_response(&request, &mut response));
        is_send(host.open_call(&request));
        is_send(host.upgrade(&request, &mut response));
        let balancer = client.balance(["http://a"]).unwrap().build();
        is_send(balancer.send(&request, &mut response));
        is_send(balancer.open_response(&request, &mut response));
        is_send(balancer.open_call(&request));
        is_send(balancer.upgrade(&request, &mut response));
        is_send(client.pipeline("http://a").unwrap().build().send(&request, &mut response));
        let _ = |call: Call| {
            let (mut writer, mut reader) = call.split();
            is_send(writer.finish());
            is_send(reader.informational());
            is_send(reader.head(&mut Response::new()));
        };
    }
}

/// The traits of public types, and the results of handlers: a change here breaks programs.
#[test]
fn public_types_keep_their_traits() {
    fn is_send_and_sync<T: Send + Sync + 'static>() {}
    fn is_clone<T: Clone>() {}
    fn is_outcome<T: IntoResult>() {}
    is_send_and_sync::<Request>();
    is_send_and_sync::<Response>();
    is_send_and_sync::<Headers>();
    is_send_and_sync::<Body>();
    is_send_and_sync::<Error>();
    is_send_and_sync::<ServerHandle>();
    is_clone::<(Request, Response, Headers, Body, ServerHandle, Limits, Timeouts)>();
    is_outcome::<()>();
    is_outcome::<corehttp::Result>();
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

/// Settings that a release may add to, seen from outside of the crate. A private field, or `#[non_exhaustive]` on a
/// struct that programs write as a literal, would break these literals.
mod settings {
    use corehttp::client::ClientTimeouts;
    use corehttp::sse::Event;
    use corehttp::{Limits, Response, SetCookie, Status, Timeouts};

    #[test]
    fn a_literal_names_some_fields_and_takes_the_others() {
        let limits = Limits { fields_max: 1, ..Limits::default() };
        let timeouts = Timeouts { body_rate_min: 2, ..Timeouts::default() };
        let client = ClientTimeouts { receive_rate_min: 3, ..ClientTimeouts::default() };
        let cookie = SetCookie { secure: true, ..SetCookie::new("a", "b") };
        let event = Event { id: Some("4"), ..Event::new("data") };
        let response = Response { status: Status::CREATED, ..Response::new() };

        let Limits { fields_max, .. } = limits;
        let Timeouts { body_rate_min, .. } = timeouts;
        let ClientTimeouts { receive_rate_min, .. } = client;
        assert_eq!((fields_max, body_rate_min, receive_rate_min), (1, 2, 3));
        let (SetCookie { secure, .. }, Event { id, .. }) = (cookie, event);
        let Response { status, .. } = response;
        assert_eq!((secure, id, status), (true, Some("4"), Status::CREATED));
    }

    #[cfg(feature = "fs")]
    #[test]
    fn a_cache_of_files_is_such_a_literal() {
        let cache =
            corehttp::fs::FileCacheLimits { files_max: 1, ..corehttp::fs::FileCacheLimits::default() };
        assert_eq!(cache.files_max, 1);
    }

    #[cfg(feature = "multipart")]
    #[test]
    fn the_limits_of_a_form_are_such_a_literal() {
        use corehttp::multipart::MultipartLimits;

        let limits = MultipartLimits { parts_max: 1, ..MultipartLimits::default() };
        assert_eq!(limits.parts_max, 1);
    }
}
