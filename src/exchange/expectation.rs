//! [`Expectation`]: whether a peer waits for `100 Continue` (RFC 9110 §10.1.1).

use crate::message::{FieldName, Headers, members};
use crate::wire::WireError;

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
    Poisoned,
}

impl Expectation {
    /// Reads the expectation of the sender of these fields. The field is a list: empty elements count for nothing, and
    /// what is listed twice is expected once (§5.6.1.2).
    ///
    /// # Errors
    ///
    /// Fails for an expectation other than `100-continue`.
    pub(crate) fn from_headers(headers: &Headers) -> Result<Expectation, WireError> {
        let mut expected = headers.named(FieldName::EXPECT).flat_map(members);
        expected.try_fold(Expectation::None, |_, expected| match expected {
            it if it.eq_ignore_ascii_case(b"100-continue") => Ok(Expectation::Continue),
            _ => Err(WireError::Expectation),
        })
    }
}
