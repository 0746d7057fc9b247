//! The handshake that makes a new connection secure (RFC 8446 §2).

use std::future::poll_fn;
use std::mem;
use std::rc::Rc;
use std::task::Poll;

use super::close::{hang_up, poll_newcomer};
use super::lease::Lease;
use super::refuse::turn_away;
use crate::exchange::{ExchangeError, Phase};
use crate::message::Status;
use crate::net::{Conn, Lane, TlsError, Transport};
use crate::server::errand::Rest;
use crate::server::error::Refused;
use crate::server::worker::Worker;
use crate::server::{Handler, Refusal, RefusalCause};

/// Makes a new connection secure, within the time of its first head.
pub(super) async fn secure<H: Handler>(worker: Rc<Worker<H>>, mut conn: Conn) -> Rest {
    let Some(acceptor) = &worker.shared.acceptor else { return Rest::Secured(Box::new(conn)) };
    let mut handshake = acceptor.accept(mem::take(&mut conn.transport));
    let limit = worker.shared.bounds.timeouts.head;
    let end = poll_fn(|cx| match handshake.poll(cx) {
        Poll::Ready(Ok(stream)) => Poll::Ready(End::Secured(Transport::Tls(Box::new(stream)))),
        Poll::Ready(Err((error, transport))) => Poll::Ready(End::Failed(error, transport)),
        Poll::Pending => match conn.poll_expired(cx, Lane::Read, limit) {
            Poll::Ready(_) => Poll::Ready(End::TimedOut),
            Poll::Pending => poll_newcomer(&mut conn, cx).map(|()| End::Stopped),
        },
    })
    .await;
    let peer = conn.peer();
    match end {
        End::Secured(transport) => {
            conn.transport = transport;
            Rest::Secured(Box::new(conn))
        }
        // Not worth a report: some peers only probe the port, and browsers open spare connections that they may never
        // use.
        End::Stopped | End::Failed(TlsError::Io(_), _) => Rest::Over(Ok(None)),
        End::TimedOut => {
            let error = ExchangeError::TimedOut(Phase::Handshake, limit.into());
            let served = error.as_io();
            worker.shared.report(Refusal::of_connection(peer, error.into()));
            Rest::Over(Err(served))
        }
        End::Failed(TlsError::PlainText, transport) => {
            conn.transport = transport;
            let served = TlsError::PlainText.as_io();
            let cause = RefusalCause::Tls(TlsError::PlainText);
            turn_away(&worker, conn, Refused::new(Status::BAD_REQUEST, cause)).await;
            Rest::Over(Err(served))
        }
        End::Failed(error, transport) => {
            conn.transport = transport;
            let served = error.as_io();
            worker.shared.report(Refusal::of_connection(peer, RefusalCause::Tls(error)));
            let mut lease = Lease::new(&worker, worker.take_context());
            lease.adopt(&mut Some(conn), 0);
            hang_up(&mut lease).await;
            Rest::Over(Err(served))
        }
    }
}

/// How a handshake ended.
enum End {
    Secured(Transport),
    /// The transport is the bare one again, and the peer was told what is wrong, unless it speaks plain HTTP.
    Failed(TlsError, Transport),
    TimedOut,
    Stopped,
}
