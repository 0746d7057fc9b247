//! [`StoredCoding`]: the content codings in which files are stored, and the suffixes of their names (RFC 9110 §8.4.1).

use crate::coding::Coding;

/// A content coding in which a file may be stored in addition to the file itself.
#[derive(Clone, Copy, Debug)]
pub(in crate::fs) struct StoredCoding {
    pub(in crate::fs) coding: Coding,
    /// The suffix of the names of encoded files.
    pub(in crate::fs) suffix: &'static str,
}

impl StoredCoding {
    /// In order of preference.
    pub(in crate::fs) const ALL: [StoredCoding; 3] = [
        StoredCoding { coding: Coding::Br, suffix: ".br" },
        StoredCoding { coding: Coding::Zstd, suffix: ".zst" },
        StoredCoding { coding: Coding::Gzip, suffix: ".gz" },
    ];
}
