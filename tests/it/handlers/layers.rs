//! Layers of tower around handlers: the requests that handlers get, and what becomes of their responses.

use std::cell::Cell;
use std::future::pending;
use std::io::{Read, Write};
use std::net::IpAddr;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::task::{self, Poll};
use std::time::Duration;

use axum::body::Body as AxumBody;
use bytes::Bytes;
use corehttp::coding::Flush;
use corehttp::fs::Files;
use corehttp::http_types::HttpBody;
use corehttp::middleware::{self, wrap};
use corehttp::server::{Transform, TransformAction};
use corehttp::tower::{Tower, TowerBody, layer};
use corehttp::{
    BodyPlan, Client, Context, Error, Handler, Headers, IntoHandler, PeerAddr, Request, Router, Server,
    Status, block_on,
};
use http::{HeaderName, HeaderValue, StatusCode};
use http_body::{Body, Frame};
use http_body_util::BodyExt;
use tokio::io::AsyncWriteExt;
use tokio::time::sleep;
use tower::ServiceBuilder;
use tower::layer::layer_fn;
use tower::layer::util::Identity;
use tower::util::{MapRequestLayer, MapResponseLayer};
use tower_governor::governor::GovernorConfigBuilder;
use tower_governor::key_extractor::KeyExtractor;
use tower_governor::{GovernorError, GovernorLayer};
use tower_http::catch_panic::CatchPanicLayer;
use tower_http::compression::CompressionLayer;
use tower_http::cors::CorsLayer;
use tower_http::decompression::RequestDecompressionLayer;
use tower_http::limit::RequestBodyLimitLayer;
use tower_http::map_response_body::MapResponseBodyLayer;
use tower_http::normalize_path::NormalizePathLayer;
use tower_http::request_id::{MakeRequestId, PropagateRequestIdLayer, RequestId, SetRequestIdLayer};
use tower_http::sensitive_headers::SetSensitiveHeadersLayer;
use tower_http::set_header::SetResponseHeaderLayer;
use tower_http::timeout::TimeoutLayer;
use tower_http::trace::TraceLayer;
use tower_http::validate_request::ValidateRequestHeaderLayer;

use crate::oracle::client::{Responses, final_response};
use crate::oracle::{Next, Response};
use crate::support::responses::responses;
use crate::support::wired::{Then, Wired};
use crate::support::{ErrorReports, Served, is_over_with_its_head, status};

const GET: &str = "GET / HTTP/1.1\r\nhost: a\r\n\r\n";

fn get(path: &str, fields: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nhost: a\r\n{fields}\r\n")
}

/// A handler of each kind of response, by path.
async fn respond(ctx: &mut Context) -> corehttp::Result {
    let large = "0123456789".repeat(5_000);
    match ctx.request.path().to_owned().as_str() {
        "/plain" => ctx.response.set_text("hello"),
        "/large" => ctx.response.set_text(large),
        "/empty" => {}
        "/none" => ctx.response.status = Status::NO_CONTENT,
        "/trailers" => {
            ctx.response.headers.set("trailer", "x-sum")?;
            ctx.response.set_text("hello");
            ctx.response.trailers.set("x-sum", 7)?;
        }
        "/file" => {
            let mut file = tempfile::tempfile()?;
            file.write_all(large.as_bytes())?;
            ctx.response.body.set_file(file, 10..30_010);
        }
        "/source" => ctx.response.body.set_stream(large.into_bytes().leak() as &[u8], None),
        "/stream" => {
            ctx.response.headers.set("content-type", "text/plain")?;
            let mut out = ctx.body_writer().await?;
            out.write_all(b"he").await?;
            out.flush().await?;
            out.write_all(large.as_bytes()).await?;
            out.finish().await?;
        }
        "/sized" => {
            ctx.response.headers.set("content-length", 5)?;
            ctx.response.status = Status::ACCEPTED;
            let mut out = ctx.body_writer().await?;
            out.write_all(b"hello").await?;
            out.finish().await?;
        }
        "/sum" => {
            let mut sum = Headers::new();
            sum.set("x-sum", 7)?;
            let mut out = ctx.body_writer().await?;
            out.write_all(b"hello").await?;
            out.finish_with_trailers(&sum).await?;
        }
        "/echo" => {
            let (mut body, mut out) = ctx.duplex().await?;
            while let Some(chunk) = body.chunk().await? {
                out.write_all(chunk).await?;
            }
            out.finish().await?;
        }
        "/status" => return Err(Status::GONE.into()),
        "/cause" => return Err(Error::new(Status::CONFLICT, "there is one already")),
        _ => return Err(Status::NOT_FOUND.into()),
    }
    Ok(())
}

const PATHS: [&str; 13] = [
    "/plain",
    "/large",
    "/empty",
    "/none",
    "/trailers",
    "/file",
    "/source",
    "/stream",
    "/sized",
    "/sum",
    "/status",
    "/cause",
    "/nowhere",
];

/// The responses of `handler` to a GET and a HEAD of each path: head, content and trailers, in whatever chunks they come.
/// Another request follows each on its connection, and is answered, too.
fn all_responses(handler: impl Handler + 'static) -> Vec<String> {
    let wired = Wired::new(handler);
    let ask = |method: &str, path: &str| {
        let wire =
            format!("{method} {path} HTTP/1.1\r\nhost: a\r\n\r\nGET /plain HTTP/1.1\r\nhost: a\r\n\r\n");
        let received = wired.ask(&[wire.as_bytes()], Then::Ends);
        let Responses { next: Next::Whole(mut response), rest, .. } =
            final_response(received.as_bytes(), method, false)
        else {
            panic!("{method} {path}: {received}")
        };
        assert!(
            rest.starts_with(b"HTTP/1.1 200 OK\r\n") && rest.ends_with(b"\r\n\r\nhello"),
            "{method} {path}"
        );
        // The response to a HEAD need not say how that to a GET is framed (RFC 9110 §9.3.2).
        let is_compared = |name: &[u8]| name != b"date" && (method == "GET" || name != b"transfer-encoding");
        response.fields.retain(|field| is_compared(&field.name));
        response.fields.sort_by(|one, other| one.name.cmp(&other.name));
        let Response { status, fields, content, trailers, .. } = response;
        format!("{method} {path}: {status} {fields:?} {:?} {trailers:?}", content.escape_ascii().to_string())
    };
    PATHS.iter().flat_map(|path| ["GET", "HEAD"].map(|method| ask(method, path))).collect()
}

/// Checks that a handler responds with `layered` as it does without layers.
#[track_caller]
fn check_same(layered: impl Handler + 'static) {
    let plain = all_responses(respond.into_handler());
    for (found, expected) in all_responses(layered).iter().zip(&plain) {
        assert_eq!(found, expected);
    }
}

#[test]
fn responses_that_no_layer_changes_are_as_without_layers() {
    check_same(wrap(layer(Identity::new()), respond));
    check_same(wrap(
        layer(TimeoutLayer::with_status_code(StatusCode::REQUEST_TIMEOUT, Duration::from_secs(9))),
        respond,
    ));
    check_same(wrap(layer(SetSensitiveHeadersLayer::new([http::header::AUTHORIZATION])), respond));
    check_same(wrap(layer(NormalizePathLayer::trim_trailing_slash()), respond));
}

#[test]
fn responses_whose_body_a_layer_wraps_are_as_without_layers() {
    check_same(wrap(layer(TraceLayer::new_for_http()), respond));
    check_same(wrap(layer(CatchPanicLayer::new()), respond));
    check_same(wrap(layer(MapResponseBodyLayer::new(AxumBody::new)), respond));
    check_same(wrap(
        layer(ServiceBuilder::new().layer(TraceLayer::new_for_http()).layer(CatchPanicLayer::new())),
        respond,
    ));
    check_same(wrap(layer(TraceLayer::new_for_http()), wrap(layer(CatchPanicLayer::new()), respond)));
}

/// A handler that describes its request, and whether it was called.
fn described(ctx: &mut Context) {
    let Context { request, response, extensions, .. } = ctx;
    let extension = extensions.get::<http::Extensions>().and_then(|extensions| extensions.get::<RequestId>());
    let id = extension.map_or("-", |id| id.header_value().to_str().unwrap());
    let fields: Vec<_> =
        request.headers.iter().map(|(name, value)| (name, value.escape_ascii().to_string())).collect();
    response.set_text(format!(
        "{} {} {fields:?} {id} {:?}",
        request.method(),
        request.target(),
        request.text()
    ));
}

/// Checks that a request is answered with this status, with one of these fields if there is one, and this content.
#[track_caller]
fn check(layered: impl Handler + 'static, wire: &str, expected: (u16, &str, &str)) {
    let received = Wired::new(layered).ask_cut(wire, Then::Ends);
    let (head, content) = received.split_once("\r\n\r\n").unwrap();
    let found = (status(head), head.split("\r\n").any(|line| line == expected.1), content);
    assert_eq!(found, (expected.0, true, expected.2), "{received}");
}

#[derive(Clone, Copy)]
struct SameId;

impl MakeRequestId for SameId {
    fn make_request_id<B>(&mut self, _: &http::Request<B>) -> Option<RequestId> {
        Some(RequestId::new(HeaderValue::from_static("7")))
    }
}

/// Files, of which a part is asked for or nothing has changed, and an app of axum.
#[test]
fn other_handlers_are_as_without_layers() {
    #[track_caller]
    fn check<H: Handler + 'static>(make: impl Fn() -> H, requests: &[&str]) {
        let layers = || ServiceBuilder::new().layer(TraceLayer::new_for_http()).layer(CatchPanicLayer::new());
        for request in requests {
            let packets = [request.as_bytes()];
            let plain = responses(&Wired::new(make()).ask(&packets, Then::Ends)).remove(0);
            for layered in [
                Wired::new(wrap(layer(Identity::new()), make())).ask(&packets, Then::Ends),
                Wired::new(wrap(layer(layers()), make())).ask(&packets, Then::Ends),
            ] {
                let layered = responses(&layered).remove(0);
                assert_eq!((layered.status, &layered.body), (plain.status, &plain.body), "{request}");
            }
        }
    }
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("a.txt"), "0123456789".repeat(10_000)).unwrap();
    let files = || Files::new(directory.path()).unwrap();
    let since = get("/a.txt", "if-modified-since: Fri, 01 Jan 2100 00:00:00 GMT\r\n");
    check(files, &[&get("/a.txt", ""), &get("/a.txt", "range: bytes=5-20\r\n"), &since, &get("/b", "")]);
    let router = || Router::new().get("/", |ctx: &mut Context| ctx.response.set_text("hello")).unwrap();
    check(router, &[GET, &get("/b", ""), &get("//", ""), "PUT / HTTP/1.1\r\nhost: a\r\n\r\n"]);
    let app = || Tower::new(axum::Router::new().route("/", axum::routing::get(async || "hello")));
    check(app, &[GET, &get("/b", "")]);
}

#[test]
fn a_handler_is_tested_with_its_layers_without_a_connection() {
    let service = Server::new().service(wrap(layer(TraceLayer::new_for_http()), respond));
    for (path, expected) in [("/plain", "hello"), ("/sized", "hello"), ("/sum", "hello"), ("/status", "Gone")]
    {
        let response = block_on(service.respond(Request::get(path).unwrap())).unwrap();
        assert_eq!(response.text(), Ok(expected), "{path}");
    }
}

mod requests {
    use super::*;

    #[test]
    fn a_handler_sees_what_the_layers_have_changed() {
        let ids = ServiceBuilder::new().layer(SetRequestIdLayer::x_request_id(SameId));
        let ids = ids.layer(PropagateRequestIdLayer::x_request_id());
        let seen = "GET / [(\"host\", \"a\"), (\"x-request-id\", \"7\")] 7 Ok(\"\")";
        check(wrap(layer(ids), described), GET, (200, "x-request-id: 7", seen));
        let trims = NormalizePathLayer::trim_trailing_slash();
        let seen = "GET /b?c [(\"host\", \"a\")] - Ok(\"\")";
        check(wrap(layer(trims), described), &get("/b/?c", ""), (200, "content-length: 33", seen));
        let rewrites = MapRequestLayer::new(|mut request: http::Request<TowerBody>| {
            *request.method_mut() = http::Method::PUT;
            *request.uri_mut() = "http://example.com/d".parse().unwrap();
            request.headers_mut().remove("host");
            request
        });
        let seen = "PUT http://example.com/d [] - Ok(\"\")";
        check(wrap(layer(rewrites), described), GET, (200, "content-length: 36", seen));
    }

    #[test]
    fn a_router_matches_the_target_of_the_layers() {
        let show = |ctx: &mut Context| {
            let id = ctx.request.params().get("id").unwrap_or_default().into_owned();
            ctx.response.set_text(id);
        };
        let router = Router::new().get("/users/{id}", show).unwrap();
        let trims = NormalizePathLayer::trim_trailing_slash();
        check(wrap(layer(trims), router), &get("/users/7/", ""), (200, "content-length: 1", "7"));
    }

    #[test]
    fn fields_that_no_layer_has_changed_keep_their_spelling_and_order() {
        let wire = get("/", "X-B: 1\r\nx-a: 2\r\nX-A: 2\r\nX-E: \u{e9}\r\n");
        let described = |ctx: &mut Context| {
            let names: Vec<_> = ctx.request.headers.iter().map(|(name, _)| name.to_owned()).collect();
            ctx.response.set_text(names.join(" "));
        };
        check(
            wrap(layer(TraceLayer::new_for_http()), described),
            &wire,
            (200, "content-length: 20", "host X-B x-a X-A X-E"),
        );
    }

    #[test]
    fn a_request_that_a_layer_answers_does_not_reach_the_handler() {
        fn never(_: &mut Context) {
            panic!("it is called")
        }
        let preflight =
            "OPTIONS / HTTP/1.1\r\nhost: a\r\norigin: http://b\r\naccess-control-request-method: PUT\r\n\r\n";
        check(
            wrap(layer(CorsLayer::permissive()), never),
            preflight,
            (200, "access-control-allow-origin: *", ""),
        );
        #[allow(deprecated, reason = "the layer is named so")]
        let bearer = ValidateRequestHeaderLayer::bearer("secret");
        check(wrap(layer(bearer.clone()), never), GET, (401, "content-length: 0", ""));
        let allowed = get("/", "authorization: Bearer secret\r\n");
        check(wrap(layer(bearer), |_: &mut Context| ()), &allowed, (200, "content-length: 0", ""));
        let limited = RequestBodyLimitLayer::new(3);
        let post = "POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 5\r\n\r\nhello";
        check(wrap(layer(limited), never), post, (413, "content-length: 21", "length limit exceeded"));
    }

    /// Requests with a body of each framing, to a handler that buffers and to one that streams.
    #[test]
    fn a_body_that_no_layer_wraps_is_read_from_the_connection() {
        let sized = "POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 5\r\n\r\nhello";
        let chunked = "POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n";
        let buffered = |ctx: &mut Context| ctx.response.body.set_bytes(ctx.request.bytes());
        let streamed = async |ctx: &mut Context| -> corehttp::Result {
            let (mut content, mut body) = (Vec::new(), ctx.body_reader());
            while let Some(chunk) = body.chunk().await? {
                content.extend_from_slice(chunk);
            }
            ctx.response.body.set_bytes(content);
            Ok(())
        };
        for wire in [sized, chunked] {
            check(
                wrap(layer(TraceLayer::new_for_http()), buffered),
                wire,
                (200, "content-length: 5", "hello"),
            );
            let streamed = wrap(BodyPlan::Stream, streamed);
            check(
                wrap(layer(TraceLayer::new_for_http()), streamed),
                wire,
                (200, "content-length: 5", "hello"),
            );
            let echo = wire.replace(" / ", " /echo ");
            let wired = Wired::new(wrap(layer(TraceLayer::new_for_http()), wrap(BodyPlan::Stream, respond)));
            let received = wired.ask(&[echo.as_bytes()], Then::Waits);
            assert_eq!(responses(&received)[0].body, "hello");
        }
    }

    fn zipped(content: &str) -> Vec<u8> {
        let mut zipped = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        zipped.write_all(content.as_bytes()).unwrap();
        zipped.finish().unwrap()
    }

    #[test]
    fn a_body_that_a_layer_wraps_is_received_before_the_handler_is_called() {
        let post = |fields: &str, content: &[u8]| {
            let head =
                format!("POST / HTTP/1.1\r\nhost: a\r\n{fields}content-length: {}\r\n\r\n", content.len());
            [head.as_bytes(), content].concat()
        };
        let decoded = post("content-encoding: gzip\r\n", &zipped("hello"));
        let corrupt = post("content-encoding: gzip\r\n", b"hello");
        let bomb = post("content-encoding: gzip\r\n", &zipped(&"a".repeat(5_000_000)));
        let chunked =
            b"POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"
                .to_vec();
        let cut = b"POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhe".to_vec();
        let echo = |ctx: &mut Context| ctx.response.body.set_bytes(ctx.request.bytes());
        for plan in [BodyPlan::Buffer, BodyPlan::Stream] {
            let plan = move |_: &Request| plan;
            let layers = |most| ServiceBuilder::new().layer(RequestBodyLimitLayer::new(most));
            let zips = || RequestDecompressionLayer::new();
            let rows = [
                (&decoded, 200, "hello"),
                (&corrupt, 400, "Bad Request"),
                (&bomb, 413, "Content Too Large"),
                (&chunked, 200, "hello"),
            ];
            for (wire, expected, content) in rows {
                let received = Wired::new(wrap(layer(zips()), wrap(middleware::plan(plan), echo)))
                    .ask(&[wire], Then::Waits);
                assert_eq!(
                    (status(&received), received.ends_with(&format!("\r\n\r\n{content}"))),
                    (expected, true),
                    "{received}"
                );
            }
            for (wire, most, expected) in [(&chunked, 5, 200), (&chunked, 4, 413), (&cut, 5, 400)] {
                let wired = Wired::new(wrap(layer(layers(most)), wrap(middleware::plan(plan), echo)));
                let received = wired.ask(&[wire], Then::Ends);
                assert_eq!(status(&received), expected, "{most}: {received}");
            }
        }
    }

    /// The layers may wrap its body.
    #[test]
    fn no_body_is_received_for_a_request_that_is_refused() {
        let refuses = middleware::guard(|_: &mut Context| Err(Status::UNAUTHORIZED.into()));
        let app = wrap((layer(RequestBodyLimitLayer::new(1 << 20)), refuses), described);
        let served = Served::new(app);
        let head = "POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 5\r\n";
        for rest in ["expect: 100-continue\r\n\r\n", "\r\nhe"] {
            let received = served.ask(format!("{head}{rest}"));
            assert!(received.starts_with("HTTP/1.1 401 "), "{received}");
        }
    }

    #[test]
    fn a_body_that_a_layer_replaces_is_not_read_behind_the_new_one() {
        let read = async |ctx: &mut Context| -> corehttp::Result {
            let (mut content, mut body) = (Vec::new(), ctx.body_reader());
            while let Some(chunk) = body.chunk().await? {
                content.extend_from_slice(chunk);
            }
            ctx.response.body.set_bytes(content);
            Ok(())
        };
        let chunked =
            "POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n";
        for plan in [BodyPlan::Buffer, BodyPlan::Stream] {
            for new in ["", "other"] {
                let replaces = MapRequestLayer::new(move |request: http::Request<TowerBody>| {
                    request.map(|_| HttpBody::from(corehttp::Body::from(new)))
                });
                let wired = Wired::new(wrap(layer(replaces), wrap(plan, read)));
                let received = wired.ask(&[chunked.as_bytes(), chunked.as_bytes()], Then::Ends);
                let bodies: Vec<_> = responses(&received).into_iter().map(|response| response.body).collect();
                assert_eq!(bodies, [new; 2], "{plan:?}");
            }
        }
    }

    #[test]
    fn a_request_that_the_crate_http_cannot_hold_is_400() {
        let roomy = corehttp::Limits { request_line_max: 1 << 20, head_max: 1 << 20, ..Default::default() };
        let wired =
            Wired::with(|server| server.limits(roomy), wrap(layer(TraceLayer::new_for_http()), respond));
        let received = wired.ask(&[get(&format!("/{}", "a".repeat(65_535)), "").as_bytes()], Then::Ends);
        assert_eq!(status(&received), 400);
    }
}

mod responses_of_layers {
    use super::*;

    #[test]
    fn fields_are_changed_whatever_the_handler_does() {
        let name = HeaderName::from_static("x-layer");
        let sets = SetResponseHeaderLayer::overriding(name, HeaderValue::from_static("7"));
        let layered = Wired::new(wrap(layer(sets), respond));
        for path in PATHS {
            let received = layered.ask(&[get(path, "").as_bytes()], Then::Ends);
            assert!(
                received.split("\r\n\r\n").next().unwrap().contains("\r\nx-layer: 7"),
                "{path}: {received}"
            );
        }
    }

    #[test]
    fn a_status_is_changed_before_it_is_sent() {
        let moves = MapResponseLayer::new(|mut response: http::Response<HttpBody>| {
            *response.status_mut() = StatusCode::IM_A_TEAPOT;
            response
        });
        let wired = Wired::new(wrap(layer(moves), respond));
        for path in ["/plain", "/stream", "/sized", "/file", "/sum"] {
            assert_eq!(status(&wired.ask(&[get(path, "").as_bytes()], Then::Ends)), 418, "{path}");
        }
    }

    /// A client takes statuses beyond 599, so a gateway has them.
    #[cfg(feature = "testing")]
    #[test]
    fn a_status_that_was_received_passes_as_it_is_rfc9110_15() {
        use corehttp::testing::{Script, ScriptedPeer};

        let behind = Script::new().receive().send("HTTP/1.1 999 Odd\r\ncontent-length: 0\r\n\r\n");
        let behind = ScriptedPeer::new([behind]);
        let received = || {
            let client = behind.client();
            async move |ctx: &mut Context| -> corehttp::Result {
                ctx.response.status = client.get("http://b.example/").await?.status;
                if ctx.request.path() == "/stream" {
                    ctx.response.headers.set("content-length", 5)?;
                    let mut out = ctx.body_writer().await?;
                    out.write_all(b"hello").await?;
                    return Ok(out.finish().await?);
                }
                ctx.response.set_text("hello");
                Ok(())
            }
        };
        for path in ["/", "/stream"] {
            let expected = (999, "access-control-allow-origin: *", "hello");
            check(wrap(layer(CorsLayer::permissive()), received()), &get(path, ""), expected);
            let wraps =
                ServiceBuilder::new().layer(TraceLayer::new_for_http()).layer(CorsLayer::permissive());
            check(wrap(layer(wraps), received()), &get(path, ""), expected);
        }
    }

    #[test]
    fn a_response_that_a_layer_replaces_is_sent_in_place_of_the_handlers() {
        let replaces = MapResponseLayer::new(|response: http::Response<HttpBody>| {
            let (head, _) = response.into_parts();
            http::Response::from_parts(head, HttpBody::from(corehttp::Body::from("replaced")))
        });
        let boxes = MapResponseLayer::new(|response: http::Response<HttpBody>| {
            let (head, _) = response.into_parts();
            http::Response::from_parts(head, AxumBody::from("replaced"))
        });
        let layered: [Box<dyn Handler>; 2] =
            [Box::new(wrap(layer(replaces), respond)), Box::new(wrap(layer(boxes), respond))];
        for layered in layered {
            let wired = Wired::new(layered);
            for path in ["/plain", "/stream", "/file", "/sum", "/status", "/cause"] {
                let received = wired.ask(&[get(path, "").as_bytes(), GET.as_bytes()], Then::Ends);
                assert!(
                    received.contains("\r\ncontent-length: 8\r\n") && received.contains("\r\n\r\nreplaced"),
                    "{path}: {received}"
                );
                assert_eq!(received.matches("HTTP/1.1 ").count(), 2, "{path}: {received}");
            }
        }
    }

    #[test]
    fn a_handler_that_takes_too_long_is_cancelled() {
        struct Note(Rc<Cell<bool>>);
        impl Drop for Note {
            fn drop(&mut self) {
                self.0.set(true);
            }
        }
        let dropped = Rc::new(Cell::new(false));
        let noted = dropped.clone();
        let slow = async move |ctx: &mut Context| -> corehttp::Result {
            ctx.response.headers.set("x-half", "done")?;
            let _note = Note(noted.clone());
            sleep(Duration::from_secs(60)).await;
            Ok(())
        };
        let limit = TimeoutLayer::with_status_code(StatusCode::REQUEST_TIMEOUT, Duration::from_secs(5));
        let outer = wrap(
            async |ctx: &mut Context, next: middleware::Next<'_>| {
                ctx.response.headers.set("x-outer", 1)?;
                next.handle(ctx).await
            },
            wrap(layer(limit), slow),
        );
        let received = Wired::new(outer).ask(&[GET.as_bytes(), GET.as_bytes()], Then::Ends);
        assert_eq!(received.matches("HTTP/1.1 408 ").count(), 2, "{received}");
        assert!(
            received.contains("x-outer: 1") && !received.contains("x-half") && dropped.get(),
            "{received}"
        );
    }

    #[test]
    fn a_panic_is_caught_by_a_layer_or_by_the_server() {
        let panics = |_: &mut Context| -> () { std::panic::resume_unwind(Box::new("in the handler")) };
        let reports = ErrorReports::default();
        let caught =
            Wired::with(|server| reports.attach(server), wrap(layer(CatchPanicLayer::new()), panics));
        let received = caught.ask(&[GET.as_bytes(), GET.as_bytes()], Then::Ends);
        assert_eq!(
            (received.matches("HTTP/1.1 500 ").count(), received.matches("Service panicked").count()),
            (2, 2)
        );
        assert!(reports.take().is_empty());
        let uncaught =
            Wired::with(|server| reports.attach(server), wrap(layer(TraceLayer::new_for_http()), panics));
        let received = uncaught.ask(&[GET.as_bytes(), GET.as_bytes()], Then::Ends);
        assert!(status(&received) == 500 && received.contains("connection: close"), "{received}");
        assert_eq!(reports.take().len(), 1);
        let notes = async |ctx: &mut Context, next: middleware::Next<'_>| {
            ctx.response.headers.set("x-before", "1")?;
            let outcome = next.handle(ctx).await;
            let failed = outcome.as_ref().is_err_and(|error| error.status() == Status::INTERNAL_SERVER_ERROR);
            ctx.response.headers.set("x-after", failed.to_string())?;
            outcome
        };
        let around = Wired::new(wrap((notes, layer(CorsLayer::permissive())), panics));
        let received = around.ask(&[GET.as_bytes()], Then::Ends);
        assert!(received.contains("x-before: 1") && received.contains("x-after: true"), "{received}");
    }

    #[test]
    fn an_error_of_the_handler_is_reported_as_without_layers() {
        let reports = ErrorReports::default();
        let sets = SetResponseHeaderLayer::overriding(
            HeaderName::from_static("x-layer"),
            HeaderValue::from_static("7"),
        );
        let layered = ServiceBuilder::new().layer(TraceLayer::new_for_http()).layer(sets);
        let wired = Wired::with(|server| reports.attach(server), wrap(layer(layered), respond));
        let received = wired.ask(&[get("/cause", "").as_bytes()], Then::Ends);
        assert!(received.starts_with("HTTP/1.1 409 Conflict\r\nx-layer: 7\r\n"), "{received}");
        assert_eq!(reports.take(), [(409, "there is one already".to_owned())]);
    }

    #[test]
    fn an_error_of_a_layer_is_one_of_the_handler() {
        let limit = ServiceBuilder::new().timeout(Duration::from_secs(5));
        let slow = async |_: &mut Context| pending::<()>().await;
        assert_eq!(status(&Wired::new(wrap(layer(limit), slow)).ask(&[GET.as_bytes()], Then::Ends)), 500);
    }

    fn unzipped(content: &[u8]) -> String {
        let mut text = String::new();
        flate2::read::GzDecoder::new(content).read_to_string(&mut text).unwrap();
        text
    }

    #[test]
    fn content_is_compressed_by_a_layer_streamed_or_not() {
        let served = Served::new(wrap(layer(CompressionLayer::new()), respond));
        let (client, plain) = (Client::new(), Wired::new(respond.into_handler()));
        for path in ["/large", "/stream", "/file", "/source"] {
            let mut request = Request::get(&format!("http://{}{path}", served.addr())).unwrap();
            request.headers.set("accept-encoding", "gzip").unwrap();
            let mut response = corehttp::Response::new();
            block_on(client.send(&request, &mut response)).unwrap().unwrap();
            assert_eq!(response.headers.get("content-encoding"), Some("gzip"), "{path}");
            let expected = plain.ask(&[get(path, "").as_bytes()], Then::Ends);
            assert_eq!(unzipped(response.bytes()), responses(&expected)[0].body, "{path}");
        }
    }

    /// A body that waits for a while before each frame, if its handler does not stream.
    #[test]
    fn a_body_that_waits_for_more_than_the_content_is_for_responses_that_are_not_streamed() {
        struct Slow(HttpBody, Pin<Box<tokio::time::Sleep>>);
        impl Body for Slow {
            type Data = Bytes;
            type Error = std::io::Error;

            fn poll_frame(
                mut self: Pin<&mut Self>,
                cx: &mut task::Context<'_>,
            ) -> Poll<Option<Result<Frame<Bytes>, std::io::Error>>> {
                std::task::ready!(self.1.as_mut().poll(cx));
                Pin::new(&mut self.0).poll_frame(cx)
            }
        }
        let slows = MapResponseBodyLayer::new(|body| Slow(body, Box::pin(sleep(Duration::from_secs(1)))));
        let wired = Wired::new(wrap(layer(slows), respond));
        let received = wired.ask(&[get("/plain", "").as_bytes()], Then::Ends);
        assert_eq!(responses(&received)[0].body, "hello");
        let received = wired.ask(&[get("/sum", "").as_bytes()], Then::Ends);
        assert!(received.ends_with("transfer-encoding: chunked\r\n\r\n"), "{received}");
    }

    #[test]
    fn an_upgrade_has_the_fields_of_the_layers_and_a_refusal_prevents_it() {
        let upgrade = async |ctx: &mut Context| -> corehttp::Result {
            let mut stream = ctx.upgrade("echo").await?;
            stream.write_all(b"hello").await?;
            Ok(())
        };
        let sets = SetResponseHeaderLayer::overriding(
            HeaderName::from_static("x-layer"),
            HeaderValue::from_static("7"),
        );
        let wire = get("/", "connection: upgrade\r\nupgrade: echo\r\n");
        let received = Served::new(wrap(
            layer(ServiceBuilder::new().layer(TraceLayer::new_for_http()).layer(sets)),
            upgrade,
        ))
        .ask(&wire);
        assert!(
            received.starts_with("HTTP/1.1 101 ") && received.contains("\r\nx-layer: 7\r\n"),
            "{received}"
        );
        assert!(received.ends_with("\r\n\r\nhello"), "{received}");
        let refuses = MapResponseLayer::new(|mut response: http::Response<HttpBody>| {
            *response.status_mut() = StatusCode::FORBIDDEN;
            response
        });
        let received =
            Served::new(wrap(layer(refuses), upgrade)).ask([wire.as_bytes(), GET.as_bytes()].concat());
        assert!(received.starts_with("HTTP/1.1 403 ") && received.contains("HTTP/1.1 403 "), "{received}");
    }

    #[test]
    fn requests_beyond_a_rate_are_refused_by_the_address_of_the_peer() {
        #[derive(Clone)]
        struct Peer;
        impl KeyExtractor for Peer {
            type Key = IpAddr;

            fn extract<B>(&self, request: &http::Request<B>) -> Result<IpAddr, GovernorError> {
                match request.extensions().get() {
                    Some(PeerAddr::Tcp(address)) => Ok(address.ip()),
                    _ => Err(GovernorError::UnableToExtractKey),
                }
            }
        }
        let config = GovernorConfigBuilder::default().key_extractor(Peer).burst_size(2).finish().unwrap();
        let layers = ServiceBuilder::new()
            .layer(GovernorLayer::new(config))
            .layer(MapResponseBodyLayer::new(AxumBody::new));
        let received = Served::new(wrap(layer(layers), respond)).ask(get("/stream", "").repeat(3));
        let statuses: Vec<_> = responses(&received).iter().map(|response| response.status).collect();
        assert_eq!(statuses, [200, 200, 429], "{received}");
    }

    /// Transforms of middleware inside and outside of layers, which also wrap the body.
    #[test]
    fn content_passes_through_middleware_and_layers_from_the_inside_out() {
        struct Tag(&'static str, Option<Box<dyn Transform>>);
        impl Transform for Tag {
            fn begin(&mut self, response: &mut corehttp::Response) -> TransformAction {
                response.headers.append("x-tag", self.0).unwrap();
                self.1.as_mut().map(|outer| outer.begin(response));
                TransformAction::Apply
            }

            fn apply(&mut self, data: &[u8], flush: Flush, out: &mut Vec<u8>) -> std::io::Result<()> {
                let data = if data.is_empty() { Vec::new() } else { [self.0.as_bytes(), data].concat() };
                match &mut self.1 {
                    Some(outer) => outer.apply(&data, flush, out)?,
                    None => out.extend(data),
                }
                Ok(())
            }
        }
        struct Tagged<H>(&'static str, H);
        impl<H: Handler> Handler for Tagged<H> {
            async fn handle(&self, ctx: &mut Context) -> corehttp::Result {
                ctx.transform = Some(Box::new(Tag(self.0, ctx.transform.take())));
                self.1.handle(ctx).await
            }
        }
        let wraps = MapResponseLayer::new(|response: http::Response<HttpBody>| {
            let tags = response.headers().get_all("x-tag").iter().count();
            response.map(|body| {
                body.map_frame(move |frame| {
                    frame.map_data(|data| Bytes::from([format!("layer{tags}:").as_bytes(), &data].concat()))
                })
            })
        });
        let inner = Tagged("inner:", respond.into_handler());
        let wired = Wired::new(Tagged("outer:", wrap(layer(wraps), inner)));
        let received = wired.ask(&[get("/sum", "").as_bytes()], Then::Ends);
        let response = &responses(&received)[0];
        assert_eq!(response.body, "outer:layer1:inner:hello", "{received}");
    }

    #[test]
    fn layers_are_nested_and_shared_between_requests() {
        let count = Arc::new(AtomicUsize::new(0));
        let counted = count.clone();
        let counts = MapRequestLayer::new(move |request: http::Request<TowerBody>| {
            counted.fetch_add(1, Ordering::Relaxed);
            request
        });
        let limits = ServiceBuilder::new().concurrency_limit(1).layer(counts);
        let served = Served::new(wrap(layer(CompressionLayer::new()), wrap(layer(limits), respond)));
        let received = served.ask(PATHS.map(|path| get(path, "")).concat());
        assert_eq!((responses(&received).len(), count.load(Ordering::Relaxed)), (PATHS.len(), PATHS.len()));
    }

    #[test]
    fn a_second_call_for_one_request_is_answered_with_500() {
        let twice = layer_fn(|service: corehttp::tower::HandlerService| {
            tower::service_fn(move |request: http::Request<TowerBody>| {
                let mut service = service;
                async move {
                    let mut second = http::Request::new(HttpBody::default());
                    *second.extensions_mut() = request.extensions().clone();
                    let _ = tower::Service::call(&mut service, request).await?;
                    tower::Service::call(&mut service, second).await
                }
            })
        });
        assert_eq!(status(&Wired::new(wrap(layer(twice), respond)).ask(&[GET.as_bytes()], Then::Ends)), 500);
    }
}

/// Middleware may give up layers with their handler, and stream a response of its own; the next exchange on the
/// connection is not theirs either.
#[test]
fn layers_that_were_given_up_hold_no_later_response() {
    async fn hurried(ctx: &mut Context, next: middleware::Next<'_>) -> corehttp::Result {
        if ctx.request.path() != "/other" {
            let late = tokio::time::timeout(Duration::from_millis(5), next.handle(ctx)).await.is_err();
            assert!(late, "the handler sleeps");
        }
        if ctx.request.path() == "/plain" {
            ctx.response.set_text("late");
            return Ok(());
        }
        let mut out = ctx.body_writer().await?;
        out.write_all(b"streamed").await?;
        Ok(out.finish().await?)
    }
    let sleeps = async |_: &mut Context| sleep(Duration::from_secs(3600)).await;
    let served = Served::new(wrap(hurried, wrap(layer(Identity::new()), sleeps)));
    for paths in [["/plain", "/other"], ["/streamed", "/other"], ["/plain", "/streamed"]] {
        let received = served.ask(paths.map(|path| get(path, "")).concat());
        assert_eq!(received.matches("HTTP/1.1 200 OK").count(), 2, "{paths:?}: {received}");
        assert!(received.ends_with("8\r\nstreamed\r\n0\r\n\r\n"), "{paths:?}: {received}");
    }
}

/// A layer may run its calls in tasks of their own, which hold what they have, such as a permit, until they end.
#[test]
fn a_call_of_another_task_ends_when_its_handler_is_given_up() {
    async fn hurried(ctx: &mut Context, next: middleware::Next<'_>) -> corehttp::Result {
        let late = tokio::time::timeout(Duration::from_millis(5), next.handle(ctx)).await.is_err();
        assert!(late, "the handler sleeps");
        Ok(())
    }
    let (ended, ends) = mpsc::channel();
    for is_called in [true, false] {
        let ended = ended.clone();
        let spawns = layer_fn(move |mut service: corehttp::tower::HandlerService| {
            let ended = ended.clone();
            tower::service_fn(move |request: http::Request<TowerBody>| {
                let ended = ended.clone();
                let call = tokio::spawn(async move {
                    // One that calls the handler too late.
                    if !is_called {
                        sleep(Duration::from_millis(50)).await;
                    }
                    let response = tower::Service::call(&mut service, request).await;
                    ended.send(response.as_ref().unwrap().status()).unwrap();
                    response
                });
                async move { call.await.expect("the call does not panic") }
            })
        });
        let sleeps = async |_: &mut Context| sleep(Duration::from_secs(3600)).await;
        let served = Served::new(wrap(hurried, wrap(layer(spawns), sleeps)));
        assert_eq!(status(&served.ask(get("/", ""))), 200);
        let end = ends.recv_timeout(Duration::from_secs(10));
        assert_eq!(end, Ok(StatusCode::INTERNAL_SERVER_ERROR), "called: {is_called}");
    }
}

/// The values of outer layers reach the handlers of inner ones, and services.
#[test]
fn values_of_outer_layers_reach_inner_ones() {
    #[derive(Clone)]
    struct User(&'static str);
    #[derive(Clone)]
    struct Id(u8);
    let add_user = || {
        MapRequestLayer::new(|mut request: http::Request<TowerBody>| {
            request.extensions_mut().insert(User("Ada"));
            request
        })
    };
    let add_id = || {
        MapRequestLayer::new(|mut request: http::Request<TowerBody>| {
            request.extensions_mut().insert(Id(7));
            request
        })
    };
    let shown = |extensions: &http::Extensions| {
        let (user, id) = (extensions.get::<User>().unwrap().0, extensions.get::<Id>().unwrap().0);
        format!("{user} {id}")
    };
    let handler = move |ctx: &mut Context| {
        let text = shown(ctx.extensions.get::<http::Extensions>().unwrap());
        ctx.response.set_text(text);
    };
    let served = Served::new(wrap(layer(add_user()), wrap(layer(add_id()), handler)));
    assert!(served.ask(GET).ends_with("\r\n\r\nAda 7"));
    let app = axum::Router::new().route(
        "/",
        axum::routing::get(async |request: axum::extract::Request| {
            request.extensions().get::<User>().unwrap().0.to_owned()
        }),
    );
    let served = Served::new(wrap(layer(add_user()), Tower::new(app)));
    assert!(served.ask(GET).ends_with("Ada"));
}

/// A target that a layer inside a mount replaces is matched where the router is mounted, or as a whole.
#[test]
fn a_layer_inside_a_mount_may_replace_the_target() {
    let rewrite = |to: &'static str| {
        MapRequestLayer::new(move |mut request: http::Request<TowerBody>| {
            *request.uri_mut() = to.parse().unwrap();
            request
        })
    };
    let inner = || {
        corehttp::routes! {
            GET "/" => |ctx: &mut Context| ctx.response.set_text("index"),
            GET "/x" => |ctx: &mut Context| ctx.response.set_text("x"),
        }
    };
    for (to, expected) in [("/api/x", "x"), ("/x", "x"), ("/api", "index"), ("/", "index")] {
        let router = corehttp::routes! { mount "/api" => wrap(layer(rewrite(to)), inner()) };
        let received = Served::new(router).ask(get("/api/first", ""));
        assert!(received.ends_with(&format!("\r\n\r\n{expected}")), "{to}: {received}");
    }
}

#[test]
fn the_head_of_a_layered_stream_does_not_hold_its_connection_rfc9110_9_3_2() {
    let ticks = async |ctx: &mut Context| -> corehttp::Result {
        let mut out = ctx.body_writer().await?;
        loop {
            out.write_all(b"tick").await?;
            out.flush().await?;
            sleep(Duration::from_millis(1)).await;
        }
    };
    let head = GET.replace("GET", "HEAD");
    is_over_with_its_head(&head, wrap(layer(CorsLayer::permissive()), ticks));
    is_over_with_its_head(&head, wrap(layer(MapResponseBodyLayer::new(AxumBody::new)), ticks));
}
