//! Files: a handler for those of a directory or of the program itself, with preconditions, ranges and codings.
//!
//! ```no_run
//! use corehttp::fs::Files;
//! use corehttp::{Context, Server, routes};
//!
//! fn main() -> corehttp::Result {
//!     Server::bind("[::]:8080").run(routes! {
//!         GET "/" => |ctx: &mut Context| ctx.response.set_text("Hello"),
//!         GET "/static/{*path}" => Files::new("public")?,
//!     })
//! }
//! ```
//!
//! A handler sends a single file by [`Context::send_file`](crate::Context::send_file). Files that are not on a disk, such as
//! those of an archive or of an object store, come from a [`FileSource`].

// Floor 7: files. Serves the files of a directory or of a source, with preconditions, ranges and codings (RFC 9110).
//
// Calls that may block run in `spawn_blocking`. Nothing here depends on connections:
// a handler fills in the response, and the server sends it.
//
// In reading order: paths and roots; resources; the cache; the response; and the handler.

mod disk;
mod listing;
mod path;
mod root;
mod source;

mod content_type;
mod resource;
mod snapshot;

mod cache;
mod recent_files;

mod response;

#[cfg(feature = "compress")]
mod compressed_store;
mod dir_source;
mod files;
mod lookup;
#[cfg(feature = "metrics")]
mod metrics;

pub use cache::{FileCacheCounts, FileCacheLimits};
pub use dir_source::DirSource;
pub use files::{Files, FilesNotFound};
pub use listing::{DirEntry, DirListing};
pub use snapshot::Etag;
pub use source::{FileMetadata, FileSource, SourceEntry};
