//! [`SocketObserver`]: counts the bytes and the messages of a WebSocket of a server, in [`SocketCounts`] too.

use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering::Relaxed};

use super::stats::CoreStats;
use crate::memory::Counter;
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

/// The counts of a WebSocket, which its exchange reports. The WebSocket may live on.
#[derive(Debug, Default)]
pub(super) struct SocketCounts {
    pub(super) received: Counter,
    pub(super) sent: Counter,
    pub(super) messages_received: Counter,
    pub(super) messages_sent: Counter,
    /// 0 as long as there is none.
    close_code: AtomicU16,
}

impl SocketCounts {
    /// The code of the first close frame.
    pub(super) fn close_code(&self) -> Option<u16> {
        Some(self.close_code.load(Relaxed)).filter(|code| *code > 0)
    }
}
