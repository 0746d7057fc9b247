//! [`Handler`], its conversions, and its call by the server: by the head of a request, within its time, and with its
//! panics confined.

mod confine;
mod handler;
mod refusal;
mod with_state;

pub(crate) use confine::is_panic;
#[cfg(feature = "tower")]
pub(crate) use confine::take_panic;
pub(crate) use confine::{HandlerTime, caught, confined, is_time_over, time_over};
pub(crate) use handler::BoxedFuture;
pub use handler::{AsyncHandler, BoxHandler, Handler, IntoHandler, IntoResult, PlainHandler};
pub(crate) use refusal::Refusal;
pub(crate) use refusal::RefusalOrigin;
pub use with_state::{StateFn, WithState, with_state};
