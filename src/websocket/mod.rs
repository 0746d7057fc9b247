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
// In reading order: frames and what they consist of, which are pure functions on bytes; messages, read and written;
// options; the connection; what handlers and clients use; and how a WebSocket is opened.

mod close_code;
mod error;

mod frame;
mod utf8;

mod close;
mod message;

mod options;

mod deflate;
mod input;

mod decoder;
mod encoder;

mod half;
mod link;
mod relay;
mod role;
mod shared_message;

mod reader;
mod websocket;
mod writer;

mod broadcast;

mod handshake;

mod client;
mod server;

pub use broadcast::{Broadcast, BroadcastMember, OnLag};
pub use client::ClientRequest;
pub use close::CloseReason;
pub use close_code::CloseCode;
pub use error::{Error, ProtocolError};
pub use handshake::HandshakeError;
pub use message::{Message, MessageKind, MessagePart};
pub use options::{DeflateOptions, Options, Origins};
pub use reader::Reader;
pub use role::{ClientRole, Role, ServerRole};
pub use websocket::{ClientWebSocket, WebSocket};
pub use writer::Writer;
