//! No codings: content is sent and taken as it is.

use crate::coding::Coding;
use crate::coding::codec::Decode;

/// What `accept-encoding` says.
pub(crate) const ACCEPTED: &str = "identity";

/// A decoder for content so coded, if there is one.
pub(crate) fn decoder(_: Coding) -> Option<Box<dyn Decode>> {
    None
}
