//! [`RateStore`]: where several processes count requests together.

use std::sync::Arc;
use std::time::Duration;

use crate::server::Result;

/// The place where requests are counted for a [`SharedRateLimit`](super::SharedRateLimit), such as a Redis. The example
/// `shared` of the repository has that one, in a short script.
///
/// The future need not be `Send`, because a request stays on its core. It is dropped when it takes longer than
/// [`SharedRateLimit::timeout`](super::SharedRateLimit::timeout).
pub trait RateStore: 'static {
    /// Counts a request for `key`, unless it is beyond the bound. The check and the count must be one step, to admit no more
    /// concurrent requests than may be.
    ///
    /// Peers can choose at most 200 octets of the key, none of which is a control character.
    fn count(&self, key: &str, quota: &RateQuota) -> impl Future<Output = Result<RateDecision>>;
}

/// How many requests a key may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RateQuota {
    /// So many in each interval, at least 1.
    pub requests: u32,
    /// The interval: at least a microsecond for each request, at most 365 days.
    pub interval: Duration,
    /// So many at once after there were none for a while, at least 1.
    pub burst: u32,
}

impl RateQuota {
    pub(super) fn new(requests: u32, interval: Duration) -> RateQuota {
        let requests = requests.max(1);
        let interval = interval.clamp(Duration::from_micros(requests.into()), INTERVAL_MAX);
        RateQuota { requests, interval, burst: requests }
    }

    /// Returns the share of the interval that each request has.
    ///
    /// By the generic cell rate algorithm, each request puts off the next whole burst by that much.
    pub fn share(&self) -> Duration {
        self.interval / self.requests
    }
}

/// A year: a store may count in integers of 64 bits, or in the 53 bits of a script.
const INTERVAL_MAX: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// Whether a request is within its bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RateDecision {
    /// It is, and was counted.
    Allowed {
        /// How many more may be sent at once now.
        remaining: u32,
        /// In how long a whole burst may be sent again.
        reset: Duration,
    },
    /// It is not, and was not counted.
    Refused {
        /// In how long the next request may be sent.
        retry_after: Duration,
        /// In how long a whole burst may be sent again.
        reset: Duration,
    },
}

impl<S: RateStore> RateStore for Arc<S> {
    fn count(&self, key: &str, quota: &RateQuota) -> impl Future<Output = Result<RateDecision>> {
        (**self).count(key, quota)
    }
}
