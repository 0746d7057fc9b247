//! Secure connections (RFC 8446).

pub use crate::net::tls::Error;
#[cfg(feature = "tls")]
pub use crate::net::tls::enabled::{
    ClientTls, ConfigError, DangerousClientTls, Identity, Roots, ServerTls, Session, Version, rustls,
};
