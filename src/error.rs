//! Errors that servers and clients share.

pub use crate::error_text::TimeLimit;
pub use crate::exchange::{ExchangeError, Phase};
pub use crate::router::InvalidRoute;
pub use crate::wire::{WireDetail, WireError};
