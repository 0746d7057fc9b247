//! [`ClientTls`]: how a client makes its connections secure.

use std::sync::Arc;

use tokio_rustls::rustls::ClientConfig;
use tokio_rustls::rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use tokio_rustls::rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use tokio_rustls::rustls::sign::SingleCertAndKey;
use tokio_rustls::rustls::{DigitallySignedStruct, Error, SignatureScheme};

use super::connector::Connector;
use super::settings::{VERSIONS_FIT, alpn, provider, versions};
use super::{TlsIdentity, TlsRoots, TlsVersion};

/// How a client makes its connections secure: with TLS 1.2 and 1.3, resumed sessions, and verification of every host.
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
    hosts: Hosts,
}

/// Whether hosts have to prove their identity.
#[derive(Clone, Copy, Debug, Default)]
enum Hosts {
    #[default]
    Verified,
    Believed,
}

impl ClientTls {
    /// Creates settings that trust the public authorities, [`TlsRoots::webpki`], and show no certificate.
    pub fn new() -> ClientTls {
        ClientTls::default()
    }

    /// Sets the certificate authorities that are trusted to identify hosts. Default: [`TlsRoots::webpki`].
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

    /// **Gives up what TLS is for.** With the settings behind this method, anybody on the way can read and change what
    /// is sent.
    pub fn dangerous(self) -> DangerousClientTls {
        DangerousClientTls { tls: self }
    }

    /// Makes the connector with these settings.
    pub(crate) fn connector(&self) -> Connector {
        let config = ClientConfig::builder_with_provider(provider())
            .with_protocol_versions(versions(self.version_min))
            .expect(VERSIONS_FIT);
        let config = match self.hosts {
            Hosts::Verified => config.with_root_certificates(self.roots.store.clone()),
            Hosts::Believed => config
                .dangerous()
                .with_custom_certificate_verifier(Arc::new(AcceptAny { provider: provider() })),
        };
        let mut config = match &self.identity {
            Some(identity) => {
                config.with_client_cert_resolver(Arc::new(SingleCertAndKey::from((*identity.key).clone())))
            }
            None => config.with_no_client_auth(),
        };
        config.alpn_protocols = alpn();
        Connector::new(config)
    }
}

impl Default for Connector {
    fn default() -> Connector {
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
    /// **Accepts any certificate**, even if it is expired, self-signed, revoked or another host's. Passwords, cookies
    /// and bodies go to whoever intercepts the connection. No production system needs this, and a test with a
    /// certificate of its own is better served by [`ClientTls::roots`].
    #[doc(alias = "danger_accept_invalid_certs")]
    pub fn accept_any_certificate(self) -> ClientTls {
        ClientTls { hosts: Hosts::Believed, ..self.tls }
    }
}

/// Accepts any certificate. Whether the peer has its key is still checked.
#[derive(Debug)]
struct AcceptAny {
    provider: Arc<CryptoProvider>,
}

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
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
