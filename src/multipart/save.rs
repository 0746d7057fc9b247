//! [`Saved`]: a part that was written to a file.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use tokio::fs::File;
use tokio::io::{AsyncRead, AsyncWriteExt, BufWriter};

use super::{MultipartError, Part};
use crate::message::is_file_name;
use crate::runtime::{random_token, spawn_blocking};

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
    /// The file is written on threads for blocking work, up to
    /// [`MultipartLimits::part_max`](super::MultipartLimits::part_max) bytes. It is removed if that fails, or the
    /// future is dropped.
    ///
    /// # Errors
    ///
    /// As [`Part::chunk`], or if the file cannot be written.
    pub async fn save(&mut self, dir: impl AsRef<Path>) -> io::Result<Saved> {
        let name = random_token()?;
        self.save_as(dir, &name).await
    }

    /// Writes the rest of the content to a new file as [`Part::save`] does, under a name of your choice.
    ///
    /// # Errors
    ///
    /// As [`Part::save`]. With [`MultipartError::FileName`], which is answered with 400, if the name is empty, is a path
    /// or, on Windows, that of a device, begins with a dot, contains a colon or a control character or is too long; and
    /// with [`io::ErrorKind::AlreadyExists`] if there already is a file with this name.
    pub async fn save_as(&mut self, dir: impl AsRef<Path>, name: &str) -> io::Result<Saved> {
        if !is_plain_name(name) {
            return Err(MultipartError::of_file_name(name).into());
        }
        let path = dir.as_ref().join(name);
        let created = spawn_blocking(move || TempFile::create(path)).await?;
        let (file, temp) = created.map_err(|error| match error.kind() {
            io::ErrorKind::InvalidFilename => MultipartError::of_file_name(name).into(),
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
        let (mut file, mut len) = (BufWriter::with_capacity(WRITE_BUFFER_LEN, file), 0);
        while let Some(chunk) = self.chunk().await? {
            file.write_all(chunk).await?;
            len += chunk.len() as u64;
        }
        file.flush().await?;
        Ok(len)
    }
}

/// Copying this much is cheaper than a detour through another thread.
const WRITE_BUFFER_LEN: usize = 64 << 10;

/// Whether `name` is the name of a file and nothing else, on any system, and of one that is not hidden. Callers are
/// supposed to choose it themselves, but some will use the peer's.
fn is_plain_name(name: &str) -> bool {
    is_file_name(name) && !name.starts_with('.') && !name.contains(|c: char| c == ':' || c.is_control())
}

/// A file that is removed unless it is kept.
struct TempFile(Option<RemoveOnDrop>);

impl TempFile {
    /// Creates a new file. If the caller is gone by then, the file is removed again.
    fn create(path: PathBuf) -> io::Result<(fs::File, TempFile)> {
        let file = fs::File::create_new(&path)?;
        Ok((file, TempFile(Some(RemoveOnDrop(path)))))
    }

    fn keep(mut self) -> PathBuf {
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

/// A file that is removed when this is dropped, unless the path is empty. Errors cannot be reported.
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
