//! [`TlsSession`]: the result of a handshake; and the cryptography, versions and protocol that both sides offer.

use std::sync::Arc;

use tokio_rustls::TlsStream;
use tokio_rustls::rustls::crypto::{CryptoProvider, ring};
use tokio_rustls::rustls::version::{TLS12, TLS13};
use tokio_rustls::rustls::{HandshakeKind, ProtocolVersion, SupportedProtocolVersion};

/// A version of TLS. Older ones are not supported (RFC 8996).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum TlsVersion {
    /// TLS 1.2 (RFC 5246).
    #[default]
    Tls12,
    /// TLS 1.3 (RFC 8446).
    Tls13,
}

/// The result of a handshake: its parameters, and the identity of the peer.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TlsSession {
    /// The version of TLS.
    pub version: TlsVersion,
    /// The host that the peer asked for, in lower case, if it did (RFC 6066 §3).
    pub server_name: Option<String>,
    /// Whether the session continues an earlier one, in which the peer was verified (RFC 8446 §2.2).
    pub resumed: bool,
    /// The verified certificate of the peer and those that lead to a root, as DER. Empty if the peer was not asked for
    /// one, or showed none.
    pub certificates: Vec<Vec<u8>>,
}

impl TlsSession {
    pub(super) fn from_stream<T>(stream: &TlsStream<T>) -> TlsSession {
        let (_, common) = stream.get_ref();
        let version = match common.protocol_version() {
            Some(ProtocolVersion::TLSv1_3) => TlsVersion::Tls13,
            _ => TlsVersion::Tls12,
        };
        let server_name = match stream {
            TlsStream::Server(stream) => stream.get_ref().1.server_name(),
            TlsStream::Client(_) => None,
        };
        let certificates = common.peer_certificates().unwrap_or_default();
        TlsSession {
            version,
            resumed: common.handshake_kind() == Some(HandshakeKind::Resumed),
            server_name: server_name.map(str::to_owned),
            certificates: certificates.iter().map(|certificate| certificate.to_vec()).collect(),
        }
    }
}

/// The cryptography of each configuration. The default of rustls is that of the process, which another crate may have
/// set.
pub(super) fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}

/// The versions from `min` on.
pub(super) fn versions(min: TlsVersion) -> &'static [&'static SupportedProtocolVersion] {
    match min {
        TlsVersion::Tls12 => BOTH,
        TlsVersion::Tls13 => NEWEST,
    }
}

static BOTH: &[&SupportedProtocolVersion] = &[&TLS13, &TLS12];
static NEWEST: &[&SupportedProtocolVersion] = &[&TLS13];

/// The protocol inside, so that no peer expects HTTP/2 (RFC 7301 §6).
pub(super) fn alpn() -> Vec<Vec<u8>> {
    vec![b"http/1.1".to_vec()]
}

/// Why a configuration with these versions and suites cannot fail.
pub(super) const VERSIONS_FIT: &str = "ring has suites for both versions";
