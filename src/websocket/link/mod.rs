//! The connection below a WebSocket, which its reader and its writer share.

mod half;
mod link;
mod role;

pub(super) use half::{Half, Shared, close_dropped};
pub(super) use link::Link;
pub(super) use role::private;
pub use role::{ClientRole, Role, ServerRole};
