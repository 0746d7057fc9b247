//! [`Expectation`]: what a peer waits for before it sends its body (RFC 9110 §10.1.1).

/// What the peer was promised before it sends its body (RFC 9110 §10.1.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Expectation {
    /// Nothing is owed.
    #[default]
    None,
    /// `100 Continue` is owed when the body is first wanted and is not there.
    Continue,
    /// A final answer came first, and whether the body will come is the peer's choice; or the body has failed. No
    /// request may follow.
    Forfeited,
}
