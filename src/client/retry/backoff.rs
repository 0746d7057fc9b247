//! [`Backoff`]: how long a request waits before it is sent again, and [`retry_after`], how long its server wants it to
//! (RFC 9110 §10.2.3).

use std::hash::{BuildHasher, RandomState};
use std::time::{Duration, SystemTime};

use crate::message::{FieldName, Headers, HttpDate, saturating_decimal};

/// The waits between the attempts at a request. The bound of each doubles, and a wait is anything from nothing to that:
/// clients that have failed together would otherwise come back together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Backoff {
    /// The bound of the first wait.
    pub(crate) first: Duration,
    /// The bound of each wait.
    pub(crate) most: Duration,
}

impl Backoff {
    /// The bound of the wait after `failed` attempts.
    pub(crate) fn bound(self, failed: u32) -> Duration {
        let doubled = 1_u32.checked_shl(failed.saturating_sub(1)).unwrap_or(u32::MAX);
        self.first.saturating_mul(doubled).min(self.most)
    }

    /// A random wait after `failed` attempts.
    pub(in crate::client) fn jittered(self, failed: u32) -> Duration {
        self.wait(failed, random())
    }

    /// A wait after `failed` attempts. `random` is any number.
    pub(super) fn wait(self, failed: u32, random: u64) -> Duration {
        share(self.bound(failed), random)
    }
}

impl Default for Backoff {
    fn default() -> Backoff {
        Backoff { first: Duration::from_millis(100), most: Duration::from_secs(10) }
    }
}

/// Returns anything from nothing to the whole.
pub(crate) fn random_share(whole: Duration) -> Duration {
    share(whole, random())
}

/// `random` is any number.
fn share(whole: Duration, random: u64) -> Duration {
    let whole = u64::try_from(whole.as_nanos()).unwrap_or(u64::MAX);
    let share = (u128::from(whole) * u128::from(random)) >> u64::BITS;
    Duration::from_nanos(u64::try_from(share).expect("a share is no larger than the whole"))
}

/// Returns a random number. Retries and checks are few, so each has new keys from the standard library.
fn random() -> u64 {
    RandomState::new().hash_one(())
}

/// Returns how long the server of a response with these fields wants the client to wait. `None` if it does not say so,
/// or not as a number of seconds or a date.
///
/// A date counts from the `date` of the response, and from `now` without one. One that is over is no wait.
pub(crate) fn retry_after(headers: &Headers, now: impl FnOnce() -> SystemTime) -> Option<Duration> {
    let value = headers.first(FieldName::RETRY_AFTER)?;
    if let Some(seconds) = saturating_decimal(value) {
        return Some(Duration::from_secs(seconds));
    }
    let until = HttpDate::parse(value)?;
    let from = headers.date("date").unwrap_or_else(now);
    Some(until.duration_since(from).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_their_bound_and_are_spread() {
        let backoff = Backoff { first: Duration::from_millis(100), most: Duration::from_secs(1) };
        for (failed, bound) in [(0, 100), (1, 100), (2, 200), (3, 400), (4, 800), (5, 1000), (u32::MAX, 1000)]
        {
            let bound = Duration::from_millis(bound);
            assert_eq!(backoff.bound(failed), bound, "{failed}");
            assert_eq!(backoff.wait(failed, 0), Duration::ZERO);
            assert_eq!(backoff.wait(failed, 1 << 63), bound / 2);
            assert!(backoff.wait(failed, u64::MAX) <= bound);
        }
        let endless = Backoff { first: Duration::MAX, most: Duration::MAX };
        assert!(endless.wait(9, u64::MAX) <= Duration::MAX);
        assert_eq!(Backoff { first: Duration::ZERO, ..backoff }.wait(9, u64::MAX), Duration::ZERO);
        assert_ne!(random(), random());
    }

    #[test]
    fn retry_after_is_seconds_or_a_date_rfc9110_10_2_3() {
        const DATE: &str = "Sun, 06 Nov 1994 08:49:37 GMT";
        let date = HttpDate::parse(DATE).unwrap();
        let second = Duration::from_secs(1);
        #[track_caller]
        fn check(fields: &[(&str, &str)], now: SystemTime, expected: Option<Duration>) {
            let mut headers = Headers::new();
            fields.iter().for_each(|(name, value)| headers.append(name, *value).unwrap());
            assert_eq!(retry_after(&headers, || now), expected, "{fields:?}");
        }
        check(&[], date, None);
        check(&[("retry-after", "0")], date, Some(Duration::ZERO));
        check(&[("retry-after", "120")], date, Some(120 * second));
        check(&[("retry-after", "99999999999")], date, Some(Duration::from_secs(99_999_999_999)));
        check(&[("retry-after", &"9".repeat(40))], date, Some(Duration::from_secs(u64::MAX)));
        for bad in
            ["", "-1", "+1", "1.5", "1 s", "1, 2", "soon", "0x10", "Sun, 06 Nov 1994 08:49:37", "\u{661}"]
        {
            check(&[("retry-after", bad)], date, None);
        }
        check(&[("retry-after", DATE)], date - 3 * second, Some(3 * second));
        check(&[("retry-after", DATE)], date + 3 * second, Some(Duration::ZERO));
        check(
            &[("retry-after", "Sun, 06 Nov 1994 08:49:39 GMT"), ("date", DATE)],
            date + 99 * second,
            Some(2 * second),
        );
        check(
            &[("retry-after", DATE), ("date", "Fri, 31 Dec 9999 23:59:59 GMT")],
            date,
            Some(Duration::ZERO),
        );
        check(&[("retry-after", DATE), ("date", "today")], date - second, Some(second));
        check(&[("retry-after", "1"), ("retry-after", "2")], date, Some(second));
    }
}
