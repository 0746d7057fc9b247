//! A strict reader of requests and responses, written from the grammar of RFC 9110 and RFC 9112 alone. The tests compare
//! what servers, clients and gateways make of a stream of octets with what this reader makes of it, so it shares no code
//! with `src`.
//!
//! Where the RFCs let a recipient choose, the reader refuses, unless it is made with that [`Choice`]. [`server`] and
//! [`client`] list where this crate is more generous than the strict reading, and where it refuses more.

#![allow(dead_code, unused_imports, reason = "each program of tests uses some of it")]

pub mod client;
pub mod fields;
pub mod gateway;
mod grammar;
mod message;
pub mod proxies;
mod reader;
pub mod server;
#[cfg(test)]
mod tests;
pub mod websocket;

pub use grammar::form;
pub use message::{Field, Request, Response};
pub use reader::{Choice, Next, Reader};
