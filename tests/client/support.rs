//! Servers that answer as they are told, byte for byte: over TCP, and in memory on a clock that can be paused.

use std::fs::{self, File};
use std::future::{Future, poll_fn};
use std::io;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use corehttp::client::HealthCheck;
use corehttp::net::Dialer;
use corehttp::{Client, ClientBuilder, ClientError, Request, Response};
use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, DuplexStream, ReadBuf, duplex};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::yield_now;

use crate::oracle::server::CHOICES;
use crate::oracle::{Next, Reader};

/// The shortest response with a body.
pub const OK: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";

/// Checks after exactly this interval, each of which decides alone.
pub fn each(path: &str, interval: Duration) -> HealthCheck {
    HealthCheck::get(path).unwrap().interval(interval).rise(1).fall(1).jitter_percent(0)
}

/// An open file with this content, which no directory names.
pub fn file_of(content: &str) -> Arc<File> {
    static NUMBER: AtomicUsize = AtomicUsize::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let path = std::env::temp_dir().join(format!("corehttp-client-{}-{number}", std::process::id()));
    fs::write(&path, content).unwrap();
    let file = File::open(&path).unwrap();
    fs::remove_file(&path).unwrap();
    Arc::new(file)
}

/// A server over TCP, for what only a socket can do.
pub struct Scripted {
    pub url: String,
    connections: Arc<AtomicUsize>,
}

impl Scripted {
    /// Serves each connection with the future that `serve` makes of it and its number.
    pub async fn new<F>(serve: impl Fn(Peer<TcpStream>, usize) -> F + Send + 'static) -> Scripted
    where
        F: Future<Output = io::Result<()>> + Send + 'static,
    {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let connections = Arc::new(AtomicUsize::new(0));
        let count = connections.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let number = count.fetch_add(1, Ordering::Relaxed);
                tokio::spawn(serve(Peer::new(stream, Received::default()), number));
            }
        });
        Scripted { url, connections }
    }

    /// Gives the same response to every request.
    pub async fn always(response: impl Into<Vec<u8>>) -> Scripted {
        let response: Vec<u8> = response.into();
        Scripted::new(move |peer, _| peer.answer(response.clone())).await
    }

    /// How many connections were made.
    pub fn connections(&self) -> usize {
        self.connections.load(Ordering::Relaxed)
    }
}

/// A server in memory, whatever host is asked: one future for each connection that is dialed.
#[derive(Clone)]
pub struct Stage {
    serve: Arc<Serve>,
    dialed: Arc<Mutex<Vec<String>>>,
    received: Received,
}

type Serve =
    dyn Fn(Peer<DuplexStream>, usize) -> Pin<Box<dyn Future<Output = io::Result<()>> + Send>> + Send + Sync;

/// All requests that a server has received, in order.
pub type Received = Arc<Mutex<Vec<String>>>;

impl Stage {
    /// Serves each connection with the future that `serve` makes of it and its number.
    pub fn new<F>(serve: impl Fn(Peer<DuplexStream>, usize) -> F + Send + Sync + 'static) -> Stage
    where
        F: Future<Output = io::Result<()>> + Send + 'static,
    {
        let serve = Arc::new(move |peer, number| Box::pin(serve(peer, number)) as Pin<Box<_>>);
        Stage { serve, dialed: Arc::default(), received: Received::default() }
    }

    /// Gives the same response to every request.
    pub fn always(response: impl Into<String>) -> Stage {
        let response: String = response.into();
        Stage::new(move |peer, _| peer.answer(response.clone()))
    }

    /// Gives each request the response that `respond` finds for it; an empty one ends the connection.
    pub fn answering(respond: impl Fn(&str) -> String + Send + Sync + 'static) -> Stage {
        let respond = Arc::new(respond);
        Stage::new(move |mut peer, _| {
            let respond = respond.clone();
            async move {
                while let Some(request) = peer.request().await? {
                    match respond(&request) {
                        none if none.is_empty() => return Ok(()),
                        response => peer.send(response).await?,
                    }
                }
                Ok(())
            }
        })
    }

    /// A client that asks this server.
    pub fn client(&self) -> Client {
        self.builder().build()
    }

    /// The settings of such a client.
    pub fn builder(&self) -> ClientBuilder {
        Client::builder().dialer(self.clone())
    }

    /// Which hosts and ports were dialed, in order.
    pub fn dialed(&self) -> Vec<String> {
        self.dialed.lock().unwrap().clone()
    }

    /// The requests since the last call.
    pub fn received(&self) -> Vec<String> {
        std::mem::take(&mut *self.received.lock().unwrap())
    }
}

impl Dialer for Stage {
    type Stream = DuplexStream;

    async fn dial(&self, host: &str, port: u16) -> io::Result<DuplexStream> {
        let (near, far) = duplex(64 << 10);
        let number = {
            let mut dialed = self.dialed.lock().unwrap();
            dialed.push(format!("{host}:{port}"));
            dialed.len() - 1
        };
        tokio::spawn((self.serve)(Peer::new(far, self.received.clone()), number));
        Ok(near)
    }
}

/// A [`Stage`] whose connections are metered on the side of the client.
#[derive(Clone)]
pub struct Metered {
    stage: Stage,
    traffic: Arc<[AtomicU64; 2]>,
}

impl Metered {
    pub fn new(stage: Stage) -> Metered {
        Metered { stage, traffic: Arc::default() }
    }

    /// How many bytes the client has read, and how many it has written.
    pub fn traffic(&self) -> (u64, u64) {
        let [read, written] = self.traffic.each_ref().map(|count| count.load(Ordering::Relaxed));
        (read, written)
    }
}

impl Dialer for Metered {
    type Stream = MeteredStream;

    async fn dial(&self, host: &str, port: u16) -> io::Result<MeteredStream> {
        let (stream, traffic) = (self.stage.dial(host, port).await?, self.traffic.clone());
        Ok(MeteredStream { stream, traffic })
    }
}

/// The client's end of a connection of [`Metered`].
pub struct MeteredStream {
    stream: DuplexStream,
    traffic: Arc<[AtomicU64; 2]>,
}

impl AsyncRead for MeteredStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        out: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = out.filled().len();
        let polled = Pin::new(&mut self.stream).poll_read(cx, out);
        self.traffic[0].fetch_add((out.filled().len() - before) as u64, Ordering::Relaxed);
        polled
    }
}

impl AsyncWrite for MeteredStream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write(cx, data);
        if let Poll::Ready(Ok(count)) = &polled {
            self.traffic[1].fetch_add(*count as u64, Ordering::Relaxed);
        }
        polled
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

/// The server's end of one connection.
pub struct Peer<S> {
    pub stream: S,
    received: Received,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Peer<S> {
    /// A peer at the end of `stream` that notes its requests in `received`.
    pub fn new(stream: S, received: Received) -> Peer<S> {
        Peer { stream, received }
    }

    /// The next request, its body included, byte for byte; none if there is no other.
    pub async fn request(&mut self) -> io::Result<Option<String>> {
        let Some(mut request) = self.head().await? else { return Ok(None) };
        self.content(&mut request).await?;
        let mut reader = Reader::new(request.as_bytes(), CHOICES);
        let is_whole = matches!(reader.request(), Next::Whole(_)) && reader.rest().is_empty();
        assert!(is_whole, "no strict reader reads {request:?}");
        self.received.lock().unwrap().push(request.clone());
        Ok(Some(request))
    }

    /// The body of the request with that head, which is put behind it.
    pub async fn content(&mut self, request: &mut String) -> io::Result<()> {
        let field = |name: &str| request.split("\r\n").find_map(|line| line.strip_prefix(name));
        match (field("content-length: "), field("transfer-encoding: chunked")) {
            (Some(length), _) => {
                let mut body = vec![0; length.parse().unwrap()];
                self.stream.read_exact(&mut body).await?;
                request.push_str(&String::from_utf8(body).unwrap());
            }
            (None, Some(_)) => {
                let mut last = String::new();
                while last != "0" {
                    last = self.line(request).await?;
                }
                while !last.is_empty() {
                    last = self.line(request).await?;
                }
            }
            (None, None) => {}
        }
        Ok(())
    }

    /// The head of the next request; none if there is no other.
    pub async fn head(&mut self) -> io::Result<Option<String>> {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            match self.stream.read_u8().await {
                Ok(byte) => head.push(byte),
                Err(_) if head.is_empty() => return Ok(None),
                Err(error) => return Err(error),
            }
        }
        Ok(Some(String::from_utf8(head).unwrap()))
    }

    /// The next line, which is also put behind `request`.
    async fn line(&mut self, request: &mut String) -> io::Result<String> {
        let start = request.len();
        while !request[start..].ends_with("\r\n") {
            request.push(self.stream.read_u8().await?.into());
        }
        Ok(request[start..].trim_end_matches("\r\n").into())
    }

    pub async fn send(&mut self, bytes: impl AsRef<[u8]>) -> io::Result<()> {
        self.stream.write_all(bytes.as_ref()).await
    }

    /// Says the first `cut` bytes, and the others when the client has read these.
    pub async fn send_cut(&mut self, bytes: impl AsRef<[u8]>, cut: usize) -> io::Result<()> {
        let (first, second) = bytes.as_ref().split_at(cut);
        self.send(first).await?;
        settle().await;
        self.send(second).await
    }

    /// Says `bytes` cut at these places, each piece when the client has read the one before.
    pub async fn send_in_pieces(&mut self, bytes: &[u8], cuts: &[usize]) -> io::Result<()> {
        let (mut cuts, mut said) = (cuts.to_vec(), 0);
        cuts.sort_unstable();
        for cut in cuts.into_iter().filter(|cut| (1..bytes.len()).contains(cut)) {
            self.send(&bytes[said..cut]).await?;
            settle().await;
            said = cut;
        }
        self.send(&bytes[said..]).await
    }

    /// Gives the same response to every request.
    pub async fn answer(mut self, response: impl AsRef<[u8]>) -> io::Result<()> {
        while self.request().await?.is_some() {
            self.send(&response).await?;
        }
        Ok(())
    }

    /// Reads until the client closes.
    pub async fn receive_all(&mut self) -> io::Result<()> {
        let mut received = Vec::new();
        // A reset is an end, too.
        let _ = self.stream.read_to_end(&mut received).await;
        self.received.lock().unwrap().push(String::from_utf8_lossy(&received).into_owned());
        Ok(())
    }
}

impl Peer<TcpStream> {
    /// Closes with a reset, which the client sees as a failure and not as an end.
    pub fn reset(self) {
        SockRef::from(&self.stream).set_linger(Some(Duration::ZERO)).unwrap();
    }
}

/// A stream in memory that fails or acts as it is told.
pub struct Rigged {
    stream: DuplexStream,
    is_unflushed: bool,
    on_read: OnRead,
    on_drop: Option<Box<dyn FnOnce() + Send>>,
}

/// The action at the next read of a stream.
pub type OnRead = Arc<Mutex<Option<Box<dyn FnOnce() + Send>>>>;

impl Rigged {
    pub fn new(stream: DuplexStream) -> Rigged {
        Rigged { stream, is_unflushed: false, on_read: OnRead::default(), on_drop: None }
    }

    /// Does `this` when it is read.
    pub fn on_read(mut self, this: OnRead) -> Rigged {
        self.on_read = this;
        self
    }

    /// Takes all that is written, and then fails to flush it.
    pub fn unflushed(mut self) -> Rigged {
        self.is_unflushed = true;
        self
    }

    /// Does `this` when it is dropped.
    pub fn on_drop(mut self, this: impl FnOnce() + Send + 'static) -> Rigged {
        self.on_drop = Some(Box::new(this));
        self
    }
}

impl Drop for Rigged {
    fn drop(&mut self) {
        self.on_drop.take().into_iter().for_each(|this| this());
    }
}

impl AsyncRead for Rigged {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        out: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let due = self.on_read.lock().unwrap().take();
        due.into_iter().for_each(|this| this());
        Pin::new(&mut self.stream).poll_read(cx, out)
    }
}

impl AsyncWrite for Rigged {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, data)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.is_unflushed {
            true => Poll::Ready(Err(io::ErrorKind::BrokenPipe.into())),
            false => Pin::new(&mut self.stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

/// Runs `future` on a paused clock, which jumps ahead whenever everybody waits.
pub fn paused<T>(future: impl Future<Output = T>) -> T {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    runtime.enable_all().start_paused(true).build().unwrap().block_on(future)
}

/// Lets all other tasks of this thread come as far as they can.
pub async fn settle() {
    for _ in 0..8 {
        yield_now().await;
    }
}

/// Waits until `condition` holds, for what only sockets tell.
pub async fn eventually(what: &str, condition: impl Fn() -> bool) {
    for _ in 0..60_000 {
        if condition() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    panic!("{what}: it never came");
}

/// A request for the root of a host that any [`Stage`] passes for.
pub fn get() -> Request {
    Request::get("http://a/").unwrap()
}

/// The same that may have a body.
pub fn post() -> Request {
    Request::post("http://a/").unwrap()
}

/// The status and the body of the response to `request`, or why there is none.
pub async fn ask(client: &Client, request: &Request) -> Result<(u16, String), ClientError> {
    let mut response = Response::new();
    client.send(request, &mut response).await?;
    Ok((response.status.as_u16(), response.body.text().unwrap().into()))
}

/// Polls `future` `polls` times, with all other tasks running in between; then drops it, if it is not done.
pub async fn cancelled_after<T>(polls: usize, future: impl Future<Output = T>) -> Option<T> {
    let mut future = pin!(future);
    for _ in 0..polls {
        if let Poll::Ready(done) = poll_fn(|cx| Poll::Ready(future.as_mut().poll(cx))).await {
            return Some(done);
        }
        settle().await;
    }
    None
}
