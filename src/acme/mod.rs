//! Certificates by ACME (RFC 8555), from an authority such as Let's Encrypt: obtained and renewed while the server runs.
//!
//! ```no_run
//! use corehttp::acme::{Acme, LETS_ENCRYPT};
//! use corehttp::{Context, Server};
//!
//! fn main() -> corehttp::Result {
//!     let certificate = Acme::new(LETS_ENCRYPT, ["example.org", "www.example.org"])?
//!         .contact("mailto:ops@example.org")
//!         .folder("/var/lib/service/acme") // the account and the certificate, for the next start
//!         .on_report(|report| eprintln!("acme: {report}"))
//!         .start()?;
//!     Server::bind("[::]:443")
//!         .tls(certificate.tls())
//!         .run(|ctx: &mut Context| ctx.response.set_text("in secret"))
//! }
//! ```
//!
//! The authority validates that the names lead to this server: by a handshake at port 443 (TLS-ALPN-01, RFC 8737), which is
//! all that the program above needs, or by a request at port 80 ([`Challenge::Http01`]), which a load balancer can pass on
//! that ends TLS itself.
//!
//! A certificate is renewed when a third of its time is left, or, with a [folder](Acme::folder), when the authority
//! suggests (ARI, RFC 9773), at a random moment. After a failure the next try comes a minute later, then two, and so on:
//! up to a quarter of the time that the certificate is still valid, but at least an hour and at most a day, since
//! authorities limit how often they are asked. Until there is a first certificate, handshakes wait for it, for as long as
//! [`Timeouts::head`](crate::Timeouts::head) admits.
//!
//! Servers that share a [folder](Acme::folder), be they processes of one machine or machines with a common disk that locks
//! files, obtain one certificate for all: one of them renews, and the others find the new file within a minute. With
//! TLS-ALPN-01, the handshake of the authority must come to the one that renews, so several machines need
//! [`Challenge::Http01`] or an address of the one.
//!
//! Try a program with [`LETS_ENCRYPT_STAGING`], whose certificates no browser trusts and whose limits are generous.

mod acme;
mod certificate;
mod error;
mod settings;

mod authority;
mod challenge;
mod folder;
mod renewal;

pub use acme::{Acme, LETS_ENCRYPT, LETS_ENCRYPT_STAGING};
pub use certificate::AcmeCertificate;
pub use challenge::{Challenge, HttpChallenges};
pub use error::{AcmeError, AcmeReport};
