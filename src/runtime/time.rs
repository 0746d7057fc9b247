//! The time, as the timers of a runtime have it, and waiting for it to pass.

use std::time::Duration;

pub(crate) use tokio::time::{Instant, sleep, sleep_until, timeout, timeout_at};

/// The time, as the runtime's timers have it.
pub(crate) fn now() -> Instant {
    Instant::now()
}

/// `from` and `wait`, or what is as good as never.
pub(crate) fn later(from: Instant, wait: Duration) -> Instant {
    from.checked_add(wait.min(FAR)).unwrap_or(from)
}

/// Nobody waits for a century, and tokio's clock does not count that far.
const FAR: Duration = Duration::from_secs(100 * 365 * 24 * 60 * 60);
