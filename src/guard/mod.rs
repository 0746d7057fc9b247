//! Floor 5: guards around handlers, which refuse a request before its body is received.
//!
//! In reading order: a handler behind a guard; and the guards.

mod guarded;

mod cross_origin;

pub use cross_origin::CrossOriginProtection;
pub use guarded::Guarded;
