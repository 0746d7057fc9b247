//! Content codings, such as gzip: their names, and the preferences of peers (RFC 9110 §8.4.1, §12.5.3).
//!
//! ```
//! use corehttp::Request;
//! use corehttp::coding::Coding;
//!
//! let mut request = Request::get("http://example.com/")?;
//! request.headers.set("accept-encoding", "gzip, br;q=0.5")?;
//! # #[cfg(any(feature = "compress", feature = "fs"))]
//! assert_eq!(request.preferred_coding([Coding::Br, Coding::Gzip]), Some(Coding::Gzip));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Servers compress with `middleware::Compress`, and clients decode with
//! [`ClientBuilder::decode_up_to`](crate::ClientBuilder::decode_up_to). Both need the feature `compress`.

// Floor 2: content codings, and which one a peer prefers (RFC 9110 §8.4.1, §12.5.3). Pure: bytes in, bytes out.
//
// The names of codings exist in every build; whether a coding can be decoded and encoded depends on the features.

mod content_decoder;
#[cfg(feature = "compress")]
mod content_encoder;

mod codec;
mod codecs;
#[cfg(feature = "compress")]
mod encode;

#[cfg(any(feature = "compress", feature = "fs"))]
mod negotiated_coding;

pub use codec::{Coding, CodingError, Flush};
pub(crate) use codecs::ACCEPTED;
pub(crate) use content_decoder::{
    CODED_CONTENT_FIELDS, ContentDecoder, DECODED_PER_STEP, DecoderChain, weaken_etag,
};
#[cfg(feature = "compress")]
pub(crate) use content_encoder::{ContentEncoder, encode_once, essence, is_compressible};
#[cfg(any(feature = "compress", feature = "fs"))]
pub(crate) use negotiated_coding::NegotiatedCoding;

#[cfg(all(test, feature = "compress"))]
mod tests;
