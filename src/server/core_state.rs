//! [`CoreState`]: what the connections of one core share; made of the server's [`ServerSettings`].

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::Arc;

use super::error_report::ErrorReport;
use super::error_response::ErrorResponseFn;
use super::exchange_report::ExchangeReport;
use super::stats::CoreStats;
use crate::exchange::{Bounds, Clock};
use crate::net::tls::TlsAcceptor;
use crate::net::{Conn, DeadlineTable};

/// The state that the connections of one core share.
pub(super) struct CoreState {
    pub(super) bounds: Bounds,
    on_error: Option<OnError>,
    pub(super) on_exchange: Option<OnExchange>,
    pub(super) error_response: Option<ErrorResponseFn>,
    /// Does the TLS handshakes, if connections are to be secure.
    pub(super) acceptor: Option<TlsAcceptor>,
    pub(super) clock: Clock,
    pub(super) deadlines: Rc<DeadlineTable>,
    pub(super) stats: Arc<CoreStats>,
}

impl CoreState {
    pub(super) fn new(
        settings: &ServerSettings,
        deadlines: Rc<DeadlineTable>,
        stats: Arc<CoreStats>,
    ) -> Rc<CoreState> {
        let ServerSettings { bounds, name, on_error, on_exchange, error_response, acceptor } =
            settings.clone();
        let clock = Clock::new(name.as_deref());
        Rc::new(CoreState {
            bounds,
            on_error,
            on_exchange,
            error_response,
            acceptor,
            clock,
            deadlines,
            stats,
        })
    }

    /// Counts a refusal, and passes it to the application's `on_error`.
    #[cold]
    pub(super) fn report(&self, report: ErrorReport<'_>) {
        self.stats.count_error(&report.cause);
        // A panic of the application's function, or of the cause when it is dropped, must end neither the exchange nor
        // the core.
        let _ = catch_unwind(AssertUnwindSafe(move || {
            self.on_error.iter().for_each(|on_error| on_error(&report));
        }));
    }

    /// Counts the bytes that a connection has carried since the last call.
    #[inline]
    pub(super) fn count_traffic(&self, conn: &mut Conn) {
        let traffic = conn.take_traffic();
        self.stats.received.add(traffic.received);
        self.stats.sent.add(traffic.sent);
    }
}

/// How a server behaves, the same on all its cores.
#[derive(Clone, Default)]
pub(super) struct ServerSettings {
    pub(super) bounds: Bounds,
    pub(super) name: Option<Arc<str>>,
    pub(super) on_error: Option<OnError>,
    pub(super) on_exchange: Option<OnExchange>,
    pub(super) error_response: Option<ErrorResponseFn>,
    pub(super) acceptor: Option<TlsAcceptor>,
}

/// The function of [`Server::on_error`](super::Server::on_error).
pub(super) type OnError = Arc<dyn Fn(&ErrorReport<'_>) + Send + Sync>;

/// The function of [`Server::on_exchange`](super::Server::on_exchange).
pub(super) type OnExchange = Arc<dyn Fn(&ExchangeReport<'_>) + Send + Sync>;
