//! [`Pool`]: the connections to one origin in one runtime; [`RuntimePools`]: all pools of one runtime.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, RwLock, Weak};
use std::time::Duration;

use tokio::sync::{Semaphore, SemaphorePermit};

use crate::client::cause::{ClientCause, ClientPhase};
use crate::client::cookies::RequestCookies;
use crate::client::error::ClientError;
use crate::client::exchange::{ClientExchange, Persistence};
use crate::client::origin::{self, Origin};
use crate::client::redirect::{CREDENTIALS, OutgoingRequest, RedirectTaint};
use crate::client::route::{InvalidProxy, Proxy};
use crate::client::settings::Settings;
use crate::memory::{FreeList, lock, read_lock, write_lock};
use crate::message::{BodyLength, FieldName, Headers, Method, Request, Target, Version};
use crate::net::{Conn, Sendable};
use crate::runtime::{self, Handle, Id, Instant, later, timeout_at};
use crate::wire::OutgoingFraming;
use crate::wire::encode::{self, RequestDefaults};

/// The connections to one origin: a bounded number in use, and the idle ones.
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
    permits: Semaphore,
    state: Mutex<PoolState>,
    pub(in crate::client) settings: Arc<Settings>,
    created_at: Instant,
    /// When the server last answered in HTTP/1.0, in seconds since `created_at`, counted from 1. 0 if its last response
    /// was in HTTP/1.1.
    answered_in_1_0: AtomicU64,
    /// Whether the idle reaper of the runtime is running.
    is_reaping: Arc<AtomicBool>,
    /// Starts the idle reaper.
    start_reaper: Box<dyn Fn() + Send + Sync>,
}

#[derive(Default)]
struct PoolState {
    /// The most recently used connection is at the end, and is taken first, so that surplus ones expire.
    conns: Vec<IdleConn>,
    /// How often all idle connections were closed.
    closings: u64,
    exchanges: FreeList<ClientExchange>,
}

/// A connection that is not in use.
pub(in crate::client) struct IdleConn {
    pub(in crate::client) conn: Box<Conn<Sendable>>,
    pub(in crate::client) opened_at: Instant,
    idle_since: Instant,
    expires_at: Instant,
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
    pub(in crate::client) fn new(
        runtime: Id,
        (origin, proxy): (Origin, Option<Proxy>),
        settings: Arc<Settings>,
        is_reaping: Arc<AtomicBool>,
        start_reaper: impl Fn() + Send + Sync + 'static,
    ) -> Pool {
        let permits = Semaphore::new(settings.pool.connections_max);
        let (mut fields, mut public_fields) = (settings.fields.clone(), settings.fields.clone());
        public_fields.remove_each(&CREDENTIALS);
        let reader = proxy.as_ref().filter(|proxy| proxy.forwards(origin.scheme));
        if let Some(authorization) = reader.and_then(Proxy::authorization) {
            for fields in [&mut fields, &mut public_fields] {
                fields.put(FieldName::new("proxy-authorization"), authorization.as_bytes());
            }
        }
        let (state, start_reaper) = (Mutex::default(), Box::new(start_reaper));
        let (created_at, answered_in_1_0) = (runtime::now(), AtomicU64::new(0));
        Pool {
            runtime,
            origin,
            proxy,
            fields,
            public_fields,
            permits,
            state,
            settings,
            created_at,
            answered_in_1_0,
            is_reaping,
            start_reaper,
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
    fn is_forwarded(&self) -> bool {
        self.proxy.as_ref().is_some_and(|proxy| proxy.forwards(self.origin.scheme))
    }

    /// Writes the head of a request as it is sent over the connections of this pool.
    pub(in crate::client) fn write_head(
        &self,
        out: &mut Vec<u8>,
        OutgoingRequest { request, taint, .. }: OutgoingRequest<'_>,
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
        encode::request(
            out,
            request,
            framing,
            RequestDefaults { scheme, authority, headers: defaults, cookie },
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
            Ok(()) => Ok(PoolPermit { pool: self }),
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
        deadline: Option<Instant>,
    ) -> Result<PoolPermit, ClientError> {
        let is_late = || deadline.is_some_and(|deadline| deadline <= runtime::now());
        match timeout_at(self.settings.queue_until(since, deadline), self.permits.acquire()).await {
            // A permit that becomes free only after the deadline is left to a request that can still use it.
            Ok(Ok(permit)) if !is_late() => permit.forget(),
            _ => {
                let most = self.settings.pool.connections_max;
                let error = ClientError::new(ClientPhase::Queue, ClientCause::TimedOut);
                return Err(error.with_subject(format!(
                    "one of the {most} connections to {}",
                    self.origin.host_and_port()
                )));
            }
        }
        Ok(PoolPermit { pool: self })
    }

    /// Takes the most recently used connection that is still good, and memory for an exchange. Others on the way are
    /// dropped.
    pub(in crate::client) fn take_idle(&self, now: Instant) -> Option<(IdleConn, Box<ClientExchange>)> {
        loop {
            // Closing a connection is a system call, so it must not happen under the lock.
            let (mut idle_conn, exchange) = self.pop()?;
            if idle_conn.expires_at > now
                && self.is_within_age(idle_conn.opened_at, now)
                && idle_conn.is_still_quiet(now)
            {
                return Some((idle_conn, exchange));
            }
            idle_conn.close();
        }
    }

    fn pop(&self) -> Option<(IdleConn, Box<ClientExchange>)> {
        let mut state = lock(&self.state);
        Some((state.conns.pop()?, state.exchanges.take(Box::default)))
    }

    /// Takes memory for an exchange.
    pub(in crate::client) fn take_exchange(&self) -> Box<ClientExchange> {
        lock(&self.state).exchanges.take(Box::default)
    }

    /// Takes a connection back, which is idle from `now` on.
    pub(in crate::client) fn give(
        &self,
        conn: Box<Conn<Sendable>>,
        exchange: Box<ClientExchange>,
        now: Instant,
    ) {
        debug_assert!(exchange.io_state.is_some(), "an idle connection has no buffers");
        debug_assert!(exchange.persistence.persists, "a connection that closes does not come back");
        debug_assert!(exchange.incoming.input.is_empty(), "all that arrived has been read");
        let Persistence { opened_at, idle, .. } = exchange.persistence;
        let idle = self.idle_max(idle);
        let idle_conn = IdleConn { conn, opened_at, idle_since: now, expires_at: later(now, idle) };
        let is_good = !idle.is_zero() && self.is_within_age(opened_at, now);
        if is_good {
            let mut state = lock(&self.state);
            state.exchanges.give(exchange);
            state.conns.push(idle_conn);
        } else {
            lock(&self.state).exchanges.give(exchange);
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
            (std::mem::take(&mut state.conns), state.closings)
        };
        let dead = conns.extract_if(.., |idle_conn| idle_conn.expires_at <= now || !idle_conn.is_quiet());
        dead.for_each(IdleConn::close);
        let mut state = lock(&self.state);
        // While the lock was free, all connections may have been closed, or others opened instead of these.
        let room = match state.closings == closings {
            true => self.settings.pool.connections_max.saturating_sub(self.busy() + state.conns.len()),
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

    /// How many connections are idle.
    pub(in crate::client) fn idle(&self) -> usize {
        lock(&self.state).conns.len()
    }

    /// How many connections are in use, or about to be.
    pub(in crate::client) fn busy(&self) -> usize {
        self.settings.pool.connections_max.saturating_sub(self.permits.available_permits())
    }

    /// How long a connection may be idle: the limit of the client, or the server's if that is less.
    fn idle_max(&self, asked: Option<Duration>) -> Duration {
        let idle = self.settings.pool.idle;
        asked.map_or(idle, |least| least.min(idle))
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

impl Drop for Pool {
    fn drop(&mut self) {
        self.close_idle();
    }
}

impl Drop for PoolPermit {
    fn drop(&mut self) {
        debug_assert!(self.pool.busy() > 0, "a permit returns once");
        self.pool.permits.add_permits(1);
    }
}

/// The pools of one runtime. A connection cannot be used in another one.
struct RuntimePools {
    handle: Handle,
    settings: Arc<Settings>,
    by_origin: Mutex<PoolMap>,
    /// Whether the idle reaper is running. The pools share this flag, to check it cheaply.
    is_reaping: Arc<AtomicBool>,
}

impl RuntimePools {
    fn new(handle: Handle, settings: Arc<Settings>) -> Arc<RuntimePools> {
        Arc::new(RuntimePools { handle, settings, by_origin: Mutex::default(), is_reaping: Arc::default() })
    }

    /// The pool of the origin with this key, if it was needed before.
    fn find(&self, key: &str) -> Option<Arc<Pool>> {
        lock(&self.by_origin).find(key)
    }

    /// The pool of the origin with this key.
    ///
    /// # Errors
    ///
    /// Fails if it is not the key of an origin.
    fn pool(self: &Arc<RuntimePools>, key: &str) -> Result<Arc<Pool>, ClientError> {
        let mut by_origin = lock(&self.by_origin);
        if let Some(pool) = by_origin.find(key) {
            return Ok(pool);
        }
        let origin = Origin::from_key(key)
            .ok_or_else(|| ClientError::new(ClientPhase::Prepare, ClientCause::Origin))?;
        let proxy = self.settings.proxies.proxy_for(origin.scheme, origin.host(), origin.port);
        let unusable = |invalid: &InvalidProxy| ClientCause::Proxy(Box::new(invalid.clone()));
        let proxy =
            proxy.map_err(|invalid| ClientError::new(ClientPhase::Prepare, unusable(invalid)))?.cloned();
        if by_origin.by_key.len() == by_origin.by_key.capacity() {
            // Before the map grows, pools are dropped whose hosts could never be reached.
            by_origin.prune();
        }
        let pools = Arc::downgrade(self);
        let start_reaper = move || pools.upgrade().iter().for_each(RuntimePools::start_reaper);
        let (settings, is_reaping) = (self.settings.clone(), self.is_reaping.clone());
        let pool = Arc::new(Pool::new(self.handle.id(), (origin, proxy), settings, is_reaping, start_reaper));
        by_origin.by_key.insert(key.into(), pool.clone());
        Ok(pool)
    }

    /// Whether no pool is left.
    fn is_empty(&self) -> bool {
        let mut by_origin = lock(&self.by_origin);
        by_origin.prune();
        by_origin.by_key.is_empty()
    }

    fn each(&self, mut then: impl FnMut(&Pool)) {
        let pools = Vec::from_iter(lock(&self.by_origin).by_key.values().cloned());
        pools.iter().for_each(|pool| then(pool));
    }

    /// Starts the idle reaper, unless it is running. The task ends when no connection is left.
    fn start_reaper(self: &Arc<RuntimePools>) {
        if !self.is_reaping.swap(true, Ordering::AcqRel) {
            let reaper = IdleReaper(Arc::downgrade(self));
            self.handle.spawn(async move { reaper.run().await });
        }
    }

    /// Sweeps all pools. Returns whether any of them needs another sweep.
    fn sweep(&self) -> bool {
        let now = runtime::now();
        let mut is_needed = false;
        self.each(|pool| is_needed |= pool.sweep(now));
        lock(&self.by_origin).prune();
        is_needed
    }
}

#[derive(Default)]
struct PoolMap {
    /// By the keys of their origins.
    by_key: HashMap<Box<str>, Arc<Pool>>,
    /// The pool that was found last, since most clients send many requests to one host.
    last: Option<Arc<Pool>>,
}

impl PoolMap {
    fn find(&mut self, key: &str) -> Option<Arc<Pool>> {
        if self.last.as_ref().is_none_or(|pool| pool.origin.key() != key) {
            self.last = Some(self.by_key.get(key)?.clone());
        }
        self.last.clone()
    }

    /// Removes pools that are not in use and have no idle connection.
    fn prune(&mut self) {
        self.last = None;
        self.by_key.retain(|_, pool| Arc::strong_count(pool) > 1 || pool.idle() > 0);
    }
}

/// Closes the idle connections of a runtime that have expired. If the runtime ends first, it drops this task, and the
/// idle connections with it: they could no longer be used, and nothing would notice that their servers have closed
/// them.
struct IdleReaper(Weak<RuntimePools>);

impl IdleReaper {
    async fn run(mut self) {
        loop {
            runtime::sleep(REAP_INTERVAL).await;
            let Some(pools) = self.0.upgrade() else { return };
            if pools.sweep() {
                continue;
            }
            pools.is_reaping.store(false, Ordering::Release);
            // A connection may have become idle just now, when the flag was still set.
            let mut is_empty = true;
            pools.each(|pool| is_empty &= pool.idle() == 0);
            if is_empty || pools.is_reaping.swap(true, Ordering::AcqRel) {
                self.0 = Weak::new();
                return;
            }
        }
    }
}

impl Drop for IdleReaper {
    fn drop(&mut self) {
        let Some(pools) = self.0.upgrade() else { return };
        // The flag is cleared first, or a connection that becomes idle meanwhile would start no reaper.
        pools.is_reaping.store(false, Ordering::Release);
        pools.each(Pool::close_idle);
    }
}

/// The time between two sweeps.
const REAP_INTERVAL: Duration = Duration::from_secs(1);

/// The pools of a client, in all runtimes.
pub(in crate::client) struct ClientPools {
    pub(in crate::client) settings: Arc<Settings>,
    /// A list, since a program has few runtimes.
    by_runtime: RwLock<Vec<(Id, Arc<RuntimePools>)>>,
}

impl ClientPools {
    pub(in crate::client) fn new(settings: Settings) -> ClientPools {
        ClientPools { settings: Arc::new(settings), by_runtime: RwLock::default() }
    }

    pub(in crate::client) fn each(&self, mut then: impl FnMut(&Pool)) {
        // Connections are not dropped under the lock: the stream types of an application may use the client.
        let all = Vec::from_iter(read_lock(&self.by_runtime).iter().map(|(_, pools)| pools.clone()));
        all.iter().for_each(|pools| pools.each(&mut then));
    }

    /// The pool of the origin that `target` names, in this runtime.
    pub(in crate::client) fn pool_of(&self, target: &Target) -> Result<Arc<Pool>, ClientError> {
        self.with_current_pools(|pools| {
            // Nearly all targets spell the origin exactly as its key, and need no normalization.
            let known = target.origin().and_then(|key| pools.find(key));
            known.map_or_else(|| pools.pool(&origin::key(target)?), Ok)
        })
    }

    /// The pool of the origin with this key, in this runtime.
    pub(in crate::client) fn pool(&self, key: &str) -> Result<Arc<Pool>, ClientError> {
        self.with_current_pools(|pools| pools.pool(key))
    }

    fn with_current_pools<T>(
        &self,
        then: impl FnOnce(&Arc<RuntimePools>) -> Result<T, ClientError>,
    ) -> Result<T, ClientError> {
        let Some(handle) = Handle::current() else {
            return Err(ClientError::new(ClientPhase::Prepare, ClientCause::NoRuntime));
        };
        let all = read_lock(&self.by_runtime);
        let is_current = |(id, _): &&(Id, Arc<RuntimePools>)| *id == handle.id();
        if let Some((_, pools)) = all.iter().find(is_current) {
            return then(pools);
        }
        drop(all);
        let mut all = write_lock(&self.by_runtime);
        // Removes the pools of runtimes that have ended, or a program that makes a runtime for each request would
        // accumulate them.
        all.retain(|(_, pools)| !pools.is_empty());
        let at = all.iter().position(|entry| is_current(&entry)).unwrap_or_else(|| {
            all.push((handle.id(), RuntimePools::new(handle.clone(), self.settings.clone())));
            all.len() - 1
        });
        then(&all[at].1)
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

#[cfg(test)]
mod pools_tests {
    use super::lock;
    use crate::{Client, block_on};

    #[test]
    fn unreachable_hosts_and_ended_runtimes_are_forgotten() {
        let client = Client::new();
        for runtime in 0..20 {
            let asked = block_on(async {
                for host in 0..100 {
                    client.get(&format!("http://127.0.0.1:1{host:02}/")).await.unwrap_err();
                }
                let all = client.sender.pools.by_runtime.read().unwrap();
                (all.len(), all.iter().map(|(_, pools)| lock(&pools.by_origin).by_key.len()).sum::<usize>())
            });
            let (runtimes, pools) = asked.unwrap();
            assert!(
                runtimes == 1 && pools < 50,
                "{pools} pools of {runtimes} runtimes after runtime {runtime}"
            );
        }
    }
}
