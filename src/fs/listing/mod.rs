//! Directories as pages.

mod page;

pub(super) use page::{ENTRIES_MAX, POLICY, Sort, page};
