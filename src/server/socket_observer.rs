//! [`SocketObserver`]: counts the bytes and the messages of a WebSocket of a server.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use super::exchange_report::SocketCounts;
use super::stats::CoreStats;
use crate::net::Traffic;

/// Counts for the core, and for the report of the exchange if exchanges are reported.
pub(crate) struct SocketObserver {
    core: Arc<CoreStats>,
    reported: Option<Arc<SocketCounts>>,
}

impl SocketObserver {
    pub(super) fn new(core: Arc<CoreStats>, reported: Option<Arc<SocketCounts>>) -> SocketObserver {
        SocketObserver { core, reported }
    }

    /// Counts bytes.
    #[inline]
    pub(crate) fn count_traffic(&self, traffic: Traffic) {
        self.core.received.add(traffic.received);
        self.core.sent.add(traffic.sent);
        if let Some(reported) = &self.reported {
            add(&reported.received, traffic.received);
            add(&reported.sent, traffic.sent);
        }
    }

    /// Counts a message that was received.
    #[inline]
    pub(crate) fn count_received(&self) {
        self.core.messages_received.add(1);
        if let Some(reported) = &self.reported {
            add(&reported.messages_received, 1);
        }
    }

    /// Counts messages that were sent.
    #[inline]
    pub(crate) fn count_sent(&self, messages: u64) {
        self.core.messages_sent.add(messages);
        if let Some(reported) = &self.reported {
            add(&reported.messages_sent, messages);
        }
    }

    /// Notes the code of the first close frame.
    pub(crate) fn note_close(&self, code: u16) {
        if let Some(reported) = &self.reported {
            let _ = reported.close_code.compare_exchange(0, code, Relaxed, Relaxed);
        }
    }
}

/// Adds without a locked instruction: only the core of the WebSocket writes.
#[inline]
fn add(count: &AtomicU64, more: u64) {
    count.store(count.load(Relaxed).wrapping_add(more), Relaxed);
}
