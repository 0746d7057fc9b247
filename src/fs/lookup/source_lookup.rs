//! [`SourceLookup`]: what a path leads to in a [`FileSource`](crate::fs::FileSource).

use std::io;
use std::sync::Arc;

use super::path_lookup::{Found, Listed, Listing, PathLookup, Precompressed};
use crate::fs::listing::ENTRIES_MAX;
use crate::fs::path::RelativePath;
use crate::fs::resource::{Resource, StoredCoding};
use crate::fs::root::{Directory, if_there};
use crate::fs::snapshot::Snapshot;
use crate::fs::source::{ErasedSource, FileMetadata, SourceEntry, SourcedFile};

/// Finds what a path leads to in a source, by the settings of [`Files`](crate::fs::Files).
#[derive(Clone, Copy)]
pub(in crate::fs) struct SourceLookup<'a> {
    lookup: &'a PathLookup,
    source: &'a Arc<dyn ErasedSource>,
}

impl<'a> SourceLookup<'a> {
    pub(in crate::fs) fn new(lookup: &'a PathLookup, source: &'a Arc<dyn ErasedSource>) -> SourceLookup<'a> {
        SourceLookup { lookup, source }
    }

    /// Finds the file or directory at a path.
    pub(in crate::fs) async fn find(self, relative: &RelativePath<'_>) -> io::Result<Found> {
        // The names of a source are text.
        let Ok(path) = str::from_utf8(relative.without_trailing_slash()) else { return Ok(Found::Nothing) };
        match (self.entry(path).await?, relative.is_directory()) {
            (None, _) | (Some(SourceEntry::File(_)), true) => Ok(Found::Nothing),
            (Some(SourceEntry::File(metadata)), false) => self.file(path, metadata).await,
            (Some(SourceEntry::Directory), is_directory) => self.directory(path, is_directory).await,
        }
    }

    async fn entry(self, path: &str) -> io::Result<Option<SourceEntry>> {
        if path.is_empty() {
            return Ok(Some(SourceEntry::Directory));
        }
        if_there(self.source.find(path).await).map(Option::flatten)
    }

    /// The index of a directory, or its entries. `is_directory` is whether the path ends with a `/`.
    async fn directory(self, path: &str, is_directory: bool) -> io::Result<Found> {
        let directory = path.as_bytes().into();
        for index in &self.lookup.index {
            let index = if path.is_empty() { index.clone() } else { format!("{path}/{index}") };
            match self.entry(&index).await? {
                Some(SourceEntry::File(_)) if !is_directory => return Ok(Found::Directory(directory)),
                Some(SourceEntry::File(metadata)) => return self.file(&index, metadata).await,
                Some(SourceEntry::Directory) | None => {}
            }
        }
        match (&self.lookup.listing, is_directory) {
            (Listing::Off, _) => Ok(Found::Nothing),
            (_, false) => Ok(Found::Directory(directory)),
            (_, true) => self.list(path).await,
        }
    }

    /// The entries of a directory, and one more than are shown, by which a listing is seen to be cut.
    async fn list(self, path: &str) -> io::Result<Found> {
        let Some(mut entries) = self.source.list(path, ENTRIES_MAX + 1).await? else {
            return Ok(Found::Nothing);
        };
        entries.truncate(ENTRIES_MAX + 1);
        let directory = Directory::Listed(entries);
        Ok(Found::Listing(Box::new(Listed { directory, path: path.into() })))
    }

    async fn file(self, path: &str, metadata: FileMetadata) -> io::Result<Found> {
        let content_type = metadata.content_type.clone();
        let whole = self.snapshot(path, metadata)?;
        let mut encoded = Vec::new();
        if self.lookup.precompressed == Precompressed::Served {
            for stored in StoredCoding::ALL {
                let sibling = self.sibling(path, &whole, stored).await;
                encoded.extend(sibling.map(|snapshot| (stored.coding, snapshot)));
            }
        }
        let description = self.lookup.describe(path.as_bytes(), content_type.as_deref(), &whole.content);
        let resource = Resource::new(description, whole, encoded).map_err(io::Error::other)?;
        Ok(Found::Sourced(Arc::new(resource)))
    }

    /// The precompressed sibling of a file, under the same conditions as on disk.
    async fn sibling(self, path: &str, whole: &Snapshot, stored: StoredCoding) -> Option<Snapshot> {
        let path = format!("{path}{}", stored.suffix);
        let Ok(Some(SourceEntry::File(metadata))) = self.entry(&path).await else { return None };
        self.snapshot(&path, metadata).ok().filter(|sibling| sibling.may_replace(whole))
    }

    fn snapshot(self, path: &str, metadata: FileMetadata) -> io::Result<Snapshot> {
        Snapshot::sourced(SourcedFile::new(self.source.clone(), path.to_owned(), metadata))
    }
}
