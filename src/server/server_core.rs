//! [`ServerCore`]: which core a handler is made for.

/// Identifies one of a server's cores, for the handler that [`Server::run_per_core`](super::Server::run_per_core) makes
/// for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerCore {
    pub(super) index: usize,
    pub(super) count: usize,
}

impl ServerCore {
    /// Returns the index of the core, starting at 0.
    pub fn index(self) -> usize {
        self.index
    }

    /// Returns how many cores the server has.
    pub fn count(self) -> usize {
        self.count
    }
}
