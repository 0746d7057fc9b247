//! The statuses that the documentation promises for errors that a handler passes on with `?`.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

use corehttp::message::Parameters;
use corehttp::middleware::wrap;
use corehttp::server::IntoError;
use corehttp::sse::EventReader;
use corehttp::{
    BodyPlan, Context, Error, Form, IntoHandler, Limits, Method, Request, Result, Server, Status, Version,
    block_on, routes,
};

use crate::support::ErrorReports;

/// The handler passes an error on for which this status is promised, and no fault is reported if a peer is to blame.
#[track_caller]
fn check<Kind, H: IntoHandler<Kind>>(request: Request, handler: H, status: u16) {
    let reports = ErrorReports::default();
    let is_fault = Arc::new(AtomicBool::new(false));
    let noted = is_fault.clone();
    let server = reports.attach(Server::new().limits(Limits { body_max: 4 << 20, ..Limits::default() }));
    let server =
        server.on_error(move |report| noted.store(report.is_fault(), std::sync::atomic::Ordering::SeqCst));
    let response = block_on(server.service(handler).respond(request)).unwrap();
    let is_fault = is_fault.load(SeqCst);
    assert_eq!((response.status.as_u16(), is_fault), (status, status == 500), "{:?}", reports.take());
}

fn done<T, E: IntoError>(outcome: std::result::Result<T, E>) -> Result {
    outcome.map(|_| ()).map_err(Error::from)
}

fn get(target: &str) -> Request {
    Request::get(target).unwrap()
}

fn post(content_type: &str, content: impl Into<Vec<u8>>) -> Request {
    let mut request = Request::post("/").unwrap();
    request.headers.set("content-type", content_type).unwrap();
    request.body.set_bytes(content.into());
    request
}

fn with(mut request: Request, name: &str, value: &str) -> Request {
    request.headers.set(name, value).unwrap();
    request
}

/// `Request::add_via`, `Request::forwarded_to`, `Request::forwarded_below`.
#[test]
fn requests_that_cannot_be_forwarded() {
    let via = |ctx: &mut Context| -> Result {
        let mut onward = ctx.request.forwarded_to("http://127.0.0.1:1")?;
        Ok(onward.add_via(Version::Http11, "front")?)
    };
    check(with(get("/"), "via", "1.1 front"), via, 508);
    check(with(get("/"), "via", "1.1 back"), via, 200);
    let misnamed = |ctx: &mut Context| -> Result { Ok(ctx.request.add_via(Version::Http11, "a b")?) };
    check(get("/"), misnamed, 500);
    let onward = |ctx: &mut Context| -> Result { done(ctx.request.forwarded_to("http://a.example/v1")) };
    check(get("/a%2f..%2fb"), onward, 400);
    check(get("/..;/b"), onward, 400);
    let mut trace = with(get("/"), "max-forwards", "0");
    trace.set_method(Method::Options);
    check(trace, onward, 501);
    let below =
        |ctx: &mut Context| -> Result { done(ctx.request.forwarded_below("/v1", "http://a.example")) };
    check(get("/v2"), below, 404);
    check(get("/v1//host"), below, 400);
    let misconfigured = |ctx: &mut Context| -> Result { done(ctx.request.forwarded_to("ftp://a")) };
    check(get("/"), misconfigured, 500);
}

/// `PathParams::get`, `Target::path_decoded`, `Form::get_as`, `Cookies::get_as`, `Parameters::get` and their like.
#[test]
fn values_of_a_head() {
    let by_id = |ctx: &mut Context| -> Result { done(ctx.params().get_as::<u64>("id")) };
    check(get("/users/x"), routes! { GET "/users/{id}" => by_id }, 404);
    let no_such = |ctx: &mut Context| -> Result { done(ctx.params().get("other")) };
    check(get("/users/1"), routes! { GET "/users/{id}" => no_such }, 500);
    check(get("/%ff"), |ctx: &mut Context| -> Result { done(ctx.request.path_decoded()) }, 400);
    check(get("/?a=x"), |ctx: &mut Context| -> Result { done(ctx.request.query().get_as::<u8>("a")) }, 400);
    check(get("/?a&b"), |ctx: &mut Context| -> Result { done(ctx.request.query().up_to(1)) }, 400);
    check(get("/?a=%ff"), |ctx: &mut Context| -> Result { done(ctx.request.query().strict()) }, 400);
    let cookie = |ctx: &mut Context| -> Result { done(ctx.request.cookies().get_as::<u8>("a")) };
    check(with(get("/"), "cookie", "a=x"), cookie, 400);
    let prefer = |ctx: &mut Context| -> Result {
        let prefer = ctx.request.headers.get_bytes("prefer").unwrap_or_default();
        done(Parameters::new(prefer).get("wait"))
    };
    check(with(get("/"), "prefer", "wait=\"5"), prefer, 400);
    check(with(get("/"), "prefer", "wait=5"), prefer, 200);
    check(
        get("/"),
        |ctx: &mut Context| -> Result { Ok(ctx.response.set_redirect(Status::FOUND, "a\nb")?) },
        500,
    );
}

/// `Request::text`, `Request::text_decoded`, `Request::form`, `Body::text`.
#[test]
fn content_in_memory() {
    let text = |ctx: &mut Context| -> Result { done(ctx.request.text()) };
    check(post("text/plain", b"\xff"), text, 400);
    let decoded = |ctx: &mut Context| -> Result { done(ctx.request.text_decoded()) };
    check(post("text/plain", b"\xff"), decoded, 400);
    check(post("text/plain; charset=x-unknown", b"a"), decoded, 415);
    let form = |ctx: &mut Context| -> Result { done(ctx.request.form()) };
    let urlencoded = "application/x-www-form-urlencoded";
    check(post("text/plain", "a=1"), form, 415);
    check(with(post(urlencoded, "a=1"), "content-encoding", "x-unknown"), form, 415);
    check(post(urlencoded, b"\xff"), form, 400);
    check(post(urlencoded, "a&".repeat(Form::PAIRS_MAX + 1)), form, 400);
    check(post(urlencoded, "a=1"), wrap(BodyPlan::Stream, form), 500);
    check(post("text/plain", b"\xff"), |ctx: &mut Context| -> Result { done(ctx.request.body.text()) }, 500);
}

/// `Context::decode_body`, `BodyReader::decoded_up_to`, `Context::buffer_body_up_to`.
#[test]
fn content_in_codings() {
    let decode = async |ctx: &mut Context| -> Result { Ok(ctx.decode_body().await?) };
    check(with(post("text/plain", "a"), "content-encoding", "x-unknown"), decode, 415);
    let decoded = async |ctx: &mut Context| -> Result { done(ctx.body_reader().decoded_up_to(9)) };
    check(
        with(post("text/plain", "a"), "content-encoding", "x-unknown"),
        wrap(BodyPlan::Stream, decoded),
        415,
    );
    let short = async |ctx: &mut Context| -> Result { Ok(ctx.buffer_body_up_to(3).await?) };
    check(post("text/plain", "long"), wrap(BodyPlan::Stream, short), 413);
    #[cfg(feature = "compress")]
    {
        check(with(post("text/plain", "no gzip"), "content-encoding", "gzip"), decode, 400);
        let up_to = async |ctx: &mut Context| -> Result { Ok(ctx.decode_body_up_to(3).await?) };
        let gzip = crate::handlers::compress::gzip(b"long");
        check(with(post("text/plain", gzip), "content-encoding", "gzip"), up_to, 413);
    }
}

/// `Context::upgrade`, `Context::accept_tunnel`.
#[test]
fn other_protocols() {
    check(get("/"), async |ctx: &mut Context| -> Result { done(ctx.upgrade("echo").await) }, 426);
    check(get("/"), async |ctx: &mut Context| -> Result { done(ctx.accept_tunnel().await) }, 400);
}

/// `EventReader::from_request`, and `EventReader::new` of another source.
#[test]
fn events() {
    let stream = || post("text/event-stream", format!("data: {}\n\n", "x".repeat(1_100_000)));
    let of_request = async |ctx: &mut Context| -> Result {
        let mut events = EventReader::from_request(ctx.body_reader());
        while events.event().await?.is_some() {}
        Ok(())
    };
    check(stream(), wrap(BodyPlan::Stream, of_request), 413);
    let of_another = async |ctx: &mut Context| -> Result {
        let mut events = EventReader::new(ctx.body_reader());
        while events.event().await?.is_some() {}
        Ok(())
    };
    check(stream(), wrap(BodyPlan::Stream, of_another), 500);
}

/// `Request::json`, `JsonLines::from_request`, and `JsonLines::new` of another source.
#[cfg(feature = "json")]
#[test]
fn json() {
    use std::collections::BTreeMap;

    use corehttp::json::JsonLines;

    let whole = |ctx: &mut Context| -> Result { done(ctx.request.json::<BTreeMap<String, u8>>()) };
    for (request, status) in [
        (post("application/json", "{\"a\":1}"), 200),
        (post("text/plain", "1"), 415),
        (post("application/json", "{bad"), 400),
        (post("application/json", "\"text\""), 422),
    ] {
        check(request, whole, status);
    }
    let lines = async |ctx: &mut Context| -> Result {
        let mut lines = JsonLines::from_request(ctx.body_reader());
        while lines.next::<BTreeMap<String, u8>>().await?.is_some() {}
        Ok(())
    };
    let long = || post("application/jsonl", format!("{{}}\n{}\n", " ".repeat(1_100_000)));
    for (request, status) in [
        (post("application/jsonl", "{\"a\":1}\n{\"b\":2}\n"), 200),
        (post("application/jsonl", "{\"a\":1}\n{bad\n"), 400),
        (post("application/jsonl", "{\"a\":\"text\"}\n"), 422),
        (long(), 413),
    ] {
        check(request, wrap(BodyPlan::Stream, lines), status);
    }
    let of_another = async |ctx: &mut Context| -> Result {
        let mut lines = JsonLines::new(ctx.body_reader());
        while lines.next::<BTreeMap<String, u8>>().await?.is_some() {}
        Ok(())
    };
    check(post("application/jsonl", "{bad\n"), wrap(BodyPlan::Stream, of_another), 500);
    check(long(), wrap(BodyPlan::Stream, of_another), 500);
}

/// `Request::query_as`, `Request::form_as`.
#[cfg(feature = "form")]
#[test]
fn typed_forms() {
    use std::collections::BTreeMap;

    let query = |ctx: &mut Context| -> Result { done(ctx.request.query_as::<BTreeMap<String, u8>>()) };
    check(get("/?a=x"), query, 400);
    let form = |ctx: &mut Context| -> Result { done(ctx.request.form_as::<BTreeMap<String, u8>>()) };
    check(post("application/x-www-form-urlencoded", "a=x"), form, 422);
    check(post("text/plain", "a=1"), form, 415);
}
