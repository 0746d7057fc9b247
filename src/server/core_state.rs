//! [`CoreState`]: what the connections of one core share; made of the server's [`ServerSettings`].

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use super::backlog::Backlog;
use super::counts::CoreCounterSet;
use crate::exchange::{Bounds, Clock};
use crate::memory::PoolGuard;
use crate::message::Request;
use crate::net::tls::TlsAcceptor;
use crate::net::{Conn, ConnTable, Life, Peer, PeerAddr, Traffic};
use crate::runtime::{self, MemoryBudget};
use crate::server::error::{ErrorCause, ErrorReport, ErrorResponseFn, ErrorStatuses};
use crate::server::forwarded::TrustedProxies;
use crate::server::opening::ProxyProtocol;
use crate::server::report::{
    ConnectionEnd, ConnectionReport, CoreEvents, ErrorLog, Observation, Observer, ReportLimiter,
};

/// The state that the connections of one core share.
pub(crate) struct CoreState {
    pub(super) bounds: Bounds,
    pub(super) events: CoreEvents,
    report_limiter: ReportLimiter,
    /// The number of the connection whose handler has waited in this poll, if polls are timed.
    pub(super) waiting_id: Cell<Option<u64>>,
    pub(super) error_response: Option<ErrorResponseFn>,
    pub(super) error_statuses: ErrorStatuses,
    pub(super) proxy_protocol: Option<ProxyProtocol>,
    pub(super) trusted_proxies: TrustedProxies,
    /// The zero of the ticks in which [`Life`] notes when a connection opened.
    started: runtime::Instant,
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
        let ServerSettings {
            bounds,
            name,
            observers,
            error_response,
            error_statuses,
            acceptor: _,
            proxy_protocol,
            trusted_proxies,
            error_log,
        } = settings.clone();
        let mut events = CoreEvents::new(index, counters.clone(), &observers);
        if !events.observes_errors() {
            error_log.without_requests().attach(&mut events);
        }
        let clock = Clock::new(name.as_deref());
        counters.memory.get_or_init(|| bounds.memory.clone());
        Rc::new(CoreState {
            bounds,
            events,
            report_limiter: ReportLimiter::default(),
            waiting_id: Cell::new(None),
            error_response,
            error_statuses,
            proxy_protocol,
            trusted_proxies,
            started: runtime::now(),
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
        let Some(proxy_protocol) = &self.proxy_protocol else { return false };
        // A panic of the application's function must not end the core. The peer is then no source.
        catch_unwind(AssertUnwindSafe(|| proxy_protocol.expects(peer))).unwrap_or_else(|_| {
            self.report_error(ErrorReport::from_connection(Peer { addr: peer, id: 0 }, ErrorCause::Panic));
            false
        })
    }

    /// Counts a refusal, and reports it, unless there are too many of its kind.
    #[cold]
    pub(super) fn report_error(&self, mut report: ErrorReport<'_>) {
        self.counters.count_error(&report.cause);
        if self.events.observes_errors() && self.report_limiter.admit(&mut report) {
            self.events.report_error(&report);
        }
        // A panic of the application's cause must end neither the exchange nor the core.
        let _ = catch_unwind(AssertUnwindSafe(move || drop(report)));
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
        let mut report = observation.report(now, conn, facts, request, &self.trusted_proxies);
        observation.add_websocket_counts(&mut report);
        self.events.report_exchange(&report);
        observation.call_on_end(&report);
        observation.close(traffic);
    }

    /// Begins the [`Life`] of a connection that opens or was accepted, if a report or an age needs it.
    pub(super) fn begin_life(&self, conn: &Conn) {
        if self.events.observes_disconnects() || self.bounds.timeouts.connection_age.is_some() {
            conn.set_life(Life::new(self.ticks()));
        }
    }

    /// Whether the connection has reached its age.
    #[inline]
    pub(super) fn is_aged(&self, conn: &Conn) -> bool {
        self.bounds.timeouts.connection_age.is_some() && self.has_reached_age(conn)
    }

    #[cold]
    #[inline(never)]
    fn has_reached_age(&self, conn: &Conn) -> bool {
        self.bounds.timeouts.connection_age.is_some_and(|age_max| self.age_left(conn, age_max).is_zero())
    }

    /// How much longer the connection may stay open, of `age_max` at most.
    ///
    /// Connections that opened together are closed apart; otherwise all of their peers would connect again at once.
    /// The numbers follow each other, and multiples of the golden ratio spread evenly, however many there are.
    #[cold]
    pub(super) fn age_left(&self, conn: &Conn, age_max: Duration) -> Duration {
        let share = conn.peer().id.wrapping_mul(GOLDEN) >> u32::BITS;
        let less = (age_max / 10).mul_f64(share as f64 / f64::from(u32::MAX));
        let age = conn.life().opened_at().map(|opened_at| self.age(opened_at)).unwrap_or_default();
        age_max.saturating_sub(less).saturating_sub(age)
    }

    /// Reports a connection that is over.
    #[cold]
    pub(super) fn report_connection(&self, mut report: Box<ConnectionReport>, end: ConnectionEnd) {
        report.end = end;
        report.age = self.age(report.opened_at);
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

    /// How long a connection has been open that opened at this time.
    fn age(&self, opened_at: u64) -> Duration {
        Duration::from_micros(self.ticks().saturating_sub(opened_at) * TICK_MICROS)
    }

    /// The time since the core has started, in the unit of [`Life`].
    fn ticks(&self) -> u64 {
        runtime::now().saturating_duration_since(self.started).as_micros() as u64 / TICK_MICROS
    }

    /// Counts the bytes that a connection has carried since the last call.
    #[inline]
    pub(super) fn count_traffic(&self, conn: &mut Conn) {
        let traffic = conn.take_traffic();
        self.counters.received.add(traffic.received);
        self.counters.sent.add(traffic.sent);
    }
}

const TICK_MICROS: u64 = 100;

/// 2^64 divided by the golden ratio.
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// How a server behaves, the same on all its cores.
#[derive(Clone, Default)]
pub(crate) struct ServerSettings {
    pub(super) bounds: Bounds,
    pub(super) name: Option<Arc<str>>,
    /// In the order in which they are called.
    pub(super) observers: Vec<Arc<dyn Observer>>,
    pub(super) error_response: Option<ErrorResponseFn>,
    pub(super) error_statuses: ErrorStatuses,
    /// Does the TLS handshakes on the addresses that have no acceptor of their own, if they are to be secure.
    pub(super) acceptor: Option<TlsAcceptor>,
    pub(super) proxy_protocol: Option<ProxyProtocol>,
    /// The proxies whose word about the client is believed.
    pub(super) trusted_proxies: TrustedProxies,
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
