//! [`Proxy::open`]: opens a connection to an origin through a proxy.

use super::proxy::{Protocol, Proxy};
use super::tunnel::open_tunnel;
use crate::client::ClientError;
use crate::client::origin::Origin;
use crate::exchange::Bounds;
use crate::message::Scheme;
use crate::net::{BoxedStream, Dial, DialTimes, Transport};
use crate::runtime;

impl Proxy {
    /// Opens a connection to `origin` through this proxy, or to the proxy itself if it reads the requests, and returns
    /// how long that took. The time that the proxy takes counts as connecting.
    ///
    /// # Errors
    ///
    /// Says which phase failed.
    pub(in crate::client) async fn open(
        &self,
        dial: &Dial,
        origin: &Origin,
        limits: DialTimes,
        bounds: &Bounds,
    ) -> Result<(Transport<BoxedStream>, DialTimes), ClientError> {
        match self.protocol() {
            Protocol::Socks5(socks) => socks.open(dial, self.address(), origin, limits).await,
            Protocol::Http { authorization } => {
                let (host, port) = self.address();
                let (transport, mut times) = dial.connect(host, port, limits).await?;
                if origin.scheme == Scheme::Http {
                    // Each request will say where it is to go.
                    return Ok((transport, times));
                }
                let (asked, left) = (runtime::now(), limits.connect.saturating_sub(times.connect));
                let transport =
                    open_tunnel(transport, origin, authorization.as_deref(), left, bounds).await?;
                times.connect += runtime::now().saturating_duration_since(asked);
                Ok((transport, times))
            }
        }
    }
}
