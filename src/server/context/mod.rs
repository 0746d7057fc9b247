//! [`Context`]: one exchange, as its handler sees it.
//!
//! The handler reads the request and sets the response in the [`Context`]. To stream, it reads with a [`BodyReader`]
//! and writes with a [`BodyWriter`]. Both borrow the [`Exchange`](crate::server::exchange::Exchange) of the context.

mod context;
mod decode_body;
mod exchange_access;
mod filter_body;
#[cfg(feature = "tower")]
mod tower;
mod upgrade;
#[cfg(feature = "websocket")]
mod websocket;

mod extensions;

mod body_filter;
mod body_reader;
mod body_writer;
mod head_filter;
mod transform;

pub use body_filter::BodyFilter;
pub use body_reader::BodyReader;
pub use body_writer::BodyWriter;
pub use context::Context;
pub(super) use exchange_access::UNRESERVED_MAX;
pub use extensions::Extensions;
pub(crate) use head_filter::HeadFields;
#[cfg(feature = "session")]
pub(crate) use head_filter::StateSaver;
#[cfg(feature = "tower")]
pub(crate) use head_filter::{HeadFilter, SentKind};
pub use transform::{Transform, TransformAction};
#[cfg(feature = "websocket")]
pub(crate) use websocket::{PendingCounts, WebSocketConn, WebSocketCounter};
