//! [`ServerVersion`]: whether a server speaks HTTP/1.0, which has no chunks (RFC 9112 §6.1).

use std::sync::atomic::{AtomicU64, Ordering};

use crate::message::Version;
use crate::runtime::{self, Instant};

/// The version in which a server has answered last.
pub(super) struct ServerVersion {
    created_at: Instant,
    /// When the server last answered in HTTP/1.0, in seconds since `created_at`, counted from 1. 0 if its last response
    /// was in HTTP/1.1.
    answered_in_1_0: AtomicU64,
}

impl ServerVersion {
    /// That of a server which has not answered yet, and is expected to speak HTTP/1.1.
    pub(super) fn new() -> ServerVersion {
        ServerVersion { created_at: runtime::now(), answered_in_1_0: AtomicU64::new(0) }
    }

    /// Stores the version of a response.
    pub(super) fn note(&self, version: Version) {
        let answered = match version {
            Version::Http10 => 1 + self.age(),
            Version::Http11 => 0,
        };
        // Threads of a runtime share this, and most responses change nothing.
        if answered != self.answered_in_1_0.load(Ordering::Relaxed) {
            self.answered_in_1_0.store(answered, Ordering::Relaxed);
        }
    }

    /// Whether the server has answered in HTTP/1.0 within the last minute.
    pub(super) fn is_1_0(&self) -> bool {
        match self.answered_in_1_0.load(Ordering::Relaxed) {
            0 => false,
            answered => self.age() < answered + KEPT_SECS,
        }
    }

    /// The time since the creation, in seconds.
    fn age(&self) -> u64 {
        runtime::now().saturating_duration_since(self.created_at).as_secs()
    }
}

/// For how many seconds a server counts as one of HTTP/1.0. A server of HTTP/1.1 may have taken its place since.
const KEPT_SECS: u64 = 60;

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::runtime::sleep;

    #[tokio::test(start_paused = true)]
    async fn a_server_speaks_1_0_for_a_minute_or_until_it_answers_in_1_1() {
        let server = ServerVersion::new();
        assert!(!server.is_1_0());
        for second in [0, 59] {
            server.note(Version::Http10);
            sleep(Duration::from_secs(second)).await;
            assert!(server.is_1_0(), "after {second} s");
        }
        sleep(Duration::from_secs(2)).await;
        assert!(!server.is_1_0());
        server.note(Version::Http10);
        server.note(Version::Http11);
        assert!(!server.is_1_0());
    }
}
