//! Content as text, in the charset that its type names (RFC 9110 §8.3.2).

mod invalid_charset;

#[cfg(not(feature = "charset"))]
mod disabled;
#[cfg(feature = "charset")]
mod enabled;

#[cfg(not(feature = "charset"))]
pub(super) use disabled::decode;
#[cfg(feature = "charset")]
pub(super) use enabled::decode;
pub(super) use invalid_charset::CharsetError;
pub use invalid_charset::{InvalidCharset, InvalidText};
