//! [`TlsSession`]: what a handshake agreed on, and who the peer is.

use tokio_rustls::TlsStream;
use tokio_rustls::rustls::{HandshakeKind, ProtocolVersion};

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

/// What a handshake agreed on, and who the peer is.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TlsSession {
    /// The version of TLS.
    pub version: TlsVersion,
    /// The host that the peer asked for, in lower case, if it did (RFC 6066 §3).
    pub server_name: Option<String>,
    /// Whether it continues an earlier session, in which the peer was verified (RFC 8446 §2.2).
    pub resumed: bool,
    /// The verified certificate of the peer and those that lead to a root, as DER. Empty if the peer was not asked for
    /// one, or showed none.
    pub certificates: Vec<Vec<u8>>,
}

impl TlsSession {
    pub(super) fn of<T>(stream: &TlsStream<T>) -> TlsSession {
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
