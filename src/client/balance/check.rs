//! [`HealthCheck`]: how a balancer finds out whether its hosts are up; [`CheckFailure`]: why one is not.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use crate::client::error::{ClientError, ClientPhase};
use crate::client::host::Host;
use crate::client::retry::random_share;
use crate::descriptors;
use crate::message::{MessageError, Request, Response, Status};

/// How a [`Balancer`](super::Balancer) checks its hosts.
///
/// A down host gets no requests while there are others. A host goes down after several failed checks in a row, and up
/// again after several passed ones. Meanwhile checks come sooner.
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
    /// `None` if a connection is enough.
    request: Option<Request>,
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
    /// Checks by requesting `path`. A host that is up answers with 2xx.
    ///
    /// # Errors
    ///
    /// Fails if `path` is not a path.
    pub fn get(path: &str) -> Result<HealthCheck, MessageError> {
        Ok(HealthCheck::new(Some(Request::from_path(path)?)))
    }

    /// Checks by opening a connection, with TLS for an `https` host, and closing it again. For hosts that have no path for
    /// checks. A host that accepts connections and answers none of them is up.
    pub fn connect() -> HealthCheck {
        HealthCheck::new(None)
    }

    fn new(request: Option<Request>) -> HealthCheck {
        HealthCheck {
            request,
            interval: Duration::from_secs(5),
            doubt_interval: None,
            rise: 2,
            fall: 3,
            jitter_percent: 10,
            has_passed: Box::new(|response| response.status.is_success()),
        }
    }

    /// Sets the time from the beginning of one check to that of the next, while the state of the host is certain. A check that
    /// takes longer has failed, even after a [`HealthCheck::doubt_interval`]. Default: 5 s; at least 10 ms.
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

    /// Sets after how many passed checks in a row a down host is up again. Default: 2; at least 1.
    #[must_use]
    pub fn rise(mut self, passed: u32) -> Self {
        self.rise = passed.max(1);
        self
    }

    /// Sets after how many failed checks in a row a host is down. Default: 3; at least 1.
    #[must_use]
    pub fn fall(mut self, failed: u32) -> Self {
        self.fall = failed.max(1);
        self
    }

    /// Sets by how many percent an interval may be shorter, at random. The checks of several balancers are thus spread.
    /// Default: 10.
    #[must_use]
    pub fn jitter_percent(mut self, percent: u8) -> Self {
        self.jitter_percent = percent.min(100);
        self
    }

    /// Sets which responses pass, by status, fields and content. A panic of the function fails the check. Default: the status
    /// is 2xx.
    #[must_use]
    pub fn passed_if(mut self, has_passed: impl Fn(&Response) -> bool + Send + Sync + 'static) -> Self {
        self.has_passed = Box::new(has_passed);
        self
    }

    /// Checks `host`, whose response goes into `response`. Returns `None` if that was not possible, since all connections to
    /// the host are in use, or there is no file descriptor for another.
    pub(super) async fn run(&self, host: &Host, response: &mut Response) -> Option<Result<(), CheckFailure>> {
        let outcome = match &self.request {
            Some(request) => host.send(request, response).await,
            None => host.check_connection().await,
        };
        match outcome {
            Ok(()) if self.request.is_none() || self.has_passed(response) => Some(Ok(())),
            Ok(()) => Some(Err(CheckFailure::Response(response.status))),
            Err(error) => CheckFailure::from_error(&error).map(Err),
        }
    }

    fn has_passed(&self, response: &Response) -> bool {
        catch_unwind(AssertUnwindSafe(|| (self.has_passed)(response))).unwrap_or(false)
    }

    /// The time until the next check.
    pub(super) fn pause(&self, is_in_doubt: bool) -> Duration {
        let interval = match (is_in_doubt, self.doubt_interval) {
            (false, _) => self.interval,
            (true, Some(interval)) => interval,
            (true, None) => (self.interval / 5).max(INTERVAL_MIN),
        };
        interval - random_share(interval / 100 * u32::from(self.jitter_percent))
    }
}

const INTERVAL_MIN: Duration = Duration::from_millis(10);

impl fmt::Debug for HealthCheck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HealthCheck")
            .field("target", &self.request.as_ref().map(Request::target))
            .field("interval", &self.interval)
            .field("rise", &self.rise)
            .field("fall", &self.fall)
            .finish_non_exhaustive()
    }
}

/// Why a host has failed a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CheckFailure {
    /// It has answered with this status, and the check has not passed.
    Response(Status),
    /// The exchange failed or took too long, in this phase.
    Exchange(ClientPhase),
}

impl fmt::Display for CheckFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CheckFailure::Response(status) => write!(f, "answered with {}", status.as_u16()),
            CheckFailure::Exchange(phase) => write!(f, "{phase} failed"),
        }
    }
}

impl CheckFailure {
    /// The failure of a check that ended with `error`; `None` if the check was not sent.
    fn from_error(error: &ClientError) -> Option<CheckFailure> {
        match error.phase() {
            ClientPhase::Queue => None,
            _ if descriptors::is_out_of_descriptors(error) => None,
            phase => Some(CheckFailure::Exchange(phase)),
        }
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
