//! Floor 5: files. What a directory holds, answered as RFC 9110 asks: conditions, ranges and codings.
//!
//! Whatever may block is done [`aside`](crate::runtime::aside). Nothing here knows of a connection: an answer is filled in,
//! and the server sends it.

mod condition;
mod kept;
mod path;
mod pattern;
mod range;

mod disk;
mod embedded;

mod cache;
mod resource;
mod room;
mod snapshot;

mod answer;
mod listing;
mod parts;

#[cfg(feature = "compress")]
mod copies;
mod files;
mod lookup;
mod send_file;

pub use cache::FileCache;
pub use files::{Files, FilesNotFound};
