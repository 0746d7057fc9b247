//! [`wait_for_conn`]: a connection for a request that finds none idle; [`Dial`]: one that is being opened.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use super::dial_permits::DialPermit;
use super::pool::{CheckoutMiss, LONG_DIAL, Pool, PoolPermit, ReturnWait};
use super::pooled_conn::PooledConn;
use crate::client::error::{ClientCause, ClientError, ClientPhase};
use crate::client::observe::ExchangeEnd;
use crate::client::route::{TlsHandshake, TunnelLimits};
use crate::client::settings::RequestTimeouts;
use crate::descriptors;
use crate::memory::lock;
use crate::message::Timings;
use crate::net::{AllowedAddresses, Conn, DialStep, DialTimes, HostConnector, Sendable, TokioTimer};
use crate::runtime::{self, Handle, Instant, boxed, timeout, timeout_at};

/// Waits for the connection of a request that found none idle. Either one comes back meanwhile, or a new one is opened,
/// as soon as there is a permit.
pub(in crate::client) async fn wait_for_conn(
    miss: CheckoutMiss,
    timeouts: &RequestTimeouts,
) -> Result<PooledConn, ClientError> {
    let (pool, since) = match miss {
        CheckoutMiss::NoIdle(permit) => {
            return boxed(|| dial_or_take_returned(permit, Duration::ZERO, timeouts)).await;
        }
        CheckoutMiss::NoPermit(pool, since) => (pool, since),
    };
    let permit = pool.acquire(since, timeouts).await?;
    let queued = runtime::now().saturating_duration_since(since);
    permit.pool.events.count_queued(queued);
    boxed(|| dial_or_take_returned(permit, queued, timeouts)).await
}

/// Opens a connection in place of a stale one, for the same request, with its permit.
pub(in crate::client) async fn replace_stale(
    mut stale: PooledConn,
    timeouts: &RequestTimeouts,
) -> Result<PooledConn, ClientError> {
    stale.exchange.progress.end = Some(ExchangeEnd::Retried);
    stale.close();
    let queued = stale.exchange.progress.timings.queue;
    dial_after_stale(stale.permit, queued, timeouts).await
}

/// Opens a connection for a request that has met a stale one. Others that are idle may be stale as well, so one of them takes
/// its place only if the dial fails or takes long, and from then on one that comes back.
async fn dial_after_stale(
    permit: PoolPermit,
    queued: Duration,
    timeouts: &RequestTimeouts,
) -> Result<PooledConn, ClientError> {
    let pool = permit.pool.clone();
    let since = runtime::now();
    let mut dialed = pin!(dial_with_permit(permit, queued, timeouts));
    let early = match timeout(LONG_DIAL, dialed.as_mut()).await {
        Ok(Ok(pooled)) => return Ok(pooled),
        early => early,
    };
    // The wait for a return begins before the look at those that are here, so none slips through.
    let mut returns = pool.is_of_current_runtime().then(|| Pool::await_return(&pool));
    if !timeouts.is_over()
        && let Ok(permit) = pool.clone().try_acquire()
        && let Ok(other) = PooledConn::from_idle(permit, queued, runtime::now())
    {
        return Ok(other);
    }
    if let Ok(failed) = early {
        return failed;
    }
    let opened_or_returned = poll_fn(|cx| match &mut returns {
        Some(returns) if !timeouts.is_over() => match poll_returned(cx, returns, &pool, since, queued) {
            Poll::Ready(pooled) => Poll::Ready(Ok(pooled)),
            Poll::Pending => dialed.as_mut().poll(cx),
        },
        _ => dialed.as_mut().poll(cx),
    });
    opened_or_returned.await
}

/// Opens a connection for a request that must have a new one.
async fn dial_with_permit(
    permit: PoolPermit,
    queued: Duration,
    timeouts: &RequestTimeouts,
) -> Result<PooledConn, ClientError> {
    let since = runtime::now();
    let dial_permit = wait_for_dial_permit(&permit.pool, queued, since, timeouts).await?;
    let waited = runtime::now().saturating_duration_since(since);
    permit.pool.events.count_queued(waited);
    let mut dial = Dial::new(permit, dial_permit, timeouts);
    let opened = before(timeouts.deadline, poll_fn(|cx| dial.poll(cx))).await;
    dial.end(opened).map(|new| new.into_pooled(queued + waited))
}

/// Opens a connection, for a request that has met a stale one, as soon as a permit is free.
pub(in crate::client) async fn open_new(
    pool: Arc<Pool>,
    since: Instant,
    timeouts: &RequestTimeouts,
) -> Result<PooledConn, ClientError> {
    let permit = match pool.try_acquire() {
        Ok(permit) => permit,
        Err(pool) => pool.acquire(since, timeouts).await?,
    };
    permit.pool.make_room();
    boxed(|| dial_after_stale(permit, Duration::ZERO, timeouts)).await
}

/// Opens a connection, or takes one that comes back before. The new one is then for the next request.
async fn dial_or_take_returned(
    permit: PoolPermit,
    queued: Duration,
    timeouts: &RequestTimeouts,
) -> Result<PooledConn, ClientError> {
    // A request may wait in one runtime, and go on in another.
    if !permit.pool.is_of_current_runtime() {
        return dial_with_permit(permit, queued, timeouts).await;
    }
    let since = runtime::now();
    let mut returns = Pool::await_return(&permit.pool);
    // A connection may have come back before the wait for it has begun.
    let permit = match PooledConn::from_idle(permit, queued, since) {
        Ok(pooled) => return Ok(pooled),
        Err(permit) => permit,
    };
    let dial_permit = match wait_for_turn(&permit.pool, &mut returns, queued, since, timeouts).await? {
        Turn::Dial(dial_permit) => dial_permit,
        Turn::Returned(pooled) => {
            pooled.permit.pool.events.count_queued(runtime::now().saturating_duration_since(since));
            return Ok(pooled);
        }
    };
    let turn_at = runtime::now();
    let waited = turn_at.saturating_duration_since(since);
    permit.pool.events.count_queued(waited);
    dial_or_take(Dial::new(permit, dial_permit, timeouts), returns, queued + waited, turn_at, timeouts).await
}

/// Waits until the request may dial, or for a connection that comes back before. The wait began at `since`, after
/// another of `queued`.
async fn wait_for_turn(
    pool: &Arc<Pool>,
    returns: &mut ReturnWait,
    queued: Duration,
    since: Instant,
    timeouts: &RequestTimeouts,
) -> Result<Turn, ClientError> {
    let mut dial_permit = pin!(wait_for_dial_permit(pool, queued, since, timeouts));
    let turn = poll_fn(|cx| {
        // A connection that comes back at the deadline is left to a request that can still use it.
        if !timeouts.is_over()
            && let Poll::Ready(pooled) = poll_returned(cx, returns, pool, since, queued)
        {
            return Poll::Ready(Ok(Turn::Returned(pooled)));
        }
        dial_permit.as_mut().poll(cx).map_ok(Turn::Dial)
    });
    turn.await
}

/// The end of a request's wait for its turn to dial.
enum Turn {
    Dial(DialPermit),
    Returned(PooledConn),
}

/// Waits until fewer connections of `pool` are dialed than may be. The wait began at `since`, after another of `queued`.
///
/// # Errors
///
/// Fails if there was none in time.
async fn wait_for_dial_permit(
    pool: &Pool,
    queued: Duration,
    since: Instant,
    timeouts: &RequestTimeouts,
) -> Result<DialPermit, ClientError> {
    if let Some(dial_permit) = pool.dials().try_take() {
        return Ok(dial_permit);
    }
    let began = since.checked_sub(queued).unwrap_or(since);
    match timeout_at(timeouts.queue_until(began, &pool.settings), pool.dials().take()).await {
        // A permit that becomes free only after the deadline is left to a request that can still use it.
        Ok(dial_permit) if !timeouts.is_over() => Ok(dial_permit),
        _ => {
            let most = pool.settings.limits.dials_per_host_max.unwrap_or(usize::MAX);
            Err(pool.queue_timed_out(since, &format!("one of the {most} dials")))
        }
    }
}

/// Awaits the end of `dial`, or takes a connection that comes back before. The wait began at `since`, after another of
/// `queued`.
async fn dial_or_take(
    mut dial: Dial,
    mut returns: ReturnWait,
    queued: Duration,
    since: Instant,
    timeouts: &RequestTimeouts,
) -> Result<PooledConn, ClientError> {
    let first = poll_fn(|cx| match dial.poll(cx) {
        Poll::Ready(Ok(new)) => Poll::Ready(Ok(First::Opened(new))),
        // A connection that comes back at the deadline is left to a request that can still use it.
        opened if timeouts.is_over() => opened.map_ok(First::Opened),
        // A dial that fails does not matter if another connection is there.
        opened => match poll_returned(cx, &mut returns, &dial.pool, since, queued) {
            Poll::Ready(pooled) => Poll::Ready(Ok(First::Returned(pooled))),
            Poll::Pending => opened.map_ok(First::Opened),
        },
    });
    let first = before(timeouts.deadline, first).await;
    match dial.end(first)? {
        First::Opened(new) => Ok(new.into_pooled(queued)),
        First::Returned(pooled) => {
            let waited = pooled.exchange.progress.timings.queue.saturating_sub(queued);
            pooled.permit.pool.events.count_queued(waited);
            Ok(pooled)
        }
    }
}

/// The connection that a request gets.
enum First {
    Opened(NewConn),
    Returned(PooledConn),
}

/// Ready with a connection that has come back and is still good.
fn poll_returned(
    cx: &mut Context<'_>,
    returns: &mut ReturnWait,
    pool: &Arc<Pool>,
    since: Instant,
    queued: Duration,
) -> Poll<PooledConn> {
    loop {
        let returned = ready!(returns.poll(cx));
        let now = runtime::now();
        let queued = queued + now.saturating_duration_since(since);
        if let Some(pooled) = PooledConn::from_returned(returned, pool, queued, now) {
            return Poll::Ready(pooled);
        }
        // Its server has closed it meanwhile.
        *returns = Pool::await_return(pool);
    }
}

/// Awaits `wait` until the deadline of the request. Returns `None` if it is over.
async fn before<T>(deadline: Option<Instant>, wait: impl Future<Output = T>) -> Option<T> {
    match deadline {
        Some(deadline) => timeout_at(deadline, wait).await.ok(),
        None => Some(wait.await),
    }
}

/// A connection that is being opened, within the timeouts that a request has for the phases, and at first for that request.
///
/// If the request gets another connection or is given up, the dial goes on by itself, for the next request. Otherwise a
/// host that takes longer than its callers wait could never be reached. Only one dial of a pool, or of the pools that share
/// connections, goes on so, for a while, and only if no request waits for its permit.
struct Dial {
    pool: Arc<Pool>,
    /// `None` once it has ended.
    connecting: Option<ConnectFuture>,
    step: Arc<Mutex<DialStep>>,
}

type ConnectFuture = Pin<Box<dyn Future<Output = Result<NewConn, ClientError>> + Send>>;

impl Dial {
    fn new(permit: PoolPermit, dial_permit: DialPermit, timeouts: &RequestTimeouts) -> Dial {
        let pool = permit.pool.clone();
        let step = Arc::<Mutex<DialStep>>::default();
        let mut connector = HostConnector { step: step.clone(), ..pool.settings.dial.clone() };
        if pool.proxy.is_some() {
            // The operator has chosen the proxy, and the proxy chooses what it connects to.
            connector.allowed = AllowedAddresses::default();
        }
        let connecting = Box::pin(NewConn::connect(permit, dial_permit, connector, timeouts.clone()));
        Dial { pool, connecting: Some(connecting), step }
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<NewConn, ClientError>> {
        // A dial that panics is not polled again.
        let Some(mut connecting) = self.connecting.take() else { return Poll::Pending };
        let polled = connecting.as_mut().poll(cx);
        if polled.is_pending() {
            self.connecting = Some(connecting);
        }
        polled
    }

    /// Returns the outcome of the wait for this dial, which is `None` if the time of the request is up.
    fn end<T>(&self, outcome: Option<Result<T, ClientError>>) -> Result<T, ClientError> {
        let outcome = outcome.unwrap_or_else(|| Err(self.timed_out()));
        outcome.inspect_err(|error| self.pool.events.count_dial_failure(error.phase()))
    }

    /// The error of a request whose time is up.
    fn timed_out(&self) -> ClientError {
        let Pool { origin, proxy, .. } = &*self.pool;
        let step = lock(&self.step).clone();
        let phase = match step {
            DialStep::Resolve(_) => ClientPhase::Resolve,
            DialStep::Begin | DialStep::Connect => ClientPhase::Connect,
            DialStep::Secure => ClientPhase::Tls,
        };
        let subject = match (proxy, step) {
            (Some(proxy), DialStep::Resolve(name)) => proxy.name_subject(&name),
            (None, DialStep::Resolve(name)) => name.into(),
            (Some(proxy), _) => proxy.subject(origin),
            (None, _) => origin.host_and_port(),
        };
        ClientError::new(phase, ClientCause::TimedOut).with_subject(subject)
    }
}

impl Drop for Dial {
    fn drop(&mut self) {
        let Some(connecting) = self.connecting.take() else { return };
        let Some(here) = Handle::current().filter(|_| self.pool.is_of_current_runtime()) else { return };
        if let Some(lone) = self.pool.begin_lone_dial() {
            here.spawn(async move {
                let opened = timeout(LONE_DIAL_MAX, connecting).await;
                drop(lone);
                if let Ok(Ok(new)) = opened {
                    new.give();
                }
            });
        }
    }
}

/// How long a dial goes on without its request, whose phases may have no timeouts.
const LONE_DIAL_MAX: Duration = Duration::from_secs(10);

/// A connection that has just been opened.
struct NewConn {
    conn: Box<Conn<Sendable>>,
    permit: PoolPermit,
    timings: Timings,
    /// Whether it belongs to the runtime of its pool.
    is_own: bool,
}

impl NewConn {
    /// Opens a connection to the origin of the pool of `permit`, through the proxy if there is one, within the timeouts of
    /// the phases.
    ///
    /// # Errors
    ///
    /// The error has the phase that failed, and names the other side.
    async fn connect(
        permit: PoolPermit,
        dial_permit: DialPermit,
        connector: HostConnector,
        timeouts: RequestTimeouts,
    ) -> Result<NewConn, ClientError> {
        let pool = &*permit.pool;
        let was_here = pool.is_of_current_runtime();
        pool.events.count(|counts| counts.dials += 1);
        let connected = connect_for_descriptors(pool, &connector, &timeouts).await;
        let (conn, timings) = connected.map_err(|error| {
            let Pool { origin, proxy, .. } = pool;
            error.with_subject(
                proxy.as_ref().map_or_else(|| origin.host_and_port(), |proxy| proxy.subject(origin)),
            )
        })?;
        drop(dial_permit);
        pool.events.count_opened(&timings);
        let is_own = was_here && pool.is_of_current_runtime();
        Ok(NewConn { conn, permit, timings, is_own })
    }

    /// The connection in use. It is not used again if its runtime may be another than that of its pool.
    fn into_pooled(self, queued: Duration) -> PooledConn {
        let mut pooled = PooledConn::new(self.conn, self.permit, Timings { queue: queued, ..self.timings });
        pooled.exchange.persistence.persists = self.is_own;
        pooled
    }

    /// Gives the connection to another request.
    fn give(self) {
        if self.is_own {
            self.permit.give_unused(self.conn);
        }
    }
}

/// Connects, once more if there was no descriptor and idle connections close.
async fn connect_for_descriptors(
    pool: &Pool,
    connector: &HostConnector,
    timeouts: &RequestTimeouts,
) -> Result<(Box<Conn<Sendable>>, Timings), ClientError> {
    for _ in 0..descriptors::RETRIES_MAX {
        match connect(pool, connector, timeouts).await {
            Err(error) if descriptors::makes_room_after(&error) => {
                runtime::sleep(descriptors::CLOSING_TIME).await;
            }
            opened => return opened,
        }
    }
    connect(pool, connector, timeouts).await
}

async fn connect(
    Pool { origin, proxy, settings, .. }: &Pool,
    connector: &HostConnector,
    timeouts: &RequestTimeouts,
) -> Result<(Box<Conn<Sendable>>, Timings), ClientError> {
    let phases = timeouts.of_phases(settings);
    let handshake = match connector.is_in_memory {
        true => None,
        false => TlsHandshake::for_scheme(origin.scheme, origin.host(), ClientPhase::Tls)?,
    };
    let times = DialTimes { resolve: phases.resolve, connect: phases.connect };
    let (mut transport, taken) = match proxy {
        None => {
            let host = origin.dialed_host();
            let opened = connector.connect(&host, origin.port, times).await;
            opened.map_err(|error| {
                let (name, _) = connector.address.host_and_port(&host, origin.port);
                ClientError::from_dial(error, &name, &origin.host_and_port())
            })?
        }
        Some(proxy) => {
            let limits =
                TunnelLimits { times, deadline: timeouts.deadline, bounds: timeouts.bounds(settings) };
            proxy.open(connector, &settings.tls, origin, limits).await?
        }
    };
    let mut timings = Timings { resolve: taken.resolve, connect: taken.connect, ..Timings::default() };
    if let Some(handshake) = handshake {
        connector.note_step(DialStep::Secure);
        (transport, timings.tls) = handshake.run(&settings.tls, transport, phases.tls).await?;
    }
    Ok((Box::new(Conn::new(transport, TokioTimer::new())), timings))
}
