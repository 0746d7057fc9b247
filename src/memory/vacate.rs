//! [`vacate`]: drops what is usually not there.

use std::hint::cold_path;

/// Drops what is in `place`, which is usually nothing. Without the hint the compiler puts the code that drops it on the
/// way of those who have nothing to drop.
#[inline]
pub(crate) fn vacate<T>(place: &mut Option<T>) {
    if place.is_some() {
        cold_path();
        *place = None;
    }
}
