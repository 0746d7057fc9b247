//! [`Part`]: one part of a body, whose content is read as it arrives, or saved to a file (RFC 7578 §4).

use std::fmt;
use std::fs;
use std::future::poll_fn;
use std::io;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::task::{self, Poll, ready};

use tokio::fs::File;
use tokio::io::{AsyncRead, AsyncWriteExt, BufWriter, ReadBuf};

use super::error::MultipartError;
use super::parser::Parser;
use crate::descriptors::with_descriptors;
use crate::message::{Headers, is_file_name};
use crate::runtime::{own_wait, random_token, spawn_blocking};
use crate::wire::WireDetail;

/// One part of a body: a field of a form, or a file. Its content is read as it arrives.
///
/// Made by [`Multipart::part`](super::Multipart::part). Content that is not read is skipped.
pub struct Part<'a, R> {
    parser: &'a mut Parser<R>,
    /// Whether some of the content was taken and is lost. The rest must not pass for all of it.
    is_lost: bool,
}

impl<'a, R: AsyncRead + Unpin> Part<'a, R> {
    pub(super) fn new(parser: &'a mut Parser<R>) -> Part<'a, R> {
        Part { parser, is_lost: false }
    }

    /// Returns the next piece of the content, as large as it arrived. `None` at its end.
    ///
    /// # Errors
    ///
    /// Fails if the body cannot be read, is cut short, or exceeds a limit. The end is then never reached. Also fails
    /// after another method that took some of the content has failed, or was dropped.
    pub async fn chunk(&mut self) -> io::Result<Option<&[u8]>> {
        self.check_whole()?;
        match poll_fn(|cx| self.parser.poll_data(cx)).await? {
            0 => Ok(None),
            count => Ok(Some(self.parser.take(count))),
        }
    }

    /// Reads the rest of the content, up to [`MultipartLimits::memory_max`](super::MultipartLimits::memory_max).
    ///
    /// # Errors
    ///
    /// As [`Part::chunk`]. Also fails if there is more than that.
    pub async fn bytes(&mut self) -> io::Result<Vec<u8>> {
        let bytes = self.take_bytes().await?;
        self.is_lost = false;
        Ok(bytes)
    }

    async fn take_bytes(&mut self) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        let memory_max = self.parser.limits.memory_max;
        self.check_whole()?;
        loop {
            let count = poll_fn(|cx| self.parser.poll_data(cx)).await?;
            if count == 0 {
                self.parser.memory.keep(bytes.len());
                return Ok(bytes);
            }
            if count > memory_max - bytes.len() {
                let limit = WireDetail::limit("memory_max", "bytes", memory_max as u64);
                let error = self.parser.part_too_large(limit);
                return self.parser.record_failure(Err(error.into()));
            }
            let taken = self.parser.memory.take(bytes.len() + count, memory_max).await;
            self.parser.record_failure(taken)?;
            self.is_lost = true;
            bytes.extend_from_slice(self.parser.take(count));
        }
    }

    /// Reads the rest of the content, as text.
    ///
    /// # Errors
    ///
    /// As [`Part::bytes`]. Also fails if the text is not UTF-8.
    pub async fn text(&mut self) -> io::Result<String> {
        let bytes = self.take_bytes().await?;
        let text = String::from_utf8(bytes).map_err(|_| MultipartError::Text(self.parser.part_name()))?;
        self.is_lost = false;
        Ok(text)
    }

    fn check_whole(&self) -> io::Result<()> {
        match self.is_lost && !self.parser.has_failed() {
            true => Err(io::Error::other("some of the content of the part was read before, and is lost")),
            false => Ok(()),
        }
    }
}

impl<R> Part<'_, R> {
    /// Returns the name of the field, as the peer chose it (RFC 7578 §4.2). Several parts may have the same name.
    ///
    /// Octets that are not UTF-8, such as those from a page in another charset, are U+FFFD here and in the name of the file.
    /// [`Part::headers`] has them as they came.
    pub fn name(&self) -> &str {
        &self.parser.head.disposition.name
    }

    /// Returns the peer's name for the file, if this is one. The name can be any text, `../../etc/passwd` for example:
    /// it is meant for people, not for a file system. See [`Part::save`].
    pub fn file_name(&self) -> Option<&str> {
        self.parser.head.disposition.file_name.as_deref()
    }

    /// Returns the fields of the head.
    pub fn headers(&self) -> &Headers {
        &self.parser.head.headers
    }

    /// Returns the content type that the peer states, or else `text/plain` (RFC 7578 §4.4).
    pub fn content_type(&self) -> &str {
        self.parser.head.headers.content_type().unwrap_or("text/plain")
    }
}

impl<R: AsyncRead + Unpin> AsyncRead for Part<'_, R> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut task::Context<'_>,
        out: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.check_whole()?;
        let count = ready!(self.parser.poll_data(cx))?.min(out.remaining());
        out.put_slice(self.parser.take(count));
        Poll::Ready(Ok(()))
    }
}

impl<R> fmt::Debug for Part<'_, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Part")
            .field("name", &self.name())
            .field("file_name", &self.file_name())
            .finish_non_exhaustive()
    }
}

/// A part that was written to a file.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Saved {
    /// The path of the file, in the directory that was given.
    pub path: PathBuf,
    /// How many bytes were written.
    pub len: u64,
}

impl<R: AsyncRead + Unpin> Part<'_, R> {
    /// Writes the rest of the content to a new file in `dir`, under a random name of 32 hexadecimal digits. The peer's
    /// name for the file is not used.
    ///
    /// The file is written on threads for blocking work, up to [`MultipartLimits::part_max`](super::MultipartLimits::part_max)
    /// bytes. After a failure, or a drop of the future before its end, the file is removed. If content was lost with it, the
    /// part cannot be saved elsewhere.
    ///
    /// # Errors
    ///
    /// As [`Part::chunk`]. Also fails if the file cannot be written.
    pub async fn save(&mut self, dir: impl AsRef<Path>) -> io::Result<Saved> {
        let name = random_token()?;
        self.save_as(dir, &name).await
    }

    /// Writes the rest of the content to a new file as [`Part::save`] does, under a name of your choice.
    ///
    /// # Errors
    ///
    /// As [`Part::save`]. Also fails with:
    /// - [`MultipartError::FileName`] (400) for a name that is empty, too long, a path or, on Windows, that of a device
    /// - the same error for a name with a dot in front, a colon or a control character
    /// - [`io::ErrorKind::AlreadyExists`] if there already is a file with this name
    pub async fn save_as(&mut self, dir: impl AsRef<Path>, name: &str) -> io::Result<Saved> {
        self.check_whole()?;
        if !is_plain_name(name) {
            return Err(MultipartError::from_file_name(name).into());
        }
        let path = dir.as_ref().join(name);
        let created = spawn_blocking(move || with_descriptors(|| TempFile::create(path.clone()))).await?;
        let (file, temp) = created.map_err(|error| match error.kind() {
            io::ErrorKind::InvalidFilename => MultipartError::from_file_name(name).into(),
            _ => error,
        })?;
        match self.write_to(File::from_std(file)).await {
            Ok(len) => Ok(Saved { path: temp.keep(), len }),
            Err(error) => {
                temp.discard().await;
                Err(error)
            }
        }
    }

    async fn write_to(&mut self, file: File) -> io::Result<u64> {
        let mut file = BufWriter::with_capacity(WRITE_BUFFER_LEN, file);
        let mut len = 0;
        loop {
            let count = poll_fn(|cx| self.parser.poll_data(cx)).await?;
            if count == 0 {
                own_wait(file.flush()).await?;
                self.is_lost = false;
                return Ok(len);
            }
            self.is_lost = true;
            own_wait(file.write_all(self.parser.take(count))).await?;
            len += count as u64;
        }
    }
}

/// How much is copied before another thread writes it: a copy of less is cheaper than the detour.
const WRITE_BUFFER_LEN: usize = 64 << 10;

/// Whether `name` is the name of a file and nothing else, on any system, and of one that is not hidden. Applications
/// are supposed to choose the name, but some will use the peer's.
fn is_plain_name(name: &str) -> bool {
    is_file_name(name) && !name.starts_with('.') && !name.contains(|c: char| c == ':' || c.is_control())
}

/// A file that is removed unless it is kept.
struct TempFile(Option<RemoveOnDrop>);

impl TempFile {
    /// Creates a new file. If the caller's future was dropped meanwhile, the file is removed again.
    fn create(path: PathBuf) -> io::Result<(fs::File, TempFile)> {
        let file = fs::File::create_new(&path)?;
        Ok((file, TempFile(Some(RemoveOnDrop(path)))))
    }

    fn keep(mut self) -> PathBuf {
        debug_assert!(self.0.is_some(), "a file is kept or discarded once");
        self.0.take().map(|mut temporary| std::mem::take(&mut temporary.0)).unwrap_or_default()
    }

    /// Removes the file, before the error is returned, so that the same name can be tried again.
    async fn discard(mut self) {
        let temporary = self.0.take();
        // If the runtime ends, dropping the work removes the file.
        let _ = spawn_blocking(move || drop(temporary)).await;
    }
}

impl Drop for TempFile {
    fn drop(&mut self) {
        if let Some(temporary) = self.0.take() {
            drop(spawn_blocking(move || drop(temporary)));
        }
    }
}

/// A path whose file is removed on drop, unless the path is empty. Errors cannot be reported.
struct RemoveOnDrop(PathBuf);

impl Drop for RemoveOnDrop {
    fn drop(&mut self) {
        if !self.0.as_os_str().is_empty() {
            let _ = fs::remove_file(&self.0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plain_name_leads_to_no_other_folder() {
        for name in ["a", "cat.jpg", "ü 猫", "a..b", "~", "%2e%2e", "-rf"] {
            assert!(is_plain_name(name), "{name:?}");
        }
        for name in [
            "",
            ".",
            "..",
            "/",
            "/etc/passwd",
            "a/b",
            "a/",
            "./a",
            "../a",
            "a/..",
            "..\\a",
            "a\\b",
            "C:a",
            "C:\\a",
            "a:stream",
            "\\\\host\\a",
            ".ssh",
            "...",
            "a\0",
            "a\n",
            "\u{7f}",
            "a/\0",
        ] {
            assert!(!is_plain_name(name), "{name:?}");
        }
    }
}
