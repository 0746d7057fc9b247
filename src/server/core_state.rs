//! [`CoreState`]: what the connections of one core share; made of the server's [`ServerSettings`].

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::connection_report::{ConnectionEnd, ConnectionReport, OnDisconnect};
use super::error_report::{ErrorCause, ErrorReport};
use super::error_response::ErrorResponseFn;
use super::exchange_report::{ExchangeReport, Observation};
use super::opening::OnConnect;
use super::proxy_protocol::ProxyProtocol;
use super::report_limiter::ReportLimiter;
use super::stats::CoreStats;
use crate::exchange::{Bounds, Clock};
use crate::memory::PoolGuard;
use crate::message::Request;
use crate::net::tls::TlsAcceptor;
use crate::net::{Conn, DeadlineTable, Life, Peer, PeerAddr, Traffic};
use crate::runtime;

/// The state that the connections of one core share.
pub(super) struct CoreState {
    pub(super) bounds: Bounds,
    on_error: Option<OnError>,
    report_limiter: ReportLimiter,
    pub(super) on_exchange: Option<OnExchange>,
    pub(super) observer: Option<Box<dyn Observer>>,
    /// Whether the observer times the polls of connections.
    pub(super) times_polls: bool,
    /// The connection whose handler has waited last, if polls are timed.
    pub(super) waiting: Cell<Option<u64>>,
    pub(super) error_response: Option<ErrorResponseFn>,
    pub(super) proxy_protocol: Option<ProxyProtocol>,
    pub(super) on_connect: Option<OnConnect>,
    pub(super) on_disconnect: Option<OnDisconnect>,
    /// Ages of connections count from here.
    started: runtime::Instant,
    pub(super) clock: Clock,
    pub(super) deadlines: Rc<DeadlineTable>,
    pub(super) stats: Arc<CoreStats>,
    /// Has the caches of the thread report to this core.
    _pool_guard: PoolGuard,
}

impl CoreState {
    pub(super) fn new(
        index: usize,
        settings: &ServerSettings,
        deadlines: Rc<DeadlineTable>,
        stats: Arc<CoreStats>,
    ) -> Rc<CoreState> {
        let ServerSettings {
            bounds,
            name,
            on_error,
            on_exchange,
            make_observer,
            error_response,
            acceptor: _,
            proxy_protocol,
            on_connect,
            on_disconnect,
        } = settings.clone();
        let observer = make_observer.map(|make| make(index, &stats));
        let times_polls = observer.as_ref().is_some_and(|observer| observer.times_polls());
        let clock = Clock::new(name.as_deref());
        Rc::new(CoreState {
            bounds,
            on_error,
            report_limiter: ReportLimiter::default(),
            on_exchange,
            observer,
            times_polls,
            waiting: Cell::new(None),
            error_response,
            proxy_protocol,
            on_connect,
            on_disconnect,
            started: runtime::now(),
            clock,
            deadlines,
            _pool_guard: stats.pools.attach_to_thread(),
            stats,
        })
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

    /// Counts a refusal, and passes it to the application's `on_error`, unless there are too many of its kind.
    #[cold]
    pub(super) fn report_error(&self, mut report: ErrorReport<'_>) {
        self.stats.count_error(&report.cause);
        let _ = catch_unwind(AssertUnwindSafe(|| {
            self.observer.iter().for_each(|observer| observer.on_error(&report, self.clock.now()));
        }));
        // A panic of the application's function, or of the cause when it is dropped, must end neither the exchange nor
        // the core.
        let _ = catch_unwind(AssertUnwindSafe(move || {
            if let Some(on_error) = &self.on_error
                && self.report_limiter.admit(&mut report)
            {
                on_error(&report);
            }
        }));
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
        let mut report = observation.report(now, conn, (peer, traffic, exchange_number), request);
        observation.add_socket(&mut report);
        self.observer.iter().for_each(|observer| observer.on_exchange(&report, now));
        // A panic of the application's function must end neither the connection nor the core.
        let _ = catch_unwind(AssertUnwindSafe(|| {
            self.on_exchange.iter().for_each(|on_exchange| on_exchange(&report));
        }));
        observation.call_watchers(&report);
        observation.close(traffic);
    }

    /// Notes that a connection opens or was accepted, if its life is of interest.
    pub(super) fn note_opening(&self, conn: &Conn) {
        if self.on_disconnect.is_some() || self.bounds.timeouts.connection_age.is_some() {
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
    /// Connections that opened together are closed apart, or all of their peers would connect again at once. The
    /// numbers follow each other, and multiples of the golden ratio spread evenly, however many there are.
    #[cold]
    pub(super) fn age_left(&self, conn: &Conn, age_max: Duration) -> Duration {
        let share = conn.peer().id.wrapping_mul(GOLDEN) >> u32::BITS;
        let less = (age_max / 10).mul_f64(share as f64 / f64::from(u32::MAX));
        let age = conn.life().opened_at().map(|opened_at| self.age(opened_at)).unwrap_or_default();
        age_max.saturating_sub(less).saturating_sub(age)
    }

    /// Passes the report of a connection, which is over, to the application's `on_disconnect`.
    #[cold]
    pub(super) fn report_connection(&self, mut report: Box<ConnectionReport>, end: ConnectionEnd) {
        (report.end, report.age) = (end, self.age(report.opened_at));
        // A panic of the application's function, or of the state when it is dropped, must not end the core.
        let _ = catch_unwind(AssertUnwindSafe(|| {
            self.on_disconnect.iter().for_each(|on_disconnect| on_disconnect(&report));
        }));
        let _ = catch_unwind(AssertUnwindSafe(|| drop(report)));
    }

    /// Passes the report of a connection that has carried no exchange to the application's `on_disconnect`.
    #[cold]
    pub(super) fn report_connection_end(&self, conn: &Conn, end: ConnectionEnd) {
        let report = ConnectionReport::new(conn, 0);
        report.into_iter().for_each(|report| self.report_connection(report, end));
    }

    /// How long a connection has been open that opened at this time.
    fn age(&self, opened_at: u64) -> Duration {
        Duration::from_micros(self.ticks().saturating_sub(opened_at) * TICK_MICROS)
    }

    /// The time since the core has started, in the unit of [`Life`].
    fn ticks(&self) -> u64 {
        runtime::now().saturating_duration_since(self.started).as_micros() as u64 / TICK_MICROS
    }

    /// Whether exchanges are reported.
    pub(super) fn observes_exchanges(&self) -> bool {
        self.on_exchange.is_some() || self.observer.is_some()
    }

    /// Counts the bytes that a connection has carried since the last call.
    #[inline]
    pub(super) fn count_traffic(&self, conn: &mut Conn) {
        let traffic = conn.take_traffic();
        self.stats.received.add(traffic.received);
        self.stats.sent.add(traffic.sent);
    }
}

const TICK_MICROS: u64 = 100;

/// 2^64 divided by the golden ratio.
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// How a server behaves, the same on all its cores.
#[derive(Clone, Default)]
pub(super) struct ServerSettings {
    pub(super) bounds: Bounds,
    pub(super) name: Option<Arc<str>>,
    pub(super) on_error: Option<OnError>,
    pub(super) on_exchange: Option<OnExchange>,
    pub(super) make_observer: Option<MakeObserver>,
    pub(super) error_response: Option<ErrorResponseFn>,
    /// Does the TLS handshakes on the addresses that have no acceptor of their own, if they are to be secure.
    pub(super) acceptor: Option<TlsAcceptor>,
    pub(super) proxy_protocol: Option<ProxyProtocol>,
    pub(super) on_connect: Option<OnConnect>,
    pub(super) on_disconnect: Option<OnDisconnect>,
}

/// Gets what happens on one core. Each core makes its own, which no other thread calls, so it counts without locks.
pub(crate) trait Observer {
    /// Notes an exchange that was over at `now`.
    fn on_exchange(&self, report: &ExchangeReport<'_>, now: Instant);

    /// Notes a refusal or a failure at about `now`, which the core has counted.
    fn on_error(&self, report: &ErrorReport<'_>, now: Instant);

    /// Notes the time from the acceptance of a connection to the first poll of its task.
    fn on_accept(&self, waited: Duration);

    /// Whether [`Observer::on_poll`] is to be called.
    fn times_polls(&self) -> bool;

    /// Notes how long the core was busy with one connection before it turned to another. `waiting` is the number of the
    /// connection, if its handler waits now.
    fn on_poll(&self, took: Duration, waiting: Option<u64>);
}

/// Makes the observer of the core with this index, whose counters are these.
pub(crate) type MakeObserver = Arc<dyn Fn(usize, &Arc<CoreStats>) -> Box<dyn Observer> + Send + Sync>;

/// The function of [`Server::on_error`](super::Server::on_error).
pub(super) type OnError = Arc<dyn Fn(&ErrorReport<'_>) + Send + Sync>;

/// The function of [`Server::on_exchange`](super::Server::on_exchange).
pub(super) type OnExchange = Arc<dyn Fn(&ExchangeReport<'_>) + Send + Sync>;
