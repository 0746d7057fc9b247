//! Exchanges of servers and clients are spans, which end with what came of them, and belong to traces.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::future::{Future, pending};
use std::io::{self, Cursor};
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{self, Poll};
use std::time::Duration;

use corehttp::client::Retry;
use corehttp::middleware::wrap;
use corehttp::net::MemoryListener;
use corehttp::tracing::{TraceContext, TracePropagator, Tracing};
use corehttp::{
    BodyPlan, Client, Context, Handler, Headers, Request, Response, Server, Status, Timeouts, routes,
};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, duplex};
use tokio::task::yield_now;
use tokio::time::{Instant, sleep};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Span, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::layer::{Context as LayerContext, SubscriberExt};
use tracing_subscriber::registry::{LookupSpan, Registry};

const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";

/// The spans that were closed, in order, and the events with the names of the spans around them.
#[derive(Clone, Default)]
struct Seen(Arc<Mutex<(Vec<Fields>, Vec<String>)>>);

/// The fields of a span, with its name as `name` and the name of its parent as `parent`.
#[derive(Clone, Debug, Default, PartialEq)]
struct Fields(BTreeMap<String, String>);

impl Fields {
    fn get(&self, name: &str) -> &str {
        self.0.get(name).map_or("", |value| value)
    }

    /// The values of these fields.
    fn all<const N: usize>(&self, names: [&str; N]) -> [&str; N] {
        names.map(|name| self.get(name))
    }
}

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.0.insert(field.name().into(), format!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.insert(field.name().into(), value.into());
    }
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Seen {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, ctx: LayerContext<'_, S>) {
        let (span, mut fields) = (ctx.span(id).unwrap(), Fields::default());
        attributes.record(&mut fields);
        fields.0.insert("begun".into(), seconds(Instant::now()));
        fields.0.insert("name".into(), span.name().into());
        fields.0.insert("parent".into(), span.parent().map_or("", |parent| parent.name()).into());
        span.extensions_mut().insert(fields);
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, ctx: LayerContext<'_, S>) {
        values.record(ctx.span(id).unwrap().extensions_mut().get_mut::<Fields>().unwrap());
    }

    fn on_event(&self, event: &Event<'_>, ctx: LayerContext<'_, S>) {
        let name = ctx.event_span(event).map_or("none", |span| span.name());
        self.0.lock().unwrap().1.push(name.into());
    }

    fn on_close(&self, id: Id, ctx: LayerContext<'_, S>) {
        let mut fields = ctx.span(&id).unwrap().extensions_mut().remove::<Fields>().unwrap();
        fields.0.insert("ended".into(), seconds(Instant::now()));
        self.0.lock().unwrap().0.push(fields);
    }
}

/// The time on the paused clock, in seconds.
fn seconds(now: Instant) -> String {
    START.with(|start| now.duration_since(*start.get_or_init(|| now)).as_secs().to_string())
}

thread_local! {
    /// When the first span of the test began.
    static START: OnceCell<Instant> = const { OnceCell::new() };
}

/// Runs `work` on a paused clock: the spans that were closed, and the spans around its events.
fn seen<T>(work: impl Future<Output = T>) -> (Vec<Fields>, Vec<String>, T) {
    let seen = Seen::default();
    let output = tracing::subscriber::with_default(Registry::default().with(seen.clone()), || paused(work));
    let (spans, events) = std::mem::take(&mut *seen.0.lock().unwrap());
    (spans, events, output)
}

fn paused<T>(work: impl Future<Output = T>) -> T {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    runtime.enable_all().start_paused(true).build().unwrap().block_on(work)
}

fn request(path: &str, fields: &[(&str, &str)]) -> Request {
    let mut request = Request::get(&format!("http://example.com:8080{path}")).unwrap();
    fields.iter().for_each(|(name, value)| request.headers.append(name, *value).unwrap());
    request
}

#[test]
fn a_span_has_the_names_of_the_semantic_conventions() {
    let (spans, ..) = seen(async {
        let hello = |ctx: &mut Context| ctx.response.set_text("hi");
        let service = Server::new().service(wrap(Tracing::new(), routes! { GET "/users/{id}" => hello }));
        let peer = "[::ffff:192.0.2.1]:5000".parse::<std::net::SocketAddr>().unwrap();
        service.respond_from(peer.into(), request("/users/7?token=secret", &[("user-agent", "curl")])).await
    });
    let [span] = &spans[..] else { panic!("{spans:?}") };
    for (name, value) in [
        ("name", "http.server"),
        ("otel.kind", "server"),
        ("otel.name", "GET /users/{id}"),
        ("otel.status_code", ""),
        ("http.request.method", "GET"),
        ("http.route", "/users/{id}"),
        ("http.response.status_code", "200"),
        ("url.scheme", "http"),
        ("url.path", "/users/7"),
        ("server.address", "example.com"),
        ("server.port", "8080"),
        ("client.address", "192.0.2.1"),
        ("network.peer.address", "192.0.2.1"),
        ("network.peer.port", "5000"),
        ("network.protocol.version", "1.1"),
        ("user_agent.original", "curl"),
        ("error.type", ""),
    ] {
        assert_eq!(span.get(name), value, "{name}");
    }
    assert!(span.0.values().all(|value| !value.contains("secret")), "{span:?}");
}

/// The status, the type of the error and the status of the span of an exchange with `handler`.
fn outcome(handler: impl Handler + 'static) -> [String; 3] {
    let (spans, ..) = seen(async {
        let service = Server::new().service(wrap(Tracing::new(), handler));
        let (mut near, far) = duplex(1 << 10);
        let serving = service.serve_connection(far);
        let asking = async {
            near.write_all(b"GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n").await.unwrap();
            tokio::time::timeout(Duration::from_secs(5), near.read_to_end(&mut Vec::new())).await.is_ok()
        };
        // A connection that goes on is dropped.
        tokio::select! {
            _ = serving => {}
            false = asking => {}
        }
    });
    let [span] = &spans[..] else { panic!("{spans:?}") };
    span.all(["http.response.status_code", "error.type", "otel.status_code"]).map(str::to_owned)
}

#[test]
fn a_span_ends_with_what_came_of_the_exchange() {
    use corehttp::BoxHandler as Boxed;
    let fine = |ctx: &mut Context| ctx.response.set_text("hi");
    assert_eq!(outcome(Boxed::new(fine)), ["200", "", ""]);
    let missing = |_: &mut Context| corehttp::Result::Err(Status::NOT_FOUND.into());
    assert_eq!(outcome(Boxed::new(missing)), ["404", "", ""]);
    let fails = |_: &mut Context| corehttp::Result::Err(std::io::Error::other("no").into());
    assert_eq!(outcome(Boxed::new(fails)), ["500", "500", "ERROR"]);
    let panics = async |_: &mut Context| -> corehttp::Result {
        yield_now().await;
        std::panic::resume_unwind(Box::new("no trace"))
    };
    assert_eq!(outcome(Boxed::new(panics)), ["500", "panic", "ERROR"]);
    let waits = async |_: &mut Context| pending::<()>().await;
    assert_eq!(outcome(Boxed::new(waits)), ["", "stop", "ERROR"]);
    let late = async |ctx: &mut Context| {
        ctx.set_timeouts(Timeouts { handler: Some(Duration::from_secs(1)), ..ctx.timeouts() });
        pending::<()>().await
    };
    assert_eq!(outcome(Boxed::new(late)), ["503", "503", "ERROR"]);
    let breaks = async |ctx: &mut Context| -> corehttp::Result {
        let mut writer = ctx.body_writer().await?;
        writer.write_all(b"half").await?;
        Err(std::io::Error::other("no more").into())
    };
    assert_eq!(outcome(Boxed::new(breaks)), ["200", "handler", "ERROR"]);
}

/// A stream that takes two seconds for its content.
fn slow_body() -> impl AsyncRead + Unpin {
    let (mut near, far) = duplex(64);
    tokio::spawn(async move {
        for piece in ["first", "second"] {
            sleep(Duration::from_secs(1)).await;
            near.write_all(piece.as_bytes()).await.unwrap();
        }
    });
    far
}

/// The response is sent within the span, after the handler has returned.
#[test]
fn a_span_ends_with_the_exchange_and_not_with_its_handler() {
    // A stream that is shorter than it was announced cannot be sent whole.
    for (len, expected) in [(None, ["200", "", "2"]), (Some(100), ["200", "handler", "2"])] {
        let (spans, ..) = seen(async {
            let streams = move |ctx: &mut Context| ctx.response.body.set_stream(slow_body(), len);
            let service = Server::new().service(wrap(Tracing::new(), streams));
            let (mut near, far) = duplex(1 << 10);
            let asking = async {
                near.write_all(b"GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n").await.unwrap();
                let _ = near.read_to_end(&mut Vec::new()).await;
            };
            let _ = tokio::join!(service.serve_connection(far), asking);
        });
        let [span] = &spans[..] else { panic!("{spans:?}") };
        let names = ["http.response.status_code", "error.type"];
        let lasted = |name: &str| span.get(name).parse::<u64>().unwrap();
        let lasted = (lasted("ended") - lasted("begun")).to_string();
        let [status, error] = span.all(names);
        assert_eq!([status, error, &lasted], expected);
    }
}

/// A peer that leaves before the response is whole is the cause of that.
#[test]
fn a_span_names_the_peer_that_has_cut_its_exchange() {
    let (spans, ..) = seen(async {
        let streams = |ctx: &mut Context| ctx.response.body.set_stream(slow_body(), None);
        let service = Server::new().service(wrap(Tracing::new(), streams));
        let (mut near, far) = duplex(1 << 10);
        let asking = async move {
            near.write_all(&b"GET / HTTP/1.1\r\nhost: a\r\n\r\n".repeat(2)).await.unwrap();
            near.read_exact(&mut [0; 10]).await.unwrap();
        };
        let _ = tokio::join!(service.serve_connection(far), asking);
    });
    let [span] = &spans[..] else { panic!("{spans:?}") };
    assert_eq!(span.all(["http.response.status_code", "error.type"]), ["200", "peer"]);
}

/// Counts the writes of a server.
#[derive(Clone, Default)]
struct Writes(Arc<AtomicUsize>);

impl AsyncWrite for Writes {
    fn poll_write(self: Pin<&mut Self>, _: &mut task::Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.0.fetch_add(1, Ordering::Relaxed);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut task::Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut task::Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

/// A response leaves alone for the sake of its own span.
#[test]
fn responses_behind_a_span_leave_together() {
    let (spans, _, writes) = seen(async {
        let hello = |ctx: &mut Context| ctx.response.set_text("hello");
        let app = routes! { GET "/traced" => wrap(Tracing::new(), hello), GET "/plain" => hello };
        let get = |path: &str| format!("GET {path} HTTP/1.1\r\nhost: a\r\n\r\n");
        let (wire, writes) = (get("/traced") + &get("/plain").repeat(10), Writes::default());
        let stream = tokio::io::join(Cursor::new(wire.into_bytes()), writes.clone());
        let _ = Server::new().service(app).serve_connection(stream).await;
        writes.0.load(Ordering::Relaxed)
    });
    assert_eq!((spans.len(), writes), (1, 2));
}

/// Two exchanges take turns on one thread, and each handler sees its own span, and none is left behind.
#[test]
fn a_handler_is_within_its_span_and_no_other_is() {
    let (_, events, ()) = seen(async {
        let turns = async |_: &mut Context| {
            for _ in 0..3 {
                tracing::info!("in turn");
                assert_eq!(Span::current().metadata().map(|span| span.name()), Some("http.server"));
                yield_now().await;
            }
        };
        let service = Server::new().service(wrap(Tracing::new(), turns));
        let between = async {
            for _ in 0..5 {
                assert!(Span::current().is_none() && TraceContext::current().is_none());
                tracing::info!("between");
                yield_now().await;
            }
        };
        let respond = || service.respond(request("/", &[]));
        tokio::join!(respond(), between, respond());
    });
    let count = |name: &str| events.iter().filter(|around| *around == name).count();
    assert_eq!((count("http.server"), count("none")), (6, 5));
}

/// Tells when it is dropped within a trace.
struct Departure;

impl Drop for Departure {
    fn drop(&mut self) {
        if TraceContext::current().is_some() {
            tracing::info!("dropped");
        }
    }
}

/// However an exchange ends, its handler is dropped within its span.
#[test]
fn a_handler_is_dropped_within_its_span() {
    for limit in [None, Some(Duration::from_secs(1))] {
        let (_, events, ()) = seen(async {
            let waits = async |_: &mut Context| {
                let _departure = Departure;
                pending::<()>().await;
            };
            let timeouts = Timeouts { handler: limit, ..Timeouts::default() };
            let service = Server::new().timeouts(timeouts).service(wrap(Tracing::new(), waits));
            let (mut near, far) = duplex(1 << 10);
            let leaving = async move {
                near.write_all(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n").await.unwrap();
                sleep(Duration::from_secs(2)).await;
            };
            let _ = tokio::join!(service.serve_connection(far), leaving);
        });
        assert_eq!(events, ["http.server"], "{limit:?}");
    }
}

/// A server that sends back the fields of the trace that it has got, one per line.
fn echo(listener: &MemoryListener) -> impl Future<Output = ()> {
    let service = Server::new().service(|ctx: &mut Context| {
        let fields = ["traceparent", "tracestate"].map(|name| {
            let all =
                Vec::from_iter(ctx.request.headers.all(name).map(|value| value.escape_ascii().to_string()));
            all.join("|")
        });
        ctx.response.set_text(fields.join("\n"));
    });
    let listener = listener.clone();
    async move {
        loop {
            let stream = listener.accept().await;
            // One connection at a time is enough here.
            let _ = service.serve_connection(stream).await;
        }
    }
}

/// How a handler asks the server behind.
#[derive(Clone, Copy, Debug, PartialEq)]
enum By {
    Send,
    Forward,
    Pipeline,
}

/// The fields that a server behind gets when a request with `fields` comes to a traced server.
async fn passed_on(by: By, fields: &[(&str, &str)]) -> [String; 2] {
    let (listener, tracing) = (MemoryListener::new(), Tracing::new());
    let client = Client::builder().connect_to(&listener).tracing(&tracing).build();
    let pipeline = client.pipeline("http://behind").unwrap().build();
    let app = async move |ctx: &mut Context| -> corehttp::Result {
        match by {
            By::Send => ctx.response = client.get("http://behind/").await?,
            By::Forward => {
                let onward = ctx.request.forwarded_to("http://behind")?;
                ctx.forward(client.open_call(&onward)).await?;
            }
            By::Pipeline => pipeline.send(&Request::get("/")?, &mut ctx.response).await?,
        }
        Ok(())
    };
    let service = Server::new().service(wrap(tracing, wrap(BodyPlan::Stream, app)));
    let behind = echo(&listener);
    let response = tokio::select! {
        response = service.respond(request("/", fields)) => response,
        () = behind => unreachable!("it goes on"),
    };
    let text = response.text().unwrap().to_owned();
    let (parent, state) = text.split_once('\n').unwrap();
    [parent.to_owned(), state.to_owned()]
}

#[test]
fn requests_of_a_handler_belong_to_the_trace_of_its_own() {
    for by in [By::Send, By::Forward, By::Pipeline] {
        let fields = [("traceparent", PARENT), ("tracestate", "a=1"), ("tracestate", "b=2")];
        let (spans, _, [parent, state]) = seen(passed_on(by, &fields));
        let [client, server] = &spans[..] else { panic!("{by:?}: {spans:?}") };
        assert_eq!((client.get("name"), client.get("parent")), ("http.client", "http.server"), "{by:?}");
        assert_eq!(server.all(["trace_id", "parent_id"]), [TRACE, "b7ad6b7169203331"], "{by:?}");
        assert_eq!(client.all(["trace_id", "parent_id"]), [TRACE, server.get("span_id")], "{by:?}");
        // The server behind is told of the client's span, once.
        assert_eq!(parent, format!("00-{TRACE}-{}-01", client.get("span_id")), "{by:?}");
        assert_eq!(state, "a=1,b=2", "{by:?}");
        let expected = ["GET", "200", "behind", "80", "1.1", "", ""];
        let names = [
            "http.request.method",
            "http.response.status_code",
            "server.address",
            "server.port",
            "network.protocol.version",
            "error.type",
            "otel.status_code",
        ];
        assert_eq!(client.all(names), expected, "{by:?}");
    }
}

#[test]
fn a_request_without_a_valid_parent_begins_a_trace() {
    for fields in [&[][..], &[("traceparent", "00-x")], &[("traceparent", PARENT), ("traceparent", PARENT)]] {
        let (spans, _, [parent, state]) = seen(passed_on(By::Forward, fields));
        let [client, server] = &spans[..] else { panic!("{spans:?}") };
        assert!(server.get("trace_id").len() == 32 && server.get("trace_id") != TRACE, "{server:?}");
        assert_eq!(server.get("parent_id"), "");
        let expected = format!("00-{}-{}-01", server.get("trace_id"), client.get("span_id"));
        assert_eq!([parent, state], [expected, String::new()], "{fields:?}");
    }
}

/// A program that records nothing is no part of the trace, but others are (W3C Trace Context §4.3).
#[test]
fn a_trace_is_passed_on_as_it_is_by_a_program_that_records_nothing() {
    for by in [By::Send, By::Forward, By::Pipeline] {
        let off = Registry::default().with(LevelFilter::OFF);
        let _off = tracing::subscriber::set_default(off);
        let passed = |fields| paused(passed_on(by, fields));
        assert_eq!(passed(&[("traceparent", PARENT), ("tracestate", "a=1")]), [PARENT, "a=1"], "{by:?}");
        assert_eq!(passed(&[]), ["", ""], "{by:?}");
    }
}

/// The status and the type of the error of the span of a request, which `ask` makes.
fn client_outcome(response: &'static str, ask: impl AsyncFn(&Client)) -> [String; 2] {
    let (spans, ..) = seen(async {
        let listener = MemoryListener::new();
        let client = Client::builder().connect_to(&listener).tracing(&Tracing::new()).build();
        let behind = async {
            let mut stream = listener.accept().await;
            stream.read_exact(&mut [0; 10]).await.unwrap();
            stream.write_all(response.as_bytes()).await.unwrap();
            if response.is_empty() {
                pending::<()>().await;
            }
            // Reads to the end, so that the request is taken.
            let _ = stream.read_to_end(&mut Vec::new()).await;
        };
        tokio::select! {
            () = ask(&client) => {}
            () = behind => {}
        }
    });
    let [span] = &spans[..] else { panic!("{spans:?}") };
    span.all(["http.response.status_code", "error.type"]).map(str::to_owned)
}

#[test]
fn a_span_of_a_client_ends_with_what_came_of_the_exchange() {
    let send = async |client: &Client| drop(client.get("http://a/").await);
    assert_eq!(client_outcome("HTTP/1.1 204 x\r\n\r\n", send), ["204", ""]);
    assert_eq!(client_outcome("HTTP/1.1 404 x\r\ncontent-length: 0\r\n\r\n", send), ["404", "404"]);
    assert_eq!(client_outcome("SSH-2.0-OpenSSH\r\n\r\n", send), ["", "wait"]);
    assert_eq!(client_outcome("", send), ["", "timeout"]);
    let goes_away = async |client: &Client| {
        let _ = tokio::time::timeout(Duration::from_secs(1), client.get("http://a/")).await;
    };
    assert_eq!(client_outcome("", goes_away), ["", "canceled"]);
    let calls = async |client: &Client| {
        let mut call = client.open_call(&Request::post("http://a/").unwrap()).await.unwrap();
        call.write_all(b"some").await.unwrap();
        drop(call.finish(&mut Response::new()).await);
    };
    assert_eq!(client_outcome("HTTP/1.1 500 x\r\ncontent-length: 0\r\n\r\n", calls), ["500", "500"]);
    assert_eq!(client_outcome("", calls), ["", "timeout"]);
    let leaves = async |client: &Client| drop(client.open_call(&Request::post("http://a/").unwrap()).await);
    assert_eq!(client_outcome("", leaves), ["", "canceled"]);
}

#[test]
fn each_attempt_has_a_span_with_the_number_of_those_before() {
    let (spans, ..) = seen(async {
        let retry = Retry::new().attempts_max(3);
        let client = Client::builder().retry(retry).tracing(&Tracing::new()).build();
        client.get("http://127.0.0.1:1/").await.unwrap_err();
        let balancer = client.balance(["http://127.0.0.1:1", "http://127.0.0.1:2"]).unwrap().build();
        balancer.send(&Request::get("/").unwrap(), &mut Response::new()).await.unwrap_err();
    });
    let attempts = Vec::from_iter(spans.iter().map(|span| span.get("http.request.resend_count")));
    assert_eq!(attempts, ["", "1", "2", "", "1", "2"]);
}

#[test]
fn a_host_that_cannot_be_reached_has_a_span_unless_the_client_is_not_traced() {
    let (spans, ..) = seen(async {
        let client = Client::builder().tracing(&Tracing::new()).build();
        client.get("http://127.0.0.1:1/").await.unwrap_err();
        Client::new().get("http://127.0.0.1:1/").await.unwrap_err();
    });
    let [span] = &spans[..] else { panic!("{spans:?}") };
    assert_eq!(span.all(["error.type", "server.address", "server.port"]), ["connect", "127.0.0.1", "1"]);
}

/// A propagation that passes a field of its own on.
#[derive(Clone, Default)]
struct Baggage(Arc<Mutex<Vec<String>>>);

impl TracePropagator for Baggage {
    fn extract(&self, span: &Span, headers: &Headers) {
        let name = span.metadata().map_or("none", |span| span.name());
        let baggage = headers.get("baggage").unwrap_or_default();
        self.0.lock().unwrap().push(format!("{name} {baggage}"));
    }

    fn inject(&self, span: &Span, headers: &mut Headers) {
        headers.set("baggage", span.metadata().map_or("none", |span| span.name())).unwrap();
    }
}

#[test]
fn another_propagation_takes_the_place_of_the_crate_s_own() {
    let baggage = Baggage::default();
    let (spans, ..) = seen(async {
        let listener = MemoryListener::new();
        let tracing = Tracing::new().propagator(baggage.clone());
        let client = Client::builder().connect_to(&listener).tracing(&tracing).build();
        let service = Server::new().service(wrap(tracing, |ctx: &mut Context| {
            assert!(TraceContext::current().is_none() && !ctx.request.headers.contains("traceparent"));
        }));
        let serving = async {
            let stream = listener.accept().await;
            let _ = service.serve_connection(stream).await;
        };
        let mut request = Request::get("http://a/").unwrap();
        request.headers.set("baggage", "of the caller").unwrap();
        let mut response = Response::new();
        tokio::select! {
            sent = client.send(&request, &mut response) => sent.unwrap(),
            () = serving => {}
        }
    });
    assert_eq!(*baggage.0.lock().unwrap(), ["http.server http.client"]);
    assert!(spans.iter().all(|span| span.get("trace_id").is_empty()), "{spans:?}");
}
