//! [`Page`]: the handler that shows metrics to people.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;

use super::snapshot::snapshot;
use crate::message::{Request, Status, describes_client};
use crate::metrics::metrics::Metrics;
use crate::metrics::metrics_text::plan_in_any_case;
use crate::net::PeerAddr;
use crate::runtime::timeout;
use crate::server::{BodyPlan, Context, Handler, Result, SharedGuard};
use crate::sse::Event;

/// A handler that shows metrics to people, on a live page.
///
/// The page shows:
/// - rates, and percentiles of the time until the response
/// - routes and their methods, cores, memory and its reuse
/// - the slowest exchanges of the last ten minutes
/// - the latest error of each kind
/// - the hosts of clients and balancers that were added to the metrics
///
/// The page and its parts share one path and differ in the query, so a route for GET is enough. The page loads nothing from
/// elsewhere. Sixteen may be open at once. From its creation on, each core also keeps the last ten minutes of each route, in 50
/// KB for each. It keeps the slowest exchanges of that time as well, and allocates for these alone.
///
/// The page names routes, paths and peers. So it answers requests from this machine only, and others with 403. A request is
/// from this machine if all of these hold:
/// - the peer has a loopback address, or is on a Unix socket or in memory
/// - the host in the request is a loopback address or `localhost`, unlike that of a page of another site whose name leads here
/// - no proxy has added a field or a PROXY header
///
/// Behind a proxy on this machine that adds none, such as nginx by default, everybody seems local. Give the page a port of its
/// own there, or [decide](Page::guarded_by) otherwise.
///
/// # Examples
///
/// ```no_run
/// use corehttp::{Context, Server};
/// use corehttp::metrics::{self, Metrics};
///
/// fn main() -> corehttp::Result {
///     let metrics = Metrics::new();
///     // A browser on this machine shows http://127.0.0.1:9090/.
///     Server::bind("127.0.0.1:9090").cores(1).start(metrics::Page::new(&metrics))?;
///     Server::bind("[::]:8080").observe(metrics.clone()).run(|ctx: &mut Context| ctx.response.set_text("hi"))
/// }
/// ```
#[doc(alias("dashboard", "status", "monitor"))]
#[derive(Clone)]
pub struct Page {
    metrics: Metrics,
    guard: SharedGuard,
    /// A permit for each page that is live.
    viewers: Arc<Semaphore>,
}

impl Page {
    /// Creates a page that shows `metrics` to this machine.
    pub fn new(metrics: &Metrics) -> Page {
        metrics.keep_recent();
        let viewers = Arc::new(Semaphore::new(VIEWERS_MAX));
        Page { metrics: metrics.clone(), guard: Arc::new(admit_local), viewers }
    }

    /// Sets who may see the page, in place of this machine. If `check` fails, its error is the response, as for
    /// [`middleware::guard`](crate::middleware::guard).
    pub fn guarded_by(mut self, check: impl Fn(&mut Context) -> Result + Send + Sync + 'static) -> Page {
        self.guard = Arc::new(check);
        self
    }

    /// Sends the metrics every two seconds, until the peer leaves or the server stops.
    async fn send_events(&self, ctx: &mut Context) -> Result {
        let Ok(_permit) = self.viewers.try_acquire() else { return Err(Status::SERVICE_UNAVAILABLE.into()) };
        let mut stopping = Box::pin(ctx.stopping());
        let mut events = ctx.events().await?;
        let mut sent = None;
        loop {
            let (slot, data) = snapshot(&self.metrics, sent);
            sent = Some(slot);
            events.send(Event::new(&data)).await?;
            let is_stopping = events.wait(timeout(PAUSE, &mut stopping)).await?.is_ok();
            if is_stopping {
                return Ok(events.finish().await?);
            }
        }
    }
}

impl Handler for Page {
    fn on_head(&self, ctx: &mut Context) -> BodyPlan {
        plan_in_any_case(ctx)
    }

    async fn handle(&self, ctx: &mut Context) -> Result {
        (self.guard)(ctx)?;
        let query = ctx.request.query();
        if query.get("events").is_some() {
            return self.send_events(ctx).await;
        }
        let part = PARTS.iter().find(|(name, ..)| query.get(name).is_some());
        let (_, content_type, content) = *part.unwrap_or(&PAGE);
        ctx.response.set_shared_bytes(content_type, content)?;
        for (name, value) in FIELDS {
            ctx.response.headers.set(name, value)?;
        }
        Ok(())
    }
}

impl fmt::Debug for Page {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MetricsPage").field("metrics", &self.metrics).finish_non_exhaustive()
    }
}

/// Refuses requests that are not from this machine.
fn admit_local(ctx: &mut Context) -> Result {
    if is_local(ctx) { Ok(()) } else { Err(Status::FORBIDDEN.into()) }
}

/// Whether a request is from this machine, as far as can be known.
fn is_local(ctx: &Context) -> bool {
    let is_peer_local = match ctx.peer_addr() {
        PeerAddr::Tcp(peer) => peer.ip().to_canonical().is_loopback(),
        PeerAddr::Unix | PeerAddr::Memory => true,
    };
    is_peer_local && !was_forwarded(ctx) && is_host_local(&ctx.request)
}

/// Whether a proxy has passed the request on, and has added anything to it.
fn was_forwarded(ctx: &Context) -> bool {
    let is_added = |name: &[u8]| name.eq_ignore_ascii_case(b"via") || describes_client(name);
    ctx.has_proxy_header() || ctx.request.headers.lines().any(|(name, _)| is_added(name))
}

fn is_host_local(request: &Request) -> bool {
    request.host().is_none_or(|host| {
        let address = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
        host.eq_ignore_ascii_case("localhost") || address.is_ok_and(|address| address.is_loopback())
    })
}

/// The page gets what it needs from its own origin, and no other page may frame it.
const FIELDS: [(&str, &str); 4] = [
    (
        "content-security-policy",
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; base-uri 'none'; \
         form-action 'none'; frame-ancestors 'none'",
    ),
    ("cache-control", "no-store"),
    ("x-content-type-options", "nosniff"),
    ("referrer-policy", "no-referrer"),
];

/// The name of a part in the query, its type and its content.
type Part = (&'static str, &'static str, &'static str);

const PAGE: Part = ("", "text/html; charset=utf-8", include_str!("page.html"));
const PARTS: [Part; 2] = [
    ("style", "text/css; charset=utf-8", include_str!("page.css")),
    ("script", "text/javascript; charset=utf-8", include_str!("page.js")),
];

/// How many pages are live at once; further ones get 503, since each costs a core some time.
const VIEWERS_MAX: usize = 16;

/// The time between two updates of a live page.
const PAUSE: Duration = Duration::from_secs(2);

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use super::*;
    use crate::Server;

    fn status(page: Page, peer: &str, fields: &[(&str, &str)]) -> u16 {
        let peer: SocketAddr = peer.parse().unwrap();
        let mut request = Request::get("/?style").unwrap();
        fields.iter().for_each(|(name, value)| request.headers.set(name, *value).unwrap());
        let service = Server::new().service(page);
        crate::block_on(service.respond_from(peer.into(), request)).unwrap().status.as_u16()
    }

    #[test]
    fn only_this_machine_sees_the_page() {
        for (expected, peer, fields) in [
            (200, "127.0.0.1:5000", &[][..]),
            (200, "127.8.8.8:5000", &[("host", "LocalHost:80")]),
            (200, "[::1]:5000", &[("host", "[::1]:9090")]),
            (200, "[::ffff:127.0.0.1]:5000", &[("host", "127.0.0.1")]),
            (403, "192.0.2.1:5000", &[]),
            (403, "[2001:db8::1]:5000", &[("host", "localhost")]),
            (403, "0.0.0.0:5000", &[]),
            // A page of another site, whose name leads here.
            (403, "127.0.0.1:5000", &[("host", "attacker.example:9090")]),
            (403, "127.0.0.1:5000", &[("host", "localhost.attacker.example")]),
            (403, "127.0.0.1:5000", &[("host", "127.0.0.1.attacker.example")]),
            (403, "127.0.0.1:5000", &[("host", "192.0.2.1")]),
            (403, "127.0.0.1:5000", &[("x-forwarded-for", "192.0.2.1")]),
            (403, "127.0.0.1:5000", &[("forwarded", "for=127.0.0.1")]),
            (403, "127.0.0.1:5000", &[("Via", "1.1 proxy")]),
            (403, "127.0.0.1:5000", &[("X_Forwarded_For", "192.0.2.1")]),
            (403, "127.0.0.1:5000", &[("x-forwarded-proto", "https")]),
            (403, "127.0.0.1:5000", &[("x-real-ip", "192.0.2.1")]),
            (403, "127.0.0.1:5000", &[("x-client-ip", "192.0.2.1")]),
            (403, "127.0.0.1:5000", &[("cf-connecting-ip", "192.0.2.1")]),
            (403, "127.0.0.1:5000", &[("true-client-ip", "192.0.2.1")]),
            (403, "127.0.0.1:5000", &[("x-cluster-client-ip", "192.0.2.1")]),
            (403, "127.0.0.1:5000", &[("x-envoy-external-address", "192.0.2.1")]),
            (403, "127.0.0.1:5000", &[("x-original-forwarded-for", "192.0.2.1")]),
            (403, "127.0.0.1:5000", &[("forwarded-for", "192.0.2.1")]),
            (200, "127.0.0.1:5000", &[("user-agent", "forwarded"), ("x-request-id", "via")]),
        ] {
            let page = Page::new(&Metrics::new());
            assert_eq!(status(page.clone(), peer, fields), expected, "{peer} {fields:?}");
            assert_eq!(status(page.clone().guarded_by(|_| Ok(())), peer, fields), 200);
            assert_eq!(status(page.guarded_by(|_| Err(Status::NOT_FOUND.into())), peer, fields), 404);
        }
    }

    #[test]
    fn no_more_than_sixteen_pages_are_live() {
        let page = Page::new(&Metrics::new());
        let permits: Vec<_> = (0..VIEWERS_MAX).map(|_| page.viewers.try_acquire().unwrap()).collect();
        let service = Server::new().service(page.clone());
        let respond = |path| crate::block_on(service.respond(Request::get(path).unwrap())).unwrap().status;
        assert_eq!((respond("/?events"), respond("/")), (Status::SERVICE_UNAVAILABLE, Status::OK));
        drop(permits);
    }

    #[test]
    fn each_part_has_its_type_and_loads_nothing_from_elsewhere() {
        let service = Server::new().service(Page::new(&Metrics::new()));
        for (path, content_type) in
            [("/", "text/html"), ("/?style", "text/css"), ("/?script", "text/javascript")]
        {
            let response = crate::block_on(service.respond(Request::get(path).unwrap())).unwrap();
            let field = |name| response.headers.get(name).unwrap();
            assert!(field("content-type").starts_with(content_type), "{path}");
            assert!(field("content-security-policy").starts_with("default-src 'none'"));
            let content = response.text().unwrap().replace("http://www.w3.org/2000/svg", "");
            assert!(!content.contains("//www") && !content.contains("http"), "{path}");
        }
    }
}
