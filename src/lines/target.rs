//! [`LineTarget`]: the place where lines are written.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

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

    pub(super) fn reopen(&mut self) -> io::Result<()> {
        if let Sink::File(path, file) = &mut self.sink {
            *file = open(path)?;
            self.ends_in_part = false;
        }
        Ok(())
    }

    /// Writes lines until one of them cannot be written, and returns how many were lost: that one and those behind it.
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
