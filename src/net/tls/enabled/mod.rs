//! TLS with rustls, and ring or another provider: identities, trust, and the handshakes of both sides.

mod config_error;
mod session;

mod config_cache;
mod validity;

mod certificate_watch;
mod certificates;

mod carrier;
mod stream;

mod client_tls;
#[cfg(feature = "platform-verifier")]
mod platform_verifier;
mod server_tls;

pub use tokio_rustls::rustls;

pub(crate) use certificate_watch::CertificateWatch;
pub use certificates::{Identity, Roots};
pub use client_tls::{ClientTls, DangerousClientTls};
pub(crate) use client_tls::{HostName, TlsConnector};
pub use config_error::ConfigError;
#[cfg(feature = "acme")]
pub(crate) use server_tls::ResolvedConfig;
pub use server_tls::ServerTls;
pub(crate) use server_tls::TlsAcceptor;
pub use session::{Session, Version};
pub(crate) use stream::TlsStream;
#[cfg(feature = "acme")]
pub(crate) use stream::VALIDATION;

#[cfg(test)]
mod tests;
