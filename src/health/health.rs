//! [`Health`]: handlers for the probes of load balancers and orchestrators.

use std::error::Error;
use std::fmt::{self, Write};
use std::future::poll_fn;
use std::iter::zip;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;
use std::time::Duration;

use super::check::{Check, OnChange};
use crate::message::{FieldName, Status};
use crate::runtime::own_wait;
use crate::server::{Context, Handler, Result, SharedGuard, timeouts, wrap};

/// Answers the liveness and readiness probes of load balancers and orchestrators, such as Kubernetes.
///
/// A server is ready unless:
///
/// - a stop has been ordered
/// - the program has called [`Health::set_ready`] with `false`
/// - a check fails
///
/// A readiness probe runs the checks, all at once. Each check runs once at a time. Other probes wait for its outcome, which is
/// kept for some time. So a flood of probes is none for a database behind. On the cores of a server, a check goes on for the
/// next probe after its own has given up.
///
/// Clones share their state. A clone with a further check shares the earlier ones.
///
/// # Examples
///
/// ```
/// use std::sync::mpsc;
/// use std::time::Duration;
/// use corehttp::{Context, Request, routes, Server, Status};
/// use corehttp::health::Health;
///
/// # async fn ping() -> std::io::Result<()> { Ok(()) }
/// // A thread of the application takes the lines: no core waits for the log.
/// let (lines, taken) = mpsc::sync_channel(100);
/// let health = Health::new()
///     .check("database", async || ping().await)
///     .on_change(move |name, error| {
///         let _ = lines.try_send(match error {
///             Some(error) => format!("{name} fails: {error}"),
///             None => format!("{name} works again"),
///         });
///     });
/// let router = routes! {
///     GET "/livez" => health.live(),
///     GET "/readyz" => health.ready(),
///     GET "/" => |ctx: &mut Context| ctx.response.set_text("Hello"),
/// };
/// // Load balancers find out about a stop, and have 5 s to send requests elsewhere.
/// let server = Server::bind("[::]:8080").stop_delay(Duration::from_secs(5));
/// # drop(taken);
/// # let service = server.service(router);
/// # corehttp::block_on(async {
/// # let response = service.respond(Request::get("/readyz")?).await;
/// # assert_eq!((response.status, response.text()?), (Status::OK, "ready\ndatabase: ok\n"));
/// # health.set_ready(false);
/// # assert_eq!(service.respond(Request::get("/readyz")?).await.status, Status::SERVICE_UNAVAILABLE);
/// # assert_eq!(service.respond(Request::get("/livez")?).await.status, Status::OK);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })??;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[doc(alias("healthz", "readiness", "liveness", "probe"))]
#[derive(Clone)]
#[must_use]
pub struct Health {
    checks: Vec<Arc<Check>>,
    check_timeout: Duration,
    keep_outcome_for: Duration,
    is_ready: Arc<AtomicBool>,
    on_change: Arc<OnChange>,
    /// `None` if everybody may ask.
    guard: Option<SharedGuard>,
}

impl Health {
    /// Creates the health of a server without dependencies.
    pub fn new() -> Health {
        Health {
            checks: Vec::new(),
            check_timeout: Duration::from_secs(1),
            keep_outcome_for: Duration::from_secs(1),
            is_ready: Arc::new(AtomicBool::new(true)),
            on_change: Arc::new(|_, _| ()),
            guard: None,
        }
    }

    /// Sets the time limit of each check that is added after this call. Default: 1 s. After that the check is dropped, as
    /// failed.
    pub fn check_timeout(mut self, timeout: Duration) -> Health {
        self.check_timeout = timeout;
        self
    }

    /// Sets how long the outcome of each check added after this call is kept. Default: 1 s.
    pub fn keep_outcome_for(mut self, duration: Duration) -> Health {
        self.keep_outcome_for = duration;
        self
    }

    /// Adds the check of something without which the server is not ready, such as a database. Responses to probes show its
    /// name, but not its error.
    ///
    /// Not every dependency belongs here. During an outage of one that all servers share, none of them is ready.
    pub fn check<F, E>(mut self, name: &str, check: F) -> Health
    where
        F: AsyncFn() -> Result<(), E> + Send + Sync + 'static,
        E: Into<Box<dyn Error + Send + Sync>> + 'static,
    {
        self.checks.push(Arc::new(Check::new(name, check, self.check_timeout, self.keep_outcome_for)));
        self
    }

    /// Sets a function to call when the outcome of a check changes. The arguments are the name of the check and its error,
    /// `None` for a repaired check. A check counts as good before its first outcome, so a first success is not reported.
    /// Default: none.
    pub fn on_change(
        mut self,
        on_change: impl Fn(&str, Option<&(dyn Error + 'static)>) + Send + Sync + 'static,
    ) -> Health {
        self.on_change = Arc::new(on_change);
        self
    }

    /// Sets a guard of the probes. If `check` fails, the probe gets the status of the error, as with
    /// [`middleware::guard`](crate::middleware::guard). The guard concerns the handlers that are made after this call. Probes
    /// in a group of routes with a guard need none of their own.
    ///
    /// The names of checks show strangers the parts of a service. The probes of Kubernetes come from the address of the node,
    /// those of load balancers from their own.
    ///
    /// # Examples
    ///
    /// ```
    /// use corehttp::health::Health;
    /// use corehttp::{Context, Status};
    ///
    /// let health = Health::new().guarded_by(|ctx: &mut Context| match ctx.client_ip() {
    ///     Some(ip) if ip.is_loopback() => Ok(()),
    ///     _ => Err(Status::NOT_FOUND.into()),
    /// });
    /// # let service = corehttp::Server::new().service(health.ready());
    /// # let respond = |peer: std::net::SocketAddr| {
    /// #     corehttp::block_on(service.respond_from(peer.into(), corehttp::Request::get("/readyz").unwrap()))
    /// # };
    /// # let statuses = [respond("127.0.0.1:1".parse()?)?.status, respond("192.0.2.1:1".parse()?)?.status];
    /// # assert_eq!(statuses, [Status::OK, Status::NOT_FOUND]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn guarded_by(mut self, check: impl Fn(&mut Context) -> Result + Send + Sync + 'static) -> Health {
        self.guard = Some(Arc::new(check));
        self
    }

    /// Sets whether the program is ready, such as after its caches are warm. Default: `true`.
    ///
    /// Probes may be answered by a second server, on a port of its own. A stop of the first server does not stop the second
    /// one, whose probes are still answered with `ready`. So let the future of the first server's
    /// [`Server::stop_on`](crate::Server::stop_on) call `set_ready(false)` before it completes.
    pub fn set_ready(&self, is_ready: bool) {
        self.is_ready.store(is_ready, Ordering::Relaxed);
    }

    /// Returns the handler that answers 200: this server lives. A core that is blocked answers nothing.
    pub fn live(&self) -> impl Handler + Send + Sync + use<> {
        let health = self.clone();
        let live = move |ctx: &mut Context| -> Result {
            health.admit(ctx)?;
            ctx.response.headers.put(FieldName::new("cache-control"), b"no-store");
            ctx.response.set_text("alive\n");
            Ok(())
        };
        wrap(timeouts(|timeouts| timeouts.queue = None), live)
    }

    /// Returns the handler that answers 200 from a ready server, and 503 otherwise. The content is a line for all, and one for
    /// each check.
    pub fn ready(&self) -> impl Handler + Send + Sync + use<> {
        let health = self.clone();
        let ready = async move |ctx: &mut Context| health.respond(ctx).await;
        wrap(timeouts(|timeouts| timeouts.queue = None), ready)
    }

    fn admit(&self, ctx: &mut Context) -> Result {
        self.guard.as_ref().map_or(Ok(()), |check| check(ctx))
    }

    async fn respond(&self, ctx: &mut Context) -> Result {
        self.admit(ctx)?;
        let (is_ready, text) = match (ctx.is_stop_ordered(), self.is_ready.load(Ordering::Relaxed)) {
            (true, _) => (false, "stopping\n".to_owned()),
            (false, false) => (false, "not ready\n".to_owned()),
            (false, true) => self.run_checks().await,
        };
        let response = &mut ctx.response;
        response.headers.put(FieldName::new("cache-control"), b"no-store");
        response.set_text(text);
        if !is_ready {
            response.status = Status::SERVICE_UNAVAILABLE;
        }
        Ok(())
    }

    /// Returns whether all checks are good, and a line about each.
    async fn run_checks(&self) -> (bool, String) {
        let begun = self.checks.iter().map(|check| Box::pin(check.is_good(&self.on_change)));
        let mut running = Vec::from_iter(begun);
        let mut outcomes = vec![None; running.len()];
        own_wait(poll_fn(|cx| {
            let pending = zip(&mut running, &mut outcomes).filter(|(_, outcome)| outcome.is_none());
            pending.for_each(|(check, outcome)| {
                if let Poll::Ready(is_good) = check.as_mut().poll(cx) {
                    *outcome = Some(is_good);
                }
            });
            if outcomes.iter().all(Option::is_some) { Poll::Ready(()) } else { Poll::Pending }
        }))
        .await;
        let is_ready = outcomes.iter().all(|outcome| *outcome == Some(true));
        let mut text = String::from(if is_ready { "ready\n" } else { "not ready\n" });
        for (check, outcome) in zip(&self.checks, outcomes) {
            let outcome = if outcome == Some(true) { "ok" } else { "failed" };
            let _ = writeln!(text, "{}: {outcome}", check.name);
        }
        (is_ready, text)
    }
}

impl Default for Health {
    fn default() -> Health {
        Health::new()
    }
}

impl fmt::Debug for Health {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = Vec::from_iter(self.checks.iter().map(|check| &check.name));
        f.debug_struct("Health").field("checks", &names).finish_non_exhaustive()
    }
}
