//! [`Observer`]: watches a server; and [`CoreEvents`], the events of one core, to which observers attach functions.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use super::connection_report::ConnectionReport;
use super::exchange_report::ExchangeReport;
use super::report_limiter::ReportLimiter;
use crate::net::Conn;
use crate::runtime::{Hooks, MemoryCounts};
use crate::server::counts::{CoreCounterSet, CoreCounts};
use crate::server::error::ErrorReport;
use crate::server::opening::OpenedConnection;

/// Watches a server: a log, metrics, or an alarm.
///
/// An observer attaches functions to the events of each core. [`Server::observe`](crate::Server::observe) takes any
/// number of them, and calls them in their order. The methods of `Server` that begin with `on_` attach a single
/// function to a single event. Each is shorthand for an observer with one function.
///
/// The functions run on the core of the event, so they should return quickly. Their panics are ignored. State that they
/// share on one core needs no lock. A server makes no report of an event without a function.
///
/// # Examples
///
/// A counter of slow exchanges, printed for each core at its stop:
///
/// ```
/// use std::cell::Cell;
/// use std::time::Duration;
///
/// use corehttp::{Context, Server};
/// use corehttp::server::{CoreEvents, Observer};
///
/// struct SlowExchanges {
///     threshold: Duration,
/// }
///
/// impl Observer for SlowExchanges {
///     fn attach(&self, core: &mut CoreEvents) {
///         let threshold = self.threshold;
///         let count = Count { core: core.index(), slow: Cell::new(0) };
///         core.on_exchange(move |report| {
///             if report.duration > threshold {
///                 count.slow.set(count.slow.get() + 1);
///             }
///         });
///     }
/// }
///
/// struct Count {
///     core: usize,
///     slow: Cell<u64>,
/// }
///
/// impl Drop for Count {
///     fn drop(&mut self) {
///         println!("core {}: {} slow exchanges", self.core, self.slow.get());
///     }
/// }
///
/// let server = Server::bind("127.0.0.1:8080").observe(SlowExchanges { threshold: Duration::from_secs(1) });
/// # let _ = server.service(|ctx: &mut Context| ctx.response.set_text("hi"));
/// ```
#[doc(alias("hook", "listener", "on_response", "TraceLayer"))]
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not an observer",
    note = "an observer is a type with `impl Observer`, such as `ErrorLog`, or a closure `|core: &mut CoreEvents| ..` that is \
            `Send` and `Sync`; write out the parameter's type",
    note = "a call that may fail is followed by `?`, as in `AccessLog::open(path, format)?`"
)]
pub trait Observer: Send + Sync + 'static {
    /// Attaches functions to the events of a core. Called once for each core, on its thread, before the core accepts
    /// connections.
    fn attach(&self, core: &mut CoreEvents);
}

impl<F: Fn(&mut CoreEvents) + Send + Sync + 'static> Observer for F {
    fn attach(&self, core: &mut CoreEvents) {
        self(core);
    }
}

impl<O: Observer + ?Sized> Observer for Arc<O> {
    fn attach(&self, core: &mut CoreEvents) {
        (**self).attach(core);
    }
}

/// The events of one core, to which an [`Observer`] attaches functions.
pub struct CoreEvents {
    index: usize,
    counters: Arc<CoreCounterSet>,
    exchange: Hooks<dyn Fn(&ExchangeReport<'_>)>,
    error: Hooks<dyn Fn(&ErrorReport<'_>)>,
    /// Whether one of them is more than a count, so that people learn of errors.
    has_error_observer: bool,
    report_limiter: ReportLimiter,
    connect: Hooks<dyn Fn(&mut OpenedConnection<'_>)>,
    disconnect: Hooks<dyn Fn(&ConnectionReport)>,
    accept: Hooks<dyn Fn(Duration)>,
    poll: Hooks<dyn Fn(&PollReport)>,
}

impl CoreEvents {
    pub(crate) fn new(
        index: usize,
        counters: Arc<CoreCounterSet>,
        observers: &[Arc<dyn Observer>],
    ) -> CoreEvents {
        let mut events = CoreEvents {
            index,
            counters,
            exchange: Hooks::default(),
            error: Hooks::default(),
            has_error_observer: false,
            report_limiter: ReportLimiter::default(),
            connect: Hooks::default(),
            disconnect: Hooks::default(),
            accept: Hooks::default(),
            poll: Hooks::default(),
        };
        for observer in observers {
            observer.attach(&mut events);
        }
        events
    }

    /// Attaches a function to the end of each exchange: see [`Server::on_exchange`](crate::Server::on_exchange).
    pub fn on_exchange(&mut self, on_exchange: impl Fn(&ExchangeReport<'_>) + 'static) {
        self.exchange.push(Box::new(on_exchange));
    }

    /// Attaches a function to refusals and failures: see [`Server::on_error`](crate::Server::on_error).
    pub fn on_error(&mut self, on_error: impl Fn(&ErrorReport<'_>) + 'static) {
        self.has_error_observer = true;
        self.count_errors(on_error);
    }

    /// Attaches a function that only counts or keeps errors, as for a page that is rarely looked at. It takes the place of
    /// no log.
    pub(crate) fn count_errors(&mut self, count: impl Fn(&ErrorReport<'_>) + 'static) {
        self.error.push(Box::new(count));
    }

    /// Attaches a function to the opening of each connection: see [`Server::on_connect`](crate::Server::on_connect).
    pub fn on_connect(&mut self, on_connect: impl Fn(&mut OpenedConnection<'_>) + 'static) {
        self.connect.push(Box::new(on_connect));
    }

    /// Attaches a function to the end of each connection: see
    /// [`Server::on_disconnect`](crate::Server::on_disconnect).
    pub fn on_disconnect(&mut self, on_disconnect: impl Fn(&ConnectionReport) + 'static) {
        self.disconnect.push(Box::new(on_disconnect));
    }

    /// Attaches a function that gets the time from the acceptance of each connection to the first poll of its task.
    /// It is long if the core was busy.
    pub fn on_accept(&mut self, on_accept: impl Fn(Duration) + 'static) {
        self.accept.push(Box::new(on_accept));
    }

    /// Attaches a function to each poll of a connection. The clock is then read twice a poll.
    pub fn on_poll(&mut self, on_poll: impl Fn(&PollReport) + 'static) {
        self.poll.push(Box::new(on_poll));
    }

    /// Returns the number of the core, from 0 on. The core of a [`Service`](crate::Service) has 0.
    pub fn index(&self) -> usize {
        self.index
    }

    /// Returns the counters of the core, which can be read at any time and on any thread.
    pub fn counters(&self) -> CoreCounters {
        CoreCounters(self.counters.clone())
    }

    #[inline]
    pub(crate) fn report_exchange(&self, report: &ExchangeReport<'_>) {
        self.exchange.call(|on_exchange| on_exchange(report));
    }

    /// Passes a failure on, unless there are too many of its kind.
    pub(crate) fn report_error(&self, report: &mut ErrorReport<'_>) {
        if !self.error.is_empty() && self.report_limiter.admit(report) {
            self.error.call(|on_error| on_error(report));
        }
    }

    /// Whether the application lets a connection in. Fails if a function panics; the others are not called then, since
    /// they might let the connection in.
    #[inline]
    pub(crate) fn admits(&self, conn: &Conn) -> thread::Result<bool> {
        if self.connect.is_empty() {
            return Ok(true);
        }
        catch_unwind(AssertUnwindSafe(|| {
            OpenedConnection::is_admitted(conn, |opened| {
                for on_connect in self.connect.iter() {
                    on_connect(opened);
                }
            })
        }))
    }

    pub(crate) fn report_disconnect(&self, report: &ConnectionReport) {
        self.disconnect.call(|on_disconnect| on_disconnect(report));
    }

    pub(crate) fn report_accept(&self, waited: Duration) {
        self.accept.call(|on_accept| on_accept(waited));
    }

    pub(crate) fn report_poll(&self, report: &PollReport) {
        self.poll.call(|on_poll| on_poll(report));
    }

    #[inline]
    pub(crate) fn observes_exchanges(&self) -> bool {
        !self.exchange.is_empty()
    }

    pub(crate) fn has_error_observer(&self) -> bool {
        self.has_error_observer
    }

    #[inline]
    pub(crate) fn observes_disconnects(&self) -> bool {
        !self.disconnect.is_empty()
    }

    pub(crate) fn observes_accepts(&self) -> bool {
        !self.accept.is_empty()
    }

    #[inline]
    pub(crate) fn observes_polls(&self) -> bool {
        !self.poll.is_empty()
    }
}

impl fmt::Debug for CoreEvents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CoreEvents").field("index", &self.index).finish_non_exhaustive()
    }
}

/// A handle to the counters of one core, to read them as [`CoreCounts`]: see [`CoreEvents::counters`].
#[derive(Clone)]
pub struct CoreCounters(Arc<CoreCounterSet>);

impl CoreCounters {
    /// Returns the counts at this moment. After the core has stopped, they do not change.
    pub fn counts(&self) -> CoreCounts {
        self.0.counts()
    }

    /// Returns the state of the memory that the peers of all cores share, at this moment.
    pub fn memory(&self) -> MemoryCounts {
        self.0.memory_counts()
    }
}

impl fmt::Debug for CoreCounters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.counts().fmt(f)
    }
}

/// One poll of a connection by its core.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct PollReport {
    /// How long the poll took. All other connections of the core have waited.
    pub took: Duration,
    /// The [number](crate::Context::connection_id) of the connection, if its handler waits and the exchange goes on.
    pub waiting: Option<u64>,
}
