//! Addresses: where to listen and connect, who a peer is, and which of them are public.

mod address;
mod public_address;

pub use address::{Address, PeerAddr, PeerCredentials};
pub(crate) use address::{Peer, subscriber};
pub use public_address::is_public;
