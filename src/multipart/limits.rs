//! [`MultipartLimits`]: bounds on every size and count of a multipart body.

/// Bounds on every size and count of a multipart body. Exceeding one is a [`MultipartError`](super::MultipartError).
///
/// # Examples
///
/// ```
/// use corehttp::multipart::MultipartLimits;
///
/// let limits = MultipartLimits { part_max: 2 << 30, bytes_max: 3 << 30, ..MultipartLimits::default() };
/// # assert_eq!(limits.parts_max, 1000);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MultipartLimits {
    /// Parts of a body. Beyond: 413. Default: 1,000.
    pub parts_max: usize,
    /// Fields in the head of a part. Beyond: 431. Default: 64.
    pub fields_max: usize,
    /// Bytes of the head of a part, allocated from the start. Beyond: 431. Default: 16 KiB; at most 1 MiB.
    pub head_max: usize,
    /// Bytes of the content of a part, whether it is read, saved or skipped. Beyond: 413. Default: 32 MiB.
    pub part_max: u64,
    /// Bytes that [`Part::bytes`](super::Part::bytes) and [`Part::text`](super::Part::text) keep in memory.
    /// Beyond: 413. Default: 1 MiB.
    pub memory_max: usize,
    /// Bytes of the whole body. Beyond: 413, before a byte is read if the peer announces them. Default: 64 MiB.
    pub bytes_max: u64,
    /// Bytes before the first boundary, and bytes after the last. Beyond: 413. Default: 16 KiB.
    pub margin_max: u64,
}

impl Default for MultipartLimits {
    fn default() -> MultipartLimits {
        MultipartLimits {
            parts_max: 1000,
            fields_max: 64,
            head_max: 16 << 10,
            part_max: 32 << 20,
            memory_max: 1 << 20,
            bytes_max: 64 << 20,
            margin_max: 16 << 10,
        }
    }
}
