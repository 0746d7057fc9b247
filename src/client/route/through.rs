//! [`Proxy::open`]: opens a connection to an origin through a proxy.

use super::proxy::{Protocol, Proxy};
use super::tunnel::open_tunnel;
use crate::client::origin::Origin;
use crate::client::tls_handshake::TlsHandshake;
use crate::client::{ClientError, ClientPhase};
use crate::exchange::Bounds;
use crate::message::Scheme;
use crate::net::{BoxedStream, DialTimes, HostConnector, TlsConnector, Transport};
use crate::runtime;

impl Proxy {
    /// Opens a connection to `origin` through this proxy, or to the proxy itself if it reads the requests, and returns
    /// how long that took. The time that the proxy takes counts as connecting, its handshake included.
    ///
    /// # Errors
    ///
    /// Says which phase failed.
    pub(in crate::client) async fn open(
        &self,
        dial: &HostConnector,
        tls: &TlsConnector,
        origin: &Origin,
        limits: DialTimes,
        bounds: &Bounds,
    ) -> Result<(Transport<BoxedStream>, DialTimes), ClientError> {
        match self.protocol() {
            Protocol::Socks5(socks) => {
                socks.open(dial, self.address(), &self.as_subject(), origin, limits).await
            }
            Protocol::Http { scheme, .. } => {
                let (host, port) = self.address();
                let failed = |error: ClientError| error.with_subject(self.as_subject());
                let handshake =
                    TlsHandshake::for_scheme(*scheme, host, ClientPhase::Connect).map_err(failed)?;
                let dialed = dial.connect(host, port, limits).await;
                let undialed = |error| ClientError::dialing(error, &self.as_subject(), &self.as_subject());
                let (mut transport, mut times) = dialed.map_err(undialed)?;
                let left = |times: &DialTimes| limits.connect.saturating_sub(times.connect);
                if let Some(handshake) = handshake {
                    let took;
                    (transport, took) = handshake.run(tls, transport, left(&times)).await.map_err(failed)?;
                    times.connect += took;
                }
                // Otherwise each request will say where it is to go.
                if origin.scheme == Scheme::Https {
                    let tunnel_start = runtime::now();
                    let opened = open_tunnel(transport, self, origin, left(&times), bounds).await;
                    transport = opened.map_err(|error| error.with_subject(self.subject(origin)))?;
                    times.connect += runtime::now().saturating_duration_since(tunnel_start);
                }
                Ok((transport, times))
            }
        }
    }
}
