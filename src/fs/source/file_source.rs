//! [`FileSource`]: files from elsewhere than a disk, for [`Files`](crate::fs::Files).

use std::future::ready;
use std::io;
use std::ops::Range;
use std::pin::Pin;
use std::sync::Arc;

use super::file_metadata::{FileMetadata, SourceEntry};
use crate::fs::listing::DirEntry;
use crate::message::Body;

/// Files with metadata and ranges: those of an archive, of an object store, of the program itself, or of an overlay of
/// two sources. [`Files::from_source`](crate::fs::Files::from_source) serves them.
///
/// The methods may be `async`. Their futures are `Send`. Blocking work belongs in `tokio::task::spawn_blocking`. The
/// methods are called for each request, and nothing of a source is kept between two requests. They run within the time
/// for the handler ([`Timeouts::handler`](crate::Timeouts::handler), by default without an end). If the peer leaves,
/// they are dropped. So is a stream, which has no time limit of its own.
///
/// # Paths
///
/// A path is decoded and checked before. It consists of names in UTF-8 with one `/` between two of them, and none at
/// either end. No name is empty, `.`, `..`, or has a NUL in it. Names may have any other character: controls, quotes,
/// and backslashes except on Windows.
///
/// # Examples
///
/// ```
/// use std::collections::BTreeMap;
/// use std::io;
/// use std::ops::Range;
///
/// use corehttp::fs::{FileMetadata, FileSource, Files, SourceEntry};
/// use corehttp::{Body, Request, Server};
///
/// /// Notes by path, all in one directory.
/// struct Notes(BTreeMap<String, String>);
///
/// impl FileSource for Notes {
///     async fn find(&self, path: &str) -> io::Result<Option<SourceEntry>> {
///         let metadata = |note: &String| FileMetadata { len: note.len() as u64, ..FileMetadata::default() };
///         Ok(self.0.get(path).map(|note| SourceEntry::File(metadata(note))))
///     }
///
///     async fn read(&self, path: &str, _: &FileMetadata, range: Range<u64>) -> io::Result<Body> {
///         let note = self.0.get(path).ok_or(io::ErrorKind::NotFound)?;
///         let part = note.as_bytes().get(range.start as usize..range.end as usize);
///         let mut body = Body::new();
///         body.set_bytes(part.ok_or(io::ErrorKind::InvalidInput)?);
///         Ok(body)
///     }
/// }
///
/// let notes = Notes(BTreeMap::from([("shop.txt".to_owned(), "milk, tea".to_owned())]));
/// let service = Server::new().service(Files::from_source(notes)); // or `Server::run`
/// let mut request = Request::get("/shop.txt")?;
/// request.headers.set("range", "bytes=-3")?;
/// let response = corehttp::block_on(service.respond(request))?;
/// assert_eq!(response.text()?, "tea");
/// assert_eq!(response.headers.get("content-range"), Some("bytes 6-8/9"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a source of files",
    note = "a source is a type with `impl FileSource` that is `Send`, `Sync` and `'static`; a directory is one by \
            `DirSource::new(..)`"
)]
pub trait FileSource: Send + Sync + 'static {
    /// Finds the entry at `path`. `None` if there is none. The empty path of the root is not asked for, because the
    /// root is a directory. With [`Files::precompressed`](crate::fs::Files::precompressed), the paths of three siblings
    /// are asked for as well.
    ///
    /// # Errors
    ///
    /// An error of the kind `NotFound`, `NotADirectory` or `InvalidFilename` counts as `None`, and `PermissionDenied` is answered
    /// with 403. Others are answered with 500, or with the status of a [`corehttp::Error`](crate::Error) inside, unless
    /// [`Server::error_status`](crate::Server::error_status) chooses one.
    fn find(&self, path: &str) -> impl Future<Output = io::Result<Option<SourceEntry>>> + Send;

    /// Reads `range` of the file at `path`. The range is never empty, excludes its end, and is within the length in
    /// `found`, the metadata from [`find`](FileSource::find) just before. A read of a file that has changed since
    /// should fail.
    ///
    /// The content is bytes, a stream, or a range of a file on disk ([`Body::set_file`](crate::Body::set_file)). A
    /// stream may leave its length open. If a range of known length is longer or shorter than `range`, the response has
    /// status 500. If a stream is, the response is cut. The peer sees the cut. Of several ranges, each is read when it
    /// is sent.
    ///
    /// # Errors
    ///
    /// Errors are answered as those of [`find`](FileSource::find), except for those that count as `None` there, which are 404 at
    /// once. For
    /// several ranges, or after the beginning of the content, an error cuts the response.
    fn read(
        &self,
        path: &str,
        found: &FileMetadata,
        range: Range<u64>,
    ) -> impl Future<Output = io::Result<Body>> + Send;

    /// Lists the directory at `path`, with `entries_max` entries at most, in any order. Further entries are dropped.
    /// `None` if the directory cannot be listed, for a 404. Default: `None`.
    ///
    /// Names that no path can have, such as `..`, or with a `/`, are not shown.
    ///
    /// # Errors
    ///
    /// As those of [`find`](FileSource::find).
    fn list(
        &self,
        path: &str,
        entries_max: usize,
    ) -> impl Future<Output = io::Result<Option<Vec<DirEntry>>>> + Send {
        let _ = (path, entries_max);
        ready(Ok(None))
    }
}

impl<S: FileSource> FileSource for Arc<S> {
    fn find(&self, path: &str) -> impl Future<Output = io::Result<Option<SourceEntry>>> + Send {
        (**self).find(path)
    }

    fn read(
        &self,
        path: &str,
        found: &FileMetadata,
        range: Range<u64>,
    ) -> impl Future<Output = io::Result<Body>> + Send {
        (**self).read(path, found, range)
    }

    fn list(
        &self,
        path: &str,
        entries_max: usize,
    ) -> impl Future<Output = io::Result<Option<Vec<DirEntry>>>> + Send {
        (**self).list(path, entries_max)
    }
}

/// A [`FileSource`] of any type.
pub(in crate::fs) trait ErasedSource: Send + Sync {
    fn find<'a>(&'a self, path: &'a str) -> SourceFuture<'a, Option<SourceEntry>>;

    fn read<'a>(
        &'a self,
        path: &'a str,
        found: &'a FileMetadata,
        range: Range<u64>,
    ) -> SourceFuture<'a, Body>;

    fn list<'a>(&'a self, path: &'a str, entries_max: usize) -> SourceFuture<'a, Option<Vec<DirEntry>>>;
}

impl<S: FileSource> ErasedSource for S {
    fn find<'a>(&'a self, path: &'a str) -> SourceFuture<'a, Option<SourceEntry>> {
        Box::pin(FileSource::find(self, path))
    }

    fn read<'a>(
        &'a self,
        path: &'a str,
        found: &'a FileMetadata,
        range: Range<u64>,
    ) -> SourceFuture<'a, Body> {
        Box::pin(FileSource::read(self, path, found, range))
    }

    fn list<'a>(&'a self, path: &'a str, entries_max: usize) -> SourceFuture<'a, Option<Vec<DirEntry>>> {
        Box::pin(FileSource::list(self, path, entries_max))
    }
}

/// The future of a call of a source.
type SourceFuture<'a, T> = Pin<Box<dyn Future<Output = io::Result<T>> + Send + 'a>>;
