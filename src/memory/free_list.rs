//! [`FreeList`] and [`LocalCache`]: [`Reset`] objects waiting to be used again.

use std::cell::{Cell, RefCell};

use super::pool_counts::{PoolCounts, PoolKind, count_cache};

/// An object that can be used again.
pub(crate) trait Reset {
    /// Makes the object equal to a new one, except that it keeps its memory.
    fn reset(&mut self);

    /// Frees memory that only large messages need, and returns how many bytes are kept.
    fn shrink(&mut self) -> usize;
}

/// Free objects of one core, last in, first out, so that the one with the warmest memory is used next.
///
/// Memory is freed after a burst: a regular [`FreeList::trim`] drops half of the objects that were not needed since the
/// last one, and shrinks the rest.
pub(crate) struct FreeList<T> {
    // Boxed, so that taking and giving move a pointer and not the object.
    free: RefCell<Vec<Box<T>>>,
    /// The smallest number of free objects since the last trim, which is how many were not needed.
    unneeded: Cell<usize>,
    /// How often an object was taken, and a new one was made for that.
    taken: Cell<u64>,
    created: Cell<u64>,
    /// How many bytes the free objects had at the last trim.
    bytes: Cell<usize>,
}

impl<T> Default for FreeList<T> {
    fn default() -> FreeList<T> {
        let (free, unneeded, taken, created, bytes) = Default::default();
        FreeList { free, unneeded, taken, created, bytes }
    }
}

impl<T: Reset> FreeList<T> {
    /// Takes the object that was given back last, or else a `new` one.
    #[inline]
    pub(crate) fn take(&self, new: impl FnOnce() -> Box<T>) -> Box<T> {
        let mut free = self.free.borrow_mut();
        let taken = free.pop();
        // A branch that is rarely taken is cheaper than a store at each call.
        if free.len() < self.unneeded.get() {
            self.unneeded.set(free.len());
        }
        drop(free);
        self.taken.set(self.taken.get() + 1);
        taken.unwrap_or_else(|| {
            self.created.set(self.created.get() + 1);
            new()
        })
    }

    /// Resets `object` and keeps it.
    #[inline]
    pub(crate) fn give(&self, mut object: Box<T>) {
        object.reset();
        self.free.borrow_mut().push(object);
    }

    /// Whether no object is free.
    pub(crate) fn is_empty(&self) -> bool {
        self.free.borrow().is_empty()
    }

    /// Drops half of the objects that were not needed since the last trim, and shrinks the others. Returns whether
    /// there is more to free.
    pub(crate) fn trim(&self) -> bool {
        let mut free = self.free.borrow_mut();
        debug_assert!(self.unneeded.get() <= free.len(), "an object that is not needed is free");
        let surplus = self.unneeded.get().div_ceil(2);
        // The objects at the front have waited longest.
        free.drain(..surplus);
        self.bytes.set(free.iter_mut().map(|object| object.shrink()).sum());
        let kept = free.len();
        free.shrink_to(2 * kept.max(STEADY));
        self.unneeded.set(kept);
        kept > 0
    }

    /// The counts so far. The bytes are those of the last trim.
    pub(crate) fn counts(&self) -> PoolCounts {
        PoolCounts {
            reused: self.taken.get() - self.created.get(),
            created: self.created.get(),
            kept: self.free.borrow().len() as u64,
            bytes: self.bytes.get() as u64,
        }
    }
}

/// The capacity that the list keeps for good, so that an ordinary core does not allocate again after each trim.
const STEADY: usize = 8;

/// A few objects of one thread, last in, first out. Unlike a [`FreeList`], a cache holds objects of several kinds, and
/// so few that it needs no trimming: one too many replaces the oldest.
pub(crate) struct LocalCache<T> {
    kept: RefCell<Vec<T>>,
    /// The kind of the objects, and how many bytes one of them takes, if they are counted.
    counted: Option<(PoolKind, Measure<T>)>,
}

/// How many bytes an object takes.
type Measure<T> = fn(&T) -> usize;

impl<T> LocalCache<T> {
    #[allow(dead_code, reason = "unused without the feature `websocket`")]
    pub(crate) const fn new() -> LocalCache<T> {
        LocalCache { kept: RefCell::new(Vec::new()), counted: None }
    }

    /// Creates a cache whose objects are counted, and whose size `bytes` returns.
    pub(crate) const fn counted(kind: PoolKind, bytes: Measure<T>) -> LocalCache<T> {
        LocalCache { kept: RefCell::new(Vec::new()), counted: Some((kind, bytes)) }
    }

    /// Takes the object that was given last among those that `suits` accepts. The caller makes one if there is none.
    pub(crate) fn take(&self, suits: impl Fn(&T) -> bool) -> Option<T> {
        let mut kept = self.kept.borrow_mut();
        let at = kept.iter().rposition(suits);
        let taken = at.map(|at| kept.remove(at));
        self.count(&kept, Some(taken.is_some()));
        taken
    }

    /// Keeps `object`, which the caller has reset. If there are too many objects, the oldest one is dropped.
    pub(crate) fn give(&self, object: T) {
        let mut kept = self.kept.borrow_mut();
        let surplus = (kept.len() == KEPT_MAX).then(|| kept.remove(0));
        kept.push(object);
        debug_assert!(kept.len() <= KEPT_MAX, "the oldest object has made room");
        self.count(&kept, None);
        // Dropped last, because the drop may itself give objects to this cache.
        drop((kept, surplus));
    }

    fn count(&self, kept: &[T], hit: Option<bool>) {
        if let Some((kind, bytes)) = self.counted {
            count_cache(kind, hit, kept.len(), || kept.iter().map(bytes).sum());
        }
    }
}

/// The capacity of a cache. A core works on one message at a time, so only interleaved work needs more than one object.
const KEPT_MAX: usize = 4;

/// Frees memory beyond `kept_max` values, unless it is in use. Without values, it frees all. An allocator that shrinks a
/// block in place keeps the rest: too little for the next block of that length. A server in 300 MB was ended by that.
pub(crate) fn free_beyond<T>(values: &mut Vec<T>, kept_max: usize) {
    if values.is_empty() && values.capacity() > kept_max {
        *values = Vec::new();
    }
    values.shrink_to(kept_max);
}

/// Frees the memory of a text likewise.
pub(crate) fn free_text_beyond(text: &mut String, kept_max: usize) {
    if text.is_empty() && text.capacity() > kept_max {
        *text = String::new();
    }
    text.shrink_to(kept_max);
}

/// Clears an option that is usually `None` already.
#[inline]
pub(crate) fn clear_cold<T>(place: &mut Option<T>) {
    if place.is_some() {
        empty(place);
    }
}

/// A separate function, or the compiler would inline the drop glue into the hot path.
#[cold]
#[inline(never)]
fn empty<T>(place: &mut Option<T>) {
    *place = None;
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::ReuseCounters;
    use super::*;

    #[derive(Debug, Default, PartialEq)]
    struct Object(u32);

    impl Reset for Object {
        fn reset(&mut self) {
            self.0 = 0;
        }

        fn shrink(&mut self) -> usize {
            size_of::<Object>()
        }
    }

    fn held(list: &FreeList<Object>) -> usize {
        list.free.borrow().len()
    }

    #[test]
    fn the_object_given_back_last_is_reset_and_taken_first() {
        let list = FreeList::default();
        let mut first = list.take(Box::default);
        let address: *const Object = &*first;
        first.0 = 7;
        list.give(first);
        let again = list.take(|| unreachable!("one is free"));
        assert_eq!((&*again as *const Object, &*again), (address, &Object(0)));
    }

    #[test]
    fn a_burst_is_forgotten_and_a_steady_need_is_not() {
        let list = FreeList::default();
        let burst: Vec<_> = (0..64).map(|_| list.take(Box::default)).collect();
        burst.into_iter().for_each(|object| list.give(object));
        list.trim();
        for _ in 0..8 {
            let needed: Vec<_> = (0..4).map(|_| list.take(Box::default)).collect();
            needed.into_iter().for_each(|object| list.give(object));
            list.trim();
        }
        assert!((4..8).contains(&held(&list)), "{} are held", held(&list));
    }

    #[test]
    fn a_list_counts_what_was_used_again() {
        let list = FreeList::<Object>::default();
        let counts = |reused, created, kept, bytes| PoolCounts { reused, created, kept, bytes };
        let both = [(); 2].map(|()| list.take(Box::default));
        assert_eq!(list.counts(), counts(0, 2, 0, 0));
        both.into_iter().for_each(|object| list.give(object));
        list.trim();
        assert_eq!(list.counts(), counts(0, 2, 2, 2 * size_of::<Object>() as u64));
        list.give(list.take(Box::default));
        list.trim();
        list.trim();
        assert_eq!(list.counts(), counts(1, 2, 0, 0));
    }

    #[test]
    fn a_cache_counts_for_the_core_that_began_last() {
        let cache = LocalCache::counted(PoolKind::Decoders, |object: &u8| usize::from(*object));
        let (first, second) = (Arc::<ReuseCounters>::default(), Arc::<ReuseCounters>::default());
        let all = || [&first, &second].map(|counters| counters.counts()[PoolKind::Decoders as usize]);
        let counts = |reused, created, kept, bytes| PoolCounts { reused, created, kept, bytes };
        cache.give(1);
        let _first = first.attach_to_thread();
        assert_eq!(cache.take(|_| true), Some(1));
        assert_eq!(all(), [counts(1, 0, 0, 0), counts(0, 0, 0, 0)]);
        let counting = second.attach_to_thread();
        assert_eq!(cache.take(|_| true), None);
        (1..=9).for_each(|object| cache.give(object));
        assert_eq!(all(), [counts(1, 0, 0, 0), counts(0, 1, 4, 6 + 7 + 8 + 9)]);
        drop(counting);
        cache.take(|_| true);
        assert_eq!(all(), [counts(1, 0, 0, 0), counts(0, 1, 0, 0)]);
    }

    #[test]
    fn the_last_object_that_suits_is_taken_and_few_are_kept() {
        let cache = LocalCache::new();
        assert_eq!(cache.take(|_| true), None);
        (0..KEPT_MAX + 2).for_each(|object| cache.give(object));
        assert_eq!(cache.take(|object| *object < 2), None, "the oldest went");
        assert_eq!(cache.take(|object| object % 2 == 0), Some(KEPT_MAX));
        assert_eq!(cache.take(|_| true), Some(KEPT_MAX + 1));
        assert_eq!(cache.kept.borrow().len(), KEPT_MAX - 2);
    }
}
