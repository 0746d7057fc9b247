//! Floor 2: the spelling of messages (RFC 9112), and the ends of WebSocket frames (RFC 6455). Pure functions on bytes:
//! no socket, no clock, no await.
//!
//! Servers and clients share all of it. No function depends on its caller.

mod detail;
mod error;
mod limits;

pub(crate) mod parse;

pub(crate) mod chunked;
pub(crate) mod framing;
mod outgoing_framing;
mod persist;

pub(crate) mod encode;

mod frame_start;

pub use detail::WireDetail;
pub(crate) use encode::CommonFields;
pub use error::WireError;
pub(crate) use frame_start::FrameStart;
pub(crate) use framing::{Framing, RequestInfo};
pub use limits::Limits;
pub(crate) use outgoing_framing::OutgoingFraming;
pub(crate) use persist::{ConnectionOption, keep_alive_timeout, persists};
