//! [`TimeLimit`]: how long something may take, or how fast it must be, as an error reports it.

use std::fmt;
use std::time::Duration;

/// A time limit that was exceeded: a duration, or a rate in bytes per second. `{}` formats it as `30 s`, `250 ms` or
/// `500 bytes per second`.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use corehttp::TimeLimit;
///
/// assert_eq!(TimeLimit::from(Duration::from_secs(30)).to_string(), "30 s");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct TimeLimit {
    unit: Unit,
    // Errors that carry a limit are part of results that are moved for each request, so it is small.
    amount: u32,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Unit {
    Milliseconds,
    BytesPerSecond,
    /// The limit is that of another program, such as the operating system.
    Unknown,
}

impl TimeLimit {
    /// A limit of another program, such as the operating system, which is not known.
    pub(crate) const UNKNOWN: TimeLimit = TimeLimit { unit: Unit::Unknown, amount: 0 };

    /// The least rate at which bytes must arrive.
    pub(crate) fn bytes_per_second(rate: u64) -> TimeLimit {
        TimeLimit { unit: Unit::BytesPerSecond, amount: u32::try_from(rate).unwrap_or(u32::MAX) }
    }

    /// Returns how the limit was exceeded: `took longer than 30 s`.
    pub(crate) fn exceeded(self) -> String {
        match self.unit {
            Unit::Milliseconds => format!("took longer than {self}"),
            Unit::BytesPerSecond => format!("was slower than {self}"),
            Unit::Unknown => "took too long".to_owned(),
        }
    }
}

impl From<Duration> for TimeLimit {
    fn from(limit: Duration) -> TimeLimit {
        match u32::try_from(limit.as_millis()) {
            Ok(amount) => TimeLimit { unit: Unit::Milliseconds, amount },
            Err(_) => TimeLimit::UNKNOWN,
        }
    }
}

impl fmt::Display for TimeLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.unit, self.amount) {
            (Unit::Milliseconds, amount) if amount % 1000 == 0 => write!(f, "{} s", amount / 1000),
            (Unit::Milliseconds, amount) => write!(f, "{amount} ms"),
            (Unit::BytesPerSecond, amount) => write!(f, "{amount} bytes per second"),
            (Unit::Unknown, _) => f.write_str("an unknown limit"),
        }
    }
}

impl fmt::Debug for TimeLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TimeLimit({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_written_in_its_unit() {
        let of = |millis| TimeLimit::from(Duration::from_millis(millis)).exceeded();
        assert_eq!(
            [of(300), of(30_000), of(1_500)],
            ["300 ms", "30 s", "1500 ms"].map(|it| format!("took longer than {it}"))
        );
        assert_eq!(TimeLimit::bytes_per_second(500).exceeded(), "was slower than 500 bytes per second");
        assert_eq!(TimeLimit::from(Duration::MAX).exceeded(), "took too long");
    }
}
