//! Questions: what does an axum app cost on corehttp, beside axum on hyper? What does a layer cost around a handler?
//!
//! The same `Router`, with a plain response, one that echoes 13 bytes, and one with a path parameter, gets the same
//! bytes over fake connections and owes the same bytes: once as a service of hyper, and once as a [`Tower`] of this
//! crate. `corehttp` is the same without axum: a handler of this crate that routes by `match`. The distance of the
//! middle row above it is the price of axum and of the types of the crate `http`, and its distance below `axum-hyper`
//! is the gain of a change of servers. `corehttp-timeout` is that handler with a time limit of tower-http around it,
//! which wraps no body: the price of the types and of the hand-over. `corehttp-trace` has a trace around it, without a
//! subscriber, which wraps the body. One op is one request, of 10,000 on a connection or of one; making the connection
//! is in it.
//!
//! ```text
//! cargo bench --features tower --bench tower
//! ```

use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::Path;
use axum::routing::{get, post};
use corehttp::middleware::wrap;
use corehttp::tower::{Tower, layer};
use corehttp::{Context, Method, Server, Status};
use corehttp_benches::alloc::Counting;
use corehttp_benches::fake::{Cut, FakeConn};
use corehttp_benches::handlers::{HELLO, hyper_builder};
use corehttp_benches::report::Report;
use corehttp_benches::workload::Workload;
use criterion::{Criterion, SamplingMode};
use hyper::StatusCode;
use hyper::body::Incoming;
use hyper::service::service_fn;
use tower_http::timeout::TimeoutLayer;
use tower_http::trace::TraceLayer;
use tower_service::Service;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn main() {
    let mut criterion = Criterion::default().configure_from_args();
    let mut report = Report::default();
    for (name, request, body) in APPS {
        for per_connection in [1, 10_000] {
            let name = format!("{name}/{per_connection}");
            let workload = Workload { request: request.as_bytes(), cut: Cut::Never, per_connection };
            bench_peers(&mut criterion, &mut report, &name, workload, body);
        }
    }
    criterion.final_summary();
    if std::env::args().any(|arg| arg == "--bench") {
        report.print();
    }
}

/// The requests to the app, and its responses.
const APPS: [(&str, &str, &str); 3] =
    [("plain", PLAIN, HELLO), ("echo", ECHO, HELLO), ("path", PATH, "Hello, Ada!")];

const PLAIN: &str = "GET /plain HTTP/1.1\r\n\
    Host: example.com\r\n\
    User-Agent: Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0\r\n\
    Accept: text/html,application/xhtml+xml,*/*;q=0.8\r\n\
    Accept-Encoding: gzip, deflate, br\r\n\
    Cookie: foo=bar; session=aakslsdweriwereowriewroire\r\n\r\n";

const PATH: &str = "GET /hello/Ada HTTP/1.1\r\n\
    Host: example.com\r\n\
    User-Agent: Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0\r\n\
    Accept: text/html,application/xhtml+xml,*/*;q=0.8\r\n\
    Accept-Encoding: gzip, deflate, br\r\n\
    Cookie: foo=bar; session=aakslsdweriwereowriewroire\r\n\r\n";

const ECHO: &str = "POST /echo HTTP/1.1\r\n\
    Host: example.com\r\n\
    Content-Type: text/plain\r\n\
    Content-Length: 13\r\n\
    User-Agent: Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0\r\n\
    Cookie: foo=bar; session=aakslsdweriwereowriewroire\r\n\r\n\
    Hello, world!";

/// The app, as users of axum write it.
fn app() -> Router {
    Router::new()
        .route("/plain", get(async || HELLO))
        .route("/echo", post(async |body: String| body))
        .route("/hello/{name}", get(async |Path(name): Path<String>| format!("Hello, {name}!")))
}

/// The app, as a handler of this crate.
fn respond(ctx: &mut Context) -> corehttp::Result {
    let Context { request, response, .. } = ctx;
    match (request.method(), request.path()) {
        (Method::Get, "/plain") => response.set_text(HELLO),
        (Method::Post, "/echo") => response.set_text(request.text()?),
        (Method::Get, path) => match path.strip_prefix("/hello/") {
            Some(name) => response.set_text(format!("Hello, {name}!")),
            None => return Err(Status::NOT_FOUND.into()),
        },
        _ => return Err(Status::NOT_FOUND.into()),
    }
    Ok(())
}

fn bench_peers(criterion: &mut Criterion, report: &mut Report, name: &str, workload: Workload, body: &str) {
    let own = Server::new().service(respond);
    let own = async |io: FakeConn| own.serve_connection(io).await.expect("corehttp serves to the end");
    let limit = TimeoutLayer::with_status_code(StatusCode::REQUEST_TIMEOUT, Duration::from_secs(10));
    let limited = Server::new().service(wrap(layer(limit), respond));
    let limited =
        async |io: FakeConn| limited.serve_connection(io).await.expect("corehttp serves to the end");
    let traced = Server::new().service(wrap(layer(TraceLayer::new_for_http()), respond));
    let traced = async |io: FakeConn| traced.serve_connection(io).await.expect("corehttp serves to the end");
    let tower = Server::new().service(Tower::new(app()));
    let tower = async |io: FakeConn| tower.serve_connection(io).await.expect("corehttp serves to the end");
    let (builder, app) = (hyper_builder(), app());
    let hyper = async |io: FakeConn| {
        let service =
            service_fn(|request: hyper::Request<Incoming>| app.clone().call(request.map(Body::new)));
        builder.serve_connection(io, service).await.expect("hyper serves to the end");
    };
    let responses = [
        workload.response(&own),
        workload.response(&limited),
        workload.response(&traced),
        workload.response(&tower),
        workload.response(&hyper),
    ];
    responses.iter().for_each(|response| assert_same_response(response, body));

    let mut group = criterion.benchmark_group(name);
    group.sampling_mode(SamplingMode::Flat).sample_size(30);
    group.warm_up_time(Duration::from_millis(300)).measurement_time(Duration::from_millis(1200));
    report.bench(&mut group, (name, "corehttp"), workload, own);
    report.bench(&mut group, (name, "corehttp-timeout"), workload, limited);
    report.bench(&mut group, (name, "corehttp-trace"), workload, traced);
    report.bench(&mut group, (name, "axum-corehttp"), workload, tower);
    report.bench(&mut group, (name, "axum-hyper"), workload, hyper);
    group.finish();
}

/// Every peer says the same; the order and case of names is its own.
fn assert_same_response(response: &[u8], expected: &str) {
    let response = String::from_utf8_lossy(response);
    let (head, body) = response.split_once("\r\n\r\n").expect("a head and a body");
    assert_eq!(body, expected);
    let mut lines: Vec<_> = head.lines().map(str::to_ascii_lowercase).collect();
    lines.sort_unstable();
    let [length, kind, date, status] = &lines[..] else { panic!("four lines in {head}") };
    assert_eq!(*length, format!("content-length: {}", body.len()));
    assert_eq!((&**kind, &**status), ("content-type: text/plain; charset=utf-8", "http/1.1 200 ok"));
    assert!(date.starts_with("date: ") && date.ends_with(" gmt"), "{date}");
}
