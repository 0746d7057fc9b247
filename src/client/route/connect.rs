//! Opens a connection to an origin: look up, connect, ask the proxy, shake hands.

use std::time::Duration;

use super::proxy::{Protocol, Proxy};
use super::tunnel::open_tunnel;
use crate::client::origin::Origin;
use crate::client::settings::Settings;
use crate::client::{ClientCause, ClientError, ClientPhase};
use crate::message::{Scheme, Timings};
use crate::net::{Anywhere, BoxedStream, Conn, DialTimes, HostName, Stopwatch, TlsError, Transport, timed};
use crate::runtime::{self, Instant, timeout_at};

/// Opens a connection to `origin` before `deadline`, through `proxy` if there is one, and notes how long that took.
///
/// # Errors
///
/// Says which phase failed.
pub(in crate::client) async fn connect(
    settings: &Settings,
    origin: &Origin,
    proxy: Option<&Proxy>,
    deadline: Option<Instant>,
    timings: &mut Timings,
) -> Result<Conn<Anywhere>, ClientError> {
    let left =
        || deadline.map_or(Duration::MAX, |deadline| deadline.saturating_duration_since(runtime::now()));
    let timeouts = &settings.timeouts;
    // Whoever could not be verified is not even dialed.
    let verified = match origin.scheme {
        Scheme::Http => None,
        Scheme::Https => Some(HostName::new(origin.host()).map_err(tls_error)?),
    };
    let limits = DialTimes { resolve: timeouts.resolve.min(left()), connect: timeouts.connect.min(left()) };
    let opening = open(settings, origin, proxy, limits);
    // What is left is for all steps, and each of them alone may take it all.
    let (mut transport, times) = match deadline {
        Some(deadline) => timeout_at(deadline, opening)
            .await
            .unwrap_or_else(|_| Err(ClientError::new(ClientPhase::Connect, ClientCause::TimedOut)))?,
        None => opening.await?,
    };
    (timings.resolve, timings.connect) = (times.resolve, times.connect);
    if let Some(host) = verified {
        let (secure, took) = timed(timeouts.tls.min(left()), settings.tls.connect(host, transport)).await;
        let timed_out = || ClientError::new(ClientPhase::Tls, ClientCause::TimedOut);
        transport = secure.ok_or_else(timed_out)?.map_err(tls_error)?;
        timings.tls = took;
    }
    Ok(Conn::new(transport, Stopwatch::new()))
}

fn tls_error(error: TlsError) -> ClientError {
    ClientError::new(ClientPhase::Tls, ClientCause::Tls(error))
}

async fn open(
    settings: &Settings,
    origin: &Origin,
    proxy: Option<&Proxy>,
    limits: DialTimes,
) -> Result<(Transport<BoxedStream>, DialTimes), ClientError> {
    let dial = &settings.dial;
    let Some(proxy) = proxy else { return Ok(dial.connect(origin.host(), origin.port, limits).await?) };
    match proxy.protocol() {
        Protocol::Socks5(socks) => socks.open(dial, proxy, origin, limits).await,
        Protocol::Http { authorization } => {
            let (transport, mut times) = dial.connect(proxy.host(), proxy.port(), limits).await?;
            if origin.scheme == Scheme::Http {
                // Each request says where it is to go.
                return Ok((transport, times));
            }
            let (asked, left) = (runtime::now(), limits.connect.saturating_sub(times.connect));
            let transport =
                open_tunnel(transport, origin, authorization.as_deref(), left, &settings.bounds).await?;
            times.connect += runtime::now().saturating_duration_since(asked);
            Ok((transport, times))
        }
    }
}
