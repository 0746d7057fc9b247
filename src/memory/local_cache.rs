//! [`LocalCache`]: a few objects of one thread, kept to be used again.

use std::cell::RefCell;

/// A few objects of one thread, last in, first out. Unlike a [`FreeList`](super::FreeList) it holds objects of several
/// kinds, and so few that it needs no trimming: an object too many replaces the oldest.
pub(crate) struct LocalCache<T> {
    kept: RefCell<Vec<T>>,
}

impl<T> LocalCache<T> {
    pub(crate) const fn new() -> LocalCache<T> {
        LocalCache { kept: RefCell::new(Vec::new()) }
    }

    /// Takes the object given last of those that `suits` accepts.
    pub(crate) fn take(&self, suits: impl Fn(&T) -> bool) -> Option<T> {
        let mut kept = self.kept.borrow_mut();
        let at = kept.iter().rposition(suits)?;
        Some(kept.remove(at))
    }

    /// Keeps `object`, which was reset. If there are too many, the oldest one is dropped.
    pub(crate) fn give(&self, object: T) {
        let mut kept = self.kept.borrow_mut();
        let surplus = (kept.len() == KEPT_MAX).then(|| kept.remove(0));
        kept.push(object);
        // Dropped last, because the drop may itself give objects to this cache.
        drop((kept, surplus));
    }
}

/// How many objects are kept. A core works on one thing at a time, so only work that is interleaved needs more than
/// one.
const KEPT_MAX: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;

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
