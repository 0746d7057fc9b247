//! The carriers of a connection's bytes.

mod peer_end;
mod transport;

pub(crate) use peer_end::PeerEnd;
pub(crate) use transport::{DetachedTransport, Rewind, Transport};
