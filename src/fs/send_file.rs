//! [`Context::send_file`]: answers with one file, which the application chooses.

use std::fs::{self, File};
use std::io;
use std::path::Path;

use super::answer;
use super::cache::FileCache;
use super::lookup::owed;
use super::resource::{Resource, Snapshot};
use crate::runtime::spawn_blocking;
use crate::server::{Context, Result};

impl Context {
    /// Answers with the file at `path`, with its content type, `etag` and `last-modified`.
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
    /// # let _ = corehttp::Server::new().service(lost);
    /// ```
    pub async fn send_file(&mut self, path: impl AsRef<Path>) -> Result {
        let path = path.as_ref().to_owned();
        let resource = spawn_blocking(move || open(&path)).await?.map_err(owed)?;
        answer::fill(self, &resource)
    }
}

fn open(path: &Path) -> io::Result<Resource> {
    // Opening a pipe would wait for its writer.
    if !fs::metadata(path)?.is_file() {
        return Err(io::ErrorKind::NotFound.into());
    }
    let file = File::open(path)?;
    let metadata = file.metadata()?;
    let snapshot = Snapshot::read(file, metadata, FileCache::default().file_bytes_max)?;
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    Resource::new(&name, None, snapshot, Vec::new()).map_err(io::Error::other)
}
