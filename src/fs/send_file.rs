//! [`Context::send_file`]: one file, that of the application's choice.

use std::fs::{self, File};
use std::io;
use std::path::Path;

use super::answer;
use super::cache::FileCache;
use super::lookup::owed;
use super::resource::{Resource, Snapshot};
use crate::runtime::aside;
use crate::server::{Context, Result};

impl Context {
    /// Makes the file at `path` the answer: just that file, with its content type, `etag` and `last-modified`.
    ///
    /// Conditions and ranges of a GET are honored, unless another status than 200 is set already. Nothing in `path` is
    /// decoded, and links in it are followed: a path that a peer has a say in belongs to [`Files`](crate::Files).
    /// The file is opened for each call, where no connection waits for it.
    ///
    /// # Errors
    ///
    /// A file that is not there or is none (404), or must not be read (403).
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
        let resource = aside(move || open(&path)).await?.map_err(owed)?;
        answer::fill(self, &resource)
    }
}

fn open(path: &Path) -> io::Result<Resource> {
    // To open a pipe would be to wait for whoever writes to it.
    if !fs::metadata(path)?.is_file() {
        return Err(io::ErrorKind::NotFound.into());
    }
    let file = File::open(path)?;
    let metadata = file.metadata()?;
    let snapshot = Snapshot::read(file, metadata, FileCache::default().file_bytes_max)?;
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    Resource::new(&name, None, snapshot, Vec::new()).map_err(io::Error::other)
}
