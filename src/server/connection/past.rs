//! [`Past`]: what an idle connection remembers.

/// What an idle connection remembers, in one word, for there may be many of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Past(u64);

impl Past {
    pub(super) fn new(exchanges: u64, empty_line: bool) -> Past {
        Past(exchanges << 1 | u64::from(empty_line))
    }

    /// How many exchanges were had on it.
    pub(super) fn exchanges(self) -> u64 {
        self.0 >> 1
    }

    /// Whether an empty line has come since the last of them (RFC 9112 §2.2). It is to be read again with what follows,
    /// or one after the other could come for ever.
    pub(super) fn has_empty_line(self) -> bool {
        self.0 & 1 == 1
    }
}
