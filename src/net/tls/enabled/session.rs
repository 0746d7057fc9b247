//! [`Session`]: the result of a handshake; [`Cryptography`], and the versions and the protocol that both sides
//! offer.

use std::fmt;
use std::sync::Arc;

use tokio_rustls::TlsStream;
use tokio_rustls::rustls::crypto::{CryptoProvider, ring};
use tokio_rustls::rustls::server::ProducesTickets;
use tokio_rustls::rustls::version::{TLS12, TLS13};
use tokio_rustls::rustls::{
    HandshakeKind, ProtocolVersion, ServerConfig, SupportedCipherSuite, SupportedProtocolVersion,
};

use super::ConfigError;

/// A version of TLS. Older ones are not supported (RFC 8996).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Version {
    /// TLS 1.2 (RFC 5246).
    #[default]
    Tls12,
    /// TLS 1.3 (RFC 8446).
    Tls13,
}

impl Version {
    /// Returns the name of the version in OpenSSL and in the logs of most servers: `TLSv1.2` or `TLSv1.3`.
    pub fn as_str(self) -> &'static str {
        match self {
            Version::Tls12 => "TLSv1.2",
            Version::Tls13 => "TLSv1.3",
        }
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The result of a handshake: its parameters, and the identity of the peer.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Session {
    /// The version of TLS.
    pub version: Version,
    /// The cipher suite, by the name of rustls, such as `TLS13_AES_256_GCM_SHA384`. Empty for one without a name.
    pub cipher_suite: &'static str,
    /// The group of the key exchange, such as `X25519`. `None` if there was no exchange, as in a resumed session of TLS
    /// 1.2.
    pub key_exchange: Option<&'static str>,
    /// The protocol that both sides have agreed on by ALPN (RFC 7301), such as `http/1.1`. `None` if the client has
    /// offered none.
    pub alpn: Option<Vec<u8>>,
    /// The host that the peer asked for, in lower case, if any (RFC 6066 §3).
    pub server_name: Option<String>,
    /// Whether the session continues an earlier one (RFC 8446 §2.2). The peer was verified in that one.
    pub resumed: bool,
    /// The verified certificate of the peer and those that lead to a root, as DER. Empty if the peer was not asked for
    /// one, or showed none.
    pub certificates: Vec<Vec<u8>>,
}

impl Session {
    pub(super) fn from_stream<T>(stream: &TlsStream<T>) -> Session {
        let (_, common) = stream.get_ref();
        let version = match common.protocol_version() {
            Some(ProtocolVersion::TLSv1_3) => Version::Tls13,
            _ => Version::Tls12,
        };
        let server_name = match stream {
            TlsStream::Server(stream) => stream.get_ref().1.server_name(),
            TlsStream::Client(_) => None,
        };
        let certificates = common.peer_certificates().unwrap_or_default();
        let suite = common.negotiated_cipher_suite().as_ref().map(SupportedCipherSuite::suite);
        let group = common.negotiated_key_exchange_group().map(|group| group.name());
        Session {
            version,
            cipher_suite: suite.and_then(|suite| suite.as_str()).unwrap_or_default(),
            key_exchange: group.and_then(|group| group.as_str()),
            alpn: common.alpn_protocol().map(<[u8]>::to_vec),
            resumed: common.handshake_kind() == Some(HandshakeKind::Resumed),
            server_name: server_name.map(|name| name.strip_suffix('.').unwrap_or(name).to_owned()),
            certificates: certificates.iter().map(|certificate| certificate.to_vec()).collect(),
        }
    }
}

/// The cryptography of a configuration. The default of rustls would be that of the process, which another crate may
/// have set.
#[derive(Clone, Debug, Default)]
pub(super) enum Cryptography {
    #[default]
    Ring,
    /// From the application. Has suites for TLS 1.3, and a key exchange for each.
    Other(Arc<CryptoProvider>),
}

impl Cryptography {
    pub(super) fn from_provider(provider: Arc<CryptoProvider>) -> Result<Cryptography, ConfigError> {
        let checked = ServerConfig::builder_with_provider(provider.clone()).with_protocol_versions(NEWEST);
        checked.map_err(|error| ConfigError::Provider(error.into()))?;
        Ok(Cryptography::Other(provider))
    }

    pub(super) fn provider(&self) -> Arc<CryptoProvider> {
        match self {
            Cryptography::Ring => Arc::new(ring::default_provider()),
            Cryptography::Other(provider) => provider.clone(),
        }
    }

    /// Encrypts session tickets. `None` for a provider that cannot, and without randomness, when every handshake fails.
    pub(super) fn ticketer(&self) -> Option<Arc<dyn ProducesTickets>> {
        match self {
            Cryptography::Ring => ring::Ticketer::new().ok(),
            Cryptography::Other(_) => None,
        }
    }
}

/// The versions from `min` on.
pub(super) fn versions(min: Version) -> &'static [&'static SupportedProtocolVersion] {
    match min {
        Version::Tls12 => BOTH,
        Version::Tls13 => NEWEST,
    }
}

static BOTH: &[&SupportedProtocolVersion] = &[&TLS13, &TLS12];
static NEWEST: &[&SupportedProtocolVersion] = &[&TLS13];

/// The protocol inside, so that no peer expects HTTP/2 (RFC 7301 §6).
pub(super) fn alpn() -> Vec<Vec<u8>> {
    vec![b"http/1.1".to_vec()]
}

/// Why a configuration with these versions and suites cannot fail.
pub(super) const VERSIONS_FIT: &str = "each provider has suites for TLS 1.3";
