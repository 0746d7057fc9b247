//! [`ReportLimiter`]: decides which reports of one core are passed on to [`Server::on_error`](crate::Server::on_error);
//! [`KindLimiter`]: so many a second of each kind.

use std::cell::Cell;
use std::time::Duration;

use crate::net::tls;
use crate::runtime;
use crate::server::counts::{ERROR_KINDS, ErrorCounts};
use crate::server::error::{ErrorCause, ErrorReport};

/// Of the reports that name no request, passes on one a second of each kind.
///
/// A peer causes such a fault with each connection that it opens. To write each to a log costs as much again as to
/// refuse the connection, and hides the rest of the log; nginx leaves them out by default, and hyper logs nothing. A
/// malformed head is one of them, since an access log has its exchange. The other reports are of requests, and most
/// faults of these are the application's: each is passed on, for the one who asks why that request failed.
pub(super) struct ReportLimiter(KindLimiter);

impl ReportLimiter {
    /// Decides whether a report is passed on. If so, it notes in the report how many of its kind were not.
    pub(super) fn admit(&self, report: &mut ErrorReport<'_>) -> bool {
        if report.request.is_some() {
            return true;
        }
        let suppressed = self.0.admit(report);
        report.suppressed = suppressed.unwrap_or(report.suppressed);
        suppressed.is_some()
    }
}

impl Default for ReportLimiter {
    fn default() -> ReportLimiter {
        ReportLimiter(KindLimiter::new(1))
    }
}

/// Of the reports of each kind, lets so many a second pass.
pub(super) struct KindLimiter {
    passed_max: u32,
    /// The kinds of peers' faults, and those of the server's, which a flood of the former must not hide.
    kinds: [[Cell<KindState>; KINDS]; 2],
}

/// The reports of one kind, or the panics of a process, in the current second.
#[derive(Clone, Copy, Default)]
pub(super) struct KindState {
    /// When the current second began, with the first report that passed in it.
    began_at: Option<runtime::Instant>,
    /// How many have passed since then.
    passed: u32,
    /// How many have not since the last one that has.
    suppressed: u64,
}

impl KindLimiter {
    /// Creates a limiter that lets `passed_max` reports of a kind pass in a second.
    pub(super) fn new(passed_max: u32) -> KindLimiter {
        KindLimiter { passed_max, kinds: Default::default() }
    }

    /// Decides whether a report passes. Returns how many of its kind have not since the last one that has.
    pub(super) fn admit(&self, report: &ErrorReport<'_>) -> Option<u64> {
        // Reports of certificates are few, and each names another one.
        if matches!(report.cause, ErrorCause::Certificate(_)) {
            return Some(0);
        }
        let kind = &self.kinds[usize::from(report.is_fault())][kind_of(&report.cause)];
        let mut state = kind.get();
        let suppressed = state.admit(self.passed_max);
        kind.set(state);
        suppressed
    }
}

impl KindState {
    /// Decides whether one more passes. Returns how many have not since the last one that has.
    pub(super) fn admit(&mut self, passed_max: u32) -> Option<u64> {
        let now = runtime::now();
        if self.began_at.is_none_or(|began_at| now.saturating_duration_since(began_at) >= SECOND) {
            *self = KindState { began_at: Some(now), passed: 0, ..*self };
        }
        if self.passed >= passed_max {
            self.suppressed += 1;
            return None;
        }
        self.passed += 1;
        Some(std::mem::take(&mut self.suppressed))
    }
}

const SECOND: Duration = Duration::from_secs(1);

/// The index of a cause. Five causes are counted as part of another kind, but limited apart, so that a flood of that kind
/// does not hide them.
fn kind_of(cause: &ErrorCause) -> usize {
    const COUNTED: usize = ERROR_KINDS.len();
    match cause {
        ErrorCause::ProxyHeader(_) => COUNTED,
        ErrorCause::Tls(tls::Error::Resolver(_)) => COUNTED + 1,
        ErrorCause::ConnectionsOfPeer(_) => COUNTED + 2,
        ErrorCause::Listener(_) => COUNTED + 3,
        ErrorCause::Connections(_) => COUNTED + 4,
        cause => ErrorCounts::kind_of(cause),
    }
}

const KINDS: usize = ERROR_KINDS.len() + 5;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exchange::ExchangeError;
    use crate::net::Peer;

    /// A server that is full of connections has other remedies than one without memory.
    #[test]
    fn a_flood_of_one_kind_hides_no_other() {
        let out_of_memory = || ErrorCause::Exchange(ExchangeError::NoMemory);
        let limiter = KindLimiter::new(1);
        let admit = |cause| limiter.admit(&ErrorReport::from_connection(Peer::default(), cause));
        assert_eq!(admit(out_of_memory()), Some(0));
        assert_eq!(admit(out_of_memory()), None);
        assert_eq!(admit(ErrorCause::Connections(1)), Some(0));
        assert_eq!(admit(ErrorCause::Connections(1)), None);
        assert_eq!(admit(ErrorCause::ConnectionsOfPeer(1)), Some(0));
        assert_eq!(admit(out_of_memory()), None);
    }
}
