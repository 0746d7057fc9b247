//! [`Expectation`]: whether a peer waits for `100 Continue` (RFC 9110 §10.1.1).

/// What the peer expects before it sends its body (RFC 9110 §10.1.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Expectation {
    /// Nothing.
    #[default]
    None,
    /// `100 Continue`, to be sent when the body is first read and has not arrived.
    Continue,
    /// A final answer was sent instead, so the peer may or may not send the body; or the body has failed. No further
    /// request can follow.
    Forfeited,
}
