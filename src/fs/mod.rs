//! Floor 5: files. Serves what a directory holds, as RFC 9110 asks: with preconditions, ranges and codings.
//!
//! Whatever may block is done by [`spawn_blocking`](crate::runtime::spawn_blocking). Nothing here knows of connections:
//! an answer is filled in, and the server sends it.
//!
//! In reading order: paths, and where files are; what they hold; what is cached; the answer; and the handler.

mod disk;
mod path;
mod root;

mod content_type;
mod resource;
mod snapshot;

mod cache;

mod range;
mod response;

#[cfg(feature = "compress")]
mod compressed_store;
mod files;
mod listing;
mod path_lookup;

pub use cache::FileCache;
pub use files::{Files, FilesNotFound};
pub use snapshot::Etag;
