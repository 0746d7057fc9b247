//! What went over the connection of a WebSocket since its server last counted.

use std::mem;

use crate::net::{Conn, Locality, Traffic};
use crate::server::WebSocketCounter;
use crate::websocket::frame::CloseCode;

/// The messages and bytes that the server has not counted yet.
#[derive(Default)]
pub(super) struct Uncounted {
    traffic: Traffic,
    /// How many messages were sent.
    sent: u64,
    /// The code of the first close frame.
    close_code: Option<CloseCode>,
}

impl Uncounted {
    /// Adds a message that was sent as a whole, or the last part of one.
    pub(super) fn add_message(&mut self) {
        self.sent += 1;
    }

    /// Notes the code of the close frame that was sent.
    pub(super) fn note_close(&mut self, code: CloseCode) {
        self.close_code = Some(code);
    }

    /// Adds the traffic that the connection has noted.
    pub(super) fn take_traffic<L: Locality>(&mut self, conn: &mut Conn<L>) {
        let Traffic { received, sent } = conn.traffic();
        if received + sent > 0 {
            conn.take_traffic();
            self.traffic.received += received;
            self.traffic.sent += sent;
        }
    }

    /// Hands all that was added to the counter of the server.
    pub(super) fn count(&mut self, counter: &WebSocketCounter) {
        let Traffic { received, sent } = self.traffic;
        if received + sent > 0 {
            counter.count_traffic(mem::take(&mut self.traffic));
            // Messages that are held back are counted together, with the next bytes.
            counter.count_sent(mem::take(&mut self.sent));
        }
        if let Some(code) = self.close_code.take() {
            counter.note_close(code.0);
        }
    }
}
