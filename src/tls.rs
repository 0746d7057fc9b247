//! Secure connections: certificates of servers, roots of clients, client certificates (RFC 8446), with rustls.
//!
//! ```no_run
//! # #[cfg(feature = "tls")]
//! fn main() -> corehttp::Result {
//!     use corehttp::tls::{Identity, ServerTls};
//!     use corehttp::{Context, Server};
//!
//!     let identity = Identity::from_files("chain.pem", "key.pem")?;
//!     Server::bind("[::]:8443")
//!         .tls(ServerTls::new(identity))
//!         .run(|ctx: &mut Context| ctx.response.set_text("in secret"))
//! }
//! # #[cfg(not(feature = "tls"))]
//! # fn main() {}
//! ```
//!
//! All but [`Error`] needs the feature `tls`, which is on by default.
//!
//! | for | see |
//! |---|---|
//! | certificates, several for one server, and new ones at run time | `Identity`, `ServerTls::replace_identities` |
//! | ports with TLS and ports without | `Server::and_bind_tls`, [`HttpsRedirect`](crate::middleware::HttpsRedirect) |
//! | clients that have to show a certificate | `ServerTls::client_auth_required` |
//! | the authorities that a client accepts, and a certificate for development | `ClientTls`, `Roots` |
//! | the session of a connection, for handlers and logs | `Context::tls`, `Session` |
//! | a configuration or a provider of rustls itself | `ServerTls::from_config`, `ClientTls::from_config`, `rustls` |
//! | hosts that the operating system verifies, with the feature `platform-verifier` | `ClientTls::from_platform_verifier` |

#[cfg(feature = "tls")]
pub use crate::net::tls::enabled::{
    ClientTls, ConfigError, DangerousClientTls, Identity, Roots, ServerTls, Session, Version, rustls,
};
pub use crate::net::tls::{CertificateFault, Error};
