//! Floor 2: how a message is spelled (RFC 9112). Pure functions on bytes: no socket, no clock, no await.
//!
//! Nothing here knows whether it runs in a server or in a client.

mod detail;
mod error;
mod limits;

pub(crate) mod parse;

mod announcement;
mod asked;
pub(crate) mod chunked;
pub(crate) mod framing;
mod persist;

pub(crate) mod encode;
mod stamp;

pub(crate) use announcement::Announcement;
pub(crate) use asked::Asked;
pub use detail::WireDetail;
pub use error::WireError;
pub(crate) use framing::Framing;
pub use limits::Limits;
pub(crate) use persist::{Wish, patience, persists};
pub(crate) use stamp::Stamp;
