//! [`DirListing`]: the contents of a directory, in the order that a peer wants; and how they are written.

use std::borrow::Cow;

use super::dir_entry::{DirEntry, display};
use super::json::json;
use super::page::page;
use super::sort::{Sort, sorted};

/// The contents of a directory: directories first, in the order that the query chooses, as in `?sort=size&order=desc`. The
/// columns are `name`, `size` and `modified`.
///
/// A function gets one that [`Files::listing_with`](crate::fs::Files::listing_with) was given.
#[derive(Clone, Debug)]
pub struct DirListing {
    /// Relative to the root, without a `/` at either end.
    path: Vec<u8>,
    entries: Vec<DirEntry>,
    sort: Sort,
    is_truncated: bool,
}

impl DirListing {
    /// Sorts the entries of the directory at `path`. Entries beyond [`ENTRIES_MAX`] are dropped.
    pub(in crate::fs) fn new(path: Vec<u8>, mut entries: Vec<DirEntry>, sort: Sort) -> DirListing {
        let is_truncated = entries.len() > ENTRIES_MAX;
        entries.truncate(ENTRIES_MAX);
        DirListing { path, entries: sorted(entries, sort), sort, is_truncated }
    }

    /// Returns the path of the directory below the root, which begins and ends with a `/`, as text like that of
    /// [`DirEntry::display_name`].
    pub fn path(&self) -> Cow<'_, str> {
        let path = display(&self.path);
        if path.is_empty() { Cow::Borrowed("/") } else { Cow::Owned(format!("/{path}/")) }
    }

    /// Returns the entries: 10,000 at most.
    pub fn entries(&self) -> &[DirEntry] {
        &self.entries
    }

    /// Returns whether the directory has more entries than these.
    pub fn is_truncated(&self) -> bool {
        self.is_truncated
    }

    /// Writes the page that [`Files::listing`](crate::fs::Files::listing) shows, without JavaScript. Names are escaped in it.
    pub fn to_html(&self) -> String {
        page(&self.path, &self.entries, self.sort, self.is_truncated)
    }

    /// Writes an object of JSON.
    ///
    /// Names are texts as those of [`DirEntry::display_name`], and `href` is [`DirEntry::link`]. A directory has no
    /// `size`. Times are those of RFC 3339, to the second. Unknown times are absent. The object has no `<` in it, and
    /// fits into a page.
    ///
    /// ```json
    /// {"path":"/a/","entries":[
    ///     {"type":"directory","name":"b","href":"./b/"},
    ///     {"type":"file","name":"c.txt","href":"./c.txt","size":5,"modified":"1994-11-06T08:49:37Z"}
    /// ],"truncated":false}
    /// ```
    pub fn to_json(&self) -> String {
        json(&self.path(), &self.entries, self.is_truncated)
    }
}

/// How many entries are shown.
pub(in crate::fs) const ENTRIES_MAX: usize = 10_000;
