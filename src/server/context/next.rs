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
    /// Nobody is there any more.
    AtOnce,
    /// The peer knows that this is the end.
    Politely,
    /// The peer may be sending still: a reset would take the answer from it before it has read it.
    Lingering,
    /// In the middle of an answer, so that nobody takes it for the whole.
    Abort,
}
