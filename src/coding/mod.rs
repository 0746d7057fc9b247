//! Floor 2: how content is coded on its way, and which coding a peer likes (RFC 9110 §8.4.1, §12.5.3). Pure: bytes in,
//! bytes out.
//!
//! What a coding is called is known here always; whether it can be decoded and encoded is up to the features.

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
pub(crate) use decoders::{Decoders, OF_CODED};
pub(crate) use decoding::Decoding;
#[cfg(feature = "compress")]
pub(crate) use encoder::Encoder;
pub use error::CodingError;
#[cfg(feature = "compress")]
pub(crate) use shrink::{essence, shrinks};

/// A content coding (RFC 9110 §8.4.1). Content that is not coded has none.
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
    /// `gzip`, or `x-gzip` as it was called: RFC 1952. With feature `compress`.
    Gzip,
    /// `deflate`: RFC 1950, or bare RFC 1951 as some send it. With feature `compress`.
    Deflate,
}

impl Coding {
    /// The coding of that name, in any case.
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

    /// What it is called in a field.
    pub const fn as_str(self) -> &'static str {
        match self {
            Coding::Br => "br",
            Coding::Zstd => "zstd",
            Coding::Gzip => "gzip",
            Coding::Deflate => "deflate",
        }
    }

    /// Whether the crate was built with it.
    pub const fn is_available(self) -> bool {
        codecs::has(self)
    }
}

#[cfg(all(test, feature = "compress"))]
mod tests;
