//! No `zstd`.

use crate::coding::codec::Decode;
use crate::coding::encode::Encode;

/// The value of `accept-encoding`.
pub(crate) const ACCEPTED: &str = "br, gzip, deflate";

pub(crate) const IS_HERE: bool = false;

pub(crate) fn decoder() -> Option<Box<dyn Decode>> {
    None
}

pub(crate) fn encoder(_: u32) -> Option<Box<dyn Encode>> {
    None
}
