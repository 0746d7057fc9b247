//! [`LineBuffers`]: lines on their way to the thread that writes them.

use std::array;
use std::cell::Cell;
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, TryLockError};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use super::log::Log;
use super::target::{LineTarget, notice};
use crate::memory::lock;

/// Lines that wait to be written, in several buffers. A core never waits for one: it writes to the first that no other
/// thread holds, and begins with one that is usually its own.
pub(super) struct LineBuffers {
    log: Log,
    buffers: [Mutex<LineBuffer>; BUFFERS],
    dropped: AtomicU64,
    pub(super) reopen_requested: AtomicBool,
    pub(super) end_requested: AtomicBool,
    /// The thread that writes, which is woken when a buffer fills up.
    writer: OnceLock<Thread>,
}

/// Whole lines.
struct LineBuffer {
    lines: Vec<u8>,
    count: u64,
}

impl LineBuffer {
    fn new() -> LineBuffer {
        LineBuffer { lines: Vec::with_capacity(BUFFER_LEN), count: 0 }
    }
}

impl LineBuffers {
    pub(super) fn new(log: Log) -> LineBuffers {
        LineBuffers {
            log,
            buffers: array::from_fn(|_| Mutex::new(LineBuffer::new())),
            dropped: AtomicU64::new(0),
            reopen_requested: AtomicBool::new(false),
            end_requested: AtomicBool::new(false),
            writer: OnceLock::new(),
        }
    }

    /// Has `write` append a line. If too many wait already, this one is dropped.
    pub(super) fn push(&self, write: impl FnOnce(&mut Vec<u8>)) {
        let Some(mut buffer) = self.free_buffer() else {
            self.count_dropped(1);
            return;
        };
        let LineBuffer { lines, count } = &mut *buffer;
        let len_before = lines.len();
        let mut line = UnfinishedLine { lines, keep_len: len_before };
        write(line.lines);
        line.keep_len = line.lines.len();
        let is_filling = (len_before..line.keep_len).contains(&(BUFFER_LEN / 2));
        drop(line);
        *count += 1;
        drop(buffer);
        if is_filling && let Some(writer) = self.writer.get() {
            writer.unpark();
        }
    }

    /// A buffer that has room, and that no other thread holds.
    #[inline]
    fn free_buffer(&self) -> Option<MutexGuard<'_, LineBuffer>> {
        let first = FIRST_BUFFER.get();
        self.buffer_if_free(first).or_else(|| self.next_free_buffer(first))
    }

    #[cold]
    #[inline(never)]
    fn next_free_buffer(&self, first: usize) -> Option<MutexGuard<'_, LineBuffer>> {
        (1..BUFFERS).find_map(|at| self.buffer_if_free(first + at))
    }

    #[inline]
    fn buffer_if_free(&self, at: usize) -> Option<MutexGuard<'_, LineBuffer>> {
        let buffer = match self.buffers[at % BUFFERS].try_lock() {
            Ok(buffer) => buffer,
            // A format of the application has panicked, and its line was taken back.
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return None,
        };
        (buffer.lines.len() < LINES_LEN_MAX).then_some(buffer)
    }

    fn count_dropped(&self, lines: u64) {
        self.dropped.fetch_add(lines, Ordering::Relaxed);
        self.log.count_dropped(lines);
    }

    pub(super) fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    /// Writes lines until the log ends, and then those that wait. Lines that are added meanwhile are lost, so that the end
    /// comes also while a server goes on.
    pub(super) fn write_to(&self, mut target: LineTarget) {
        let log = self.log.name();
        let _ = self.writer.set(thread::current());
        let mut notices = DropNotices::new();
        let mut taken = LineBuffer::new();
        loop {
            let ends = self.end_requested.load(Ordering::Acquire);
            if self.reopen_requested.swap(false, Ordering::Acquire) {
                target.request_reopen();
            }
            if let Err(error) = target.reopen_if_due(Instant::now()) {
                notice(format!("the {log} cannot be opened again, which is tried once a second: {error}"));
            }
            self.write_waiting(&mut target, &mut taken);
            if let Some(dropped) = notices.next(self.dropped(), ends) {
                notice(format!("{dropped} lines of the {log} were dropped"));
            }
            if ends {
                return;
            }
            thread::park_timeout(PAUSE);
        }
    }

    /// Writes the lines that wait.
    fn write_waiting(&self, target: &mut LineTarget, taken: &mut LineBuffer) {
        for buffer in &self.buffers {
            mem::swap(&mut *lock(buffer), taken);
            let LineBuffer { lines, count } = taken;
            let count = mem::take(count);
            if count > 0 {
                // A writer of the application that panics loses these lines, and not the log.
                let written = catch_unwind(AssertUnwindSafe(|| target.write(lines)));
                self.count_dropped(written.map_or(count, |lost| lost as u64));
            }
            lines.clear();
            lines.shrink_to(BUFFER_LEN);
        }
    }
}

/// Decides when dropped lines are reported: at once, then at most once a minute, and at the end.
struct DropNotices {
    reported_at: Instant,
    /// How many of the dropped lines were reported.
    reported: u64,
}

impl DropNotices {
    fn new() -> DropNotices {
        DropNotices { reported_at: Instant::now(), reported: 0 }
    }

    /// Returns how many lines were dropped since the last notice, if there is to be one.
    fn next(&mut self, dropped: u64, ends: bool) -> Option<u64> {
        let unreported = dropped - self.reported;
        let is_time = ends || self.reported == 0 || self.reported_at.elapsed() >= REPORT_PAUSE;
        (unreported > 0 && is_time).then(|| {
            *self = DropNotices { reported_at: Instant::now(), reported: dropped };
            unreported
        })
    }
}

/// A line that is taken back if the application's function panics while it writes.
struct UnfinishedLine<'b> {
    lines: &'b mut Vec<u8>,
    /// The length to which the lines are truncated: without this one, until it is whole.
    keep_len: usize,
}

impl Drop for UnfinishedLine<'_> {
    fn drop(&mut self) {
        self.lines.truncate(self.keep_len);
    }
}

thread_local! {
    /// The first buffer that this thread looks at.
    static FIRST_BUFFER: Cell<usize> = {
        static THREADS: AtomicUsize = AtomicUsize::new(0);
        Cell::new(THREADS.fetch_add(1, Ordering::Relaxed))
    };
}

/// How long a line waits at most for the thread to look, unless its buffer fills up. To wake the thread is a system call.
const PAUSE: Duration = Duration::from_millis(20);

/// The least time between two reports of dropped lines, unless the log ends.
const REPORT_PAUSE: Duration = Duration::from_secs(60);

/// How many buffers there are. Two cores that begin with the same one rarely meet there.
const BUFFERS: usize = 16;

/// How many bytes of lines a buffer takes, before the last one. The thread is woken once for half as many, since a wake-up
/// costs a core as much as dozens of lines.
const LINES_LEN_MAX: usize = 256 << 10;

/// How much memory a buffer has from the start, and keeps: most lines are shorter than the rest.
const BUFFER_LEN: usize = LINES_LEN_MAX + (1 << 10);

#[cfg(test)]
mod tests {
    use std::io::{self, Write};
    use std::sync::Arc;

    use super::*;

    /// A writer that causes a line with each that it writes, as a server does that goes on.
    struct Busy(Arc<LineBuffers>, u64);

    impl Write for Busy {
        fn write(&mut self, lines: &[u8]) -> io::Result<usize> {
            self.1 += 1;
            assert!(self.1 < 1000, "the log does not end");
            self.0.push(|line| line.extend_from_slice(b"later\n"));
            Ok(lines.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// A writer that panics at its first call.
    struct Panicking(bool);

    impl Write for Panicking {
        fn write(&mut self, lines: &[u8]) -> io::Result<usize> {
            let is_first = !mem::replace(&mut self.0, true);
            assert!(!is_first, "the writer of the application panics");
            Ok(lines.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_writer_that_panics_loses_the_lines_at_hand_and_no_others() {
        let buffers = LineBuffers::new(Log::Error);
        let mut target = LineTarget::from_writer(Panicking(false));
        for lines in [2, 3] {
            (0..lines).for_each(|_| buffers.push(|line| line.extend_from_slice(b"line\n")));
            buffers.write_waiting(&mut target, &mut LineBuffer::new());
            assert_eq!(buffers.dropped(), 2);
        }
    }

    #[test]
    fn a_log_ends_while_lines_are_added() {
        let buffers = Arc::new(LineBuffers::new(Log::Error));
        buffers.push(|line| line.extend_from_slice(b"first\n"));
        buffers.end_requested.store(true, Ordering::Release);
        buffers.write_to(LineTarget::from_writer(Busy(buffers.clone(), 0)));
    }

    #[test]
    fn all_lines_that_were_dropped_are_reported_at_the_end() {
        let mut notices = DropNotices::new();
        let dropped = [(0, false), (3, false), (5, false), (5, true)];
        let reported = dropped.map(|(dropped, ends)| notices.next(dropped, ends));
        assert_eq!(reported, [None, Some(3), None, Some(2)]);
        assert_eq!(DropNotices::new().next(0, true), None);
    }
}
