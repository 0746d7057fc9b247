//! [`AcceptLoop`]: accepts the connections of one core, hands some to other cores, and stops.

use std::future::poll_fn;
use std::io;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{self, Poll};
use std::time::{Duration, Instant};

use tokio::sync::{mpsc, watch};

use super::idle_evictor::{IdleEvictor, make_room};
use super::server_handle::StopOnDrop;
use super::stop::{Stop, delay_elapsed, grace_elapsed};
use crate::message::Status;
use crate::net::tls::{CertificateWatch, TlsAcceptor};
use crate::net::{
    AcceptReaction, Accepted, Conn, DetachedTransport, Listener, Peer, PeerAddr, Ticker, classify,
};
use crate::runtime;
use crate::server::connection::{Connection, PerCore, refuse_connection};
use crate::server::core_state::CoreState;
use crate::server::counts::{CoreCounterSet, OpenGuard};
use crate::server::error::{ErrorCause, ErrorReport, Failure};
use crate::server::handler::Handler;
use crate::server::opening::{ConnectionLimiter, ConnectionPermit, Opening};
use crate::server::report::{ConnectionEnd, Unopened};

/// Accepts the connections of one core, from its listeners and from the core that accepts for the others.
pub(super) struct AcceptLoop {
    pub(super) listeners: Vec<CoreListener>,
    /// Connections that another core has accepted for this one.
    pub(super) handoffs: mpsc::UnboundedReceiver<Handoff>,
    /// The senders to other cores. If this core accepts for all, there is one for each core, and its own is the first.
    /// Otherwise there is one for each of the next cores, up to [`NEXT_CORES`].
    pub(super) core_senders: Vec<CoreSender>,
    pub(super) limiter: Rc<ConnectionLimiter>,
    pub(super) stop: watch::Receiver<Option<Stop>>,
}

impl AcceptLoop {
    /// Serves until the server stops, and the core's connections are closed or aborted.
    ///
    /// # Errors
    ///
    /// Fails if a listener fails for good. The whole server stops then.
    pub(super) async fn serve<H: Handler + 'static>(
        mut self,
        per_core: Rc<PerCore<H>>,
        stop_on_drop: StopOnDrop,
    ) -> io::Result<()> {
        let maintained = per_core.clone();
        let limiter = self.limiter.clone();
        runtime::spawn(async move { maintained.maintain(Ticker::with_system_timer(), &limiter).await });
        IdleEvictor::start(&per_core.core);
        if per_core.core.events.index() == 0 {
            watch_certificates(&self.listeners, &per_core.core);
        }
        let mut stop = self.stop.clone();
        let core = per_core.core.clone();
        let stopped = async move {
            // Without a sender, no stop can be ordered any more.
            if stop.wait_for(Option::is_some).await.is_err() {
                return std::future::pending().await;
            }
            core.connections.order_stop();
            delay_elapsed(&mut stop).await;
            Ok(())
        };
        let accepted = runtime::select(stopped, self.accept_all(&per_core)).await;
        // Stops the other cores too, if accepting failed.
        drop(stop_on_drop);
        let CoreState { connections, counters, .. } = &*per_core.core;
        connections.stop();
        self.stop_listening(&per_core).await;
        let emptied = async {
            connections.emptied().await;
            0
        };
        let aborted = async {
            grace_elapsed(&mut self.stop).await;
            counters.open()
        };
        // A connection that another core tries to hand over now counts as open for a moment, and is not aborted.
        counters.aborted.add(runtime::select(emptied, aborted).await);
        accepted
    }

    /// Accepts until that fails for good.
    async fn accept_all<H: Handler + 'static>(&mut self, per_core: &Rc<PerCore<H>>) -> io::Result<()> {
        let mut pause = BACK_OFF_MIN;
        loop {
            let error = match poll_fn(|cx| self.poll_next(cx)).await {
                Ok(new) => {
                    pause = BACK_OFF_MIN;
                    self.serve_new(per_core, new);
                    continue;
                }
                Err(error) => error,
            };
            match classify(&error) {
                AcceptReaction::Skip => {}
                // File descriptors become free when connections close; retrying at once would not help.
                AcceptReaction::BackOff => {
                    // Some connections may be busy, so each attempt in a row asks for more.
                    make_room(&error, (pause.as_millis() / BACK_OFF_MIN.as_millis()) as usize);
                    let report = ErrorReport::from_connection(Peer::default(), ErrorCause::Accept(error));
                    per_core.core.report_error(report);
                    self.back_off(per_core, pause).await;
                    pause = (2 * pause).min(BACK_OFF_MAX);
                }
                AcceptReaction::Fatal => {
                    report_failed_listener(&per_core.core, &error);
                    return Err(error);
                }
            }
        }
    }

    /// Accepts nothing for a while, but serves the connections that other cores hand over.
    async fn back_off<H: Handler + 'static>(&mut self, per_core: &Rc<PerCore<H>>, pause: Duration) {
        let mut slept = pin!(runtime::sleep(pause));
        poll_fn(|cx| {
            while let Poll::Ready(Some(handoff)) = self.handoffs.poll_recv(cx) {
                self.serve_new(per_core, NewConnection::HandedOff(handoff));
            }
            slept.as_mut().poll(cx)
        })
        .await;
    }

    fn poll_next(&mut self, cx: &mut task::Context<'_>) -> Poll<io::Result<NewConnection>> {
        if let Poll::Ready(Some(handoff)) = self.handoffs.poll_recv(cx) {
            return Poll::Ready(Ok(NewConnection::HandedOff(handoff)));
        }
        for index in 0..self.listeners.len() {
            let CoreListener { listener, placement, acceptor } = &self.listeners[index];
            if let Poll::Ready(accepted) = listener.poll_accept(cx) {
                let accepted =
                    accepted.map(|accepted| NewConnection::Accepted(accepted, acceptor.clone(), *placement));
                // The listener that had its turn is polled last, or a flood on one would starve the others.
                self.listeners.rotate_left(index + 1);
                return Poll::Ready(accepted);
            }
        }
        Poll::Pending
    }

    fn serve_new<H: Handler + 'static>(&self, per_core: &Rc<PerCore<H>>, new: NewConnection) {
        match new {
            NewConnection::HandedOff(Handoff { detached, peer, info, open }) => {
                // A transport that cannot be used on this core is closed.
                if let Ok(transport) = detached.attach() {
                    self.begin(per_core, (transport, peer), info, open);
                }
            }
            NewConnection::Accepted(accepted, acceptor, placement) => {
                let CoreState { clock, events, counters, .. } = &*per_core.core;
                clock.mark_stale();
                let info =
                    AcceptInfo { acceptor, accepted_at: events.observes_accepts().then(|| clock.now()) };
                if let Some((kept, info)) = self.hand_off(accepted, info, placement, counters.open()) {
                    self.begin(per_core, kept, info, OpenGuard::new(counters));
                }
            }
        }
    }

    /// Sends a connection to the core that has the fewest, and returns `None`. Returns the connection if this core is
    /// to serve it. `own` is how many connections this core has.
    fn hand_off(
        &self,
        accepted: Accepted,
        info: AcceptInfo,
        placement: Placement,
        own: u64,
    ) -> Option<(Accepted, AcceptInfo)> {
        let least = self.core_senders.iter().min_by_key(|sender| sender.load());
        match (placement, least) {
            (Placement::LeastLoaded, Some(sender)) => sender.send(accepted, info),
            (Placement::Local, Some(sender)) if own > sender.load() * 5 / 4 => sender.send(accepted, info),
            (Placement::LeastLoaded | Placement::Local, _) => Some((accepted, info)),
        }
    }

    /// Begins to serve a connection, unless there are too many.
    fn begin<H: Handler + 'static>(
        &self,
        per_core: &Rc<PerCore<H>>,
        (transport, peer): Accepted,
        AcceptInfo { acceptor, accepted_at }: AcceptInfo,
        open: OpenGuard,
    ) {
        let core = &per_core.core;
        let per_core = per_core.clone();
        // The peer that a PROXY header names is counted in place of the proxy, once the header is there.
        let expects_proxy_header = core.expects_proxy_header(peer);
        let counted = if expects_proxy_header { None } else { Some(peer) };
        let (permit, id) = ConnectionPermit::acquire(&self.limiter, counted, open);
        self.limiter.make_room(&core.connections, core.clock.now());
        let conn = Conn::new(transport, core.connections.add(Peer { addr: peer, id }));
        let permit = match permit {
            Ok(permit) => permit,
            Err((open, cause)) => {
                let refused = RefusedConnection { limiter: self.limiter.clone(), open, cause };
                return refused.answer(per_core, conn, acceptor.is_none());
            }
        };
        let limiter = expects_proxy_header.then(|| self.limiter.clone());
        let opening = Opening { conn, acceptor, expects_proxy_header, limiter, accepted_at };
        let mut connection = Connection::new(per_core, opening);
        // `poll_fn`, since the future of an async block would be larger, for each connection.
        runtime::spawn(poll_fn(move |cx| {
            let _permit = &permit;
            connection.poll_until_closed(cx)
        }));
    }

    /// Serves the peers that have already connected, then stops listening.
    async fn stop_listening<H: Handler + 'static>(&mut self, per_core: &Rc<PerCore<H>>) {
        for CoreListener { listener, placement, acceptor } in std::mem::take(&mut self.listeners) {
            let waiting = std::iter::from_fn(|| listener.accept_now()).take(WAITING_MAX);
            waiting.for_each(|accepted| {
                self.serve_new(per_core, NewConnection::Accepted(accepted, acceptor.clone(), placement));
            });
        }
        self.core_senders.clear();
        self.handoffs.close();
        // `recv` waits for a connection that another core is just handing over. `try_recv` does not return that
        // connection, and it would be lost.
        while let Some(handoff) = self.handoffs.recv().await {
            self.serve_new(per_core, NewConnection::HandedOff(handoff));
        }
    }
}

/// Reports why the server stops. The error itself is its result.
fn report_failed_listener(core: &CoreState, error: &io::Error) {
    let same = io::Error::new(error.kind(), error.to_string());
    core.report_error(ErrorReport::from_connection(Peer::default(), ErrorCause::Listener(same)));
}

/// Reports certificates that expire or are refused, for as long as the core runs. Servers share their listeners' TLS on
/// all cores, so one core does.
fn watch_certificates(listeners: &[CoreListener], core: &Rc<CoreState>) {
    let mut watches: Vec<CertificateWatch> = Vec::new();
    for watch in listeners.iter().filter_map(|listener| listener.acceptor.as_ref()?.watch()) {
        if !watches.iter().any(|known| known.is_same(&watch)) {
            watches.push(watch);
        }
    }
    for mut watch in watches {
        let core = core.clone();
        runtime::spawn(async move {
            loop {
                watch.faults().await.into_iter().for_each(|fault| core.report_certificate(fault));
            }
        });
    }
}

/// How long to wait for descriptors: at first, and at most.
const BACK_OFF_MIN: Duration = Duration::from_millis(10);
const BACK_OFF_MAX: Duration = Duration::from_secs(1);

/// How many waiting connections are still accepted, so that a flood cannot keep a core from stopping.
const WAITING_MAX: usize = 4096;

/// A connection that is new on this core.
enum NewConnection {
    /// From the core that has accepted it for this one.
    HandedOff(Handoff),
    Accepted(Accepted, Option<TlsAcceptor>, Placement),
}

/// A listener of one core.
pub(super) struct CoreListener {
    pub(super) listener: Listener,
    pub(super) placement: Placement,
    /// Makes its connections secure, if they are to be.
    pub(super) acceptor: Option<TlsAcceptor>,
}

/// Which core serves the connections that a listener accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Placement {
    /// This core, unless one of the next cores has clearly fewer. The system spreads connections by a hash of their
    /// addresses, so of a few one core may have nearly all.
    Local,
    LeastLoaded,
}

/// How many of the next cores are compared with one that accepts for itself.
pub(super) const NEXT_CORES: usize = 8;

/// Hands accepted connections over to one core.
#[derive(Clone)]
pub(super) struct CoreSender {
    handoffs: mpsc::UnboundedSender<Handoff>,
    counters: Arc<CoreCounterSet>,
}

impl CoreSender {
    pub(super) fn new(handoffs: mpsc::UnboundedSender<Handoff>, counters: Arc<CoreCounterSet>) -> CoreSender {
        CoreSender { handoffs, counters }
    }

    /// How many connections the core serves, or is about to.
    fn load(&self) -> u64 {
        self.counters.open()
    }

    /// Gives a connection to the core. Returns it if the core has stopped.
    fn send(&self, (transport, peer): Accepted, info: AcceptInfo) -> Option<(Accepted, AcceptInfo)> {
        let detached = transport.detach().ok()?;
        let open = OpenGuard::new(&self.counters);
        let handoff = Handoff { detached, peer, info, open };
        let Err(mpsc::error::SendError(kept)) = self.handoffs.send(handoff) else { return None };
        Some(((kept.detached.attach().ok()?, kept.peer), kept.info))
    }
}

/// A connection that was accepted on one core, to be served on another.
pub(super) struct Handoff {
    detached: DetachedTransport,
    peer: PeerAddr,
    info: AcceptInfo,
    open: OpenGuard,
}

/// How a connection was accepted.
struct AcceptInfo {
    /// Makes the connection secure, if its listener asks for that.
    acceptor: Option<TlsAcceptor>,
    /// When it was accepted, if the core is observed.
    accepted_at: Option<Instant>,
}

/// A connection that was refused, and stays open until its peer has been answered. Such a connection holds no permit;
/// otherwise refused peers would keep the server full.
struct RefusedConnection {
    limiter: Rc<ConnectionLimiter>,
    open: OpenGuard,
    cause: ErrorCause,
}

impl RefusedConnection {
    /// Answers the peer if it speaks plain HTTP, in a task of its own, so that the accept loop never waits for a peer.
    fn answer<H: Handler + 'static>(self, per_core: Rc<PerCore<H>>, conn: Conn, is_plain: bool) {
        let RefusedConnection { limiter, open, cause } = self;
        per_core.core.begin_life(&conn);
        if limiter.refusing.get() == REFUSING_MAX || !is_plain {
            // In a flood, that many responses are not worth their cost. Nor is a handshake, without which a secure peer
            // could not read a response.
            per_core.core.report_error(ErrorReport::from_connection(conn.peer(), cause));
            per_core.core.report_connection_end(&conn, ConnectionEnd::Unopened(Unopened::Overload));
            return;
        }
        limiter.refusing.set(limiter.refusing.get() + 1);
        runtime::spawn(async move {
            let status = match cause {
                ErrorCause::ConnectionsOfPeer(_) => Status::TOO_MANY_REQUESTS,
                _ => Status::SERVICE_UNAVAILABLE,
            };
            refuse_connection(&per_core, conn, Failure::new(status, cause)).await;
            debug_assert!((1..=REFUSING_MAX).contains(&limiter.refusing.get()), "this connection is counted");
            limiter.refusing.set(limiter.refusing.get() - 1);
            drop(open);
        });
    }
}

/// How many refused connections of a core may be answered at once.
const REFUSING_MAX: usize = 256;
