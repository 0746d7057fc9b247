//! Linux: sendfile(2), and the state of the page cache.

use std::fs::File;
use std::io::{self, IoSliceMut};
use std::num::NonZero;
use std::ops::Range;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;

use rustix::fs::{Advice, fadvise, sendfile};
use rustix::io::{Errno, ReadWriteFlags, preadv2, retry_on_intr};

pub(super) const SENDS_FILES: bool = true;

/// Moves some of a range of `file` to `socket`, and returns how much. Fails with `InvalidInput` if that is impossible with
/// this file, or with any.
pub(super) fn send(socket: &impl AsFd, file: &File, range: Range<u64>) -> io::Result<u64> {
    let mut offset = range.start;
    let len = usize::try_from(range.end - range.start).unwrap_or(usize::MAX);
    whole(|| sendfile(socket, file, Some(&mut offset), len))
}

/// The outcome of `call`, which is made again if a signal cuts it off. That happens even where it need not wait, and the
/// system makes it again by itself only if the signal's handler has asked for that.
fn whole(call: impl FnMut() -> Result<usize, Errno>) -> io::Result<u64> {
    retry_on_intr(call).map(|sent| sent as u64).map_err(refusal)
}

/// A sandbox that does not know the call refuses all files.
fn refusal(errno: Errno) -> io::Error {
    match errno {
        Errno::NOSYS | Errno::PERM => Errno::INVAL.into(),
        errno => errno.into(),
    }
}

/// Whether a range of `file` can be read without waiting, judging by some of its pages.
pub(super) fn is_cached(file: &File, range: Range<u64>) -> bool {
    let mut probes = range.clone().step_by(PROBE).chain([range.end.saturating_sub(1)]);
    probes.all(|at| preadv2(file, &mut [IoSliceMut::new(&mut [0])], at, ReadWriteFlags::NOWAIT).is_ok())
}

/// Waits until a range of `file` is in memory.
pub(super) fn read_ahead(file: &File, range: Range<u64>) -> io::Result<()> {
    // Only advice: if it fails, the reads below are slower.
    let _ = fadvise(file, range.start, NonZero::new(range.end - range.start), Advice::WillNeed);
    // Kernels before 4.6, and some sandboxes, do not know preadv2(2), by which no file is in memory.
    range.step_by(PAGE).try_for_each(|at| file.read_at(&mut [0], at).map(drop))
}

/// The kernel reads ahead at least this much by default, so where one page is in memory, its neighbors are too.
const PROBE: usize = 128 << 10;

const PAGE: usize = 4 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    /// A file is read instead if it is `InvalidInput`. A sandbox once had each large file cut off at its head.
    #[test]
    fn a_sandbox_that_forbids_the_call_refuses_the_file() {
        for (errno, expected) in [
            (Errno::INVAL, io::ErrorKind::InvalidInput),
            (Errno::NOSYS, io::ErrorKind::InvalidInput),
            (Errno::PERM, io::ErrorKind::InvalidInput),
            (Errno::CONNRESET, io::ErrorKind::ConnectionReset),
            (Errno::AGAIN, io::ErrorKind::WouldBlock),
        ] {
            assert_eq!(refusal(errno).kind(), expected, "{errno}");
        }
    }

    /// A program may be sent signals all the time, such as by a profiler. Each of them could once cut off a download.
    #[test]
    fn a_call_that_a_signal_cuts_off_is_made_again() {
        let mut outcomes = [Err(Errno::INTR), Err(Errno::INTR), Ok(5)].into_iter();
        assert_eq!(whole(|| outcomes.next().expect("one is left")).unwrap(), 5);
    }
}
