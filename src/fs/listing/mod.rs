//! Directories as pages and as JSON.

mod dir_entry;
mod sort;

mod json;
mod page;

mod dir_listing;

pub use dir_entry::DirEntry;
pub use dir_listing::DirListing;
pub(super) use dir_listing::ENTRIES_MAX;
pub(super) use page::POLICY;
pub(super) use sort::Sort;
