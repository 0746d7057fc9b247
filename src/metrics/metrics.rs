//! [`Metrics`]: the histograms and counters of one server, or of several.

use std::collections::BTreeMap;
use std::fmt;
use std::iter::zip;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

use super::client_metrics::{HostTable, HostTimes};
use super::core_metrics::{CoreMetrics, CoreRecorder, CoreSnapshot, Recording};
use super::exposition::{write_clients, write_cores, write_logs, write_routes};
use super::latest_errors::LatestError;
use super::metrics_writer::{Format, Writer};
use super::named::{BalancerTable, CacheCounts, CacheTable, CountedCache};
use super::process::ProcessInfo;
use super::route_metrics::RouteCounts;
use super::slow_exchanges::SlowExchange;
use super::timeline::{SlotSeries, slot_number};
use crate::client::{Balancer, ClientCounters, ClientCounts, ClientObserver, HostEvents};
use crate::memory::lock;
use crate::server::{CoreCounters, CoreEvents, Observer};

/// Counts the exchanges of a server by route and status, with their times and sizes.
///
/// Each core counts for itself, without locks and without allocations once a route is known. A clone refers to the same counts.
/// Servers that share them are counted together, each core with those of the same number.
///
/// For each route and core the counts take 20 KB, and 30 KB for each class of status among the responses. Methods are only
/// counted. Their histograms would take 30 KB for each method and class.
///
/// Each core also counts how long new connections waited, from their acceptance to the first poll of their task, and across the
/// way to another core. The time before, in the queue of the system, cannot be measured here. It is at most the time for which
/// the core was busy at a stretch ([`Options::times_polls`]).
///
/// A client takes them as well: [`ClientBuilder::observe`](crate::ClientBuilder::observe).
///
/// # Examples
///
/// ```
/// use corehttp::{Context, Request, routes, Server};
/// use corehttp::metrics::Metrics;
///
/// let metrics = Metrics::new();
/// let service = Server::new()
///     .observe(metrics.clone())
///     .service(routes! { GET "/users/{id}" => |ctx: &mut Context| ctx.response.set_text("hi") });
/// corehttp::block_on(service.respond(Request::get("/users/7")?))?;
/// let routes = metrics.routes();
/// assert_eq!((routes[0].pattern.as_str(), routes[0].count()), ("/users/{id}", 1));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Metrics {
    inner: Arc<MetricsInner>,
}

struct MetricsInner {
    options: Options,
    recording: Arc<Recording>,
    cores: Mutex<Vec<Arc<CoreMetrics>>>,
    collectors: Mutex<Vec<Collector>>,
    clients: Mutex<ClientTable>,
    hosts: Arc<HostTable>,
    balancers: BalancerTable,
    caches: CacheTable,
}

/// The clients, and the sum of those that are gone. A program may make one for each of its jobs.
#[derive(Clone, Default)]
struct ClientTable {
    known: Vec<ClientCounters>,
    gone: Option<ClientCounts>,
}

impl ClientTable {
    fn add(&mut self, client: ClientCounters) {
        if self.known.contains(&client) {
            return;
        }
        for gone in self.known.extract_if(.., |known| known.is_last()) {
            *self.gone.get_or_insert_default() += &gone.counts();
        }
        self.known.push(client);
    }
}

/// Writes metrics of the application.
type Collector = Arc<dyn Fn(&mut Writer) + Send + Sync>;

/// The options of [`Metrics`].
///
/// More options may come. Take the options that do not matter from [`Options::default`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// How many routes each core counts apart. At least 1, at most 10,000. A number beyond is taken as the nearest of them.
    /// Default: 64. The exchanges of further routes are counted together, as `(other)`. Cores may differ in their first routes,
    /// so [`Metrics::routes`] may return more.
    pub routes_max: usize,
    /// For how many hosts the times of clients are kept apart. The times of further hosts are counted together, as
    /// `(other)`. Default: 32. See [`ClientBuilder::observe`](crate::ClientBuilder::observe).
    pub hosts_max: usize,
    /// Whether each core measures its time in one connection before the next one. Default: no.
    ///
    /// Handlers that block show in the number of times above 10 ms. A [`Page`](crate::metrics::Page) names the route of the
    /// longest time, once its exchange is over. Each measurement reads the clock twice.
    pub times_polls: bool,
}

impl Default for Options {
    fn default() -> Options {
        Options { routes_max: 64, hosts_max: 32, times_polls: false }
    }
}

impl Metrics {
    /// Creates metrics with the default options.
    pub fn new() -> Metrics {
        Metrics::with_options(Options::default())
    }

    /// Creates metrics with these options.
    pub fn with_options(options: Options) -> Metrics {
        let recording = Arc::new(Recording::new(Instant::now()));
        let hosts = Arc::new(HostTable::new(options.hosts_max, &recording));
        let inner = MetricsInner {
            options,
            recording,
            cores: Mutex::default(),
            collectors: Mutex::default(),
            clients: Mutex::default(),
            hosts,
            balancers: BalancerTable::default(),
            caches: CacheTable::default(),
        };
        Metrics { inner: Arc::new(inner) }
    }

    /// Returns the exchanges so far, for each route that had any, in the order of their patterns.
    pub fn routes(&self) -> Vec<RouteCounts> {
        let mut routes = BTreeMap::new();
        self.cores().iter().for_each(|core| core.routes.add_to(&mut routes));
        routes.into_values().collect()
    }

    /// Returns all metrics as text.
    ///
    /// The metrics are those of:
    /// - the routes
    /// - the cores, with their pools of objects ([`CoreCounts::pools`](crate::server::CoreCounts::pools))
    /// - the hosts of clients and balancers
    /// - caches
    /// - the logs of the process, and the process itself (on Linux)
    /// - the functions of [`Metrics::add_collector`]
    ///
    /// A route with responses of one class takes 53 lines, most of them the buckets of four histograms, and 36 more for each
    /// other class. So 64 such routes, as many as are counted apart by default, make 3,392 lines, and as many series in a
    /// database. With two classes each, they make 5,696. A route without exchanges takes none, nor does a class of status. Each
    /// further method takes one.
    ///
    /// To have fewer, set [`Options::routes_max`]. Prometheus can also drop unused ones by `metric_relabel_configs`, for
    /// example the buckets `corehttp_exchange_(until_response_seconds|received_bytes|sent_bytes)_bucket`. Their sums and counts
    /// stay, for averages. [`Metrics::routes`] has percentiles to within 1.6%.
    pub fn to_text(&self, format: Format) -> String {
        let mut writer = Writer::new(format);
        write_routes(&mut writer, &self.routes());
        write_cores(&mut writer, &self.core_counts());
        if let Some(counts) = self.client_counts() {
            write_clients(&mut writer, &counts, &self.host_counts());
        }
        self.inner.balancers.write(&mut writer);
        self.inner.caches.write(&mut writer);
        write_logs(&mut writer);
        ProcessInfo::read().write(&mut writer);
        // The functions are called without a lock, since they may add others.
        let collectors = lock(&self.inner.collectors).clone();
        for collector in collectors {
            let _ = catch_unwind(AssertUnwindSafe(|| collector(&mut writer)));
        }
        writer.finish()
    }

    /// Adds a function that writes metrics of the application.
    ///
    /// Each call of [`Metrics::to_text`], and so each request to a [`Text`](crate::metrics::Text), calls the function. A
    /// [`Page`](crate::metrics::Page) does not. The function writes counters and gauges that the application or another crate
    /// keeps, and values of a [`Histogram`](crate::metrics::Histogram). A panic of the function is ignored. Lines from before
    /// the panic stay.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::sync::Arc;
    /// use std::sync::atomic::{AtomicU64, Ordering};
    /// use corehttp::metrics::{self, Histogram, Metrics};
    ///
    /// let (orders, queries) = (Arc::new(AtomicU64::new(0)), Arc::new(Histogram::new()));
    /// let metrics = Metrics::new();
    /// let (counted, timed) = (orders.clone(), queries.clone());
    /// metrics.add_collector(move |writer: &mut metrics::Writer| {
    ///     let count = counted.load(Ordering::Relaxed) as f64;
    ///     writer.counter("shop_orders_total", "Orders taken.").value(&[("kind", "book")], count);
    ///     writer.histogram("shop_query_seconds", "Queries.", 1e-9).counts(&[], &timed.counts());
    /// });
    ///
    /// orders.fetch_add(1, Ordering::Relaxed);
    /// queries.record_duration(std::time::Duration::from_millis(3));
    /// let text = metrics.to_text(metrics::Format::Prometheus);
    /// assert!(text.contains("shop_orders_total{kind=\"book\"} 1\n"));
    /// assert!(text.contains("shop_query_seconds_bucket{le=\"0.004194304\"} 1\n"));
    /// ```
    #[doc(alias("register", "counter", "gauge"))]
    pub fn add_collector(&self, collector: impl Fn(&mut Writer) + Send + Sync + 'static) {
        lock(&self.inner.collectors).push(Arc::new(collector));
    }

    /// Shows the hosts of `balancer` under this name, with their state and their responses. Balancers of one name count as one.
    /// The balancer is not kept alive.
    ///
    /// # Examples
    ///
    /// ```
    /// use corehttp::Client;
    /// use corehttp::metrics::{self, Metrics};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let balancer = Client::new().balance(["http://one", "http://two"])?.build();
    /// let metrics = Metrics::new();
    /// metrics.add_balancer("stock", &balancer);
    /// let text = metrics.to_text(metrics::Format::Prometheus);
    /// assert!(text.contains("corehttp_balancer_host_up{balancer=\"stock\",host=\"http://one\"} 1\n"));
    /// # Ok(())
    /// # }
    /// ```
    pub fn add_balancer(&self, name: &str, balancer: &Balancer) {
        self.inner.balancers.add(name, balancer.counters());
    }

    /// Shows the counts of `cache` under this name.
    #[allow(dead_code, reason = "unused without the feature `fs`")]
    pub(crate) fn add_cache(&self, name: &str, cache: Weak<dyn CountedCache>) {
        self.inner.caches.add(name, cache);
    }

    /// The counts of the caches of each name.
    pub(super) fn cache_counts(&self) -> BTreeMap<Box<str>, CacheCounts> {
        self.inner.caches.counts()
    }

    pub(super) fn balancers(&self) -> &BalancerTable {
        &self.inner.balancers
    }

    /// The counts of all clients together. `None` without a client.
    pub(super) fn client_counts(&self) -> Option<ClientCounts> {
        let ClientTable { known, gone } = lock(&self.inner.clients).clone();
        let counts = gone.into_iter().chain(known.iter().map(ClientCounters::counts));
        counts.reduce(|mut sum, counts| {
            sum += &counts;
            sum
        })
    }

    /// The times of the exchanges of clients with each host.
    pub(super) fn host_counts(&self) -> BTreeMap<Box<str>, HostTimes> {
        self.inner.hosts.counts()
    }

    /// The last minutes of each host, in the slots of `empty`.
    pub(super) fn host_timelines(&self, empty: &SlotSeries) -> BTreeMap<Box<str>, SlotSeries> {
        self.inner.hosts.timelines(empty)
    }

    /// The counts of each core, by its index.
    pub(super) fn core_counts(&self) -> BTreeMap<usize, CoreSnapshot> {
        let mut counts = BTreeMap::<usize, CoreSnapshot>::new();
        self.cores().iter().for_each(|core| *counts.entry(core.index).or_default() += &core.counts());
        counts
    }

    /// Makes the cores keep the last minutes from now on.
    pub(super) fn keep_recent(&self) {
        self.inner.recording.keep_recent();
    }

    /// How long the cores have counted.
    pub(super) fn uptime(&self) -> Duration {
        self.inner.recording.uptime(Instant::now())
    }

    /// The last minutes of each route, in the slots of `empty`.
    pub(super) fn timelines(&self, empty: &SlotSeries) -> BTreeMap<Box<str>, SlotSeries> {
        let mut series = BTreeMap::new();
        self.cores().iter().for_each(|core| core.routes.add_timelines_to(&mut series, empty));
        series
    }

    /// The last minutes of each core, in the slots of `empty`.
    pub(super) fn core_timelines(&self, empty: &SlotSeries) -> BTreeMap<usize, SlotSeries> {
        let mut series = BTreeMap::new();
        for core in self.cores() {
            core.routes.sum_timelines(series.entry(core.index).or_insert_with(|| empty.clone()));
        }
        series
    }

    /// The slowest exchanges of each route and core in the last minutes.
    pub(super) fn slow_exchanges(&self) -> Vec<SlowExchange> {
        let mut list = Vec::new();
        let slot = slot_number(self.uptime());
        self.cores().iter().for_each(|core| core.routes.add_slow_to(&mut list, slot));
        list
    }

    /// The latest error of each kind.
    pub(super) fn latest_errors(&self) -> Vec<Option<LatestError>> {
        let mut latest = Vec::new();
        for core in self.cores() {
            let errors = core.errors.list();
            latest.resize(errors.len(), None);
            for (latest, error) in zip(&mut latest, errors) {
                if latest.as_ref().map(|latest: &LatestError| latest.at)
                    < error.as_ref().map(|error| error.at)
                {
                    *latest = error;
                }
            }
        }
        latest
    }

    fn cores(&self) -> Vec<Arc<CoreMetrics>> {
        lock(&self.inner.cores).clone()
    }

    /// The recorder of a core, which goes on with counts that no other core writes.
    fn recorder(&self, index: usize, counters: &CoreCounters) -> CoreRecorder {
        let MetricsInner { options: Options { routes_max, times_polls, .. }, recording, .. } = &*self.inner;
        let mut cores = lock(&self.inner.cores);
        loop {
            let taken =
                cores.iter().filter(|core| core.index == index).find_map(|core| core.take(counters.clone()));
            match taken {
                Some(recorder) => return recorder,
                None => cores.push(Arc::new(CoreMetrics::new(index, *routes_max, *times_polls, recording))),
            }
        }
    }
}

impl Default for Metrics {
    fn default() -> Metrics {
        Metrics::new()
    }
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Metrics").field("options", &self.inner.options).finish_non_exhaustive()
    }
}

/// Counts the exchanges, connections and errors of a server.
///
/// As with [`Server::on_exchange`](crate::Server::on_exchange), responses to pipelined requests then leave one by one.
impl Observer for Metrics {
    fn attach(&self, core: &mut CoreEvents) {
        self.recorder(core.index(), &core.counters()).attach(core);
    }
}

/// Shows the counts of a client, for each host, and keeps the times of its exchanges: of each phase and in all, as
/// [`Response::timings`](crate::Response::timings) has them. All clones of the client count together, and several
/// clients as one. The counts stay when the client is gone.
///
/// For each host, the times take 10 KB for each phase, and on several cores up to 16 times as much.
///
/// # Examples
///
/// ```
/// use corehttp::Client;
/// use corehttp::metrics::{self, Metrics};
///
/// # corehttp::block_on(async {
/// let metrics = Metrics::new();
/// let client = Client::builder().observe(metrics.clone()).build();
/// client.get("http://127.0.0.1:1/").await.unwrap_err(); // nothing listens there
/// let text = metrics.to_text(metrics::Format::Prometheus);
/// let failed = "corehttp_client_failures_total{host=\"http://127.0.0.1:1\",phase=\"connect\"} 1\n";
/// assert!(text.contains(failed));
/// # });
/// ```
impl ClientObserver for Metrics {
    fn attach(&self, host: &mut HostEvents) {
        self.inner.hosts.attach(host);
        lock(&self.inner.clients).add(host.client());
    }
}

#[cfg(test)]
mod tests {
    use std::panic;
    use std::pin::pin;
    use std::task::{self, Waker};
    use std::thread;

    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};
    use tokio::task::yield_now;

    use super::*;
    use crate::net::MemoryListener;
    use crate::routes;
    use crate::server::{Context, Result};
    use crate::{Client, Server};

    #[test]
    fn the_route_of_the_longest_poll_is_known() {
        let metrics = Metrics::with_options(Options { times_polls: true, ..Default::default() });
        let listener = MemoryListener::new();
        let client = Client::builder().connect_to(&listener).build();
        let block = |millis| thread::sleep(Duration::from_millis(millis));
        let handler = routes! {
            GET "/quick" => |_: &mut Context| {},
            GET "/blocks/{id}" => move |_: &mut Context| block(30),
            GET "/waits" => async move |_: &mut Context| {
                block(100);
                yield_now().await;
            },
        };
        let server = Server::bind(listener).cores(1).observe(metrics.clone()).start(handler).unwrap();
        for (path, expected) in [("/blocks/7", "/blocks/{id}"), ("/waits", "/waits"), ("/blocks/8", "/waits")]
        {
            // A poll has been counted once the next request is answered.
            for path in [path, "/quick"] {
                crate::block_on(client.get(&format!("http://a{path}"))).unwrap().unwrap();
            }
            let core = &metrics.core_counts()[&0];
            assert_eq!(core.poll_longest_route.as_deref(), Some(expected), "{path}");
        }
        drop(server);
    }

    /// A program may make a client for each of its jobs.
    #[test]
    fn clients_that_are_gone_are_one_sum() {
        let listener = MemoryListener::new();
        let metrics = Metrics::new();
        let builder = || Client::builder().connect_to(&listener).observe(metrics.clone());
        let _running = Server::bind(&listener).cores(1).start(|_: &mut Context| ()).unwrap();
        let ask = async || {
            let client = builder().build();
            client.get("http://one/").await.unwrap();
        };
        crate::block_on(async { (ask().await, ask().await, ask().await) }).unwrap();
        // With the first host of this one, the others are summed up.
        crate::block_on(ask()).unwrap();
        assert_eq!(lock(&metrics.inner.clients).known.len(), 1);
        let counts = metrics.client_counts().unwrap();
        assert_eq!((counts.total.answered, counts.hosts["http://one"].answered), (4, 4));
    }

    #[test]
    fn a_collector_that_panics_ends_nothing() {
        let metrics = Metrics::new();
        metrics.add_collector(|writer| {
            writer.counter("before_total", "Before.").value(&[], 1.0);
            panic::resume_unwind(Box::new("without a trace"));
        });
        metrics.add_collector(|writer| writer.gauge("after", "After.").value(&[], 2.0));
        let text = metrics.to_text(Format::OpenMetrics);
        assert!(text.contains("\nbefore_total 1\n# TYPE after gauge\n"), "{text}");
        assert!(text.ends_with("\nafter 2\n# EOF\n"), "{text}");
    }

    /// Echoes in small pieces, with a pause before each.
    async fn echo(ctx: &mut Context) -> Result {
        let content = ctx.request.body.bytes().to_vec();
        let mut out = ctx.body_writer().await?;
        for piece in content.chunks(4) {
            yield_now().await;
            out.write_all(piece).await?;
            out.flush().await?;
        }
        Ok(out.finish().await?)
    }

    /// The future of a connection is dropped after so many polls, between which its peer sends and reads a little.
    async fn serve_in_part(metrics: &Metrics, polls: usize) {
        let service = Server::new().observe(metrics.clone()).service(echo);
        let (mut peer, near) = duplex(64);
        let mut serving = pin!(service.serve_connection(near));
        let wire = b"POST /a HTTP/1.1\r\nhost: a\r\ncontent-length: 16\r\n\r\n0123456789abcdef".repeat(2);
        let mut unsent = &wire[..];
        let mut read = [0; 64];
        for _ in 0..polls {
            let mut cx = task::Context::from_waker(Waker::noop());
            if serving.as_mut().poll(&mut cx).is_ready() {
                return;
            }
            let (sends, reads) = (peer.write(unsent), async { Ok(0) });
            let sent = crate::runtime::select(sends, reads).await.unwrap();
            unsent = &unsent[sent..];
            let (reads, waits) = (peer.read(&mut read), async { Ok(0) });
            crate::runtime::select(reads, waits).await.unwrap();
            // A task that never waits has no budget left.
            yield_now().await;
        }
    }

    #[test]
    fn exchanges_that_are_cancelled_at_any_await_are_counted_once() {
        let metrics = Metrics::new();
        crate::block_on(async {
            for polls in 0..80 {
                serve_in_part(&metrics, polls).await;
                let core = &metrics.core_counts()[&0];
                let count: u64 = metrics.routes().iter().map(RouteCounts::count).sum();
                assert_eq!((core.exchanges_open, core.server.requests), (0, count), "{polls} polls");
            }
        })
        .unwrap();
        let core = &metrics.core_counts()[&0];
        assert!(core.server.requests > 60 && core.cuts.iter().sum::<u64>() >= 5, "{core:?}");
    }
}
