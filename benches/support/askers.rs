//! [`Asker`]: one GET after another, by corehttp's client in its ways, by hyper-util's, by reqwest's, and by
//! nobody: a write and a read on a socket, which is what all of them stand on.

use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};

use corehttp::client::{Attempt, ClientLimits, Pipeline, Retry};
use corehttp::net::{MemoryConnector, MemoryListener, MemoryStream};
use corehttp::{Client, Request, Response};
use http_body_util::{BodyExt, Empty};
use hyper::Uri;
use hyper::body::Bytes;
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_util::client::legacy::connect::{Connected, Connection, HttpConnector};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// A client. A clone shares the connections.
#[derive(Clone)]
pub enum Asker {
    Raw(SocketAddr),
    Corehttp(Client, Request),
    /// The same, and the body is read as it comes.
    Stream(Client, Request),
    /// Requests are sent before those before them are answered: 64 on two connections.
    Pipeline(Pipeline, Request),
    HyperTcp(hyper_util::client::legacy::Client<HttpConnector, Empty<Bytes>>, Uri),
    HyperMemory(hyper_util::client::legacy::Client<Dialer, Empty<Bytes>>, Uri),
    Reqwest(reqwest::Client, reqwest::Url),
}

/// Where the responses come from.
#[derive(Clone)]
pub enum Place {
    Tcp(SocketAddr),
    Memory(MemoryListener),
}

impl Asker {
    pub fn new(name: &str, place: &Place) -> Option<Asker> {
        let url = match place {
            Place::Tcp(address) => format!("http://{address}{PATH}"),
            Place::Memory(_) => format!("http://unused.host{PATH}"),
        };
        let uri: Uri = url.parse().expect("a good URL");
        let hyper = hyper_util::client::legacy::Client::builder(TokioExecutor::new());
        Some(match (name, place) {
            (RAW, Place::Tcp(address)) => Asker::Raw(*address),
            (COREHTTP, place) => {
                let client = match place {
                    Place::Tcp(_) => Client::builder(),
                    Place::Memory(listener) => Client::builder().connect_to(listener),
                };
                let client = client
                    .limits(ClientLimits { connections_per_host_max: 2_000, ..ClientLimits::default() })
                    .build();
                Asker::Corehttp(client, Request::get(&url).expect("a good URL"))
            }
            (POLICIES, Place::Tcp(_)) => {
                let mark = |attempt: &mut Attempt<'_>| {
                    let number = attempt.number();
                    Ok(attempt.request.headers.set("x-attempt", number)?)
                };
                let client = Client::builder().retry(Retry::new()).wrap(mark).build();
                Asker::Corehttp(client, Request::get(&url).expect("a good URL"))
            }
            (HEDGED, Place::Tcp(_)) => {
                let client = Client::builder().retry(Retry::new().hedge_after_percentile(99)).build();
                Asker::Corehttp(client, Request::get(&url).expect("a good URL"))
            }
            (STREAM, Place::Tcp(_)) => Asker::Stream(Client::new(), Request::get(&url).expect("a good URL")),
            (PIPELINE, Place::Tcp(_)) => {
                let pipeline = Client::new().pipeline(&url).expect("a good URL");
                let pipeline = pipeline.connections(2).in_flight_max(64).build();
                Asker::Pipeline(pipeline, Request::get(PATH).expect("a good path"))
            }
            (HYPER, Place::Tcp(_)) => {
                let mut connector = HttpConnector::new();
                connector.set_nodelay(true);
                Asker::HyperTcp(hyper.build(connector), uri)
            }
            (HYPER, Place::Memory(listener)) => {
                Asker::HyperMemory(hyper.build(Dialer(listener.connector())), uri)
            }
            (REQWEST, Place::Tcp(_)) => {
                Asker::Reqwest(reqwest::Client::new(), url.parse().expect("a good URL"))
            }
            _ => return None,
        })
    }

    /// Asks for so many exchanges, one after the other, and checks each response.
    pub async fn ask(&self, exchanges: u64, expected: &[u8]) {
        match self {
            Asker::Raw(address) => raw(*address, exchanges, expected).await,
            Asker::Corehttp(client, request) => {
                let mut response = Response::new();
                for _ in 0..exchanges {
                    client.send(request, &mut response).await.expect("a response");
                    assert_eq!(response.body.bytes(), expected);
                }
            }
            Asker::Stream(client, request) => {
                let (mut response, mut body) = (Response::new(), Vec::new());
                for _ in 0..exchanges {
                    let mut stream = client.open_response(request, &mut response).await.expect("a response");
                    body.clear();
                    while let Some(chunk) = stream.chunk().await.expect("a body") {
                        body.extend_from_slice(chunk);
                    }
                    assert_eq!(body, expected);
                }
            }
            Asker::Pipeline(pipeline, request) => {
                let mut response = Response::new();
                for _ in 0..exchanges {
                    pipeline.send(request, &mut response).await.expect("a response");
                    assert_eq!(response.body.bytes(), expected);
                }
            }
            Asker::HyperTcp(client, uri) => hyper(client, uri, exchanges, expected).await,
            Asker::HyperMemory(client, uri) => hyper(client, uri, exchanges, expected).await,
            Asker::Reqwest(client, url) => {
                for _ in 0..exchanges {
                    let response = client.get(url.clone()).send().await.expect("a response");
                    assert_eq!(response.bytes().await.expect("a body"), expected);
                }
            }
        }
    }
}

pub const RAW: &str = "raw";
pub const COREHTTP: &str = "corehttp";
/// The same with retries, and middleware that sets a field.
pub const POLICIES: &str = "policies";
/// The same with retries that hedge the slowest of a hundred.
pub const HEDGED: &str = "hedged";
pub const STREAM: &str = "stream";
pub const PIPELINE: &str = "pipeline";
pub const HYPER: &str = "hyper-util";
pub const REQWEST: &str = "reqwest";

/// As fasthttp's own benchmark asks.
const PATH: &str = "/foo/bar?baz=123";

async fn raw(address: SocketAddr, exchanges: u64, response: &[u8]) {
    let mut stream = TcpStream::connect(address).await.expect("a connection");
    stream.set_nodelay(true).expect("a socket");
    let request = format!("GET {PATH} HTTP/1.1\r\nhost: {address}\r\n\r\n");
    let mut buffer = [0; 4096];
    for _ in 0..exchanges {
        stream.write_all(request.as_bytes()).await.expect("it is written");
        let count = stream.read(&mut buffer).await.expect("a response");
        assert!(buffer[..count].ends_with(response));
    }
}

async fn hyper<C>(
    client: &hyper_util::client::legacy::Client<C, Empty<Bytes>>,
    uri: &Uri,
    exchanges: u64,
    expected: &[u8],
) where
    C: hyper_util::client::legacy::connect::Connect + Clone + Send + Sync + 'static,
{
    for _ in 0..exchanges {
        let response = client.get(uri.clone()).await.expect("a response");
        let body = response.into_body().collect().await.expect("a body").to_bytes();
        assert_eq!(body, expected);
    }
}

/// Connects hyper-util to a listener of corehttp's in memory.
#[derive(Clone)]
pub struct Dialer(MemoryConnector);

impl tower_service::Service<Uri> for Dialer {
    type Response = Dialed;
    type Error = std::io::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Dialed, std::io::Error>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Uri) -> Self::Future {
        let connector = self.0.clone();
        Box::pin(async move { Ok(Dialed(TokioIo::new(connector.connect().await?))) })
    }
}

pub struct Dialed(TokioIo<MemoryStream>);

impl Connection for Dialed {
    fn connected(&self) -> Connected {
        Connected::new()
    }
}

impl Read for Dialed {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: ReadBufCursor<'_>,
    ) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buffer)
    }
}

impl Write for Dialed {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<std::io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}
