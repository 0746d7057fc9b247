//! [`Bounds`]: how much an exchange may take, in bytes and in time.
//!
//! A leaf, which all of this floor and those above it import.

use super::Timeouts;
use crate::wire::Limits;

/// All bounds of an exchange.
#[derive(Clone, Debug, Default)]
pub(crate) struct Bounds {
    pub(crate) limits: Limits,
    pub(crate) timeouts: Timeouts,
    pub(crate) half_close: HalfClose,
}

/// Whether a peer that has closed its sending half after a whole request still waits for the answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum HalfClose {
    /// The peer waits (RFC 9112 §9.6).
    #[default]
    Waits,
    /// The peer is gone, and its exchange ends.
    Gone,
}
