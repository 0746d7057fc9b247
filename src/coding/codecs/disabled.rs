//! No codings: content is sent and received unchanged.

use crate::coding::Coding;
use crate::coding::codec::Decode;

/// The value of `accept-encoding`.
pub(crate) const ACCEPTED: &str = "identity";

impl Coding {
    /// Returns whether the crate was built with this coding.
    pub const fn is_available(self) -> bool {
        false
    }
}

/// Makes a decoder for this coding, if there is one.
pub(crate) fn decoder(_: Coding) -> Option<Box<dyn Decode>> {
    None
}
