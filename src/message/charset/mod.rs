//! Content as text, in the charset that its type names (RFC 9110 §8.3.2).

mod content_text;
mod invalid_charset;

#[cfg(not(feature = "charset"))]
mod disabled;
#[cfg(feature = "charset")]
mod enabled;

#[cfg(not(feature = "charset"))]
use disabled::decode;
#[cfg(feature = "charset")]
use enabled::decode;
pub use invalid_charset::{InvalidCharset, InvalidText};
