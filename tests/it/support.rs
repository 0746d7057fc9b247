//! Shared by the tests: a server on its own thread, and a peer that sends exactly the bytes of a test.

mod alone;
pub mod browser;
#[cfg(feature = "tls")]
pub mod certificates;
pub mod chance;
pub mod chunks;
pub mod connection_option;
pub mod responses;
pub mod wired;

use std::fmt::Debug;
use std::fs;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use corehttp::middleware::{Next, wrap};
use corehttp::server::ExchangeReport;
use corehttp::{BodyPlan, Context, Handler, IntoHandler, Server, ServerHandle, Status};
use socket2::SockRef;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::sync::Notify;
use tokio::time::timeout;

pub use self::alone::alone;

/// A server on one core, stopped when it is dropped.
pub struct Served {
    pub running: ServerHandle,
}

impl Served {
    /// Serves with the default settings.
    pub fn new<Kind, H>(handler: H) -> Served
    where
        H: IntoHandler<Kind>,
        H::Handler: Send + Sync,
    {
        Served::with(|server| server, handler)
    }

    /// Serves with the settings that `set` makes. The handler is boxed, or a server would be compiled for each test.
    pub fn with<Kind, H>(set: impl FnOnce(Server) -> Server, handler: H) -> Served
    where
        H: IntoHandler<Kind>,
        H::Handler: Send + Sync,
    {
        // Some systems give 1,024 descriptors unless they are asked, and many tests run at once where cores are many.
        rlimit::increase_nofile_limit(DESCRIPTORS).unwrap();
        let running = set(Server::bind("127.0.0.1:0").cores(1).half_close(true))
            .start(handler.into_handler().boxed())
            .expect("a free port is found");
        Served { running }
    }

    pub fn addr(&self) -> SocketAddr {
        self.running.local_addr()
    }

    /// Connects a peer.
    pub fn connect(&self) -> Peer {
        Peer::new(TcpStream::connect(self.addr()).expect("the server listens"))
    }

    /// Sends `wire` at once and ends the peer's side: all that the server answers until it closes.
    pub fn ask(&self, wire: impl AsRef<[u8]>) -> String {
        let mut peer = self.connect();
        peer.send(wire);
        peer.end();
        peer.receive_all()
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.running.stop(Duration::ZERO);
        let _ = self.running.wait();
    }
}

/// More than all tests need together.
const DESCRIPTORS: u64 = 16 << 10;

/// How long a peer waits before its test has failed.
pub const TIMEOUT: Duration = Duration::from_secs(60);

/// One connection, byte for byte.
pub struct Peer {
    pub stream: TcpStream,
}

impl Peer {
    pub fn new(stream: TcpStream) -> Peer {
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(TIMEOUT)).unwrap();
        stream.set_write_timeout(Some(TIMEOUT)).unwrap();
        Peer { stream }
    }

    /// Sends `wire` in one packet. A server that has closed already is no error: its response is what counts.
    pub fn send(&mut self, wire: impl AsRef<[u8]>) {
        let _ = self.stream.write_all(wire.as_ref());
    }

    /// Ends the peer's side of the connection.
    pub fn end(&mut self) {
        let _ = self.stream.shutdown(Shutdown::Write);
    }

    /// Receives one whole response whose length is announced, or that has no body.
    #[track_caller]
    pub fn receive(&mut self) -> String {
        let mut received = Vec::new();
        while !received.ends_with(b"\r\n\r\n") {
            received.push(self.receive_byte(&received));
        }
        let head = String::from_utf8_lossy(&received).to_ascii_lowercase();
        let length = head.split("\r\ncontent-length: ").nth(1).and_then(|rest| rest.split("\r\n").next());
        for _ in 0..length.map_or(0, |length| length.parse().expect("a length is a number")) {
            received.push(self.receive_byte(&received));
        }
        String::from_utf8_lossy(&received).into_owned()
    }

    /// Receives what comes until it ends with `end`.
    #[track_caller]
    pub fn receive_through(&mut self, end: &str) -> String {
        let mut received = Vec::new();
        while !received.ends_with(end.as_bytes()) {
            received.push(self.receive_byte(&received));
        }
        String::from_utf8_lossy(&received).into_owned()
    }

    /// Receives all until the server closes. A reset shows at its end, as `<ConnectionReset>`.
    pub fn receive_all(&mut self) -> String {
        let mut received = Vec::new();
        let end = self.stream.read_to_end(&mut received);
        let mut received = String::from_utf8_lossy(&received).into_owned();
        if let Err(error) = end {
            received.push_str(&format!("<{:?}>", error.kind()));
        }
        received
    }

    /// Closes with a reset, which the server sees as a failure and not as an end.
    pub fn reset(self) {
        SockRef::from(&self.stream).set_linger(Some(Duration::ZERO)).unwrap();
    }

    #[track_caller]
    fn receive_byte(&mut self, received: &[u8]) -> u8 {
        let mut byte = [0];
        match self.stream.read(&mut byte) {
            Ok(1..) => byte[0],
            end => panic!("{end:?} after {:?}", received.escape_ascii().to_string()),
        }
    }
}

/// Sends all of `wire` before it receives anything, as many clients do. Returns all that arrives until the server
/// closes.
#[track_caller]
pub fn send_first(mut peer: impl Read + Write, wire: &[u8]) -> String {
    peer.write_all(wire).expect("the server reads on");
    let mut received = String::new();
    peer.read_to_string(&mut received).expect("the response is there");
    received
}

/// A request for `path`.
pub fn get(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nhost: a\r\n\r\n")
}

/// `received` without its date lines, the only ones that change.
pub fn undated(received: &str) -> String {
    let lines = received.split_inclusive("\r\n").filter(|line| !line.starts_with("date: "));
    lines.collect()
}

/// The status of the first response in `received`; 0 if there is none.
pub fn status(received: &str) -> u16 {
    received.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0)
}

/// The reports to a server's `on_error`, in order.
#[derive(Clone, Default)]
pub struct ErrorReports(Arc<Mutex<Vec<(u16, String)>>>);

impl ErrorReports {
    /// Has `server` report them here.
    pub fn attach(&self, server: Server) -> Server {
        let seen = self.0.clone();
        server.on_error(move |report| {
            let status = report.status.map_or(0, Status::as_u16);
            seen.lock().unwrap().push((status, report.cause.to_string()));
        })
    }

    /// Returns the reports since the last call: the status that was answered, or 0 if none was, and the cause.
    pub fn take(&self) -> Vec<(u16, String)> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

/// Waits until `condition` holds, where no event announces it.
#[track_caller]
pub fn eventually(what: &str, condition: impl Fn() -> bool) {
    let outcome = look_until_ok(|| if condition() { Ok(()) } else { Err(()) });
    assert!(outcome.is_ok(), "{what}: it never came");
}

/// Waits until `actual` returns what is expected, where no event announces it.
#[track_caller]
pub fn eventually_eq<T: PartialEq<E> + Debug, E: Debug>(actual: impl Fn() -> T, expected: E) {
    let outcome = look_until_ok(|| match actual() {
        now if now == expected => Ok(()),
        now => Err(now),
    });
    if let Err(last) = outcome {
        panic!("{last:?} never became {expected:?}");
    }
}

/// Looks until that succeeds, for [`TIMEOUT`] at most. Returns what the last look has found.
fn look_until_ok<E>(look: impl Fn() -> Result<(), E>) -> Result<(), E> {
    let start = Instant::now();
    loop {
        // Taken before the look, since the machine may sleep at any moment.
        let is_last = start.elapsed() >= TIMEOUT;
        let outcome = look();
        if is_last || outcome.is_ok() {
            return outcome;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Returns the result of `talk`, which measures how long it took. Beyond `limit` the machine was too busy, and `talk`
/// runs again.
#[track_caller]
pub fn in_time<T>(limit: Duration, talk: impl Fn() -> (Duration, T)) -> T {
    let in_time = (0..100).map(|_| talk()).find(|(took, _)| *took < limit);
    in_time.expect("no machine is that busy").1
}

/// Bytes of memory that the process has now; 0 where the system does not say.
pub fn resident() -> usize {
    let statm = fs::read_to_string("/proc/self/statm").unwrap_or_default();
    statm.split(' ').nth(1).map_or(0, |pages| pages.parse::<usize>().unwrap() << 12)
}

/// `handler`, called before the body has arrived.
pub fn streaming<Kind, H>(handler: H) -> impl Handler
where
    H: IntoHandler<Kind>,
{
    wrap(BodyPlan::Stream, handler)
}

/// Checks that a response of `handler`, which writes without an end, is over with its head if it is asked for with
/// `request`: it is complete, and the next request of the connection is answered at once.
#[track_caller]
#[allow(clippy::unit_arg, reason = "a test is short")]
pub fn is_over_with_its_head<Kind, H>(request: &str, handler: H)
where
    H: IntoHandler<Kind>,
    H::Handler: Send + Sync,
{
    let other = async |ctx: &mut Context, next: Next<'_>| -> corehttp::Result {
        match ctx.request.path() {
            "/next" => Ok(ctx.response.set_text("the next one")),
            _ => next.handle(ctx).await,
        }
    };
    let (failures, cuts) = (ErrorReports::default(), Arc::new(Mutex::new(Vec::new())));
    let noted = cuts.clone();
    let report = move |report: &ExchangeReport| noted.lock().unwrap().push(report.cut);
    let served = Served::with(|server| failures.attach(server).on_exchange(report), wrap(other, handler));
    let mut peer = served.connect();
    peer.send(request.to_owned() + &get("/next"));
    let received = peer.receive_through("the next one");
    assert_eq!(received.matches("HTTP/1.1 ").count(), 2, "{received}");
    peer.end();
    assert_eq!(peer.receive_all(), "");
    eventually("both are reported", || cuts.lock().unwrap().len() == 2);
    assert_eq!((cuts.lock().unwrap().as_slice(), failures.take()), ([None; 2].as_slice(), vec![]));
}

/// Runs `future` on a paused clock, which jumps ahead whenever everybody waits.
pub fn paused<T>(future: impl Future<Output = T>) -> T {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    runtime.enable_all().start_paused(true).build().unwrap().block_on(future)
}

/// Opens files until no descriptor is left.
#[cfg(target_os = "linux")]
pub fn use_up_descriptors() -> Vec<std::fs::File> {
    std::iter::from_fn(|| std::fs::File::open("/dev/null").ok()).collect()
}

/// Sends `head` and the million bytes that it announces, of which less than `taken_max` are taken before the handler is
/// told to go on. Its response says how many there were. The clock must be paused.
pub async fn is_held_back(mut near: DuplexStream, head: &str, taken_max: usize, go: &Notify) {
    near.write_all(head.as_bytes()).await.unwrap();
    let mut sent = 0;
    // A second is over only when nothing else can happen.
    while let Ok(count) = timeout(Duration::from_secs(1), near.write(&[7; 100])).await {
        sent += count.unwrap();
    }
    assert!(sent < taken_max, "{sent} bytes were taken that nobody wants");
    go.notify_one();
    near.write_all(&vec![7; 1_000_000 - sent]).await.unwrap();
    near.shutdown().await.unwrap();
    let mut received = String::new();
    near.read_to_string(&mut received).await.unwrap();
    assert!(received.ends_with("\r\n\r\n1000000"), "{received}");
}
