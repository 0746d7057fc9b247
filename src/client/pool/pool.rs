//! [`Pool`]: the connections to one origin in one runtime.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::sync::{Semaphore, SemaphorePermit, oneshot};

use super::default_fields::DefaultFields;
use super::dial_permits::{DialPermits, LoneDial};
use super::idle_conns::{IdleConn, IdleConns};
use super::pool_group::PoolGroup;
use super::server_version::ServerVersion;
use crate::client::cookies::RequestCookies;
use crate::client::error::{ClientCause, ClientError, ClientPhase};
use crate::client::exchange::{ClientConnection, ClientExchange, OutgoingRequest, RedirectTaint};
use crate::client::observe::{HostEvents, HostRegistry};
use crate::client::retry::HostRetries;
use crate::client::route::{Origin, Proxy};
use crate::client::settings::{ClientLimits, ClientSettings, RequestTimeouts};
use crate::memory::{FreeList, lock};
use crate::message::{BodyLength, Request, Version};
use crate::net::{Conn, IoState, Sendable};
use crate::runtime::{self, Handle, Id, Instant, later, timeout_at};
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
    fields: DefaultFields,
    /// The connections, and the requests that wait for them.
    shared: Arc<SharedConns>,
    share: ConnShare,
    pub(in crate::client) settings: Arc<ClientSettings>,
    server_version: ServerVersion,
    /// Counts what happens, and reports it to observers.
    pub(in crate::client) events: Arc<HostEvents>,
    /// How many retries the host gets, and when requests are hedged.
    pub(in crate::client) retries: HostRetries,
    /// The pools of the runtime.
    pub(super) group: Arc<PoolGroup>,
}

/// The share of one pool in connections that several may use.
struct ConnShare {
    /// The number of the pool among them.
    number: u64,
    /// How many requests to this origin wait for a permit.
    waiting: AtomicUsize,
    /// How many permits requests to this origin have.
    in_use: AtomicUsize,
}

/// The connections of one pool, or of all that lead to one proxy.
pub(super) struct SharedConns {
    /// A permit for each connection that may still be opened or taken. The semaphore is fair, so requests are served in
    /// turn.
    permits: Semaphore,
    /// How many requests wait for a permit.
    waiting: AtomicUsize,
    dials: Arc<DialPermits>,
    state: Mutex<PoolState>,
}

struct PoolState {
    /// How many pools have shared this state so far.
    pools: u64,
    idle: IdleConns,
    exchanges: FreeList<ClientExchange>,
    /// Requests whose connections are being opened, and that take one which comes back before, in turn.
    dialing: VecDeque<Dialing>,
}

/// A request whose connection is being opened.
struct Dialing {
    sender: oneshot::Sender<ReturnedConn>,
    since: Instant,
}

impl SharedConns {
    pub(super) fn new(limits: &ClientLimits, group: Arc<PoolGroup>) -> SharedConns {
        let idle = IdleConns::new(group);
        let exchanges = FreeList::default();
        SharedConns {
            permits: Semaphore::new(limits.connections_per_host_max),
            waiting: AtomicUsize::new(0),
            dials: DialPermits::new(limits),
            state: Mutex::new(PoolState { pools: 0, idle, exchanges, dialing: VecDeque::new() }),
        }
    }

    /// The share of a new pool.
    fn new_share(&self) -> ConnShare {
        let mut state = lock(&self.state);
        state.pools += 1;
        ConnShare { number: state.pools, waiting: AtomicUsize::new(0), in_use: AtomicUsize::new(0) }
    }
}

/// A connection that comes back, with the permit to use it.
pub(super) struct ReturnedConn {
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
        shared: Arc<SharedConns>,
        settings: Arc<ClientSettings>,
        registry: Arc<HostRegistry>,
        group: Arc<PoolGroup>,
    ) -> Pool {
        let reader = proxy.as_ref().filter(|proxy| proxy.forwards(origin.scheme));
        let fields = DefaultFields::new(&settings.fields, reader);
        let events = Arc::new(HostEvents::new(origin.key(), registry, &settings.observers));
        let retries = HostRetries::new(settings.budgets.of(origin.key()));
        let share = shared.new_share();
        let server_version = ServerVersion::new();
        Pool {
            runtime,
            origin,
            proxy,
            fields,
            shared,
            share,
            settings,
            server_version,
            events,
            retries,
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

    /// Stores the version in which the server has answered.
    pub(in crate::client) fn note_version(&self, version: Version) {
        self.server_version.note(version);
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
        outgoing: &OutgoingRequest<'_>,
        framing: OutgoingFraming,
    ) {
        let OutgoingRequest { request, taint, trace, cookie, .. } = *outgoing;
        let headers = self.fields.of(taint, request.method());
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
            RequestDefaults { scheme, authority, headers, accept_encoding, cookie, trace },
        );
    }

    /// Begins the exchange of the cookies of a request.
    pub(in crate::client) fn cookies<'a>(&self, outgoing: &OutgoingRequest<'a>) -> RequestCookies<'a> {
        let Some(store) = &self.settings.cookies else { return RequestCookies::none() };
        let OutgoingRequest { request, taint, .. } = *outgoing;
        // The default field does not go where a redirect leads.
        let has_default = taint == RedirectTaint::SameOrigin && self.settings.fields.contains("cookie");
        RequestCookies::begin(store, self.origin.absolute(request.target()), request, has_default)
    }

    /// Returns a permit, if one is free and no request waits for it; else the pool.
    pub(in crate::client) fn try_acquire(self: Arc<Pool>) -> Result<PoolPermit, Arc<Pool>> {
        match self.shared.permits.try_acquire().map(SemaphorePermit::forget) {
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
        timeouts: &RequestTimeouts,
    ) -> Result<PoolPermit, ClientError> {
        let waits = WaitGuard::new(&self);
        match timeout_at(timeouts.queue_until(since, &self.settings), self.shared.permits.acquire()).await {
            // A permit that becomes free only after the deadline is left to a request that can still use it.
            Ok(Ok(permit)) if !timeouts.is_over() => permit.forget(),
            _ => {
                let most = self.settings.limits.connections_per_host_max;
                return Err(self.queue_timed_out(since, &format!("one of the {most} connections")));
            }
        }
        drop(waits);
        Ok(PoolPermit::new(self))
    }

    /// The error of a request that has waited since then, for this.
    pub(super) fn queue_timed_out(&self, since: Instant, awaited: &str) -> ClientError {
        self.events.count_queue_timeout(runtime::now().saturating_duration_since(since));
        let error = ClientError::new(ClientPhase::Queue, ClientCause::TimedOut);
        let proxy = self.proxy.as_ref().filter(|proxy| proxy.forwards(self.origin.scheme));
        let to = proxy.map_or_else(|| self.origin.host_and_port(), |proxy| proxy.subject(&self.origin));
        error.with_subject(format!("{awaited} to {to}"))
    }

    /// Takes the most recently used connection that is still good, and memory for an exchange. Others on the way are
    /// dropped.
    pub(in crate::client) fn take_idle(&self, now: Instant) -> Option<(IdleConn, Box<ClientExchange>)> {
        loop {
            // Closing a connection is a system call, so it must not happen under the lock.
            let (mut idle_conn, exchange) = self.pop()?;
            let has_expired =
                idle_conn.expires_at <= now || !self.is_within_age(idle_conn.connection_info.opened_at, now);
            if !has_expired && idle_conn.is_still_quiet(now) {
                return Some((idle_conn, exchange));
            }
            self.events.count(|counts| counts.stale += u64::from(!has_expired));
            idle_conn.close();
        }
    }

    fn pop(&self) -> Option<(IdleConn, Box<ClientExchange>)> {
        let mut state = lock(&self.shared.state);
        Some((state.idle.pop()?, self.take_from(&state)))
    }

    /// Takes memory for an exchange.
    pub(in crate::client) fn take_exchange(&self) -> Box<ClientExchange> {
        self.take_from(&lock(&self.shared.state))
    }

    #[inline]
    fn take_from(&self, state: &PoolState) -> Box<ClientExchange> {
        let mut exchange = state.exchanges.take(|| Box::new(ClientExchange::new(self.events.clone())));
        exchange.set_events(&self.events);
        exchange
    }

    /// Joins the requests that take a connection as soon as one comes back.
    pub(super) fn await_return(pool: &Arc<Pool>) -> ReturnWait {
        let (sender, receiver) = oneshot::channel();
        let mut state = lock(&pool.shared.state);
        // Requests that have a connection by now are no longer in line.
        state.dialing.retain(|dialing| !dialing.sender.is_closed());
        state.dialing.push_back(Dialing { sender, since: runtime::now() });
        ReturnWait { receiver: Some(receiver) }
    }

    /// Whether a request waits for its dial for so long that one which keeps a connection to itself should give it back.
    pub(in crate::client) fn is_awaited(&self) -> bool {
        let state = lock(&self.shared.state);
        let mut waits = state.dialing.iter().filter(|dialing| !dialing.sender.is_closed());
        waits.next().is_some_and(|dialing| later(dialing.since, LONG_DIAL) <= runtime::now())
    }

    /// Allows a dial to go on without its request, until the guard is dropped. `None` if another one does already, or if
    /// requests wait for its permit.
    pub(super) fn begin_lone_dial(&self) -> Option<LoneDial> {
        let has_waiting = self.shared.waiting.load(Ordering::Relaxed) > 0;
        if has_waiting { None } else { self.shared.dials.begin_lone() }
    }

    /// The dials of these connections.
    pub(super) fn dials(&self) -> &DialPermits {
        &self.shared.dials
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
        let idle = self.idle_max(exchange.persistence.idle);
        let connection_info = exchange.connection_info.take().expect("an exchange has a connection");
        let is_good = !idle.is_zero() && self.is_within_age(connection_info.opened_at, now);
        let expires_at = later(now, idle);
        let idle_conn = IdleConn {
            conn,
            connection_info,
            is_used: true,
            idle_since: now,
            expires_at,
            pool: self.share.number,
        };
        let traffic = exchange.io_state.as_deref().map(IoState::total_traffic).unwrap_or_default();
        let report = exchange.wanted_report(traffic);
        let mut state = lock(&self.shared.state);
        self.events.count_returned(&exchange.progress.timings, exchange.own_traffic(traffic));
        state.exchanges.give(exchange);
        let left = match is_good && state.dialing.is_empty() {
            true => {
                state.idle.push(idle_conn);
                None
            }
            false => Some(idle_conn),
        };
        drop(state);
        self.group.settle();
        // An observer may use the client, so no lock is held.
        if let Some(report) = report {
            self.events.report_exchange(&report);
        }
        if is_good {
            return left;
        }
        // To close a connection is a system call, which other callers need not wait for.
        left.into_iter().for_each(IdleConn::close);
        None
    }

    /// Drops connections that were idle for too long or were closed by the server, and memory that is not needed.
    /// Returns whether anything is left.
    pub(in crate::client) fn sweep(&self, now: Instant) -> bool {
        let (swept, is_needed) = {
            let mut state = lock(&self.shared.state);
            (state.idle.begin_sweep(now), state.idle.len() > 0 || !state.exchanges.is_empty())
        };
        let Some(mut sweep) = swept else { return is_needed };
        sweep.close_dead(now);
        let mut state = lock(&self.shared.state);
        let surplus = state.idle.end_sweep(sweep, self.shared.permits.available_permits());
        let has_exchanges = state.exchanges.trim();
        let is_needed = has_exchanges || state.idle.len() > 0;
        drop(state);
        surplus.into_iter().for_each(IdleConn::close);
        is_needed
    }

    /// Closes all idle connections.
    pub(in crate::client) fn close_idle(&self) {
        let closed = lock(&self.shared.state).idle.take_all();
        closed.into_iter().for_each(IdleConn::close);
    }

    /// Closes the connection that has been idle for longest. Returns whether there was one.
    pub(super) fn close_oldest(&self) -> bool {
        let oldest = lock(&self.shared.state).idle.take_oldest();
        oldest.map(IdleConn::close).is_some()
    }

    /// Closes an idle connection, if there would be more than there may be with the one that is about to be opened.
    pub(super) fn make_room(&self) {
        if lock(&self.shared.state).idle.len() > self.shared.permits.available_permits() {
            self.close_oldest();
        }
    }

    /// Since when its longest idle connection has been idle.
    pub(super) fn idle_since(&self) -> Option<Instant> {
        lock(&self.shared.state).idle.oldest_since()
    }

    /// How many connections are idle that a request to this origin was the last to use.
    pub(in crate::client) fn idle(&self) -> usize {
        lock(&self.shared.state).idle.count_of(self.share.number)
    }

    /// How many connections are in use, or about to be.
    pub(in crate::client) fn busy(&self) -> usize {
        self.share.in_use.load(Ordering::Relaxed)
    }

    /// How many requests wait for a connection.
    pub(in crate::client) fn waiting(&self) -> usize {
        self.share.waiting.load(Ordering::Relaxed)
    }

    /// How long a connection may be idle: the limit of the client, or that of the server if it is less.
    fn idle_max(&self, server_limit: Option<Duration>) -> Duration {
        let idle = self.settings.timeouts.idle;
        server_limit.map_or(idle, |limit| limit.min(idle))
    }

    /// Whether a connection that was opened at `opened_at` may still be used.
    pub(in crate::client) fn is_within_age(&self, opened_at: Instant, now: Instant) -> bool {
        self.settings.timeouts.connection_age.is_none_or(|age| later(opened_at, age) > now)
    }
}

/// The time after which a dial has probably met an obstacle. After the same time, another address is tried (RFC 8305 §5).
pub(in crate::client) const LONG_DIAL: Duration = Duration::from_millis(250);

impl PoolPermit {
    /// The right that was acquired from the semaphore of `pool`.
    fn new(pool: Arc<Pool>) -> PoolPermit {
        pool.share.in_use.fetch_add(1, Ordering::Relaxed);
        PoolPermit { pool }
    }

    /// The same right for a request of `pool`, which shares the connections.
    fn moved_to(mut self, pool: &Arc<Pool>) -> PoolPermit {
        debug_assert!(Arc::ptr_eq(&self.pool.shared, &pool.shared), "a permit is for the same connections");
        pool.share.in_use.fetch_add(1, Ordering::Relaxed);
        self.pool.share.in_use.fetch_sub(1, Ordering::Relaxed);
        self.pool = pool.clone();
        self
    }

    /// Gives a connection back, which is idle from `now` on, and then the permit.
    #[inline]
    pub(super) fn give(self, conn: Box<Conn<Sendable>>, exchange: Box<ClientExchange>, now: Instant) {
        if let Some(idle_conn) = self.pool.give(conn, exchange, now) {
            self.pass_on(idle_conn);
        }
    }

    /// Gives a connection that has just been opened to the next request.
    pub(super) fn give_unused(self, conn: Box<Conn<Sendable>>) {
        let connection_info = Arc::new(ClientConnection::new(&conn.transport));
        let now = runtime::now();
        let expires_at = later(now, self.pool.idle_max(None));
        let pool = self.pool.share.number;
        self.pass_on(IdleConn { conn, connection_info, is_used: false, idle_since: now, expires_at, pool });
    }

    /// Gives a connection and the permit to the first request that waits for one; if there is none, back to the pool.
    #[cold]
    fn pass_on(self, idle_conn: IdleConn) {
        let pool = self.pool.clone();
        let mut returned = ReturnedConn { idle_conn, permit: self };
        loop {
            let mut state = lock(&pool.shared.state);
            let Some(next) = state.dialing.pop_front() else {
                if returned.idle_conn.expires_at > runtime::now() {
                    state.idle.push(returned.idle_conn);
                    drop(state);
                    pool.group.settle();
                }
                return;
            };
            // A waker may do anything, so no lock is held.
            drop(state);
            match next.sender.send(returned) {
                Ok(()) => return,
                Err(not_awaited) => returned = not_awaited,
            }
        }
    }
}

impl ReturnedConn {
    /// Its parts for a request of `pool`, if the connection is still good. If it is not, the permit is for the next
    /// request in line.
    pub(super) fn into_parts(self, pool: &Arc<Pool>, now: Instant) -> Option<(IdleConn, PoolPermit)> {
        let ReturnedConn { mut idle_conn, permit } = self;
        if idle_conn.is_still_quiet(now) {
            return Some((idle_conn, permit.moved_to(pool)));
        }
        pool.events.count(|counts| counts.stale += 1);
        idle_conn.close();
        None
    }
}

/// The wait of a request for a connection that comes back.
pub(super) struct ReturnWait {
    /// `None` once one has come.
    receiver: Option<oneshot::Receiver<ReturnedConn>>,
}

impl ReturnWait {
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<ReturnedConn> {
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

impl Drop for Pool {
    fn drop(&mut self) {
        self.events.retire();
    }
}

impl Drop for PoolPermit {
    fn drop(&mut self) {
        debug_assert!(self.pool.busy() > 0, "a permit returns once");
        self.pool.share.in_use.fetch_sub(1, Ordering::Relaxed);
        self.pool.shared.permits.add_permits(1);
    }
}

/// Counts a request as waiting for as long as it waits. A caller that goes away drops it, too.
struct WaitGuard<'a>(&'a Pool);

impl WaitGuard<'_> {
    fn new(pool: &Pool) -> WaitGuard<'_> {
        pool.share.waiting.fetch_add(1, Ordering::Relaxed);
        pool.shared.waiting.fetch_add(1, Ordering::Relaxed);
        WaitGuard(pool)
    }
}

impl Drop for WaitGuard<'_> {
    fn drop(&mut self) {
        self.0.share.waiting.fetch_sub(1, Ordering::Relaxed);
        self.0.shared.waiting.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;
    use crate::Client;
    use crate::client::ClientTimeouts;
    use crate::net::MemoryListener;
    use crate::runtime::sleep;

    const MANY: usize = 32;
    const HEAD: usize = "GET / HTTP/1.1\r\nhost: a\r\n\r\n".len();

    #[tokio::test(start_paused = true)]
    async fn the_memory_of_a_burst_is_given_back_whether_connections_rest_or_not() {
        burst(Duration::MAX, MANY).await;
        burst(Duration::ZERO, 0).await;
    }

    async fn burst(idle: Duration, idle_conn: usize) {
        let listener = MemoryListener::new();
        let client = Client::builder()
            .connect_to(&listener)
            .timeouts(ClientTimeouts { idle, ..ClientTimeouts::default() })
            .build();
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
        let pool = client.sender.pool(host.origin(), None).unwrap();
        assert!(!lock(&pool.shared.state).exchanges.is_empty());
        assert_eq!(pool.idle(), idle_conn);
        sleep(Duration::from_secs(20)).await;
        assert!(lock(&pool.shared.state).exchanges.is_empty());
        assert_eq!((pool.idle(), pool.busy()), (idle_conn, 0));
    }
}
