//! [`Metrics`]: the histograms and counters of one server, or of several.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex};

use super::core_metrics::CoreMetrics;
use super::route_metrics::RouteCounts;
use crate::memory::lock;
use crate::server::{CoreStats, Observer, Server};

/// Counts the exchanges of a server by route and status: how long they took and how large they were.
///
/// Each core counts for itself, without locks and without allocations once a route is known. A clone refers to the same
/// counts. Servers that share them are counted together, each core with those of the same number.
///
/// For each route and core the counts take 20 KB, and 30 KB for each class of status that it answers with.
///
/// # Examples
///
/// ```
/// use corehttp::{Context, Metrics, Request, Server, routes};
///
/// let metrics = Metrics::new();
/// let service = Server::new()
///     .metrics(&metrics)
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
    settings: MetricsSettings,
    cores: Mutex<Vec<Arc<CoreMetrics>>>,
}

/// The settings of [`Metrics`].
///
/// More settings may come, so set those that matter and take the others from [`MetricsSettings::default`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MetricsSettings {
    /// How many routes are counted apart, at least 1 and at most 10,000; the exchanges of further ones are counted
    /// together, as `(other)`. Default: 64.
    pub routes_max: usize,
    /// Whether each core notes how long it was busy with one connection before it turned to another, and how often that
    /// took more than 10 ms, so that a handler that blocks shows. Reads the clock twice each time. Default: no.
    pub times_polls: bool,
}

impl Default for MetricsSettings {
    fn default() -> MetricsSettings {
        MetricsSettings { routes_max: 64, times_polls: false }
    }
}

impl Metrics {
    /// Creates metrics with the default settings.
    pub fn new() -> Metrics {
        Metrics::with_settings(MetricsSettings::default())
    }

    /// Creates metrics with these settings.
    pub fn with_settings(settings: MetricsSettings) -> Metrics {
        Metrics { inner: Arc::new(MetricsInner { settings, cores: Mutex::default() }) }
    }

    /// Returns the exchanges so far, for each route that had any, in the order of their patterns.
    pub fn routes(&self) -> Vec<RouteCounts> {
        let mut routes = BTreeMap::new();
        self.cores().iter().for_each(|core| core.routes.add_to(&mut routes));
        routes.into_values().collect()
    }

    /// The counts of each core. Several may have the same index.
    pub(super) fn cores(&self) -> Vec<Arc<CoreMetrics>> {
        lock(&self.inner.cores).clone()
    }

    /// The observer of a core, which goes on with counts that no other core writes.
    fn observer(&self, index: usize, stats: &Arc<CoreStats>) -> Box<dyn Observer> {
        let MetricsSettings { routes_max, times_polls } = &self.inner.settings;
        let mut cores = lock(&self.inner.cores);
        loop {
            let taken = cores.iter().filter(|core| core.index == index).find_map(|core| core.take(stats));
            match taken {
                Some(observer) => return Box::new(observer),
                None => cores.push(Arc::new(CoreMetrics::new(index, *routes_max, *times_polls))),
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
        f.debug_struct("Metrics").field("settings", &self.inner.settings).finish_non_exhaustive()
    }
}

impl Server {
    /// Counts the exchanges of this server in `metrics`. Default: none, which costs nothing.
    ///
    /// As with [`Server::on_exchange`], responses to pipelined requests then leave one by one.
    pub fn metrics(self, metrics: &Metrics) -> Server {
        let metrics = metrics.clone();
        self.observe(Arc::new(move |index, stats| metrics.observer(index, stats)))
    }
}
