//! The codings of the features, each based on a crate that does the work.

#[cfg(feature = "compress")]
mod br;
#[cfg(feature = "compress")]
mod caching_alloc;
#[cfg(feature = "compress")]
mod deflate;
#[cfg(feature = "compress")]
mod gzip;
#[cfg(feature = "compress")]
mod zstd;

#[cfg(not(feature = "compress"))]
mod disabled;
#[cfg(feature = "compress")]
mod enabled;

#[cfg(not(feature = "compress"))]
pub(crate) use disabled::{ACCEPTED, decoder, has};
#[cfg(feature = "compress")]
pub(crate) use enabled::{ACCEPTED, decoder, encoder, has};
