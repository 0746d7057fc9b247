//! No codings: content is sent and taken as it is.

use crate::coding::Coding;
use crate::coding::codec::Decode;

/// What `accept-encoding` says.
pub(crate) const ACCEPTED: &str = "identity";

/// Whether there is a codec for this coding.
pub(crate) const fn has(_: Coding) -> bool {
    false
}

/// A decoder for content so coded, if there is one.
pub(crate) fn decoder(_: Coding) -> Option<Box<dyn Decode>> {
    None
}
