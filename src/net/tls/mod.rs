//! TLS (RFC 8446), with one interface whether or not the feature `tls` is on.
//!
//! The interface of a connection to TLS is in `enabled`, by rustls, and in `disabled` as types without a value.

mod certificate_fault;
mod error;

#[cfg(not(feature = "tls"))]
mod disabled;
#[cfg(feature = "tls")]
pub(crate) mod enabled;

pub use certificate_fault::CertificateFault;
#[cfg(not(feature = "tls"))]
pub(crate) use disabled::{CertificateWatch, HostName, Session, TlsAcceptor, TlsConnector, TlsStream};
#[cfg(feature = "tls")]
pub(crate) use enabled::{CertificateWatch, HostName, Session, TlsAcceptor, TlsConnector, TlsStream};
pub use error::Error;
