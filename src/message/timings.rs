//! [`Timings`]: how long each phase of an exchange took.

use std::time::Duration;

/// How long each phase of an exchange took. A phase that did not happen took no time.
///
/// If redirects were followed, or a request was sent again because its connection was stale, these are the times of the
/// last request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Timings {
    /// Waiting for a place among the connections of the host.
    pub queue: Duration,
    /// Looking up the host's addresses.
    pub resolve: Duration,
    /// Connecting, including the time that a proxy takes.
    pub connect: Duration,
    /// The TLS handshake.
    pub tls: Duration,
    /// Sending the request.
    pub send: Duration,
    /// Waiting, from the last byte of the request to the end of the answer's head; from the request's first byte, if
    /// the head is read while the request is still being sent ([`Call::split`](crate::Call::split)).
    pub wait: Duration,
    /// Receiving the body, if it was buffered.
    pub receive: Duration,
    /// Whether the connection had been used before.
    pub reused: bool,
}

impl Timings {
    /// Returns the sum of all phases.
    pub fn total(&self) -> Duration {
        let Timings { queue, resolve, connect, tls, send, wait, receive, reused: _ } = *self;
        queue + resolve + connect + tls + send + wait + receive
    }
}
