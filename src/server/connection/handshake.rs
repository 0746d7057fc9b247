//! The handshake that makes a new connection secure (RFC 8446 §2).

use std::future::poll_fn;
use std::io;
use std::mem;
use std::task::Poll;

use super::close::{hang_up, poll_idle};
use super::lease::Lease;
use crate::exchange::{ExchangeError, Phase};
use crate::net::tls::Acceptor;
use crate::net::{Conn, Lane, TlsError, Transport};
use crate::server::worker::Worker;
use crate::server::{Handler, Refusal, RefusalCause};

/// Makes `idle` secure, in the time that its first head has. Afterwards it is none if that is over: the peer has gone,
/// or the server stops.
///
/// # Errors
///
/// What ended it. The peer has been told already, if it could be.
pub(super) async fn secure<H: Handler>(
    worker: &Worker<H>,
    acceptor: &Acceptor,
    idle: &mut Option<Conn>,
) -> io::Result<()> {
    let Some(conn) = idle else { return Ok(()) };
    let mut handshake = acceptor.accept(mem::take(&mut conn.transport));
    let limit = worker.shared.bounds.timeouts.head;
    let end = poll_fn(|cx| match handshake.poll(cx) {
        Poll::Ready(Ok(stream)) => Poll::Ready(End::Secured(Transport::Tls(Box::new(stream)))),
        Poll::Ready(Err((error, transport))) => Poll::Ready(End::Failed(error, transport)),
        Poll::Pending => match conn.poll_expired(cx, Lane::Read, limit) {
            Poll::Ready(_) => Poll::Ready(End::TimedOut),
            Poll::Pending => poll_idle(conn, 0, cx).map(|()| End::Stopped),
        },
    })
    .await;
    let peer = conn.peer();
    match end {
        End::Secured(transport) => conn.transport = transport,
        // Some come only to see whether anybody is here, or in case they will have something to say.
        End::Stopped | End::Failed(TlsError::Io(_), _) => *idle = None,
        End::TimedOut => {
            *idle = None;
            let error = ExchangeError::TimedOut(Phase::Handshake);
            let served = error.as_io();
            worker.shared.report(Refusal::of_connection(peer, error.into()));
            return Err(served);
        }
        End::Failed(error, transport) => {
            conn.transport = transport;
            let served = error.as_io();
            worker.shared.report(Refusal::of_connection(peer, RefusalCause::Tls(error)));
            let mut lease = Lease::new(worker, worker.take_context());
            lease.adopt(idle.take(), 0);
            hang_up(&mut lease).await;
            return Err(served);
        }
    }
    Ok(())
}

/// How a handshake ended.
enum End {
    Secured(Transport),
    /// The transport is bare, and the peer was told what is wrong.
    Failed(TlsError, Transport),
    TimedOut,
    Stopped,
}
