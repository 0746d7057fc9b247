//! Floor 5: files. What a directory holds, answered as RFC 9110 asks: conditions, ranges and codings.
//!
//! It is built on what is public of the crate. Whatever may block is done by [`aside`](crate::runtime::aside).

mod condition;
mod kept;
mod path;
mod pattern;
mod range;

mod disk;
mod embedded;

mod cache;
mod resource;

mod answer;
mod listing;
mod parts;

#[cfg(feature = "compress")]
mod copies;
mod files;
mod lookup;
mod send_file;

pub use cache::FileCache;
pub use files::{Files, NotFound};
