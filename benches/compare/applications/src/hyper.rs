//! In hyper, as fast as it goes: what it has no part for is left to others.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use crate::environment::{dataset, port, tls};
use crate::items::{Item, priced};

#[tokio::main(flavor = "current_thread")]
pub(super) async fn serve() -> io::Result<()> {
    let items = dataset()?;
    let acceptor = TlsAcceptor::from(Arc::new(tls()?));
    let secure = TcpListener::bind(("0.0.0.0", port("TLS_PORT", 8081))).await?;
    let listener = TcpListener::bind(("0.0.0.0", port("PORT", 8080))).await?;
    let shared = items.clone();
    tokio::spawn(async move {
        while let Ok((stream, _)) = secure.accept().await {
            let (acceptor, items) = (acceptor.clone(), shared.clone());
            let _ = stream.set_nodelay(true);
            tokio::spawn(async move {
                if let Ok(stream) = acceptor.accept(stream).await {
                    converse(stream, items).await;
                }
            });
        }
    });
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        tokio::spawn(converse(stream, items.clone()));
    }
}

async fn converse(stream: impl AsyncRead + AsyncWrite + Unpin, items: Arc<Vec<Item>>) {
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(Duration::from_secs(30)).pipeline_flush(true);
    let service = service_fn(|request| respond(request, &items));
    // How a connection ended is no news.
    drop(builder.serve_connection(TokioIo::new(stream), service).await);
}

async fn respond(request: Request<Incoming>, items: &[Item]) -> Result<Response<Full<Bytes>>, hyper::Error> {
    let query = request.uri().query().unwrap_or_default();
    let number = |name: &str| -> i64 {
        let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
        pairs.into_iter().find(|(of, _)| *of == name).and_then(|(_, value)| value.parse().ok()).unwrap_or(0)
    };
    let sum = number("a") + number("b");
    let path = request.uri().path();
    let content = match (request.method(), path) {
        (&Method::GET, "/baseline11") => sum.to_string().into(),
        (&Method::GET, "/pipeline") => Bytes::from_static(b"ok"),
        (&Method::POST, "/baseline11") => {
            let body = request.into_body().collect().await?.to_bytes();
            let body = str::from_utf8(&body).ok().and_then(|body| body.trim().parse::<i64>().ok());
            (sum + body.unwrap_or(0)).to_string().into()
        }
        (&Method::POST, "/upload") => count(request.into_body()).await?.to_string().into(),
        (&Method::GET, path) => match path.strip_prefix("/json/").and_then(|count| count.parse().ok()) {
            Some(count) => {
                let page = priced(items, count, number("m"));
                return Ok(typed(serde_json::to_vec(&page).unwrap().into(), "application/json"));
            }
            None => return Ok(not_found()),
        },
        _ => return Ok(not_found()),
    };
    Ok(typed(content, "text/plain"))
}

fn typed(content: Bytes, content_type: &'static str) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(content));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}

fn not_found() -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::default());
    *response.status_mut() = StatusCode::NOT_FOUND;
    response
}

async fn count(mut body: Incoming) -> Result<usize, hyper::Error> {
    let mut len = 0;
    while let Some(frame) = body.frame().await {
        len += frame?.data_ref().map_or(0, Bytes::len);
    }
    Ok(len)
}
