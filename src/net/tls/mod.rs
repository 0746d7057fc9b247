//! TLS (RFC 8446), with one interface whether or not the feature `tls` is on.
//!
//! What a connection needs of TLS is in `enabled`, and in `disabled` as types without a value. rustls does the work.

mod error;

#[cfg(not(feature = "tls"))]
mod disabled;
#[cfg(feature = "tls")]
pub(crate) mod enabled;

#[cfg(not(feature = "tls"))]
pub(crate) use disabled::{HostName, TlsAcceptor, TlsConnector, TlsStream};
#[cfg(feature = "tls")]
pub(crate) use enabled::{HostName, TlsAcceptor, TlsConnector, TlsStream};
pub use error::TlsError;
