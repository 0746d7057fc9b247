//! The time according to the runtime's timers, and waiting for it to pass.

use std::time::Duration;

pub(crate) use tokio::time::{Instant, sleep, sleep_until, timeout, timeout_at};

/// Returns the time according to the runtime's timers, which tests can pause.
pub(crate) fn now() -> Instant {
    Instant::now()
}

/// Returns `from` plus `wait`, which is capped at a century.
pub(crate) fn later(from: Instant, wait: Duration) -> Instant {
    from + wait.min(FAR)
}

/// A century, which is as good as never.
const FAR: Duration = Duration::from_secs(100 * 365 * 24 * 60 * 60);
