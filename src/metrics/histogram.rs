//! [`Histogram`]: counts values by their size, to within 1.6%; and [`HistogramCounts`], the counts at one moment.

use std::fmt;
use std::iter::zip;
use std::ops::{AddAssign, RangeInclusive};
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

/// Counts whole numbers, such as nanoseconds or bytes, by their size. Threads share it without locks.
///
/// A percentile is at most 1.6% or 1 away from the exact value, whichever is more. Values above 2^42 (73 minutes in
/// nanoseconds) count as 2^42. A histogram takes 10 KB, however many values it counts.
///
/// # Examples
///
/// ```
/// use corehttp::metrics::Histogram;
///
/// let histogram = Histogram::new();
/// (1..=1000).for_each(|value| histogram.record(value));
/// let counts = histogram.counts();
/// assert_eq!((counts.count(), counts.sum()), (1000, 500_500));
/// assert!((495..=505).contains(&counts.quantile(0.5).unwrap()));
/// ```
pub struct Histogram {
    sum: AtomicU64,
    buckets: Box<[AtomicU64]>,
}

impl Histogram {
    /// Creates a histogram without values.
    pub fn new() -> Histogram {
        Histogram { sum: AtomicU64::new(0), buckets: (0..BUCKETS).map(|_| AtomicU64::new(0)).collect() }
    }

    /// Counts a value.
    pub fn record(&self, value: u64) {
        self.sum.fetch_add(value, Relaxed);
        self.buckets[bucket_of(value)].fetch_add(1, Relaxed);
    }

    /// Counts the nanoseconds of `time`.
    pub fn record_duration(&self, time: Duration) {
        self.record(nanos(time));
    }

    /// Counts a value, without a locked instruction: no other thread writes.
    pub(super) fn record_single_writer(&self, value: u64) {
        let bucket = &self.buckets[bucket_of(value)];
        bucket.store(bucket.load(Relaxed).wrapping_add(1), Relaxed);
        self.sum.store(self.sum.load(Relaxed).wrapping_add(value), Relaxed);
    }

    /// Returns the counts so far. Values that are recorded meanwhile may be among them or not.
    pub fn counts(&self) -> HistogramCounts {
        let buckets = self.buckets.iter().map(|bucket| bucket.load(Relaxed)).collect();
        HistogramCounts { buckets, sum: self.sum.load(Relaxed) }
    }
}

impl Default for Histogram {
    fn default() -> Histogram {
        Histogram::new()
    }
}

impl fmt::Debug for Histogram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.counts().fmt(f)
    }
}

/// The counts of a [`Histogram`], as they were at one moment. The counts of several histograms can be added.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct HistogramCounts {
    /// None if nothing was counted.
    buckets: Vec<u64>,
    sum: u64,
}

impl HistogramCounts {
    /// Returns how many values were counted.
    pub fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }

    /// Returns the sum of all values.
    pub fn sum(&self) -> u64 {
        self.sum
    }

    /// Returns the value that this fraction of all values does not exceed: 0.99 for the 99th percentile, 0.5 for the median.
    /// `None` if there are no values. A fraction below 0 counts as 0, one above 1 as 1.
    pub fn quantile(&self, fraction: f64) -> Option<u64> {
        // The last digits of a product that is a rank must not make it the next one.
        let rank = fraction.clamp(0.0, 1.0) * self.count() as f64 * (1.0 - 1e-12);
        let bucket = bucket_of_rank(&self.buckets, rank.ceil() as u64)?;
        Some(middle_of(bucket..=bucket))
    }

    /// Returns how many values were at most `power`, a power of two from 64 to 2^42.
    pub(super) fn at_most(&self, power: u64) -> u64 {
        debug_assert!(power.is_power_of_two() && (2 * SUB_BUCKETS..=VALUE_MAX).contains(&power));
        self.buckets.iter().take(bucket_of(power) + 1).sum()
    }
}

impl AddAssign<&HistogramCounts> for HistogramCounts {
    fn add_assign(&mut self, other: &HistogramCounts) {
        self.buckets.resize(BUCKETS, 0);
        zip(&mut self.buckets, &other.buckets).for_each(|(count, other)| *count += other);
        self.sum = self.sum.wrapping_add(other.sum);
    }
}

impl fmt::Debug for HistogramCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HistogramCounts")
            .field("count", &self.count())
            .field("sum", &self.sum)
            .field("median", &self.quantile(0.5))
            .field("max", &self.quantile(1.0))
            .finish()
    }
}

pub(super) fn nanos(time: Duration) -> u64 {
    // `as_nanos` computes in 128 bits.
    time.as_secs().saturating_mul(1_000_000_000).saturating_add(time.subsec_nanos().into())
}

/// The bucket that counts `value`.
///
/// Up to 64, each value has a bucket of its own, but 0 and 1 share one. Beyond, 32 buckets of one width take the values
/// from each power of two, which is not among them, to the next, which is: so the count of values up to a power is
/// exact, as the bounds in Prometheus's format require.
pub(super) fn bucket_of(value: u64) -> usize {
    let below = value.saturating_sub(1).min(VALUE_MAX - 1);
    let shift = (below | SUB_BUCKETS).ilog2() - SUB_BUCKETS.ilog2();
    (u64::from(shift) * SUB_BUCKETS + (below >> shift)) as usize
}

/// The bucket of the value that has this rank among all that were counted, from 1 on; 0 counts as 1. `None` if fewer were
/// counted.
pub(super) fn bucket_of_rank(buckets: &[u64], rank: u64) -> Option<usize> {
    let mut counted = 0;
    buckets.iter().position(|count| {
        counted += count;
        counted >= rank.max(1)
    })
}

/// The value in the middle of successive buckets.
pub(super) fn middle_of(buckets: RangeInclusive<usize>) -> u64 {
    let (first, last) = (bucket_range(*buckets.start()).0, bucket_range(*buckets.end()).1);
    first + (last - first) / 2
}

/// The first and the last value of a bucket.
fn bucket_range(bucket: usize) -> (u64, u64) {
    let bucket = bucket as u64;
    let shift = (bucket / SUB_BUCKETS).saturating_sub(1);
    let below = bucket - shift * SUB_BUCKETS;
    ((below << shift) + 1, (below + 1) << shift)
}

/// The middle of one of 32 buckets between two powers of two is at most 1/64 away from its ends.
const SUB_BUCKETS: u64 = 32;
const VALUE_MAX: u64 = 1 << 42;
const BUCKETS: usize = (SUB_BUCKETS * (42 - 4)) as usize;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_value_is_within_its_bucket_and_each_bucket_has_its_place() {
        let mut next = 1;
        for bucket in 0..BUCKETS {
            let (first, last) = bucket_range(bucket);
            assert_eq!((first, bucket_of(first), bucket_of(last)), (next, bucket, bucket));
            next = last + 1;
        }
        assert_eq!(next - 1, VALUE_MAX);
        assert_eq!((bucket_of(0), bucket_of(u64::MAX)), (0, BUCKETS - 1));
    }

    #[test]
    fn a_percentile_is_wrong_by_less_than_two_percent() {
        let mut value = 1u64;
        let mut seed = 7u64;
        while value < VALUE_MAX {
            let histogram = Histogram::new();
            histogram.record(value);
            let found = histogram.counts().quantile(0.5).unwrap();
            assert!(found.abs_diff(value) as f64 <= value as f64 * 0.0157, "{found} for {value}");
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            value += 1 + (value >> 9) + (seed >> 40) % (1 + (value >> 9));
        }
    }

    /// Against sorted values, as the definition has it.
    #[test]
    fn percentiles_of_many_values_are_those_of_the_sorted_list() {
        let histogram = Histogram::new();
        let mut seed = 1u64;
        let mut values: Vec<u64> = (0..10_000)
            .map(|_| {
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                (seed >> 33) >> (seed % 30)
            })
            .collect();
        values.iter().for_each(|value| histogram.record_single_writer(*value));
        values.sort_unstable();
        let counts = histogram.counts();
        assert_eq!((counts.count(), counts.sum()), (10_000, values.iter().sum()));
        for percent in 0..=100 {
            let exact = values[(percent * values.len()).div_ceil(100).max(1) - 1];
            let found = counts.quantile(percent as f64 / 100.0).unwrap();
            assert!(
                found.abs_diff(exact) as f64 <= (exact as f64 * 0.0157).max(1.0),
                "{percent}%: {found}, {exact}"
            );
        }
        for power in (6..42).map(|exponent| 1 << exponent) {
            let exact = values.iter().filter(|value| **value <= power).count();
            assert_eq!(counts.at_most(power), exact as u64, "{power}");
        }
        let mut twice = HistogramCounts::default();
        assert_eq!((twice.quantile(0.5), twice.count()), (None, 0));
        (0..2).for_each(|_| twice += &counts);
        assert_eq!((twice.count(), twice.sum()), (20_000, 2 * counts.sum()));
        assert_eq!(twice.quantile(0.99), counts.quantile(0.99));
    }
}
