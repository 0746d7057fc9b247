//! [`TlsConnector`]: does TLS handshakes with hosts that were dialed; [`HostName`]: who they must prove to be (RFC 9110 §4.3.4).

use std::fmt;
use std::sync::Arc;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::rustls::ClientConfig;
use tokio_rustls::rustls::pki_types::{DnsName, ServerName};

use super::TlsStream;
use super::carrier::Carrier;
use crate::net::UriHost;
use crate::net::tls::TlsError;

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
    pub(super) fn new(config: ClientConfig) -> TlsConnector {
        TlsConnector { config: Arc::new(config) }
    }

    /// Does a handshake over `carrier`, at whose other end `host` must be.
    ///
    /// # Errors
    ///
    /// Fails if the host is another one or is not trusted, if it refuses us, or if the connection fails.
    pub(crate) async fn connect<C: AsyncRead + AsyncWrite + Unpin>(
        &self,
        host: HostName,
        carrier: C,
    ) -> Result<TlsStream<C>, TlsError> {
        let connect = tokio_rustls::TlsConnector::from(self.config.clone())
            .connect(host.0, Carrier::new(carrier))
            .into_fallible();
        let stream = connect.await.map_err(|(error, carrier)| carrier.blame(TlsError::of(error)))?;
        Ok(TlsStream(stream.into()))
    }
}

impl fmt::Debug for TlsConnector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connector").finish_non_exhaustive()
    }
}
