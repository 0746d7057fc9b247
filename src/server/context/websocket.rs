//! A WebSocket takes the connection over (RFC 6455 §4.2.2). [`WebSocketCounter`] counts its traffic.
//!
//! The counts are written by the task of the WebSocket, and read by reports. So they are atomic. Their order among each
//! other is of no interest.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::{mem, task};

use super::context::Context;
use crate::message::Headers;
use crate::net::{Conn, Locality, ReadBuffer, Traffic};
use crate::runtime::MemoryBudget;
use crate::server::counts::CoreCounterSet;
use crate::server::exchange::UpgradedGuard;
use crate::server::report::WebSocketCounts;

/// A connection that a WebSocket has taken over.
pub(crate) struct WebSocketConn {
    pub(crate) conn: Conn,
    /// The bytes that have arrived already.
    pub(crate) early: ReadBuffer,
    pub(crate) counter: WebSocketCounter,
    /// The memory that the peers of the server share.
    pub(crate) memory_budget: MemoryBudget,
    pub(crate) guard: UpgradedGuard,
}

impl Context {
    /// Switches to WebSocket, as the request asks, and takes the connection out.
    ///
    /// The handler may use the connection for days, so the context keeps no memory but that of the request.
    pub(crate) async fn upgrade_to_websocket(&mut self) -> io::Result<WebSocketConn> {
        let (conn, early, guard) = self.upgrade_with_guard("websocket").await?;
        let Context { response, exchange, .. } = self;
        let mut reported = None;
        exchange.observe(|observation| reported = Some(observation.note_websocket()));
        let core = exchange.conn.core();
        let counter = WebSocketCounter::new(core.counters.clone(), reported);
        let memory_budget = core.bounds.memory.clone();
        response.headers = Headers::new();
        exchange.incoming.take();
        exchange.transformed = Vec::new();
        Ok(WebSocketConn { conn, early, counter, memory_budget, guard })
    }

    /// Has `flush` called whenever this handler waits.
    pub(crate) fn set_on_handler_wait(&self, flush: impl Fn(&mut task::Context<'_>) + 'static) {
        *self.exchange.conn.on_handler_wait().borrow_mut() = Some(Box::new(flush));
    }
}

/// Counts for the core, and for the report of the exchange.
pub(crate) struct WebSocketCounter {
    counters: Arc<CoreCounterSet>,
    reported: Option<Arc<WebSocketCounts>>,
}

impl WebSocketCounter {
    /// Counts in `reported` too, if exchanges are reported.
    pub(super) fn new(
        counters: Arc<CoreCounterSet>,
        reported: Option<Arc<WebSocketCounts>>,
    ) -> WebSocketCounter {
        WebSocketCounter { counters, reported }
    }

    /// Counts bytes.
    pub(crate) fn count_traffic(&self, traffic: Traffic) {
        self.counters.received.add(traffic.received);
        self.counters.sent.add(traffic.sent);
        if let Some(reported) = &self.reported {
            reported.received.add(traffic.received);
            reported.sent.add(traffic.sent);
        }
    }

    /// Counts a message that was received.
    pub(crate) fn count_received(&self) {
        self.counters.messages_received.add(1);
        if let Some(reported) = &self.reported {
            reported.messages_received.add(1);
        }
    }

    /// Counts messages that were sent.
    pub(crate) fn count_sent(&self, messages: u64) {
        self.counters.messages_sent.add(messages);
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

/// The messages and bytes of a WebSocket that its [`WebSocketCounter`] has not counted yet.
#[derive(Default)]
pub(crate) struct PendingCounts {
    traffic: Traffic,
    /// How many messages were sent.
    sent: u64,
    /// The code of the first close frame.
    close_code: Option<u16>,
}

impl PendingCounts {
    /// Adds a message that was sent as a whole, or the last part of one.
    pub(crate) fn add_message(&mut self) {
        self.sent += 1;
    }

    /// Notes the code of the close frame that was sent.
    pub(crate) fn note_close(&mut self, code: u16) {
        self.close_code = Some(code);
    }

    /// Adds the traffic that the connection has noted.
    pub(crate) fn take_traffic<L: Locality>(&mut self, conn: &mut Conn<L>) {
        let Traffic { received, sent } = conn.traffic();
        if received + sent > 0 {
            conn.take_traffic();
            self.traffic.received += received;
            self.traffic.sent += sent;
        }
    }

    /// Hands all that was added to the counter of the server.
    pub(crate) fn count(&mut self, counter: &WebSocketCounter) {
        let Traffic { received, sent } = self.traffic;
        if received + sent > 0 {
            counter.count_traffic(mem::take(&mut self.traffic));
            // Messages that are held back are counted together, with the next bytes.
            counter.count_sent(mem::take(&mut self.sent));
        }
        if let Some(code) = self.close_code.take() {
            counter.note_close(code);
        }
    }
}
