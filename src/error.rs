//! The causes of errors that servers and clients share. A handler fails with the type [`corehttp::Error`](crate::Error), not
//! with this module.
//!
//! The error has one of these as its [cause](crate::Error::cause), as has the [`ClientError`](crate::ClientError) of a client:
//!
//! ```
//! use corehttp::error::{ExchangeError, Phase};
//!
//! fn is_slow(error: &ExchangeError) -> bool {
//!     matches!(error, ExchangeError::TimedOut(Phase::Head | Phase::Body, _))
//! }
//! ```
//!
//! | error | why |
//! |---|---|
//! | [`ExchangeError`] | an exchange has ended early |
//! | [`WireError`] | a message that was received breaks RFC 9112 |
//! | [`ContentError`] | content cannot be read as text, as a form or as JSON |
//! | [`ValueError`] | a value of a path, a query, a form or a cookie cannot be read |
//! | [`MessageError`] | a message, or a part of it, cannot be made |
//! | [`TargetError`] | a text is no target or no usable URL |
//! | [`RouteError`] | a pattern is malformed, or two routes match the same requests |
//!
//! With `{:#}`, every error is one line that names the failed part. No error contains a value that may be secret.

pub use crate::error_text::TimeLimit;
pub use crate::exchange::{ExchangeError, Phase};
pub use crate::message::content::{ContentError, ValueError};
pub use crate::message::message_error::{CookieFault, MessageError, TargetError};
pub use crate::router::RouteError;
pub use crate::wire::{WireDetail, WireError};
