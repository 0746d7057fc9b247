//! [`LoadShed`]: refuses requests while their core is behind.

use std::time::Duration;

use crate::message::{FieldName, Status};
use crate::runtime::queue_wait;
use crate::server::{BodyPlan, Context, Error, GuardKind, Handler, Middleware, Result, plan_guarded};

/// Refuses requests that have waited too long for a busy core.
///
/// A server with more requests than its cores can handle lets them wait. In the end hardly any response is in time, and
/// the peers of many requests may have given up. After a wait beyond the bound, this guard answers a request with 503
/// and `retry-after: 1` (RFC 9110 §15.6.4, §10.2.3), before its body is received. So the core has time for requests
/// that are not late yet. A refusal takes about 7 us of it, most of them in the operating system. At five times the
/// load that a core can handle, refusals take a tenth of its time with requests of 300 us, and a quarter with requests
/// of 100 us.
///
/// The wait is that of the connection's task in the queue of its core. It begins when the core sees new bytes or a new
/// connection. A busy core looks for bytes once in 61 tasks. Only the time counts in which the task was surely in the queue. So
/// the true wait is longer: up to about twice the bound, and more with most requests refused. A core that keeps up refuses
/// nothing, at any rate of requests.
///
/// The guard sees handlers that compute, not waits. A slow database or a slow server does not make requests wait for the core.
/// For those, use a [`ConcurrencyLimit`](crate::middleware::ConcurrencyLimit). Handlers that must be called in any case, such
/// as those of health checks, belong outside of the guard. A [`Service`](crate::Service), whose runtime is the application's,
/// refuses nothing.
///
/// # Examples
///
/// ```no_run
/// use std::time::Duration;
/// use corehttp::middleware::wrap;
/// use corehttp::{Context, Server};
/// use corehttp::middleware::LoadShed;
///
/// let app = |ctx: &mut Context| ctx.response.set_text("a page that takes 100 µs to make");
/// Server::bind("[::]:8080").run(wrap(LoadShed::new(Duration::from_millis(20)), app))?;
/// # Ok::<(), corehttp::Error>(())
/// ```
#[doc(alias("overload", "backpressure", "queue", "CoDel", "503"))]
#[derive(Clone, Copy, Debug)]
#[must_use]
pub struct LoadShed {
    wait_max: Duration,
}

impl LoadShed {
    /// Creates a guard that refuses requests after a wait of more than `wait_max`.
    ///
    /// A fifth of the time in which clients want their response is a good bound. A single request delays all others of its core
    /// while its handler computes. The bound should be several times that long.
    pub fn new(wait_max: Duration) -> LoadShed {
        LoadShed { wait_max }
    }

    fn check(&self, ctx: &mut Context) -> Result {
        if queue_wait() > self.wait_max { Err(unavailable(ctx, GuardKind::LoadShed)) } else { Ok(()) }
    }
}

impl Middleware for LoadShed {
    fn on_head(&self, ctx: &mut Context, next: &impl Handler) -> BodyPlan {
        plan_guarded(ctx, next, |ctx| self.check(ctx))
    }

    async fn call(&self, ctx: &mut Context, next: &impl Handler) -> Result {
        self.check(ctx)?;
        next.handle(ctx).await
    }
}

/// The error of guards that protect the server: 503, and the peer is asked to wait for a second (RFC 9110 §15.6.4, §10.2.3).
pub(super) fn unavailable(ctx: &mut Context, guard: GuardKind) -> Error {
    ctx.count_refusal(guard);
    ctx.response.headers.put(FieldName::RETRY_AFTER, b"1");
    Status::SERVICE_UNAVAILABLE.into()
}
