//! [`SocketObserver`]: counts the bytes and the messages of a WebSocket of a server.
//!
//! Its counts are written by the task that has the WebSocket, and read by whatever reports them, so they are atomic, and
//! their order among each other is of no interest.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use super::exchange_report::SocketCounts;
use super::stats::CoreStats;
use crate::net::Traffic;

/// Counts for the core, and for the report of the exchange.
pub(crate) struct SocketObserver {
    core: Arc<CoreStats>,
    reported: Option<Arc<SocketCounts>>,
}

impl SocketObserver {
    /// Counts in `reported` too, if exchanges are reported.
    pub(super) fn new(core: Arc<CoreStats>, reported: Option<Arc<SocketCounts>>) -> SocketObserver {
        SocketObserver { core, reported }
    }

    /// Counts bytes.
    #[inline]
    pub(crate) fn count_traffic(&self, traffic: Traffic) {
        self.core.received.add(traffic.received);
        self.core.sent.add(traffic.sent);
        if let Some(reported) = &self.reported {
            reported.received.add(traffic.received);
            reported.sent.add(traffic.sent);
        }
    }

    /// Counts a message that was received.
    #[inline]
    pub(crate) fn count_received(&self) {
        self.core.messages_received.add(1);
        if let Some(reported) = &self.reported {
            reported.messages_received.add(1);
        }
    }

    /// Counts messages that were sent.
    #[inline]
    pub(crate) fn count_sent(&self, messages: u64) {
        self.core.messages_sent.add(messages);
        if let Some(reported) = &self.reported {
            reported.messages_sent.add(messages);
        }
    }

    /// Notes the code of the first close frame.
    pub(crate) fn note_close(&self, code: u16) {
        if let Some(reported) = &self.reported {
            let _ = reported.close_code.compare_exchange(0, code, Relaxed, Relaxed);
        }
    }
}
