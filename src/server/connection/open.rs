//! [`open`]: what precedes the first request of a connection: a PROXY header, and the handshake that makes it secure
//! (RFC 8446 §2).

use std::future::poll_fn;
use std::mem;
use std::ops::{Deref, DerefMut};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;

use super::close::{poll_stop_opening, shutdown_and_linger};
use super::context_guard::ContextGuard;
use super::handler_outcome::refuse_connection;
use super::per_core::{JobOutcome, PerCore};
use crate::exchange::{ExchangeError, Phase};
use crate::message::Status;
use crate::net::tls::TlsAcceptor;
use crate::net::{Conn, TimerSlot, Transport, tls};
use crate::server::core_state::CoreState;
use crate::server::error::Failure;
use crate::server::opening::{Opening, PeerPermit, RareConnectionState};
use crate::server::report::{ConnectionEnd, Unopened};
use crate::server::{ErrorCause, ErrorReport, Handler};

/// Does what precedes the first request, within the time of its head.
pub(super) async fn open<H: Handler + 'static>(per_core: Rc<PerCore<H>>, opening: Opening) -> JobOutcome {
    let Opening { conn, acceptor, expects_proxy_header, limiter, accepted_at } = opening;
    let mut conn = UnopenedConn::new(&per_core.core, conn);
    if let Some(accepted_at) = accepted_at {
        let waited = per_core.core.clock.now().saturating_duration_since(accepted_at);
        per_core.core.events.report_accept(waited);
    }
    let limit = per_core.core.bounds.timeouts.head;
    if let (true, Some(protocol)) = (expects_proxy_header, &per_core.core.proxies.protocol) {
        let header = match protocol.receive(&mut conn, limit, poll_stop_opening).await {
            Ok(header) => header,
            Err(cause) => {
                cause.into_iter().for_each(|cause| conn.fail(HANDSHAKE_FAILED, cause));
                return JobOutcome::Closed(Ok(None));
            }
        };
        if let Some(peer) = header.as_ref().and_then(|header| header.peer()) {
            conn.set_peer_addr(peer);
        }
        let peer = limiter.as_ref().map(|limiter| PeerPermit::acquire(limiter, conn.peer().addr));
        match peer.transpose() {
            Ok(peer) => RareConnectionState::update(&conn, |rare_state| {
                rare_state.proxy_header = header.map(Rc::new);
                rare_state.peer_permit = peer.flatten().map(Rc::new);
            }),
            Err(cause) => return refuse_peer(&per_core, conn, cause, acceptor.is_none()).await,
        }
    }
    match acceptor {
        Some(acceptor) => tls_handshake(&per_core, conn, &acceptor).await,
        None => JobOutcome::Opened(Box::new(conn.into_inner())),
    }
}

/// The end of a connection whose PROXY header or TLS handshake fails.
const HANDSHAKE_FAILED: ConnectionEnd = ConnectionEnd::Unopened(Unopened::Handshake);

/// Closes a connection of a peer that has too many, with a response if the connection is in the clear.
async fn refuse_peer<H: Handler + 'static>(
    per_core: &PerCore<H>,
    mut conn: UnopenedConn<'_>,
    cause: ErrorCause,
    is_plain: bool,
) -> JobOutcome {
    match is_plain {
        true => {
            let failure = Failure::new(Status::TOO_MANY_REQUESTS, cause);
            refuse_connection(per_core, conn.into_inner(), failure).await;
        }
        false => conn.fail(ConnectionEnd::Unopened(Unopened::Overload), cause),
    }
    JobOutcome::Closed(Ok(None))
}

/// Makes a new connection secure, within the time of its first head.
async fn tls_handshake<H: Handler + 'static>(
    per_core: &PerCore<H>,
    mut conn: UnopenedConn<'_>,
    acceptor: &TlsAcceptor,
) -> JobOutcome {
    let mut handshake = acceptor.accept(mem::take(&mut conn.transport));
    let limit = per_core.core.bounds.timeouts.head;
    // A resolver or a verifier of the application may panic.
    let ended =
        per_core.handshake_turns.run(|cx| match catch_unwind(AssertUnwindSafe(|| handshake.poll(cx))) {
            Err(_) => Poll::Ready(HandshakeOutcome::Failed(tls::Error::Panic, Transport::Closed)),
            Ok(Poll::Ready(Ok(stream))) if stream.is_validation() => Poll::Ready(HandshakeOutcome::Validated),
            Ok(Poll::Ready(Ok(stream))) => {
                Poll::Ready(HandshakeOutcome::Secured(Transport::Tls(Box::new(stream))))
            }
            Ok(Poll::Ready(Err((error, transport)))) => {
                Poll::Ready(HandshakeOutcome::Failed(error, transport))
            }
            Ok(Poll::Pending) => Poll::Pending,
        });
    let outcome = {
        let mut ended = pin!(ended);
        let wait = poll_fn(|cx| match ended.as_mut().poll(cx) {
            Poll::Ready(outcome) => Poll::Ready(outcome),
            Poll::Pending => match conn.poll_timeout(cx, TimerSlot::Read, limit) {
                Poll::Ready(_) => Poll::Ready(HandshakeOutcome::TimedOut),
                Poll::Pending => poll_stop_opening(&mut conn, cx).map(|()| HandshakeOutcome::Stopped),
            },
        });
        wait.await
    };
    match outcome {
        HandshakeOutcome::Secured(transport) => {
            conn.transport = transport;
            JobOutcome::Opened(Box::new(conn.into_inner()))
        }
        // Such an end is not worth a report: some peers only probe the port, and browsers open spare connections that
        // they may never use.
        HandshakeOutcome::Stopped
        | HandshakeOutcome::Validated
        | HandshakeOutcome::Failed(tls::Error::Io(_), _) => JobOutcome::Closed(Ok(None)),
        HandshakeOutcome::TimedOut => {
            let error = ExchangeError::TimedOut(Phase::Handshake, limit.into());
            let result = error.as_io();
            conn.fail(HANDSHAKE_FAILED, error.into());
            JobOutcome::Closed(Err(result))
        }
        HandshakeOutcome::Failed(tls::Error::PlainText, transport) => {
            conn.transport = transport;
            let result = tls::Error::PlainText.as_io();
            let cause = ErrorCause::Tls(tls::Error::PlainText);
            refuse_connection(per_core, conn.into_inner(), Failure::new(Status::BAD_REQUEST, cause)).await;
            JobOutcome::Closed(Err(result))
        }
        HandshakeOutcome::Failed(error, transport) => {
            conn.transport = transport;
            let result = error.as_io();
            per_core.core.report_error(ErrorReport::from_connection(conn.peer(), ErrorCause::Tls(error)));
            let mut guard = ContextGuard::new(per_core, per_core.take_context());
            guard.exchange.attach(&mut Some(conn.into_inner()), 0);
            guard.exchange.info.connection_end = HANDSHAKE_FAILED;
            shutdown_and_linger(&mut guard.exchange).await;
            JobOutcome::Closed(Err(result))
        }
    }
}

/// A connection that has not opened. Unless it is taken out, its end is reported.
struct UnopenedConn<'c> {
    core: &'c CoreState,
    conn: Option<Conn>,
    end: ConnectionEnd,
}

impl<'c> UnopenedConn<'c> {
    fn new(core: &'c CoreState, conn: Conn) -> UnopenedConn<'c> {
        UnopenedConn { core, conn: Some(conn), end: ConnectionEnd::Unopened(Unopened::Closed) }
    }

    /// Notes that the connection is not answered, and reports why.
    fn fail(&mut self, end: ConnectionEnd, cause: ErrorCause) {
        self.end = end;
        self.core.report_error(ErrorReport::from_connection(self.peer(), cause));
    }

    fn into_inner(mut self) -> Conn {
        self.conn.take().expect("a connection is taken out once")
    }
}

impl Deref for UnopenedConn<'_> {
    type Target = Conn;

    fn deref(&self) -> &Conn {
        self.conn.as_ref().expect("a connection is here until it is taken out")
    }
}

impl DerefMut for UnopenedConn<'_> {
    fn deref_mut(&mut self) -> &mut Conn {
        self.conn.as_mut().expect("a connection is here until it is taken out")
    }
}

impl Drop for UnopenedConn<'_> {
    fn drop(&mut self) {
        if let Some(conn) = &self.conn {
            self.core.report_connection_end(conn, self.end);
        }
    }
}

/// How a handshake ended.
enum HandshakeOutcome {
    Secured(Transport),
    /// An authority has validated a name. Such a connection carries no requests (RFC 8737 §3).
    Validated,
    /// The transport is the bare one again, unless a panic has closed it. The peer has received an alert, unless it speaks
    /// plain HTTP.
    Failed(tls::Error, Transport),
    TimedOut,
    Stopped,
}
