//! [`Text`]: the handler that answers with all metrics as text.

use super::metrics::Metrics;
use super::metrics_writer::Format;
use crate::server::{Context, Handler, Result};

/// A handler that answers with all metrics as text, in the format of Prometheus, or in that of OpenMetrics if the client
/// prefers it.
///
/// The handler answers everybody, and the text names all routes: it belongs on a server that only the machines which
/// collect metrics reach.
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
#[derive(Clone, Debug)]
pub struct Text {
    metrics: Metrics,
}

impl Text {
    /// Creates a handler that shows `metrics`.
    pub fn new(metrics: &Metrics) -> Text {
        Text { metrics: metrics.clone() }
    }
}

impl Handler for Text {
    async fn handle(&self, ctx: &mut Context) -> Result {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Server;
    use crate::message::Request;

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
