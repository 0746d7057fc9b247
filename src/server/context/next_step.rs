//! [`NextStep`]: what becomes of a connection after an exchange (RFC 9112 §9.3, §9.6).

/// What becomes of a connection after an exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::server) enum NextStep {
    /// Another request may come.
    KeepAlive,
    Close(CloseMode),
}

/// How a connection is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::server) enum CloseMode {
    /// The peer is gone.
    Now,
    /// The peer knows that this is the end.
    Graceful,
    /// The peer may still be sending. Closing at once would cause a reset, which may take the answer away before the
    /// peer has read it.
    Linger,
    /// With a reset, in the middle of an answer, so that the peer cannot mistake it for the whole.
    Reset,
}
