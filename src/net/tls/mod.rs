//! Connections that nobody else can read (RFC 8446): one face, whether or not the feature `tls` is on.
//!
//! What a connection needs of TLS is in `enabled`, and in `disabled`, where it is nothing: types without a value.
//! The work itself is rustls's.

mod error;

#[cfg(not(feature = "tls"))]
mod disabled;
#[cfg(feature = "tls")]
pub(crate) mod enabled;

#[cfg(not(feature = "tls"))]
pub(crate) use disabled::{Acceptor, Connector, HostName, TlsStream};
#[cfg(feature = "tls")]
pub(crate) use enabled::{Acceptor, Connector, HostName, TlsStream};
pub use error::TlsError;
