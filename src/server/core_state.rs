//! [`CoreState`]: what the connections of one core share; made of the server's [`ServerSettings`].

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::Arc;

use super::backlog::Backlog;
use super::connection_ages::ConnectionAges;
use super::counts::CoreCounterSet;
use crate::exchange::{Bounds, Clock};
use crate::memory::PoolGuard;
use crate::message::Request;
use crate::net::tls::{CertificateFault, TlsAcceptor};
use crate::net::{Conn, ConnTable, Peer, PeerAddr, Traffic};
use crate::runtime::MemoryBudget;
use crate::server::error::{ErrorCause, ErrorReport, ErrorResponses};
use crate::server::forwarded::TrustedProxies;
use crate::server::opening::ProxyProtocol;
use crate::server::report::{ConnectionEnd, ConnectionReport, CoreEvents, ErrorLog, Observation, Observer};

/// The state that the connections of one core share.
pub(crate) struct CoreState {
    pub(super) bounds: Bounds,
    pub(super) events: CoreEvents,
    /// The number of the connection whose handler has waited in this poll, if polls are timed.
    pub(super) waiting_id: Cell<Option<u64>>,
    pub(super) error_responses: ErrorResponses,
    pub(super) proxies: ProxySettings,
    pub(super) ages: ConnectionAges,
    pub(super) clock: Clock,
    pub(super) backlog: Backlog,
    /// Whether its free memory is trimmed regularly. That of a [`Service`](crate::Service) is trimmed when a connection ends.
    pub(super) is_maintained: Cell<bool>,
    pub(super) connections: Rc<ConnTable>,
    pub(super) counters: Arc<CoreCounterSet>,
    /// Has the caches of the thread report to this core.
    _pool_guard: PoolGuard,
}

impl CoreState {
    pub(super) fn new(
        index: usize,
        settings: &ServerSettings,
        connections: Rc<ConnTable>,
        counters: Arc<CoreCounterSet>,
    ) -> Rc<CoreState> {
        let ServerSettings { bounds, name, observers, error_responses, acceptor: _, proxies, error_log } =
            settings.clone();
        let mut events = CoreEvents::new(index, counters.clone(), &observers);
        if !events.has_error_observer() {
            error_log.without_requests().attach(&mut events);
        }
        let clock = Clock::new(name.as_deref());
        counters.memory.get_or_init(|| bounds.memory.clone());
        Rc::new(CoreState {
            ages: ConnectionAges::new(bounds.timeouts.connection_age),
            bounds,
            events,
            waiting_id: Cell::new(None),
            error_responses,
            proxies,
            clock,
            backlog: Backlog::default(),
            is_maintained: Cell::new(false),
            connections,
            _pool_guard: counters.pools.attach_to_thread(),
            counters,
        })
    }

    /// Whether a free context may keep the buffers of large messages: it is trimmed within a second, and to allocate them
    /// for each message costs as much as to receive it.
    pub(super) fn may_keep_large(&self) -> bool {
        self.is_maintained.get() && self.bounds.memory.is_plentiful()
    }

    /// Whether connections of this peer may begin with a PROXY header.
    pub(super) fn expects_proxy_header(&self, peer: PeerAddr) -> bool {
        let Some(protocol) = &self.proxies.protocol else { return false };
        // A panic of the application's function must not end the core. The peer is then no source.
        catch_unwind(AssertUnwindSafe(|| protocol.expects(peer))).unwrap_or_else(|_| {
            self.report_error(ErrorReport::from_connection(Peer { addr: peer, id: 0 }, ErrorCause::Panic));
            false
        })
    }

    /// Counts a refusal, and reports it, unless there are too many of its kind.
    #[cold]
    pub(super) fn report_error(&self, mut report: ErrorReport<'_>) {
        self.counters.count_error(&report.cause);
        self.events.report_error(&mut report);
        // A panic of the application's cause must end neither the exchange nor the core.
        let _ = catch_unwind(AssertUnwindSafe(move || drop(report)));
    }

    /// Reports a certificate of the server that expires or was refused.
    pub(super) fn report_certificate(&self, fault: CertificateFault) {
        self.report_error(ErrorReport::from_connection(Peer::default(), ErrorCause::Certificate(fault)));
    }

    /// Passes the report of an exchange, which is over, to all who want it, and forgets the exchange.
    #[inline]
    pub(super) fn report_exchange(
        &self,
        observation: &mut Observation,
        conn: Option<&Conn>,
        (peer, traffic, exchange_number): (&Peer, Traffic, u64),
        request: &Request,
    ) {
        let now = self.clock.refresh();
        let facts = (peer, traffic, exchange_number);
        let mut report = observation.report(now, conn, facts, request, &self.proxies.trusted);
        observation.add_websocket_counts(&mut report);
        self.events.report_exchange(&report);
        observation.call_on_end(&report);
        observation.close(traffic);
    }

    /// Begins the life of a connection that opens or was accepted, if a report or an age needs it.
    pub(super) fn begin_life(&self, conn: &Conn) {
        if self.events.observes_disconnects() || self.ages.are_bounded() {
            conn.set_life(self.ages.begin());
        }
    }

    /// Reports a connection that is over.
    #[cold]
    pub(super) fn report_connection(&self, mut report: Box<ConnectionReport>, end: ConnectionEnd) {
        report.end = end;
        report.age = self.ages.since(report.opened_at);
        self.events.report_disconnect(&report);
        // A panic of the application's state must not end the core.
        let _ = catch_unwind(AssertUnwindSafe(|| drop(report)));
    }

    /// Reports a connection that is over and has carried no exchange.
    #[cold]
    pub(super) fn report_connection_end(&self, conn: &Conn, end: ConnectionEnd) {
        if let Some(report) = ConnectionReport::new(conn, 0) {
            self.report_connection(report, end);
        }
    }

    /// Counts the bytes that a connection has carried since the last call.
    #[inline]
    pub(super) fn count_traffic(&self, conn: &mut Conn) {
        let traffic = conn.take_traffic();
        self.counters.received.add(traffic.received);
        self.counters.sent.add(traffic.sent);
    }
}

/// How a server behaves, the same on all its cores.
#[derive(Clone, Default)]
pub(crate) struct ServerSettings {
    pub(super) bounds: Bounds,
    pub(super) name: Option<Arc<str>>,
    /// In the order in which they are called.
    pub(super) observers: Vec<Arc<dyn Observer>>,
    pub(super) error_responses: ErrorResponses,
    /// Does the TLS handshakes on the addresses that have no acceptor of their own, if they are to be secure.
    pub(super) acceptor: Option<TlsAcceptor>,
    pub(super) proxies: ProxySettings,
    /// The log of failures that nobody observes.
    pub(super) error_log: ErrorLog,
}

impl ServerSettings {
    /// The settings of a server that starts: its cores share what its peers may fill.
    pub(super) fn with_memory(mut self) -> ServerSettings {
        self.bounds.memory = MemoryBudget::new(self.bounds.limits.memory_max);
        self
    }
}

/// The proxies in front of a server.
#[derive(Clone, Default)]
pub(crate) struct ProxySettings {
    /// Which peers begin with a PROXY header.
    pub(super) protocol: Option<ProxyProtocol>,
    /// Which peers are believed about the client.
    pub(super) trusted: TrustedProxies,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks how many lines the default log of a server with these observers has of an error.
    #[track_caller]
    fn check(observers: Vec<Arc<dyn Observer>>, lines: usize) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("errors.log");
        let error_log = ErrorLog::open(&path).unwrap();
        let settings = ServerSettings { observers, error_log, ..ServerSettings::default() };
        let core = CoreState::new(0, &settings, ConnTable::with_sweep(), Arc::default());
        core.report_error(ErrorReport::from_connection(Peer::default(), ErrorCause::Connections(1)));
        // The drop of the log waits for its lines.
        drop((core, settings));
        assert_eq!(std::fs::read_to_string(&path).unwrap().lines().count(), lines);
    }

    #[test]
    fn a_server_whose_errors_are_only_counted_writes_them() {
        let count = || Arc::new(|core: &mut CoreEvents| core.count_errors(|_| {}));
        let alarm = || Arc::new(|core: &mut CoreEvents| core.on_error(|_| {}));
        check(vec![], 1);
        check(vec![count()], 1);
        check(vec![alarm()], 0);
        check(vec![count(), alarm()], 0);
        check(vec![alarm(), count()], 0);
    }

    /// They show how often something happens, but no one learns of it.
    #[cfg(feature = "metrics")]
    #[test]
    fn metrics_are_no_log_of_errors() {
        check(vec![Arc::new(crate::metrics::Metrics::new())], 1);
    }
}
