//! [`Timeouts`]: every wait for a peer.

use std::time::Duration;

/// Every wait for a peer, and for the handler. `Duration::MAX` waits for ever.
///
/// On a server's own cores they are looked at four times a second: they are never early, and up to half a second
/// late.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use corehttp::Timeouts;
///
/// let timeouts = Timeouts { idle: Duration::from_secs(30), ..Timeouts::default() };
/// # assert_eq!(timeouts.head, Duration::from_secs(10));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// To the whole head: from its first byte, and from accept for the first one of a connection. Then: 408 if a
    /// byte came, else silence; close. Default: 10 s.
    pub head: Duration,
    /// Without a byte of a body that is waited for. Then: 408, close. Default: 30 s.
    pub body: Duration,
    /// Waiting for a body before [`Timeouts::body_rate_min`] counts. Default: 10 s.
    pub body_grace: Duration,
    /// Bytes a second that a body must bring on average, over the time it is waited for, once
    /// [`Timeouts::body_grace`] is over. Below: 408, close. Default: 500.
    pub body_rate_min: u64,
    /// Between requests. Then: silent close. Default: 60 s.
    pub idle: Duration,
    /// Without progress of a write. Then: close. Default: 30 s.
    pub write: Duration,
    /// For the handler. Then: its future is dropped; 503, close, or only a close if the answer has begun. Default: none.
    pub handler: Option<Duration>,
    /// For the peer to read a refusal and close, before the connection is dropped. Default: 1 s.
    pub linger: Duration,
}

impl Default for Timeouts {
    fn default() -> Timeouts {
        Timeouts {
            head: Duration::from_secs(10),
            body: Duration::from_secs(30),
            body_grace: Duration::from_secs(10),
            body_rate_min: 500,
            idle: Duration::from_secs(60),
            write: Duration::from_secs(30),
            handler: None,
            linger: Duration::from_secs(1),
        }
    }
}
