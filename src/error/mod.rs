//! Floor 0: what the texts of errors have in common.
//!
//! The [`Display`](std::fmt::Display) of an error of this crate contains no cause, and
//! [`source`](std::error::Error::source) returns it; `{:#}` formats both, and the causes of the cause, in one line.

mod causes;
mod excerpt;
mod time_limit;

pub(crate) use causes::{write_causes, write_error};
pub(crate) use excerpt::{Excerpt, without_secrets, write_escaped};
pub use time_limit::TimeLimit;
