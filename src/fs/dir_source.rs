//! [`DirSource`]: a directory of the disk as a [`FileSource`], to be combined with others.

use std::fs::{File, Metadata};
use std::io;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use super::disk::{DiskRoot, Node, RootDir};
use super::listing::DirEntry;
use super::path::{Links, RelativePath};
use super::root::if_there;
use super::snapshot::{Etag, ReadOptions, Snapshot};
use super::source::{FileMetadata, FileSource, SourceEntry};
use crate::descriptors::with_descriptors;
use crate::message::Body;
use crate::runtime::{BlockingLimit, spawn_blocking};

/// A directory of the disk as a source, to lie under or over another one. [`Files::new`](crate::fs::Files::new) serves
/// a directory alone faster, from memory.
///
/// No path leads out of the directory, and links in it count as not there. Its `etag` is made of sizes and times. Another
/// directory that takes its place is served within a second. Clones share it.
///
/// # Examples
///
/// An overlay: files of the program, and those of a directory before them.
///
/// ```no_run
/// use std::io;
/// use std::ops::Range;
///
/// use corehttp::fs::{DirSource, FileMetadata, FileSource, Files, SourceEntry};
/// use corehttp::{Body, Server};
///
/// struct Overlay<S> {
///     upper: DirSource,
///     lower: S,
/// }
///
/// impl<S: FileSource> FileSource for Overlay<S> {
///     async fn find(&self, path: &str) -> io::Result<Option<SourceEntry>> {
///         match self.upper.find(path).await? {
///             Some(found) => Ok(Some(found)),
///             None => self.lower.find(path).await,
///         }
///     }
///
///     async fn read(&self, path: &str, found: &FileMetadata, range: Range<u64>) -> io::Result<Body> {
///         match self.upper.find(path).await? {
///             Some(SourceEntry::File(_)) => self.upper.read(path, found, range).await, // fails if it is another file
///             _ => self.lower.read(path, found, range).await,
///         }
///     }
/// }
/// # fn run(site: impl FileSource) -> corehttp::Result {
/// let overlay = Overlay { upper: DirSource::new("site")?, lower: site };
/// Server::bind("127.0.0.1:8080").run(Files::from_source(overlay))
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct DirSource {
    root: Arc<DiskRoot>,
}

impl DirSource {
    /// A source of the files below the directory at `path`.
    ///
    /// # Errors
    ///
    /// Fails if the path leads to no readable directory.
    pub fn new(path: impl Into<PathBuf>) -> io::Result<DirSource> {
        Ok(DirSource { root: Arc::new(DiskRoot::new(path.into())?) })
    }

    /// Calls `work` with what is at `path`, which may block. A path that leads out of the directory leads nowhere.
    fn with_node<T, F>(&self, path: &str, work: F) -> impl FnOnce() -> io::Result<Option<T>> + use<T, F>
    where
        F: Fn(&RootDir, &[u8], Node) -> io::Result<T>,
    {
        let root = self.root.clone();
        let path = RelativePath::new(path.as_bytes()).map(|path| path.without_trailing_slash().to_owned());
        move || {
            let Some(path) = path else { return Ok(None) };
            root.refresh_if_due();
            if_there(with_descriptors(|| {
                let dir = root.current_dir()?;
                work(&dir, &path, dir.open(&path, Links::Refused)?)
            }))
        }
    }
}

impl FileSource for DirSource {
    async fn find(&self, path: &str) -> io::Result<Option<SourceEntry>> {
        spawn_blocking(self.with_node(path, |_, _, node| match node {
            Node::File(file, metadata) => describe(file, metadata).map(SourceEntry::File),
            Node::Directory(_) => Ok(SourceEntry::Directory),
        }))
        .await?
    }

    async fn read(&self, path: &str, found: &FileMetadata, range: Range<u64>) -> io::Result<Body> {
        let expected = (found.len, found.modified);
        let opened = spawn_blocking(self.with_node(path, move |_, _, node| match node {
            Node::File(file, metadata) if (metadata.len(), metadata.modified().ok()) == expected => Ok(file),
            Node::File(..) | Node::Directory(_) => Err(io::Error::other("the file has just changed")),
        }));
        let file = opened.await??.ok_or(io::ErrorKind::NotFound)?;
        let mut body = Body::new();
        body.set_file(file, range);
        Ok(body)
    }

    async fn list(&self, path: &str, entries_max: usize) -> io::Result<Option<Vec<DirEntry>>> {
        let listed = self.with_node(path, move |root, path, node| match node {
            Node::Directory(dir) => root.entries(&dir, path, Links::Refused)?.take(entries_max).collect(),
            Node::File(..) => Err(io::ErrorKind::NotADirectory.into()),
        });
        LISTINGS.run(listed).await?
    }
}

/// Bounds the threads that list directories, so that files do not wait for them.
static LISTINGS: BlockingLimit = BlockingLimit::new();

/// The metadata of a file, which is not read for that.
fn describe(file: File, metadata: Metadata) -> io::Result<FileMetadata> {
    let modified = metadata.modified().ok();
    let options = ReadOptions { in_memory_max: 0, etag: Etag::Auto, previous: None };
    let snapshot = Snapshot::read(file, metadata, options)?;
    let etag = Some(snapshot.entity_tag(None));
    Ok(FileMetadata { len: snapshot.content.len(), modified, etag, content_type: None })
}
