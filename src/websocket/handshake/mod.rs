//! How a WebSocket is opened (RFC 6455 §4), by a server and by a client.

mod handshake;

mod client;
mod server;

pub use client::ClientRequest;
