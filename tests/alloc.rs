//! A warm exchange allocates nothing, and an idle connection holds little memory.
#![allow(clippy::unwrap_used, unreachable_pub, reason = "a test may panic, and nobody imports it")]

#[path = "support/alloc.rs"]
mod alloc;

use std::cell::Cell;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime};

use alloc::{Counting, allocations};
use corehttp::client::{HostEvents, Retry};
use corehttp::middleware::{self, Cors, CrossOriginProtection, Middleware, Next, wrap};
use corehttp::server::{ErrorReport, error_page, problem_details};
use corehttp::{
    BodyPlan, Client, ClientBuilder, Context, Handler, Headers, IntoHandler, Request, Response, Router,
    Server, Service, SetCookie, Status, Timeouts, TrustedProxies, block_on, routes, with_state,
};
use tokio::io::AsyncReadExt;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Says in a field of each response how often the server's thread has allocated so far.
struct Told<H>(H);

impl<H: Handler> Handler for Told<H> {
    fn on_head(&self, ctx: &mut Context) -> BodyPlan {
        self.0.on_head(ctx)
    }

    async fn handle(&self, ctx: &mut Context) -> corehttp::Result {
        // The runtime's list of tasks that yield is made for the first, which may be that of a core that is behind.
        if !HAS_YIELDED.replace(true) {
            tokio::task::yield_now().await;
        }
        ctx.response.headers.set("x-allocations", allocations())?;
        self.0.handle(ctx).await
    }
}

thread_local! {
    static HAS_YIELDED: Cell<bool> = const { Cell::new(false) };
}

/// A thousand warm exchanges allocate nothing on the server's thread. `batch` holds so many requests, and each response
/// ends with `end`.
#[track_caller]
fn check<Kind, H>(handler: H, batch: &str, requests: usize, end: &str)
where
    H: IntoHandler<Kind>,
    H::Handler: Send + Sync,
{
    check_while(handler, batch, requests, end, |exchanges| exchanges < 1000);
}

#[track_caller]
fn check_while<Kind, H>(handler: H, batch: &str, requests: usize, end: &str, goes_on: impl Fn(usize) -> bool)
where
    H: IntoHandler<Kind>,
    H::Handler: Send + Sync,
{
    check_each(0, handler, (batch, requests, end), goes_on);
}

/// Each warm exchange allocates so often.
#[track_caller]
fn check_each<Kind, H>(each: u64, handler: H, asked: (&str, usize, &str), goes_on: impl Fn(usize) -> bool)
where
    H: IntoHandler<Kind>,
    H::Handler: Send + Sync,
{
    check_served(Server::bind("127.0.0.1:0"), each, handler, asked, goes_on);
}

#[track_caller]
fn check_served<Kind, H>(
    server: Server,
    each: u64,
    handler: H,
    (batch, requests, end): (&str, usize, &str),
    goes_on: impl Fn(usize) -> bool,
) where
    H: IntoHandler<Kind>,
    H::Handler: Send + Sync,
{
    // All other timeouts are on by default.
    let timeouts = Timeouts { handler: Some(Duration::from_secs(5)), ..Timeouts::default() };
    let running = server.cores(1).timeouts(timeouts).start(Told(handler.into_handler())).unwrap();
    let mut peer = TcpStream::connect(running.local_addr()).unwrap();
    peer.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    let mut before = (0..WARM_UP).map(|_| exchange(&mut peer, batch, requests, end)).last().unwrap();
    let mut exchanges = 0;
    let begun = Instant::now();
    let mut last = begun;
    let mut sweeps = 0;
    while goes_on(exchanges) {
        let now = exchange(&mut peer, batch, requests, end);
        exchanges += requests;
        // Once a second a client, which a gateway has, looks after its connections, and that allocates.
        let may_be_sweep = each == OF_GATEWAY && sweeps <= begun.elapsed().as_secs();
        if may_be_sweep && now - before > each {
            sweeps += 1;
        // A core frees memory that was not used for a second, as after a pause of the machine.
        } else if last.elapsed() < Duration::from_millis(300) {
            assert_eq!(now - before, each * requests as u64, "allocations in exchange {exchanges}");
        }
        before = now;
        last = Instant::now();
    }
    running.stop(Duration::ZERO);
    running.wait().unwrap();
}

const WARM_UP: usize = 50;

/// The allocations of an exchange of a gateway: those of the request that it sends.
const OF_GATEWAY: u64 = 3;

/// Sends `batch`, receives all responses, and returns the allocations that the last of them reports.
fn exchange(peer: &mut TcpStream, batch: &str, requests: usize, end: &str) -> u64 {
    peer.write_all(batch.as_bytes()).unwrap();
    let (mut received, mut piece) = (String::new(), [0; 16 << 10]);
    while received.matches(end).count() < requests {
        let count = peer.read(&mut piece).unwrap();
        assert_ne!(count, 0, "the connection goes on");
        // Content need not be text.
        received.extend(piece[..count].iter().map(|octet| char::from(*octet)));
    }
    let (_, rest) = received.rsplit_once("x-allocations: ").expect("each response reports them");
    rest.split_once("\r\n").unwrap().0.parse().unwrap()
}

const GET: &str = "GET /a/b?c=d HTTP/1.1\r\nHost: example.com\r\nUser-Agent: test\r\nAccept: text/html\r\n\
                   Accept-Language: en\r\nCookie: a=b\r\nX-Own: 1\r\n\r\n";
const POST: &str = "POST /save HTTP/1.1\r\nHost: example.com\r\nContent-Length: 12\r\n\r\nhello, world";

fn hello(ctx: &mut Context) {
    ctx.response.set_text("hello, world");
}

fn echo(ctx: &mut Context) {
    std::mem::swap(&mut ctx.response.body, &mut ctx.request.body);
}

#[test]
fn a_get_allocates_nothing() {
    check(hello, GET, 1, "hello, world");
}

/// A connection in memory that ends behind its request waits for nothing, so no timer is made for it.
#[tokio::test]
async fn a_connection_in_memory_allocates_its_box() {
    let service = Server::new().service(hello);
    let serve = async || {
        let io = tokio::io::join(GET.as_bytes(), tokio::io::sink());
        service.serve_connection(io).await.unwrap();
    };
    let mut warm = 0;
    for connection in 0..1100 {
        serve().await;
        if connection < 100 {
            warm = allocations();
        }
    }
    // Less than two in a hundred take memory for more than their box.
    let allocated = allocations() - warm;
    assert!((1000..1020).contains(&allocated), "{allocated} allocations");
}

/// A core trims its memory once a second of the true time.
#[test]
fn an_exchange_allocates_nothing_after_memory_was_trimmed() {
    let end = Instant::now() + Duration::from_millis(1300);
    check_while(hello, GET, 1, "hello, world", |_| Instant::now() < end);
}

#[test]
fn reading_and_setting_fields_allocates_nothing() {
    let busy = |ctx: &mut Context| -> corehttp::Result {
        let Context { request, response, .. } = ctx;
        assert_eq!((request.path(), request.query().get("c").as_deref()), ("/a/b", Some("d")));
        assert!(request.headers.contains("x-own") && request.headers.iter().len() == 6);
        response.headers.set("x-size", 12)?;
        response.headers.append("vary", "accept")?;
        response.headers.set("x-size", 13)?;
        response.headers.set_date("last-modified", SystemTime::now())?;
        Ok(write!(response.body, "hello, world {}", request.body.len())?)
    };
    check(busy, GET, 1, "hello, world");
}

#[test]
fn a_post_allocates_nothing() {
    check(echo, POST, 1, "hello, world");
}

#[test]
fn reading_forms_and_cookies_allocates_nothing() {
    let reads = |ctx: &mut Context| -> corehttp::Result {
        let Context { request, response, .. } = ctx;
        let (form, query, cookies) = (request.form()?, request.query().strict()?, request.cookies());
        assert_eq!(
            (form.get_as::<u32>("page")?, form.get("last name").as_deref()),
            (Some(7), Some("Lovelace"))
        );
        assert_eq!((form.len(), query.all("tag").count(), cookies.all("theme").count()), (3, 2, 2));
        assert!(form.iter().take(2).all(|(_, value)| !value.is_empty()));
        let session = SetCookie::new_session("sid", cookies.get("sid").unwrap_or_default());
        response.set_cookie(&SetCookie { max_age: Some(Duration::from_secs(60)), ..session })?;
        response.set_cookie(&session.removal())?;
        response.set_text("all read");
        Ok(())
    };
    check(reads, FORM, 1, "all read");
}

const FORM: &str = "POST /save?tag=fast&tag=safe HTTP/1.1\r\nHost: example.com\r\n\
                    Content-Type: application/x-www-form-urlencoded\r\nContent-Length: 37\r\n\
                    Cookie: sid=8f14e45f; theme=dark; theme=light\r\n\r\n\
                    page=7&name=Ada&last%20name=Lovelace&";

/// A type does not; a function allocates the future of what is beneath, if that has one.
#[test]
fn middleware_allocates_nothing() {
    #[derive(Clone)]
    struct Counted;
    impl Middleware for Counted {
        async fn call(&self, ctx: &mut Context, next: &impl Handler) -> corehttp::Result {
            tokio::task::yield_now().await;
            next.handle(ctx).await
        }
    }
    let waits = async |ctx: &mut Context| {
        tokio::task::yield_now().await;
        hello(ctx);
    };
    let function = async |ctx: &mut Context, next: Next<'_>| next.handle(ctx).await;
    check(wrap((Counted, Counted, Counted), hello), GET, 1, "hello, world");
    check(wrap((Counted, Counted, Counted), waits), GET, 1, "hello, world");
    check(routes! { wrap (Counted, Counted) => { GET "/{*rest}" => waits } }, GET, 1, "hello, world");
    check(wrap((Counted, function), hello), GET, 1, "hello, world");
    check_each(1, wrap((Counted, function), waits), (GET, 1, "hello, world"), |exchanges| exchanges < 1000);
    check(wrap(middleware::guard(|_: &mut Context| Ok(())), echo), POST, 1, "hello, world");
}

#[test]
fn a_request_without_an_origin_allocates_nothing_for_cors() {
    let waits = async |ctx: &mut Context| {
        tokio::task::yield_now().await;
        hello(ctx);
    };
    let cors = || Cors::new().trust_origin("https://app.example").unwrap().expose_fields(["link"]).unwrap();
    let own = GET.replace("X-Own: 1", "Origin: https://app.example");
    let evil = GET.replace("X-Own: 1", "Origin: https://evil.example");
    check(wrap(cors(), hello), GET, 1, "hello, world");
    check(wrap(cors(), waits), GET, 1, "hello, world");
    check(wrap(cors(), hello).boxed(), GET, 1, "hello, world");
    check(routes! { wrap cors() => { GET "/{*rest}" => waits } }, GET, 1, "hello, world");
    check(wrap(cors(), hello), &evil, 1, "hello, world");
    check(wrap(Cors::new().allow_any_origin(), waits), &own, 1, "hello, world");
    // Its text, and the fields that are set when the head is sent.
    check_each(2, wrap(cors(), waits), (&own, 1, "hello, world"), |exchanges| exchanges < 1000);
    let preflight =
        own.replace("GET", "OPTIONS").replace("\r\n\r\n", "\r\nAccess-Control-Request-Method: PUT\r\n\r\n");
    check(wrap(cors(), hello), &preflight, 1, "\r\n\r\n");
}

#[test]
fn guards_allocate_nothing() {
    let post = POST.replace("Content-Length", "Sec-Fetch-Site: same-origin\r\nContent-Length");
    check(wrap(CrossOriginProtection::new(), echo), &post, 1, "hello, world");
    check(wrap(corehttp::middleware::ConcurrencyLimit::new(1), echo), &post, 1, "hello, world");
    let limit = corehttp::middleware::RateLimit::new(u32::MAX, Duration::from_secs(1));
    let proxies = TrustedProxies::from_fn(|ip| ip.is_loopback());
    let server = Server::bind("127.0.0.1:0").trusted_proxies(proxies);
    let post = post.replace("\r\n\r\n", "\r\nX-Forwarded-For: 192.0.2.1\r\n\r\n");
    check_served(server, 0, wrap(limit, echo), (&post, 1, "hello, world"), |exchanges| exchanges < 1000);
}

#[cfg(feature = "cookies")]
#[test]
fn reading_signed_cookies_allocates_nothing() {
    let key = corehttp::cookies::Key::from_secret(&[7; 64]).unwrap().previous(&[8; 64]).unwrap();
    let mut response = Response::new();
    key.set_signed(&mut response, &SetCookie::new("sid", "8f14e45f")).unwrap();
    let get = GET.replace("a=b", &format!("sid={}; sid=forged", response.cookies().next().unwrap().value));
    let reads = move |ctx: &mut Context| {
        let Context { request, response, .. } = ctx;
        let signed = key.signed(request.cookies());
        assert_eq!((signed.get("sid"), signed.get("a")), (Some("8f14e45f"), None));
        response.set_text("all read");
    };
    check(reads, &get, 1, "all read");
}

/// Without a cookie there is nothing to look up. A session that was looked up has its place in the extensions.
#[cfg(feature = "session")]
#[test]
fn a_session_that_is_not_used_allocates_its_place() {
    use corehttp::session::{MemoryStore, Session, Sessions};

    let sessions = Sessions::new(MemoryStore::new());
    check(wrap(sessions.clone(), hello), GET, 1, "hello, world");
    let begins = |ctx: &mut Context| -> corehttp::Result {
        Ok(Session::from_extensions(&mut ctx.extensions)?.set("user", "Ada")?)
    };
    let service = Server::new().service(wrap(sessions.clone(), begins));
    let begun = block_on(service.respond(Request::get("/").unwrap())).unwrap();
    let get = GET.replace("a=b", &format!("__Host-session={}", begun.cookies().next().unwrap().value));
    check_each(1, wrap(sessions, hello), (&get, 1, "hello, world"), |exchanges| exchanges < 1000);
}

/// A free context keeps the buffer of a large body, but for when the core trims its memory, once a second.
#[test]
fn a_large_post_hardly_allocates() {
    let running = Server::bind("127.0.0.1:0").cores(1).start(Told(echo.into_handler())).unwrap();
    let mut peer = TcpStream::connect(running.local_addr()).unwrap();
    let content = "x".repeat(300_000);
    let batch = format!("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 300003\r\n\r\n{content}end");
    let mut before = (0..WARM_UP).map(|_| exchange(&mut peer, &batch, 1, "end")).last().unwrap();
    let (begun, mut allocating) = (Instant::now(), 0);
    for _ in 0..100 {
        let now = exchange(&mut peer, &batch, 1, "end");
        allocating += u64::from(now > before);
        before = now;
    }
    // The handler lets the buffers of both bodies change places, so two exchanges are without theirs.
    let trims = begun.elapsed().as_secs() + 1;
    assert!(allocating <= 2 * trims, "{allocating} of 100 exchanges allocate, within {trims} s");
    running.stop(Duration::ZERO);
    running.wait().unwrap();
}

#[test]
fn a_post_in_chunks_allocates_nothing() {
    check(echo, &POST.replace(SIZED, CHUNKED), 1, "hello, world");
}

const SIZED: &str = "Content-Length: 12\r\n\r\nhello, world";
const CHUNKED: &str = "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n7\r\n, world\r\n0\r\nx-sum: 1\r\n\r\n";

/// Its target, its fields, and where they are.
#[test]
fn a_gateway_allocates_only_the_request_that_it_sends() {
    let behind = Server::bind("127.0.0.1:0").cores(1).start(hello).unwrap();
    let host = Client::new().host(&format!("http://{}", behind.local_addr())).unwrap();
    let pass = async move |ctx: &mut Context| -> corehttp::Result {
        let onward = ctx.request.forwarded_to("/")?;
        ctx.forward(host.open_call(&onward)).await
    };
    check_each(OF_GATEWAY, pass, (GET, 1, "hello, world"), |exchanges| exchanges < 1000);
}

#[test]
fn an_async_handler_that_waits_allocates_nothing() {
    let waits = async |ctx: &mut Context| {
        tokio::task::yield_now().await;
        ctx.response.set_text("hello, world");
    };
    check(waits, GET, 1, "hello, world");
}

#[test]
fn an_async_handler_that_fails_allocates_nothing() {
    let fails = async |_: &mut Context| -> corehttp::Result { Err(corehttp::Status::NOT_FOUND.into()) };
    check(fails, GET, 1, "\r\n\r\nNot Found");
}

#[test]
fn routes_of_the_program_allocate_nothing() {
    let plain = |ctx: &mut Context| -> corehttp::Result {
        let (last, all) = (ctx.params().get("last")?.len(), ctx.request.matched_pattern().map(str::len));
        assert_eq!((last, all), (1, Some(9)));
        hello(ctx);
        Ok(())
    };
    let waits = async move |ctx: &mut Context| -> corehttp::Result {
        tokio::task::yield_now().await;
        plain(ctx)
    };
    let limited = || {
        let longer = middleware::timeouts(|timeouts| timeouts.body *= 2);
        wrap((longer, middleware::limits(|limits| limits.body_max *= 2)), plain)
    };
    check(routes! { GET "/a/{last}" => plain }, GET, 1, "hello, world");
    check(routes! { GET "/a/{last}" => waits }, GET, 1, "hello, world");
    check(routes! { GET "/a/{last}" => limited() }, GET, 1, "hello, world");
    check(routes! { mount "/a" => routes! { GET "/{last}" => plain } }, GET, 1, "hello, world");
    check(routes! { GET "/a" => plain }, GET, 1, "\r\n\r\nNot Found");
    let text: Arc<str> = "hello, world".into();
    let state = with_state(&text, |text: &str, ctx: &mut Context| ctx.response.set_text(text));
    let waits = with_state(&text, async |text: &str, ctx: &mut Context| {
        tokio::task::yield_now().await;
        ctx.response.set_text(text);
    });
    check(routes! { GET "/a/{last}" => state }, GET, 1, "hello, world");
    check(routes! { GET "/a/{last}" => waits }, GET, 1, "hello, world");
}

/// An async handler in a box needs an allocation for its future.
#[test]
fn a_plain_route_that_was_added_allocates_nothing() {
    let waits = async |ctx: &mut Context| hello(ctx);
    check(Router::new().get("/a/{last}", hello).unwrap(), GET, 1, "hello, world");
    let router = Router::new().get("/a/{last}", waits).unwrap();
    check_each(1, router, (GET, 1, "hello, world"), |exchanges| exchanges < 1000);
}

#[test]
fn ready_made_error_responses_allocate_nothing() {
    let fails = |_: &mut Context| -> corehttp::Result { Err(Status::NOT_FOUND.into()) };
    for (function, accept, end) in [
        (
            problem_details as fn(&ErrorReport<'_>, &mut Response),
            "*/*",
            r#"{"title":"Not Found","status":404}"#,
        ),
        (problem_details, "text/plain, text/html;q=0.5", "\r\n\r\nNot Found"),
        (error_page, "text/html, */*;q=0.8", "<h1>404 Not Found</h1>\n"),
    ] {
        let batch = format!("GET / HTTP/1.1\r\nhost: a\r\naccept: {accept}\r\n\r\n");
        let server = Server::bind("127.0.0.1:0").error_response(function);
        check_served(server, 0, fails, (&batch, 1, end), |exchanges| exchanges < 1000);
    }
}

#[test]
fn reporting_exchanges_allocates_nothing() {
    let reports: Arc<AtomicU64> = Arc::default();
    let counted = reports.clone();
    let count = move |report: &corehttp::server::ExchangeReport| {
        assert_eq!((report.target, report.cut), ("/a/b?c=d", None));
        counted.fetch_add(report.sent, Ordering::Relaxed);
    };
    let server = Server::bind("127.0.0.1:0").on_exchange(count);
    check_served(server, 0, hello, (GET, 1, "hello, world"), |exchanges| exchanges < 1000);
    assert!(reports.load(Ordering::Relaxed) > 1000 * 100, "each exchange was reported");
}

#[cfg(feature = "access-log")]
#[test]
fn an_access_log_allocates_nothing_on_a_core() {
    for format in [corehttp::access_log::Format::Combined, corehttp::access_log::Format::Json] {
        let log = corehttp::access_log::AccessLog::from_writer(std::io::sink(), format).unwrap();
        let server = Server::bind("127.0.0.1:0").observe(log.clone());
        check_served(server, 0, hello, (GET, 1, "hello, world"), |exchanges| exchanges < 1000);
    }
}

/// A log, histograms and timed polls, all at once.
#[cfg(all(feature = "access-log", feature = "metrics"))]
#[test]
fn seeing_each_exchange_allocates_nothing_on_a_core() {
    let log =
        corehttp::access_log::AccessLog::from_writer(std::io::sink(), corehttp::access_log::Format::Combined)
            .unwrap();
    let settings = corehttp::metrics::Options { times_polls: true, ..Default::default() };
    let metrics = corehttp::metrics::Metrics::with_options(settings);
    let server = Server::bind("127.0.0.1:0").observe(log.clone()).observe(metrics.clone());
    let router = routes! { GET "/a/{name}" => hello };
    check_served(server, 0, router, (GET, 1, "hello, world"), |exchanges| exchanges < 1000);
    let routes = metrics.routes();
    assert_eq!((&*routes[0].pattern, routes.len()), ("/a/{name}", 1));
    assert!(routes[0].count() > 1000);
}

/// Any number of distinct paths, methods and hosts takes no more memory, whatever is counted and logged of them.
#[cfg(all(feature = "access-log", feature = "metrics"))]
#[test]
fn distinct_requests_allocate_nothing_on_a_core() {
    let log =
        corehttp::access_log::AccessLog::from_writer(std::io::sink(), corehttp::access_log::Format::Json)
            .unwrap();
    let metrics = corehttp::metrics::Metrics::new();
    let running = Server::bind("127.0.0.1:0")
        .cores(1)
        .observe(log.clone())
        .observe(metrics.clone())
        .start(Told(routes! { any "/a/{name}" => hello }.into_handler()))
        .unwrap();
    let mut peer = TcpStream::connect(running.local_addr()).unwrap();
    peer.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    let get = |n: u64| format!("M{n:06} /a/{n:06}?b={n:06} HTTP/1.1\r\nhost: h{n:06}.example\r\n\r\n");
    let mut ask = |hundred: u64| {
        let batch: String = (100 * hundred..100 * (hundred + 1)).map(get).collect();
        exchange(&mut peer, &batch, 100, "hello, world")
    };
    let warm = (0..20).map(&mut ask).last().unwrap();
    (20..200).for_each(|hundred| assert_eq!(ask(hundred), warm, "after {hundred} batches"));
    running.stop(Duration::ZERO);
    running.wait().unwrap();
    let routes = metrics.routes();
    assert_eq!((routes.len(), Vec::from_iter(routes[0].methods())), (1, vec![("_OTHER", 20_000)]));
}

#[test]
fn pipelined_requests_allocate_nothing() {
    check(hello, &GET.repeat(16), 16, "hello, world");
    check(echo, &POST.repeat(16), 16, "hello, world");
}

#[test]
fn reading_a_stream_allocates_nothing() {
    let reads = async |ctx: &mut Context| -> corehttp::Result {
        let (mut count, mut body) = (0, ctx.body_reader());
        count += body.read(&mut [0; 3]).await?;
        while let Some(chunk) = body.chunk().await? {
            count += chunk.len();
        }
        assert_eq!(count, 12);
        ctx.response.set_text("all read");
        Ok(())
    };
    for post in [POST, &POST.replace(SIZED, CHUNKED)] {
        check(wrap(BodyPlan::Stream, reads), post, 1, "all read");
    }
}

#[test]
fn reading_a_stream_in_many_pieces_allocates_nothing() {
    let reads = async |ctx: &mut Context| -> corehttp::Result {
        let (mut count, mut body) = (0, ctx.body_reader());
        while let Some(chunk) = body.chunk().await? {
            count += chunk.len();
        }
        assert_eq!(count, 64 << 10);
        ctx.response.set_text("all read");
        Ok(())
    };
    let chunks = format!("1000\r\n{}\r\n", "x".repeat(4 << 10)).repeat(16);
    let head = "POST / HTTP/1.1\r\nHost: example.com\r\nTransfer-Encoding: chunked\r\n\r\n";
    let (post, few) = (format!("{head}{chunks}0\r\n\r\n"), |exchanges| exchanges < 300);
    check_while(wrap(BodyPlan::Stream, reads), &post, 1, "all read", few);
}

#[test]
fn writing_a_stream_allocates_nothing() {
    let writes = async |ctx: &mut Context| -> corehttp::Result {
        let mut out = ctx.body_writer().await?;
        out.write_all(b"hello, ").await?;
        out.flush().await?;
        out.write_all(b"world").await?;
        Ok(out.finish().await?)
    };
    check(writes, GET, 1, "\r\n0\r\n\r\n");
}

#[test]
fn streaming_both_ways_allocates_nothing() {
    let echoes = async |ctx: &mut Context| -> corehttp::Result {
        let (mut body, mut out) = ctx.duplex().await?;
        while let Some(chunk) = body.chunk().await? {
            out.write_all(chunk).await?;
        }
        Ok(out.finish().await?)
    };
    for post in [POST, &POST.replace(SIZED, CHUNKED)] {
        check(wrap(BodyPlan::Stream, echoes), post, 1, "\r\n0\r\n\r\n");
    }
}

/// Sees to it that the response is coded so.
#[cfg(feature = "compress")]
struct Coded<H>(H, &'static str);

#[cfg(feature = "compress")]
impl<H: Handler> Handler for Coded<H> {
    async fn handle(&self, ctx: &mut Context) -> corehttp::Result {
        self.0.handle(ctx).await?;
        assert_eq!(ctx.response.headers.get("content-encoding"), Some(self.1));
        Ok(())
    }
}

/// Buffered and streamed. A trailer tells where a response ends, for its content is not text.
#[cfg(feature = "compress")]
#[test]
fn compressing_allocates_nothing() {
    use corehttp::middleware::Compress;

    let page = "<li><a href=\"/articles/42\">All that glitters</a></li>\n".repeat(80);
    let copied = page.clone();
    let buffers = move |ctx: &mut Context| {
        ctx.response.set_html(&copied);
        ctx.response.headers.set("etag", "\"tag\"").unwrap();
        ctx.response.trailers.set("x-end", 1).unwrap();
    };
    let streams = async move |ctx: &mut Context| -> corehttp::Result {
        ctx.response.headers.set("content-type", "text/html")?;
        ctx.response.trailers.set("x-end", 1)?;
        let mut out = ctx.body_writer().await?;
        for part in page.as_bytes().chunks(1000) {
            out.write_all(part).await?;
            out.flush().await?;
        }
        Ok(out.finish().await?)
    };
    for coding in ["gzip", "br", "deflate"] {
        let get = GET.replace("Accept: text/html", &format!("Accept-Encoding: {coding}"));
        let (few, end) = (|exchanges| exchanges < 30, "x-end: 1\r\n\r\n");
        check_while(Coded(wrap(Compress::new(), buffers.clone()), coding), &get, 1, end, few);
        check_while(Coded(wrap(Compress::new(), streams.clone()), coding), &get, 1, end, few);
    }
}

/// A thousand warm exchanges allocate nothing on this thread. They are counted in parts, of which some do not count:
/// once a second a client looks after its connections, and that allocates.
async fn check_exchanges(mut exchange: impl AsyncFnMut()) {
    for _ in 0..WARM_UP {
        exchange().await;
    }
    let mut counts = Vec::with_capacity(PARTS_MAX);
    while counts.iter().filter(|count| **count == 0).count() < 4 {
        assert!(counts.len() < PARTS_MAX, "allocations in each part: {counts:?}");
        let before = allocations();
        for _ in 0..250 {
            exchange().await;
        }
        counts.push(allocations() - before);
    }
}

const PARTS_MAX: usize = 20;

/// Warm exchanges allocate nothing on the client's thread; the server has its own.
#[track_caller]
fn check_client(set: impl FnOnce(&mut Request), handler: fn(&mut Context), expected: &str) {
    check_built(Client::builder(), set, handler, expected);
}

/// The same for the client of `builder`.
#[track_caller]
fn check_built(
    builder: ClientBuilder,
    set: impl FnOnce(&mut Request),
    handler: fn(&mut Context),
    expected: &str,
) {
    let running = Server::bind("127.0.0.1:0").cores(1).start(handler).unwrap();
    let mut request = Request::post(&format!("http://{}/a/b?c=d", running.local_addr())).unwrap();
    request.headers.set("accept", "text/plain").unwrap();
    set(&mut request);
    // A deadline is no reason to allocate.
    let client =
        builder.default_header("user-agent", "test").unwrap().timeout(Duration::from_secs(9)).build();
    let mut response = Response::new();
    let asked = block_on(async {
        let exchange = async || {
            client.send(&request, &mut response).await.unwrap();
            assert_eq!((response.status.as_u16(), response.body.text().unwrap()), (200, expected));
        };
        check_exchanges(exchange).await;
        client.idle_connections()
    });
    assert_eq!(asked.unwrap(), 1, "one connection");
    running.stop(Duration::ZERO);
    running.wait().unwrap();
}

#[test]
fn a_client_that_gets_allocates_nothing() {
    let get = |request: &mut Request| {
        let url = request.target().as_str().to_owned();
        *request = Request::get(&url).unwrap();
        request.headers.set("x-own", 1).unwrap();
    };
    check_client(get, hello, "hello, world");
}

#[test]
fn an_observed_client_allocates_nothing() {
    let received = Arc::new(AtomicU64::new(0));
    let counted = received.clone();
    let observer = move |host: &mut HostEvents| {
        let counted = counted.clone();
        host.on_exchange(move |report| {
            counted.fetch_add(report.received, Ordering::Relaxed);
        });
    };
    let builder = Client::builder().observe(observer);
    check_built(builder, |request| request.body.set_bytes("hello, world"), echo, "hello, world");
    assert_ne!(received.load(Ordering::Relaxed), 0);
}

/// A policy for retries costs nothing until a request fails.
#[test]
fn a_client_that_would_retry_allocates_nothing() {
    let builder = Client::builder().retry(Retry::new());
    check_built(builder, |request| request.body.set_bytes("hello, world"), echo, "hello, world");
}

#[test]
fn a_client_that_posts_allocates_nothing() {
    check_client(|request| request.body.set_bytes("hello, world"), echo, "hello, world");
}

#[test]
fn a_client_that_hears_chunks_and_trailers_allocates_nothing() {
    let chunked = |ctx: &mut Context| {
        ctx.response.set_text("hello, world");
        ctx.response.trailers.set("x-sum", 1).expect("it is a good field");
    };
    check_client(|request| request.trailers.set("x-sum", 1).unwrap(), chunked, "hello, world");
}

/// However long a body is, a client that streams it holds no more of it than it held before.
#[test]
fn a_client_that_streams_allocates_nothing_for_each_piece() {
    const PIECES: usize = 4096;
    const PIECE: [u8; 4096] = [b'x'; 4096];
    let sinks_then_pours = async |ctx: &mut Context| -> corehttp::Result {
        let (mut body, mut out) = ctx.duplex().await?;
        while body.chunk().await?.is_some() {}
        for _ in 0..PIECES {
            out.write_all(&PIECE).await?;
        }
        Ok(out.finish().await?)
    };
    let server = Server::bind("127.0.0.1:0").cores(1);
    let running = server.start(wrap(BodyPlan::Stream, sinks_then_pours)).unwrap();
    let request = Request::post(&format!("http://{}/", running.local_addr())).unwrap();
    let allocated = block_on(async {
        let (client, mut response, mut marks) = (Client::new(), Response::new(), [0; 3]);
        for _ in 0..2 {
            let mut call = client.open_call(&request).await.unwrap();
            for at in 0..PIECES {
                if at == PIECES / 2 {
                    marks[0] = allocations();
                }
                call.write_all(&PIECE).await.unwrap();
            }
            marks[1] = allocations();
            let (mut response, mut len) = (call.finish(&mut response).await.unwrap(), 0);
            while let Some(chunk) = response.chunk().await.unwrap() {
                if len < PIECES * PIECE.len() / 2 {
                    marks[2] = allocations();
                }
                len += chunk.len();
            }
            assert_eq!((len, client.idle_connections()), (PIECES * PIECE.len(), 1));
        }
        (marks[1] - marks[0], allocations() - marks[2])
    });
    let (sent, received) = allocated.unwrap();
    // The response's head may come at any time, and the more comes at once, the more is read at once: the buffer may
    // still be on its way to its bound. But no piece has memory of its own.
    assert!(sent.max(received) <= 8, "{sent} while the second half went, {received} while it came");
    running.stop(Duration::ZERO);
    running.wait().unwrap();
}

#[test]
fn a_client_that_takes_interim_responses_allocates_nothing_for_each() {
    let hints = async |ctx: &mut Context| -> corehttp::Result {
        let mut fields = Headers::new();
        fields.set("link", "</style.css>; rel=preload")?;
        for _ in 0..16 {
            ctx.send_informational(Status::EARLY_HINTS, &fields).await?;
        }
        Ok(())
    };
    let running = Server::bind("127.0.0.1:0").cores(1).start(hints).unwrap();
    let request = Request::get(&format!("http://{}/", running.local_addr())).unwrap();
    let allocated = block_on(async {
        let client = Client::new();
        let (_, mut reader) = client.open_call(&request).await.unwrap().split();
        let mut marks = Vec::with_capacity(16);
        while let Some((_, fields)) = reader.informational().await.unwrap() {
            assert!(fields.contains("link"));
            marks.push(allocations());
        }
        assert_eq!(marks.len(), 16);
        marks[15] - marks[2]
    });
    assert_eq!(allocated.unwrap(), 0);
}

/// The callers, four of them at a time, and the pipe are on one thread.
#[test]
fn a_client_that_pipelines_allocates_nothing() {
    let running = Server::bind("127.0.0.1:0").cores(1).start(hello).unwrap();
    let pipeline = Client::new().pipeline(&format!("http://{}", running.local_addr())).unwrap().build();
    let request = Request::get("/").unwrap();
    let mut responses = [const { None::<Response> }; 4];
    let four_exchanges = async || {
        let [one, two, three, four] = responses.each_mut().map(|response| async {
            let response = response.get_or_insert_default();
            pipeline.send(&request, response).await.unwrap();
            assert_eq!(response.body.bytes(), b"hello, world");
        });
        tokio::join!(one, two, three, four);
    };
    block_on(check_exchanges(four_exchanges)).unwrap();
    running.stop(Duration::ZERO);
    running.wait().unwrap();
}

/// Two servers are asked in turn.
#[test]
fn a_client_that_balances_allocates_nothing() {
    let running = [(); 2].map(|()| Server::bind("127.0.0.1:0").cores(1).start(hello).unwrap());
    let urls = running.each_ref().map(|running| format!("http://{}", running.local_addr()));
    let balancer = Client::new().balance(urls).unwrap().build();
    let (request, mut response) = (Request::get("/").unwrap(), Response::new());
    let exchange = async || {
        balancer.send(&request, &mut response).await.unwrap();
        assert_eq!(response.body.bytes(), b"hello, world");
    };
    block_on(check_exchanges(exchange)).unwrap();
    assert!(balancer.counts().iter().all(|host| host.served >= 500));
    running.iter().for_each(|running| running.stop(Duration::ZERO));
}

#[test]
fn a_url_that_needs_no_change_is_set_without_allocating() {
    let mut request = Request::get("https://a.long.example.com:8080/a/long/path?and=a&long=query").unwrap();
    let before = allocations();
    for url in [
        "http://example.com/a/b.c?d=%20&e",
        "https://a-b.example.com:8443/.well-known/x#y",
        "http://127.0.0.1:8080/",
        "http://[2001:db8::1]:8080/a",
        "http://a",
        "/a/b?c",
    ] {
        request.set_url(url).unwrap();
        assert_eq!(allocations() - before, 0, "{url}");
    }
}

/// Each idle connection holds this future, which has no room for the state of a busy one.
#[test]
fn the_future_of_a_connection_is_small_whatever_the_handler_is() {
    fn check(service: Service<impl Handler>) {
        let (_, far) = tokio::io::duplex(64);
        let size = size_of_val(&service.serve_connection(far));
        assert!(size <= 152, "{size} bytes");
    }
    check(Server::new().service(hello));
    check(Server::new().service(async |ctx: &mut Context| {
        let large = [b'x'; 4096];
        tokio::task::yield_now().await;
        ctx.response.body.set_bytes(&large[..]);
    }));
    #[cfg(feature = "compress")]
    check(Server::new().service(wrap(corehttp::middleware::Compress::new(), hello)));
}

/// A frame of a client with this payload.
#[cfg(feature = "websocket")]
fn masked(payload: &[u8]) -> Vec<u8> {
    let len = payload.len() as u16;
    let head = [&[0x82, 0xfe][..], &len.to_be_bytes(), &[0; 4]].concat();
    [&head[..], payload].concat()
}

/// Messages of up to 16 KiB allocate nothing: one at a time, many at once, and between two tasks.
#[cfg(feature = "websocket")]
#[test]
fn messages_of_a_websocket_allocate_nothing() {
    use corehttp::websocket::{self, WebSocket};

    /// Tells how often its thread has allocated by the last bytes of a message.
    fn told(message: &mut [u8]) {
        let end = message.len() - 8;
        message[end..].copy_from_slice(&allocations().to_be_bytes());
    }

    let echo = async |ctx: &mut Context| -> corehttp::Result {
        let mut socket = ctx.websocket(&websocket::Options::default()).await?;
        let WebSocket { reader, writer, .. } = &mut socket;
        let mut copy = Vec::with_capacity(16 << 10);
        while let Some(message) = reader.receive().await? {
            copy.clear();
            copy.extend_from_slice(message.as_bytes());
            told(&mut copy);
            writer.send(&copy).await?;
        }
        Ok(())
    };
    for (len, messages) in [(126, 1), (126, 16), (2000, 16), ((16 << 10) - 1, 1)] {
        let running = Server::bind("127.0.0.1:0").cores(1).start(echo).unwrap();
        let mut peer = TcpStream::connect(running.local_addr()).unwrap();
        peer.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        let head = "GET / HTTP/1.1\r\nhost: a\r\nconnection: upgrade\r\nupgrade: websocket\r\n\
                    sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
        peer.write_all(head.as_bytes()).unwrap();
        let mut received = vec![0; 1];
        while !received.ends_with(b"\r\n\r\n") {
            let mut octet = [0];
            peer.read_exact(&mut octet).unwrap();
            received.push(octet[0]);
        }
        let batch = masked(&vec![7; len]).repeat(messages);
        let mut answer = vec![0; (len + 4) * messages];
        let mut exchange = || {
            peer.write_all(&batch).unwrap();
            peer.read_exact(&mut answer).unwrap();
            u64::from_be_bytes(answer[answer.len() - 8..].try_into().unwrap())
        };
        // A handler yields after 1,024 messages, and the first one that does has the runtime make its list of deferred
        // wakers.
        let warm = (0..2 * WARM_UP).map(|_| exchange()).last().unwrap();
        let last = (0..200).map(|_| exchange()).last().unwrap();
        assert_eq!(last - warm, 0, "{messages} messages of {len} bytes");
        running.stop(Duration::ZERO);
        running.wait().unwrap();
    }
}
