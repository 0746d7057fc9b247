//! WebSocket (RFC 6455), with permessage-deflate (RFC 7692): what peers get for what they send, however it is cut.

mod bounds;
mod broadcasts;
mod clients;
mod compression;
mod drops;
mod ends;
mod failed_writes;
mod frames;
mod gateways;
mod histories;
mod reports;
#[cfg(feature = "tls")]
mod secure;
pub mod support;
