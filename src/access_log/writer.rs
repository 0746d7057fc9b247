//! [`LineQueue`]: lines on their way to the thread that writes them; and that thread.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::mem;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crossbeam_queue::ArrayQueue;

/// Lines that wait to be written, and the buffers for more. A core allocates for long lines alone.
pub(super) struct LineQueue {
    filled: ArrayQueue<Vec<u8>>,
    spare: ArrayQueue<Vec<u8>>,
    dropped: AtomicU64,
    pub(super) reopen_requested: AtomicBool,
    pub(super) end_requested: AtomicBool,
}

impl LineQueue {
    pub(super) fn new(lines_max: usize) -> LineQueue {
        let lines_max = lines_max.max(1);
        let spare = ArrayQueue::new(lines_max);
        (0..lines_max).for_each(|_| drop(spare.push(Vec::with_capacity(LINE_LEN))));
        LineQueue {
            filled: ArrayQueue::new(lines_max),
            spare,
            dropped: AtomicU64::new(0),
            reopen_requested: AtomicBool::new(false),
            end_requested: AtomicBool::new(false),
        }
    }

    /// Lets `write` fill a line. If there are too many already, this one is dropped.
    pub(super) fn push(&self, write: impl FnOnce(&mut Vec<u8>)) {
        let Some(buffer) = self.spare.pop() else {
            self.dropped.fetch_add(1, Ordering::Relaxed);
            return;
        };
        let mut line = LentBuffer { buffer, home: &self.spare };
        write(&mut line.buffer);
        let pushed = self.filled.push(mem::take(&mut line.buffer));
        debug_assert!(pushed.is_ok(), "there are as many places as buffers");
        mem::forget(line);
    }

    pub(super) fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    /// Writes lines until the log ends and none is left.
    pub(super) fn write_to(&self, mut target: LogTarget) {
        let mut said = (Instant::now(), 0);
        loop {
            let ends = self.end_requested.load(Ordering::Acquire);
            if self.reopen_requested.swap(false, Ordering::Acquire)
                && let Err(error) = target.reopen()
            {
                eprintln!("the access log cannot be opened again: {error}");
            }
            let count = self.write_waiting(&mut target);
            self.report_dropped(&mut said);
            match (count, ends) {
                (0, true) => return,
                (0, false) => thread::park_timeout(PAUSE),
                _ => {}
            }
        }
    }

    /// Writes the lines that wait, and returns how many there were.
    fn write_waiting(&self, target: &mut LogTarget) -> u64 {
        let (mut count, mut lost) = (0, 0);
        while let Some(mut line) = self.filled.pop() {
            count += 1;
            lost += u64::from(target.write(&line).is_err());
            line.clear();
            line.shrink_to(LINE_KEPT_MAX);
            let kept = self.spare.push(line);
            debug_assert!(kept.is_ok(), "there are as many places as buffers");
            if count == LINES_AT_ONCE {
                break;
            }
        }
        if count > 0 && target.flush().is_err() {
            lost = count;
        }
        self.dropped.fetch_add(lost, Ordering::Relaxed);
        count
    }

    /// Says at most once a minute how many lines are missing.
    fn report_dropped(&self, (said_at, said): &mut (Instant, u64)) {
        let dropped = self.dropped();
        if dropped > *said && (*said == 0 || said_at.elapsed() >= REPORT_PAUSE) {
            eprintln!("{} lines of the access log were dropped", dropped - *said);
            (*said_at, *said) = (Instant::now(), dropped);
        }
    }
}

/// A buffer that goes back if the application's function panics while it fills it.
struct LentBuffer<'q> {
    buffer: Vec<u8>,
    home: &'q ArrayQueue<Vec<u8>>,
}

impl Drop for LentBuffer<'_> {
    fn drop(&mut self) {
        let mut buffer = mem::take(&mut self.buffer);
        buffer.clear();
        let kept = self.home.push(buffer);
        debug_assert!(kept.is_ok(), "there are as many places as buffers");
    }
}

/// The place where lines are written.
pub(super) enum LogTarget {
    /// A file, which is opened again when it was rotated.
    File(PathBuf, io::BufWriter<File>),
    Writer(Box<dyn Write + Send>),
}

impl LogTarget {
    pub(super) fn from_path(path: &Path) -> io::Result<LogTarget> {
        Ok(LogTarget::File(path.to_owned(), io::BufWriter::new(open(path)?)))
    }

    fn reopen(&mut self) -> io::Result<()> {
        match self {
            LogTarget::File(path, writer) => {
                writer.flush()?;
                *writer = io::BufWriter::new(open(path)?);
                Ok(())
            }
            LogTarget::Writer(_) => Ok(()),
        }
    }

    fn write(&mut self, line: &[u8]) -> io::Result<()> {
        match self {
            LogTarget::File(_, writer) => writer.write_all(line),
            LogTarget::Writer(writer) => writer.write_all(line),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            LogTarget::File(_, writer) => writer.flush(),
            LogTarget::Writer(writer) => writer.flush(),
        }
    }
}

fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new().create(true).append(true).open(path)
}

/// How long a line waits at most for the thread to look. A core does not wake it, since that is a system call.
const PAUSE: Duration = Duration::from_millis(20);

/// How often it is said that lines were dropped.
const REPORT_PAUSE: Duration = Duration::from_secs(60);

/// How many lines are written before they are flushed.
const LINES_AT_ONCE: u64 = 1024;

/// How much memory a line has from the start: that of most lines.
const LINE_LEN: usize = 256;

/// How much memory of a long line is kept for the next one.
const LINE_KEPT_MAX: usize = 1 << 10;
