//! [`Timeline`]: how many exchanges of a route one core has had lately, and how long they took; and [`SlotSeries`], those
//! of all cores at one moment.

use std::iter::zip;
use std::ops::AddAssign;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU32, AtomicU64};
use std::time::Duration;

use super::histogram::{bucket_of, bucket_of_rank, middle_of};

/// The exchanges of the last ten minutes, in slots of ten seconds.
pub(super) struct Timeline {
    slots: Box<[Slot]>,
}

/// The exchanges of ten seconds.
#[derive(Default)]
struct Slot {
    /// The number of the ten seconds, counted from 1.
    number: AtomicU64,
    failed: AtomicU32,
    /// One for every four buckets of a histogram, from 1 us to 69 s. Percentiles are within 7%.
    buckets: Box<[AtomicU32]>,
}

impl Default for Timeline {
    fn default() -> Timeline {
        let slot = || Slot { buckets: (0..BUCKETS).map(|_| AtomicU32::new(0)).collect(), ..Slot::default() };
        Timeline { slots: (0..SLOTS).map(|_| slot()).collect() }
    }
}

impl Timeline {
    /// Counts an exchange that was over in the slot of this number, after so many nanoseconds. No other thread writes.
    pub(super) fn record_single_writer(&self, number: u64, nanos: u64, is_failed: bool) {
        let slot = self.slot(number);
        let add =
            |counter: &AtomicU32, count| counter.store(counter.load(Relaxed).wrapping_add(count), Relaxed);
        add(&slot.failed, is_failed.into());
        add(&slot.buckets[coarse_bucket_of(nanos)], 1);
    }

    /// Counts an exchange as [`Timeline::record_single_writer`] does, while other threads may write, too; `None` for one
    /// that has failed. One that ends while another thread begins the slot may be lost.
    pub(super) fn record(&self, number: u64, nanos: Option<u64>) {
        let slot = self.slot(number);
        match nanos {
            Some(nanos) => slot.buckets[coarse_bucket_of(nanos)].fetch_add(1, Relaxed),
            None => slot.failed.fetch_add(1, Relaxed),
        };
    }

    fn slot(&self, number: u64) -> &Slot {
        let slot = &self.slots[(number % SLOTS) as usize];
        if slot.number.load(Relaxed) != number {
            slot.begin(number);
        }
        slot
    }

    /// The counts of the slot of this number.
    pub(super) fn counts(&self, number: u64) -> SlotCounts {
        let slot = &self.slots[(number % SLOTS) as usize];
        if slot.number.load(Acquire) != number {
            return SlotCounts::default();
        }
        let counts = SlotCounts {
            failed: slot.failed.load(Relaxed).into(),
            buckets: slot.buckets.iter().map(|bucket| bucket.load(Relaxed).into()).collect(),
        };
        // The core may have begun another slot in this place meanwhile.
        if slot.number.load(Acquire) == number { counts } else { SlotCounts::default() }
    }
}

impl Slot {
    fn begin(&self, number: u64) {
        self.number.store(0, Release);
        self.failed.store(0, Relaxed);
        self.buckets.iter().for_each(|bucket| bucket.store(0, Relaxed));
        self.number.store(number, Release);
    }
}

/// The exchanges of one slot, or of several.
#[derive(Clone, Debug, Default)]
pub(super) struct SlotCounts {
    pub(super) failed: u64,
    /// None if nothing was counted.
    buckets: Vec<u64>,
}

impl SlotCounts {
    pub(super) fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }

    /// The nanoseconds that so many of a thousand exchanges did not exceed; 0 if there were none.
    pub(super) fn per_mille(&self, share: u64) -> u64 {
        let bucket = bucket_of_rank(&self.buckets, (self.count() * share).div_ceil(1000));
        let first = |bucket| (bucket + FIRST) * COARSE;
        bucket.map_or(0, |bucket| middle_of(first(bucket)..=first(bucket + 1) - 1))
    }
}

impl AddAssign<&SlotCounts> for SlotCounts {
    fn add_assign(&mut self, other: &SlotCounts) {
        self.failed += other.failed;
        self.buckets.resize(BUCKETS, 0);
        zip(&mut self.buckets, &other.buckets).for_each(|(count, other)| *count += other);
    }
}

/// The counts of successive slots, of one route or of several, on all cores.
#[derive(Clone, Debug)]
pub(super) struct SlotSeries {
    first: u64,
    slots: Vec<SlotCounts>,
}

impl SlotSeries {
    /// Creates a series without counts, of the slots with these numbers.
    pub(super) fn new(first: u64, last: u64) -> SlotSeries {
        SlotSeries { first, slots: (first..=last).map(|_| SlotCounts::default()).collect() }
    }

    /// Adds what one core has counted.
    pub(super) fn add(&mut self, timeline: &Timeline) {
        zip(self.first.., &mut self.slots).for_each(|(number, slot)| *slot += &timeline.counts(number));
    }

    /// The slots from this number on, with their numbers.
    pub(super) fn since(&self, first: u64) -> impl Iterator<Item = (u64, &SlotCounts)> {
        zip(self.first.., &self.slots).skip_while(move |(number, _)| *number < first)
    }

    /// The sum of the slots from this number on.
    pub(super) fn sum_since(&self, first: u64) -> SlotCounts {
        let mut sum = SlotCounts::default();
        self.since(first).for_each(|(_, slot)| sum += slot);
        sum
    }
}

impl AddAssign<&SlotSeries> for SlotSeries {
    fn add_assign(&mut self, other: &SlotSeries) {
        debug_assert_eq!((self.first, self.slots.len()), (other.first, other.slots.len()), "the same slots");
        zip(&mut self.slots, &other.slots).for_each(|(slot, other)| *slot += other);
    }
}

/// The number of the slot in which `elapsed` ends.
pub(super) fn slot_number(elapsed: Duration) -> u64 {
    elapsed.as_secs() / SLOT.as_secs() + 1
}

fn coarse_bucket_of(nanos: u64) -> usize {
    (bucket_of(nanos) / COARSE).clamp(FIRST, FIRST + BUCKETS - 1) - FIRST
}

/// How long a slot is.
pub(super) const SLOT: Duration = Duration::from_secs(10);
/// How many slots there are.
pub(super) const SLOTS: u64 = 60;
/// How many buckets of a histogram share one here.
const COARSE: usize = 4;
/// The first of them, which begins at 2^10 ns.
const FIRST: usize = 6 * 32 / COARSE;
/// They end at 2^36 ns.
const BUCKETS: usize = 26 * 32 / COARSE;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_is_used_again_once_its_time_is_over() {
        let timeline = Timeline::default();
        for number in 1..=3 * SLOTS {
            (0..number)
                .for_each(|_| timeline.record_single_writer(number, 1_000_000 * number, number % 2 == 0));
            let before = number.saturating_sub(SLOTS - 1).max(1);
            for kept in before..=number {
                let counts = timeline.counts(kept);
                assert_eq!((counts.count(), counts.failed), (kept, if kept % 2 == 0 { kept } else { 0 }));
                let exact = 1_000_000 * kept;
                let found = counts.per_mille(990);
                assert!(found.abs_diff(exact) * 100 <= exact * 7, "{found} for {exact}");
            }
            assert_eq!(timeline.counts(before.saturating_sub(1)).count(), 0);
        }
    }

    #[test]
    fn slots_add_up() {
        let timeline = Timeline::default();
        [0, 500, 2_000, u64::MAX]
            .into_iter()
            .for_each(|nanos| timeline.record_single_writer(7, nanos, false));
        let mut sum = SlotCounts::default();
        assert_eq!((sum.count(), sum.per_mille(500)), (0, 0));
        (0..2).for_each(|_| sum += &timeline.counts(7));
        assert_eq!(sum.count(), 8);
        assert!(sum.per_mille(500) < 1_100 && sum.per_mille(1000) > 60_000_000_000, "{sum:?}");
    }
}
