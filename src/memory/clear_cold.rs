//! [`clear_cold`]: drops what is usually not there.

/// Drops what is in `place`, which is usually nothing.
#[inline]
pub(crate) fn clear_cold<T>(place: &mut Option<T>) {
    if place.is_some() {
        empty(place);
    }
}

/// A function of its own, or the compiler would put the code that drops on the way of those who have nothing to drop.
#[cold]
#[inline(never)]
fn empty<T>(place: &mut Option<T>) {
    *place = None;
}
