//! [`Check`]: whether something that the server depends on works, asked no more often than its answer is needed.

use std::error::Error;
use std::future::poll_fn;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use tokio::sync::{Mutex, OwnedMutexGuard};

use crate::error_text::TimeLimit;
use crate::runtime::{self, Instant, timeout};

/// The check of one dependency.
pub(super) struct Check {
    pub(super) name: Box<str>,
    run: Box<dyn Fn() -> CheckFuture + Send + Sync>,
    /// How long the check may take.
    timeout: Duration,
    /// How long an outcome is kept.
    keep_outcome_for: Duration,
    /// The last outcome. Locked while the check runs, so that it runs only once at a time.
    last: Arc<Mutex<Option<Outcome>>>,
}

/// How a check ended.
#[derive(Clone, Copy)]
struct Outcome {
    at: Instant,
    is_good: bool,
}

type CheckFuture = Pin<Box<dyn Future<Output = Result<(), CheckError>>>>;

/// The error of a check.
pub(super) type CheckError = Box<dyn Error + Send + Sync>;

/// A function that is called when the outcome of a check is another than before: with the error, or without one if the
/// dependency works again.
pub(super) type OnChange = dyn Fn(&str, Option<&(dyn Error + 'static)>) + Send + Sync;

impl Check {
    pub(super) fn new<F, E>(name: &str, check: F, timeout: Duration, keep_outcome_for: Duration) -> Check
    where
        F: AsyncFn() -> Result<(), E> + Send + Sync + 'static,
        E: Into<CheckError>,
    {
        let check = Arc::new(check);
        let run = move || -> CheckFuture {
            let check = check.clone();
            Box::pin(async move { check().await.map_err(Into::into) })
        };
        Check { name: name.into(), run: Box::new(run), timeout, keep_outcome_for, last: Arc::default() }
    }

    /// Returns whether the dependency works, by the last outcome unless that is too old.
    pub(super) async fn is_good(self: &Arc<Check>, on_change: &Arc<OnChange>) -> bool {
        // The core of the probe that runs the check may be blocked.
        let Ok(last) = timeout(self.timeout, self.last.clone().lock_owned()).await else { return false };
        if let Some(Outcome { at, is_good }) = *last
            && runtime::now().saturating_duration_since(at) < self.keep_outcome_for
        {
            return is_good;
        }
        // Probes that give up early would otherwise begin the check again and again, and none would see it end.
        runtime::run_beside(self.clone().renew(last, on_change.clone())).await
    }

    /// Runs the check, and calls `on_change` if the outcome differs from the `last` one.
    async fn renew(
        self: Arc<Check>,
        mut last: OwnedMutexGuard<Option<Outcome>>,
        on_change: Arc<OnChange>,
    ) -> bool {
        let error = match timeout(self.timeout, confined((self.run)())).await {
            Ok(outcome) => outcome.err(),
            Err(_) => {
                let text = format!("it {}", TimeLimit::from(self.timeout).exceeded());
                Some(io::Error::new(io::ErrorKind::TimedOut, text).into())
            }
        };
        let is_good = error.is_none();
        let was_good = last.replace(Outcome { at: runtime::now(), is_good }).is_none_or(|last| last.is_good);
        // The function of the application may take its time, and may panic.
        drop(last);
        if is_good != was_good {
            on_change(&self.name, error.as_deref().map(|error| error as &(dyn Error + 'static)));
        }
        is_good
    }
}

/// Runs a check. A panic of the application's function is a failure, kept as any other.
async fn confined(mut check: CheckFuture) -> Result<(), CheckError> {
    poll_fn(|cx| {
        let polled = catch_unwind(AssertUnwindSafe(|| check.as_mut().poll(cx)));
        polled.unwrap_or_else(|_| Poll::Ready(Err("the check panicked".into())))
    })
    .await
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_probe_does_not_wait_for_a_core_that_is_blocked() {
        let limit = Duration::from_secs(1);
        let check = Arc::new(Check::new("db", async || pending::<Result<(), String>>().await, limit, limit));
        // Nothing polls this one any more.
        let _blocked = check.last.clone().lock_owned().await;
        let began = runtime::now();
        let on_change: Arc<OnChange> = Arc::new(|_, _| ());
        assert!(!check.is_good(&on_change).await);
        assert!(runtime::now() - began <= limit + Duration::from_millis(1));
    }
}
