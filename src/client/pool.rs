//! [`Pool`]: the connections to one origin in one runtime.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::{Semaphore, SemaphorePermit};

use super::exchange::{Exchange, Persistence};
use super::origin::Origin;
use super::redirect::{CREDENTIALS, RedirectTaint};
use super::route::Proxy;
use super::settings::Settings;
use super::{ClientCause, ClientError, ClientPhase};
use crate::memory::{FreeList, lock};
use crate::message::{BodyLength, FieldName, Headers, Method, Request, Version};
use crate::net::{Conn, Sendable};
use crate::runtime::{self, Handle, Id, Instant, later, timeout_at};
use crate::wire::Announcement;
use crate::wire::encode::{self, Additions};

/// The connections to one origin: a bounded number in use, and those that rest until they are needed.
pub(super) struct Pool {
    /// The runtime that they belong to.
    runtime: Id,
    pub(super) origin: Origin,
    /// The proxy that requests go through, if there is one.
    pub(super) proxy: Option<Proxy>,
    /// Default fields of requests; among them a proxy's credentials, if the proxy reads the requests.
    fields: Headers,
    /// The default fields without credentials, for requests that were redirected here, and for TRACE.
    public_fields: Headers,
    /// A permit for each connection that may still be opened or taken. The semaphore is fair, so requests are served in
    /// turn.
    permits: Semaphore,
    state: Mutex<PoolState>,
    pub(super) settings: Arc<Settings>,
    created_at: Instant,
    /// When the server last answered in HTTP/1.0, in seconds since `created_at`, counted from 1. 0: its last answer was in
    /// 1.1.
    answered_in_1_0: AtomicU64,
    /// Whether a task is looking after resting connections.
    is_reaping: Arc<AtomicBool>,
    /// Starts that task.
    start_reaper: Box<dyn Fn() + Send + Sync>,
}

#[derive(Default)]
struct PoolState {
    /// The most recently used one is at the end, and is taken first, so that surplus ones grow old and are closed.
    conns: Vec<IdleConn>,
    /// How often all of them were closed.
    closings: u64,
    exchanges: FreeList<Exchange>,
}

/// A connection that is not in use.
pub(super) struct IdleConn {
    pub(super) conn: Box<Conn<Sendable>>,
    pub(super) opened_at: Instant,
    idle_since: Instant,
    expires_at: Instant,
}

/// The right to use one connection of a pool. Dropping it passes the right to the next request in line.
pub(super) struct PoolPermit {
    pub(super) pool: Arc<Pool>,
}

/// What keeps a request from being sent at once.
pub(super) enum CheckoutMiss {
    /// No connection rests here.
    NoIdle(PoolPermit),
    /// All connections are in use, or other requests wait for one. The request has been waiting since then.
    NoPermit(Arc<Pool>, Instant),
}

impl Pool {
    pub(super) fn new(
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

    /// How `request`, whose body has this length, is announced to the server.
    ///
    /// # Errors
    ///
    /// Fails if the length is unknown and the server is known to speak HTTP/1.0, which has no chunks (RFC 9112 §6.1).
    pub(super) fn announce(
        &self,
        request: &Request,
        content: BodyLength,
    ) -> Result<Announcement, ClientError> {
        let (has_trailers, speaks_1_0) = (!request.trailers.is_empty(), self.speaks_1_0());
        match content {
            BodyLength::Unknown if speaks_1_0 => {
                Err(ClientError::new(ClientPhase::Prepare, ClientCause::LengthRequired))
            }
            _ => Ok(Announcement::of_request(request.method(), content, has_trailers && !speaks_1_0)),
        }
    }

    /// Notes the version in which the server has answered.
    pub(super) fn note_version(&self, version: Version) {
        let answered = match version {
            Version::Http10 => 1 + self.age(),
            Version::Http11 => 0,
        };
        if answered != self.answered_in_1_0.load(Ordering::Relaxed) {
            self.answered_in_1_0.store(answered, Ordering::Relaxed);
        }
    }

    /// Whether the server has answered in HTTP/1.0, not long ago.
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
    pub(super) fn is_here(&self) -> bool {
        Handle::current().is_some_and(|here| here.id() == self.runtime)
    }

    /// Whether a proxy reads the requests.
    fn is_forwarded(&self) -> bool {
        self.proxy.as_ref().is_some_and(|proxy| proxy.forwards(self.origin.scheme))
    }

    /// Writes the head of `request` as it is sent over these connections.
    pub(super) fn write_head(
        &self,
        out: &mut Vec<u8>,
        (request, taint): (&Request, RedirectTaint),
        announcement: Announcement,
        cookie: Option<&[u8]>,
    ) {
        let defaults = match (taint, request.method()) {
            // Whatever a TRACE carries is sent back (RFC 9110 §9.3.8).
            (RedirectTaint::CrossOrigin, _) | (RedirectTaint::SameOrigin, Method::Trace) => {
                &self.public_fields
            }
            (RedirectTaint::SameOrigin, _) => &self.fields,
        };
        let authority = request.target().authority().unwrap_or(self.origin.authority());
        let scheme = self.is_forwarded().then_some("http");
        encode::request(out, request, announcement, Additions { scheme, authority, defaults, cookie });
    }

    /// A place, if one is free and no request waits for it; else returns the pool.
    pub(super) fn try_acquire(self: Arc<Pool>) -> Result<PoolPermit, Arc<Pool>> {
        match self.permits.try_acquire().map(SemaphorePermit::forget) {
            Ok(()) => Ok(PoolPermit { pool: self }),
            Err(_) => Err(self),
        }
    }

    /// Waits for a place. The wait began at `since`.
    ///
    /// # Errors
    ///
    /// Fails if none became free in time.
    pub(super) async fn acquire(
        self: Arc<Pool>,
        since: Instant,
        deadline: Option<Instant>,
    ) -> Result<PoolPermit, ClientError> {
        let is_late = || deadline.is_some_and(|deadline| deadline <= runtime::now());
        match timeout_at(self.settings.queue_until(since, deadline), self.permits.acquire()).await {
            // A place that becomes free only now is for those who can still use it.
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
    pub(super) fn take_idle(&self, now: Instant) -> Option<(IdleConn, Box<Exchange>)> {
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

    fn pop(&self) -> Option<(IdleConn, Box<Exchange>)> {
        let mut state = lock(&self.state);
        Some((state.conns.pop()?, state.exchanges.take(Box::default)))
    }

    /// Takes memory for an exchange.
    pub(super) fn take_exchange(&self) -> Box<Exchange> {
        lock(&self.state).exchanges.take(Box::default)
    }

    /// Lets a connection rest from `now` on.
    pub(super) fn give(&self, conn: Box<Conn<Sendable>>, exchange: Box<Exchange>, now: Instant) {
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

    /// Drops connections that have rested too long or were closed by the server, and memory that is not needed. Returns
    /// whether anything is left.
    pub(super) fn sweep(&self, now: Instant) -> bool {
        let (mut conns, closings) = {
            let mut state = lock(&self.state);
            (std::mem::take(&mut state.conns), state.closings)
        };
        let dead = conns.extract_if(.., |idle_conn| idle_conn.expires_at <= now || !idle_conn.is_quiet());
        dead.for_each(IdleConn::close);
        let mut state = lock(&self.state);
        // Meanwhile all may have been closed, or others opened in place of these.
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

    /// Closes all resting connections.
    pub(super) fn close_idle(&self) {
        // In two steps, or they would be dropped under the lock, which the application's own stream types might need.
        let closed = {
            let mut state = lock(&self.state);
            state.closings += 1;
            std::mem::take(&mut state.conns)
        };
        closed.into_iter().for_each(IdleConn::close);
    }

    /// How many connections rest.
    pub(super) fn idle(&self) -> usize {
        lock(&self.state).conns.len()
    }

    /// How many connections are in use, or about to be.
    pub(super) fn busy(&self) -> usize {
        self.settings.pool.connections_max.saturating_sub(self.permits.available_permits())
    }

    /// How long a connection may rest: our limit, or less if the server asked for less.
    fn idle_max(&self, asked: Option<Duration>) -> Duration {
        let idle = self.settings.pool.idle;
        asked.map_or(idle, |least| least.min(idle))
    }

    /// Whether a connection that was opened at `opened_at` may still be used.
    pub(super) fn is_within_age(&self, opened_at: Instant, now: Instant) -> bool {
        self.settings.pool.age.is_none_or(|age| later(opened_at, age) > now)
    }
}

impl IdleConn {
    /// Whether the server has neither closed it nor sent anything unasked, as far as the runtime has noticed. This takes
    /// no system call, since the runtime knows by itself whether the socket has become readable.
    fn is_quiet(&mut self) -> bool {
        self.conn.transport.is_quiet_in_runtime()
    }

    /// As [`IdleConn::is_quiet`] just before it is used. A runtime notices nothing while its thread is busy, so after more
    /// than a short rest the system is asked.
    fn is_still_quiet(&mut self, now: Instant) -> bool {
        self.is_quiet() && (later(self.idle_since, SHORT) > now || self.conn.transport.is_quiet_in_kernel())
    }

    fn close(mut self) {
        self.conn.transport.try_shutdown();
    }
}

/// For how many seconds it is remembered that a server speaks HTTP/1.0. It may be replaced by one that speaks 1.1.
const VERSION_KEPT_SECS: u64 = 60;

/// A rest that is too short for a server to lose patience. Connections in constant use rest no longer than this.
const SHORT: Duration = Duration::from_millis(1);

impl Drop for Pool {
    fn drop(&mut self) {
        self.close_idle();
    }
}

impl Drop for PoolPermit {
    fn drop(&mut self) {
        self.pool.permits.add_permits(1);
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
        let pool = client.pool(host.origin()).unwrap();
        assert!(!lock(&pool.state).exchanges.is_empty());
        assert_eq!(pool.idle(), idle_conn);
        sleep(Duration::from_secs(20)).await;
        assert!(lock(&pool.state).exchanges.is_empty());
        assert_eq!((pool.idle(), pool.busy()), (idle_conn, 0));
    }
}
