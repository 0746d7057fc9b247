//! Certificates from an authority such as Let's Encrypt by ACME (RFC 8555), renewed while the server runs.
//!
//! ```no_run
//! use corehttp::acme::{Acme, LETS_ENCRYPT};
//! use corehttp::{Context, Server};
//!
//! fn main() -> corehttp::Result {
//!     let certificate = Acme::new(LETS_ENCRYPT, ["example.org", "www.example.org"])?
//!         .contact("mailto:ops@example.org")
//!         .folder("/var/lib/service/acme") // the account and the certificate, for the next start
//!         .start()?;
//!     Server::bind("[::]:443")
//!         .tls(certificate.tls())
//!         .run(|ctx: &mut Context| ctx.response.set_text("in secret"))
//! }
//! ```
//!
//! The authority validates that the names lead to this server. By default this takes a handshake at port 443 (TLS-ALPN-01, RFC
//! 8737), as in the program above. With [`Challenge::Http01`] it takes a request at port 80. A load balancer in front, with TLS
//! of its own, can pass that on.
//!
//! A certificate is renewed when a third of its time is left. A suggestion of the authority (ARI, RFC 9773) may replace that by
//! a random moment in its window. After a failure the next try comes a minute later, then two, and so on. The longest wait is a
//! quarter of the time that the certificate is still valid, but at least an hour and at most a day. Authorities limit the number
//! of requests. One that is busy may ask for a longer wait with `retry-after` (RFC 8555 §6.6), of up to a day. Handshakes wait
//! for the first certificate, for as long as [`Timeouts::head`](crate::Timeouts::head) admits.
//!
//! Servers that share a [folder](Acme::folder) obtain one certificate for all. They are processes of one machine, or machines
//! with a common disk that locks files. One of them renews, and the others find the new file within a minute. With TLS-ALPN-01,
//! the handshake of the authority must come to the one that renews. So several machines need [`Challenge::Http01`] or an
//! address of that one.
//!
//! Try a program with [`LETS_ENCRYPT_STAGING`]. No browser trusts its certificates, and its limits are generous.

mod acme;
mod certificate;
mod error;
mod settings;

mod account_store;
mod acme_client;
mod authority;
mod challenge;
mod folder;
mod renewal;

pub use acme::{Acme, LETS_ENCRYPT, LETS_ENCRYPT_STAGING};
pub use certificate::AcmeCertificate;
pub use challenge::{Challenge, HttpChallenges};
pub use error::{AcmeError, AcmeReport};
