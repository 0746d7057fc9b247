//! Files as responses.

#[cfg(all(feature = "compress", feature = "fs"))]
mod copies;
#[cfg(feature = "fs")]
mod files;
mod hostile_paths;
#[cfg(feature = "fs")]
mod sources;
