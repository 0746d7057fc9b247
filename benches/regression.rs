//! Question: does anything cost more instructions than it did?
//!
//! Callgrind (of valgrind) counts the instructions of whole processes, and of each workload there are two: one of 100
//! rounds and one of 10,000. The difference is 9,900 rounds, warm, and nothing else; it depends on no clock, no
//! seed and no other work of the machine. There is no way to the crate's inner functions from here, so each row is an
//! exchange in memory in which the piece that it is named after is most of the work. A row that grows by more than 5%
//! over `regression.txt` fails. Another compiler writes other instructions, and another valgrind may show another
//! processor: with other tools than those that are written down there, a row may grow by 25%.
//!
//! The code that is counted is built in a profile of its own, which has no link-time optimization: it is built much
//! sooner, and compared with itself only.
//!
//! ```text
//! cargo regression                   # all rows, a quarter of a minute
//! cargo regression server            # some rows
//! cargo regression --accept          # writes the counts down as what is expected
//! ```
//!
//! Where the instructions of a row are spent, `callgrind_annotate` says: its notes lie in the folder `callgrind` beside
//! this program.

use std::env;
use std::fs::{self, File};
use std::hint::black_box;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, SystemTime};

use corehttp::access_log::{self, AccessLog};
use corehttp::fs::{FileCacheLimits, Files};
use corehttp::metrics::Metrics;
use corehttp::middleware::{ConcurrencyLimit, Hsts, guard, limits, wrap};
use corehttp::server::ExchangeReport;
use corehttp::{BodyPlan, Client, Context, Handler, IntoHandler, Request, Response, Server, Status, routes};
use corehttp_benches::alloc::Counting;
use corehttp_benches::baseline::Baseline;
use corehttp_benches::fake::{Cut, FakeConn};
use corehttp_benches::handlers::{SERVER_NAME, respond};
use corehttp_benches::heads::{CHROME, FIREFOX, GET};
use corehttp_benches::scripted::Script;
use corehttp_benches::workload::{Workload, runtime};
use corehttp_benches::{callgrind, github_api};

// The counts on record have its instructions among them.
#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn main() -> ExitCode {
    let args: Vec<String> = env::args().skip(1).collect();
    match &args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["run", name, rounds] => run(name, rounds.parse().expect("a number of rounds")),
        // By `cargo test`.
        args if !args.contains(&"--bench") => ExitCode::SUCCESS,
        args if !is_own_profile() => {
            println!("counted by `cargo regression`, which builds what is comparable");
            ExitCode::from(u8::from(args.contains(&"--accept")))
        }
        args => match compare(args) {
            Ok(is_good) => ExitCode::from(u8::from(!is_good)),
            Err(why) => {
                eprintln!("{why}");
                ExitCode::FAILURE
            }
        },
    }
}

/// The name of a row, and the function that does so many rounds of it.
type Row = (&'static str, fn(u64));

const ROWS: [Row; 17] = [
    ("server exchange, pipelined", |rounds| serve(GET, Cut::Never, rounds, respond)),
    ("server exchange", |rounds| serve(GET, Cut::WHOLE, rounds, respond)),
    ("routed exchange", |rounds| serve(GET, Cut::WHOLE, rounds, routed())),
    ("routed with parameters", |rounds| serve(STARGAZERS, Cut::WHOLE, rounds, routed())),
    ("layered exchange", |rounds| serve(GET, Cut::WHOLE, rounds, layered())),
    ("not found", |rounds| {
        serve_status(b"HTTP/1.1 404 Not Found\r\n", UNKNOWN, Cut::WHOLE, rounds, routed())
    }),
    ("head parse", |rounds| serve(CHROME, Cut::Never, rounds, respond)),
    ("response head", |rounds| serve(GET, Cut::Never, rounds, set_fields)),
    ("chunked decode", |rounds| serve(chunked(), Cut::Never, rounds, expect_chunks)),
    ("chunked encode", |rounds| serve(GET, Cut::Never, rounds, write_chunks)),
    ("body in tokens", |rounds| serve(GET, Cut::Never, rounds, write_tokens)),
    ("client exchange", ask),
    ("gateway exchange", pass),
    ("cached file", serve_file),
    ("reported exchange", |rounds| see(Server::new().on_exchange(look), rounds)),
    ("logged exchange", log),
    ("measured exchange", |rounds| see(Server::new().observe(Metrics::new()), rounds)),
];

fn run(name: &str, rounds: u64) -> ExitCode {
    let (_, run) = ROWS.iter().find(|row| row.0 == name).expect("a row of that name");
    run(rounds);
    ExitCode::SUCCESS
}

/// Has `request` answered so many times, on one connection.
fn serve<Kind>(request: &'static str, cut: Cut, rounds: u64, handler: impl IntoHandler<Kind>) {
    serve_status(b"HTTP/1.1 200 OK\r\n", request, cut, rounds, handler);
}

/// As [`serve`], with a response of this status.
fn serve_status<Kind>(
    status: &[u8],
    request: &'static str,
    cut: Cut,
    rounds: u64,
    handler: impl IntoHandler<Kind>,
) {
    serve_by(Server::new(), status, request, cut, rounds, handler);
}

/// As [`serve_status`], by this server.
fn serve_by<Kind>(
    server: Server,
    status: &[u8],
    request: &'static str,
    cut: Cut,
    rounds: u64,
    handler: impl IntoHandler<Kind>,
) {
    let service = server.name(SERVER_NAME).expect("a valid name").service(handler);
    let serve = async |io: FakeConn| service.serve_connection(io).await.expect("it is served to the end");
    let workload = Workload { request: request.as_bytes(), cut, per_connection: rounds };
    let response = workload.response(&serve);
    assert!(response.starts_with(status), "{}", response.escape_ascii());
    let sample = workload.run(rounds, &runtime(), &serve);
    assert_eq!(sample.written, rounds * response.len() as u64, "every request was answered in full");
}

macro_rules! routed {
    ($($method:ident $pattern:literal,)*) => {
        routes! { $($method $pattern => respond_by_params,)* GET "/foobar" => respond }
    };
}

/// 101 routes, and the last of them for [`GET`].
fn routed() -> impl Handler {
    github_api!(routed)
}

/// Four layers of middleware around the handler of a route: compare with `routed exchange`.
fn layered() -> impl Handler {
    let has_agent = |ctx: &mut Context| -> corehttp::Result {
        ctx.request.headers.get("user-agent").map(drop).ok_or(Status::FORBIDDEN.into())
    };
    let layers = (
        ConcurrencyLimit::new(64),
        Hsts::new(Duration::from_secs(3600)),
        limits(|limits| limits.body_max = 4096),
        guard(has_agent),
    );
    wrap(layers, routes! { GET "/foobar" => respond })
}

/// Responds as [`respond`] does, with two parameters read.
fn respond_by_params(ctx: &mut Context) -> corehttp::Result {
    let params = ctx.request.params();
    assert_eq!((&*params.get("owner")?, &*params.get("repo")?), ("rust-lang", "cargo"));
    respond(ctx)
}

/// [`GET`] with another path, which is 20 bytes longer.
const STARGAZERS: &str = "GET /repos/rust-lang/cargo/stargazers HTTP/1.1\r\n\
    Host: google.com\r\n\
    User-Agent: aaa/bbb/ccc/ddd/eee Firefox Chrome MSIE Opera\r\n\
    Referer: http://example.com/aaa?bbb=ccc\r\n\
    Cookie: foo=bar; baz=baraz; aa=aakslsdweriwereowriewroire\r\n\r\n";

/// [`GET`] with a path that has no route.
const UNKNOWN: &str = "GET /foobaz?baz HTTP/1.1\r\n\
    Host: google.com\r\n\
    User-Agent: aaa/bbb/ccc/ddd/eee Firefox Chrome MSIE Opera\r\n\
    Referer: http://example.com/aaa?bbb=ccc\r\n\
    Cookie: foo=bar; baz=baraz; aa=aakslsdweriwereowriewroire\r\n\r\n";

/// Has [`GET`] answered so many times by the handler of a route, on a server that sees each exchange: compare with
/// `routed exchange`.
fn see(server: Server, rounds: u64) {
    let handler = routes! { GET "/foobar" => respond };
    serve_by(server, b"HTTP/1.1 200 OK\r\n", GET, Cut::WHOLE, rounds, handler);
}

fn look(exchange: &ExchangeReport) {
    black_box(exchange.duration);
}

/// Has each exchange logged. The thread of the log wakes up fifty times a second, which adds up to 80 instructions to a round of a busy machine.
fn log(rounds: u64) {
    let log = AccessLog::from_writer(io::sink(), access_log::Format::Combined).expect("a log");
    see(Server::new().observe(log.clone()), rounds);
}

/// Has a picture of 4 KiB asked for so many times. It is in the cache by the second time.
fn serve_file(rounds: u64) {
    let root = tempfile::tempdir().expect("a directory");
    let folder = root.path().join("static/img");
    fs::create_dir_all(&folder).expect("a folder");
    let mut picture = File::create(folder.join("logo.webp")).expect("a file");
    picture.write_all(&[b'x'; 4096]).expect("a picture");
    // Its date is in the response, and other digits take other instructions.
    picture.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(784_111_777)).expect("a date");
    let cached = FileCacheLimits { fresh: Duration::from_secs(3600), ..FileCacheLimits::default() };
    let files = Files::new(root.path()).expect("the root is there").cache(cached);
    serve(FIREFOX, Cut::Never, rounds, files.cache_control("*", "max-age=3600").expect("a good field"));
}

/// The fields of a page of a shop.
fn set_fields(ctx: &mut Context) -> corehttp::Result {
    let headers = &mut ctx.response.headers;
    for (name, value) in [
        ("content-type", "text/html; charset=utf-8"),
        ("cache-control", "private, max-age=0, must-revalidate"),
        ("etag", "\"33a64df551425fcc55e4d42a148795d9f25f89d4\""),
        ("vary", "accept-encoding, cookie"),
        ("content-language", "en"),
        ("content-security-policy", "default-src 'self'; img-src 'self' data:; frame-ancestors 'none'"),
        ("strict-transport-security", "max-age=63072000; includeSubDomains; preload"),
        ("referrer-policy", "strict-origin-when-cross-origin"),
        ("x-content-type-options", "nosniff"),
        ("x-frame-options", "DENY"),
        ("permissions-policy", "camera=(), microphone=(), geolocation=()"),
        ("x-request-id", "7b0f6d1e-3a55-4f0e-9d6c-0f9a7a3e2f11"),
    ] {
        headers.set(name, value)?;
    }
    Ok(())
}

/// A request with a body of [`CHUNKS`].
fn chunked() -> &'static str {
    let size = PIECE.len();
    let chunks: String = (0..CHUNKS).map(|_| format!("{size:x}\r\n{PIECE}\r\n")).collect();
    format!("POST / HTTP/1.1\r\nhost: example.com\r\ntransfer-encoding: chunked\r\n\r\n{chunks}0\r\n\r\n")
        .leak()
}

fn expect_chunks(ctx: &mut Context) {
    assert_eq!(ctx.request.body.len(), CHUNKS * PIECE.len());
}

async fn write_chunks(ctx: &mut Context) -> corehttp::Result {
    let mut writer = ctx.body_writer().await?;
    for _ in 0..CHUNKS {
        writer.write_all(PIECE.as_bytes()).await?;
    }
    Ok(writer.finish().await?)
}

/// Writes a body as a serializer does, a token at a time.
fn write_tokens(ctx: &mut Context) -> corehttp::Result {
    for _ in 0..ITEMS {
        for token in
            ["{", "\"", "id", "\"", ":", "1234567890", ",", "\"", "name", "\"", ":", "\"", "a row", "\"", "}"]
        {
            ctx.response.body.write_all(token.as_bytes())?;
        }
    }
    Ok(())
}

const ITEMS: usize = 16;

const CHUNKS: usize = 64;
const PIECE: &str = "{\"id\":1234567890,\"name\":\"a row\"}";

/// Asks so many times, on one connection.
fn ask(rounds: u64) {
    let client = Client::builder().dialer(Script(RESPONSE.as_bytes())).build();
    let request = Request::get("http://example.com/foobar?baz").expect("a good URL");
    let mut response = Response::new();
    runtime().block_on(async {
        for _ in 0..rounds {
            client.send(&request, &mut response).await.expect("a response");
            assert_eq!(response.body.bytes(), b"Hello, world!");
        }
    });
}

/// Passes so many requests on, from one connection to another.
fn pass(rounds: u64) {
    let host = Client::builder().dialer(Script(RESPONSE.as_bytes())).build().host("http://example.com");
    let host = host.expect("a good URL");
    let pass = async move |ctx: &mut Context| -> corehttp::Result {
        let mut onward = ctx.request.forwarded_to("/")?;
        onward.headers.append("via", "1.1 front")?;
        ctx.forward(host.open_call(&onward)).await
    };
    serve(GET, Cut::WHOLE, rounds, wrap(BodyPlan::Stream, pass));
}

const RESPONSE: &str = "HTTP/1.1 200 OK\r\n\
    content-type: text/plain\r\n\
    server: corehttp\r\n\
    date: Sat, 21 Nov 2026 10:52:28 GMT\r\n\
    content-length: 13\r\n\r\n\
    Hello, world!";

/// Counts the rows that are wanted, and holds them against the baseline. Says whether none has grown too much.
fn compare(args: &[&str]) -> Result<bool, String> {
    let wanted: Vec<&str> = args.iter().copied().filter(|arg| !arg.starts_with("--")).collect();
    let is_wanted = |name: &str| wanted.is_empty() || wanted.iter().any(|part| name.contains(part));
    let rows: Vec<&str> = ROWS.iter().map(|row| row.0).filter(|name| is_wanted(name)).collect();
    if rows.is_empty() {
        return Err(format!("no row is called {wanted:?}"));
    }
    let (mut baseline, mut is_good) = (Baseline::read()?, true);
    let other_tools = baseline.other_tools();
    if args.contains(&"--accept") && rows.len() < ROWS.len() && other_tools.is_some() {
        return Err(
            "with other tools all rows are to be accepted: the file says once what counted them".to_owned()
        );
    }
    let growth_max = if other_tools.is_some() { GROWTH_BY_TOOLS_MAX } else { GROWTH_MAX };
    println!("{:<28}{:>12}{:>12}{:>10}", "instructions a round", "expected", "counted", "change");
    for name in rows {
        let counted = count(name)?;
        let growth = baseline.get(name).map(|expected| counted as f64 / expected as f64);
        let expected = baseline.get(name).map_or("nothing".to_owned(), |expected| expected.to_string());
        let change = growth.map_or(String::new(), |growth| format!("{:+.2}%", (growth - 1.0) * 100.0));
        let has_grown = growth.is_none_or(|growth| growth > growth_max);
        let verdict = if has_grown { "TOO MUCH" } else { "" };
        println!("{name:<28}{expected:>12}{counted:>12}{change:>10}  {verdict}");
        is_good &= !has_grown;
        baseline.set(name, counted);
    }
    if args.contains(&"--accept") {
        baseline.write(ROWS.iter().map(|row| row.0)).map_err(|error| error.to_string())?;
        return Ok(true);
    }
    if let Some(tools) = other_tools {
        println!("{tools}: a row may grow by {:.0}%", (growth_max - 1.0) * 100.0);
    }
    if !is_good {
        println!("where they are spent: callgrind_annotate '{}'", notes("ROW", MANY).display());
        println!("if they are well spent: cargo regression --accept");
    }
    Ok(is_good)
}

const GROWTH_MAX: f64 = 1.05;
/// Where whose fault it is nobody can say.
const GROWTH_BY_TOOLS_MAX: f64 = 1.25;

/// How many instructions a warm round of this row takes.
fn count(name: &str) -> Result<u64, String> {
    let count = |rounds: u64| callgrind::count(&["run", name, &rounds.to_string()], &notes(name, rounds));
    Ok((count(MANY)? - count(FEW)?) / (MANY - FEW))
}

const FEW: u64 = 100;
const MANY: u64 = 10_000;

fn notes(name: &str, rounds: u64) -> PathBuf {
    callgrind::folder().join(format!("{}.{rounds}", name.replace([' ', ','], "-")))
}

/// Whether this was built in the profile whose code is compared: cargo calls the folder after it.
fn is_own_profile() -> bool {
    let program = env::current_exe().expect("a program knows where it is");
    program.ancestors().nth(2).is_some_and(|built| built.ends_with("regression"))
}
