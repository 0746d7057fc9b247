//! No `zstd`.

use crate::coding::codec::Decode;
use crate::coding::encode::Encode;

/// The value of `accept-encoding`.
pub(super) const ACCEPTED: &str = "br, gzip, deflate";

pub(super) const IS_AVAILABLE: bool = false;

pub(super) fn decoder() -> Option<Box<dyn Decode>> {
    None
}

pub(super) fn encoder(_: u32) -> Option<Box<dyn Encode>> {
    None
}
