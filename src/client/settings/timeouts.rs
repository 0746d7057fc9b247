//! [`ClientTimeouts`]: every wait of an exchange.

use std::time::Duration;

use crate::exchange::Timeouts;

/// Every wait of an exchange, by its phase. `Duration::MAX` waits for ever.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use corehttp::{Client, ClientTimeouts};
///
/// let timeouts = ClientTimeouts { connect: Duration::from_secs(2), ..ClientTimeouts::default() };
/// let client = Client::builder().timeouts(timeouts).timeout(Duration::from_secs(20)).build();
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientTimeouts {
    /// For a place among the connections of the host. Default: 30 s.
    pub queue: Duration,
    /// To look up the host's addresses. Default: 5 s.
    pub resolve: Duration,
    /// To connect, over all addresses, and through the proxy if there is one. Default: 10 s.
    pub connect: Duration,
    /// For the handshake of TLS. Default: 10 s.
    pub tls: Duration,
    /// Without progress of a write. If all of the answer has come by then, under a `content-length`, it stands: only the
    /// rest of the request is dropped, and the connection closed. Default: 30 s.
    pub send: Duration,
    /// From the request's last byte to the end of the answer's head. Default: 30 s.
    pub wait: Duration,
    /// For `100 Continue`, if the request expects it; then the body is sent all the same (RFC 9110 §10.1.1).
    /// Default: 1 s.
    pub go_ahead: Duration,
    /// Without a byte of a body that is waited for. Default: 30 s.
    pub receive: Duration,
    /// Bytes a second that a body must bring on average, once it was waited for for ten seconds. Default: 500.
    pub receive_rate_min: u64,
}

impl ClientTimeouts {
    /// As an exchange knows them: to it a server is a peer like any other.
    pub(super) fn of_exchange(&self) -> Timeouts {
        Timeouts {
            head: self.wait,
            body: self.receive,
            body_rate_min: self.receive_rate_min,
            write: self.send,
            ..Timeouts::default()
        }
    }
}

impl Default for ClientTimeouts {
    fn default() -> ClientTimeouts {
        ClientTimeouts {
            queue: Duration::from_secs(30),
            resolve: Duration::from_secs(5),
            connect: Duration::from_secs(10),
            tls: Duration::from_secs(10),
            send: Duration::from_secs(30),
            wait: Duration::from_secs(30),
            go_ahead: Duration::from_secs(1),
            receive: Duration::from_secs(30),
            receive_rate_min: 500,
        }
    }
}
