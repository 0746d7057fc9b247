//! [`ClientUpgraded`]: a connection that speaks another protocol from here on, and how a request leads to one (RFC 9110
//! §7.8).

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

use super::request_sender::RequestSender;
use super::sent_request::Until;
use crate::client::call::InFlightGuard;
use crate::client::error::{ClientCause, ClientError, ClientPhase};
use crate::client::pool::{Pool, PooledConn};
use crate::message::{Request, Response, Status};
use crate::net::{Rewind, Stream, delegate_stream};

/// A connection that was upgraded: bytes in both directions, and no longer HTTP.
///
/// Made by [`Client::upgrade`](crate::Client::upgrade). Reading begins with what the server has already sent. There are no
/// timeouts but your own, and the connection no longer counts in the pool. Dropping it closes the connection.
///
/// The server's side of such a connection is an [`Upgraded`](crate::server::Upgraded).
///
/// Flush the written bytes before you wait for the server. Over TLS, the last of them may still be held back.
pub struct ClientUpgraded {
    stream: Rewind<Pin<Box<dyn Stream + Send>>>,
    /// The guard by which a balancer counts the tunnel as pending.
    in_flight: Option<InFlightGuard>,
}

impl ClientUpgraded {
    fn new(pooled: PooledConn) -> ClientUpgraded {
        let (conn, early) = pooled.into_parts();
        let (transport, _timer) = conn.into_parts();
        ClientUpgraded { stream: Rewind::new(transport, early), in_flight: None }
    }

    /// Returns this connection, which a balancer counts as pending until it is dropped.
    pub(crate) fn with_guard(self, in_flight: Option<InFlightGuard>) -> ClientUpgraded {
        ClientUpgraded { in_flight, ..self }
    }
}

delegate_stream!(ClientUpgraded, stream);

impl fmt::Debug for ClientUpgraded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientUpgraded")
            .field("is_counted", &self.in_flight.is_some())
            .finish_non_exhaustive()
    }
}

/// Sends `request`, which has an `upgrade` field, and hands the connection over to the caller. `pool` is the pool of
/// its origin, if the caller has it.
pub(in crate::client) async fn upgrade(
    sender: &RequestSender,
    pool: Option<Arc<Pool>>,
    request: &Request,
    response: &mut Response,
) -> Result<ClientUpgraded, ClientError> {
    switch(sender, pool, request, response).await.map(ClientUpgraded::new)
}

/// As [`upgrade`], for a caller that checks the response first. No redirect is followed.
///
/// # Errors
///
/// Fails if the server refuses the upgrade. Its response is then received whole, for the reason in its body.
pub(in crate::client) async fn switch(
    sender: &RequestSender,
    pool: Option<Arc<Pool>>,
    request: &Request,
    response: &mut Response,
) -> Result<PooledConn, ClientError> {
    let timeouts = sender.timeouts();
    let outgoing = sender.outgoing(request);
    let attempt = sender.attempt(pool, &outgoing, Until::Answered(response), &timeouts).await?;
    let mut pooled = attempt.into_answered(response);
    if response.status == Status::SWITCHING_PROTOCOLS {
        return Ok(pooled);
    }
    let refused = pooled.error(ClientPhase::Wait, ClientCause::Upgrade).with_url(request.target().as_str());
    let refused = refused.with_detail(format!("the server answered {}", response.status));
    let received = match pooled.decode(response) {
        Ok(()) => pooled.receive_body(response).await,
        failed => failed,
    };
    if received.is_err() {
        // A part of the body would pass for all of it. The refusal of the upgrade matters more than the error of its
        // body.
        response.body.clear();
    }
    Err(refused)
}
