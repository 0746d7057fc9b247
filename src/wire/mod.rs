//! Floor 2: how a message is spelled (RFC 9112). Pure functions on bytes: no socket, no clock, no await.
//!
//! Nothing here knows whether it runs in a server or in a client.

pub(crate) mod chunked;
pub(crate) mod encode;
mod error;
mod framing;
mod limits;
pub(crate) mod parse;
mod persist;

pub use error::WireError;
pub(crate) use framing::Framing;
pub use limits::Limits;
pub(crate) use persist::{Wish, persists};
