//! The errors that servers and clients share: an exchange that failed, a message that breaks RFC 9112, content and values
//! that cannot be read.
//!
//! A handler returns a [`corehttp::Error`](crate::Error), and a client fails with a
//! [`ClientError`](crate::ClientError). Both lead to these:
//!
//! ```
//! use corehttp::error::{ExchangeError, Phase};
//!
//! fn is_slow(error: &ExchangeError) -> bool {
//!     matches!(error, ExchangeError::TimedOut(Phase::Head | Phase::Body, _))
//! }
//! ```
//!
//! Every error is one line with `{:#}`, and names what failed without a value that may be secret.

pub use crate::error_text::TimeLimit;
pub use crate::exchange::{ExchangeError, Phase};
pub use crate::message::content_error::ContentError;
pub use crate::message::message_error::{CookieFault, MessageError, TargetError};
pub use crate::message::value_error::ValueError;
pub use crate::router::InvalidRoute;
pub use crate::wire::{WireDetail, WireError};
