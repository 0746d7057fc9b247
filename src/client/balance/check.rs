//! [`HealthCheck`]: how a balancer finds out whether its hosts are up.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use crate::client::retry::random;
use crate::message::{MessageError, Request, Response, TargetError, TargetForm};

/// How a [`Balancer`](super::Balancer) checks whether each host is up.
///
/// A host that is down gets no requests as long as there are others. It goes down after some checks in a row have failed,
/// and is up again after some have passed. Meanwhile checks come sooner.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use corehttp::Client;
/// use corehttp::client::HealthCheck;
///
/// let check = HealthCheck::get("/health")?
///     .interval(Duration::from_secs(5))
///     .passed_if(|response| response.status.is_success() && response.body.bytes() == b"ok");
/// let balancer = Client::new().balance(["http://one", "http://two"])?.health_check(check).build();
/// # Ok::<(), corehttp::error::MessageError>(())
/// ```
pub struct HealthCheck {
    pub(super) request: Request,
    pub(super) interval: Duration,
    doubt_interval: Option<Duration>,
    rise: u32,
    fall: u32,
    jitter_percent: u8,
    has_passed: Box<HasPassed>,
}

/// Whether a response is that of a host that is up.
type HasPassed = dyn Fn(&Response) -> bool + Send + Sync;

impl HealthCheck {
    /// Checks by requesting `path`, which a host answers with 2xx if it is up.
    ///
    /// # Errors
    ///
    /// Fails if `path` is not a path.
    pub fn get(path: &str) -> Result<HealthCheck, MessageError> {
        let request = Request::get(path)?;
        if request.target().form() != TargetForm::Origin {
            return Err(MessageError::from_url(TargetError::Form, path));
        }
        Ok(HealthCheck {
            request,
            interval: Duration::from_secs(5),
            doubt_interval: None,
            rise: 2,
            fall: 3,
            jitter_percent: 10,
            has_passed: Box::new(|response| response.status.is_success()),
        })
    }

    /// Sets how long after the beginning of a check the next one begins, if the state of the host is certain. A response
    /// that takes longer fails the check. Default: 5 s; at least 10 ms.
    #[must_use]
    pub fn interval(mut self, interval: Duration) -> Self {
        // Without a pause, checks would keep the hosts busy.
        self.interval = interval.max(INTERVAL_MIN);
        self
    }

    /// Sets the interval while the last checks contradict the state of the host. Default: a fifth of the other.
    #[must_use]
    #[doc(alias = "fastinter")]
    pub fn doubt_interval(mut self, interval: Duration) -> Self {
        self.doubt_interval = Some(interval.max(INTERVAL_MIN));
        self
    }

    /// Sets how many checks in a row must pass until a host that is down is up. Default: 2; at least 1.
    #[must_use]
    pub fn rise(mut self, passed: u32) -> Self {
        self.rise = passed.max(1);
        self
    }

    /// Sets how many checks in a row must fail until a host that is up is down. Default: 3; at least 1.
    #[must_use]
    pub fn fall(mut self, failed: u32) -> Self {
        self.fall = failed.max(1);
        self
    }

    /// Sets by how many percent an interval may be shorter, at random, so that checks of several balancers do not come
    /// together. Default: 10.
    #[must_use]
    pub fn jitter_percent(mut self, percent: u8) -> Self {
        self.jitter_percent = percent.min(100);
        self
    }

    /// Sets a function that decides by status, fields and content whether a host is up. A panic of it fails the check.
    /// Default: the status is 2xx.
    #[must_use]
    pub fn passed_if(mut self, has_passed: impl Fn(&Response) -> bool + Send + Sync + 'static) -> Self {
        self.has_passed = Box::new(has_passed);
        self
    }

    pub(super) fn has_passed(&self, response: &Response) -> bool {
        catch_unwind(AssertUnwindSafe(|| (self.has_passed)(response))).unwrap_or(false)
    }

    /// The time until the next check.
    pub(super) fn pause(&self, is_in_doubt: bool) -> Duration {
        let interval = match (is_in_doubt, self.doubt_interval) {
            (false, _) => self.interval,
            (true, Some(interval)) => interval,
            (true, None) => (self.interval / 5).max(INTERVAL_MIN),
        };
        let jitter = interval * u32::from(self.jitter_percent) / 100;
        interval - jitter.mul_f64((random() >> 32) as f64 / f64::from(u32::MAX))
    }
}

const INTERVAL_MIN: Duration = Duration::from_millis(10);

impl fmt::Debug for HealthCheck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HealthCheck")
            .field("target", self.request.target())
            .field("interval", &self.interval)
            .field("rise", &self.rise)
            .field("fall", &self.fall)
            .finish_non_exhaustive()
    }
}

/// How many of the last checks contradict the state of a host.
#[derive(Debug, Default)]
pub(super) struct Doubt(u32);

impl Doubt {
    /// Whether the last check contradicts the state of the host.
    pub(super) fn is_any(&self) -> bool {
        self.0 > 0
    }

    /// Notes a check of a host that `is_up`. Returns its new state, if that changes.
    pub(super) fn note(&mut self, check: &HealthCheck, is_up: bool, has_passed: bool) -> Option<bool> {
        if has_passed == is_up {
            self.0 = 0;
            return None;
        }
        self.0 += 1;
        let is_certain = self.0 >= if is_up { check.fall } else { check.rise };
        if is_certain {
            self.0 = 0;
        }
        is_certain.then_some(has_passed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The states of a host after each of these checks, which is up at first.
    #[track_caller]
    fn check(checks: &[bool], expected: &[bool]) {
        let check = HealthCheck::get("/").unwrap();
        let mut doubt = Doubt::default();
        let mut is_up = true;
        let states: Vec<_> = checks
            .iter()
            .map(|has_passed| {
                is_up = doubt.note(&check, is_up, *has_passed).unwrap_or(is_up);
                is_up
            })
            .collect();
        assert_eq!(states, expected, "{checks:?}");
    }

    #[test]
    fn a_host_falls_after_three_failures_and_rises_after_two() {
        check(&[true, true], &[true, true]);
        check(&[false, false, true, false, false, false], &[true, true, true, true, true, false]);
        check(
            &[false, false, false, true, false, true, true],
            &[true, true, false, false, false, false, true],
        );
    }

    #[test]
    fn an_interval_is_shorter_in_doubt_and_by_chance() {
        let check = HealthCheck::get("/").unwrap().interval(Duration::from_secs(10));
        for _ in 0..100 {
            assert!((Duration::from_secs(9)..=Duration::from_secs(10)).contains(&check.pause(false)));
            assert!(check.pause(true) <= Duration::from_secs(2));
        }
        let exact = check.jitter_percent(0).doubt_interval(Duration::ZERO);
        assert_eq!(exact.pause(false), Duration::from_secs(10));
        assert_eq!(exact.pause(true), INTERVAL_MIN);
    }
}
