//! [`ServerStats`]: what a server has done, in numbers.

use std::ops::AddAssign;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use super::RefusalCause;
use crate::exchange::{ExchangeError, Phase};

/// What a server has done so far: each core, and all of them.
///
/// Read without a lock while the cores go on, so the numbers may be a moment apart.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ServerStats {
    /// The sum over all cores.
    pub total: ServerCounts,
    /// Each core's own.
    pub cores: Vec<ServerCounts>,
}

/// What was counted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ServerCounts {
    /// Connections open now.
    pub open: u64,
    /// Connections accepted, refused ones among them.
    pub accepted: u64,
    /// Connections that were still at work when a shutdown's grace was over.
    pub cut: u64,
    /// Requests whose head was received and was good.
    pub requests: u64,
    /// Bytes received.
    pub received: u64,
    /// Bytes sent.
    pub sent: u64,
    /// What went wrong.
    pub errors: ErrorCounts,
}

/// What went wrong, by kind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ErrorCounts {
    /// Messages that broke RFC 9112, or a limit.
    pub wire: u64,
    /// Peers that were too slow.
    pub timed_out: u64,
    /// Connections that ended inside a message.
    pub incomplete: u64,
    /// Sockets that failed.
    pub io: u64,
    /// Handlers that failed, or took too long.
    pub handler: u64,
    /// Handlers that panicked.
    pub panic: u64,
    /// Requests that were refused by their heads.
    pub plan: u64,
    /// Connections refused because there were too many.
    pub overload: u64,
    /// Connections that could not be made secure.
    pub tls: u64,
}

/// The counters of one core. Only that core writes them, so no write waits for another.
#[derive(Default)]
#[repr(align(128))]
pub(super) struct CoreStats {
    pub(super) open: Counter,
    pub(super) accepted: Counter,
    pub(super) cut: Counter,
    pub(super) requests: Counter,
    pub(super) received: Counter,
    pub(super) sent: Counter,
    pub(super) errors: [Counter; ErrorKind::COUNT],
}

/// A number that one thread writes and any may read.
#[derive(Default)]
pub(super) struct Counter(AtomicU64);

/// The fields of [`ErrorCounts`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ErrorKind {
    Wire,
    TimedOut,
    Incomplete,
    Io,
    Handler,
    Panic,
    Plan,
    Overload,
    Tls,
}

impl Counter {
    /// Adds, without a locked instruction: nobody else writes.
    #[inline]
    pub(super) fn add(&self, count: u64) {
        self.0.store(self.0.load(Relaxed).wrapping_add(count), Relaxed);
    }

    #[inline]
    pub(super) fn subtract(&self, count: u64) {
        self.add(count.wrapping_neg());
    }

    fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

impl ErrorKind {
    const COUNT: usize = ErrorKind::Tls as usize + 1;

    pub(super) fn of(cause: &RefusalCause) -> ErrorKind {
        match cause {
            RefusalCause::Exchange(ExchangeError::Wire(_)) => ErrorKind::Wire,
            RefusalCause::Exchange(ExchangeError::TimedOut(Phase::Handler)) => ErrorKind::Handler,
            RefusalCause::Exchange(ExchangeError::TimedOut(_)) => ErrorKind::TimedOut,
            RefusalCause::Exchange(ExchangeError::Incomplete) => ErrorKind::Incomplete,
            RefusalCause::Exchange(ExchangeError::Io(_)) => ErrorKind::Io,
            RefusalCause::Exchange(ExchangeError::Length | ExchangeError::Source(_)) => ErrorKind::Handler,
            RefusalCause::Handler(_) => ErrorKind::Handler,
            RefusalCause::Panic => ErrorKind::Panic,
            RefusalCause::Plan => ErrorKind::Plan,
            RefusalCause::Connections | RefusalCause::ConnectionsOfPeer => ErrorKind::Overload,
            RefusalCause::Tls(_) => ErrorKind::Tls,
        }
    }
}

impl CoreStats {
    /// How many connections have come and gone.
    pub(super) fn finished(&self) -> u64 {
        self.accepted.get().saturating_sub(self.open.get())
    }

    pub(super) fn counts(&self) -> ServerCounts {
        let error = |kind: ErrorKind| self.errors[kind as usize].get();
        ServerCounts {
            open: self.open.get(),
            accepted: self.accepted.get(),
            cut: self.cut.get(),
            requests: self.requests.get(),
            received: self.received.get(),
            sent: self.sent.get(),
            errors: ErrorCounts {
                wire: error(ErrorKind::Wire),
                timed_out: error(ErrorKind::TimedOut),
                incomplete: error(ErrorKind::Incomplete),
                io: error(ErrorKind::Io),
                handler: error(ErrorKind::Handler),
                panic: error(ErrorKind::Panic),
                plan: error(ErrorKind::Plan),
                overload: error(ErrorKind::Overload),
                tls: error(ErrorKind::Tls),
            },
        }
    }
}

impl ServerStats {
    pub(super) fn of<'a>(cores: impl Iterator<Item = &'a CoreStats>) -> ServerStats {
        let cores: Vec<ServerCounts> = cores.map(CoreStats::counts).collect();
        let mut total = ServerCounts::default();
        cores.iter().for_each(|core| total += core);
        ServerStats { total, cores }
    }
}

impl AddAssign<&ServerCounts> for ServerCounts {
    fn add_assign(&mut self, other: &ServerCounts) {
        let ServerCounts { open, accepted, cut, requests, received, sent, errors } = other;
        self.open += open;
        self.accepted += accepted;
        self.cut += cut;
        self.requests += requests;
        self.received += received;
        self.sent += sent;
        self.errors += errors;
    }
}

impl AddAssign<&ErrorCounts> for ErrorCounts {
    fn add_assign(&mut self, other: &ErrorCounts) {
        let ErrorCounts { wire, timed_out, incomplete, io, handler, panic, plan, overload, tls } = other;
        self.wire += wire;
        self.timed_out += timed_out;
        self.incomplete += incomplete;
        self.io += io;
        self.handler += handler;
        self.panic += panic;
        self.plan += plan;
        self.overload += overload;
        self.tls += tls;
    }
}
