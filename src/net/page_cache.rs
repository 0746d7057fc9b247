//! [`read_cached`]: reads from the page cache alone, without blocking; [`read_ahead`]: has the system read the rest.

pub(super) use self::imp::{is_cached, read_ahead, read_cached};

/// Linux: preadv2(2), which can be told not to wait for the disk.
#[cfg(target_os = "linux")]
mod imp {
    use std::fs::File;
    use std::io::{self, IoSliceMut};
    use std::num::NonZero;
    use std::ops::Range;
    use std::os::unix::fs::FileExt;

    use rustix::fs::{Advice, fadvise};
    use rustix::io::{ReadWriteFlags, preadv2, retry_on_intr};

    /// Whether a range of `file` can be read without waiting, judging by a sample of its pages.
    pub(in crate::net) fn is_cached(file: &File, range: Range<u64>) -> bool {
        let mut probes = range.clone().step_by(PROBE).chain([range.end.saturating_sub(1)]);
        probes.all(|at| read_cached(file, &mut [0], at).is_ok_and(|count| count > 0))
    }

    /// Reads those bytes of `file` from `offset` on that are in the page cache, and returns how many. Fails with
    /// `WouldBlock` if the first one is not there, and otherwise if the file system, or the kernel, does not support
    /// RWF_NOWAIT.
    ///
    /// 0 need not be the end of the file: Linux 5.9 and 5.10 return it for bytes that are not there (readv(2)).
    pub(in crate::net) fn read_cached(file: &File, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        let mut buf = [IoSliceMut::new(buf)];
        Ok(retry_on_intr(|| preadv2(file, &mut buf, offset, ReadWriteFlags::NOWAIT))?)
    }

    /// Reads a range of `file` into the page cache.
    pub(in crate::net) fn read_ahead(file: &File, range: Range<u64>) -> io::Result<()> {
        // Advice only: if it fails, the reads below are slower.
        let _ = fadvise(file, range.start, NonZero::new(range.end - range.start), Advice::WillNeed);
        // Without preadv2(2), as in kernels before 4.6 and in some sandboxes, every range counts as not cached, and is
        // read here.
        range.step_by(PAGE).try_for_each(|at| file.read_at(&mut [0], at).map(drop))
    }

    /// The kernel reads ahead at least this much by default, so where one page is in memory, its neighbors are too.
    const PROBE: usize = 128 << 10;

    const PAGE: usize = 4 << 10;
}

/// Other systems do not tell what is in memory. Nor do they send files by themselves, so nothing is read ahead.
#[cfg(not(target_os = "linux"))]
mod imp {
    use std::fs::File;
    use std::io;
    use std::ops::Range;

    pub(in crate::net) fn is_cached(_: &File, _: Range<u64>) -> bool {
        true
    }

    pub(in crate::net) fn read_cached(_: &File, _: &mut [u8], _: u64) -> io::Result<usize> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub(in crate::net) fn read_ahead(_: &File, _: Range<u64>) -> io::Result<()> {
        Ok(())
    }
}
