//! [`ClientTls`]: how a client makes its connections secure; [`TlsConnector`]: does the handshakes (RFC 9110 §4.3.4).

use std::fmt;
use std::sync::Arc;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::rustls::ClientConfig;
use tokio_rustls::rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use tokio_rustls::rustls::pki_types::{CertificateDer, DnsName, ServerName, UnixTime};
use tokio_rustls::rustls::sign::SingleCertAndKey;
use tokio_rustls::rustls::{DigitallySignedStruct, Error, SignatureScheme};

use super::carrier::Carrier;
use super::session::{VERSIONS_FIT, alpn, provider, versions};
use super::{TlsIdentity, TlsRoots, TlsStream, TlsVersion};
use crate::net::UriHost;
use crate::net::tls::TlsError;

/// How a client makes its connections secure: with TLS 1.2 and 1.3, resumed sessions, and verification of every host.
///
/// # Certificates
///
/// The crates ring and rustls-webpki verify certificates. They take X.509 v3 with the host among the subject alternative
/// names, and keys and signatures of these kinds, in each certificate of the chain:
///
/// | key | signs with |
/// |---|---|
/// | ECDSA on P-256 or P-384 | SHA-256 or SHA-384 |
/// | Ed25519 | |
/// | RSA of 2,048 to 8,192 bits | SHA-256, SHA-384 or SHA-512, with PKCS #1 v1.5 or PSS |
///
/// So a host cannot prove its identity with a key on P-521, a key of Ed448, an RSA key that is for PSS only or of another
/// size, with ECDSA and SHA-512, or with SHA-1; nor with a certificate of X.509 v1, or one that names the host in its
/// common name only. For a server like that there is a [`Dialer`](crate::Dialer), with another TLS library.
///
/// # Examples
///
/// ```no_run
/// # fn main() -> Result<(), corehttp::TlsConfigError> {
/// use corehttp::{ClientTls, TlsIdentity, TlsRoots};
///
/// // Inside a company: its own authority, and a certificate of the client.
/// let tls = ClientTls::new()
///     .roots(TlsRoots::from_file("/etc/tls/our-ca.pem")?)
///     .identity(TlsIdentity::from_files("/etc/tls/me.pem", "/etc/tls/me.key")?);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct ClientTls {
    roots: TlsRoots,
    identity: Option<TlsIdentity>,
    version_min: TlsVersion,
    host_check: HostCheck,
}

/// Whether hosts have to prove their identity.
#[derive(Clone, Copy, Debug, Default)]
enum HostCheck {
    #[default]
    Verify,
    Skip,
}

impl ClientTls {
    /// Creates settings that trust the public authorities, [`TlsRoots::from_webpki`], and show no certificate.
    pub fn new() -> ClientTls {
        ClientTls::default()
    }

    /// Sets the certificate authorities that are trusted to identify hosts. Default: [`TlsRoots::from_webpki`].
    #[doc(alias = "add_root_certificate")]
    pub fn roots(mut self, roots: TlsRoots) -> ClientTls {
        self.roots = roots;
        self
    }

    /// Sets the certificate that is shown to servers that ask for one. Default: none.
    pub fn identity(mut self, identity: TlsIdentity) -> ClientTls {
        self.identity = Some(identity);
        self
    }

    /// Sets the oldest version that is accepted. Default: [`TlsVersion::Tls12`].
    pub fn version_min(mut self, version: TlsVersion) -> ClientTls {
        self.version_min = version;
        self
    }

    /// **Gives up the protection of TLS.** With the settings behind this method, an attacker on the way can read and
    /// change all messages.
    pub fn dangerous(self) -> DangerousClientTls {
        DangerousClientTls { tls: self }
    }

    /// Makes the connector with these settings.
    pub(crate) fn connector(&self) -> TlsConnector {
        let config = ClientConfig::builder_with_provider(provider())
            .with_protocol_versions(versions(self.version_min))
            .expect(VERSIONS_FIT);
        let config = match self.host_check {
            HostCheck::Verify => config.with_root_certificates(self.roots.store.clone()),
            HostCheck::Skip => config.dangerous().with_custom_certificate_verifier(Arc::new(AcceptAny)),
        };
        let mut config = match &self.identity {
            Some(identity) => {
                config.with_client_cert_resolver(Arc::new(SingleCertAndKey::from((*identity.key).clone())))
            }
            None => config.with_no_client_auth(),
        };
        config.alpn_protocols = alpn();
        TlsConnector::new(config)
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
    /// **Accepts any certificate**, even if it is expired, self-signed, revoked or another host's, of X.509 v1, or with
    /// a key that could not be [verified](ClientTls#certificates). Nothing in the certificate is checked. A server with
    /// a key on P-521, of Ed448 or for PSS only has to speak TLS 1.3. Passwords, cookies and bodies go to any attacker
    /// who intercepts the connection. No production system needs this method, and a test with a certificate of its own
    /// is better served by [`ClientTls::roots`].
    #[doc(alias = "danger_accept_invalid_certs")]
    pub fn accept_any_certificate(self) -> ClientTls {
        ClientTls { host_check: HostCheck::Skip, ..self.tls }
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
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
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
    /// Fails with [`TlsError::Host`] if no certificate can be issued for the host: better no connection than one that
    /// cannot be verified.
    pub(crate) fn new(host: &str) -> Result<HostName, TlsError> {
        let name = match UriHost::parse(host).map_err(|_| TlsError::Host)? {
            UriHost::Address(address) => return Ok(HostName(ServerName::IpAddress(address.into()))),
            UriHost::Name(name) => name,
        };
        // A final dot marks a name as complete; certificates and SNI omit it (RFC 6066 §3).
        let name = name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase();
        let name = DnsName::try_from(name).map_err(|_| TlsError::Host)?;
        Ok(HostName(ServerName::DnsName(name)))
    }
}

/// Does TLS handshakes with hosts that were dialed.
#[derive(Clone)]
pub(crate) struct TlsConnector {
    config: Arc<ClientConfig>,
}

impl TlsConnector {
    fn new(config: ClientConfig) -> TlsConnector {
        TlsConnector { config: Arc::new(config) }
    }

    /// Does a handshake over `carrier`, at whose other end `host` must be.
    ///
    /// # Errors
    ///
    /// Fails if the peer is another host or is not trusted, if it refuses the client, or if the connection fails.
    pub(crate) async fn connect<C: AsyncRead + AsyncWrite + Unpin>(
        &self,
        host: HostName,
        carrier: C,
    ) -> Result<TlsStream<C>, TlsError> {
        let connect = tokio_rustls::TlsConnector::from(self.config.clone())
            .connect(host.0, Carrier::new(carrier))
            .into_fallible();
        let stream = connect.await.map_err(|(error, carrier)| carrier.blame(TlsError::from_io(error)))?;
        Ok(TlsStream(stream.into()))
    }
}

impl fmt::Debug for TlsConnector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connector").finish_non_exhaustive()
    }
}
