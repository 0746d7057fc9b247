//! [`ServerVersion`]: which version of HTTP the server of a pool speaks, as far as it has shown.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::message::Version;
use crate::runtime::{self, Instant};

/// Whether the server answered in HTTP/1.0 of late, which has no chunks (RFC 9112 §6.1).
pub(super) struct ServerVersion {
    created_at: Instant,
    /// When the server last answered in HTTP/1.0, in seconds since `created_at`, counted from 1. 0 if its last response
    /// was in HTTP/1.1.
    answered_in_1_0: AtomicU64,
}

impl ServerVersion {
    pub(super) fn new() -> ServerVersion {
        ServerVersion { created_at: runtime::now(), answered_in_1_0: AtomicU64::new(0) }
    }

    /// Stores the version in which the server has answered.
    pub(super) fn note(&self, version: Version) {
        let answered = match version {
            Version::Http10 => 1 + self.age(),
            Version::Http11 => 0,
        };
        if answered != self.answered_in_1_0.load(Ordering::Relaxed) {
            self.answered_in_1_0.store(answered, Ordering::Relaxed);
        }
    }

    /// Whether the server has answered in HTTP/1.0 within the last minute.
    pub(super) fn is_1_0(&self) -> bool {
        match self.answered_in_1_0.load(Ordering::Relaxed) {
            0 => false,
            answered => self.age() < answered + VERSION_KEPT_SECS,
        }
    }

    /// The age of the pool in seconds.
    fn age(&self) -> u64 {
        runtime::now().saturating_duration_since(self.created_at).as_secs()
    }
}

/// For how many seconds a server counts as one of HTTP/1.0. A server of HTTP/1.1 may have taken its place since.
const VERSION_KEPT_SECS: u64 = 60;

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::advance;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_version_is_kept_for_a_minute() {
        let version = ServerVersion::new();
        assert!(!version.is_1_0());
        version.note(Version::Http10);
        assert!(version.is_1_0());
        version.note(Version::Http11);
        assert!(!version.is_1_0());
        version.note(Version::Http10);
        advance(Duration::from_secs(VERSION_KEPT_SECS + 1)).await;
        assert!(!version.is_1_0());
    }
}
