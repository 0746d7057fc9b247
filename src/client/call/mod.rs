//! Requests whose body is written chunk by chunk.

mod call;
mod call_exchange;
mod halves;

pub use call::Call;
pub(crate) use call_exchange::CallExchange;
pub use halves::{CallReader, CallWriter};
