//! [`Context::send_file`]: answers with one file, which the application chooses.

use std::fs::{self, File};
use std::io;
use std::path::Path;

use super::answer;
use super::cache::FileCache;
use super::path_lookup::open_error;
use super::resource::{
    Charset, Description, Etag, ReadOptions, Resource, Snapshot, content_type, media_type,
};
use crate::runtime::spawn_blocking;
use crate::server::{Context, Result};

impl Context {
    /// Answers with the file at `path`, with its content type, `etag` and `last-modified`.
    ///
    /// Fields that were set before stay as they are, such as `content-disposition` or `cache-control`. A `content-type`
    /// is that of each part as well, if several ranges are requested, and an `etag` or `last-modified` is what
    /// conditions are compared with. Set them before this call and not after it: the answer may be another one than the
    /// whole file. With `accept-ranges: none` no ranges are sent.
    ///
    /// Preconditions and ranges of a GET are honored, unless a status other than 200 was set. Nothing in `path` is
    /// decoded, and links in it are followed; if a peer has a say in the path, use [`Files`](crate::Files) instead. The
    /// file is opened for each call, on another thread, so that no connection waits for the disk.
    ///
    /// # Errors
    ///
    /// Fails if there is no file (404), or if it must not be read (403).
    ///
    /// # Examples
    ///
    /// ```
    /// use corehttp::{Context, Status};
    ///
    /// async fn lost(ctx: &mut Context) -> corehttp::Result {
    ///     ctx.response.status = Status::NOT_FOUND;
    ///     ctx.send_file("pages/404.html").await
    /// }
    ///
    /// async fn report(ctx: &mut Context) -> corehttp::Result {
    ///     ctx.response.headers.set("content-type", "application/pdf")?;
    ///     ctx.response.headers.set("content-disposition", "attachment; filename=\"report.pdf\"")?;
    ///     ctx.send_file("/var/lib/reports/7f3a").await
    /// }
    /// # let _ = corehttp::Server::new().service(lost);
    /// # let _ = corehttp::Server::new().service(report);
    /// ```
    pub async fn send_file(&mut self, path: impl AsRef<Path>) -> Result {
        let path = path.as_ref().to_owned();
        let opened =
            spawn_blocking(move || open(&path).map_err(|error| open_error(path.display(), error))).await?;
        let (snapshot, content_type) = opened?;
        let description = Description::from_fields(&self.response.headers, content_type);
        answer::respond(self, &Resource::new(description, snapshot, Vec::new())?)
    }
}

/// The file at `path`, and the content type that its name suggests.
fn open(path: &Path) -> io::Result<(Snapshot, String)> {
    // Opening a pipe would wait for its writer.
    if !fs::metadata(path)?.is_file() {
        return Err(io::ErrorKind::NotFound.into());
    }
    let file = File::open(path)?;
    let metadata = file.metadata()?;
    let in_memory_max = FileCache::default().file_bytes_max;
    let options = ReadOptions { in_memory_max, etag: Etag::default(), previous: None };
    let snapshot = Snapshot::read(file, metadata, options)?;
    let media_type = media_type(path.file_name().unwrap_or_default().as_encoded_bytes());
    let content_type = content_type(media_type, Charset::Detected, &snapshot.content);
    Ok((snapshot, content_type))
}
