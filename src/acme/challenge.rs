//! [`Challenge`]: how an authority validates names; [`ChallengeTable`]: what it is to find here meanwhile.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex};

use rcgen::{CertificateParams, CustomExtension, KeyPair};
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::crypto::ring::sign::any_supported_type;
use tokio_rustls::rustls::pki_types::PrivateKeyDer;
use tokio_rustls::rustls::sign::{CertifiedKey, SingleCertAndKey};

use super::error::AcmeError;
use crate::memory::lock;
use crate::net::tls::enabled::VALIDATION;
use crate::server::middleware::Middleware;
use crate::server::{BodyPlan, Context, Handler, Result};

/// The way in which an authority validates a name of this server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Challenge {
    /// By a handshake at port 443 (RFC 8737), which [`AcmeCertificate::tls`](super::AcmeCertificate::tls) answers.
    #[default]
    TlsAlpn01,
    /// By a request at port 80 (RFC 8555 §8.3), which [`AcmeCertificate::challenges`](super::AcmeCertificate::challenges) answers.
    Http01,
}

/// The answers that the authority is to find here, while it validates.
#[derive(Default)]
pub(super) struct ChallengeTable {
    /// The handshakes with each name.
    handshakes: Mutex<HashMap<Box<str>, Arc<ServerConfig>>>,
    /// The responses to each token.
    responses: Mutex<HashMap<Box<str>, Box<str>>>,
}

impl ChallengeTable {
    /// Sets the handshake with `name`, by the digest of the key authorization (RFC 8737 §3).
    pub(super) fn set_handshake(&self, name: &str, digest: &[u8]) -> Result<(), AcmeError> {
        let config = validation_config(name, digest)
            .map_err(|error| AcmeError::Authority(error.to_string().into()))?;
        lock(&self.handshakes).insert(name.into(), Arc::new(config));
        Ok(())
    }

    /// Sets the response to `token`, which is the key authorization (RFC 8555 §8.3).
    pub(super) fn set_response(&self, token: &str, key_authorization: &str) {
        lock(&self.responses).insert(token.into(), key_authorization.into());
    }

    /// The handshake with `name`, while it is validated.
    pub(super) fn handshake(&self, name: &str) -> Option<Arc<ServerConfig>> {
        lock(&self.handshakes).get(&*name.to_ascii_lowercase()).cloned()
    }

    /// Ends the validation.
    pub(super) fn clear(&self) {
        lock(&self.handshakes).clear();
        lock(&self.responses).clear();
    }
}

/// A configuration whose certificate signs itself, and contains the digest that only the holder of the account knows.
fn validation_config(
    name: &str,
    digest: &[u8],
) -> std::result::Result<ServerConfig, Box<dyn std::error::Error>> {
    let key = KeyPair::generate()?;
    let mut params = CertificateParams::new([name.to_owned()])?;
    params.custom_extensions = vec![CustomExtension::new_acme_identifier(digest)];
    let chain = vec![params.self_signed(&key)?.der().clone()];
    let key = any_supported_type(&PrivateKeyDer::try_from(key.serialize_der())?)?;
    // Not `with_single_cert`, which refuses certificates with an extension that clients have to understand.
    let shown = SingleCertAndKey::from(CertifiedKey::new(chain, key));
    let mut config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_cert_resolver(Arc::new(shown));
    config.alpn_protocols = vec![VALIDATION.to_vec()];
    Ok(config)
}

/// Middleware for a server at port 80 that answers an authority for [`Challenge::Http01`]. Other requests pass. Made by
/// [`AcmeCertificate::challenges`](super::AcmeCertificate::challenges).
#[derive(Clone)]
pub struct HttpChallenges(Arc<ChallengeTable>);

impl HttpChallenges {
    pub(super) fn new(table: Arc<ChallengeTable>) -> HttpChallenges {
        HttpChallenges(table)
    }

    /// The response to the request, if it asks for one of a challenge.
    fn response(&self, ctx: &Context) -> Option<Box<str>> {
        let token = ctx.request.path().strip_prefix("/.well-known/acme-challenge/")?;
        lock(&self.0.responses).get(token).cloned()
    }
}

impl Middleware for HttpChallenges {
    fn on_head(&self, ctx: &mut Context, next: &impl Handler) -> BodyPlan {
        // No guard beneath, and no redirect to HTTPS, refuses the authority.
        match self.response(ctx) {
            Some(_) => BodyPlan::Buffer,
            None => next.on_head(ctx),
        }
    }

    async fn call(&self, ctx: &mut Context, next: &impl Handler) -> Result {
        let Some(response) = self.response(ctx) else { return next.handle(ctx).await };
        Ok(ctx.response.set_bytes("application/octet-stream", response.as_bytes())?)
    }
}

impl fmt::Debug for HttpChallenges {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpChallenges").finish_non_exhaustive()
    }
}
