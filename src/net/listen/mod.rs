//! Listening sockets: before they belong to a core, and on it.

mod bound_socket;
#[cfg(unix)]
mod socket_file;

mod listener;
mod socket_options;
#[cfg(all(feature = "handover", unix))]
mod socket_passing;

#[cfg(unix)]
pub(crate) use bound_socket::ListenFn;
pub(crate) use bound_socket::{BoundSocket, ListenOptions};
pub(crate) use listener::{AcceptReaction, Accepted, Listener, classify};
#[cfg(all(feature = "handover", unix))]
pub(crate) use socket_file::{FileOwnership, SocketFile};
pub use socket_options::SocketOptions;
#[cfg(all(feature = "handover", unix))]
pub(crate) use socket_passing::{ControlSocket, Predecessor};
