//! [`TlsHandshake`]: the handshake with a host, be it the origin or a proxy on the way there (RFC 9110 §4.3.3).

use std::time::Duration;

use super::cause::{ClientCause, ClientPhase};
use super::error::ClientError;
use crate::message::Scheme;
use crate::net::{BoxedStream, HostName, TlsConnector, TlsError, Transport, timed};

/// The handshake that a host of an `https` URL must pass, as a part of `phase`.
pub(super) struct TlsHandshake {
    host: HostName,
    phase: ClientPhase,
}

impl TlsHandshake {
    /// Returns the handshake with `host`, if the scheme is `https`.
    ///
    /// # Errors
    ///
    /// Fails if no certificate could be verified for the host. The host is then not even dialed.
    pub(super) fn for_scheme(
        scheme: Scheme,
        host: &str,
        phase: ClientPhase,
    ) -> Result<Option<TlsHandshake>, ClientError> {
        match scheme {
            Scheme::Http => Ok(None),
            Scheme::Https => {
                let host = HostName::new(host).map_err(|error| refused(phase, error))?;
                Ok(Some(TlsHandshake { host, phase }))
            }
        }
    }

    /// Performs the handshake over `transport` within `limit`, and returns how long it took.
    pub(super) async fn run(
        self,
        tls: &TlsConnector,
        transport: Transport<BoxedStream>,
        limit: Duration,
    ) -> Result<(Transport<BoxedStream>, Duration), ClientError> {
        let TlsHandshake { host, phase } = self;
        match timed(limit, tls.connect(host, transport)).await {
            (Some(Ok(stream)), took) => Ok((Transport::Tls(Box::new(stream)), took)),
            (Some(Err(error)), _) => Err(refused(phase, error)),
            (None, _) => Err(ClientError::new(phase, ClientCause::TimedOut)),
        }
    }
}

fn refused(phase: ClientPhase, error: TlsError) -> ClientError {
    ClientError::new(phase, ClientCause::Tls(error))
}
