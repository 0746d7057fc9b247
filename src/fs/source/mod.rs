//! Files that come from elsewhere than a disk: an archive, an object store, the program itself.
//!
//! A source is found by [`SourceLookup`](super::lookup), and read for a response.

mod file_metadata;
mod file_source;
mod sourced_file;

pub use file_metadata::{FileMetadata, SourceEntry};
pub(super) use file_source::ErasedSource;
pub use file_source::FileSource;
pub(super) use sourced_file::SourcedFile;
