//! [`ReportLimiter`]: decides which reports of one core are passed on to [`Server::on_error`](crate::Server::on_error).

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

/// The index of a cause. Three causes are counted as part of another kind, but limited apart, so that a flood of that kind
/// does not hide them.
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
