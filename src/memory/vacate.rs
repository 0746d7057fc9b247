//! [`vacate`]: drops what is usually not there.

use std::hint::cold_path;

/// Drops what is in `place`, which is usually nothing. The compiler would take it for likely, and have those who find
/// nothing jump over the code that drops.
#[inline]
pub(crate) fn vacate<T>(place: &mut Option<T>) {
    if place.is_some() {
        cold_path();
        *place = None;
    }
}
