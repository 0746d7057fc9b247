//! [`LineTarget`]: where lines are written; [`notice`]: a line on standard error about the logs themselves.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::descriptors::with_descriptors;

/// The place where lines are written.
pub(crate) struct LineTarget {
    sink: Sink,
    /// Whether the last line was cut, as by a full disk, and has no end.
    ends_in_part: bool,
    reopening: Reopening,
}

/// Whether a file is to be opened again. A wish is kept until that succeeds.
#[derive(Clone, Copy)]
enum Reopening {
    Unwanted,
    Wanted,
    FailedAt(Instant),
}

enum Sink {
    /// A file, which is opened again when it was rotated.
    File(PathBuf, File),
    Writer(Box<dyn Write + Send>),
}

impl LineTarget {
    pub(crate) fn from_path(path: &Path) -> io::Result<LineTarget> {
        let file = open(path).map_err(|cause| {
            io::Error::new(cause.kind(), format!("cannot open {}: {cause}", path.display()))
        })?;
        Ok(LineTarget::new(Sink::File(path.to_owned(), file)))
    }

    pub(crate) fn from_writer(writer: impl Write + Send + 'static) -> LineTarget {
        LineTarget::new(Sink::Writer(Box::new(writer)))
    }

    pub(crate) fn stderr() -> LineTarget {
        LineTarget::from_writer(io::stderr())
    }

    fn new(sink: Sink) -> LineTarget {
        LineTarget { sink, ends_in_part: false, reopening: Reopening::Unwanted }
    }

    /// Has a file opened again by the next [`LineTarget::reopen_if_due`].
    pub(crate) fn request_reopen(&mut self) {
        self.reopening = Reopening::Wanted;
    }

    /// Opens a file again if that is wanted, once a second until it succeeds.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be opened, once for each request.
    pub(super) fn reopen_if_due(&mut self, now: Instant) -> io::Result<()> {
        let has_failed = match self.reopening {
            Reopening::Unwanted => return Ok(()),
            Reopening::FailedAt(at) if now.saturating_duration_since(at) < REOPEN_PAUSE => return Ok(()),
            Reopening::FailedAt(_) => true,
            Reopening::Wanted => false,
        };
        let reopened = self.reopen();
        self.reopening = if reopened.is_ok() { Reopening::Unwanted } else { Reopening::FailedAt(now) };
        if has_failed { Ok(()) } else { reopened }
    }

    fn reopen(&mut self) -> io::Result<()> {
        if let Sink::File(path, file) = &mut self.sink {
            *file = open(path)?;
            self.ends_in_part = false;
        }
        Ok(())
    }

    /// Writes lines until one of them cannot be written, and returns how many were lost: that one and those after it.
    pub(super) fn write(&mut self, lines: &[u8]) -> usize {
        let writer: &mut dyn Write = match &mut self.sink {
            Sink::File(_, file) => file,
            Sink::Writer(writer) => writer,
        };
        // The end of a line that was cut, so that the next one stands alone.
        if self.ends_in_part && !write_some(writer, b"\n").is_empty() {
            return count_lines(lines);
        }
        let left = write_some(writer, lines);
        self.ends_in_part = !matches!(&lines[..lines.len() - left.len()], [] | [.., b'\n']);
        count_lines(if until_ready(|| writer.flush()).is_ok() { left } else { lines })
    }
}

/// Writes until that fails, and returns what is left.
fn write_some<'l>(writer: &mut dyn Write, mut lines: &'l [u8]) -> &'l [u8] {
    while !lines.is_empty() {
        match until_ready(|| writer.write(lines)) {
            Ok(0) | Err(_) => break,
            Ok(written) => lines = &lines[written..],
        }
    }
    lines
}

/// Tries again what was interrupted or would block. Standard output blocks for nobody once another process that shares it
/// has set `O_NONBLOCK`, and a full pipe is no failure.
fn until_ready<T>(mut attempt: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        match attempt() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => thread::sleep(READY_PAUSE),
            done => return done,
        }
    }
}

/// How long a writer that would block is left alone.
const READY_PAUSE: Duration = Duration::from_millis(5);

fn count_lines(lines: &[u8]) -> usize {
    lines.iter().filter(|octet| **octet == b'\n').count()
}

fn open(path: &Path) -> io::Result<File> {
    with_descriptors(|| OpenOptions::new().create(true).append(true).open(path))
}

/// The least time between two attempts to open a file again.
const REOPEN_PAUSE: Duration = Duration::from_secs(1);

/// Writes a line to standard error, on a thread of its own, since a pipe that nobody reads may block it forever. The caller
/// waits for at most 100 ms. Further notices are dropped until that thread has ended.
pub(crate) fn notice(text: String) {
    static IS_WRITING: AtomicBool = AtomicBool::new(false);
    if IS_WRITING.swap(true, Ordering::AcqRel) {
        return;
    }
    let write = move || {
        // There is nobody to be told that standard error is closed.
        _ = writeln!(io::stderr(), "{text}");
        IS_WRITING.store(false, Ordering::Release);
    };
    match thread::Builder::new().name("log-notice".into()).spawn(write) {
        // The last notice of a process should not be lost, as a rule.
        Ok(thread) => _ = is_over_within(&thread, NOTICE_WAIT_MAX),
        Err(_) => IS_WRITING.store(false, Ordering::Release),
    }
}

const NOTICE_WAIT_MAX: Duration = Duration::from_millis(100);

/// Waits for a thread to end, and returns whether it has. A writer that stalls must not keep the process.
pub(super) fn is_over_within(thread: &JoinHandle<()>, wait_max: Duration) -> bool {
    let pause = Duration::from_millis(1);
    let mut waited = Duration::ZERO;
    while !thread.is_finished() && waited < wait_max {
        thread::sleep(pause);
        waited += pause;
    }
    thread.is_finished()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::sync::{Arc, Mutex};

    use super::*;

    /// A pipe that is not waited for, and is full at each second write and flush.
    #[derive(Default)]
    struct Full {
        is_full: bool,
        written: Arc<Mutex<Vec<u8>>>,
    }

    impl Full {
        fn drain(&mut self) -> io::Result<()> {
            self.is_full = !self.is_full;
            if self.is_full { Err(io::ErrorKind::WouldBlock.into()) } else { Ok(()) }
        }
    }

    impl Write for Full {
        fn write(&mut self, lines: &[u8]) -> io::Result<usize> {
            self.drain()?;
            self.written.lock().unwrap().push(lines[0]);
            Ok(1)
        }

        fn flush(&mut self) -> io::Result<()> {
            self.drain()
        }
    }

    #[test]
    fn a_writer_that_would_block_loses_nothing() {
        let full = Full::default();
        let written = full.written.clone();
        let mut target = LineTarget::from_writer(full);
        assert_eq!(target.write(b"1\n2\n"), 0);
        assert_eq!(*written.lock().unwrap(), b"1\n2\n");
    }

    #[test]
    fn a_file_is_opened_again_once_that_is_possible() {
        let folder = tempfile::tempdir().unwrap();
        let [logs, old] = ["logs", "old"].map(|name| folder.path().join(name));
        let written = |folder: &Path| fs::read_to_string(folder.join("a")).unwrap_or_default();
        fs::create_dir(&logs).unwrap();
        let mut target = LineTarget::from_path(&logs.join("a")).unwrap();
        let start = Instant::now();
        let mut write_at = |millis, line: &str, is_requested| {
            if is_requested {
                target.request_reopen();
            }
            let reopened = target.reopen_if_due(start + Duration::from_millis(millis));
            assert_eq!(target.write(line.as_bytes()), 0);
            reopened.is_ok()
        };
        assert!(write_at(0, "1\n", false));
        fs::rename(&logs, &old).unwrap();
        assert!(!write_at(0, "2\n", true), "there is no folder");
        assert!(write_at(2000, "3\n", false), "that was reported");
        fs::create_dir(&logs).unwrap();
        assert!(write_at(2999, "4\n", false));
        assert_eq!((written(&old).as_str(), written(&logs).as_str()), ("1\n2\n3\n4\n", ""));
        assert!(write_at(3000, "5\n", false) && write_at(9000, "6\n", false));
        assert_eq!((written(&old).as_str(), written(&logs).as_str()), ("1\n2\n3\n4\n", "5\n6\n"));
    }
}
