//! [`ReportLimiter`]: decides which reports of one core are passed on to [`Server::on_error`](crate::Server::on_error).

use std::cell::Cell;
use std::time::Duration;

use crate::net::tls;
use crate::runtime;
use crate::server::error::{ErrorCause, ErrorReport};
use crate::server::stats::{ERROR_KINDS, ErrorCounts};

/// Passes on one report a second of each kind, of those that name no request.
///
/// A peer causes such a fault with each connection that it opens. To write each to a log costs as much again as to
/// refuse the connection, and hides the rest of the log; nginx leaves them out by default, and hyper logs nothing. A
/// malformed head is one of them, since an access log has its exchange. The other reports are of requests, and most
/// faults of these are the application's: each is passed on, for the one who asks why that request failed.
#[derive(Default)]
pub(crate) struct ReportLimiter {
    kinds: [Cell<KindState>; KINDS],
}

impl ReportLimiter {
    /// Decides whether a report is passed on. If so, it notes in the report how many of its kind were not.
    pub(crate) fn admit(&self, report: &mut ErrorReport<'_>) -> bool {
        if report.request.is_some() {
            return true;
        }
        let state = &self.kinds[kind_of(&report.cause)];
        let (now, KindState { passed_at, suppressed }) = (runtime::now(), state.get());
        if passed_at.is_some_and(|passed_at| now.saturating_duration_since(passed_at) < REPORT_PAUSE) {
            state.set(KindState { passed_at, suppressed: suppressed + 1 });
            return false;
        }
        state.set(KindState { passed_at: Some(now), suppressed: 0 });
        report.suppressed = suppressed;
        true
    }
}

/// The time between two reports of a kind.
const REPORT_PAUSE: Duration = Duration::from_secs(1);

/// The reports of one kind.
#[derive(Clone, Copy, Default)]
struct KindState {
    /// When the last one was passed on.
    passed_at: Option<runtime::Instant>,
    /// How many were not passed on since then.
    suppressed: u64,
}

/// The place of a cause's kind: one that is counted apart, or else one that a flood of another cause must not hide, since
/// that is counted with it.
fn kind_of(cause: &ErrorCause) -> usize {
    const COUNTED: usize = ERROR_KINDS.len();
    match cause {
        ErrorCause::ProxyHeader(_) => COUNTED,
        ErrorCause::Tls(tls::Error::Resolver(_)) => COUNTED + 1,
        ErrorCause::ConnectionsOfPeer(_) => COUNTED + 2,
        cause => ErrorCounts::kind_of(cause),
    }
}

const KINDS: usize = ERROR_KINDS.len() + 3;
