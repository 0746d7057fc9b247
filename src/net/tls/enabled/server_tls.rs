//! [`ServerTls`]: how a server makes its connections secure.

use std::sync::Arc;

use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring::Ticketer;

use super::cert_resolver::{CertResolver, CertTable};
use super::client_auth::{ClientAuth, SharedRoots};
use super::settings::{VERSIONS_FIT, alpn, provider, versions};
use super::{TlsConfigError, TlsIdentity, TlsRoots, TlsVersion};

/// How a server makes its connections secure: with TLS 1.2 and 1.3, carrying HTTP/1.1.
///
/// Keep a clone as a handle: [`ServerTls::replace`] and [`ServerTls::replace_roots`] affect all clones, including those
/// of running servers. The other methods change only the value that they return.
///
/// # Examples
///
/// ```no_run
/// use corehttp::{Context, Server, ServerTls, TlsIdentity};
///
/// fn main() -> corehttp::Result {
///     let identity = || TlsIdentity::from_files("/etc/tls/fullchain.pem", "/etc/tls/privkey.pem");
///     let tls = ServerTls::new(identity()?);
///     let running = Server::bind("[::]:443")
///         .tls(tls.clone())
///         .start(|ctx: &mut Context| ctx.response.set_text("hello, securely"))?;
///
///     // Later, when the files have been renewed:
///     tls.replace([identity()?])?;
///     running.wait()
/// }
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct ServerTls {
    resolver: Arc<CertResolver>,
    client_auth: ClientAuth,
    version_min: TlsVersion,
}

impl ServerTls {
    /// Creates settings that show `identity` to all peers, whichever host they ask for.
    pub fn new(identity: TlsIdentity) -> ServerTls {
        let resolver = Arc::new(CertResolver::new(CertTable::new(identity, Vec::new())));
        ServerTls { resolver, client_auth: ClientAuth::None, version_min: TlsVersion::default() }
    }

    /// Shows `identity` to peers that ask for a host that its certificate is for. Of several for one host, such as one
    /// with an RSA key and one with an elliptic curve key, the first that the peer can use is shown. Wildcards, such as
    /// `*.example.com`, come last.
    pub fn and(mut self, identity: TlsIdentity) -> ServerTls {
        self.resolver = Arc::new(CertResolver::new(self.resolver.table().and(identity)));
        self
    }

    /// Asks peers for a certificate, without requiring one. If they show one, it must lead to `roots`, and is in
    /// [`TlsSession::certificates`](super::TlsSession::certificates). Default: peers are not asked.
    pub fn ask_peers(mut self, roots: TlsRoots) -> ServerTls {
        self.client_auth = ClientAuth::Optional(SharedRoots::new(roots));
        self
    }

    /// Requires peers to show a certificate that leads to `roots`. Default: peers are not asked.
    pub fn require_peers(mut self, roots: TlsRoots) -> ServerTls {
        self.client_auth = ClientAuth::Required(SharedRoots::new(roots));
        self
    }

    /// Sets the oldest version that is accepted. Default: [`TlsVersion::Tls12`].
    pub fn version_min(mut self, version: TlsVersion) -> ServerTls {
        self.version_min = version;
        self
    }

    /// Replaces the identities, from the next handshake on, in all clones including those of running servers. The first
    /// one is for all hosts, and each of the others for those in its certificate. Open connections are not affected, and
    /// sessions that began with an earlier certificate can still be resumed.
    ///
    /// # Errors
    ///
    /// Fails with [`TlsConfigError::NoCertificate`] if there are none. Nothing is then replaced.
    pub fn replace(&self, identities: impl IntoIterator<Item = TlsIdentity>) -> Result<(), TlsConfigError> {
        let mut identities = identities.into_iter();
        let default = identities.next().ok_or(TlsConfigError::NoCertificate)?;
        self.resolver.set(CertTable::new(default, identities.collect()));
        Ok(())
    }

    /// Replaces the roots that certificates of peers must lead to, from the next handshake on, in all clones including
    /// those of running servers. Earlier sessions are not resumed, and open connections are not affected. Has no effect
    /// if peers are not asked for certificates.
    pub fn replace_roots(&self, roots: TlsRoots) {
        self.client_auth.replace(roots);
    }

    /// The roots that certificates of peers must lead to at present.
    pub(super) fn roots(&self) -> Option<TlsRoots> {
        self.client_auth.roots()
    }

    /// The configuration for rustls, where certificates of peers must lead to `roots`.
    pub(super) fn config(&self, roots: Option<&TlsRoots>) -> ServerConfig {
        let config = ServerConfig::builder_with_provider(provider())
            .with_protocol_versions(versions(self.version_min))
            .expect(VERSIONS_FIT)
            .with_client_cert_verifier(self.client_auth.verifier(roots));
        let mut config = config.with_cert_resolver(self.resolver.clone());
        config.alpn_protocols = alpn();
        // Without randomness there can be no tickets, and every handshake will fail and say why.
        if let Ok(ticketer) = Ticketer::new() {
            config.ticketer = ticketer;
        }
        config
    }
}
