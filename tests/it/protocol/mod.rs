//! The wire: connections, heads, bodies, TLS, faults.

#[cfg(feature = "aws-lc-rs")]
mod aws_lc;
mod connection;
mod connection_life;
mod delivery;
mod errors;
mod floods;
mod framing;
mod held_responses;
mod histories;
mod hostile;
mod kinds;
mod limits;
mod memory;
mod memory_growth;
#[cfg(feature = "proxy-protocol")]
mod proxy_protocol;
mod refused_bodies;
#[cfg(all(feature = "access-log", feature = "tls"))]
mod refused_heads;
mod request_head;
mod targets;
mod timeouts;
#[cfg(feature = "tls")]
pub mod tls;
#[cfg(feature = "tls")]
mod tls_config;
mod traffic;
pub mod turns;
