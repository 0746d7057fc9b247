//! [`ServerTls`]: how a server makes its connections secure; [`TlsAcceptor`]: does the handshakes (RFC 8446 §2).

use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, RwLock};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring::Ticketer;
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::server::danger::ClientCertVerifier;
use tokio_rustls::server::FallibleAccept;

use super::carrier::Carrier;
use super::certificates::{CertResolver, CertTable};
use super::session::{VERSIONS_FIT, alpn, provider, versions};
use super::{TlsConfigError, TlsIdentity, TlsRoots, TlsStream, TlsVersion};
use crate::memory::{read_lock, write_lock};
use crate::net::tls::TlsError;

/// How a server makes its connections secure: with TLS 1.2 and 1.3, carrying HTTP/1.1.
///
/// Keep a clone as a handle: [`ServerTls::replace_identities`] and [`ServerTls::replace_roots`] affect all clones, including those
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
///     tls.replace_identities([identity()?])?;
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
    pub fn client_auth_optional(mut self, roots: TlsRoots) -> ServerTls {
        self.client_auth = ClientAuth::Optional(SharedRoots::new(roots));
        self
    }

    /// Requires peers to show a certificate that leads to `roots`. Default: peers are not asked.
    pub fn client_auth_required(mut self, roots: TlsRoots) -> ServerTls {
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
    pub fn replace_identities(
        &self,
        identities: impl IntoIterator<Item = TlsIdentity>,
    ) -> Result<(), TlsConfigError> {
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

    /// Makes the acceptor with these settings.
    pub(crate) fn acceptor(&self) -> TlsAcceptor {
        let cached = Arc::new(RwLock::new(CachedConfig::new(self, self.roots())));
        TlsAcceptor { tls: self.clone(), cached }
    }

    /// The roots that certificates of peers must lead to at present.
    fn roots(&self) -> Option<TlsRoots> {
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
        // Without randomness there can be no tickets, and every handshake will fail with that error.
        if let Ok(ticketer) = Ticketer::new() {
            config.ticketer = ticketer;
        }
        config
    }
}

/// Does TLS handshakes with peers that connect.
#[derive(Clone)]
pub(crate) struct TlsAcceptor {
    tls: ServerTls,
    cached: Arc<RwLock<CachedConfig>>,
}

/// A configuration of rustls, and the roots that it was built with.
struct CachedConfig {
    config: Arc<ServerConfig>,
    roots: Option<TlsRoots>,
}

impl TlsAcceptor {
    /// Begins a handshake over `carrier`.
    pub(crate) fn accept<C: AsyncRead + AsyncWrite + Unpin>(&self, carrier: C) -> Handshake<C> {
        let accept = tokio_rustls::TlsAcceptor::from(self.config()).accept(Carrier::new(carrier));
        Handshake(accept.into_fallible())
    }

    /// The current configuration. When the roots have changed, the configuration is built again, including its ticket
    /// keys: a resumed session shows no certificate again, and the earlier one may lead to the old roots.
    fn config(&self) -> Arc<ServerConfig> {
        let roots = self.tls.roots();
        let cached = read_lock(&self.cached);
        if cached.has_roots(roots.as_ref()) {
            return cached.config.clone();
        }
        drop(cached);
        let mut cached = write_lock(&self.cached);
        // The roots may have been replaced again while this thread waited for the lock.
        let roots = self.tls.roots();
        if !cached.has_roots(roots.as_ref()) {
            *cached = CachedConfig::new(&self.tls, roots);
        }
        cached.config.clone()
    }
}

impl CachedConfig {
    fn new(tls: &ServerTls, roots: Option<TlsRoots>) -> CachedConfig {
        CachedConfig { config: Arc::new(tls.config(roots.as_ref())), roots }
    }

    /// Whether the configuration was built with a clone of these roots. The contents are not compared.
    fn has_roots(&self, roots: Option<&TlsRoots>) -> bool {
        match (&self.roots, roots) {
            (None, None) => true,
            (Some(mine), Some(roots)) => Arc::ptr_eq(&mine.store, &roots.store),
            (None, Some(_)) | (Some(_), None) => false,
        }
    }
}

/// A handshake in progress.
pub(crate) struct Handshake<C>(FallibleAccept<Carrier<C>>);

impl<C: AsyncRead + AsyncWrite + Unpin> Handshake<C> {
    /// Ready with a secure stream, or with the error and the bare transport, on which an alert was sent unless the peer
    /// speaks plain HTTP. Must not be polled again after that.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<TlsStream<C>, (TlsError, C)>> {
        Pin::new(&mut self.0).poll(cx).map(|shaken| match shaken {
            Ok(stream) => Ok(TlsStream(stream.into())),
            Err((error, carrier)) => Err((carrier.blame(TlsError::from_io(error)), carrier.inner)),
        })
    }
}

/// Whether peers must show certificates. Clones share the roots that these must lead to.
#[derive(Clone, Debug)]
enum ClientAuth {
    None,
    Optional(Arc<SharedRoots>),
    Required(Arc<SharedRoots>),
}

/// Roots that can be replaced while handshakes are in progress.
struct SharedRoots(RwLock<TlsRoots>);

impl ClientAuth {
    /// The roots that certificates must lead to at present.
    fn roots(&self) -> Option<TlsRoots> {
        match self {
            ClientAuth::None => None,
            ClientAuth::Optional(shared) | ClientAuth::Required(shared) => Some(shared.roots()),
        }
    }

    /// Replaces the roots. Has no effect if peers are not asked.
    fn replace(&self, roots: TlsRoots) {
        match self {
            ClientAuth::None => {}
            ClientAuth::Optional(shared) | ClientAuth::Required(shared) => {
                *write_lock(&shared.0) = roots;
            }
        }
    }

    /// Makes the verifier of certificates that must lead to `roots`.
    fn verifier(&self, roots: Option<&TlsRoots>) -> Arc<dyn ClientCertVerifier> {
        let verifier =
            |roots: &TlsRoots| WebPkiClientVerifier::builder_with_provider(roots.store.clone(), provider());
        let built = match (self, roots) {
            (ClientAuth::None, _) | (_, None) => return WebPkiClientVerifier::no_client_auth(),
            (ClientAuth::Optional(_), Some(roots)) => verifier(roots).allow_unauthenticated().build(),
            (ClientAuth::Required(_), Some(roots)) => verifier(roots).build(),
        };
        built.expect("roots are never empty, and there are no revocation lists that could be wrong")
    }
}

impl SharedRoots {
    fn new(roots: TlsRoots) -> Arc<SharedRoots> {
        Arc::new(SharedRoots(RwLock::new(roots)))
    }

    fn roots(&self) -> TlsRoots {
        read_lock(&self.0).clone()
    }
}

impl fmt::Debug for SharedRoots {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.roots().fmt(f)
    }
}
