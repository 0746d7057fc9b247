//! Floor 2: content codings, and which one a peer prefers (RFC 9110 §8.4.1, §12.5.3). Pure: bytes in, bytes out.
//!
//! The names of codings are always known; whether they can be decoded and encoded depends on the features.

mod content_decoder;
#[cfg(feature = "compress")]
mod content_encoder;
mod decoder_chain;

mod codec;
mod codecs;
#[cfg(feature = "compress")]
mod encode;

#[cfg(feature = "compress")]
mod compressible;
#[cfg(any(feature = "compress", feature = "fs"))]
mod negotiated_coding;

mod error;

pub use codec::Flush;
pub(crate) use codecs::ACCEPTED;
#[cfg(feature = "compress")]
pub(crate) use compressible::{essence, is_compressible};
pub(crate) use content_decoder::ContentDecoder;
#[cfg(feature = "compress")]
pub(crate) use content_encoder::{ContentEncoder, encode_once};
pub(crate) use decoder_chain::{CODED_CONTENT_FIELDS, DECODED_PER_STEP, DecoderChain};
pub use error::CodingError;
#[cfg(any(feature = "compress", feature = "fs"))]
pub(crate) use negotiated_coding::NegotiatedCoding;

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
