//! [`ClientObserver`]: watches a client; and [`HostEvents`], the events of one host, to which observers attach functions
//! that get reports.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use super::counts::{ClientCounts, HostCounts, HostRegistry, PoolCounters};
use crate::client::error::{ClientPhase, RetryReport};
use crate::message::{Status, Timings};
use crate::net::Traffic;
use crate::runtime::Hooks;

/// Watches a client: metrics, a log, or an alarm.
///
/// An observer attaches functions to the events of each host. [`ClientBuilder::observe`] takes any number of them, and
/// calls them in their order.
///
/// The functions run in the task of the caller, or at the drop of a response. So they should return quickly. Their panics are
/// ignored. A client makes no report of an event to which nothing is attached. A function that keeps the client would keep it
/// alive for ever. [`HostEvents::client`] returns its counters instead.
///
/// An observer sees each request that is sent, also after redirects and retries. To change or stop requests, there is
/// [`ClientMiddleware`](crate::client::ClientMiddleware).
///
/// # Examples
///
/// Counts the failed statuses of each host:
///
/// ```
/// # use corehttp::{Context, Server};
/// # use corehttp::net::MemoryListener;
/// use std::collections::BTreeMap;
/// use std::sync::{Arc, Mutex};
///
/// use corehttp::Client;
/// use corehttp::client::{ClientObserver, HostEvents};
///
/// #[derive(Clone, Default)]
/// struct ServerErrors(Arc<Mutex<BTreeMap<String, u64>>>);
///
/// impl ClientObserver for ServerErrors {
///     fn attach(&self, host: &mut HostEvents) {
///         let (errors, origin) = (self.0.clone(), host.origin().to_owned());
///         host.on_exchange(move |report| {
///             if report.status.is_some_and(|status| status.is_server_error()) {
///                 *errors.lock().unwrap().entry(origin.clone()).or_default() += 1;
///             }
///         });
///     }
/// }
///
/// # let listener = MemoryListener::new();
/// # let server = Server::bind(&listener).cores(1).start(|_: &mut Context| Err(corehttp::Error::other("broken")))?;
/// # corehttp::block_on(async {
/// let errors = ServerErrors::default();
/// let client = Client::builder().observe(errors.clone()).build();
/// # let client = Client::builder().connect_to(&listener).observe(errors.clone()).build();
/// client.get("http://example.com/").await?; // answered with 500
/// assert_eq!(errors.0.lock().unwrap()["http://example.com"], 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })??;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// [`ClientBuilder::observe`]: crate::ClientBuilder::observe
#[doc(alias("hook", "listener", "httptrace", "ClientTrace", "on_response"))]
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not an observer of a client",
    note = "an observer is a type with `impl ClientObserver`, or a closure `|host: &mut HostEvents| ..` that is `Send` and \
            `Sync`; write out the parameter's type",
    note = "a call that may fail is followed by `?`"
)]
pub trait ClientObserver: Send + Sync + 'static {
    /// Attaches functions to the events of a host. Called for each runtime in which the host is used, and again after a long
    /// pause.
    ///
    /// The client is locked meanwhile, so the method must not use it. The functions may.
    fn attach(&self, host: &mut HostEvents);
}

impl<F: Fn(&mut HostEvents) + Send + Sync + 'static> ClientObserver for F {
    fn attach(&self, host: &mut HostEvents) {
        self(host);
    }
}

impl<O: ClientObserver + ?Sized> ClientObserver for Arc<O> {
    fn attach(&self, host: &mut HostEvents) {
        (**self).attach(host);
    }
}

/// The observers of a client, in their order.
pub(crate) type Observers = Vec<Arc<dyn ClientObserver>>;

/// The events of one host in one runtime, to which a [`ClientObserver`] attaches functions.
///
/// Exchanges may end on any thread, and several at once.
pub struct HostEvents {
    origin: Box<str>,
    registry: Arc<HostRegistry>,
    counters: Arc<PoolCounters>,
    queue: Hooks<dyn Fn(&QueueReport) + Send + Sync>,
    dial: Hooks<dyn Fn(&DialReport) + Send + Sync>,
    exchange: Hooks<dyn Fn(&ClientExchangeReport) + Send + Sync>,
    retry: Hooks<dyn Fn(&RetryReport) + Send + Sync>,
}

impl HostEvents {
    /// The events of a new pool of `origin`.
    pub(crate) fn new(origin: &str, registry: Arc<HostRegistry>, observers: &Observers) -> HostEvents {
        let counters = registry.enroll(origin);
        let mut events = HostEvents {
            origin: origin.into(),
            registry,
            counters,
            queue: Hooks::default(),
            dial: Hooks::default(),
            exchange: Hooks::default(),
            retry: Hooks::default(),
        };
        for observer in observers {
            // The request that needs the pool goes on, even if an observer panics.
            let _ = catch_unwind(AssertUnwindSafe(|| observer.attach(&mut events)));
        }
        events
    }

    /// Attaches a function that gets each wait for one of the connections of the host, even one in vain. A request that gets a
    /// connection at once has not waited.
    pub fn on_queue(&mut self, on_queue: impl Fn(&QueueReport) + Send + Sync + 'static) {
        self.queue.push(Box::new(on_queue));
    }

    /// Attaches a function that gets each dial, with the handshakes of the proxy and of TLS, successful or not.
    ///
    /// A dial fails when the time of its request is up. It may go on by itself, for the next request. After a late success it
    /// is reported once more.
    pub fn on_dial(&mut self, on_dial: impl Fn(&DialReport) + Send + Sync + 'static) {
        self.dial.push(Box::new(on_dial));
    }

    /// Attaches a function that gets each exchange at its end: the whole response, a failure, or the departure of its caller. A
    /// request that gets no connection has no exchange.
    pub fn on_exchange(&mut self, on_exchange: impl Fn(&ClientExchangeReport) + Send + Sync + 'static) {
        self.exchange.push(Box::new(on_exchange));
    }

    /// Attaches a function that gets each retry by a [`Retry`](crate::client::Retry), before its wait. The exchange of the
    /// earlier attempt, if there was one, has a report of its own.
    ///
    /// # Examples
    ///
    /// ```
    /// use corehttp::Client;
    /// use corehttp::client::{HostEvents, Retry};
    ///
    /// fn log(host: &mut HostEvents) {
    ///     let origin = host.origin().to_owned();
    ///     host.on_retry(move |retry| eprintln!("{origin}: {retry}"));
    /// }
    ///
    /// let client = Client::builder().retry(Retry::new()).observe(log).build();
    /// # drop(client);
    /// ```
    pub fn on_retry(&mut self, on_retry: impl Fn(&RetryReport) + Send + Sync + 'static) {
        self.retry.push(Box::new(on_retry));
    }

    /// Returns the origin of the host: scheme, host and port, as [`Host::origin`](crate::client::Host::origin) writes it.
    pub fn origin(&self) -> &str {
        &self.origin
    }

    /// Returns the counters of the client, with all of its hosts. They can be read at any time and on any thread.
    pub fn client(&self) -> ClientCounters {
        ClientCounters(self.registry.clone())
    }

    /// Whether exchanges are reported.
    pub(crate) fn observes_exchanges(&self) -> bool {
        !self.exchange.is_empty()
    }

    /// Counts an exchange after which the connection goes back to the pool. Called under the lock of the pool, so its
    /// report comes later, by [`HostEvents::report_exchange`].
    pub(crate) fn count_returned(&self, timings: &Timings, traffic: Traffic) {
        self.counters.count_returned(timings, traffic);
    }

    pub(crate) fn report_exchange(&self, report: &ClientExchangeReport) {
        self.exchange.call(|on_exchange| on_exchange(report));
    }

    /// Counts and reports an exchange whose connection does not go back to the pool, or not yet.
    pub(crate) fn count_end(&self, report: &ClientExchangeReport) {
        let ClientExchangeReport { end, timings, received, sent, .. } = report;
        self.counters.count(|counts| {
            match *end {
                ExchangeEnd::Answered => counts.answered += 1,
                ExchangeEnd::Failed(phase) => counts.count_failure(phase),
                ExchangeEnd::Canceled => counts.canceled += 1,
                ExchangeEnd::Retried => {
                    counts.stale += 1;
                    counts.retries += 1;
                }
            }
            counts.count_exchange(timings);
            counts.received += received;
            counts.sent += sent;
        });
        self.report_exchange(report);
    }

    /// Counts and reports a retry that a policy makes.
    pub(in crate::client) fn count_retry(&self, report: &RetryReport) {
        self.counters.count(|counts| counts.retries_by_policy += 1);
        self.retry.call(|on_retry| on_retry(report));
    }

    /// Counts a retry for which the host has no budget.
    pub(in crate::client) fn count_refused_retry(&self) {
        self.counters.count(|counts| counts.retries_refused += 1);
    }

    /// Counts and reports requests of a pipeline that were sent again, before their responses were the next to come.
    pub(crate) fn count_resent(&self, requests: u64) {
        self.counters.count(|counts| counts.retries += requests);
        let report = ClientExchangeReport::without_response(ExchangeEnd::Retried);
        (0..requests).for_each(|_| self.report_exchange(&report));
    }

    /// Counts and reports requests of a pipeline that failed in this phase, likewise.
    pub(crate) fn count_unanswered(&self, requests: u64, phase: ClientPhase) {
        let report = ClientExchangeReport::without_response(ExchangeEnd::Failed(phase));
        (0..requests).for_each(|_| self.count_end(&report));
    }

    /// Counts and reports a wait after which a request has a connection, unless it took no time.
    pub(crate) fn count_queued(&self, waited: Duration) {
        if !waited.is_zero() {
            self.counters.count(|counts| counts.queue.count(waited));
            self.report_queue(&QueueReport { waited, timed_out: false });
        }
    }

    /// Counts and reports a wait for a connection that was in vain.
    pub(crate) fn count_queue_timeout(&self, waited: Duration) {
        self.counters.count(|counts| counts.count_failure(ClientPhase::Queue));
        self.report_queue(&QueueReport { waited, timed_out: true });
    }

    fn report_queue(&self, report: &QueueReport) {
        self.queue.call(|on_queue| on_queue(report));
    }

    /// Counts and reports a connection that was opened.
    pub(crate) fn count_opened(&self, timings: &Timings) {
        self.counters.count(|counts| {
            counts.opened += 1;
            counts.count_opening(timings);
        });
        self.report_dial(&DialReport { timings: *timings, failed: None });
    }

    /// Counts and reports a dial that has failed in this phase.
    pub(crate) fn count_dial_failure(&self, phase: ClientPhase) {
        self.counters.count(|counts| counts.count_failure(phase));
        self.report_dial(&DialReport { timings: Timings::default(), failed: Some(phase) });
    }

    fn report_dial(&self, report: &DialReport) {
        self.dial.call(|on_dial| on_dial(report));
    }

    /// Changes counts of which there is no report.
    pub(crate) fn count(&self, change: impl FnOnce(&mut HostCounts)) {
        self.counters.count(change);
    }

    /// Keeps the counts when the pool ends.
    pub(crate) fn retire(&self) {
        self.registry.retire(&self.origin, &self.counters);
    }
}

impl fmt::Debug for HostEvents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HostEvents").field("origin", &self.origin).finish_non_exhaustive()
    }
}

/// A request has waited for one of the connections of its host. See
/// [`HostEvents::on_queue`](crate::client::HostEvents::on_queue).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct QueueReport {
    /// How long the request has waited.
    pub waited: Duration,
    /// Whether its time was up without a connection. The limit is
    /// [`ClientTimeouts::queue`](crate::client::ClientTimeouts::queue), or what is left of the time for the whole exchange.
    pub timed_out: bool,
}

/// A connection was opened, or could not be. See [`HostEvents::on_dial`](crate::client::HostEvents::on_dial).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DialReport {
    /// How long the phases of the dial took, [`resolve`](Timings::resolve), [`connect`](Timings::connect) and
    /// [`tls`](Timings::tls). All are zero if the dial failed.
    pub timings: Timings,
    /// The phase in which the dial failed.
    pub failed: Option<ClientPhase>,
}

/// A finished exchange of a client. See [`HostEvents::on_exchange`](crate::client::HostEvents::on_exchange).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ClientExchangeReport {
    /// How the exchange ended.
    pub end: ExchangeEnd,
    /// The status of the response, if the head of the final response has arrived.
    pub status: Option<Status>,
    /// How long the completed phases took. The first exchange on a connection has the times of the dial, too.
    /// [`Timings::reused`] is whether the connection had carried another request before.
    pub timings: Timings,
    /// How many bytes were received, without the overhead of TLS. With several requests in flight on one connection, these are
    /// the bytes since the end of the last exchange.
    pub received: u64,
    /// How many bytes were sent, counted likewise.
    pub sent: u64,
}

impl ClientExchangeReport {
    /// The report of a request of a pipeline that ended so before its response was the next to come.
    fn without_response(end: ExchangeEnd) -> ClientExchangeReport {
        ClientExchangeReport { end, status: None, timings: Timings::default(), received: 0, sent: 0 }
    }
}

/// How an exchange of a client ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ExchangeEnd {
    /// The response was received to its end, or has upgraded the connection.
    Answered,
    /// The exchange failed in this phase: [`Send`](ClientPhase::Send), [`Wait`](ClientPhase::Wait) or
    /// [`Receive`](ClientPhase::Receive).
    Failed(ClientPhase),
    /// The caller went away, or left the rest of the response.
    Canceled,
    /// The request is sent again on another connection, because the server had closed this one. The second attempt has a
    /// report of its own.
    Retried,
}

/// The counters of a client (see [`HostEvents::client`]). They keep no connection open, and outlive the client.
///
/// Two of them are equal if they are of clones of one client.
#[derive(Clone)]
pub struct ClientCounters(Arc<HostRegistry>);

impl ClientCounters {
    /// Returns the counts at this moment, as [`Client::counts`](crate::Client::counts) does. Once the client and its clones
    /// are gone, no connection is open.
    pub fn counts(&self) -> ClientCounts {
        self.0.counts()
    }

    /// Whether the client is gone with all that counted for it, and this is the last reference to its counters.
    #[allow(dead_code, reason = "unused without the feature `metrics`")]
    pub(crate) fn is_last(&self) -> bool {
        Arc::strong_count(&self.0) == 1
    }
}

impl PartialEq for ClientCounters {
    fn eq(&self, other: &ClientCounters) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for ClientCounters {}

impl fmt::Debug for ClientCounters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.counts().fmt(f)
    }
}
