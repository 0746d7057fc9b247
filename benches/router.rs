//! Question: what does a router cost above its bare handler, beside those of others?
//!
//! 100 routes of GitHub's API, and a GET whose route has two parameters, which the handler reads. `exchange` is a whole
//! exchange in memory: a handler without a router, one in `routes!`, and one in a `Router`. The distance of a router's row
//! above the first one is its cost: the search, the call of the handler, and the two parameters. It is to be at most 60 ns.
//!
//! The others do not run in such an exchange. `axum` is its `Router`, called as the service of tower that it is, with a
//! request that is made before: `axum/bare` is the same handler as a service, without a router. `lookup` is the search
//! alone, with both parameters read: of matchit, which is axum's, of actix and of xitca. Nothing is responded there, and
//! methods do not count. The rows of fasthttp/router are `go test -bench . ` in `compare/go`, with and without it.
//!
//! ```text
//! cargo bench --features routers --bench router
//! ```

use std::convert::Infallible;
use std::future::Future;
use std::hint::black_box;
use std::pin::pin;
use std::task::{self, Poll, Waker};
use std::time::Duration;

use axum::body::Body;
use axum::extract::Path;
use axum::routing::{MethodFilter, on};
use corehttp::{Context, Handler, IntoHandler, Method, Router, Server, routes};
use corehttp_benches::alloc::Counting;
use corehttp_benches::fake::{Cut, FakeConn};
use corehttp_benches::github_api;
use corehttp_benches::github_api::ROUTES;
use corehttp_benches::report::Report;
use corehttp_benches::workload::Workload;
use criterion::{BatchSize, Criterion, SamplingMode};
use tower_service::Service;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn main() {
    let mut criterion = Criterion::default().configure_from_args();
    let mut report = Report::default();
    exchange(&mut criterion, &mut report);
    axum_alone(&mut criterion);
    lookup(&mut criterion);
    criterion.final_summary();
    if std::env::args().any(|arg| arg == "--bench") {
        report.print();
    }
}

const PATH: &str = "/repos/rust-lang/cargo/stargazers";

const REQUEST: &str = "GET /repos/rust-lang/cargo/stargazers HTTP/1.1\r\n\
    Host: api.example.com\r\n\
    User-Agent: Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0\r\n\
    Accept: application/json\r\n\r\n";

const HELLO: &str = "Hello, world!";

/// Both parameters of the route, as text.
const PARAMS_LEN: usize = "rust-lang".len() + "cargo".len();

macro_rules! fixed {
    ($($method:ident $pattern:literal,)*) => { routes! { $($method $pattern => show),* } };
}

fn added() -> Router {
    ROUTES.iter().fold(Router::new(), |router, (method, pattern)| {
        let method = Method::parse(method.as_bytes()).expect("it is a method");
        router.route(method, pattern, show).expect("it is a route")
    })
}

fn show(ctx: &mut Context) -> corehttp::Result {
    let params = ctx.request.params();
    assert_eq!(params.get("owner")?.len() + params.get("repo")?.len(), PARAMS_LEN);
    ctx.response.set_text(HELLO);
    Ok(())
}

fn show_bare(ctx: &mut Context) {
    ctx.response.set_text(HELLO);
}

/// Question: what does a router of corehttp cost in an exchange?
fn exchange(criterion: &mut Criterion, report: &mut Report) {
    bench_exchange(criterion, report, "bare", show_bare.into_handler());
    bench_exchange(criterion, report, "routes!", github_api!(fixed));
    bench_exchange(criterion, report, "Router", added());
}

fn bench_exchange(
    criterion: &mut Criterion,
    report: &mut Report,
    name: &str,
    handler: impl Handler + 'static,
) {
    let workload = Workload { request: REQUEST.as_bytes(), cut: Cut::Never, per_connection: 10_000 };
    let service = Server::new().service(handler);
    let serve = async |io: FakeConn| service.serve_connection(io).await.expect("it is served to the end");
    assert!(workload.response(&serve).starts_with(b"HTTP/1.1 200 OK\r\n"), "{name} finds the handler");
    let mut group = criterion.benchmark_group("exchange");
    group.sampling_mode(SamplingMode::Flat).sample_size(50);
    group.warm_up_time(Duration::from_millis(300)).measurement_time(Duration::from_millis(1200));
    report.bench(&mut group, ("exchange", name), workload, serve);
    group.finish();
}

/// Question: what does axum's router cost above its handler?
fn axum_alone(criterion: &mut Criterion) {
    let router = ROUTES.iter().fold(axum::Router::new(), |router, (method, pattern)| {
        let method = axum::http::Method::from_bytes(method.as_bytes()).expect("it is a method");
        let filter = MethodFilter::try_from(method).expect("axum has the method");
        match *pattern {
            "/repos/{owner}/{repo}/stargazers" => router.route(pattern, on(filter, axum_show)),
            pattern => router.route(pattern, on(filter, async || HELLO)),
        }
    });
    let bare = tower::service_fn(async |_: axum::http::Request<Body>| {
        Ok::<_, Infallible>(axum::response::IntoResponse::into_response(HELLO))
    });
    bench_service(criterion, "bare", bare);
    bench_service(criterion, "Router", router);
}

async fn axum_show(Path((owner, repo)): Path<(String, String)>) -> &'static str {
    assert_eq!(owner.len() + repo.len(), PARAMS_LEN);
    HELLO
}

fn bench_service<S>(criterion: &mut Criterion, name: &str, mut service: S)
where
    S: Service<axum::http::Request<Body>, Response = axum::response::Response, Error = Infallible>,
{
    let request = || axum::http::Request::get(PATH).body(Body::empty()).expect("it is a request");
    let mut call = |request| {
        let Ok(response) = now(service.call(request));
        assert_eq!(response.status(), 200);
    };
    let mut group = criterion.benchmark_group("axum");
    group.bench_function(name, |bencher| {
        bencher.iter_batched(request, &mut call, BatchSize::SmallInput);
    });
    group.finish();
}

/// The output of a future that does not wait.
fn now<F: Future>(future: F) -> F::Output {
    match pin!(future).poll(&mut task::Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => output,
        Poll::Pending => panic!("there is nothing to wait for"),
    }
}

/// Question: what does it cost others to find the route alone, and to read both parameters?
fn lookup(criterion: &mut Criterion) {
    let mut patterns: Vec<&str> = ROUTES.iter().map(|(_, pattern)| *pattern).collect();
    patterns.dedup();
    let mut group = criterion.benchmark_group("lookup");

    let mut matchit = matchit::Router::new();
    patterns.iter().for_each(|pattern| matchit.insert(*pattern, *pattern).expect("it is a route"));
    group.bench_function("matchit", |bencher| {
        bencher.iter(|| {
            let found = matchit.at(black_box(PATH)).expect("there is such a route");
            let len = |name| found.params.get(name).map_or(0, str::len);
            assert_eq!(len("owner") + len("repo"), PARAMS_LEN);
        });
    });

    let mut xitca = xitca_router::Router::new();
    for pattern in &patterns {
        let pattern = pattern.replace("{*", "*").replace('{', ":").replace('}', "");
        xitca.insert(pattern, ()).expect("it is a route");
    }
    group.bench_function("xitca", |bencher| {
        bencher.iter(|| {
            let found = xitca.at(black_box(PATH)).expect("there is such a route");
            let len = |name| found.params.get(name).map_or(0, |value: &str| value.len());
            assert_eq!(len("owner") + len("repo"), PARAMS_LEN);
        });
    });

    let mut actix = actix_router::Router::<&str>::build();
    for pattern in &patterns {
        actix.path(pattern.replace("{*path}", "{path:.*}"), "");
    }
    let actix = actix.finish();
    group.bench_function("actix", |bencher| {
        bencher.iter(|| {
            let mut path = actix_router::Path::new(black_box(PATH));
            assert!(actix.recognize(&mut path).is_some());
            let len = |name| path.get(name).map_or(0, str::len);
            assert_eq!(len("owner") + len("repo"), PARAMS_LEN);
        });
    });
    group.finish();
}
