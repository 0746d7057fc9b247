//! [`Pool`]: the connections to one origin in one runtime.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::{Semaphore, SemaphorePermit};

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
use crate::message::{BodyLength, FieldName, Headers, Method, Request, Version};
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
    state: Arc<Mutex<PoolState>>,
    /// The number of this pool among those that share `state`.
    number: u64,
    pub(in crate::client) settings: Arc<Settings>,
    created_at: Instant,
    /// When the server last answered in HTTP/1.0, in seconds since `created_at`, counted from 1. 0 if its last response
    /// was in HTTP/1.1.
    answered_in_1_0: AtomicU64,
    pub(in crate::client) counters: Arc<PoolCounters>,
    /// Keeps the counts when the pool ends.
    registry: Arc<HostRegistry>,
    /// Whether the idle reaper of the runtime is running.
    is_reaping: Arc<AtomicBool>,
    /// Starts the idle reaper.
    start_reaper: Box<dyn Fn() + Send + Sync>,
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
}

/// A connection that is not in use.
pub(in crate::client) struct IdleConn {
    pub(in crate::client) conn: Box<Conn<Sendable>>,
    pub(in crate::client) connection: Arc<ClientConnection>,
    idle_since: Instant,
    expires_at: Instant,
    /// The number of the pool that has used it last, and counts it as idle.
    pool: u64,
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
        is_reaping: Arc<AtomicBool>,
        start_reaper: impl Fn() + Send + Sync + 'static,
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
            state,
            number,
            settings,
            created_at: runtime::now(),
            answered_in_1_0: AtomicU64::new(0),
            counters,
            registry,
            is_reaping,
            start_reaper: Box::new(start_reaper),
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
        if !needs_chunks || !self.speaks_1_0() {
            return Ok(OutgoingFraming::from_request(request.method(), content, has_trailers));
        }
        match content {
            BodyLength::Unknown => Err(ClientError::new(ClientPhase::Prepare, ClientCause::LengthRequired)),
            _ => Ok(OutgoingFraming::from_request(request.method(), content, false)),
        }
    }

    /// Stores the version in which the server has answered.
    pub(in crate::client) fn note_version(&self, version: Version) {
        let answered = match version {
            Version::Http10 => 1 + self.age(),
            Version::Http11 => 0,
        };
        if answered != self.answered_in_1_0.load(Ordering::Relaxed) {
            self.answered_in_1_0.store(answered, Ordering::Relaxed);
        }
    }

    /// Whether the server has answered in HTTP/1.0 within the last minute.
    fn speaks_1_0(&self) -> bool {
        match self.answered_in_1_0.load(Ordering::Relaxed) {
            0 => false,
            answered => self.age() < answered + VERSION_KEPT_SECS,
        }
    }

    /// The age of the pool in seconds.
    fn age(&self) -> u64 {
        runtime::now().saturating_duration_since(self.created_at).as_secs()
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
            let has_expired =
                idle_conn.expires_at <= now || !self.is_within_age(idle_conn.connection.opened_at, now);
            if !has_expired && idle_conn.is_still_quiet(now) {
                return Some((idle_conn, exchange));
            }
            self.counters.count(|counts| counts.stale += u64::from(!has_expired));
            idle_conn.close();
        }
    }

    fn pop(&self) -> Option<(IdleConn, Box<ClientExchange>)> {
        let mut state = lock(&self.state);
        Some((state.conns.pop()?, self.take_from(&state)))
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

    /// Takes a connection back, which is idle from `now` on.
    pub(in crate::client) fn give(
        &self,
        conn: Box<Conn<Sendable>>,
        mut exchange: Box<ClientExchange>,
        now: Instant,
    ) {
        debug_assert!(exchange.io_state.is_some(), "an idle connection has no buffers");
        debug_assert!(exchange.persistence.persists, "a connection that closes does not come back");
        debug_assert!(exchange.incoming.input.is_empty(), "all that arrived has been read");
        let idle = self.idle_max(exchange.persistence.idle);
        let connection = exchange.connection.take().expect("an exchange has a connection");
        let is_good = !idle.is_zero() && self.is_within_age(connection.opened_at, now);
        let expires_at = later(now, idle);
        let idle_conn = IdleConn { conn, connection, idle_since: now, expires_at, pool: self.number };
        let traffic = exchange.io_state.as_deref().map(IoState::total_traffic).unwrap_or_default();
        let mut state = lock(&self.state);
        self.counters.count_returned(&exchange.progress.timings, traffic);
        state.exchanges.give(exchange);
        if is_good {
            state.conns.push(idle_conn);
            drop(state);
        } else {
            // To close a connection is a system call, which other callers need not wait for.
            drop(state);
            idle_conn.close();
        }
        // A reaper that is about to end first clears the flag, and then checks once more, under the same lock, whether
        // anything is left, be it only memory.
        if !self.is_reaping.load(Ordering::Acquire) {
            (self.start_reaper)();
        }
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
        let dead = conns.extract_if(.., |idle_conn| idle_conn.expires_at <= now || !idle_conn.is_quiet());
        dead.for_each(IdleConn::close);
        let mut state = lock(&self.state);
        // While the lock was free, all connections may have been closed, or others opened instead of these.
        let room = match state.closings == closings {
            true => self.permits.available_permits().saturating_sub(state.conns.len()),
            false => 0,
        };
        let surplus = Vec::from_iter(conns.drain(..conns.len().saturating_sub(room)));
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
            std::mem::take(&mut state.conns)
        };
        closed.into_iter().for_each(IdleConn::close);
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

    /// How long a connection may be idle: the limit of the client, or that of the server if it is less.
    fn idle_max(&self, server_limit: Option<Duration>) -> Duration {
        let idle = self.settings.pool.idle;
        server_limit.map_or(idle, |limit| limit.min(idle))
    }

    /// Whether a connection that was opened at `opened_at` may still be used.
    pub(in crate::client) fn is_within_age(&self, opened_at: Instant, now: Instant) -> bool {
        self.settings.pool.age.is_none_or(|age| later(opened_at, age) > now)
    }
}

impl IdleConn {
    /// Whether the server has neither closed it nor sent anything unasked, as far as the runtime has noticed. No system
    /// call is made: the runtime is notified when the socket becomes readable.
    fn is_quiet(&mut self) -> bool {
        self.conn.transport.is_quiet_in_runtime()
    }

    /// As [`IdleConn::is_quiet`] just before it is used. A runtime is not notified while its thread is busy, so after
    /// more than a short idle time a system call looks at the socket.
    fn is_still_quiet(&mut self, now: Instant) -> bool {
        self.is_quiet() && (later(self.idle_since, SHORT) > now || self.conn.transport.is_quiet_in_kernel())
    }

    fn close(mut self) {
        self.conn.transport.try_shutdown();
    }
}

/// For how many seconds a server counts as one of HTTP/1.0. A server of HTTP/1.1 may have taken its place since.
const VERSION_KEPT_SECS: u64 = 60;

/// An idle time that is shorter than any server's timeout. Connections in constant use are idle no longer than this.
const SHORT: Duration = Duration::from_millis(1);

impl PoolPermit {
    /// The right that was acquired from the semaphore of `pool`.
    fn new(pool: Arc<Pool>) -> PoolPermit {
        pool.in_use.fetch_add(1, Ordering::Relaxed);
        PoolPermit { pool }
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
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;
    use crate::runtime::sleep;
    use crate::{Client, MemoryListener};

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
