//! The carriers of a connection's bytes.

mod transport;
mod watch;

pub(crate) use transport::{DetachedTransport, Rewind, Transport};
pub(crate) use watch::PeerEnd;
