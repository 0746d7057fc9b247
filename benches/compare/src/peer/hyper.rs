//! The application in hyper, as fast as it goes: a runtime and a listener for each core, of which there is one here;
//! no wait for more to write; pipelined responses leave together.

use std::convert::Infallible;
use std::io;
use std::time::Duration;

use futures_util::stream;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Bytes, Frame, Incoming};
use hyper::header::{CONTENT_TYPE, HeaderValue, SERVER};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use socket2::{Domain, Socket, Type};
use tokio::net::TcpListener;

use super::{ANY, BACKLOG};
use crate::application::{HELLO, PIECE_BYTES, PIECES, SERVER_NAME, page_json};
use crate::child::announce;

pub(super) fn serve() -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let listener = listen()?;
        announce(listener.local_addr()?);
        let mut builder = http1::Builder::new();
        // Timeouts are on, as they are in corehttp.
        builder.timer(TokioTimer::new()).header_read_timeout(Duration::from_secs(30)).pipeline_flush(true);
        loop {
            let (stream, _) = listener.accept().await?;
            stream.set_nodelay(true)?;
            let connection = builder.serve_connection(TokioIo::new(stream), service_fn(respond));
            // The load hangs up when it has enough: how a connection ended is no news.
            tokio::spawn(async { drop(connection.await) });
        }
    })
}

/// A listener that another core could have beside it.
fn listen() -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM.nonblocking(), None)?;
    socket.set_reuse_port(true)?;
    socket.bind(&ANY.into())?;
    socket.listen(BACKLOG)?;
    TcpListener::from_std(socket.into())
}

/// Responses that are there are not boxed, for that would cost an allocation.
type Body = http_body_util::Either<Full<Bytes>, UnsyncBoxBody<Bytes, Infallible>>;

async fn respond(request: Request<Incoming>) -> Result<Response<Body>, hyper::Error> {
    let whole = |bytes: Bytes| Body::Left(Full::new(bytes));
    let (body, content_type) = match (request.method(), request.uri().path()) {
        (&Method::GET, "/") => (whole(Bytes::from_static(HELLO.as_bytes())), "text/plain"),
        (&Method::GET, "/json") => (whole(page_json().into()), "application/json"),
        (&Method::GET, "/download") => (Body::Right(download()), "text/plain"),
        (&Method::POST, "/") => (whole(request.into_body().collect().await?.to_bytes()), "text/plain"),
        (&Method::POST, "/upload") => (whole(upload(request.into_body()).await?), "text/plain"),
        _ => return Ok(not_found()),
    };
    let mut response = Response::new(body);
    let headers = response.headers_mut();
    headers.insert(SERVER, HeaderValue::from_static(SERVER_NAME));
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    Ok(response)
}

fn download() -> UnsyncBoxBody<Bytes, Infallible> {
    let frame = || Ok(Frame::data(Bytes::from_static(&PIECE_BYTES)));
    StreamBody::new(stream::iter((0..PIECES).map(move |_| frame()))).boxed_unsync()
}

async fn upload(mut body: Incoming) -> Result<Bytes, hyper::Error> {
    let mut len = 0;
    while let Some(frame) = body.frame().await {
        len += frame?.data_ref().map_or(0, Bytes::len);
    }
    Ok(len.to_string().into())
}

fn not_found() -> Response<Body> {
    let mut response = Response::new(Body::Left(Full::default()));
    *response.status_mut() = StatusCode::NOT_FOUND;
    response
}
