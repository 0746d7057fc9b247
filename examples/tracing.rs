//! A server whose exchanges are spans of OpenTelemetry, sent to a collector by OTLP, and a client behind it in the same
//! trace.
//!
//! ```sh
//! cargo run --release --features tracing --example tracing                   # prints spans, and sends them to port 4318
//! cargo run --release --features tracing --example tracing -- http://host:4318
//! curl -H 'traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01' http://127.0.0.1:8080/greet/Ada
//! ```

use std::time::Duration;

use corehttp::middleware::wrap;
use corehttp::tracing::{TracePropagator, Tracing};
use corehttp::{Client, Context, Handler, Headers, Request, Server, routes, shutdown_signal};
use opentelemetry::propagation::{Extractor, Injector, TextMapPropagator};
use opentelemetry::trace::TracerProvider;
use opentelemetry_http::{HttpClient, HttpError};
use opentelemetry_otlp::{SpanExporter, WithExportConfig, WithHttpConfig};
use opentelemetry_sdk::propagation::TraceContextPropagator;
use opentelemetry_sdk::trace::SdkTracerProvider;
use tracing::Span;
use tracing_opentelemetry::OpenTelemetrySpanExt;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

fn main() -> corehttp::Result {
    let collector = std::env::args().nth(1).unwrap_or_else(|| "http://127.0.0.1:4318".into());
    let provider = exporting_to(&collector)?;
    let layer = tracing_opentelemetry::layer().with_tracer(provider.tracer("corehttp"));
    tracing_subscriber::registry().with(tracing_subscriber::fmt::layer()).with(layer).init();
    let served = Server::bind("127.0.0.1:8080")
        .stop_on(shutdown_signal(), Duration::from_secs(10))
        .run(app("http://127.0.0.1:8080"));
    // Sends the spans that wait.
    provider.shutdown().map_err(corehttp::Error::other)?;
    served
}

/// A service that asks itself, at `url`, for a part of its responses.
fn app(url: &'static str) -> impl Handler + Send + Sync {
    let tracing = Tracing::new().propagator(OpenTelemetry(TraceContextPropagator::new()));
    let client = Client::builder().tracing(&tracing).build();
    let greet = async move |ctx: &mut Context| -> corehttp::Result {
        let name = ctx.params().get("name")?.into_owned();
        tracing::info!(name, "looking for a greeting");
        let greeting = client.get(&format!("{url}/greeting")).await?.error_for_status()?;
        ctx.response.set_text(format!("{}, {name}!", greeting.text()?));
        Ok(())
    };
    wrap(
        tracing,
        routes! {
            GET "/greet/{name}" => greet,
            GET "/greeting" => |ctx: &mut Context| ctx.response.set_text("Hello"),
        },
    )
}

/// Sends spans to the collector at this URL, in batches, from a thread of the exporter.
fn exporting_to(collector: &str) -> corehttp::Result<SdkTracerProvider> {
    let exporter = SpanExporter::builder()
        .with_http()
        .with_http_client(ExportClient)
        .with_endpoint(format!("{collector}/v1/traces"))
        .build()
        .map_err(corehttp::Error::other)?;
    Ok(SdkTracerProvider::builder().with_batch_exporter(exporter).build())
}

/// The contexts of OpenTelemetry's layer, read and written as W3C Trace Context.
struct OpenTelemetry(TraceContextPropagator);

impl TracePropagator for OpenTelemetry {
    fn extract(&self, span: &Span, headers: &Headers) {
        // Fails only for a span that is not recorded.
        let _ = span.set_parent(self.0.extract(&Fields(headers)));
    }

    fn inject(&self, span: &Span, headers: &mut Headers) {
        self.0.inject_context(&span.context(), &mut FieldsMut(headers));
    }
}

struct Fields<'a>(&'a Headers);

impl Extractor for Fields<'_> {
    fn get(&self, key: &str) -> Option<&str> {
        self.0.get(key)
    }

    fn keys(&self) -> Vec<&str> {
        self.0.iter().map(|(name, _)| name).collect()
    }
}

struct FieldsMut<'a>(&'a mut Headers);

impl Injector for FieldsMut<'_> {
    fn set(&mut self, key: &str, value: String) {
        // An empty `tracestate` is no field.
        if !value.is_empty() {
            let _ = self.0.set(key, value);
        }
    }
}

/// Sends batches. The exporter's thread has no runtime, so each batch gets one, and its requests are not traced.
#[derive(Debug)]
struct ExportClient;

#[async_trait::async_trait]
impl HttpClient for ExportClient {
    async fn send_bytes(
        &self,
        batch: http::Request<bytes::Bytes>,
    ) -> Result<http::Response<bytes::Bytes>, HttpError> {
        let (head, body) = batch.into_parts();
        let mut request = Request::post(&head.uri.to_string())?;
        for (name, value) in &head.headers {
            request.headers.append(name.as_str(), value.as_bytes())?;
        }
        request.body.set_shared_bytes(body);
        let client = Client::builder().timeout(Duration::from_secs(10)).build();
        let response = corehttp::block_on(async {
            let mut response = corehttp::Response::new();
            client.send(&request, &mut response).await.map(|()| response)
        })??;
        let status = http::StatusCode::from_u16(response.status.as_u16())?;
        let mut answer = http::Response::new(bytes::Bytes::copy_from_slice(response.bytes()));
        *answer.status_mut() = status;
        Ok(answer)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    const TRACE: [u8; 16] = *b"\x0a\xf7\x65\x19\x16\xcd\x43\xdd\x84\x48\xeb\x21\x1c\x80\x31\x9c";

    /// A collector that keeps what it is sent, a traced server, and one request to it: all three spans arrive, in the
    /// trace of the caller.
    #[test]
    fn spans_reach_a_collector() {
        let batches = Arc::<Mutex<Vec<u8>>>::default();
        let kept = batches.clone();
        let collector = Server::bind("127.0.0.1:0").cores(1).start(move |ctx: &mut Context| {
            assert_eq!(ctx.request.path(), "/v1/traces");
            kept.lock().unwrap().extend_from_slice(ctx.request.body.bytes());
        });
        let collector = collector.unwrap();
        let provider = exporting_to(&collector.to_string()).unwrap();
        let layer = tracing_opentelemetry::layer().with_tracer(provider.tracer("corehttp"));
        tracing_subscriber::registry().with(layer).init();
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let url: &'static str = format!("http://{}", port.local_addr().unwrap()).leak();
        let server = Server::bind(port).cores(1).start(app(url)).unwrap();
        let parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        let response = corehttp::block_on(async {
            Client::new().get(&format!("{url}/greet/Ada")).header("traceparent", parent).await
        });
        assert_eq!(response.unwrap().unwrap().text(), Ok("Hello, Ada!"));
        server.stop(Duration::from_secs(1));
        server.wait().unwrap();
        provider.shutdown().unwrap();
        let batches = batches.lock().unwrap();
        let count = |bytes: &[u8]| batches.windows(bytes.len()).filter(|window| *window == bytes).count();
        assert_eq!(count(&TRACE), 3, "a span of the client is between two of the server");
        assert_eq!((count(b"GET /greet/{name}"), count(b"GET /greeting")), (1, 1));
        assert!(count(b"http.response.status_code") == 3 && count(b"looking for a greeting") == 1);
    }
}
