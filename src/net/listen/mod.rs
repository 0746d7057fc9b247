//! Listening sockets: before they belong to a core, and on it.

mod bound_socket;
#[cfg(unix)]
mod socket_file;

mod listener;

pub(crate) use bound_socket::{BoundSocket, ListenOptions};
pub(crate) use listener::{AcceptReaction, Accepted, Listener, classify};
