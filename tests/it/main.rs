//! How the server behaves, seen from outside: over sockets, byte for byte.

mod support;

mod connection;
mod framing;
mod handlers;
mod hostile;
mod limits;
mod request_head;
mod runtime;
mod setters;
mod stop;
mod streaming;
mod timeouts;
