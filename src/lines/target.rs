//! [`LineTarget`]: the place where lines are written; and [`notice`], for words about that.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// The place where lines are written.
pub(crate) struct LineTarget {
    sink: Sink,
    /// Whether the last line was cut, as by a full disk, and has no end.
    ends_in_part: bool,
}

enum Sink {
    /// A file, which is opened again when it was rotated.
    File(PathBuf, File),
    Writer(Box<dyn Write + Send>),
}

impl LineTarget {
    pub(crate) fn from_path(path: &Path) -> io::Result<LineTarget> {
        Ok(LineTarget { sink: Sink::File(path.to_owned(), open(path)?), ends_in_part: false })
    }

    pub(crate) fn from_writer(writer: impl Write + Send + 'static) -> LineTarget {
        LineTarget { sink: Sink::Writer(Box::new(writer)), ends_in_part: false }
    }

    pub(crate) fn reopen(&mut self) -> io::Result<()> {
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
        if self.ends_in_part && writer.write_all(b"\n").is_err() {
            return count_lines(lines);
        }
        let left = write_some(writer, lines);
        self.ends_in_part = !matches!(&lines[..lines.len() - left.len()], [] | [.., b'\n']);
        count_lines(if writer.flush().is_ok() { left } else { lines })
    }
}

/// Writes until that fails, and returns what is left.
fn write_some<'l>(writer: &mut dyn Write, mut lines: &'l [u8]) -> &'l [u8] {
    while !lines.is_empty() {
        match writer.write(lines) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Ok(0) | Err(_) => break,
            Ok(written) => lines = &lines[written..],
        }
    }
    lines
}

fn count_lines(lines: &[u8]) -> usize {
    lines.iter().filter(|octet| **octet == b'\n').count()
}

fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new().create(true).append(true).open(path)
}

/// Writes a line to standard error, which may stand still for ever: a thread of its own waits for that, and the caller
/// does not, but for a moment. While such a thread waits, further notices are left out.
pub(super) fn notice(text: String) {
    static IS_WRITING: AtomicBool = AtomicBool::new(false);
    if IS_WRITING.swap(true, Ordering::AcqRel) {
        return;
    }
    let write = move || {
        eprintln!("{text}");
        IS_WRITING.store(false, Ordering::Release);
    };
    match thread::Builder::new().name("log-notice".into()).spawn(write) {
        // The last notice of a process should not be lost, as a rule.
        Ok(thread) => _ = is_over_within(&thread, MOMENT),
        Err(_) => IS_WRITING.store(false, Ordering::Release),
    }
}

const MOMENT: Duration = Duration::from_millis(100);

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
