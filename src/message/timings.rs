//! [`Timings`]: how long each phase of an exchange took.

use std::time::Duration;

/// How long each phase of the exchange took that brought a response. What did not happen took no time.
///
/// Of an exchange that followed redirects these are the times of its last request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Timings {
    /// Waiting for a place among the connections of the host.
    pub queue: Duration,
    /// Looking up the host's addresses.
    pub resolve: Duration,
    /// Connecting, to a proxy and through it if there is one.
    pub connect: Duration,
    /// The handshake of TLS.
    pub tls: Duration,
    /// Sending the request.
    pub send: Duration,
    /// From the request's last byte to the end of the answer's head.
    pub wait: Duration,
    /// From there to the end of the body, if it was buffered.
    pub receive: Duration,
    /// Whether the connection had been used before.
    pub reused: bool,
}

impl Timings {
    /// All phases together.
    pub fn total(&self) -> Duration {
        let Timings { queue, resolve, connect, tls, send, wait, receive, reused: _ } = *self;
        queue + resolve + connect + tls + send + wait + receive
    }
}
