//! Middleware around handlers: one trait, one handler made of it, and values for bounds and guards.
//!
//! In reading order: the trait, the handler beneath in a function's form, a handler with middleware around it, the values,
//! and lists of middleware.

mod middleware;
mod next;
mod wrapped;

mod bounds;
mod deferred;
mod guard;
mod wrap;

pub use bounds::{limits, plan, timeouts, uncancelled};
pub use deferred::{defer_body, handle_deferred};
pub use guard::{AsyncGuard, Guard, IntoGuard, guard};
pub(crate) use guard::{SharedGuard, plan_guarded};
pub use middleware::Middleware;
pub use next::Next;
pub use wrap::{Group, Wrap, wrap};
