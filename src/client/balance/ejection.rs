//! [`Ejection`]: hosts that fail get no requests for a while; [`Ejector`] keeps the record of one.

use std::fmt;
use std::time::Duration;

use crate::runtime::{Instant, later};

/// The failures after which a host of a [`Balancer`](super::Balancer) gets no requests for some time.
///
/// A host is ejected for several failures in a row, or for failing much more often than the others. When its time is over, it
/// gets one request a second as a trial. A trial that succeeds brings it back. One that fails ejects it again, for longer each
/// time. No more than a part of the hosts is ejected at once, so a common fault does not take all of them out.
///
/// A host with less trouble has [penalties](super::BalancerBuilder::penalty) alone.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use corehttp::Client;
/// use corehttp::client::Ejection;
///
/// let ejection = Ejection::new().failures(3).time(Duration::from_secs(10), Duration::from_secs(120));
/// let balancer = Client::new().balance(["http://one", "http://two"])?.ejection(ejection).build();
/// # Ok::<(), corehttp::error::MessageError>(())
/// ```
#[doc(alias("outlier", "outlier_detection", "circuit breaker", "max_fails", "fail_timeout"))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ejection {
    pub(super) failures: u32,
    pub(super) compared_from: Option<u32>,
    first: Duration,
    most: Duration,
    pub(super) percent_max: u8,
}

impl Ejection {
    /// Returns the defaults.
    pub fn new() -> Ejection {
        Ejection {
            failures: 5,
            compared_from: Some(100),
            first: Duration::from_secs(30),
            most: Duration::from_secs(300),
            percent_max: 50,
        }
    }

    /// Sets how many failures in a row eject a host. With 0, none do. Default: 5.
    ///
    /// As many lost hedges in a row eject it as well. These are [hedged](crate::client::Retry::hedge_after_percentile) requests
    /// that another host has answered first. At a hanging host, none of them fails, since each is canceled.
    #[must_use]
    pub fn failures(mut self, in_a_row: u32) -> Self {
        self.failures = in_a_row;
        self
    }

    /// Sets the least number of requests since the last comparison for a host to be compared with the others. `None` compares
    /// none. Default: 100.
    ///
    /// Hosts are compared when one has failed, at least ten seconds after the last time. There must be at least five with that
    /// many requests. A host is ejected if its share of successes is below the mean by more than 1.9 standard deviations, and
    /// by more than 5 percent.
    #[must_use]
    pub fn compared_from(mut self, requests: impl Into<Option<u32>>) -> Self {
        self.compared_from = requests.into();
        self
    }

    /// Sets how long a host is ejected the first time, and at most. The time doubles with each failed trial. It begins anew
    /// once the host has been back for the length of its last ejection. Default: 30 s and 300 s.
    #[must_use]
    pub fn time(mut self, first: Duration, most: Duration) -> Self {
        self.first = first;
        self.most = most.max(first);
        self
    }

    /// Sets how many percent of the hosts may be ejected at once, rounded down. Backups are included, hosts of weight 0 are
    /// not. A host that only waits for a trial does not count. Default: 50, thus one of two, and never the only one.
    ///
    /// With more than 0, a host is ejected all the same while one of a higher [tier](super::BalancerCounts::tier), such as a
    /// backup, can be used.
    #[must_use]
    pub fn percent_max(mut self, percent: u8) -> Self {
        self.percent_max = percent.min(100);
        self
    }
}

impl Default for Ejection {
    fn default() -> Ejection {
        Ejection::new()
    }
}

/// Why a host was ejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum EjectionCause {
    /// It has failed [`Ejection::failures`] times in a row.
    Failures,
    /// It has failed much more often than the others.
    SuccessRate,
    /// It has failed a trial.
    Trial,
    /// As many of its hedged requests in a row as [`Ejection::failures`] were answered by another host first.
    Hedges,
}

impl fmt::Display for EjectionCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            EjectionCause::Failures => "failures in a row",
            EjectionCause::SuccessRate => "more failures than the others",
            EjectionCause::Trial => "a failed trial",
            EjectionCause::Hedges => "hedges that others won",
        })
    }
}

/// The record of one host.
#[derive(Debug, Default)]
pub(super) struct Ejector {
    state: State,
    /// How long the last ejection was; zero if there was none, or if it is forgotten.
    last: Duration,
    /// When the host came back, if it was ejected.
    back_since: Option<Instant>,
}

#[derive(Clone, Copy, Debug, Default)]
enum State {
    #[default]
    Well,
    Ejected {
        cause: EjectionCause,
        until: Instant,
    },
    /// Requests are trials, of which the next one is due at `next`.
    HalfOpen {
        cause: EjectionCause,
        next: Instant,
    },
}

impl Ejector {
    /// Whether the host may get a request at `now`.
    pub(super) fn admits(&self, now: Instant) -> bool {
        match self.state {
            State::Well => true,
            State::Ejected { until: from, .. } | State::HalfOpen { next: from, .. } => from <= now,
        }
    }

    /// Notes that a request is assigned, and returns whether it is a trial of a host that was ejected. A request that is
    /// assigned before a trial is due is none: no host is fit for use, or another request has just become one.
    pub(super) fn begin_trial(&mut self, now: Instant) -> bool {
        let Some(cause) = self.cause().filter(|_| self.admits(now)) else { return false };
        self.state = State::HalfOpen { cause, next: later(now, TRIAL_INTERVAL) };
        true
    }

    /// Ejects the host. Returns for how long; `None` if it is ejected already.
    pub(super) fn eject(
        &mut self,
        policy: &Ejection,
        cause: EjectionCause,
        now: Instant,
    ) -> Option<Duration> {
        if matches!(self.state, State::Ejected { .. }) {
            return None;
        }
        let was_back = self.back_since.take().map(|since| now.saturating_duration_since(since));
        if was_back.is_some_and(|time| time >= self.last) {
            self.last = Duration::ZERO;
        }
        let doubled = self.last.saturating_mul(2);
        self.last = if doubled.is_zero() { policy.first } else { doubled.min(policy.most) };
        self.state = State::Ejected { cause, until: later(now, self.last) };
        Some(self.last)
    }

    /// Notes that a trial has succeeded. Returns whether that brings the host back: the host may have failed another one.
    pub(super) fn succeed(&mut self, now: Instant) -> bool {
        let is_back = matches!(self.state, State::HalfOpen { .. });
        if is_back {
            self.state = State::Well;
            self.back_since = Some(now);
        }
        is_back
    }

    /// Whether the host is on trial.
    pub(super) fn is_half_open(&self) -> bool {
        matches!(self.state, State::HalfOpen { .. })
    }

    /// Why the host is ejected or on trial, if it is.
    pub(super) fn cause(&self) -> Option<EjectionCause> {
        match self.state {
            State::Well => None,
            State::Ejected { cause, .. } | State::HalfOpen { cause, .. } => Some(cause),
        }
    }
}

/// How often a host that was ejected gets a trial, until one succeeds or fails. A caller may drop a request before it has an
/// outcome.
const TRIAL_INTERVAL: Duration = Duration::from_secs(1);

/// The successes and failures of one host in a window of time.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct WindowCounts {
    pub(super) served: u64,
    pub(super) failed: u64,
}

/// How long a window of time is in which hosts are compared.
pub(super) const WINDOW: Duration = Duration::from_secs(10);

/// Which hosts failed much more often than the others, by their counts in one window.
pub(super) fn outliers(windows: &[WindowCounts], requests_min: u32) -> Vec<usize> {
    let total = |window: &WindowCounts| window.served + window.failed;
    let rates: Vec<_> = windows
        .iter()
        .enumerate()
        .filter(|(_, window)| total(window) >= u64::from(requests_min.max(1)))
        .map(|(at, window)| (at, window.served as f64 / total(window) as f64))
        .collect();
    if rates.len() < HOSTS_MIN {
        return Vec::new();
    }
    let mean = |values: &mut dyn Iterator<Item = f64>| values.sum::<f64>() / rates.len() as f64;
    let average = mean(&mut rates.iter().map(|(_, rate)| *rate));
    let variance = mean(&mut rates.iter().map(|(_, rate)| (rate - average).powi(2)));
    // Where nearly all succeed, the deviation is so small that one failure would be far from the mean.
    let bound = average - (DEVIATIONS * variance.sqrt()).max(GAP_MIN);
    rates.iter().filter(|(_, rate)| *rate < bound).map(|(at, _)| *at).collect()
}

const HOSTS_MIN: usize = 5;
const DEVIATIONS: f64 = 1.9;
const GAP_MIN: f64 = 0.05;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime;

    use EjectionCause::Trial;

    const SECOND: Duration = Duration::from_secs(1);

    #[tokio::test(start_paused = true)]
    async fn each_failed_trial_doubles_the_time_up_to_the_most() {
        let policy = Ejection::new().time(10 * SECOND, 50 * SECOND);
        let mut ejector = Ejector::default();
        let mut now = runtime::now();
        assert!(ejector.admits(now) && !ejector.succeed(now));
        for seconds in [10, 20, 40, 50, 50] {
            assert_eq!(ejector.eject(&policy, Trial, now), Some(seconds * SECOND));
            assert_eq!(ejector.eject(&policy, Trial, now), None, "it is ejected already");
            assert!(!ejector.succeed(now), "a trial from before brings no host back");
            let early = later(now, seconds * SECOND - Duration::from_millis(1));
            assert!(!ejector.admits(early) && !ejector.begin_trial(early) && !ejector.is_half_open());
            now = later(now, seconds * SECOND);
            assert!(ejector.admits(now) && ejector.begin_trial(now));
            assert!(ejector.is_half_open() && !ejector.admits(now));
            now = later(now, SECOND);
            assert!(ejector.admits(now) && ejector.begin_trial(now), "a trial may have no outcome");
        }
        assert!(ejector.succeed(now) && ejector.cause().is_none());
        now = later(now, 49 * SECOND);
        assert_eq!(ejector.eject(&policy, Trial, now), Some(50 * SECOND), "it was not back for long");
        now = later(now, 50 * SECOND);
        ejector.begin_trial(now);
        assert!(ejector.succeed(now));
        now = later(now, 50 * SECOND);
        assert_eq!(ejector.eject(&policy, Trial, now), Some(10 * SECOND));
    }

    /// Hosts with these successes and failures are compared from 100 requests on.
    #[track_caller]
    fn check_outliers(windows: &[(u64, u64)], expected: &[usize]) {
        let windows: Vec<_> =
            windows.iter().map(|&(served, failed)| WindowCounts { served, failed }).collect();
        assert_eq!(outliers(&windows, 100), expected, "{windows:?}");
    }

    #[test]
    fn a_host_is_an_outlier_beside_at_least_four_others() {
        let well = (1_000, 0);
        check_outliers(&[], &[]);
        check_outliers(&[(0, 100), well, well, well], &[]);
        check_outliers(&[(0, 100), well, well, well, well], &[0]);
        check_outliers(&[well, well, well, well, well, (900, 100)], &[5]);
        check_outliers(&[well, well, well, well, well], &[]);
        check_outliers(&[(999, 1), well, well, well, well], &[]);
        check_outliers(&[well, well, well, well, well, (960, 40)], &[]);
        check_outliers(&[(0, 100), (0, 100), (0, 100), (0, 100), (0, 100)], &[]);
        check_outliers(&[(0, 99), well, well, well, well, well], &[]);
        check_outliers(&[(990, 10), (980, 20), (990, 10), (985, 15), (980, 20), (900, 100)], &[5]);
    }
}
