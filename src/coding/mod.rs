//! Floor 2: content codings, and which one a peer prefers (RFC 9110 §8.4.1, §12.5.3). Pure: bytes in, bytes out.
//!
//! The names of codings are always known; whether they can be decoded and encoded depends on the features.

mod decoders;
mod decoding;
#[cfg(feature = "compress")]
mod encoder;

mod codec;
mod codecs;
#[cfg(feature = "compress")]
mod encode;

#[cfg(any(feature = "compress", feature = "fs"))]
mod choice;
#[cfg(feature = "compress")]
mod shrink;

mod error;

#[cfg(any(feature = "compress", feature = "fs"))]
pub(crate) use choice::Choice;
pub use codec::Flush;
pub(crate) use codecs::ACCEPTED;
pub(crate) use decoders::{DECODED_AT_ONCE, Decoders, OF_CODED};
pub(crate) use decoding::Decoding;
#[cfg(feature = "compress")]
pub(crate) use encoder::{Encoder, encode_once};
pub use error::CodingError;
#[cfg(feature = "compress")]
pub(crate) use shrink::{essence, shrinks};

/// A content coding (RFC 9110 §8.4.1).
///
/// # Examples
///
/// ```
/// use corehttp::Coding;
///
/// assert_eq!(Coding::parse(b"X-GZIP"), Some(Coding::Gzip));
/// assert_eq!(Coding::parse(b"compress"), None);
/// assert_eq!(Coding::Br.as_str(), "br");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Coding {
    /// `br`: RFC 7932. With feature `compress`.
    Br,
    /// `zstd`: RFC 8878, RFC 9659. With feature `zstd`.
    Zstd,
    /// `gzip`, formerly `x-gzip`: RFC 1952. With feature `compress`.
    Gzip,
    /// `deflate`: RFC 1950, or bare RFC 1951, which some send. With feature `compress`.
    Deflate,
}

impl Coding {
    /// Returns the coding with this name, in any case.
    pub fn parse(name: &[u8]) -> Option<Coding> {
        let names: [(&[u8], Coding); 5] = [
            (b"br", Coding::Br),
            (b"zstd", Coding::Zstd),
            (b"gzip", Coding::Gzip),
            (b"x-gzip", Coding::Gzip),
            (b"deflate", Coding::Deflate),
        ];
        names.into_iter().find(|(known, _)| name.eq_ignore_ascii_case(known)).map(|(_, coding)| coding)
    }

    /// Returns its name in fields.
    pub const fn as_str(self) -> &'static str {
        match self {
            Coding::Br => "br",
            Coding::Zstd => "zstd",
            Coding::Gzip => "gzip",
            Coding::Deflate => "deflate",
        }
    }

    /// Returns whether the crate was built with this coding.
    pub const fn is_available(self) -> bool {
        codecs::has(self)
    }
}

#[cfg(all(test, feature = "compress"))]
mod tests;
