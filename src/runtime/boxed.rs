//! [`boxed`]: a future that few exchanges need.

use std::pin::Pin;

/// Makes a future that few exchanges need. It is boxed, or the future that awaits it would have room for it; and it is
/// made here, or each poll of that one would set up a stack with room for it, over several pages.
#[cold]
#[inline(never)]
pub(crate) fn boxed<F: Future>(make: impl FnOnce() -> F) -> Pin<Box<F>> {
    Box::pin(make())
}
