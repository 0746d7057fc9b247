//! The connection below a WebSocket, which its reader and its writer share.

mod role;

mod heartbeat;
mod ready_state;
mod wakers;

mod half;
mod link;

pub(crate) use half::{Half, Shared, close_dropped};
pub(crate) use link::Link;
pub(crate) use role::private;
pub use role::{ClientRole, Role, ServerRole};
