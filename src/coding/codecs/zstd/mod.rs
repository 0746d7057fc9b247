//! `zstd` (RFC 8878), if the feature is on.

#[cfg(not(feature = "zstd"))]
mod disabled;
#[cfg(feature = "zstd")]
mod enabled;

#[cfg(not(feature = "zstd"))]
pub(super) use disabled::{ACCEPTED, IS_HERE, decoder, encoder};
#[cfg(feature = "zstd")]
pub(super) use enabled::{ACCEPTED, IS_HERE, decoder, encoder};
