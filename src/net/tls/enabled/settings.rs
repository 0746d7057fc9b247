//! Settings that both sides have in common: cryptography, versions, protocol.

use std::sync::Arc;

use tokio_rustls::rustls::SupportedProtocolVersion;
use tokio_rustls::rustls::crypto::{CryptoProvider, ring};
use tokio_rustls::rustls::version::{TLS12, TLS13};

use super::TlsVersion;

/// The cryptography of each configuration. The default would be that of the process, which others may have chosen.
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
