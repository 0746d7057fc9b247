//! Floor 5: responses are compressed with the peer's preferred coding (RFC 9110 §8.4, §12.5.3).

mod compress;
mod compress_transform;

pub use compress::Compress;
