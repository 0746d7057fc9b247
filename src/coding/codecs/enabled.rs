//! The codings of feature `compress`, and of `zstd` if it is on.

use super::br::{BrDecoder, BrEncoder};
use super::deflate::{DeflateDecoder, DeflateEncoder, GzipDecoder};
#[cfg(not(feature = "zstd"))]
use super::without_zstd as zstd;
#[cfg(feature = "zstd")]
use super::zstd;
use crate::coding::Coding;
use crate::coding::codec::Decode;
use crate::coding::encode::Encode;

/// The value of `accept-encoding`.
pub(crate) const ACCEPTED: &str = zstd::ACCEPTED;

impl Coding {
    /// Returns whether the crate was built with this coding.
    pub const fn is_available(self) -> bool {
        match self {
            Coding::Zstd => zstd::IS_AVAILABLE,
            Coding::Br | Coding::Gzip | Coding::Deflate => true,
        }
    }
}

/// Makes a decoder for this coding, if there is one.
pub(crate) fn decoder(coding: Coding) -> Option<Box<dyn Decode>> {
    match coding {
        Coding::Br => Some(Box::new(BrDecoder::new())),
        Coding::Zstd => zstd::decoder(),
        Coding::Gzip => Some(Box::new(GzipDecoder::new())),
        Coding::Deflate => Some(Box::new(DeflateDecoder::new())),
    }
}

/// Makes an encoder for this coding, if there is one. A level that the coding does not have becomes the nearest one.
pub(crate) fn encoder(coding: Coding, level: u32) -> Option<Box<dyn Encode>> {
    match coding {
        Coding::Br => Some(Box::new(BrEncoder::new(level))),
        Coding::Zstd => zstd::encoder(level),
        Coding::Gzip => Some(Box::new(DeflateEncoder::new_gzip(level))),
        Coding::Deflate => Some(Box::new(DeflateEncoder::new_zlib(level))),
    }
}
