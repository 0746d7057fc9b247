//! Linux: sendfile(2), and the state of the page cache.

use std::fs::File;
use std::io::{self, IoSliceMut};
use std::num::NonZero;
use std::ops::Range;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;

use rustix::fs::{Advice, fadvise, sendfile};
use rustix::io::{ReadWriteFlags, preadv2};

pub(super) const SENDS_FILES: bool = true;

/// Moves some of a range of `file` to `socket`, and returns how much.
pub(super) fn send(socket: &impl AsFd, file: &File, range: Range<u64>) -> io::Result<u64> {
    let mut offset = range.start;
    let len = usize::try_from(range.end - range.start).unwrap_or(usize::MAX);
    Ok(sendfile(socket, file, Some(&mut offset), len)? as u64)
}

/// Whether a range of `file` can be read without waiting, judging by some of its pages.
pub(super) fn is_in_memory(file: &File, range: Range<u64>) -> bool {
    let mut probes = range.clone().step_by(PROBE).chain([range.end.saturating_sub(1)]);
    probes.all(|at| preadv2(file, &mut [IoSliceMut::new(&mut [0])], at, ReadWriteFlags::NOWAIT).is_ok())
}

/// Waits until a range of `file` is in memory.
pub(super) fn warm(file: &File, range: Range<u64>) -> io::Result<()> {
    // Only advice: if it fails, the reads below are slower.
    let _ = fadvise(file, range.start, NonZero::new(range.end - range.start), Advice::WillNeed);
    // Kernels before 4.6, and some sandboxes, do not know preadv2(2), by which no file is in memory.
    range.step_by(PAGE).try_for_each(|at| file.read_at(&mut [0], at).map(drop))
}

/// The kernel reads ahead at least this much by default, so where one page is in memory, its neighbors are too.
const PROBE: usize = 128 << 10;

const PAGE: usize = 4 << 10;
