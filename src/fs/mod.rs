//! Floor 5: files. Serves what a directory holds, as RFC 9110 asks: with preconditions, ranges and codings.
//!
//! Whatever may block is done by [`spawn_blocking`](crate::runtime::spawn_blocking). Nothing here knows of connections:
//! an answer is filled in, and the server sends it.
//!
//! In reading order: where files are; what they hold; what is cached; the answer; and the handler.

mod root;

mod resource;

mod cache;

mod answer;
mod listing;

#[cfg(feature = "compress")]
mod compressed_store;
mod files;
mod path_lookup;
mod pattern;
mod send_file;

pub use cache::FileCache;
pub use files::{Files, FilesNotFound};
pub use resource::Etag;
