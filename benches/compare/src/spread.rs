//! [`Spread`]: a median, and how far the rounds were apart.

use std::fmt;

/// The figures of several rounds: the median and the quartiles.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Spread {
    pub(crate) low: f64,
    pub(crate) median: f64,
    pub(crate) high: f64,
}

impl Spread {
    /// None of nothing.
    pub(crate) fn from_values(values: impl IntoIterator<Item = f64>) -> Option<Spread> {
        let mut values: Vec<f64> = values.into_iter().collect();
        values.sort_by(f64::total_cmp);
        let last = values.len().checked_sub(1)?;
        // With few rounds, a quartile is the round beyond it: a small sample has no right to look exact.
        let [low, high] = [last / 4, (last * 3).div_ceil(4)];
        let median = (values[last / 2] + values[last.div_ceil(2)]) / 2.0;
        Some(Spread { low: values[low], median, high: values[high] })
    }

    /// Are the rounds too far apart for the median to say much?
    pub(crate) fn is_wide(&self) -> bool {
        self.high - self.low > WIDTH_MAX * self.median
    }

    /// The median, and half the distance of the quartiles if there is any.
    pub(crate) fn brief(&self) -> String {
        let half = (self.high - self.low) / 2.0 / self.median * 100.0;
        if half > 0.0 { format!("{} ±{half:.0}%", number(self.median)) } else { number(self.median) }
    }

    /// Did nearly all rounds of this come to less than nearly all of the other?
    pub(crate) fn is_below(&self, other: &Spread) -> bool {
        self.high < other.low
    }
}

/// To three digits.
pub(crate) fn number(value: f64) -> String {
    let digits = match value {
        _ if value < 10.0 => 2,
        _ if value < 100.0 => 1,
        _ => 0,
    };
    format!("{value:.digits$}")
}

/// From quartile to quartile, as a share of the median.
pub(crate) const WIDTH_MAX: f64 = 0.1;

impl fmt::Display for Spread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = if self.median < 100.0 { 2 } else { 0 };
        let Spread { low, median, high } = self;
        write!(f, "{median:.digits$} ({low:.digits$} to {high:.digits$})")
    }
}

#[cfg(test)]
mod tests {
    use super::{Spread, number};

    #[track_caller]
    fn check(values: &[f64], expected: Option<(f64, f64, f64)>, is_wide: bool) {
        let spread = Spread::from_values(values.iter().copied());
        assert_eq!(spread.map(|it| (it.low, it.median, it.high)), expected, "{values:?}");
        assert_eq!(spread.is_some_and(|it| it.is_wide()), is_wide, "{values:?}");
    }

    #[test]
    fn quartiles_of_few_rounds_are_those_beyond() {
        check(&[], None, false);
        check(&[2.0], Some((2.0, 2.0, 2.0)), false);
        check(&[3.0, 1.0], Some((1.0, 2.0, 3.0)), true);
        check(&[3.0, 1.0, 2.0], Some((1.0, 2.0, 3.0)), true);
        check(&[1.0, 1.01, 9.0, 1.02, 1.03, 0.1, 1.02], Some((1.0, 1.02, 1.03)), false);
        check(&[5.0, 4.0, 3.0, 2.0, 1.0], Some((2.0, 3.0, 4.0)), true);
        check(&[4.0, 3.0, 2.0, 1.0], Some((1.0, 2.5, 4.0)), true);
    }

    #[test]
    fn quartiles_that_meet_rank_nobody() {
        let spread = |values: [f64; 3]| Spread::from_values(values).expect("three rounds");
        assert!(spread([1.0, 1.1, 1.2]).is_below(&spread([1.3, 1.4, 1.5])));
        assert!(!spread([1.0, 1.1, 1.3]).is_below(&spread([1.3, 1.4, 1.5])));
        assert!(!spread([1.3, 1.4, 1.5]).is_below(&spread([1.0, 1.1, 1.2])));
    }

    #[test]
    fn numbers_have_three_digits_and_a_spread_is_a_share() {
        assert_eq!([0.123, 4.567, 45.67, 456.7].map(number), ["0.12", "4.57", "45.7", "457"]);
        let brief = |values: &[f64]| Spread::from_values(values.iter().copied()).map(|it| it.brief());
        assert_eq!(brief(&[9.0, 10.0, 11.0]).as_deref(), Some("10.0 ±10%"));
        assert_eq!(brief(&[500.0]).as_deref(), Some("500"));
    }
}
