//! The same application twice, for corehttp and for hyper: GET is `Hello, world!`, POST is
//! its own body back; every response has Server, Date, Content-Type and Content-Length.

use std::time::Duration;

use corehttp::{Context, Method, Status};
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::header::{CONTENT_TYPE, HeaderValue, SERVER};
use hyper::server::conn::http1;
use hyper_util::rt::TokioTimer;

pub const HELLO: &str = "Hello, world!";
pub const SERVER_NAME: &str = "corehttp";

/// The application as a handler of corehttp.
#[inline(always)]
pub fn respond(ctx: &mut Context) -> corehttp::Result {
    let Context { request, response, .. } = ctx;
    match request.method() {
        Method::Get => response.body.set_bytes(HELLO),
        Method::Post => response.body.set_bytes(request.body.bytes()),
        _ => return Err(Status::METHOD_NOT_ALLOWED.into()),
    }
    response.headers.set("content-type", "text/plain")?;
    Ok(())
}

/// The application as a service of hyper, as its users write it: neither body is copied.
pub async fn hyper_respond(
    request: hyper::Request<Incoming>,
) -> Result<hyper::Response<Full<Bytes>>, hyper::Error> {
    let body = match *request.method() {
        hyper::Method::GET => Bytes::from_static(HELLO.as_bytes()),
        hyper::Method::POST => request.into_body().collect().await?.to_bytes(),
        _ => panic!("the load only asks what the application answers"),
    };
    let mut response = hyper::Response::new(Full::new(body));
    let headers = response.headers_mut();
    headers.insert(SERVER, HeaderValue::from_static(SERVER_NAME));
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/plain"));
    Ok(response)
}

/// hyper with the two settings that matter here: timeouts are on, as they are in corehttp,
/// and pipelined responses leave together.
pub fn hyper_builder() -> http1::Builder {
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(Duration::from_secs(30)).pipeline_flush(true);
    builder
}
