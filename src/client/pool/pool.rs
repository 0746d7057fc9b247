//! [`Pool`]: the connections to one origin in one runtime.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, ready};

use tokio::sync::{Semaphore, SemaphorePermit, oneshot};

use super::idle_conn::IdleConn;
use super::pool_group::PoolGroup;
use super::server_version::ServerVersion;
use crate::client::cause::{ClientCause, ClientPhase};
use crate::client::cookies::RequestCookies;
use crate::client::error::ClientError;
use crate::client::exchange::ClientExchange;
use crate::client::origin::Origin;
use crate::client::redirect::{CREDENTIALS, OutgoingRequest, RedirectTaint};
use crate::client::response::ClientConnection;
use crate::client::route::Proxy;
use crate::client::settings::{RequestLimits, Settings};
use crate::client::stats::{HostRegistry, PoolCounters};
use crate::memory::{FreeList, lock};
use crate::message::{BodyLength, FieldName, Headers, Method, Request};
use crate::net::{Conn, IoState, Sendable};
use crate::runtime::{self, Handle, Id, Instant, timeout_at};
use crate::wire::OutgoingFraming;
use crate::wire::encode::{self, RequestDefaults};

/// The connections to one origin: a bounded number in use, and the idle ones. Origins whose requests one proxy reads
/// share their connections, which lead to the proxy.
pub(in crate::client) struct Pool {
    /// The runtime of the connections.
    runtime: Id,
    pub(in crate::client) origin: Origin,
    /// The proxy that requests go through, if there is one.
    pub(in crate::client) proxy: Option<Proxy>,
    /// Default fields of requests; among them a proxy's credentials, if the proxy reads the requests.
    fields: Headers,
    /// The default fields without credentials, for requests that were redirected here, and for TRACE.
    public_fields: Headers,
    /// A permit for each connection that may still be opened or taken. The semaphore is fair, so requests are served in
    /// turn.
    permits: Arc<Semaphore>,
    /// How many requests to this origin wait for a permit.
    waiting: AtomicUsize,
    /// How many permits requests to this origin have.
    in_use: AtomicUsize,
    /// Whether a dial goes on without the request that began it.
    has_lone_dial: AtomicBool,
    state: Arc<Mutex<PoolState>>,
    /// The number of this pool among those that share `state`.
    number: u64,
    pub(in crate::client) settings: Arc<Settings>,
    pub(super) server_version: ServerVersion,
    pub(in crate::client) counters: Arc<PoolCounters>,
    /// Keeps the counts when the pool ends.
    registry: Arc<HostRegistry>,
    /// The pools of the runtime.
    pub(super) group: Arc<PoolGroup>,
}

/// The connections of one pool, or of all that lead to one proxy.
#[derive(Clone)]
pub(super) struct SharedConns {
    permits: Arc<Semaphore>,
    state: Arc<Mutex<PoolState>>,
}

impl SharedConns {
    pub(super) fn new(connections_max: usize) -> SharedConns {
        SharedConns { permits: Arc::new(Semaphore::new(connections_max)), state: Arc::default() }
    }
}

#[derive(Default)]
struct PoolState {
    /// How many pools have shared this state so far.
    pools: u64,
    /// When the connections were swept last.
    swept_at: Option<Instant>,
    /// The most recently used connection is at the end, and is taken first, so that surplus ones expire.
    conns: Vec<IdleConn>,
    /// How often all idle connections were closed.
    closings: u64,
    exchanges: FreeList<ClientExchange>,
    /// Requests whose connections are being opened, and that take one which comes back before, in turn.
    dialing: VecDeque<oneshot::Sender<ReturnedConn>>,
}

/// A connection that comes back, with the permit to use it.
pub(in crate::client) struct ReturnedConn {
    idle_conn: IdleConn,
    permit: PoolPermit,
}

/// The right to use one connection of a pool. Dropping it passes the right to the next request in line.
pub(in crate::client) struct PoolPermit {
    pub(in crate::client) pool: Arc<Pool>,
}

/// Why a request has no connection at once.
pub(in crate::client) enum CheckoutMiss {
    /// No connection is idle.
    NoIdle(PoolPermit),
    /// All connections are in use, or other requests wait for one. The wait of the request began at this time.
    NoPermit(Arc<Pool>, Instant),
}

impl Pool {
    pub(super) fn new(
        runtime: Id,
        (origin, proxy): (Origin, Option<Proxy>),
        SharedConns { permits, state }: SharedConns,
        settings: Arc<Settings>,
        registry: Arc<HostRegistry>,
        group: Arc<PoolGroup>,
    ) -> Pool {
        let (mut fields, mut public_fields) = (settings.fields.clone(), settings.fields.clone());
        public_fields.remove_each(&CREDENTIALS);
        let reader = proxy.as_ref().filter(|proxy| proxy.forwards(origin.scheme));
        if let Some(authorization) = reader.and_then(Proxy::authorization) {
            for fields in [&mut fields, &mut public_fields] {
                fields.put(FieldName::new("proxy-authorization"), authorization.as_bytes());
            }
        }
        let counters = registry.enroll(origin.key());
        let number = {
            let mut state = lock(&state);
            state.pools += 1;
            state.pools
        };
        Pool {
            runtime,
            origin,
            proxy,
            fields,
            public_fields,
            permits,
            waiting: AtomicUsize::new(0),
            in_use: AtomicUsize::new(0),
            has_lone_dial: AtomicBool::new(false),
            state,
            number,
            settings,
            server_version: ServerVersion::new(),
            counters,
            registry,
            group,
        }
    }

    /// The framing of `request`, whose body has this length.
    ///
    /// # Errors
    ///
    /// Fails if the length is unknown and the server has recently answered in HTTP/1.0, which has no chunks (RFC 9112
    /// §6.1).
    #[inline]
    pub(in crate::client) fn outgoing_framing(
        &self,
        request: &Request,
        content: BodyLength,
    ) -> Result<OutgoingFraming, ClientError> {
        let has_trailers = !request.trailers.is_empty();
        // Most requests need no chunks, and the version of the server does not matter.
        let needs_chunks = has_trailers || content == BodyLength::Unknown;
        if !needs_chunks || !self.server_version.is_1_0() {
            return Ok(OutgoingFraming::from_request(request.method(), content, has_trailers));
        }
        match content {
            BodyLength::Unknown => Err(ClientError::new(ClientPhase::Prepare, ClientCause::LengthRequired)),
            _ => Ok(OutgoingFraming::from_request(request.method(), content, false)),
        }
    }

    /// Whether this is the pool of the current runtime.
    pub(in crate::client) fn is_of_current_runtime(&self) -> bool {
        Handle::current().is_some_and(|here| here.id() == self.runtime)
    }

    /// Whether a proxy reads the requests.
    pub(in crate::client) fn is_forwarded(&self) -> bool {
        self.proxy.as_ref().is_some_and(|proxy| proxy.forwards(self.origin.scheme))
    }

    /// Writes the head of a request as it is sent over the connections of this pool.
    pub(in crate::client) fn write_head(
        &self,
        out: &mut Vec<u8>,
        OutgoingRequest { request, taint, trace, .. }: OutgoingRequest<'_>,
        framing: OutgoingFraming,
        cookie: Option<&[u8]>,
    ) {
        let defaults = match (taint, request.method()) {
            // The fields of a TRACE are sent back (RFC 9110 §9.3.8).
            (RedirectTaint::CrossOrigin, _) | (RedirectTaint::SameOrigin, Method::Trace) => {
                &self.public_fields
            }
            (RedirectTaint::SameOrigin, _) => &self.fields,
        };
        let authority = request.target().authority().unwrap_or(self.origin.authority());
        let scheme = self.is_forwarded().then_some("http");
        // A range of coded content is of no use to a caller who has a part of the content itself.
        let accept_encoding = match self.settings.accept_encoding {
            Some(_) if request.headers.contains("range") => Some("identity"),
            codings => codings,
        };
        encode::request(
            out,
            request,
            framing,
            RequestDefaults {
                scheme,
                authority,
                headers: defaults,
                accept_encoding,
                cookie,
                trace: trace.headers(),
            },
        );
    }

    /// Begins the exchange of the cookies of a request.
    pub(in crate::client) fn cookies<'a>(&self, outgoing: OutgoingRequest<'a>) -> RequestCookies<'a> {
        let Some(store) = &self.settings.cookies else { return RequestCookies::none() };
        let OutgoingRequest { request, taint, .. } = outgoing;
        // The default field does not go where a redirect leads.
        let has_default = taint == RedirectTaint::SameOrigin && self.settings.fields.contains("cookie");
        RequestCookies::begin(store, self.origin.absolute(request.target()), request, has_default)
    }

    /// Returns a permit, if one is free and no request waits for it; else the pool.
    pub(in crate::client) fn try_acquire(self: Arc<Pool>) -> Result<PoolPermit, Arc<Pool>> {
        match self.permits.try_acquire().map(SemaphorePermit::forget) {
            Ok(()) => Ok(PoolPermit::new(self)),
            Err(_) => Err(self),
        }
    }

    /// Waits for a permit. The wait began at `since`.
    ///
    /// # Errors
    ///
    /// Fails if no permit became free in time.
    pub(in crate::client) async fn acquire(
        self: Arc<Pool>,
        since: Instant,
        limits: &RequestLimits,
    ) -> Result<PoolPermit, ClientError> {
        let is_late = || limits.deadline.is_some_and(|deadline| deadline <= runtime::now());
        let waits = WaitGuard::new(&self.waiting);
        match timeout_at(limits.queue_until(since, &self.settings), self.permits.acquire()).await {
            // A permit that becomes free only after the deadline is left to a request that can still use it.
            Ok(Ok(permit)) if !is_late() => permit.forget(),
            _ => {
                let most = self.settings.pool.connections_max;
                self.counters.count_queued(Err(ClientPhase::Queue));
                let error = ClientError::new(ClientPhase::Queue, ClientCause::TimedOut);
                let proxy = self.proxy.as_ref().filter(|proxy| proxy.forwards(self.origin.scheme));
                let to =
                    proxy.map_or_else(|| self.origin.host_and_port(), |proxy| proxy.subject(&self.origin));
                return Err(error.with_subject(format!("one of the {most} connections to {to}")));
            }
        }
        drop(waits);
        Ok(PoolPermit::new(self))
    }

    /// Takes the most recently used connection that is still good, and memory for an exchange. Others on the way are
    /// dropped.
    pub(in crate::client) fn take_idle(&self, now: Instant) -> Option<(IdleConn, Box<ClientExchange>)> {
        loop {
            // Closing a connection is a system call, so it must not happen under the lock.
            let (mut idle_conn, exchange) = self.pop()?;
            let has_expired = idle_conn.has_expired(now)
                || !self.settings.pool.is_within_age(idle_conn.connection.opened_at, now);
            if !has_expired && idle_conn.is_still_quiet(now) {
                return Some((idle_conn, exchange));
            }
            self.counters.count(|counts| counts.stale += u64::from(!has_expired));
            idle_conn.close();
        }
    }

    fn pop(&self) -> Option<(IdleConn, Box<ClientExchange>)> {
        let mut state = lock(&self.state);
        let idle_conn = state.conns.pop()?;
        self.group.count_taken(1);
        Some((idle_conn, self.take_from(&state)))
    }

    /// Takes memory for an exchange.
    pub(in crate::client) fn take_exchange(&self) -> Box<ClientExchange> {
        self.take_from(&lock(&self.state))
    }

    #[inline]
    fn take_from(&self, state: &PoolState) -> Box<ClientExchange> {
        let mut exchange = state.exchanges.take(|| Box::new(ClientExchange::new(self.counters.clone())));
        exchange.set_counters(&self.counters);
        exchange
    }

    /// Joins the requests that take a connection as soon as one comes back.
    pub(in crate::client) fn await_return(pool: &Arc<Pool>) -> ReturnWait {
        let (sender, receiver) = oneshot::channel();
        let mut state = lock(&pool.state);
        // Requests that have a connection by now are no longer in line.
        state.dialing.retain(|dialing| !dialing.is_closed());
        state.dialing.push_back(sender);
        ReturnWait { receiver: Some(receiver) }
    }

    /// Allows a dial to go on without its request, until the guard is dropped. `None` if another one does already, or if
    /// requests wait for its place.
    pub(in crate::client) fn begin_lone_dial(self: Arc<Pool>) -> Option<LoneDial> {
        if self.waiting() > 0 || self.has_lone_dial.swap(true, Ordering::Relaxed) {
            return None;
        }
        Some(LoneDial(self))
    }

    /// Takes a connection back, which is idle from `now` on. Returns it if a request waits for it.
    fn give(
        &self,
        conn: Box<Conn<Sendable>>,
        mut exchange: Box<ClientExchange>,
        now: Instant,
    ) -> Option<IdleConn> {
        debug_assert!(exchange.io_state.is_some(), "an idle connection has no buffers");
        debug_assert!(exchange.persistence.persists, "a connection that closes does not come back");
        debug_assert!(exchange.incoming.input.is_empty(), "all that arrived has been read");
        let idle = self.settings.pool.idle_max(exchange.persistence.idle);
        let connection = exchange.connection.take().expect("an exchange has a connection");
        let is_good = !idle.is_zero() && self.settings.pool.is_within_age(connection.opened_at, now);
        let idle_conn = IdleConn::new(conn, connection, self.number, now, idle);
        let traffic = exchange.io_state.as_deref().map(IoState::total_traffic).unwrap_or_default();
        let mut state = lock(&self.state);
        self.counters.count_returned(&exchange.progress.timings, traffic);
        state.exchanges.give(exchange);
        let is_awaited = !state.dialing.is_empty();
        if is_good && !is_awaited {
            state.conns.push(idle_conn);
            self.group.count_idle();
            drop(state);
            self.group.settle();
            return None;
        }
        drop(state);
        self.group.settle();
        if is_good {
            return Some(idle_conn);
        }
        // To close a connection is a system call, which other callers need not wait for.
        idle_conn.close();
        None
    }

    /// Drops connections that were idle for too long or were closed by the server, and memory that is not needed.
    /// Returns whether anything is left.
    pub(in crate::client) fn sweep(&self, now: Instant) -> bool {
        let (mut conns, closings) = {
            let mut state = lock(&self.state);
            if state.swept_at.replace(now) == Some(now) {
                // Another pool that shares the connections has swept them.
                return !state.conns.is_empty() || !state.exchanges.is_empty();
            }
            (std::mem::take(&mut state.conns), state.closings)
        };
        let before = conns.len();
        let dead = conns.extract_if(.., |idle_conn| idle_conn.has_expired(now) || !idle_conn.is_quiet());
        dead.for_each(IdleConn::close);
        let mut state = lock(&self.state);
        // While the lock was free, all connections may have been closed, or others opened instead of these.
        let room = match state.closings == closings {
            true => self.permits.available_permits().saturating_sub(state.conns.len()),
            false => 0,
        };
        let surplus = Vec::from_iter(conns.drain(..conns.len().saturating_sub(room)));
        self.group.count_taken(before - conns.len());
        // Connections that came back meanwhile were used more recently.
        conns.append(&mut state.conns);
        state.conns = conns;
        let has_exchanges = state.exchanges.trim();
        let is_needed = has_exchanges || !state.conns.is_empty();
        drop(state);
        surplus.into_iter().for_each(IdleConn::close);
        is_needed
    }

    /// Closes all idle connections.
    pub(in crate::client) fn close_idle(&self) {
        // Connections are not dropped under the lock: the stream types of an application may use the client.
        let closed = {
            let mut state = lock(&self.state);
            state.closings += 1;
            self.group.count_taken(state.conns.len());
            std::mem::take(&mut state.conns)
        };
        closed.into_iter().for_each(IdleConn::close);
    }

    /// Closes the connection that has been idle for longest. Returns whether there was one.
    pub(super) fn close_oldest(&self) -> bool {
        let oldest = {
            let mut state = lock(&self.state);
            if state.conns.is_empty() {
                return false;
            }
            self.group.count_taken(1);
            state.conns.remove(0)
        };
        oldest.close();
        true
    }

    /// Closes an idle connection, if there would be more than there may be with the one that is about to be opened.
    pub(super) fn make_room(&self) {
        let is_full = lock(&self.state).conns.len() > self.permits.available_permits();
        if is_full {
            self.close_oldest();
        }
    }

    /// Since when its longest idle connection has been idle.
    pub(super) fn idle_since(&self) -> Option<Instant> {
        lock(&self.state).conns.first().map(|oldest| oldest.idle_since)
    }

    /// How many connections are idle that a request to this origin was the last to use.
    pub(in crate::client) fn idle(&self) -> usize {
        lock(&self.state).conns.iter().filter(|idle_conn| idle_conn.pool == self.number).count()
    }

    /// How many connections are in use, or about to be.
    pub(in crate::client) fn busy(&self) -> usize {
        self.in_use.load(Ordering::Relaxed)
    }

    /// How many requests wait for a connection.
    pub(in crate::client) fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Relaxed)
    }
}

impl PoolPermit {
    /// The right that was acquired from the semaphore of `pool`.
    fn new(pool: Arc<Pool>) -> PoolPermit {
        pool.in_use.fetch_add(1, Ordering::Relaxed);
        PoolPermit { pool }
    }

    /// Hands the right over to a pool that shares the connections.
    fn pass_to(&mut self, pool: &Arc<Pool>) {
        debug_assert!(Arc::ptr_eq(&self.pool.permits, &pool.permits), "the permits are the same");
        pool.in_use.fetch_add(1, Ordering::Relaxed);
        self.pool.in_use.fetch_sub(1, Ordering::Relaxed);
        self.pool = pool.clone();
    }

    /// Gives a connection back, which is idle from `now` on, and then the permit.
    #[inline]
    pub(in crate::client) fn give(
        self,
        conn: Box<Conn<Sendable>>,
        exchange: Box<ClientExchange>,
        now: Instant,
    ) {
        if let Some(idle_conn) = self.pool.give(conn, exchange, now) {
            self.pass_on(idle_conn);
        }
    }

    /// Leaves a connection that has just been opened to the next request.
    pub(in crate::client) fn rest_unused(self, conn: Box<Conn<Sendable>>) {
        let (connection, now) = (Arc::new(ClientConnection::new(&conn.transport)), runtime::now());
        let idle_conn =
            IdleConn::new(conn, connection, self.pool.number, now, self.pool.settings.pool.idle_max(None));
        self.pass_on(IdleConn { is_used: false, ..idle_conn });
    }

    /// Gives a connection and the permit to the first request that waits for one; if there is none, back to the pool.
    #[cold]
    fn pass_on(self, idle_conn: IdleConn) {
        let pool = self.pool.clone();
        let mut returned = ReturnedConn { idle_conn, permit: self };
        loop {
            let mut state = lock(&pool.state);
            let Some(next) = state.dialing.pop_front() else {
                if !returned.idle_conn.has_expired(runtime::now()) {
                    state.conns.push(returned.idle_conn);
                    pool.group.count_idle();
                    drop(state);
                    pool.group.settle();
                }
                return;
            };
            // A waker may do anything, so no lock is held.
            drop(state);
            match next.send(returned) {
                Ok(()) => return,
                Err(not_awaited) => returned = not_awaited,
            }
        }
    }
}

impl ReturnedConn {
    /// Its parts for a request of `pool`, if the connection is still good. If it is not, the permit is for the next
    /// request in line.
    pub(in crate::client) fn into_parts(
        mut self,
        pool: &Arc<Pool>,
        now: Instant,
    ) -> Option<(IdleConn, PoolPermit)> {
        self.permit.pass_to(pool);
        if self.idle_conn.is_still_quiet(now) {
            return Some((self.idle_conn, self.permit));
        }
        self.permit.pool.counters.count(|counts| counts.stale += 1);
        self.idle_conn.close();
        None
    }
}

/// The wait of a request for a connection that comes back.
pub(in crate::client) struct ReturnWait {
    /// `None` once one has come.
    receiver: Option<oneshot::Receiver<ReturnedConn>>,
}

impl ReturnWait {
    pub(in crate::client) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<ReturnedConn> {
        let Some(receiver) = &mut self.receiver else { return Poll::Pending };
        let end = ready!(Pin::new(receiver).poll(cx));
        self.receiver = None;
        end.map_or(Poll::Pending, Poll::Ready)
    }
}

impl Drop for ReturnWait {
    /// Passes on a connection that has come too late.
    fn drop(&mut self) {
        let Some(receiver) = &mut self.receiver else { return };
        receiver.close();
        if let Ok(ReturnedConn { idle_conn, permit }) = receiver.try_recv() {
            permit.pass_on(idle_conn);
        }
    }
}

/// A dial that goes on without the request that began it.
pub(in crate::client) struct LoneDial(Arc<Pool>);

impl Drop for LoneDial {
    fn drop(&mut self) {
        self.0.has_lone_dial.store(false, Ordering::Relaxed);
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.registry.retire(self.origin.key(), &self.counters);
    }
}

impl Drop for PoolState {
    fn drop(&mut self) {
        self.conns.drain(..).for_each(IdleConn::close);
    }
}

impl Drop for PoolPermit {
    fn drop(&mut self) {
        debug_assert!(self.pool.busy() > 0, "a permit returns once");
        self.pool.in_use.fetch_sub(1, Ordering::Relaxed);
        self.pool.permits.add_permits(1);
    }
}

/// Counts a request as waiting for as long as it waits. A caller that goes away drops it, too.
struct WaitGuard<'a>(&'a AtomicUsize);

impl WaitGuard<'_> {
    fn new(waiting: &AtomicUsize) -> WaitGuard<'_> {
        waiting.fetch_add(1, Ordering::Relaxed);
        WaitGuard(waiting)
    }
}

impl Drop for WaitGuard<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;
    use crate::Client;
    use crate::net::MemoryListener;
    use crate::runtime::sleep;

    const MANY: usize = 32;
    const HEAD: usize = "GET / HTTP/1.1\r\nhost: a\r\n\r\n".len();

    #[tokio::test(start_paused = true)]
    async fn the_memory_of_a_burst_is_given_back_whether_connections_rest_or_not() {
        burst(Duration::MAX, MANY).await;
        burst(Duration::ZERO, 0).await;
    }

    async fn burst(idle_timeout: Duration, idle_conn: usize) {
        let listener = MemoryListener::new();
        let client = Client::builder().memory(listener.connector()).idle_timeout(idle_timeout).build();
        let host = client.host("http://a").unwrap();
        let requests = Vec::from_iter((0..MANY).map(|_| {
            let client = client.clone();
            tokio::spawn(async move { client.get("http://a/").await.unwrap() })
        }));
        for _ in 0..MANY {
            let mut peer = listener.accept().await;
            tokio::spawn(async move {
                peer.read_exact(&mut [0; HEAD]).await.unwrap();
                sleep(Duration::from_secs(1)).await;
                peer.write_all(b"HTTP/1.1 204 x\r\n\r\n").await.unwrap();
                sleep(Duration::from_secs(100)).await;
            });
        }
        for request in requests {
            request.await.unwrap();
        }
        let pool = client.sender.pool(host.origin()).unwrap();
        assert!(!lock(&pool.state).exchanges.is_empty());
        assert_eq!(pool.idle(), idle_conn);
        sleep(Duration::from_secs(20)).await;
        assert!(lock(&pool.state).exchanges.is_empty());
        assert_eq!((pool.idle(), pool.busy()), (idle_conn, 0));
    }
}
