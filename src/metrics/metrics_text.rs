//! [`Text`]: the handler that answers with all metrics as text.

use std::fmt;
use std::sync::Arc;

use super::metrics::Metrics;
use super::metrics_writer::Format;
use crate::server::{BodyPlan, Context, Handler, Result, SharedGuard};

/// A handler that answers with all metrics as text.
///
/// The format is that of Prometheus, or of OpenMetrics if the client prefers it.
///
/// The handler answers everybody, and the text names all routes. It belongs on a server that only the collecting machines
/// reach, or beneath a [guard](Text::guarded_by).
///
/// # Examples
///
/// ```no_run
/// use corehttp::{Context, Server};
/// use corehttp::metrics::{self, Metrics};
///
/// fn main() -> corehttp::Result {
///     let metrics = Metrics::new();
///     // Prometheus reads http://127.0.0.1:9090/metrics.
///     Server::bind("127.0.0.1:9090").cores(1).start(metrics::Text::new(&metrics))?;
///     Server::bind("[::]:8080").observe(metrics.clone()).run(|ctx: &mut Context| ctx.response.set_text("hi"))
/// }
/// ```
#[doc(alias("prometheus", "exporter", "scrape"))]
#[derive(Clone)]
pub struct Text {
    metrics: Metrics,
    /// `None` if everybody may see the text.
    guard: Option<SharedGuard>,
}

impl Text {
    /// Creates a handler that shows `metrics`.
    pub fn new(metrics: &Metrics) -> Text {
        Text { metrics: metrics.clone(), guard: None }
    }

    /// Sets who may see the text, in place of everybody. If `check` fails, its error is the response.
    ///
    /// This is the same as `wrap(guard(check), text)`, with the [`guard`](crate::middleware::guard) of all middleware. In a
    /// group of routes that has a guard, the text needs none of its own.
    ///
    /// # Examples
    ///
    /// ```
    /// use corehttp::metrics::{self, Metrics};
    /// use corehttp::{Context, Status};
    ///
    /// // Prometheus sends the token by `authorization: { credentials_file: .. }`.
    /// let text = metrics::Text::new(&Metrics::new()).guarded_by(|ctx: &mut Context| {
    ///     match ctx.request.bearer_auth() {
    ///         Some("8f14e45f") => Ok(()),
    ///         _ => {
    ///             ctx.response.headers.set("www-authenticate", "Bearer")?;
    ///             Err(Status::UNAUTHORIZED.into())
    ///         }
    ///     }
    /// });
    /// # let service = corehttp::Server::new().service(text);
    /// # let response = corehttp::block_on(service.respond(corehttp::Request::get("/metrics")?))?;
    /// # assert_eq!((response.status, response.headers.get("www-authenticate")), (Status::UNAUTHORIZED, Some("Bearer")));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn guarded_by(mut self, check: impl Fn(&mut Context) -> Result + Send + Sync + 'static) -> Text {
        self.guard = Some(Arc::new(check));
        self
    }
}

/// The plan of metrics: operators are answered however far the core is behind.
pub(super) fn plan_in_any_case(ctx: &mut Context) -> BodyPlan {
    let mut timeouts = ctx.timeouts();
    timeouts.queue = None;
    ctx.set_timeouts(timeouts);
    BodyPlan::Buffer
}

impl Handler for Text {
    fn on_head(&self, ctx: &mut Context) -> BodyPlan {
        plan_in_any_case(ctx)
    }

    async fn handle(&self, ctx: &mut Context) -> Result {
        if let Some(check) = &self.guard {
            check(ctx)?;
        }
        let Context { request, response, .. } = ctx;
        let formats = [Format::Prometheus, Format::OpenMetrics];
        let preferred = request.preferred_type(formats.map(Format::content_type));
        let format = formats.into_iter().find(|format| preferred == Some(format.content_type()));
        let format = format.unwrap_or(Format::Prometheus);
        response.set_text(self.metrics.to_text(format));
        response.headers.set("content-type", format.content_type())?;
        response.headers.set("cache-control", "no-store")?;
        response.headers.vary_by("accept");
        Ok(())
    }
}

impl fmt::Debug for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MetricsText").field("metrics", &self.metrics).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Server;
    use crate::message::{Request, Status};

    #[test]
    fn a_guard_chooses_the_status_of_those_who_see_nothing() {
        for status in [Status::UNAUTHORIZED, Status::FORBIDDEN, Status::NOT_FOUND] {
            let text =
                Text::new(&Metrics::new()).guarded_by(move |ctx| match ctx.request.query().get("token") {
                    Some(_) => Ok(()),
                    None => Err(status.into()),
                });
            let service = Server::new().service(text);
            let respond = |path| crate::block_on(service.respond(Request::get(path).unwrap())).unwrap();
            assert_eq!((respond("/").status, respond("/?token=a").status), (status, Status::OK));
            assert!(!respond("/").text().unwrap().contains("corehttp_"));
        }
    }

    #[test]
    fn the_client_chooses_the_format() {
        let service = Server::new().service(Text::new(&Metrics::new()));
        for (accept, content_type) in [
            ("*/*", "text/plain; version=0.0.4; charset=utf-8"),
            ("image/png", "text/plain; version=0.0.4; charset=utf-8"),
            // The field of Prometheus itself.
            (
                "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.3,*/*;q=0.2",
                "application/openmetrics-text; version=1.0.0; charset=utf-8",
            ),
        ] {
            let mut request = Request::get("/metrics").unwrap();
            request.headers.set("accept", accept).unwrap();
            let response = crate::block_on(service.respond(request)).unwrap();
            assert_eq!(response.headers.get("content-type"), Some(content_type), "{accept}");
            assert_eq!(response.text().unwrap().ends_with("# EOF\n"), accept.contains("open"), "{accept}");
        }
    }
}
