//! No codings: content is sent and received as it is.

use crate::coding::Coding;
use crate::coding::codec::Decode;

/// The value of `accept-encoding`.
pub(crate) const ACCEPTED: &str = "identity";

/// Whether there is a codec for this coding.
pub(crate) const fn has(_: Coding) -> bool {
    false
}

/// Makes a decoder for this coding, if there is one.
pub(crate) fn decoder(_: Coding) -> Option<Box<dyn Decode>> {
    None
}
