//! Content as text, in the charset that its type names (RFC 9110 §8.3.2).

#[cfg(not(feature = "charset"))]
mod disabled;
#[cfg(feature = "charset")]
mod enabled;

#[cfg(not(feature = "charset"))]
pub(super) use disabled::decode;
#[cfg(feature = "charset")]
pub(super) use enabled::decode;
