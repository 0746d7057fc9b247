//! Floor 5: files. What a directory holds, answered as RFC 9110 asks: conditions, ranges and codings.
//!
//! Whatever may block is done [`aside`](crate::runtime::aside). Nothing here knows of a connection: an answer is filled in,
//! and the server sends it.
//!
//! In reading order: where files are, what they hold, what of that is kept, the answer, and the handler.

mod root;

mod resource;

mod cache;

mod answer;
mod listing;

#[cfg(feature = "compress")]
mod copies;
mod files;
mod lookup;
mod pattern;
mod send_file;

pub use cache::FileCache;
pub use files::{Files, FilesNotFound};
