//! [`ServerTls`]: how a server makes its connections secure; [`TlsAcceptor`]: does the handshakes (RFC 8446 §2).

use std::error::Error as StdError;
use std::fmt;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::SystemTime;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::LazyConfigAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::CryptoProvider;
use tokio_rustls::rustls::server::danger::ClientCertVerifier;
use tokio_rustls::rustls::server::{
    Acceptor, ClientHello, ResolvesServerCertUsingSni, ServerSessionMemoryCache, WebPkiClientVerifier,
};
use tokio_rustls::server::FallibleAccept;

use super::carrier::Carrier;
use super::certificate_watch::CertificateWatch;
use super::certificates::{CertResolver, CertTable};
use super::config_cache::{ConfigCache, Replaceable};
use super::session::{Cryptography, VERSIONS_FIT, alpn, versions};
use super::{ConfigError, Identity, Roots, TlsStream, Version};
use crate::net::tls::Error;

/// How a server makes its connections secure: with TLS 1.2 and 1.3, carrying HTTP/1.1.
///
/// Keep a clone as a handle: [`ServerTls::replace_identities`], [`ServerTls::replace_roots`] and
/// [`ServerTls::replace_config`] affect all clones, including those of running servers. The other methods change only
/// the value that they return.
///
/// # Examples
///
/// ```no_run
/// use corehttp::{Context, Server};
/// use corehttp::tls::{self, ServerTls};
///
/// fn main() -> corehttp::Result {
///     let identity = || tls::Identity::from_files("/etc/tls/fullchain.pem", "/etc/tls/privkey.pem");
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
    source: Source,
    resolver: Option<ConfigResolver>,
}

/// Where the configuration of rustls comes from.
#[derive(Clone, Debug)]
enum Source {
    Settings(Settings),
    /// From the application.
    Config(Replaceable<Arc<ServerConfig>>),
}

#[derive(Clone, Debug)]
struct Settings {
    resolver: Arc<CertResolver>,
    client_auth: ClientAuth,
    version_min: Version,
    cryptography: Cryptography,
    dates: Dates,
}

/// Whether the dates of the server's own certificates matter.
#[derive(Clone, Copy, Debug)]
enum Dates {
    Checked,
    Ignored,
}

impl ServerTls {
    /// Creates settings that show `identity` to all peers, for any host.
    pub fn new(identity: Identity) -> ServerTls {
        let resolver = Arc::new(CertResolver::new(CertTable::new(identity, Vec::new())));
        let client_auth = ClientAuth::None;
        let version_min = Version::default();
        ServerTls::from_source(Source::Settings(Settings {
            resolver,
            client_auth,
            version_min,
            cryptography: Cryptography::default(),
            dates: Dates::Checked,
        }))
    }

    /// Takes a whole configuration of [`rustls`](crate::tls::rustls), for what the other methods do not set:
    /// certificates by a resolver, revocation lists, the protocols of ALPN, cipher suites, a key log, or tickets shared
    /// by several processes. Nothing is added to it, and the other settings of this value have no effect.
    ///
    /// Its [`alpn_protocols`](crate::tls::rustls::ServerConfig::alpn_protocols) should contain `http/1.1`, but not
    /// `h2`, which this server does not speak. [`Session::alpn`](super::Session::alpn) holds the agreed protocol. The
    /// connection carries HTTP/1.1 in any case, except that it is closed after `acme-tls/1` (RFC 8737 §3). Early data
    /// (RFC 8446 §2.3) could be replayed and is not accepted, whatever the configuration.
    ///
    /// A resolver of certificates runs on the core of the connection, and must not wait. That of
    /// [`ServerTls::config_resolver`] may. A panic costs the connection.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// use std::sync::Arc;
    /// use corehttp::tls::rustls::crypto::ring::default_provider;
    /// use corehttp::tls::rustls::pki_types::pem::PemObject;
    /// use corehttp::tls::rustls::pki_types::{CertificateDer, CertificateRevocationListDer, PrivateKeyDer};
    /// use corehttp::tls::rustls::server::WebPkiClientVerifier;
    /// use corehttp::tls::rustls::{KeyLogFile, RootCertStore, ServerConfig};
    /// use corehttp::tls::ServerTls;
    ///
    /// fn config() -> Result<ServerConfig, Box<dyn std::error::Error>> {
    ///     let provider = Arc::new(default_provider());
    ///     let mut roots = RootCertStore::empty();
    ///     roots.add(CertificateDer::from_pem_file("/etc/tls/clients-ca.pem")?)?;
    ///     let revoked = CertificateRevocationListDer::from_pem_file("/etc/tls/clients.crl")?;
    ///     let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider.clone())
    ///         .with_crls([revoked])
    ///         .build()?;
    ///     let chain = CertificateDer::pem_file_iter("/etc/tls/fullchain.pem")?.collect::<Result<_, _>>()?;
    ///     let mut config = ServerConfig::builder_with_provider(provider)
    ///         .with_safe_default_protocol_versions()?
    ///         .with_client_cert_verifier(verifier)
    ///         .with_single_cert(chain, PrivateKeyDer::from_pem_file("/etc/tls/privkey.pem")?)?;
    ///     config.alpn_protocols = vec![b"http/1.1".to_vec()];
    ///     config.key_log = Arc::new(KeyLogFile::new()); // for Wireshark, by SSLKEYLOGFILE
    ///     Ok(config)
    /// }
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let tls = ServerTls::from_config(config()?);
    /// // Later, with new certificates or revocation lists:
    /// tls.replace_config(config()?);
    /// # Ok(())
    /// # }
    /// ```
    pub fn from_config(config: impl Into<Arc<ServerConfig>>) -> ServerTls {
        ServerTls::from_source(Source::Config(Replaceable::new(without_early_data(config.into()))))
    }

    fn from_source(source: Source) -> ServerTls {
        ServerTls { source, resolver: None }
    }

    /// Adds an `identity` for the hosts of its certificate. Of several for one host, such as with an RSA key and with
    /// an elliptic curve key, the first that the peer can use is shown. Wildcards, such as `*.example.com`, come last.
    pub fn and_identity(self, identity: Identity) -> ServerTls {
        self.with(|settings| Arc::make_mut(&mut settings.resolver).add(identity))
    }

    /// Asks peers for a certificate, without requiring one. A certificate must lead to `roots`, and is in
    /// [`Session::certificates`](super::Session::certificates). Default: peers are not asked.
    pub fn client_auth_optional(self, roots: Roots) -> ServerTls {
        self.with(|settings| settings.client_auth = ClientAuth::Optional(Replaceable::new(roots)))
    }

    /// Requires peers to show a certificate that leads to `roots`. Default: peers are not asked.
    pub fn client_auth_required(self, roots: Roots) -> ServerTls {
        self.with(|settings| settings.client_auth = ClientAuth::Required(Replaceable::new(roots)))
    }

    /// Sets the oldest version that is accepted. Default: [`Version::Tls12`].
    pub fn version_min(self, version: Version) -> ServerTls {
        self.with(|settings| settings.version_min = version)
    }

    /// Sets whether certificates of this server must be valid at its start and at their
    /// [replacement](ServerTls::replace_identities). Default: yes. A certificate that has expired or is not valid yet
    /// is then an error, with its name and the time. Clients would refuse it.
    ///
    /// Without the check, a server uses any certificate and reports none. That suits a machine with a wrong clock at
    /// its start, or a server without need of trust. A certificate that expires later stays in use. It is reported
    /// ([`ErrorCause::Certificate`](crate::server::ErrorCause::Certificate)) from 14 days or a sixth of its whole time
    /// before its end, whichever is less. [`ServerTls::not_after`] returns the time. Certificates between that of the
    /// server and a root are not checked. Some expire on purpose, and clients find another way.
    pub fn check_dates(self, check: bool) -> ServerTls {
        self.with(|settings| settings.dates = if check { Dates::Checked } else { Dates::Ignored })
    }

    /// Sets the cryptography: cipher suites, key exchange, and the signatures of peers' certificates. Default: that of
    /// the crate ring. An identity signs with its own cryptography: see [`Identity::from_certified_key`].
    ///
    /// With another provider, sessions are resumed from a cache of 4,096, and not by tickets.
    ///
    /// # Errors
    ///
    /// Fails with [`ConfigError::Provider`] if the provider has no cipher suite for TLS 1.3 or no key exchange for a
    /// suite.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn secure(identity: corehttp::tls::Identity) -> Result<(), corehttp::tls::ConfigError> {
    /// use corehttp::tls::ServerTls;
    /// use corehttp::tls::rustls::crypto::CryptoProvider;
    /// use corehttp::tls::rustls::crypto::ring::{cipher_suite, default_provider};
    ///
    /// let provider = CryptoProvider {
    ///     cipher_suites: vec![cipher_suite::TLS13_CHACHA20_POLY1305_SHA256],
    ///     ..default_provider()
    /// };
    /// let tls = ServerTls::new(identity).provider(provider)?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn provider(self, provider: impl Into<Arc<CryptoProvider>>) -> Result<ServerTls, ConfigError> {
        let cryptography = Cryptography::from_provider(provider.into())?;
        Ok(self.with(|settings| settings.cryptography = cryptography))
    }

    /// Sets a function that chooses the configuration for each connection by its
    /// [`ClientHello`](crate::tls::rustls::server::ClientHello). Default: none.
    ///
    /// The function may wait, for a certificate from a database, or to have one issued for a new host. `Ok(None)`
    /// leaves the connection to the configuration of this value without the function. An error refuses the peer by the
    /// alert `access_denied`.
    ///
    /// Other connections do not wait for it. Its time is part of that of the handshake
    /// ([`Timeouts::head`](crate::Timeouts::head)), at the end of which it is dropped. A panic costs the connection.
    /// Errors and panics are reported to [`Server::on_error`](crate::Server::on_error), as [`Error::Resolver`] and
    /// [`Error::Panic`].
    ///
    /// A configuration is what [`ServerTls::from_config`] takes. The sessions of a host are only resumed under the same
    /// configuration, or under another with the same tickets.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::sync::Arc;
    /// use corehttp::tls::rustls::ServerConfig;
    /// use corehttp::tls::rustls::server::ClientHello;
    /// use corehttp::tls::{self, ServerTls};
    ///
    /// # struct Tenants;
    /// # impl Tenants {
    /// #     async fn config(&self, _: &str) -> std::io::Result<Option<Arc<ServerConfig>>> { Ok(None) }
    /// # }
    /// fn secure(ours: tls::Identity, tenants: Tenants) -> ServerTls {
    ///     ServerTls::new(ours).config_resolver(async move |hello: ClientHello<'_>| {
    ///         let Some(host) = hello.server_name() else { return Ok(None) };
    ///         Ok(tenants.config(host).await?) // from memory, or else from the database
    ///     })
    /// }
    /// # let _ = secure;
    /// ```
    #[doc(alias("LazyConfigAcceptor", "ResolvesServerCert", "cert_resolver", "GetConfigForClient", "SNI"))]
    pub fn config_resolver<F>(mut self, resolver: F) -> ServerTls
    where
        F: AsyncFn(ClientHello<'_>) -> ResolvedConfig + Send + Sync + 'static,
    {
        self.resolver = Some(ConfigResolver(Arc::new(resolver)));
        self
    }

    /// Replaces the identities, from the next handshake on, in all clones including those of running servers. The first
    /// one is for all hosts, and each of the others for those in its certificate. Open connections are not affected,
    /// and sessions of an earlier certificate can still be resumed. Call this on a schedule of your own, such as each
    /// hour, or at [SIGHUP](crate::shutdown_signal#other-signals).
    ///
    /// # Errors
    ///
    /// Fails with [`ConfigError::NoCertificate`] if there are none. Fails with [`ConfigError::Expired`] or
    /// [`ConfigError::NotYetValid`] if one is not valid now. [`ServerTls::check_dates`] turns the second check off.
    /// After an error, nothing is replaced. Running servers report the error as
    /// [`ErrorCause::Certificate`](crate::server::ErrorCause::Certificate). After [`ServerTls::from_config`], fails with
    /// [`ConfigError::WholeConfig`].
    pub fn replace_identities(
        &self,
        identities: impl IntoIterator<Item = Identity>,
    ) -> Result<(), ConfigError> {
        let Source::Settings(settings) = &self.source else { return Err(ConfigError::WholeConfig) };
        let mut identities = identities.into_iter();
        let default = identities.next().ok_or(ConfigError::NoCertificate);
        let replace = |default| {
            let table = CertTable::new(default, identities);
            settings.check_dates(&table)?;
            settings.resolver.set(table);
            Ok(())
        };
        default.and_then(replace).inspect_err(|error| settings.resolver.refuse(error))
    }

    /// Returns the first expiry among the server's certificates. `None` for a [whole configuration of
    /// rustls](ServerTls::from_config).
    ///
    /// # Examples
    ///
    /// For an alarm, or for a gauge that `Metrics::add_collector` writes:
    ///
    /// ```
    /// use std::time::SystemTime;
    /// use corehttp::tls::ServerTls;
    ///
    /// fn days_left(tls: &ServerTls) -> Option<u64> {
    ///     let left = tls.not_after()?.duration_since(SystemTime::now()).unwrap_or_default();
    ///     Some(left.as_secs() / 86_400)
    /// }
    /// # let _ = days_left;
    /// ```
    #[doc(alias("expiry", "expiration", "days_left"))]
    pub fn not_after(&self) -> Option<SystemTime> {
        match &self.source {
            Source::Settings(settings) => {
                settings.resolver.table().identities().map(Identity::not_after).min()
            }
            Source::Config(_) => None,
        }
    }

    /// Replaces the roots that certificates of peers must lead to, from the next handshake on, in all clones including
    /// those of running servers. Earlier sessions are not resumed, and open connections are not affected. Has no effect
    /// if peers are not asked for certificates, or after [`ServerTls::from_config`].
    pub fn replace_roots(&self, roots: Roots) {
        if let Source::Settings(settings) = &self.source {
            settings.client_auth.replace(roots);
        }
    }

    /// Replaces the whole configuration, from the next handshake on, in all clones including those of running servers.
    /// Open connections are not affected. Whether earlier sessions are resumed depends on the new configuration. Has an
    /// effect only if the first one was [given](ServerTls::from_config) by the application, too.
    pub fn replace_config(&self, config: impl Into<Arc<ServerConfig>>) {
        if let Source::Config(replaceable) = &self.source {
            replaceable.set(without_early_data(config.into()));
        }
    }

    /// Makes the acceptor with these settings.
    pub(crate) fn acceptor(&self) -> TlsAcceptor {
        let source = match self.source.clone() {
            Source::Config(config) => CachedSource::Config(config),
            Source::Settings(settings) => {
                let roots = settings.client_auth.roots();
                let cache = ConfigCache::new(settings.config(roots.as_ref()), roots);
                CachedSource::Settings(Arc::new((settings, cache)))
            }
        };
        TlsAcceptor { source, resolver: self.resolver.clone() }
    }

    /// Changes the settings, if there are any.
    fn with(mut self, change: impl FnOnce(&mut Settings)) -> ServerTls {
        if let Source::Settings(settings) = &mut self.source {
            change(settings);
        }
        self
    }

    /// The configuration for rustls of these settings.
    #[cfg(test)]
    pub(super) fn config(&self) -> ServerConfig {
        match &self.source {
            Source::Settings(settings) => settings.config(settings.client_auth.roots().as_ref()),
            Source::Config(config) => (*config.get()).clone(),
        }
    }
}

/// Early data of a client can be replayed (RFC 8446 §8), and this server never reads any: it would be lost.
fn without_early_data(mut config: Arc<ServerConfig>) -> Arc<ServerConfig> {
    if config.max_early_data_size > 0 {
        Arc::make_mut(&mut config).max_early_data_size = 0;
    }
    config
}

impl Settings {
    fn check_dates(&self, table: &CertTable) -> Result<(), ConfigError> {
        match self.dates {
            Dates::Checked => table.check_dates(SystemTime::now()),
            Dates::Ignored => Ok(()),
        }
    }

    /// The configuration for rustls, where certificates of peers must lead to `roots`.
    fn config(&self, roots: Option<&Roots>) -> ServerConfig {
        let config = ServerConfig::builder_with_provider(self.cryptography.provider())
            .with_protocol_versions(versions(self.version_min))
            .expect(VERSIONS_FIT)
            .with_client_cert_verifier(self.client_auth.verifier(roots, &self.cryptography));
        let mut config = config.with_cert_resolver(self.resolver.clone());
        config.alpn_protocols = alpn();
        match self.cryptography.ticketer() {
            Some(ticketer) => config.ticketer = ticketer,
            None => config.session_storage = ServerSessionMemoryCache::new(SESSIONS_MAX),
        }
        config
    }
}

/// How many sessions are kept for resumption where there are no tickets.
const SESSIONS_MAX: usize = 4096;

/// Does TLS handshakes with peers that connect.
#[derive(Clone)]
pub(crate) struct TlsAcceptor {
    source: CachedSource,
    resolver: Option<ConfigResolver>,
}

#[derive(Clone)]
enum CachedSource {
    Settings(Arc<(Settings, ConfigCache<ServerConfig, Option<Roots>>)>),
    Config(Replaceable<Arc<ServerConfig>>),
}

impl TlsAcceptor {
    /// Checks that peers can accept the certificates at this time.
    pub(crate) fn check_dates(&self) -> io::Result<()> {
        match &self.source {
            CachedSource::Config(_) => Ok(()),
            CachedSource::Settings(shared) => {
                let settings = &shared.0;
                let checked = settings.check_dates(&settings.resolver.table());
                checked.map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))
            }
        }
    }

    /// Looks out for certificates that expire. `None` for a configuration of the application, which is not looked into.
    pub(crate) fn watch(&self) -> Option<CertificateWatch> {
        match &self.source {
            CachedSource::Config(_) => None,
            CachedSource::Settings(shared) => {
                let Settings { resolver, dates, .. } = &shared.0;
                Some(CertificateWatch::new(resolver.clone(), matches!(dates, Dates::Checked)))
            }
        }
    }

    /// Begins a handshake over `carrier`.
    pub(crate) fn accept<C: AsyncRead + AsyncWrite + Unpin + 'static>(&self, carrier: C) -> Handshake<C> {
        let carrier = Carrier::new(carrier);
        Handshake(match self.resolver.clone() {
            None => {
                let acceptor = tokio_rustls::TlsAcceptor::from(self.source.config());
                Accepting::WithConfig(acceptor.accept(carrier).into_fallible())
            }
            Some(resolver) => {
                Accepting::WithResolver(Box::pin(resolver.accept(self.source.clone(), carrier)))
            }
        })
    }
}

impl CachedSource {
    fn config(&self) -> Arc<ServerConfig> {
        match self {
            CachedSource::Config(config) => config.get(),
            CachedSource::Settings(shared) => {
                let (settings, cache) = &**shared;
                cache.config(|| settings.client_auth.roots(), |roots| settings.config(roots.as_ref()))
            }
        }
    }
}

/// A handshake in progress.
pub(crate) struct Handshake<C>(Accepting<C>);

#[expect(clippy::large_enum_variant, reason = "the future of its connection has room for the usual one")]
enum Accepting<C> {
    WithConfig(FallibleAccept<Carrier<C>>),
    /// With a configuration that the resolver chooses by the ClientHello.
    WithResolver(Pin<Box<dyn Future<Output = HandshakeResult<C>>>>),
}

/// A secure stream, or the error and the bare transport.
type HandshakeResult<C> = Result<TlsStream<C>, (Error, C)>;

impl<C: AsyncRead + AsyncWrite + Unpin> Handshake<C> {
    /// Ready with a secure stream, or with the error and the bare transport, on which an alert was sent unless the peer
    /// speaks plain HTTP. Must not be polled again after that.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<HandshakeResult<C>> {
        match &mut self.0 {
            Accepting::WithConfig(accept) => Pin::new(accept).poll(cx).map(handshake_result),
            Accepting::WithResolver(accept) => accept.as_mut().poll(cx),
        }
    }
}

fn handshake_result<C>(
    result: Result<tokio_rustls::server::TlsStream<Carrier<C>>, (io::Error, Carrier<C>)>,
) -> HandshakeResult<C> {
    match result {
        Ok(stream) => Ok(TlsStream::new(stream)),
        Err((error, carrier)) => Err((carrier.handshake_error(Error::from_io(error)), carrier.inner)),
    }
}

/// The function that chooses the configuration of a connection.
#[derive(Clone)]
struct ConfigResolver(Arc<dyn ResolveConfig>);

/// A configuration, `None` for the usual one, or why the peer is refused.
pub(crate) type ResolvedConfig = Result<Option<Arc<ServerConfig>>, Box<dyn StdError + Send + Sync>>;

/// An object-safe `AsyncFn`.
trait ResolveConfig: Send + Sync {
    fn resolve<'a>(&'a self, hello: ClientHello<'a>) -> Pin<Box<dyn Future<Output = ResolvedConfig> + 'a>>;
}

impl<F: AsyncFn(ClientHello<'_>) -> ResolvedConfig + Send + Sync> ResolveConfig for F {
    fn resolve<'a>(&'a self, hello: ClientHello<'a>) -> Pin<Box<dyn Future<Output = ResolvedConfig> + 'a>> {
        Box::pin(self(hello))
    }
}

impl ConfigResolver {
    /// Does a handshake with the configuration that the function chooses, or else with that of `source`.
    async fn accept<C: AsyncRead + AsyncWrite + Unpin>(
        self,
        source: CachedSource,
        carrier: Carrier<C>,
    ) -> HandshakeResult<C> {
        let mut lazy = LazyConfigAcceptor::new(Acceptor::default(), carrier);
        let start = match (&mut lazy).await {
            Ok(start) => start,
            Err(error) => {
                let carrier =
                    lazy.take_io().expect("the acceptor gives up its transport only to a `StartHandshake`");
                return handshake_result(Err((error, carrier)));
            }
        };
        let (config, refused) = match self.0.resolve(start.client_hello()).await {
            Ok(Some(config)) => (without_early_data(config), None),
            Ok(None) => (source.config(), None),
            Err(cause) => (without_certificate(source.config()), Some(cause)),
        };
        let result = start.into_stream(config).into_fallible().await;
        match (result, refused) {
            (result, None) => handshake_result(result),
            (Err((_, carrier)), Some(cause)) => Err((Error::Resolver(cause), carrier.inner)),
            (Ok(stream), Some(cause)) => Err((Error::Resolver(cause), stream.into_inner().0.inner)),
        }
    }
}

impl fmt::Debug for ConfigResolver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ConfigResolver")
    }
}

/// Turns the configuration into one without certificates. With it, rustls sends `access_denied` and ends the handshake.
fn without_certificate(mut config: Arc<ServerConfig>) -> Arc<ServerConfig> {
    Arc::make_mut(&mut config).cert_resolver = Arc::new(ResolvesServerCertUsingSni::new());
    config
}

/// Whether peers must show certificates. Clones share the roots that these must lead to.
#[derive(Clone, Debug)]
enum ClientAuth {
    None,
    Optional(Replaceable<Roots>),
    Required(Replaceable<Roots>),
}

impl ClientAuth {
    /// The roots that certificates must lead to at present.
    fn roots(&self) -> Option<Roots> {
        match self {
            ClientAuth::None => None,
            ClientAuth::Optional(roots) | ClientAuth::Required(roots) => Some(roots.get()),
        }
    }

    /// Replaces the roots. Has no effect if peers are not asked.
    fn replace(&self, roots: Roots) {
        match self {
            ClientAuth::None => {}
            ClientAuth::Optional(shared) | ClientAuth::Required(shared) => shared.set(roots),
        }
    }

    /// Makes the verifier of certificates that must lead to `roots`.
    fn verifier(&self, roots: Option<&Roots>, cryptography: &Cryptography) -> Arc<dyn ClientCertVerifier> {
        let verifier = |roots: &Roots| {
            WebPkiClientVerifier::builder_with_provider(roots.store.clone(), cryptography.provider())
        };
        let built = match (self, roots) {
            (ClientAuth::None, _) | (_, None) => return WebPkiClientVerifier::no_client_auth(),
            (ClientAuth::Optional(_), Some(roots)) => verifier(roots).allow_unauthenticated().build(),
            (ClientAuth::Required(_), Some(roots)) => verifier(roots).build(),
        };
        built.expect("roots are never empty, and there are no revocation lists that could be wrong")
    }
}
