//! [`ConnectionReport`]: a connection that is over, as [`Server::on_disconnect`](super::Server::on_disconnect) sees it.

use std::any::Any;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use super::core_state::CoreState;
use super::opening::Extras;
use crate::net::{Conn, Life, Peer, PeerAddr};
use crate::runtime;

/// A connection that is over.
///
/// `{}` formats it as one line, such as `192.0.2.1:50000: 3 requests, 310 bytes received, 1042 sent in 4.2s: idle`.
///
/// # Examples
///
/// ```
/// use corehttp::{ConnectionReport, Context, Server};
///
/// let server = Server::new().on_disconnect(|connection: &ConnectionReport| println!("{connection}"));
/// # let _ = server.service(|ctx: &mut Context| ctx.response.set_text("hi"));
/// ```
#[derive(Clone)]
#[non_exhaustive]
pub struct ConnectionReport {
    /// The reason why the connection is over.
    pub end: ConnectionEnd,
    /// The address of the peer.
    pub peer: PeerAddr,
    /// The number of the connection, as in [`Context::connection_id`](crate::Context::connection_id).
    pub connection_id: u64,
    /// How many requests it has carried, answered or not.
    pub requests: u64,
    /// How many bytes were received, without those of TLS, of a PROXY header, and of another protocol after an upgrade.
    pub received: u64,
    /// How many bytes were sent, counted as in `received`.
    pub sent: u64,
    /// The time since it opened: since its [`Server::on_connect`](crate::Server::on_connect).
    pub age: Duration,
    opened_at: u64,
    extras: Option<Rc<Extras>>,
}

impl ConnectionReport {
    /// Begins the report of a connection that has carried so many exchanges. `None` if no report is wanted, or the
    /// connection was never open.
    #[cold]
    pub(super) fn new(core: &CoreState, conn: &Conn, exchange_count: u64) -> Option<Box<ConnectionReport>> {
        let (Some(opened_at), Some(_)) = (conn.life().opened_at(), &core.on_disconnect) else { return None };
        let (Peer { addr: peer, id: connection_id }, traffic) = (conn.peer(), conn.life().traffic());
        Some(Box::new(ConnectionReport {
            end: ConnectionEnd::Cut,
            peer,
            connection_id,
            requests: exchange_count,
            received: traffic.received,
            sent: traffic.sent,
            age: Duration::ZERO,
            opened_at,
            extras: Extras::from_conn(conn),
        }))
    }

    /// Passes the report to the application's `on_disconnect`.
    pub(super) fn send(mut self: Box<Self>, core: &CoreState, end: ConnectionEnd) {
        (self.end, self.age) = (end, core.age(self.opened_at));
        // A panic of the application's function, or of the state when it is dropped, must not end the core.
        let _ = catch_unwind(AssertUnwindSafe(|| {
            core.on_disconnect.iter().for_each(|on_disconnect| on_disconnect(&self));
        }));
        let _ = catch_unwind(AssertUnwindSafe(|| drop(self)));
    }

    /// Returns the state that [`Server::on_connect`](crate::Server::on_connect) has given the connection, if it is of
    /// this type.
    pub fn connection_state<T: 'static>(&self) -> Option<Rc<T>> {
        let state: Rc<dyn Any> = self.extras.as_ref()?.state.clone()?;
        state.downcast().ok()
    }
}

impl fmt::Display for ConnectionReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ConnectionReport { end, peer, requests, received, sent, age, .. } = self;
        let plural = if *requests == 1 { "" } else { "s" };
        write!(
            f,
            "{peer}: {requests} request{plural}, {received} bytes received, {sent} sent in {age:?}: {end}"
        )
    }
}

impl fmt::Debug for ConnectionReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ConnectionReport({self})")
    }
}

/// The reason why a connection is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ConnectionEnd {
    /// [`Server::on_connect`](crate::Server::on_connect) has refused it, or has panicked.
    Refused,
    /// The peer has closed it between two requests, or before the first, or it has failed there.
    Peer,
    /// No request came in time ([`Timeouts::idle`](crate::Timeouts::idle), and
    /// [`Timeouts::head`](crate::Timeouts::head) for the first).
    Idle,
    /// It has reached its age ([`Timeouts::connection_age`](crate::Timeouts::connection_age)).
    Age,
    /// It has carried its last response, as the request, the response or a limit had it.
    Last,
    /// A request was refused or cut off, or an exchange has failed. [`Server::on_error`](crate::Server::on_error) gets
    /// the cause, unless the peer is to blame for a reset.
    Failed,
    /// Its handler has upgraded it or taken it over, and it has been dropped since.
    Upgraded,
    /// The server stops: it was idle, or has carried its last response.
    Stop,
    /// The grace period of a stop was over, or the task that served it was dropped.
    Cut,
}

impl ConnectionEnd {
    /// Returns the reason as one word in lower case, for logs and labels, such as `peer` or `idle`.
    pub fn as_str(self) -> &'static str {
        match self {
            ConnectionEnd::Refused => "refused",
            ConnectionEnd::Peer => "peer",
            ConnectionEnd::Idle => "idle",
            ConnectionEnd::Age => "age",
            ConnectionEnd::Last => "last",
            ConnectionEnd::Failed => "failed",
            ConnectionEnd::Upgraded => "upgraded",
            ConnectionEnd::Stop => "stop",
            ConnectionEnd::Cut => "cut",
        }
    }
}

impl fmt::Display for ConnectionEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The function of [`Server::on_disconnect`](super::Server::on_disconnect).
pub(super) type OnDisconnect = Arc<dyn Fn(&ConnectionReport) + Send + Sync>;

/// The age of connections, on the clock of their core.
impl CoreState {
    /// Notes that a connection opens, if its life is of interest.
    pub(super) fn note_opening(&self, conn: &Conn) {
        if self.on_disconnect.is_some() || self.bounds.timeouts.connection_age.is_some() {
            conn.set_life(Life::new(self.ticks()));
        }
    }

    /// Whether the connection has reached its age.
    #[inline]
    pub(super) fn is_aged(&self, conn: &Conn) -> bool {
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

    /// How long a connection has been open that opened at this time.
    fn age(&self, opened_at: u64) -> Duration {
        Duration::from_micros(self.ticks().saturating_sub(opened_at) * TICK_MICROS)
    }

    /// The time since the core has started, in the unit of [`Life`].
    fn ticks(&self) -> u64 {
        runtime::now().saturating_duration_since(self.started).as_micros() as u64 / TICK_MICROS
    }
}

const TICK_MICROS: u64 = 100;

/// 2^64 divided by the golden ratio.
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;
