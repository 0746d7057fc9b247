//! TLS with rustls and ring: identities, trust, and the handshakes of both sides.

mod config_error;
mod failure;
mod identity;
mod roots;
mod session;
mod settings;

mod carrier;
mod stream;

mod cert_resolver;
mod client_auth;
mod server_tls;

mod acceptor;

mod client_tls;
mod connector;

pub(crate) use acceptor::TlsAcceptor;
pub use client_tls::{ClientTls, DangerousClientTls};
pub use config_error::TlsConfigError;
pub(crate) use connector::{HostName, TlsConnector};
pub use identity::TlsIdentity;
pub use roots::TlsRoots;
pub use server_tls::ServerTls;
pub use session::{TlsSession, TlsVersion};
pub(crate) use stream::TlsStream;

#[cfg(test)]
mod tests;
