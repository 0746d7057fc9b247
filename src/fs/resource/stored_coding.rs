//! [`Kept`]: the content codings that files are kept in, and what their names end with then (RFC 9110 §8.4.1).

use crate::coding::Coding;

/// A content coding that a file may be kept in beside itself.
#[derive(Clone, Copy, Debug)]
pub(in crate::fs) struct Kept {
    pub(in crate::fs) coding: Coding,
    /// What the name of the file so encoded ends with.
    pub(in crate::fs) suffix: &'static str,
}

impl Kept {
    /// The first is liked best.
    pub(in crate::fs) const ALL: [Kept; 3] = [
        Kept { coding: Coding::Br, suffix: ".br" },
        Kept { coding: Coding::Zstd, suffix: ".zst" },
        Kept { coding: Coding::Gzip, suffix: ".gz" },
    ];
}
