//! [`ConcurrencyLimit`]: bounds how many requests a handler has in flight.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use tokio::sync::{Semaphore, SemaphorePermit};

use crate::message::{FieldName, Status};
use crate::runtime::{boxed, timeout};
use crate::server::{BodyPlan, Context, Error, GuardKind, Handler, Middleware, Result, plan_guarded};

/// Bounds how many requests a handler has in flight, on all cores together.
///
/// Requests beyond the bound are answered with 503 and `retry-after: 1` (RFC 9110 §15.6.4, §10.2.3), at once or after they have
/// [waited](ConcurrencyLimit::wait) for others to end. So the bound also protects a database that the handler uses.
///
/// Clones of one limit count together.
///
/// A request is in flight until the handler has returned. The sending of a response counts only if the handler streams it
/// itself, with [`Context::body_writer`]. A body that is to be buffered is received before, even if a guard beneath waits
/// first. So a limit beneath that guard spares the bodies of requests that are refused.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use corehttp::middleware::wrap;
/// use corehttp::{Context, Server};
/// use corehttp::middleware::ConcurrencyLimit;
///
/// async fn report(ctx: &mut Context) {
///     ctx.response.set_text("a report that takes much memory to make");
/// }
///
/// let limit = ConcurrencyLimit::new(4).wait(Duration::from_secs(2));
/// let service = Server::new().service(wrap(limit, report));
/// # let response = corehttp::block_on(service.respond(corehttp::Request::get("/")?))?;
/// # assert_eq!(response.status.as_u16(), 200);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[doc(alias("in flight", "load shed", "throttle", "bulkhead", "503"))]
#[derive(Clone, Debug)]
#[must_use]
pub struct ConcurrencyLimit {
    permits: Arc<Semaphore>,
    wait: Duration,
}

impl ConcurrencyLimit {
    /// Creates a limit of `requests_max` requests at the same time.
    pub fn new(requests_max: usize) -> ConcurrencyLimit {
        let permits = Semaphore::new(requests_max.min(Semaphore::MAX_PERMITS));
        ConcurrencyLimit { permits: Arc::new(permits), wait: Duration::ZERO }
    }

    /// Sets how long a request may wait for others to end, in the order of arrival. Default: not at all.
    ///
    /// The wait ends when the peer closes the connection. The handler is not called then, even if it is
    /// [uncancelled](crate::middleware::uncancelled). In that case, middleware around the limit gets an error.
    ///
    /// A waiting request keeps its connection and, unless the handler streams it, its body.
    /// [`Limits::connections_max`](crate::Limits::connections_max) bounds the number of such requests.
    /// [`Timeouts::handler`](crate::Timeouts::handler) includes the wait.
    pub fn wait(mut self, limit: Duration) -> ConcurrencyLimit {
        self.wait = limit;
        self
    }

    /// Waits for a permit, unless that takes too long.
    ///
    /// # Errors
    ///
    /// Fails if there is none, or if the peer of an uncancelled request leaves meanwhile.
    async fn admit(&self, ctx: &mut Context) -> Result<SemaphorePermit<'_>> {
        let permit = match self.permits.try_acquire() {
            Ok(permit) => Some(permit),
            Err(_) if self.wait.is_zero() => None,
            Err(_) => boxed(|| self.acquire(ctx)).await?,
        };
        permit.ok_or_else(|| unavailable(ctx, GuardKind::ConcurrencyLimit))
    }

    async fn acquire(&self, ctx: &Context) -> Result<Option<SemaphorePermit<'_>>> {
        let mut acquiring = pin!(timeout(self.wait, self.permits.acquire()));
        poll_fn(|cx| match acquiring.as_mut().poll(cx) {
            Poll::Ready(permit) => Poll::Ready(Ok(permit.ok().and_then(Result::ok))),
            Poll::Pending => ctx.poll_gone_before_handler(cx).map(|gone| Err(gone.into())),
        })
        .await
    }
}

impl Middleware for ConcurrencyLimit {
    fn on_head(&self, ctx: &mut Context, next: &impl Handler) -> BodyPlan {
        let check = |ctx: &mut Context| match self.wait.is_zero() && self.permits.available_permits() == 0 {
            true => Err(unavailable(ctx, GuardKind::ConcurrencyLimit)),
            false => Ok(()),
        };
        // A slow peer must not hold a permit while its body is received.
        let plan = plan_guarded(ctx, next, check);
        ctx.undefer(plan)
    }

    async fn call(&self, ctx: &mut Context, next: &impl Handler) -> Result {
        // A request that is refused needs no permit.
        if next.is_refusing() {
            return next.handle(ctx).await;
        }
        let _permit = self.admit(ctx).await?;
        next.handle(ctx).await
    }
}

/// The error of guards that protect the server: 503, and the peer is asked to wait for a second (RFC 9110 §15.6.4, §10.2.3).
pub(super) fn unavailable(ctx: &mut Context, guard: GuardKind) -> Error {
    ctx.count_refusal(guard);
    ctx.response.headers.put(FieldName::RETRY_AFTER, b"1");
    Status::SERVICE_UNAVAILABLE.into()
}
