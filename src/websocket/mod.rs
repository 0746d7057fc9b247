//! WebSocket (RFC 6455), for servers and clients, with compression (RFC 7692) and broadcasts.
//!
//! ```no_run
//! use corehttp::websocket::{self, WebSocket};
//! use corehttp::{Context, Server, routes};
//!
//! async fn echo(ctx: &mut Context) -> corehttp::Result {
//!     let mut socket = ctx.websocket(&websocket::Options::default()).await?;
//!     let WebSocket { reader, writer, .. } = &mut socket;
//!     while let Some(message) = reader.receive().await? {
//!         writer.send(message).await?;
//!     }
//!     Ok(())
//! }
//!
//! fn main() -> corehttp::Result {
//!     Server::bind("[::]:8080").run(routes! { GET "/echo" => echo })
//! }
//! ```
//!
//! A client opens one with [`Client::websocket`](crate::Client::websocket). A [`Broadcast`] sends a message to many, on all
//! cores.

// Floor 5: WebSocket (RFC 6455), at servers and at clients, with permessage-deflate (RFC 7692).
//
// In reading order: frames; messages as frames; the connection; what handlers and clients use; and how a WebSocket is
// opened.

mod frame;

mod codec;

mod link;

mod reader;
mod websocket;
mod writer;

mod broadcast;
mod relay;
mod shared_message;

mod handshake;
mod options;

pub use broadcast::{Broadcast, BroadcastMember, OnLag};
pub use frame::{
    CloseCode, CloseReason, Error, HandshakeFault, Message, MessageKind, MessagePart, ProtocolFault,
};
pub use handshake::ClientRequest;
pub use link::{ClientRole, Role, ServerRole};
pub use options::{DeflateOptions, Options, Origins};
pub use reader::Reader;
pub use websocket::{ClientWebSocket, WebSocket};
pub use writer::Writer;
