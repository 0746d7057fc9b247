//! The codings of the features, each based on a crate that does the work.

#[cfg(feature = "compress")]
mod br;
#[cfg(feature = "compress")]
mod deflate;
#[cfg(all(feature = "compress", not(feature = "zstd")))]
mod without_zstd;
#[cfg(feature = "zstd")]
mod zstd;

#[cfg(not(feature = "compress"))]
mod disabled;
#[cfg(feature = "compress")]
mod enabled;

#[cfg(not(feature = "compress"))]
pub(crate) use disabled::{ACCEPTED, decoder};
#[cfg(feature = "compress")]
pub(crate) use enabled::{ACCEPTED, decoder, encoder};
