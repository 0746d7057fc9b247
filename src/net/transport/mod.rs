//! The carriers of a connection's bytes.

#[cfg(feature = "proxy-protocol")]
mod peek;
mod peer_end;
mod transport;

#[cfg(feature = "proxy-protocol")]
pub(crate) use peek::poll_peek;
pub(crate) use peer_end::PeerEnd;
pub(crate) use transport::{DetachedTransport, Rewind, Transport};
