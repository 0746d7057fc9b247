//! Addresses to listen on and connect to, those of peers, and public ones.

mod address;
mod public_address;

pub use address::{Address, PeerAddr, PeerCredentials};
pub(crate) use address::{Peer, check_host, subscriber};
pub use public_address::is_public;
