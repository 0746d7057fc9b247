//! [`FreeList`] and [`LocalCache`]: [`Reset`] objects waiting to be used again.

use std::cell::{Cell, RefCell};

/// An object that can be used again.
pub(crate) trait Reset {
    /// Makes the object equal to a new one, except that it keeps its memory.
    fn reset(&mut self);

    /// Frees memory that only large messages need.
    fn shrink(&mut self);
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
}

impl<T> Default for FreeList<T> {
    fn default() -> FreeList<T> {
        FreeList { free: RefCell::default(), unneeded: Cell::new(0) }
    }
}

impl<T: Reset> FreeList<T> {
    /// Takes the object that was given back last, or else a `new` one.
    #[inline]
    pub(crate) fn take(&self, new: impl FnOnce() -> Box<T>) -> Box<T> {
        let mut free = self.free.borrow_mut();
        let taken = free.pop();
        self.unneeded.set(self.unneeded.get().min(free.len()));
        drop(free);
        taken.unwrap_or_else(new)
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
        let surplus = self.unneeded.get().div_ceil(2);
        // The objects at the front have waited longest.
        free.drain(..surplus);
        free.iter_mut().for_each(|object| object.shrink());
        let kept = free.len();
        debug_assert!(surplus <= self.unneeded.get(), "only objects that were not needed are dropped");
        free.shrink_to(2 * kept.max(STEADY));
        self.unneeded.set(kept);
        kept > 0
    }
}

/// The capacity that the list keeps for good, so that an ordinary core does not allocate again after each trim.
const STEADY: usize = 8;

/// A few objects of one thread, last in, first out. Unlike a [`FreeList`], a cache holds objects of several kinds, and
/// so few that it needs no trimming: one too many replaces the oldest.
pub(crate) struct LocalCache<T> {
    kept: RefCell<Vec<T>>,
}

impl<T> LocalCache<T> {
    pub(crate) const fn new() -> LocalCache<T> {
        LocalCache { kept: RefCell::new(Vec::new()) }
    }

    /// Takes the object that was given last among those that `suits` accepts.
    pub(crate) fn take(&self, suits: impl Fn(&T) -> bool) -> Option<T> {
        let mut kept = self.kept.borrow_mut();
        let at = kept.iter().rposition(suits)?;
        Some(kept.remove(at))
    }

    /// Keeps `object`, which the caller has reset. If there are too many objects, the oldest one is dropped.
    pub(crate) fn give(&self, object: T) {
        let mut kept = self.kept.borrow_mut();
        let surplus = (kept.len() == KEPT_MAX).then(|| kept.remove(0));
        kept.push(object);
        debug_assert!(kept.len() <= KEPT_MAX);
        // Dropped last, because the drop may itself give objects to this cache.
        drop((kept, surplus));
    }
}

/// The capacity of a cache. A core works on one message at a time, so only interleaved work needs more than one object.
const KEPT_MAX: usize = 4;

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
    use super::*;

    #[derive(Debug, Default, PartialEq)]
    struct Object(u32);

    impl Reset for Object {
        fn reset(&mut self) {
            self.0 = 0;
        }

        fn shrink(&mut self) {}
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
