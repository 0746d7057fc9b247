//! [`StoredCoding`]: the content codings that files are stored in, and how their names end then (RFC 9110 §8.4.1).

use crate::coding::Coding;

/// A content coding that a file may be stored in beside itself.
#[derive(Clone, Copy, Debug)]
pub(in crate::fs) struct StoredCoding {
    pub(in crate::fs) coding: Coding,
    /// What the name of the file so encoded ends with.
    pub(in crate::fs) suffix: &'static str,
}

impl StoredCoding {
    /// The first is liked best.
    pub(in crate::fs) const ALL: [StoredCoding; 3] = [
        StoredCoding { coding: Coding::Br, suffix: ".br" },
        StoredCoding { coding: Coding::Zstd, suffix: ".zst" },
        StoredCoding { coding: Coding::Gzip, suffix: ".gz" },
    ];
}
