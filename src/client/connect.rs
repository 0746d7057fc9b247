//! Opens a connection to an origin: look up, connect, ask the proxy, shake hands.

use std::time::Duration;

use super::origin::Origin;
use super::settings::Settings;
use super::tls_handshake::TlsHandshake;
use super::{ClientCause, ClientError, ClientPhase, Proxy};
use crate::message::Timings;
use crate::net::{Conn, DialTimes, Sendable, TokioTimer};
use crate::runtime::{self, Instant, timeout_at};

/// Opens a connection to `origin` before `deadline`, through `proxy` if there is one, and notes how long that took.
///
/// # Errors
///
/// Says which phase failed.
pub(super) async fn connect(
    settings: &Settings,
    origin: &Origin,
    proxy: Option<&Proxy>,
    deadline: Option<Instant>,
    timings: &mut Timings,
) -> Result<Box<Conn<Sendable>>, ClientError> {
    let opened = open(settings, origin, proxy, deadline, timings).await;
    let subject = || proxy.map_or_else(|| origin.host_and_port(), |proxy| proxy.subject(origin));
    opened.map_err(|error| error.with_subject(subject()))
}

async fn open(
    settings: &Settings,
    origin: &Origin,
    proxy: Option<&Proxy>,
    deadline: Option<Instant>,
    timings: &mut Timings,
) -> Result<Box<Conn<Sendable>>, ClientError> {
    let left =
        || deadline.map_or(Duration::MAX, |deadline| deadline.saturating_duration_since(runtime::now()));
    let timeouts = &settings.timeouts;
    let handshake = TlsHandshake::for_scheme(origin.scheme, origin.host(), ClientPhase::Tls)?;
    let limits = DialTimes { resolve: timeouts.resolve.min(left()), connect: timeouts.connect.min(left()) };
    let opening = async {
        match proxy {
            None => {
                let opened = settings.dial.connect(origin.host(), origin.port, limits).await;
                opened.map_err(|error| ClientError::dialing(error, origin.host(), &origin.host_and_port()))
            }
            Some(proxy) => proxy.open(&settings.dial, &settings.tls, origin, limits, &settings.bounds).await,
        }
    };
    // The remaining time limits all steps together, and each one could use it up alone.
    let (mut transport, times) = match deadline {
        Some(deadline) => timeout_at(deadline, opening)
            .await
            .unwrap_or_else(|_| Err(ClientError::new(ClientPhase::Connect, ClientCause::TimedOut)))?,
        None => opening.await?,
    };
    (timings.resolve, timings.connect) = (times.resolve, times.connect);
    if let Some(handshake) = handshake {
        (transport, timings.tls) = handshake.run(&settings.tls, transport, timeouts.tls.min(left())).await?;
    }
    Ok(Box::new(Conn::new(transport, TokioTimer::new())))
}
