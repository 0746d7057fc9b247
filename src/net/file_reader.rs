//! [`FileReader`]: a range of a file as a stream, read on other threads.

use std::fs::File;
use std::io;
use std::mem;
use std::ops::Range;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, ReadBuf};
use tokio::task::{JoinHandle, spawn_blocking};

/// A range of a file, read chunk by chunk on the runtime's threads for blocking work.
///
/// It yields exactly as many bytes as the range has, or fails: growth of the file is ignored, and shrinking is an
/// error.
pub(crate) struct FileReader {
    file: Arc<File>,
    /// What remains to be read.
    range: Range<u64>,
    chunk: Chunk,
}

enum Chunk {
    /// Present, with the number of bytes taken from it.
    Ready(Vec<u8>, usize),
    Reading(JoinHandle<io::Result<Vec<u8>>>),
}

impl FileReader {
    pub(crate) fn new(file: Arc<File>, range: Range<u64>) -> FileReader {
        FileReader { file, range, chunk: Chunk::Ready(Vec::new(), 0) }
    }

    /// Takes a chunk that was read.
    fn take(&mut self, bytes: io::Result<Vec<u8>>) -> io::Result<()> {
        self.chunk = Chunk::Ready(Vec::new(), 0);
        let bytes = bytes?;
        if bytes.is_empty() {
            return Err(shrunk());
        }
        self.range.start += bytes.len() as u64;
        self.chunk = Chunk::Ready(bytes, 0);
        Ok(())
    }

    /// Starts to read the next chunk, into the memory of the last one.
    fn read_on(&mut self, mut memory: Vec<u8>) -> Chunk {
        let (file, start) = (self.file.clone(), self.range.start);
        let len = (self.range.end - start).min(CHUNK_LEN as u64) as usize;
        Chunk::Reading(spawn_blocking(move || {
            memory.resize(len, 0);
            let count = read_at(&file, &mut memory, start)?;
            memory.truncate(count);
            Ok(memory)
        }))
    }
}

/// How many bytes are read at once: enough to make the detour through another thread negligible.
const CHUNK_LEN: usize = 64 << 10;

impl AsyncRead for FileReader {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let reader = self.get_mut();
        loop {
            match &mut reader.chunk {
                Chunk::Ready(bytes, taken) if *taken < bytes.len() => {
                    let count = buf.remaining().min(bytes.len() - *taken);
                    buf.put_slice(&bytes[*taken..][..count]);
                    *taken += count;
                    return Poll::Ready(Ok(()));
                }
                Chunk::Ready(..) if reader.range.is_empty() => return Poll::Ready(Ok(())),
                Chunk::Ready(bytes, _) => {
                    let memory = mem::take(bytes);
                    reader.chunk = reader.read_on(memory);
                }
                Chunk::Reading(read) => {
                    let read = ready!(Pin::new(read).poll(cx));
                    reader.take(read.unwrap_or_else(|cut_off| Err(cut_off.into())))?;
                }
            }
        }
    }
}

/// The error for a file that no longer has the length that was announced.
pub(crate) fn shrunk() -> io::Error {
    io::Error::new(io::ErrorKind::UnexpectedEof, "the file shrank while it was sent")
}

#[cfg(unix)]
fn read_at(file: &File, buf: &mut [u8], offset: u64) -> io::Result<usize> {
    std::os::unix::fs::FileExt::read_at(file, buf, offset)
}

#[cfg(windows)]
fn read_at(file: &File, buf: &mut [u8], offset: u64) -> io::Result<usize> {
    std::os::windows::fs::FileExt::seek_read(file, buf, offset)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use tokio::io::AsyncReadExt;
    use tokio::runtime::Builder;

    use super::*;

    /// Reads `range` of a file of `len` bytes.
    fn read(range: Range<u64>, len: u64) -> io::Result<usize> {
        let mut file = tempfile::tempfile()?;
        file.write_all(&[b'x'; 100_000])?;
        file.set_len(len)?;
        let mut bytes = Vec::new();
        let mut reader = FileReader::new(Arc::new(file), range);
        let runtime = Builder::new_current_thread().build()?;
        runtime.block_on(reader.read_to_end(&mut bytes)).inspect(|count| assert_eq!(*count, bytes.len()))
    }

    #[test]
    fn a_range_is_read_whole_or_not_at_all() {
        for range in [0..100_000, 0..0, 99_999..100_000, 1..CHUNK_LEN as u64 + 1, 7..90_000] {
            assert_eq!(read(range.clone(), 200_000).unwrap() as u64, range.end - range.start, "{range:?}");
        }
        for (range, len) in
            [(0..100_000, 99_999), (0..1, 0), (5..100_001, 100_000), (200_000..200_001, 100_000)]
        {
            assert_eq!(
                read(range.clone(), len).unwrap_err().kind(),
                io::ErrorKind::UnexpectedEof,
                "{range:?} of {len}"
            );
        }
    }
}
