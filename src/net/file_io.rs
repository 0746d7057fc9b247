//! [`FileSender`]: a range of a file that the operating system moves to a socket by itself; [`FileReader`]: one as a stream.
//!
//! Neither waits for a disk on the core. Other threads read what is not in the page cache.

use std::fs::File;
use std::io;
use std::mem;
use std::ops::Range;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, ReadBuf};
use tokio::task::{JoinHandle, coop, spawn_blocking, yield_now};

use super::conn::BYTES_PER_CALL;
use super::{Conn, ConnError, Locality, page_cache};
use crate::runtime::OwnWaits;

/// A range of a file on its way to a socket, without a copy through the memory of the program.
///
/// Waiting for a disk would block the whole core. So before a piece is sent, the sender checks whether it is in the
/// page cache; if not, another thread reads it ahead.
pub(crate) struct FileSender {
    file: Arc<File>,
    /// The bytes that remain to be sent.
    range: Range<u64>,
    /// The file is known to be in the page cache up to here.
    cached_until: u64,
    /// The task yields once the file has been sent up to here.
    yield_at: u64,
    readahead: Option<JoinHandle<io::Result<()>>>,
    has_begun: bool,
}

impl FileSender {
    pub(crate) fn new(file: Arc<File>, range: Range<u64>) -> FileSender {
        let cached_until = range.start;
        let yield_at = range.start.saturating_add(YIELD_EVERY);
        FileSender { file, range, cached_until, yield_at, readahead: None, has_begun: false }
    }

    /// Waits until the next piece is in the page cache. Yields to other tasks now and then: a peer that reads as fast
    /// as it is sent to would otherwise keep the core to itself until the end of the file.
    pub(crate) fn poll_readahead(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.range.start >= self.yield_at {
            self.yield_at = self.range.start.saturating_add(YIELD_EVERY);
            // `yield_now` wakes the task only after the runtime has polled the system for events; a task that woke
            // itself would run before them.
            let _ = pin!(yield_now()).poll(cx);
            return Poll::Pending;
        }
        while self.cached_until <= self.range.start {
            if let Some(readahead) = &mut self.readahead {
                let loaded = ready!(Pin::new(readahead).poll(cx));
                self.readahead = None;
                loaded.unwrap_or_else(|cut_off| Err(cut_off.into()))?;
                self.cached_until = self.piece(READAHEAD).end;
            } else if page_cache::is_cached(&self.file, self.piece(PIECE)) {
                self.cached_until = self.piece(PIECE).end;
            } else {
                let file = self.file.clone();
                let piece = self.piece(READAHEAD);
                self.readahead = Some(spawn_blocking(move || page_cache::read_ahead(&file, piece)));
            }
        }
        Poll::Ready(Ok(()))
    }

    /// Sends some of the cached bytes, and returns how much: 0 if the file has shrunk.
    pub(crate) fn poll_send<L: Locality>(
        &mut self,
        cx: &mut Context<'_>,
        conn: &mut Conn<L>,
        limit: Duration,
    ) -> Poll<Result<u64, ConnError>> {
        debug_assert!(self.range.start < self.cached_until, "a piece was cached before it is sent");
        let cached = self.range.start..self.cached_until;
        let count = ready!(conn.poll_send_file(cx, &self.file, cached, limit))?;
        self.range.start += count;
        self.has_begun = true;
        Poll::Ready(Ok(count))
    }

    /// Whether some of it has been sent.
    pub(crate) fn has_begun(&self) -> bool {
        self.has_begun
    }

    fn piece(&self, len: u64) -> Range<u64> {
        self.range.start..self.range.end.min(self.range.start.saturating_add(len))
    }
}

/// How much is checked at once. A socket takes less, and the rest needs no further check.
const PIECE: u64 = YIELD_EVERY;

/// How much is sent before the task yields.
const YIELD_EVERY: u64 = 2 << 20;

/// How much is read ahead at once from a disk.
const READAHEAD: u64 = 1 << 20;

/// A range of a file, read from the page cache, and in chunks on the runtime's threads for blocking work where it is not
/// there.
///
/// The reader yields exactly as many bytes as the range has, or fails: growth of the file is ignored, and shrinking is
/// an error.
pub(crate) struct FileReader {
    file: Arc<File>,
    /// The bytes that remain to be read.
    range: Range<u64>,
    /// The file may be read from the page cache alone, as far as is known.
    supports_nowait: bool,
    chunk: Chunk,
}

enum Chunk {
    /// Read, with the number of bytes taken from it.
    Ready(Vec<u8>, usize),
    Reading(JoinHandle<io::Result<Vec<u8>>>),
}

impl FileReader {
    pub(crate) fn new(file: Arc<File>, range: Range<u64>) -> FileReader {
        FileReader { file, range, supports_nowait: true, chunk: Chunk::Ready(Vec::new(), 0) }
    }

    /// Reads from the page cache. Returns how much, or 0 if a thread must read on, which also finds that the file has shrunk.
    /// Yields now and then, since a peer that takes bytes as fast as they are read would keep the core to itself.
    fn poll_cached(&mut self, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<usize> {
        let call = ready!(OwnWaits::note(coop::poll_proceed(cx)));
        if !self.supports_nowait {
            return Poll::Ready(0);
        }
        let len = self.remaining_up_to(BYTES_PER_CALL.min(buf.remaining()));
        let read = page_cache::read_cached(&self.file, buf.initialize_unfilled_to(len), self.range.start);
        if let Err(error) = &read {
            self.supports_nowait = error.kind() == io::ErrorKind::WouldBlock;
        }
        let count = read.unwrap_or(0);
        buf.advance(count);
        self.range.start += count as u64;
        call.made_progress();
        Poll::Ready(count)
    }

    /// Makes a chunk that was read the current one.
    fn set_chunk(&mut self, bytes: io::Result<Vec<u8>>) -> io::Result<()> {
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
    fn read_on(&mut self) {
        let file = self.file.clone();
        let start = self.range.start;
        let len = self.remaining_up_to(CHUNK_LEN);
        let last = mem::replace(&mut self.chunk, Chunk::Ready(Vec::new(), 0));
        let Chunk::Ready(mut memory, _) = last else { unreachable!("one chunk is read at a time") };
        self.chunk = Chunk::Reading(spawn_blocking(move || {
            memory.resize(len, 0);
            let count = read_at(&file, &mut memory, start)?;
            memory.truncate(count);
            Ok(memory)
        }));
    }

    /// How many bytes remain, at most `max`.
    fn remaining_up_to(&self, max: usize) -> usize {
        (self.range.end - self.range.start).min(max as u64) as usize
    }
}

/// How many bytes a thread reads at once: enough to make the cost of another thread negligible.
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
                Chunk::Ready(..) => match ready!(reader.poll_cached(cx, buf)) {
                    0 => reader.read_on(),
                    _ => return Poll::Ready(Ok(())),
                },
                Chunk::Reading(read) => {
                    let read = ready!(OwnWaits::note(Pin::new(read).poll(cx)));
                    reader.set_chunk(read.unwrap_or_else(|cut_off| Err(cut_off.into())))?;
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
    use std::future::poll_fn;
    use std::io::Write;

    use tokio::io::AsyncReadExt;
    use tokio::runtime::Builder;

    use super::*;
    use crate::net::conn::Local;
    use crate::net::{ConnTable, TimerSlot, Transport};

    /// A piece is cached before it is sent, whether it was already or a thread has read it ahead.
    #[test]
    fn a_piece_is_in_memory_before_it_is_sent() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&vec![b'x'; 3 << 20]).unwrap();
        let file = Arc::new(file);
        page_cache::read_ahead(&file, 0..3 << 20).unwrap();
        let runtime = Builder::new_current_thread().build().unwrap();
        for range in [0..3 << 20, 5..6, (3 << 20) - 1..3 << 20] {
            let mut sender = FileSender::new(file.clone(), range.clone());
            runtime.block_on(poll_fn(|cx| sender.poll_readahead(cx))).unwrap();
            assert!(sender.cached_until > range.start && sender.cached_until <= range.end, "{range:?}");
            // As if the piece had not been cached, and a thread had read it ahead.
            let mut sender = FileSender::new(file.clone(), range.clone());
            let piece = sender.piece(READAHEAD);
            let warm = file.clone();
            let work = move || page_cache::read_ahead(&warm, piece);
            let entered = runtime.enter();
            sender.readahead = Some(spawn_blocking(work));
            drop(entered);
            runtime.block_on(poll_fn(|cx| sender.poll_readahead(cx))).unwrap();
            assert_eq!(sender.cached_until, range.end.min(range.start + READAHEAD), "{range:?}");
        }
    }

    /// A range up to the largest offset must end with an error, and not in an endless loop.
    #[cfg(unix)]
    #[test]
    fn a_range_that_no_file_can_hold_is_an_error() {
        let file = Arc::new(tempfile::tempfile().unwrap());
        let runtime = Builder::new_current_thread().build().unwrap();
        for start in [u64::MAX - 1, u64::MAX - PIECE, 1 << 63] {
            let mut sender = FileSender::new(file.clone(), start..u64::MAX);
            assert!(runtime.block_on(poll_fn(|cx| sender.poll_readahead(cx))).is_err(), "{start}");
        }
    }

    #[test]
    fn the_task_yields_between_the_pieces_of_a_file() {
        let mut sender = FileSender::new(Arc::new(tempfile::tempfile().unwrap()), 5..6 << 20);
        // Some file systems, such as tmpfs, do not report which pages are cached.
        sender.cached_until = sender.range.end;
        let mut cx = Context::from_waker(std::task::Waker::noop());
        // How much was sent, and whether the sender goes on without yielding.
        for (sent, goes_on) in [
            (0, true),
            (YIELD_EVERY / 2, true),
            (YIELD_EVERY - 1, true),
            (YIELD_EVERY, false),
            (YIELD_EVERY, true),
        ] {
            sender.range.start = 5 + sent;
            assert_eq!(sender.poll_readahead(&mut cx).is_ready(), goes_on, "{sent}");
        }
        for (sent, goes_on) in
            [(2 * YIELD_EVERY - 1, true), (2 * YIELD_EVERY + 1, false), (2 * YIELD_EVERY + 1, true)]
        {
            sender.range.start = 5 + sent;
            assert_eq!(sender.poll_readahead(&mut cx).is_ready(), goes_on, "{sent}");
        }
    }

    /// A peer that reads slowly makes progress: the deadline of an earlier wait must not end a later one.
    #[cfg(target_os = "linux")]
    #[test]
    fn a_wait_is_over_once_a_part_was_sent() {
        const LEN: u64 = 4 << 20;
        let file = tempfile::tempfile().unwrap();
        file.set_len(LEN).unwrap();
        let runtime = Builder::new_current_thread().enable_io().build().unwrap();
        runtime.block_on(async {
            let (near, mut far) = tokio::net::UnixStream::pair().unwrap();
            // Some runtimes assume a new socket to be writable only after an event.
            near.writable().await.unwrap();
            let deadline = ConnTable::with_sweep().add(Default::default());
            let mut conn = Conn::<Local>::new(Transport::Unix(near.into()), deadline);
            let mut sent = 0;
            let mut send = |conn: &mut Conn, cx: &mut Context<'_>| {
                let part = conn.poll_send_file(cx, &file, sent..LEN, Duration::MAX);
                part.map(|part| sent += part.expect("the peer is there"))
            };
            while poll_fn(|cx| Poll::Ready(send(&mut conn, cx))).await.is_ready() {}
            assert!(conn.is_armed(TimerSlot::Write));
            let mut room = vec![0; LEN as usize];
            far.read_exact(&mut room[..64 << 10]).await.unwrap();
            let goes_on = async { poll_fn(|cx| send(&mut conn, cx)).await };
            tokio::select! {
                () = goes_on => {}
                _ = far.read_exact(&mut room) => panic!("it waits in vain"),
            }
            assert!(!conn.is_armed(TimerSlot::Write));
        });
    }

    #[test]
    fn a_transport_without_a_socket_sends_no_files() {
        let file = tempfile::tempfile().unwrap();
        let closed = Transport::<std::pin::Pin<Box<dyn crate::net::Stream>>>::Closed;
        let mut cx = Context::from_waker(std::task::Waker::noop());
        let Poll::Ready(Err(error)) = closed.poll_send_file(&mut cx, &file, 0..1) else {
            panic!("it is refused")
        };
        assert!(error.kind() == io::ErrorKind::InvalidInput && !closed.sends_files());
    }

    /// A file of 100,000 bytes, each its position modulo 251.
    fn numbered() -> File {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&content(0..100_000)).unwrap();
        file
    }

    fn content(range: Range<u64>) -> Vec<u8> {
        range.map(|at| (at % 251) as u8).collect()
    }

    /// Reads `range` of a file whose length is set to `len` after `before` bytes of it were read.
    fn read(file: File, range: Range<u64>, before: u64, len: u64) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        let file = Arc::new(file);
        let mut reader = FileReader::new(file.clone(), range);
        let runtime = Builder::new_current_thread().build()?;
        runtime.block_on(async {
            (&mut reader).take(before).read_to_end(&mut bytes).await?;
            file.set_len(len)?;
            reader.read_to_end(&mut bytes).await.map(|_| bytes)
        })
    }

    #[test]
    fn a_range_is_read_whole_or_not_at_all() {
        for range in [0..100_000, 0..0, 99_999..100_000, 1..CHUNK_LEN as u64 + 1, 7..90_000] {
            for before in [0, 1, 16 << 10, 17 << 10] {
                let read = read(numbered(), range.clone(), before, 200_000).unwrap();
                assert!(read == content(range.clone()), "{range:?}");
            }
        }
        for (range, before, len) in [
            (0..100_000, 0, 99_999),
            (0..1, 0, 0),
            (5..100_001, 0, 100_000),
            (200_000..200_001, 0, 100_000),
            (0..100_000, 1, 0),
            (0..100_000, 20_000, 20_000),
            (0..100_000, 20_000, 99_999),
        ] {
            assert_eq!(
                read(numbered(), range.clone(), before, len).unwrap_err().kind(),
                io::ErrorKind::UnexpectedEof,
                "{range:?} of {len}"
            );
        }
    }

    /// Bytes that are in memory take no thread, of which there is none outside of a runtime. Where they are not, or the
    /// file system does not say, a thread reads them.
    #[cfg(target_os = "linux")]
    #[test]
    fn only_what_is_not_cached_takes_a_thread() {
        use rustix::fs::{Advice, fadvise};
        let file = numbered();
        file.sync_all().unwrap();
        let supports_nowait = page_cache::read_cached(&file, &mut [0], 0).is_ok();
        let mut cx = Context::from_waker(std::task::Waker::noop());
        let mut buf = vec![0; 200_000];
        let mut buf = ReadBuf::new(&mut buf);
        let mut reader = FileReader::new(Arc::new(file.try_clone().unwrap()), 3..100_000);
        while supports_nowait && !reader.range.is_empty() {
            assert!(Pin::new(&mut reader).poll_read(&mut cx, &mut buf).is_ready());
        }
        assert!(!supports_nowait || buf.filled() == content(3..100_000));
        for dropped in [0..100_000, 50_000..100_000, 0..50_000] {
            fadvise(&file, dropped.start, (dropped.end - dropped.start).try_into().ok(), Advice::DontNeed)
                .unwrap();
            assert!(read(file.try_clone().unwrap(), 3..100_000, 0, 100_000).unwrap() == content(3..100_000));
        }
    }

    /// Some file systems are never read from memory alone, and a socket has no positions at all.
    #[cfg(target_os = "linux")]
    #[test]
    fn a_file_that_is_never_read_from_memory_alone_is_tried_once() {
        let runtime = Builder::new_current_thread().build().unwrap();
        let (socket, _) = std::os::unix::net::UnixStream::pair().unwrap();
        let socket = File::from(std::os::fd::OwnedFd::from(socket));
        for (file, is_read) in [(File::open("/proc/self/status").unwrap(), true), (socket, false)] {
            let mut reader = FileReader::new(Arc::new(file), 0..5);
            let mut bytes = Vec::new();
            let read = runtime.block_on(reader.read_to_end(&mut bytes));
            assert!(read.is_ok() == is_read && bytes == [&b""[..], b"Name:"][usize::from(is_read)]);
            assert!(!reader.supports_nowait);
        }
    }

    /// A task that reads from memory alone is never pending by itself.
    #[test]
    fn the_task_yields_while_it_reads_a_file() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&vec![b'x'; 4 << 20]).unwrap();
        let mut reader = FileReader::new(Arc::new(file), 0..4 << 20);
        let mut room = vec![0; 64 << 10];
        let runtime = Builder::new_current_thread().build().unwrap();
        runtime.block_on(poll_fn(|cx| {
            while Pin::new(&mut reader).poll_read(cx, &mut ReadBuf::new(&mut room)).is_ready() {
                assert!(!reader.range.is_empty(), "all was read at once");
            }
            Poll::Ready(())
        }));
    }
}
