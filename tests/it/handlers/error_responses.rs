//! The content of error responses, by the application's function: each status and cause, and what no function changes.

use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use corehttp::middleware::{self, Next, wrap};
use corehttp::net::Resolver;
use corehttp::server::{ErrorCause, ErrorReport};
use corehttp::{
    BodyPlan, BoxHandler, Client, ClientError, Context, Error, Handler, Headers, Limits, Problem, Request,
    Response, Server, Service, Status, Timeouts, routes, with_state,
};

use crate::support::responses::{ReceivedResponse, responses};
use crate::support::wired::{Then, Wired};
use crate::support::{ErrorReports, Served, get, undated};

/// Fails in each way. Middleware has set fields before.
async fn app(ctx: &mut Context) -> corehttp::Result {
    ctx.response.headers.set("x-request-id", 7)?;
    match ctx.request.path() {
        "/none" => return Err(Status::NOT_FOUND.into()),
        "/post" => {
            ctx.response.headers.set("allow", "POST")?;
            return Err(Status::METHOD_NOT_ALLOWED.into());
        }
        "/coded" => ctx.decode_body().await?,
        "/fails" => return Err(io::Error::other("secret").into()),
        "/busy" => {
            ctx.response.headers.set("retry-after", 9)?;
            return Err(Error::new(Status::SERVICE_UNAVAILABLE, "secret"));
        }
        "/gone" => {
            ctx.response.headers.set("etag", "\"1\"")?;
            ctx.response.set_html("half of a page");
            ctx.response.trailers.set("x-sum", 1)?;
            return Err(Status::GONE.into());
        }
        "/leaves" => {
            ctx.response.body.set_stream(Bomb, None);
            return Err(Status::NOT_FOUND.into());
        }
        "/interim" => ctx.response.status = Status::CONTINUE,
        "/panics" => std::panic::resume_unwind(Box::new("secret")),
        "/hangs" => std::future::pending().await,
        "/cut" => {
            ctx.body_writer().await?.write_all(b"half").await?;
            return Err(Status::NOT_FOUND.into());
        }
        "/own" => {
            ctx.response.status = Status::NOT_FOUND;
            ctx.response.set_text("of its own");
        }
        _ => ctx.response.set_text("fine"),
    }
    Ok(())
}

fn plan(request: &Request) -> BodyPlan {
    match request.path() {
        "/refused" => BodyPlan::Refuse(Status::FORBIDDEN),
        "/planless" => std::panic::resume_unwind(Box::new("secret")),
        _ => BodyPlan::BufferUpTo(9),
    }
}

/// The content of the tests: status, kind of the cause, and request.
fn explanation(report: &ErrorReport<'_>, response: &Response) -> String {
    assert_eq!(report.status, Some(response.status));
    let kind = match &report.cause {
        ErrorCause::Exchange(_) => "exchange",
        ErrorCause::Handler(error) if error.cause().is_none() => "status",
        ErrorCause::Handler(_) => "handler",
        ErrorCause::Panic => "panic",
        ErrorCause::Refused => "plan",
        ErrorCause::Tls(_) => "tls",
        ErrorCause::Connections(_) => "connections",
        ErrorCause::ConnectionsOfPeer(_) => "connections of peer",
        _ => "other",
    };
    let request = report.request.map(|request| format!("{} {}", request.method(), request.target().as_str()));
    format!("{} {kind} {}", response.status.as_u16(), request.as_deref().unwrap_or("none"))
}

fn explain(report: &ErrorReport<'_>, response: &mut Response) {
    let explanation = explanation(report, response);
    response.set_bytes("text/x-explained", explanation).unwrap();
}

fn settings(server: Server) -> Server {
    let timeouts = Timeouts { handler: Some(Duration::from_secs(5)), ..Timeouts::default() };
    server.timeouts(timeouts)
}

/// Everything but the content: the status and the other fields of a response.
fn shape(response: &ReceivedResponse) -> (u16, Vec<(String, String)>) {
    let is_content = |name: &str| ["content-type", "content-length", "date"].contains(&name);
    let fields = response.fields.iter().filter(|(name, _)| !is_content(name)).cloned();
    (response.status, fields.collect())
}

fn shapes(received: &str) -> Vec<(u16, Vec<(String, String)>)> {
    responses(received).iter().map(shape).collect()
}

/// Requests that fail in each way, and the explanations that the function gives.
fn rows() -> Vec<(String, Then, &'static [&'static str])> {
    let post = |path: &str, fields: &str, body: &str| {
        format!("POST {path} HTTP/1.1\r\nhost: a\r\n{fields}\r\n{body}")
    };
    let long = format!("GET /{} HTTP/1.1\r\nhost: a\r\n\r\n", "x".repeat(17 << 10));
    let many = format!("GET / HTTP/1.1\r\nhost: a\r\n{}\r\n", "x: y\r\n".repeat(128));
    let chunked = "transfer-encoding: chunked\r\n";
    vec![
        ("GET / HTTP\r\n\r\n".into(), Then::Waits, &["400 exchange none"]),
        ("GET / HTTP/1.1\r\n\r\n".into(), Then::Waits, &["400 exchange none"]),
        ("GET / HT".into(), Then::Ends, &["400 exchange none"]),
        ("GET / HT".into(), Then::Waits, &["408 exchange none"]),
        ("GET / HTTP/3.0\r\n\r\n".into(), Then::Waits, &["505 exchange none"]),
        (long, Then::Waits, &["414 exchange none"]),
        (many, Then::Waits, &["431 exchange none"]),
        (post("/", "expect: 200-ok\r\n", ""), Then::Waits, &["417 exchange POST /"]),
        (post("/", "content-length: 10\r\n", ""), Then::Waits, &["413 exchange POST /"]),
        (post("/", "content-length: 9\r\n", "half"), Then::Waits, &["408 exchange POST /"]),
        (post("/", "content-length: 9\r\n", "half"), Then::Ends, &["400 exchange POST /"]),
        (post("/", chunked, "x\r\n"), Then::Waits, &["400 exchange POST /"]),
        (post("/refused", "content-length: 4\r\n", "body"), Then::Ends, &["403 plan POST /refused"]),
        ("CONNECT a:80 HTTP/1.1\r\nhost: a:80\r\n\r\n".into(), Then::Waits, &["501 plan CONNECT a:80"]),
        (get("/planless"), Then::Waits, &["500 panic GET /planless"]),
        (get("/none"), Then::Ends, &["404 status GET /none"]),
        (get("/post"), Then::Ends, &["405 status GET /post"]),
        (
            post("/coded", "content-encoding: x\r\ncontent-length: 4\r\n", "body"),
            Then::Ends,
            &["415 handler POST /coded"],
        ),
        (get("/fails"), Then::Ends, &["500 handler GET /fails"]),
        (get("/busy"), Then::Ends, &["503 handler GET /busy"]),
        (get("/gone"), Then::Ends, &["410 status GET /gone"]),
        (get("/interim"), Then::Ends, &["500 handler GET /interim"]),
        (get("/leaves"), Then::Ends, &["404 status GET /leaves"]),
        (get("/panics"), Then::Waits, &["500 panic GET /panics"]),
        (get("/hangs"), Then::Waits, &["503 exchange GET /hangs"]),
        (get("/own"), Then::Ends, &["of its own"]),
        ("GET /none HTTP/1.0\r\n\r\n".into(), Then::Waits, &["404 status GET /none"]),
        (
            "GET /none HTTP/1.0\r\nconnection: keep-alive\r\n\r\n".into(),
            Then::Ends,
            &["404 status GET /none"],
        ),
        (
            get("/none") + &get("/") + &get("/fails") + &get("/panics") + &get("/"),
            Then::Waits,
            &["404 status GET /none", "fine", "500 handler GET /fails", "500 panic GET /panics"],
        ),
        (get("/") + "GET", Then::Ends, &["fine", "400 exchange none"]),
    ]
}

#[test]
fn each_cause_is_explained_and_nothing_else_changes() {
    let plain = Wired::with(settings, wrap(middleware::plan(plan), app));
    let custom =
        Wired::with(|server| settings(server).error_response(explain), wrap(middleware::plan(plan), app));
    let served = Served::with(
        |server| server.error_response(explain).timeouts(Timeouts::default()),
        wrap(middleware::plan(plan), app),
    );
    for (wire, then, expected) in rows() {
        let received = custom.ask_cut(&wire, then);
        let explained = responses(&received);
        let contents: Vec<_> = explained.iter().map(|response| &*response.body).collect();
        assert_eq!(contents, expected, "{wire:?}");
        assert_eq!(shapes(&received), shapes(&plain.ask(&[wire.as_bytes()], then)), "{wire:?}");
        for response in
            explained.iter().filter(|response| response.body != "fine" && response.body != "of its own")
        {
            assert_eq!(response.field("content-type"), Some("text/x-explained"), "{wire:?}");
            assert_eq!(response.field("etag"), None, "{wire:?}");
        }
        if then == Then::Ends
            || explained.last().is_some_and(ReceivedResponse::is_last) && !wire.ends_with("HT")
        {
            let is_slow = wire.contains("/hangs") || wire.ends_with("half");
            assert!(is_slow || undated(&served.ask(&wire)) == undated(&received), "{wire:?} over TCP");
        }
    }
}

#[test]
fn fields_of_middleware_and_of_the_server_stay() {
    let custom = Wired::with(|server| server.error_response(explain), app);
    let coded = "POST /coded HTTP/1.1\r\nhost: a\r\ncontent-encoding: x\r\n\r\n";
    for (wire, name, value) in [
        (&*get("/none"), "x-request-id", Some("7")),
        (&get("/post"), "allow", Some("POST")),
        (&get("/busy"), "retry-after", Some("9")),
        (&get("/panics"), "x-request-id", Some("7")),
    ] {
        let received = custom.ask(&[wire.as_bytes()], Then::Ends);
        assert_eq!(responses(&received)[0].field(name), value, "{wire:?}");
    }
    let received = custom.ask(&[coded.as_bytes()], Then::Ends);
    assert!(responses(&received)[0].field("accept-encoding").is_some(), "{received}");
}

#[test]
fn a_head_request_gets_the_length_and_not_the_content_rfc9110_9_3_2() {
    let custom =
        Wired::with(|server| settings(server).error_response(explain), wrap(middleware::plan(plan), app));
    for (wire, explanation) in [
        ("HEAD /none HTTP/1.1\r\nhost: a\r\n\r\n", "404 status HEAD /none"),
        ("HEAD /refused HTTP/1.1\r\nhost: a\r\n\r\n", "403 plan HEAD /refused"),
        ("HEAD /panics HTTP/1.1\r\nhost: a\r\n\r\n", "500 panic HEAD /panics"),
        ("HEAD / HTTP/1.1\r\n\r\n", "400 exchange none"),
    ] {
        let received = custom.ask(&[wire.as_bytes()], Then::Ends);
        let length = format!("\r\ncontent-length: {}\r\n", explanation.len());
        assert!(received.contains(&length) && received.ends_with("\r\n\r\n"), "{received}");
    }
}

/// A status that a function chooses could have no content, or open a tunnel, and a field could end the content
/// elsewhere.
#[test]
fn no_function_breaks_the_framing() {
    let plain = Wired::with(settings, wrap(middleware::plan(plan), app));
    for status in [100, 101, 200, 204, 304, 599] {
        let hostile = move |_: &ErrorReport<'_>, response: &mut Response| {
            response.status = Status::new(status).unwrap();
            response.set_html("content");
            for (name, value) in [
                ("content-length", "3"),
                ("Transfer-Encoding", "chunked"),
                ("connection", "keep-alive"),
                ("keep-alive", "timeout=9"),
            ] {
                response.headers.append(name, value).unwrap();
            }
            response.trailers.set("x-trailer", "1").unwrap();
        };
        let hostile =
            Wired::with(|server| settings(server).error_response(hostile), wrap(middleware::plan(plan), app));
        for (wire, then, expected) in rows() {
            let received = hostile.ask(&[wire.as_bytes()], then);
            assert_eq!(shapes(&received), shapes(&plain.ask(&[wire.as_bytes()], then)), "{status} {wire:?}");
            for (reply, expected) in responses(&received).iter().zip(expected) {
                let is_own = ["fine", "of its own"].contains(expected);
                assert_eq!(reply.body, if is_own { expected } else { "content" }, "{status} {wire:?}");
            }
        }
    }
}

/// The content of each of these functions is replaced by the default.
#[test]
fn a_function_that_panics_or_streams_leaves_the_default() {
    let functions: [fn(&mut Response); 4] = [
        |response| response.body.set_stream(&b"content"[..], Some(7)),
        |response| response.body.set_stream(Bomb, None),
        |response| {
            response.set_html("half");
            response.trailers.set("x-a", 1).unwrap();
            response.status = Status::CONTINUE;
            std::panic::resume_unwind(Box::new("secret"));
        },
        |response| {
            response.body.set_stream(Bomb, Some(3));
            std::panic::resume_unwind(Box::new("secret"));
        },
    ];
    let plain = Wired::with(settings, wrap(middleware::plan(plan), app));
    for (index, function) in functions.into_iter().enumerate() {
        let reports = ErrorReports::default();
        let set = |server| {
            reports
                .attach(settings(server))
                .error_response(move |_, response: &mut Response| function(response))
        };
        for (wire, then, expected) in rows() {
            // A server for each, since of failures without a request one a second is reported.
            let broken = Wired::with(set, wrap(middleware::plan(plan), app));
            let received = broken.ask(&[wire.as_bytes()], then);
            assert_eq!(undated(&received), undated(&plain.ask(&[wire.as_bytes()], then)), "{index} {wire:?}");
            let failed = expected.iter().filter(|content| content.contains(' ') && !content.contains("own"));
            let panics = reports.take().iter().filter(|(_, cause)| cause == "the handler panicked").count();
            let own =
                expected.iter().filter(|content| content.contains("panic") || content.contains("leaves"));
            let own = own.count();
            let expected = own + if index == 0 { 0 } else { failed.count() };
            assert_eq!(panics, expected, "{index} {wire:?}");
        }
    }
}

/// A stream that panics when it is dropped.
struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            std::panic::resume_unwind(Box::new("secret"));
        }
    }
}

impl tokio::io::AsyncRead for Bomb {
    fn poll_read(
        self: std::pin::Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
        _: &mut tokio::io::ReadBuf<'_>,
    ) -> std::task::Poll<io::Result<()>> {
        unreachable!("nothing is read")
    }
}

/// Part of a response is on its way, so that no other one can follow.
#[test]
fn a_response_that_has_begun_is_cut_off_and_not_explained() {
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = calls.clone();
    let function = move |report: &ErrorReport<'_>, response: &mut Response| {
        counted.fetch_add(1, Relaxed);
        explain(report, response);
    };
    let custom = Wired::with(|server| server.error_response(function), app);
    let received = custom.ask(&[get("/cut").as_bytes()], Then::Waits);
    assert!(received.starts_with("HTTP/1.1 200 OK\r\n") && !received.contains("404"), "{received}");
    assert_eq!(calls.load(Relaxed), 0);
}

#[test]
fn a_connection_that_is_too_many_is_explained() {
    for (limits, explanation, retry_after) in [
        (Limits { connections_max: 0, ..Limits::default() }, "503 connections none", Some("1")),
        (
            Limits { connections_per_peer_max: Some(0), ..Limits::default() },
            "429 connections of peer none",
            None,
        ),
    ] {
        let served = Served::with(|server| server.limits(limits).error_response(explain), app);
        let received = served.connect().receive_all();
        let [response] = &responses(&received)[..] else { panic!("{received}") };
        assert_eq!((&*response.body, response.field("retry-after")), (explanation, retry_after));
        assert!(response.is_last());
    }
}

/// A request without a connection is answered likewise.
#[test]
fn a_test_of_a_handler_sees_the_same_content() {
    let service = settings(Server::new()).error_response(explain).service(wrap(middleware::plan(plan), app));
    for (path, explanation) in [
        ("/none", "404 status GET /none"),
        ("/refused", "403 plan GET /refused"),
        ("/panics", "500 panic GET /panics"),
        ("/fails", "500 handler GET /fails"),
    ] {
        let response = corehttp::block_on(service.respond(Request::get(path).unwrap())).unwrap();
        assert_eq!(response.text(), Ok(explanation));
    }
}

#[test]
fn the_default_content_is_there_for_a_function_that_leaves_it() {
    let only_404 = |report: &ErrorReport<'_>, response: &mut Response| {
        if report.status == Some(Status::NOT_FOUND) {
            response.set_html("<h1>Nothing here</h1>");
        }
        response.headers = Headers::new();
        response.headers.set("x-only", 1).unwrap();
    };
    let custom = Wired::with(|server| server.error_response(only_404), app);
    for (path, content) in [("/none", "<h1>Nothing here</h1>"), ("/post", "Method Not Allowed")] {
        let received = custom.ask(&[get(path).as_bytes()], Then::Ends);
        let [reply] = &responses(&received)[..] else { panic!("{received}") };
        assert_eq!((&*reply.body, reply.field("x-only")), (content, Some("1")));
    }
}

/// A router fails as any handler does: no route, another method, and a parameter of another type.
#[test]
fn a_router_is_explained_as_any_handler() {
    let number = |ctx: &mut Context| -> corehttp::Result {
        let number: u64 = ctx.params().get_as("number")?;
        ctx.response.set_text(number.to_string());
        Ok(())
    };
    let app = routes! { GET "/numbers/{number}" => number };
    let custom = Wired::with(|server| server.error_response(explain), app);
    let wire =
        get("/numbers/1") + &get("/none") + &get("/numbers/x") + "PUT /numbers/1 HTTP/1.1\r\nhost: a\r\n\r\n";
    let heard = custom.ask_cut(&wire, Then::Ends);
    let heard = responses(&heard);
    let contents: Vec<_> = heard.iter().map(|response| &*response.body).collect();
    assert_eq!(
        contents,
        ["1", "404 status GET /none", "404 handler GET /numbers/x", "405 status PUT /numbers/1"]
    );
    assert!(heard[3].field("allow").is_some_and(|allow| allow.contains("GET")), "{heard:?}");
}

/// A plan may set fields that each response needs, such as those of CORS.
#[test]
fn fields_that_a_plan_has_set_stay_in_its_refusals() {
    struct Planned(BodyPlan);
    impl Handler for Planned {
        fn on_head(&self, ctx: &mut Context) -> BodyPlan {
            ctx.response.headers.set("x-plan", 1).unwrap();
            self.0
        }

        async fn handle(&self, _: &mut Context) -> corehttp::Result {
            std::panic::resume_unwind(Box::new("without a trace"))
        }
    }
    let post = "POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 5\r\n\r\nhello";
    for (plan, wire, status) in [
        (BodyPlan::Refuse(Status::FORBIDDEN), post, 403),
        (BodyPlan::BufferUpTo(3), post, 413),
        (BodyPlan::Buffer, "POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\nx\r\n", 400),
        (BodyPlan::Buffer, post, 500),
    ] {
        let received = Served::new(Planned(plan)).ask(wire);
        assert!(received.starts_with(&format!("HTTP/1.1 {status} ")), "{received}");
        assert!(received.contains("x-plan: 1\r\n"), "{received}");
    }
}

/// A problem alone is a response like any other; one with an error behind it is reported.
#[test]
fn a_bare_problem_is_not_reported() {
    let reports = ErrorReports::default();
    let served = Served::with(
        |server| reports.attach(server),
        |_: &mut Context| -> corehttp::Result { Err(Problem::new(Status::FORBIDDEN).into()) },
    );
    assert!(served.ask(get("/")).starts_with("HTTP/1.1 403 "));
    assert!(reports.take().is_empty());
}

/// An error of an application, in its own words.
#[derive(Debug)]
enum ShopError {
    SoldOut,
    Stock(std::num::ParseIntError),
}

impl std::fmt::Display for ShopError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the shop cannot sell")
    }
}

impl std::error::Error for ShopError {}

impl ShopError {
    fn status(&self) -> Status {
        match self {
            ShopError::SoldOut => Status::CONFLICT,
            ShopError::Stock(error) if error.kind() == &std::num::IntErrorKind::Empty => Status::NOT_FOUND,
            ShopError::Stock(_) => Status::SERVICE_UNAVAILABLE,
        }
    }
}

/// An error around another one.
#[derive(Debug)]
struct Around(Box<dyn std::error::Error + Send + Sync>);

impl Around {
    fn err(source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> corehttp::Result {
        Err(Around(source.into()).into())
    }
}

impl std::fmt::Display for Around {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the order failed")
    }
}

impl std::error::Error for Around {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&*self.0)
    }
}

/// Looks up no name, and has its own error for that.
struct SoldOut;

impl Resolver for SoldOut {
    async fn resolve(&self, _: &str) -> io::Result<Vec<IpAddr>> {
        tokio::task::yield_now().await;
        Err(io::Error::other(ShopError::SoldOut))
    }
}

fn nameless() -> Client {
    Client::builder().resolver(SoldOut).build()
}

/// Fails as the second one of two requests that have waited for the same look-up.
async fn pipelined(ctx: &mut Context) -> corehttp::Result {
    let pipeline = nameless().pipeline("http://a.example")?.build();
    let (request, mut responses) = (Request::get("/")?, [Response::new(), Response::new()]);
    let [first, second] = &mut responses;
    let (first, second) = tokio::join!(pipeline.send(&request, first), pipeline.send(&request, second));
    if ctx.request.path().ends_with("first") {
        first?
    } else {
        second?
    };
    Ok(())
}

fn take_one(stock: &str) -> Result<u32, ShopError> {
    stock.parse::<u32>().map_err(ShopError::Stock)?.checked_sub(1).ok_or(ShopError::SoldOut)
}

fn plain(_: &mut Context) -> corehttp::Result {
    take_one("0")?;
    Ok(())
}

async fn waiting(_: &mut Context) -> corehttp::Result {
    tokio::task::yield_now().await;
    Ok(_ = take_one("x")?)
}

fn with_text(stock: &str, _: &mut Context) -> corehttp::Result {
    Ok(_ = take_one(stock)?)
}

fn not_utf8() -> std::str::Utf8Error {
    std::str::from_utf8(&[0xff][..]).unwrap_err()
}

struct Typed;

impl Handler for Typed {
    async fn handle(&self, _: &mut Context) -> corehttp::Result {
        Ok(_ = take_one("0")?)
    }
}

/// One function chooses the statuses of a type of errors, in whatever way a handler fails with it.
#[test]
fn the_application_chooses_the_status_of_its_errors() {
    let text: Arc<str> = "0".into();
    let boxed = || -> Result<(), Box<dyn std::error::Error + Send + Sync>> { Ok(_ = take_one("0")?) };
    let service = Server::new()
        .error_status(ShopError::status)
        .error_status(|_: &std::str::Utf8Error| std::panic::resume_unwind(Box::new("as told")))
        .error_status(|_: &corehttp::error::ValueError| Status::UNPROCESSABLE_CONTENT)
        .service(routes! {
            GET "/plain" => plain,
            GET "/waiting" => waiting,
            GET "/closure" => |_: &mut Context| { take_one("0")?; Ok(()) },
            GET "/async-closure" => async |_: &mut Context| { take_one("0")?; Ok(()) },
            GET "/bare" => |_: &mut Context| Err(ShopError::SoldOut.into()),
            GET "/state" => with_state(&text, with_text),
            GET "/typed" => Typed,
            GET "/boxed" => BoxHandler::new(plain),
            GET "/io" => |_: &mut Context| Err(io::Error::other(ShopError::SoldOut).into()),
            GET "/source" => |_: &mut Context| Around::err(ShopError::SoldOut),
            GET "/source/error" => |_: &mut Context| Around::err(Error::from(ShopError::SoldOut)),
            GET "/source/io" => |_: &mut Context| Around::err(io::Error::other(Error::from(ShopError::SoldOut))),
            GET "/source/given" => |_: &mut Context| Around::err(Error::new(Status::GONE, ShopError::SoldOut)),
            GET "/source/status" => |_: &mut Context| Around::err(Error::from(Status::NOT_FOUND)),
            GET "/boxed/given" => |_: &mut Context| {
                let error: Box<dyn std::error::Error + Send + Sync> = Error::new(Status::GONE, ShopError::SoldOut).into();
                Err(Error::other(error))
            },
            GET "/resolver" => async |_: &mut Context| Ok(_ = nameless().get("http://a.example").await?),
            GET "/pipelined/{which}" => pipelined,
            GET "/box" => move |_: &mut Context| boxed().map_err(Error::other),
            GET "/form" => |ctx: &mut Context| Ok(_ = ctx.request.query().get_as::<u8>("page")?),
            GET "/given" => |_: &mut Context| Err(Error::new(Status::GONE, ShopError::SoldOut)),
            GET "/status" => |_: &mut Context| Err(Status::NOT_FOUND.into()),
            GET "/other" => |_: &mut Context| Err(std::fmt::Error.into()),
            GET "/panics" => |_: &mut Context| Err(not_utf8().into()),
            GET "/panics/late" => wrap(async |_: &mut Context, _: Next<'_>| Err(not_utf8().into()), plain),
        });
    for (path, expected) in [
        ("/plain", 409),
        ("/waiting", 503),
        ("/closure", 409),
        ("/async-closure", 409),
        ("/bare", 409),
        ("/state", 409),
        ("/typed", 409),
        ("/boxed", 409),
        ("/io", 409),
        ("/source", 409),
        ("/source/error", 409),
        ("/source/io", 409),
        ("/source/given", 410),
        ("/source/status", 404),
        ("/boxed/given", 410),
        ("/resolver", 409),
        ("/pipelined/first", 409),
        ("/pipelined/second", 409),
        ("/box", 409),
        ("/form?page=x", 422),
        ("/given", 410),
        ("/status", 404),
        ("/other", 500),
        ("/panics", 500),
        ("/panics/late", 500),
    ] {
        let response = corehttp::block_on(service.respond(Request::get(path).unwrap())).unwrap();
        assert_eq!(response.status.as_u16(), expected, "{path}");
        // The text is that of an error of the crate, which says what is wrong with the request.
        let is_explained = path.starts_with("/form");
        let text = if is_explained {
            "the value of `page` is not a whole number from 0 to 255"
        } else {
            response.status.reason()
        };
        assert_eq!(response.text(), Ok(text), "{path}");
    }
}

/// A status that was given to an error inside of another one is kept against the functions beneath it, and not against those
/// above.
#[test]
fn the_outermost_error_that_a_function_knows_decides() {
    let refused = || ClientError::other(Error::new(Status::UNAUTHORIZED, ShopError::SoldOut));
    let fails = move || {
        routes! {
            GET "/given" => |_: &mut Context| Around::err(Error::new(Status::GONE, ShopError::SoldOut)),
            GET "/error" => |_: &mut Context| Around::err(Error::from(Status::NOT_FOUND)),
            GET "/status" => |_: &mut Context| Around::err(Status::NOT_FOUND),
            GET "/client" => move |_: &mut Context| Err(refused().into()),
        }
    };
    let plain = Server::new().service(fails());
    let chosen = Server::new()
        .error_status(ShopError::status)
        .error_status(ClientError::status)
        .error_status(|_: &Around| Status::PAYMENT_REQUIRED)
        .service(fails());
    let status = |service: &Service<_>, path: &str| {
        let response = corehttp::block_on(service.respond(Request::get(path).unwrap())).unwrap();
        response.status.as_u16()
    };
    for (path, unchosen) in [("/given", 410), ("/error", 404), ("/status", 404)] {
        assert_eq!((status(&plain, path), status(&chosen, path)), (unchosen, 402), "{path}");
    }
    assert_eq!(status(&chosen, "/client"), 502);
}

async fn note(seen: &AtomicUsize, ctx: &mut Context, next: Next<'_>) -> corehttp::Result {
    let outcome = next.handle(ctx).await;
    seen.store(outcome.as_ref().unwrap_err().status().as_u16().into(), Relaxed);
    outcome
}

/// Middleware around a function sees the status that the application has chosen, and the error stays the cause.
#[test]
fn middleware_sees_the_chosen_status() {
    let seen = Arc::new(AtomicUsize::new(0));
    let noted = seen.clone();
    let log = async move |ctx: &mut Context, next: Next<'_>| note(&noted, ctx, next).await;
    let reports = ErrorReports::default();
    let server = reports.attach(Server::new().error_status(ShopError::status));
    let service = server.service(wrap(log, plain));
    corehttp::block_on(service.respond(Request::get("/").unwrap())).unwrap();
    assert_eq!(seen.load(Relaxed), 409);
    assert_eq!(reports.take(), [(409, "the shop cannot sell".to_owned())]);
}

/// A function of the application that writes the cause of a router's 404 does not write that a handler failed.
#[test]
fn the_cause_of_a_bare_status_is_that_status() {
    let server = Server::new().error_response(|report: &ErrorReport, response: &mut Response| {
        response.set_text(report.cause.to_string())
    });
    let service = server.service(routes! { GET "/" => app, GET "/500" => |_: &mut Context| {
        Err(Status::INTERNAL_SERVER_ERROR.into())
    } });
    for (path, expected) in
        [("/no/such", "404 Not Found"), ("/500", "the handler failed: 500 Internal Server Error")]
    {
        let response = corehttp::block_on(service.respond(Request::get(path).unwrap())).unwrap();
        assert_eq!(response.text(), Ok(expected));
    }
}

/// A handler lets caches keep its content, and not the failure in place of that (RFC 9111 §3).
#[test]
fn no_cache_is_told_to_keep_a_failure_rfc9111_3() {
    let set = |server: Server| {
        server.timeouts(Timeouts { handler: Some(Duration::from_millis(50)), ..Timeouts::default() })
    };
    let served = Served::with(set, async |ctx: &mut Context| -> corehttp::Result {
        let headers = &mut ctx.response.headers;
        headers.set("cache-control", "Public, max-age=31536000, immutable")?;
        headers.set("expires", "Thu, 01 Jan 2032 00:00:00 GMT")?;
        // By a CDN (RFC 9213), and by others in front.
        for name in ["cdn-cache-control", "edge-control", "surrogate-control", "x-accel-expires"] {
            headers.set(name, "max-age=600")?;
        }
        headers.set("Cloudflare-CDN-Cache-Control", "max-age=600")?;
        match ctx.request.path() {
            "/fails" => return Err(Error::other("secret")),
            "/none" => return Err(Status::NOT_FOUND.into()),
            #[cfg(feature = "fs")]
            "/file" => ctx.send_file("/nowhere").await?,
            "/panics" => std::panic::resume_unwind(Box::new("secret")),
            "/hangs" => std::future::pending().await,
            "/private" => {
                headers.append("cache-control", "no-cache=\"set-cookie, x\", S-MaxAge=9, no-store")?;
                headers.append("cdn-cache-control", "no-store")?;
                headers.set("x-accel-expires", "0")?;
                return Err(Error::other("secret"));
            }
            "/stale" => {
                headers.set("cache-control", "max-age=0")?;
                headers.set("expires", "0")?;
                return Err(Status::NOT_FOUND.into());
            }
            "/moved" => return Err(Status::PERMANENT_REDIRECT.into()),
            _ => {}
        }
        Ok(())
    });
    for (path, status, kept) in [
        ("/fails", 500, ""),
        ("/none", 404, ""),
        #[cfg(feature = "fs")]
        ("/file", 404, ""),
        ("/panics", 500, ""),
        ("/hangs", 503, ""),
        ("/private", 500, "cache-control: no-cache=\"set-cookie, x\", no-store\r\n"),
        // Without these, a cache could keep it by a guess (RFC 9111 §4.2.2).
        ("/stale", 404, "cache-control: max-age=0\r\n"),
        ("/moved", 308, "expires: "),
        ("/fine", 200, "expires: "),
    ] {
        let answer = served.ask(get(path));
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{path}: {answer}");
        assert!(answer.contains(kept), "{path}: {answer}");
        let is_stored = answer.replace("max-age=0\r", "").contains("max-age=")
            || answer.replace("\r\nexpires: 0\r", "\r").contains("\r\nexpires:");
        assert_eq!(answer.contains("\r\nexpires: 0\r"), path == "/stale", "{answer}");
        assert_eq!(is_stored, status < 400, "{path}: {answer}");
        let is_kept_out =
            answer.contains("cdn-cache-control: no-store\r\n") && answer.contains("x-accel-expires: 0");
        assert_eq!(is_kept_out, path == "/private", "{path}: {answer}");
    }
}
