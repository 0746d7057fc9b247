//! Metrics: the sums of all classes are the totals, whatever peers, handlers and stops do.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::io::Read;
use std::str::FromStr;
use std::sync::{Arc, Barrier, Mutex};
use std::time::Duration;

use corehttp::metrics::{self, HistogramCounts, Metrics, RouteCounts};
use corehttp::middleware::{ConcurrencyLimit, CrossOriginProtection, HttpsRedirect, RateLimit, guard, wrap};
use corehttp::server::ExchangeReport;
use corehttp::{BodyPlan, Context, Request, Router, Server, Status, Timeouts, block_on, routes};

use crate::support::chance::{Chance, check_histories};
use crate::support::{Served, eventually, get, is_over_with_its_head};

fn hello(ctx: &mut Context) {
    ctx.response.set_text("hello");
}

/// The number of exchanges of a route and a class, and the sums of their times and bytes.
#[derive(Clone, Debug, Default, PartialEq)]
struct Sums {
    count: u64,
    handled: u64,
    responded: u64,
    until_handler: u128,
    until_response: u128,
    duration: u128,
}

/// The sums of the reports of exchanges.
#[derive(Clone, Debug, Default, PartialEq)]
struct Model {
    classes: BTreeMap<(String, &'static str), Sums>,
    cuts: BTreeMap<&'static str, u64>,
    received: BTreeMap<String, (u64, u64)>,
    sent: BTreeMap<String, (u64, u64)>,
}

impl Model {
    fn note(&mut self, report: &ExchangeReport) {
        let pattern = report.matched_pattern().unwrap_or("(none)").to_owned();
        let class = match report.status.map(Status::as_u16) {
            None => "none",
            Some(..200) => "1xx",
            Some(..300) => "2xx",
            Some(..400) => "3xx",
            Some(..500) => "4xx",
            Some(_) => "5xx",
        };
        let sums = self.classes.entry((pattern.clone(), class)).or_default();
        sums.count += 1;
        report.cut.iter().for_each(|cut| *self.cuts.entry(cut.as_str()).or_default() += 1);
        sums.handled += u64::from(report.until_handler.is_some());
        sums.responded += u64::from(report.status.is_some());
        sums.until_handler += report.until_handler.unwrap_or_default().as_nanos();
        sums.until_response += report.until_response.unwrap_or_default().as_nanos();
        sums.duration += report.duration.as_nanos();
        for (sizes, size) in [(&mut self.received, report.received), (&mut self.sent, report.sent)] {
            let (count, sum) = sizes.entry(pattern.clone()).or_default();
            (*count, *sum) = (*count + 1, *sum + size);
        }
    }

    fn from_metrics(metrics: &Metrics) -> Model {
        let mut model = Model::default();
        let both = |counts: &HistogramCounts| (counts.count(), counts.sum());
        for RouteCounts { pattern, classes, received, sent, .. } in metrics.routes() {
            for class in classes.iter().filter(|class| class.duration.count() > 0) {
                let sums = Sums {
                    count: class.duration.count(),
                    handled: class.until_handler.count(),
                    responded: class.until_response.count(),
                    until_handler: class.until_handler.sum().into(),
                    until_response: class.until_response.sum().into(),
                    duration: class.duration.sum().into(),
                };
                model.classes.insert((pattern.clone(), class.class), sums);
            }
            model.received.insert(pattern.clone(), both(&received));
            model.sent.insert(pattern.clone(), both(&sent));
        }
        let text = metrics.to_text(metrics::Format::Prometheus);
        for by in ["peer", "timeout", "stop", "handler"] {
            let cuts = sample(&text, &format!("corehttp_exchanges_cut_total{{core=\"0\",by=\"{by}\"}}"));
            model.cuts.extend((cuts > 0).then_some((by, cuts)));
        }
        model
    }

    fn count(&self) -> u64 {
        self.classes.values().map(|sums| sums.count).sum()
    }
}

/// The value of a sample in a text.
#[track_caller]
fn sample<T: FromStr<Err: Debug>>(text: &str, name: &str) -> T {
    let line =
        text.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_else(|| panic!("{name}: {text}"));
    line.trim().parse().unwrap()
}

/// The behavior of a peer on a connection of its own.
#[derive(Clone, Debug)]
enum Step {
    /// Sends requests for these paths at once, and reads all.
    Asks(Vec<&'static str>),
    /// Sends what is no request.
    Broken,
    /// Sends a part of a request, or of its body, and leaves.
    Partly(usize),
    /// Reads a part of the response, and resets the connection.
    Leaves(&'static str),
}

impl Step {
    fn draw(chance: &mut Chance) -> Step {
        match chance.below(6) {
            0 => Step::Broken,
            1 => Step::Partly(1 + chance.below(PARTLY.len() - 1)),
            2 => Step::Leaves(chance.one_of(&["/streamed", "/large"])),
            _ => Step::Asks((0..=chance.below(4)).map(|_| chance.one_of(PATHS)).collect()),
        }
    }

    fn play(&self, served: &Served) {
        match self {
            Step::Asks(paths) => drop(served.ask(paths.iter().map(|path| get(path)).collect::<String>())),
            Step::Broken => drop(served.ask("broken\r\n\r\n")),
            Step::Partly(len) => drop(served.ask(&PARTLY[..*len])),
            Step::Leaves(path) => {
                let mut peer = served.connect();
                peer.send(get(path));
                peer.stream.read_exact(&mut [0; 10]).unwrap();
                peer.reset();
            }
        }
    }
}

const PARTLY: &str = "POST /hello/Ada HTTP/1.1\r\nhost: a\r\ncontent-length: 5\r\n\r\nhello";
const PATHS: &[&str] = &[
    "/hello/Ada",
    "/hello/Bob",
    "/none",
    "/breaks",
    "/panics",
    "/fails",
    "/sleeps",
    "/refused",
    "/other/1",
    "/drops",
];

/// A value that a handler leaves behind, and that panics when it is dropped.
struct PanicsOnDrop;

impl Drop for PanicsOnDrop {
    fn drop(&mut self) {
        panic_quietly();
    }
}

fn panic_quietly() {
    std::panic::resume_unwind(Box::new("without a trace"));
}

fn serve(settings: impl FnOnce(Server) -> Server) -> Served {
    let router = routes! {
        any "/hello/{name}" => hello,
        GET "/streamed" => async |ctx: &mut Context| -> corehttp::Result {
            let mut out = ctx.body_writer().await?;
            for _ in 0..10_000 {
                out.write_all(&[b'x'; 10_000]).await?;
            }
            Ok(out.finish().await?)
        },
        GET "/large" => |ctx: &mut Context| ctx.response.body.set_bytes(vec![0; 20 << 20]),
        GET "/breaks" => async |ctx: &mut Context| -> corehttp::Result {
            let mut out = ctx.body_writer().await?;
            out.write_all(b"half").await?;
            out.flush().await?;
            Err(Status::BAD_GATEWAY.into())
        },
        GET "/panics" => |_: &mut Context| panic_quietly(),
        GET "/drops" => |ctx: &mut Context| drop(ctx.extensions.insert(PanicsOnDrop)),
        GET "/fails" => |_: &mut Context| -> corehttp::Result { Err(Status::NOT_FOUND.into()) },
        GET "/sleeps" => async |ctx: &mut Context| {
            ctx.set_timeouts(Timeouts { handler: Some(Duration::ZERO), ..ctx.timeouts() });
            tokio::time::sleep(Duration::from_secs(3600)).await;
        },
        GET "/refused" => wrap(BodyPlan::Refuse(Status::FORBIDDEN), hello),
        GET "/other/{id}" => hello,
    };
    Served::with(settings, router)
}

/// Each exchange is counted once, in its class and its route, however it ends.
#[test]
fn histograms_add_up_to_the_reports_of_a_random_history() {
    for (routes_max, histories) in [(64, 16), (2, 4)] {
        let settings = metrics::Options { routes_max, times_polls: true, ..Default::default() };
        let (metrics, model) = (Metrics::with_options(settings), Arc::new(Mutex::new(Model::default())));
        let noted = model.clone();
        let served = serve(|server| {
            server.observe(metrics.clone()).on_exchange(move |report| {
                noted.lock().unwrap().note(report);
                panic_quietly();
            })
        });
        let sums = || (Model::from_metrics(&metrics), model.lock().unwrap().clone());
        let add_up = || {
            let (found, expected) = sums();
            // Beyond the bound, routes are counted together.
            if routes_max == 2 { found.count() == expected.count() } else { found == expected }
        };
        check_histories("it metrics", (histories, 12), Step::draw, |steps| {
            steps.iter().for_each(|step| step.play(&served));
            eventually("all exchanges are counted", add_up);
        });
        let pool = |name: &str| {
            let text = metrics.to_text(metrics::Format::Prometheus);
            sample::<u64>(&text, &format!("corehttp_pool_{name}{{core=\"0\",pool=\"contexts\"}}"))
        };
        eventually("free contexts are counted", || pool("created_total") > 0 && pool("reused_total") > 0);
        // The stop cuts this one.
        let mut stays = served.connect();
        stays.send(get("/streamed"));
        stays.stream.read_exact(&mut [0; 10]).unwrap();
        let running = served.running.clone();
        drop(served);
        assert!(add_up(), "{:#?}", sums());
        let (_, model) = sums();
        assert_eq!(model.cuts["stop"], 1);
        let text = metrics.to_text(metrics::Format::Prometheus);
        assert_eq!(sample::<u64>(&text, "corehttp_exchanges_open{core=\"0\"}"), 0);
        assert_eq!(sample::<u64>(&text, "corehttp_connections_open{core=\"0\"}"), 0);
        assert_eq!((pool("kept"), pool("bytes")), (0, 0));
        let waited = sample::<u64>(&text, "corehttp_accept_wait_seconds_count{core=\"0\"}");
        assert_eq!(waited, running.counts().total.accepted);
        let of_no_route = model.classes.get(&("(none)".to_owned(), "4xx"));
        let refused = of_no_route.map_or(0, |sums| sums.count - sums.handled);
        assert_eq!(running.counts().total.requests, model.count() - refused);
        assert_eq!(sample::<u64>(&text, "corehttp_requests_total{core=\"0\"}"), model.count() - refused);
        let has_none = usize::from(model.received.contains_key("(none)"));
        let patterns = model.received.len() - has_none;
        // Patterns beyond the bound share one.
        let shown = if patterns > routes_max { routes_max + 1 } else { patterns };
        assert_eq!(metrics.routes().len(), has_none + shown);
    }
}

/// Any number of distinct targets, methods and hosts is one route.
#[test]
fn peers_make_no_routes() {
    let metrics = Metrics::new();
    let served = Served::with(|server| server.observe(metrics.clone()), routes! { any "/{*rest}" => hello });
    for hundred in 0..100 {
        let get = |number| format!("M{number} /{number}?{number} HTTP/1.1\r\nhost: host{number}\r\n\r\n");
        served.ask((0..100).map(|number| get(hundred * 100 + number)).collect::<String>());
    }
    drop(served);
    let routes = metrics.routes();
    assert_eq!((routes.len(), routes[0].count()), (1, 10_000), "{routes:?}");
    assert_eq!(Vec::from_iter(routes[0].methods()), [("_OTHER", 10_000)]);
}

/// A server that follows another one goes on with its counts.
#[test]
fn servers_that_share_metrics_are_counted_together() {
    let metrics = Metrics::new();
    for round in 1..=3 {
        let servers = [(); 2].map(|()| Served::with(|server| server.observe(metrics.clone()), hello));
        servers.iter().for_each(|served| drop(served.ask(get("/") + &get("/"))));
        drop(servers);
        let text = metrics.to_text(metrics::Format::OpenMetrics);
        assert_eq!(sample::<u64>(&text, "corehttp_requests_total{core=\"0\"}"), 4 * round);
        assert_eq!(sample::<u64>(&text, "corehttp_connections_accepted_total{core=\"0\"}"), 2 * round);
        assert_eq!(metrics.routes()[0].count(), 4 * round);
    }
}

#[test]
fn a_handler_that_blocks_shows() {
    let metrics = Metrics::with_options(metrics::Options { times_polls: true, ..Default::default() });
    let sleeps = |_: &mut Context| std::thread::sleep(Duration::from_millis(12));
    let served = Served::with(|server| server.observe(metrics.clone()), sleeps);
    served.ask(get("/"));
    drop(served);
    let text = metrics.to_text(metrics::Format::Prometheus);
    assert!(sample::<u64>(&text, "corehttp_polls_slow_total{core=\"0\"}") >= 1);
    assert!(sample::<f64>(&text, "corehttp_poll_longest_seconds{core=\"0\"}") >= 0.012);
}

/// Connections that arrive while a handler blocks are accepted together, and the core turns to one after the other.
/// The number of series is what a database of metrics costs, so it is that of the documentation.
#[test]
fn routes_make_as_many_lines_as_is_said() {
    let respond = |ctx: &mut Context| {
        ctx.response.status =
            if ctx.request.query().as_str().is_empty() { Status::OK } else { Status::NOT_FOUND };
    };
    let router =
        (0..64).try_fold(Router::new(), |router, at| router.any(&format!("/{at}"), respond)).unwrap();
    let metrics = Metrics::new();
    let service = Server::new().observe(metrics.clone()).service(router);
    for (further, lines) in [("", 64 * 53), ("?a", 64 * (53 + 36))] {
        for at in 0..64 {
            block_on(service.respond(Request::get(&format!("/{at}{further}")).unwrap())).unwrap();
        }
        for format in [metrics::Format::Prometheus, metrics::Format::OpenMetrics] {
            let text = metrics.to_text(format);
            assert_eq!(text.lines().filter(|line| line.contains("route=\"/")).count(), lines, "{text}");
        }
    }
}

#[test]
fn connections_that_wait_for_a_blocked_core_show() {
    let (metrics, blocked, all_sent) = (Metrics::new(), Arc::new(Barrier::new(2)), Arc::new(Barrier::new(2)));
    let (is_blocked, goes_on) = (blocked.clone(), all_sent.clone());
    let blocks = move |ctx: &mut Context| match ctx.request.path() {
        "/first" => {
            is_blocked.wait();
            goes_on.wait();
        }
        _ => std::thread::sleep(Duration::from_millis(20)),
    };
    let served = Served::with(|server| server.observe(metrics.clone()), blocks);
    let send = |path| {
        let mut peer = served.connect();
        peer.send(get(path));
        peer
    };
    let first = send("/first");
    blocked.wait();
    let others = ["/a", "/b", "/c"].map(send);
    all_sent.wait();
    [first].into_iter().chain(others).for_each(|mut peer| drop(peer.receive_through("\r\n\r\n")));
    drop(served);
    let text = metrics.to_text(metrics::Format::Prometheus);
    let count = |le: &str| sample::<u64>(&text, &format!("corehttp_accept_wait_seconds_{le}"));
    let (all, brief) = (count("count{core=\"0\"}"), count("bucket{core=\"0\",le=\"0.016777216\"}"));
    assert!(all == 4 && brief <= 2, "{text}");
}

/// The page is told what is new, until the server stops.
#[test]
fn the_page_is_live_until_the_server_stops() {
    let metrics = Metrics::new();
    let served = Served::with(|server| server.observe(metrics.clone()), metrics::Page::new(&metrics));
    served.ask(get("/"));
    let mut page = served.connect();
    page.send(get("/?events").replace("host: a", "host: localhost"));
    let received = page.receive_through("\n\n");
    assert!(received.contains("content-type: text/event-stream"), "{received}");
    let received = page.receive_through("\n\n");
    assert!(received.contains("data: {") && received.contains("\"pattern\":\"(none)\""), "{received}");
    served.running.stop(Duration::from_secs(3600));
    page.receive_all();
    served.running.wait().unwrap();
}

/// States of codings are made once for a core, and the page and the text show how much they take.
#[cfg(feature = "compress")]
#[test]
fn the_head_of_the_live_page_does_not_hold_its_connection() {
    let head = "HEAD /?events HTTP/1.1\r\nhost: localhost\r\n\r\n";
    is_over_with_its_head(head, metrics::Page::new(&Metrics::new()));
}

#[test]
fn encoders_and_decoders_are_used_again() {
    use corehttp::Request;
    use corehttp::middleware::Compress;

    let metrics = Metrics::new();
    let content = |ctx: &mut Context| ctx.response.set_text("content ".repeat(1000));
    let service = Server::new().observe(metrics.clone()).service(wrap(Compress::new(), content));
    let counts = |pool: &str| {
        let text = metrics.to_text(metrics::Format::OpenMetrics);
        ["reused_total", "created_total", "kept", "bytes"]
            .map(|name| sample::<u64>(&text, &format!("corehttp_pool_{name}{{core=\"0\",pool=\"{pool}\"}}")))
    };
    for round in 0..3 {
        for coding in ["gzip", "br"] {
            let mut request = Request::get("/").unwrap();
            request.headers.set("accept-encoding", coding).unwrap();
            let response = corehttp::block_on(service.respond(request)).unwrap();
            assert_eq!(response.headers.get("content-encoding"), Some(coding));
        }
        let [reused, created, kept, bytes] = counts("encoders");
        assert_eq!([reused, created, kept], [2 * round, 2, 2]);
        assert!((300 << 10..16 << 20).contains(&bytes), "{bytes}");
        let [reused, created, kept, _] = counts("transforms");
        assert_eq!((reused, created, kept), (2 * round + 1, 1, 1));
    }
    drop(service);
    assert_eq!(counts("encoders"), [4, 2, 0, 0]);
}

#[cfg(feature = "fs")]
mod files {
    use corehttp::Request;
    use corehttp::fs::{FileCacheLimits, Files};

    use super::*;

    /// Room for one file, which stays fresh.
    fn files() -> Arc<Files> {
        let cache =
            FileCacheLimits { files_max: 1, fresh: Duration::from_secs(3600), ..FileCacheLimits::default() };
        Arc::new(Files::from_embedded(&[("a", b"a"), ("bcd", b"bcd")]).cache(cache))
    }

    fn ask(files: &Arc<Files>, path: &str) {
        let service = Server::new().service(files.clone());
        corehttp::block_on(service.respond(Request::get(path).unwrap())).unwrap();
    }

    /// The metrics of the cache with this label: hits, misses, files and bytes.
    fn counts(metrics: &Metrics, label: &str) -> [u64; 4] {
        let text = metrics.to_text(metrics::Format::OpenMetrics);
        ["hits_total", "misses_total", "files", "bytes"]
            .map(|name| sample(&text, &format!("corehttp_file_cache_{name}{{cache=\"{label}\"}}")))
    }

    #[test]
    fn a_cache_of_files_shows_its_hits_and_its_size() {
        let (metrics, files) = (Metrics::new(), files());
        // The second time changes nothing.
        [(); 2].iter().for_each(|()| metrics.add_files("the \"site\"", &files));
        let label = r#"the \"site\""#;
        assert_eq!(counts(&metrics, label), [0; 4]);
        ask(&files, "/a");
        let [_, _, _, bytes] = counts(&metrics, label);
        assert!(bytes > 0);
        // One file evicts the other, and a file that is not there is a miss as well.
        for (path, expected) in [
            ("/a", [1, 1, 1, bytes]),
            ("/a", [2, 1, 1, bytes]),
            ("/bcd", [2, 2, 1, bytes + 2]),
            ("/a", [2, 3, 1, bytes]),
            ("/none", [2, 4, 1, bytes]),
            ("/a", [3, 4, 1, bytes]),
        ] {
            ask(&files, path);
            assert_eq!(counts(&metrics, label), expected, "{path}");
            let stats = files.counts();
            assert_eq!([stats.hits, stats.misses, stats.files, stats.bytes], expected, "{path}");
        }
    }

    /// Several files of one name make one sample, and others make their own, until they are dropped.
    #[test]
    fn caches_are_counted_by_their_names() {
        let (metrics, [first, second, other]) = (Metrics::new(), [(); 3].map(|()| files()));
        for (name, files) in [("a", &first), ("a", &second), ("b", &other)] {
            metrics.add_files(name, files);
        }
        [&first, &first, &second, &other].into_iter().for_each(|files| ask(files, "/a"));
        let ([hits, misses, files, _], [other_hits, other_misses, ..]) =
            (counts(&metrics, "a"), counts(&metrics, "b"));
        assert_eq!(([hits, misses, files], [other_hits, other_misses]), ([1, 2, 2], [0, 1]));
        let text = metrics.to_text(metrics::Format::Prometheus);
        assert_eq!(text.matches("corehttp_file_cache_hits_total{").count(), 2, "{text}");
        drop((first, second, other));
        let text = metrics.to_text(metrics::Format::Prometheus);
        assert!(!text.contains("corehttp_file_cache"), "{text}");
    }
}

#[test]
fn each_guard_counts_what_it_refuses() {
    let closed = guard(|_: &mut Context| Err(Status::FORBIDDEN.into()));
    let waits = guard(async |_: &mut Context| -> corehttp::Result { Err(Status::FORBIDDEN.into()) });
    let router = routes! {
        wrap RateLimit::new(1, Duration::from_secs(3600)) => { any "/rate" => hello },
        wrap ConcurrencyLimit::new(0) => { any "/concurrency" => hello },
        wrap CrossOriginProtection::new() => { any "/origin" => hello },
        wrap HttpsRedirect::new().allowed_hosts(["other"]).unwrap() => { any "/host" => hello },
        wrap closed => { any "/closed" => hello },
        wrap waits => { any "/waits" => hello },
    };
    let metrics = Metrics::new();
    let served = Served::with(|server| server.cores(1).observe(metrics.clone()), router);
    // A request with a body is refused by its head, and counts once as well.
    for head in ["GET", "POST"] {
        let length = if head == "POST" { "content-length: 1\r\n" } else { "" };
        for path in ["rate", "rate", "concurrency", "origin", "host", "closed", "waits"] {
            let content = if head == "POST" { "a" } else { "" };
            served.ask(format!(
                "{head} /{path} HTTP/1.1\r\nhost: a\r\nsec-fetch-site: cross-site\r\n{length}connection: close\r\n\r\n{content}"
            ));
        }
    }
    let text = metrics.to_text(metrics::Format::Prometheus);
    let refused: Vec<&str> =
        text.lines().filter(|line| line.starts_with("corehttp_refusals_total")).collect();
    let expected = [
        ("rate_limit", 3),
        ("concurrency_limit", 2),
        ("cross_origin", 1),
        ("https_redirect", 2),
        ("guard", 4),
    ];
    let expected = expected
        .map(|(name, count)| format!("corehttp_refusals_total{{core=\"0\",guard=\"{name}\"}} {count}"));
    assert_eq!(refused, expected);
}
