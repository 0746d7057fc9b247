//! [`ClientTls`]: how a client makes its connections secure; [`TlsConnector`]: does the handshakes (RFC 9110 §4.3.4).

use std::fmt;
use std::sync::Arc;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::rustls::ClientConfig;
use tokio_rustls::rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use tokio_rustls::rustls::crypto::CryptoProvider;
use tokio_rustls::rustls::pki_types::{CertificateDer, DnsName, ServerName, UnixTime};
use tokio_rustls::rustls::sign::SingleCertAndKey;
use tokio_rustls::rustls::{self, DigitallySignedStruct, SignatureScheme};

use super::carrier::Carrier;
use super::config_cache::{ConfigCache, Parts, Replaceable};
use super::session::{Cryptography, VERSIONS_FIT, alpn, versions};
use super::{ConfigError, Identity, Roots, TlsStream, Version};
use crate::net::UriHost;
use crate::net::tls::Error;

/// The TLS of a client: versions 1.2 and 1.3, resumed sessions, and verification of every host.
///
/// # Certificates
///
/// The crates ring and rustls-webpki verify certificates, unless another [provider](ClientTls::provider) or a
/// [configuration](ClientTls::from_config) is set. They take X.509 v3 with the host among the subject alternative
/// names. Each certificate of the chain has a key and a signature of these kinds:
///
/// | key | signs with |
/// |---|---|
/// | ECDSA on P-256 or P-384 | SHA-256 or SHA-384 |
/// | Ed25519 | |
/// | RSA of 2,048 to 8,192 bits | SHA-256, SHA-384 or SHA-512, with PKCS #1 v1.5 or PSS |
///
/// So these are refused:
///
/// - Keys on P-521, of Ed448, and of RSA for PSS only or of another size.
/// - Signatures by SHA-1, or by ECDSA with SHA-512.
/// - Certificates of X.509 v1, and those with the host in the common name only.
///
/// Some providers have more, and a [`Dialer`](crate::net::Dialer) can use another TLS library.
///
/// Keep a clone as a handle: [`ClientTls::replace_roots`], [`ClientTls::replace_identity`] and
/// [`ClientTls::replace_config`] affect all clones, including those of clients. The other methods change only the value
/// that they return.
///
/// # Examples
///
/// ```no_run
/// # fn main() -> Result<(), corehttp::tls::ConfigError> {
/// use corehttp::tls::{self, ClientTls};
///
/// // Inside a company: its own authority, and a certificate of the client.
/// let tls = ClientTls::new()
///     .roots(tls::Roots::from_file("/etc/tls/our-ca.pem")?)
///     .identity(tls::Identity::from_files("/etc/tls/me.pem", "/etc/tls/me.key")?);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct ClientTls(Source);

/// Where the configuration of rustls comes from.
#[derive(Clone, Debug)]
enum Source {
    Settings(Settings),
    /// From the application.
    Config(Replaceable<Arc<ClientConfig>>),
}

#[derive(Clone, Debug)]
struct Settings {
    roots: Replaceable<Roots>,
    identity: Replaceable<Option<Identity>>,
    version_min: Version,
    host_check: HostCheck,
    cryptography: Cryptography,
}

/// How hosts have to prove their identity.
#[derive(Clone, Debug, Default)]
enum HostCheck {
    /// By a certificate that leads to one of the roots.
    #[default]
    Roots,
    Verifier(Arc<dyn ServerCertVerifier>),
}

impl ClientTls {
    /// Creates settings with the public authorities of [`Roots::from_webpki`] and no certificate.
    pub fn new() -> ClientTls {
        ClientTls(Source::Settings(Settings {
            roots: Replaceable::new(Roots::default()),
            identity: Replaceable::new(None),
            version_min: Version::default(),
            host_check: HostCheck::default(),
            cryptography: Cryptography::default(),
        }))
    }

    /// Takes a whole configuration of [`rustls`](crate::tls::rustls), for what the other methods do not set: a
    /// verifier, revocation lists, certificates of this side by a resolver, the protocols of ALPN, cipher suites, or a
    /// key log. Nothing is added to it, and the other settings of this value have no effect.
    ///
    /// Its [`alpn_protocols`](crate::tls::rustls::ClientConfig::alpn_protocols) may contain `http/1.1`, but not `h2`,
    /// which this client does not speak.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::sync::Arc;
    /// use corehttp::tls::rustls::crypto::ring::default_provider;
    /// use corehttp::tls::rustls::{ClientConfig, KeyLogFile, RootCertStore};
    /// use corehttp::Client;
    /// use corehttp::tls::ClientTls;
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let roots = RootCertStore::empty();
    /// let mut config = ClientConfig::builder_with_provider(Arc::new(default_provider()))
    ///     .with_safe_default_protocol_versions()?
    ///     .with_root_certificates(roots)
    ///     .with_no_client_auth();
    /// config.alpn_protocols = vec![b"http/1.1".to_vec()];
    /// config.key_log = Arc::new(KeyLogFile::new()); // for Wireshark, by SSLKEYLOGFILE
    /// let client = Client::builder().tls(ClientTls::from_config(config)).build();
    /// # Ok(())
    /// # }
    /// ```
    #[doc(alias = "use_preconfigured_tls")]
    pub fn from_config(config: impl Into<Arc<ClientConfig>>) -> ClientTls {
        ClientTls(Source::Config(Replaceable::new(config.into())))
    }

    /// Sets the certificate authorities that are trusted to identify hosts. Default: [`Roots::from_webpki`].
    #[doc(alias = "add_root_certificate")]
    pub fn roots(self, roots: Roots) -> ClientTls {
        self.with(|settings| settings.roots = Replaceable::new(roots))
    }

    /// Sets the certificate for servers that ask for one. Default: none.
    ///
    /// Its dates are left to the server, unlike those of a server's own certificate
    /// ([`ServerTls::check_dates`](crate::tls::ServerTls::check_dates)). An expired certificate must not cut the client
    /// off from servers that do not ask for one. Some servers also accept a certificate by its key, whatever its dates.
    /// A server that refuses it ends the handshake, with the error of its alert. [`Identity::not_after`] is for an
    /// alarm before.
    pub fn identity(self, identity: Identity) -> ClientTls {
        self.with(|settings| settings.identity = Replaceable::new(Some(identity)))
    }

    /// Sets the oldest version that is accepted. Default: [`Version::Tls12`].
    pub fn version_min(self, version: Version) -> ClientTls {
        self.with(|settings| settings.version_min = version)
    }

    /// Sets the cryptography: cipher suites, key exchange, and the signatures of hosts. Default: that of the crate
    /// ring. An identity signs with its own cryptography: see [`Identity::from_certified_key`].
    ///
    /// # Errors
    ///
    /// Fails with [`ConfigError::Provider`] if the provider has no cipher suite for TLS 1.3 or no key exchange for a
    /// suite.
    pub fn provider(self, provider: impl Into<Arc<CryptoProvider>>) -> Result<ClientTls, ConfigError> {
        let cryptography = Cryptography::from_provider(provider.into())?;
        Ok(self.with(|settings| settings.cryptography = cryptography))
    }

    /// **Gives up the protection of TLS.** With the settings behind this method, an attacker on the way can read and
    /// change all messages.
    pub fn dangerous(self) -> DangerousClientTls {
        DangerousClientTls { tls: self }
    }

    /// Replaces the authorities that are trusted, from the next handshake on, in all clones including those of clients.
    /// Earlier sessions are not resumed, and open connections are not affected. Has no effect after
    /// [`ClientTls::from_config`].
    pub fn replace_roots(&self, roots: Roots) {
        if let Source::Settings(settings) = &self.0 {
            settings.roots.set(roots);
        }
    }

    /// Replaces or removes the certificate for servers, from the next handshake on, in all clones including those of
    /// clients. Earlier sessions are not resumed, and open connections are not affected. As with
    /// [`ClientTls::identity`], the dates are left to the server. Has no effect after [`ClientTls::from_config`].
    pub fn replace_identity(&self, identity: impl Into<Option<Identity>>) {
        if let Source::Settings(settings) = &self.0 {
            settings.identity.set(identity.into());
        }
    }

    /// Replaces the whole configuration, from the next handshake on, in all clones including those of clients. Open
    /// connections are not affected. Has an effect only if the first one was [given](ClientTls::from_config) by the
    /// application, too.
    pub fn replace_config(&self, config: impl Into<Arc<ClientConfig>>) {
        if let Source::Config(replaceable) = &self.0 {
            replaceable.set(config.into());
        }
    }

    /// Makes the connector with these settings.
    pub(crate) fn connector(&self) -> TlsConnector {
        TlsConnector(match self.0.clone() {
            Source::Config(config) => CachedSource::Config(config),
            Source::Settings(settings) => {
                let trust = settings.trust();
                let cache = ConfigCache::new(settings.config(&trust), trust);
                CachedSource::Settings(Arc::new((settings, cache)))
            }
        })
    }

    /// Sets what verifies hosts, instead of the roots.
    pub(super) fn verified_by(self, verifier: Arc<dyn ServerCertVerifier>) -> ClientTls {
        self.with(|settings| settings.host_check = HostCheck::Verifier(verifier))
    }

    /// Changes the settings, if there are any.
    fn with(mut self, change: impl FnOnce(&mut Settings)) -> ClientTls {
        if let Source::Settings(settings) = &mut self.0 {
            change(settings);
        }
        self
    }
}

impl Default for ClientTls {
    /// [`ClientTls::new`].
    fn default() -> ClientTls {
        ClientTls::new()
    }
}

impl Settings {
    /// The parts that can be replaced, as they are at present.
    fn trust(&self) -> Trust {
        Trust { roots: self.roots.get(), identity: self.identity.get() }
    }

    /// The configuration for rustls.
    fn config(&self, trust: &Trust) -> ClientConfig {
        let config = ClientConfig::builder_with_provider(self.cryptography.provider())
            .with_protocol_versions(versions(self.version_min))
            .expect(VERSIONS_FIT);
        let config = match &self.host_check {
            HostCheck::Roots => config.with_root_certificates(trust.roots.store.clone()),
            HostCheck::Verifier(verifier) => {
                config.dangerous().with_custom_certificate_verifier(verifier.clone())
            }
        };
        let mut config = match &trust.identity {
            Some(identity) => {
                config.with_client_cert_resolver(Arc::new(SingleCertAndKey::from((*identity.key).clone())))
            }
            None => config.with_no_client_auth(),
        };
        config.alpn_protocols = alpn();
        config
    }
}

/// Whom a client trusts, and which certificate it shows.
struct Trust {
    roots: Roots,
    identity: Option<Identity>,
}

impl Parts for Trust {
    fn are_same(&self, others: &Trust) -> bool {
        let has_same_identity = match (&self.identity, &others.identity) {
            (None, None) => true,
            (Some(mine), Some(other)) => mine.is_same(other),
            (None, Some(_)) | (Some(_), None) => false,
        };
        has_same_identity && self.roots.is_same(&others.roots)
    }
}

impl Default for TlsConnector {
    fn default() -> TlsConnector {
        ClientTls::default().connector()
    }
}

/// Settings that give up the protection of TLS. See [`ClientTls::dangerous`].
#[derive(Clone, Debug)]
#[must_use]
pub struct DangerousClientTls {
    tls: ClientTls,
}

impl DangerousClientTls {
    /// **Accepts any certificate**, even an expired, self-signed or revoked one, another host's, and X.509 v1. Keys
    /// that could not be [verified](ClientTls#certificates) are accepted, too. Nothing in the certificate is checked. A
    /// server with a key on P-521, of Ed448 or for PSS only has to speak TLS 1.3. Passwords, cookies and bodies go to
    /// any attacker who intercepts the connection. No production system needs this method, and a test with a
    /// certificate of its own is better served by [`ClientTls::roots`].
    #[doc(alias = "danger_accept_invalid_certs")]
    pub fn accept_any_certificate(self) -> ClientTls {
        self.tls.verified_by(Arc::new(AcceptAny))
    }
}

/// Accepts any certificate, without reading it, and any signature: an attacker in between has a key to sign with, so
/// that a signature proves nothing if the certificate proves nothing. X.509 v1 and keys that ring cannot verify are
/// accepted as well.
#[derive(Debug)]
struct AcceptAny;

impl ServerCertVerifier for AcceptAny {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    /// All schemes of RFC 8446 §4.2.3, or a server whose key fits only one that is missing could not sign.
    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![
            SignatureScheme::ED25519,
            SignatureScheme::ECDSA_NISTP256_SHA256,
            SignatureScheme::ECDSA_NISTP384_SHA384,
            SignatureScheme::ECDSA_NISTP521_SHA512,
            SignatureScheme::ED448,
            SignatureScheme::RSA_PSS_SHA256,
            SignatureScheme::RSA_PSS_SHA384,
            SignatureScheme::RSA_PSS_SHA512,
            RSA_PSS_KEY_SHA256,
            RSA_PSS_KEY_SHA384,
            RSA_PSS_KEY_SHA512,
            SignatureScheme::RSA_PKCS1_SHA256,
            SignatureScheme::RSA_PKCS1_SHA384,
            SignatureScheme::RSA_PKCS1_SHA512,
            SignatureScheme::ECDSA_SHA1_Legacy,
            SignatureScheme::RSA_PKCS1_SHA1,
        ]
    }
}

/// `rsa_pss_pss_*`, for keys that are for RSASSA-PSS only, which rustls has no names for.
const RSA_PSS_KEY_SHA256: SignatureScheme = SignatureScheme::Unknown(0x0809);
const RSA_PSS_KEY_SHA384: SignatureScheme = SignatureScheme::Unknown(0x080a);
const RSA_PSS_KEY_SHA512: SignatureScheme = SignatureScheme::Unknown(0x080b);

/// A host that a certificate can be issued for: a name or an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HostName(ServerName<'static>);

impl HostName {
    /// Parses the host of a URL. Called before anything is dialed.
    ///
    /// # Errors
    ///
    /// Fails with [`Error::Host`] if no certificate can be issued for the host: better no connection than one that
    /// cannot be verified.
    pub(crate) fn new(host: &str) -> Result<HostName, Error> {
        let name = match UriHost::parse(host).map_err(|_| Error::Host)? {
            UriHost::Address(address) => return Ok(HostName(ServerName::IpAddress(address.into()))),
            UriHost::Name(name) => name,
        };
        // A final dot marks a name as complete; certificates and SNI omit it (RFC 6066 §3).
        let name = name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase();
        let name = DnsName::try_from(name).map_err(|_| Error::Host)?;
        Ok(HostName(ServerName::DnsName(name)))
    }
}

/// Does TLS handshakes with hosts that were dialed.
#[derive(Clone)]
pub(crate) struct TlsConnector(CachedSource);

#[derive(Clone)]
enum CachedSource {
    Settings(Arc<(Settings, ConfigCache<ClientConfig, Trust>)>),
    Config(Replaceable<Arc<ClientConfig>>),
}

impl TlsConnector {
    /// Does a handshake over `carrier`, at whose other end `host` must be.
    ///
    /// # Errors
    ///
    /// Fails if the peer is another host or is not trusted, if it refuses the client, or if the connection fails.
    pub(crate) async fn connect<C: AsyncRead + AsyncWrite + Unpin>(
        &self,
        host: HostName,
        carrier: C,
    ) -> Result<TlsStream<C>, Error> {
        let config = match &self.0 {
            CachedSource::Config(config) => config.get(),
            CachedSource::Settings(shared) => {
                let (settings, cache) = &**shared;
                cache.config(|| settings.trust(), |trust| settings.config(trust))
            }
        };
        let connect =
            tokio_rustls::TlsConnector::from(config).connect(host.0, Carrier::new(carrier)).into_fallible();
        let stream =
            connect.await.map_err(|(error, carrier)| carrier.handshake_error(Error::from_io(error)))?;
        Ok(TlsStream::new(stream))
    }
}

impl fmt::Debug for TlsConnector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connector").finish_non_exhaustive()
    }
}
