//! [`Next`]: what becomes of a connection after an exchange (RFC 9112 §9.3, §9.6).

/// What becomes of a connection after an exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::server) enum Next {
    /// Another request may come.
    Wait,
    Close(Manner),
}

/// How a connection is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::server) enum Manner {
    /// The peer is gone.
    AtOnce,
    /// The peer knows that this is the end.
    Politely,
    /// The peer may still be sending. Closing at once would cause a reset, which may take the answer away before the
    /// peer has read it.
    Lingering,
    /// With a reset, in the middle of an answer, so that the peer cannot mistake it for the whole.
    Abort,
}
