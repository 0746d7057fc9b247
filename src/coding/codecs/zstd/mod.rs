//! `zstd` (RFC 8878), or that there is none.

#[cfg(not(feature = "zstd"))]
mod disabled;
#[cfg(feature = "zstd")]
mod enabled;

#[cfg(not(feature = "zstd"))]
pub(super) use disabled::{ACCEPTED, decoder, encoder};
#[cfg(feature = "zstd")]
pub(super) use enabled::{ACCEPTED, decoder, encoder};
