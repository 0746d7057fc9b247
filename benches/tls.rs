//! Questions: what do handshakes, requests, content and files cost a server over TLS, and what does an idle connection
//! hold? And, with `flood`: how long do the others wait while peers begin handshakes as fast as they can?
//!
//! Each server is a process of its own. Costs are the time of its threads on a core, as the kernel counts it, for one
//! operation; the servers take turns, and all are asked by the same blocking client, which is rustls, too, and offers
//! one cipher suite. hyper stands on tokio-rustls as corehttp does; nginx is that of the system, with OpenSSL; Go is
//! net/http. The last two are skipped where they are not installed. nginx has no content in memory, and makes it of 2
//! KiB, again and again. Memory is what the kernel says is resident: 2,000 connections have one request answered each
//! and then stay open.
//!
//! A flood is 64 threads, on the core of the load, which send the same ClientHello, wait for the first octets of the answer
//! and reset the connection. Meanwhile one connection that was open before sends GETs one after the other, and each 20 ms a new
//! one shakes hands in full and sends a GET.
//!
//! ```text
//! cargo bench --bench tls                    # half a minute
//! cargo bench --bench tls -- corehttp        # corehttp only
//! cargo bench --bench tls -- flood           # corehttp and nginx, a quarter of a minute
//! cargo bench --bench tls -- flood corehttp
//! ```

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

use bytes::Bytes;
use corehttp::client::{ClientLimits, ClientTimeouts, ResponseReader};
use corehttp::fs::Files;
use corehttp::tls::{self, ClientTls, ServerTls};
use corehttp::{Client, Context, Handler, Request, Response, Server, block_on};
use corehttp_benches::child::{self, Child, PinnedCore, announce, build_go, pin, resident, spawn_on};
use corehttp_benches::flood::flood;
use corehttp_benches::handlers::{HELLO, SERVER_NAME, hyper_builder, hyper_respond, respond};
use corehttp_benches::nginx::Nginx;
use corehttp_benches::spread::Spread;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;
use tokio::runtime::Builder;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::client::Resumption;
use tokio_rustls::rustls::crypto::CryptoProvider;
use tokio_rustls::rustls::crypto::ring::cipher_suite::TLS13_AES_128_GCM_SHA256;
use tokio_rustls::rustls::crypto::ring::{Ticketer, default_provider};
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{
    ClientConfig, ClientConnection, HandshakeKind, RootCertStore, ServerConfig, StreamOwned,
};

fn main() {
    rlimit::increase_nofile_limit(FILES).expect("the limit may be asked for");
    let served = child::server();
    match served.as_deref().and_then(|server| server.split_once(' ')) {
        None if child::wanted() => measure_all(),
        None => {}
        Some((name, root)) => {
            pin(PinnedCore::Server);
            serve(name, Path::new(root));
        }
    }
}

fn serve(name: &str, root: &Path) {
    match name {
        COREHTTP => serve_corehttp(root),
        HYPER => serve_hyper(root),
        unknown => panic!("no server is called {unknown}"),
    }
}

/// Makes the certificate and the files in a folder, and measures the servers there.
fn measure_all() {
    let folder = tempfile::tempdir().expect("a directory");
    let root = folder.path();
    let signed = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).expect("a certificate");
    fs::write(root.join(CHAIN), signed.cert.pem()).expect("a file");
    fs::write(root.join(KEY), signed.signing_key.serialize_pem()).expect("a file");
    fs::write(root.join("small"), vec![b'x'; SMALL]).expect("a file");
    fs::write(root.join("large"), vec![b'x'; LARGE]).expect("room for a file");
    match std::env::args().any(|arg| arg == FLOOD) {
        true => measure_flood(root),
        false => measure_costs(root),
    }
}

fn measure_costs(root: &Path) {
    let names = child::chosen([COREHTTP, HYPER, NGINX, GO]);
    let mut servers: Vec<_> = names.iter().filter_map(|name| Measured::start(name, root)).collect();
    print!("{:<34}", "core microseconds for one");
    servers.iter().for_each(|server| print!("{:>30}", server.name));
    println!();
    for operation in OPERATIONS {
        let mut rounds = vec![Vec::new(); servers.len()];
        for _ in 0..ROUNDS {
            for (server, times) in servers.iter_mut().zip(&mut rounds) {
                times.extend(server.time(&operation, root));
            }
        }
        print!("{:<34}", operation.name);
        for times in rounds {
            match times.is_empty() {
                true => print!("{:>30}", "-"),
                false => print!("{:>30}", Spread::from_values(times.into_iter())),
            }
        }
        println!();
    }
    drop(servers);
    names.iter().filter_map(|name| Measured::start(name, root)).for_each(|server| measure_idle(&server));
}

/// Something that a client does so many times, on one connection or on a new one each time.
struct Operation {
    name: &'static str,
    path: &'static str,
    count: usize,
    connections: Connections,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Connections {
    One,
    NewEach,
    ResumedEach,
}

const fn operation(
    name: &'static str,
    path: &'static str,
    count: usize,
    connections: Connections,
) -> Operation {
    Operation { name, path, count, connections }
}

const OPERATIONS: [Operation; 7] = [
    operation("full handshake, and a request", "/", 300, Connections::NewEach),
    operation("resumed handshake, and a request", "/", 300, Connections::ResumedEach),
    operation("request", "/", 5000, Connections::One),
    operation("response of 64 KiB", "/memory/small", 1000, Connections::One),
    operation("response of 1 MiB", "/memory/large", 100, Connections::One),
    operation("file of 64 KiB, cached", "/small", 1000, Connections::One),
    operation("file of 1 MiB, not cached", "/large", 100, Connections::One),
];

const ROUNDS: usize = 5;
const SMALL: usize = 64 << 10;
const LARGE: usize = 1 << 20;
const CHAIN: &str = "chain.pem";
const KEY: &str = "key.pem";

/// A server that is measured.
struct Measured {
    name: &'static str,
    process: Process,
}

enum Process {
    Child(Child),
    Nginx(Nginx),
}

impl Measured {
    /// Starts a server. None where it is not installed.
    fn start(name: &'static str, root: &Path) -> Option<Measured> {
        let process = match name {
            NGINX => Process::Nginx(start_nginx(root)?),
            GO => Process::Child(start_go(root)?),
            own => Process::Child(Child::spawn(&format!("{own} {}", root.display()))),
        };
        Some(Measured { name, process })
    }

    fn address(&self) -> SocketAddr {
        match &self.process {
            Process::Child(child) => child.address,
            Process::Nginx(nginx) => nginx.address,
        }
    }

    fn resident(&self) -> u64 {
        resident(match &self.process {
            Process::Child(child) => child.id(),
            Process::Nginx(nginx) => nginx.id(),
        })
    }

    fn cpu_time(&mut self) -> Duration {
        match &mut self.process {
            Process::Child(child) => child.cpu_time(),
            Process::Nginx(nginx) => nginx.cpu_time(),
        }
    }

    /// The microseconds that one operation takes. `None` if the server has not what it needs.
    fn time(&mut self, operation: &Operation, root: &Path) -> Option<f64> {
        let Operation { path, count, connections, .. } = *operation;
        let is_file = path != "/" && !path.starts_with("/memory");
        if is_file && self.name == HYPER {
            return None;
        }
        let config = Arc::new(client_config(root, connections));
        let mut conn = Conn::new(self.address(), config.clone());
        // The first one brings a ticket, and warms what is to be warm.
        conn.get(path);
        let before = self.cpu_time();
        for _ in 0..count {
            if connections != Connections::One {
                conn = Conn::new(self.address(), config.clone());
            }
            conn.get(path);
            let kind = conn.0.conn.handshake_kind();
            let is_resumed = kind == Some(HandshakeKind::Resumed);
            assert_eq!(is_resumed, connections == Connections::ResumedEach, "{} {kind:?}", self.name);
        }
        Some((self.cpu_time() - before).as_secs_f64() * 1e6 / count as f64)
    }
}

/// The directives are those of one server, with its own `ssl` on the address that is listened on.
fn start_nginx(root: &Path) -> Option<Nginx> {
    let (folder, part) = (root.display(), "x".repeat(PART));
    let content = |len: usize| "$part".repeat(len / PART);
    let server = format!(
        "ssl_certificate {folder}/{CHAIN}; ssl_certificate_key {folder}/{KEY}; \
         ssl_protocols TLSv1.3; ssl_session_tickets on; \
         keepalive_requests 1000000; root {folder}; default_type text/plain; \
         location = / {{ return 200 '{HELLO}'; }} \
         location = /memory/small {{ return 200 {}; }} \
         location = /memory/large {{ return 200 {}; }}",
        content(SMALL),
        content(LARGE)
    );
    let beside = format!("open_file_cache max=100; map $host $part {{ default {part}; }}");
    Nginx::start_secure(&server, &beside)
}

/// Builds the program, and starts it.
fn start_go(root: &Path) -> Option<Child> {
    let program = build_go("tls.go", root.join(GO))?;
    let start = |command: &mut Command| spawn_on(PinnedCore::Server, command);
    Some(Child::start(Command::new(program).arg(root), start))
}

fn client_config(root: &Path, connections: Connections) -> ClientConfig {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(root.join(CHAIN)).expect("a certificate")).expect("a root");
    let provider = CryptoProvider { cipher_suites: vec![TLS13_AES_128_GCM_SHA256], ..default_provider() };
    let mut config = ClientConfig::builder_with_provider(Arc::new(provider))
        .with_safe_default_protocol_versions()
        .expect("ring has what they need")
        .with_root_certificates(roots)
        .with_no_client_auth();
    if connections != Connections::ResumedEach {
        config.resumption = Resumption::disabled();
    }
    config
}

/// A connection of the client.
struct Conn(StreamOwned<ClientConnection, TcpStream>);

impl Conn {
    fn new(address: SocketAddr, config: Arc<ClientConfig>) -> Conn {
        let stream = TcpStream::connect(address).expect("the server listens");
        stream.set_nodelay(true).expect("a socket");
        let host = address.ip().into();
        Conn(StreamOwned::new(ClientConnection::new(config, host).expect("a good host"), stream))
    }

    /// Asks for `path`, and reads the whole response.
    fn get(&mut self, path: &str) {
        let request = format!("GET {path} HTTP/1.1\r\nhost: a\r\n\r\n");
        self.0.write_all(request.as_bytes()).expect("the server reads");
        let (mut head, mut room) = (Vec::new(), [0; 64 << 10]);
        let end = loop {
            let count = self.0.read(&mut room).expect("a response");
            assert_ne!(count, 0, "the server closes too early");
            head.extend_from_slice(&room[..count]);
            if let Some(end) = head.windows(4).position(|four| four == b"\r\n\r\n") {
                break end + 4;
            }
        };
        let text = String::from_utf8_lossy(&head[..end]).to_ascii_lowercase();
        assert!(text.starts_with("http/1.1 200"), "{text}");
        let length = text.split("content-length: ").nth(1).and_then(|rest| rest.split("\r\n").next());
        let length: usize = length.and_then(|length| length.parse().ok()).expect("a length");
        let mut left = length - (head.len() - end);
        while left > 0 {
            let count = self.0.read(&mut room[..left.min(64 << 10)]).expect("the rest of a response");
            assert_ne!(count, 0, "the server closes too early");
            left -= count;
        }
    }
}

/// Prints the milliseconds that requests and handshakes take without a flood, and with one.
fn measure_flood(root: &Path) {
    let chosen = child::chosen([COREHTTP, NGINX]);
    let names = if chosen.is_empty() { vec![COREHTTP, NGINX] } else { chosen };
    pin(PinnedCore::Load);
    println!("{:<24}{:>24}{:>24}{:>16}", "milliseconds", "a GET: p50, p99", "handshake: p50, p99", "begun/s");
    for server in names.iter().filter_map(|name| Measured::start(name, root)) {
        let config = Arc::new(client_config(root, Connections::NewEach));
        for (kind, threads, time) in [("alone", 0, ALONE), ("flooded", FLOOD_THREADS, FLOODED)] {
            let (address, hello) = (server.address(), hello(server.address(), &config));
            let mut open = Conn::new(address, config.clone());
            open.get("/");
            let end = Instant::now() + time;
            let (begun, requests, handshakes) = thread::scope(|scope| {
                let requests = scope.spawn(|| percentiles(|| open.get("/"), Duration::ZERO, end));
                let new = || Conn::new(address, config.clone()).get("/");
                let handshakes = scope.spawn(move || percentiles(new, HANDSHAKE_EACH, end));
                let begun = flood(address, &hello, threads, end);
                let [requests, handshakes] =
                    [requests, handshakes].map(|it| it.join().expect("it is measured"));
                (begun, requests, handshakes)
            });
            let begun = begun as f64 / time.as_secs_f64();
            println!("{:<24}{requests:>24}{handshakes:>24}{begun:>16.0}", format!("{}, {kind}", server.name));
        }
    }
}

/// The first message of a full handshake.
fn hello(address: SocketAddr, config: &Arc<ClientConfig>) -> Vec<u8> {
    let client = ClientConnection::new(config.clone(), address.ip().into());
    let mut hello = Vec::new();
    client.expect("a good host").write_tls(&mut hello).expect("a vector takes all");
    hello
}

/// The milliseconds that `work` takes, again and again until `end`, with a pause before each.
fn percentiles(mut work: impl FnMut(), pause: Duration, end: Instant) -> String {
    let mut times = Vec::new();
    while Instant::now() < end && times.len() < SAMPLES_MAX {
        sleep(pause);
        let begun = Instant::now();
        work();
        times.push(begun.elapsed().as_secs_f64() * 1e3);
    }
    times.sort_by(f64::total_cmp);
    let at = |percent: usize| times.get((times.len() * percent / 100).min(times.len().saturating_sub(1)));
    match (at(50), at(99)) {
        (Some(half), Some(most)) => format!("{half:.2}, {most:.2}"),
        _ => "-".to_owned(),
    }
}

const FLOOD: &str = "flood";
const FLOOD_THREADS: usize = 64;
const FLOODED: Duration = Duration::from_secs(5);
const ALONE: Duration = Duration::from_secs(2);
const HANDSHAKE_EACH: Duration = Duration::from_millis(20);
const SAMPLES_MAX: usize = 1_000_000;

const COREHTTP: &str = "corehttp";
const HYPER: &str = "hyper";
const NGINX: &str = "nginx";
const GO: &str = "go";
/// How much of its content nginx keeps.
const PART: usize = 2 << 10;

const CONNECTIONS: usize = 2_000;
/// So many connections shake hands at the same time.
const BATCH: usize = 100;
const FILES: u64 = (CONNECTIONS + BATCH) as u64 + 200;
/// Caches have emptied by then, and no idle timeout has come.
const SETTLE: Duration = Duration::from_secs(3);

fn measure_idle(server: &Measured) {
    let client = Client::builder()
        .tls(ClientTls::new().dangerous().accept_any_certificate())
        .limits(ClientLimits { connections_per_host_max: CONNECTIONS + BATCH, ..ClientLimits::default() })
        .timeouts(ClientTimeouts { idle: Duration::from_secs(600), ..ClientTimeouts::default() })
        .build();
    let measured = block_on(async {
        // Who has a response has a connection of its own, until its body is read.
        let mut responses = open(&client, server.address()).await;
        let before = server.resident();
        while responses.len() < CONNECTIONS + BATCH {
            responses.extend(open(&client, server.address()).await);
        }
        for mut response in responses {
            assert_eq!(response.chunk().await.expect("a body"), Some(HELLO.as_bytes()));
            assert_eq!(response.chunk().await.expect("its end"), None);
        }
        sleep(SETTLE);
        (server.resident().saturating_sub(before), client.idle_connections())
    });
    let (held, idle) = measured.expect("a runtime");
    assert_eq!(idle, CONNECTIONS + BATCH, "what was measured is still there");
    println!(
        "{}: {} bytes resident per idle connection over TLS, of {CONNECTIONS}",
        server.name,
        held / CONNECTIONS as u64
    );
}

/// Has one request answered on each of so many new connections.
async fn open(client: &Client, address: SocketAddr) -> Vec<ResponseReader> {
    let mut opening = JoinSet::new();
    for _ in 0..BATCH {
        let client = client.clone();
        opening.spawn(async move {
            let request = Request::get(&format!("https://{address}/")).expect("a good URL");
            client.open_response(&request, &mut Response::new()).await.expect("a response")
        });
    }
    opening.join_all().await
}

fn serve_corehttp(root: &Path) {
    let identity = tls::Identity::from_files(root.join(CHAIN), root.join(KEY)).expect("an identity");
    let (small, large) = (Bytes::from(vec![b'x'; SMALL]), Bytes::from(vec![b'x'; LARGE]));
    let files = Files::new(root).expect("the root is there");
    let app = async move |ctx: &mut Context| -> corehttp::Result {
        match ctx.request.path() {
            "/" => respond(ctx),
            "/memory/small" => Ok(ctx.response.set_shared_bytes("text/plain", small.clone())?),
            "/memory/large" => Ok(ctx.response.set_shared_bytes("text/plain", large.clone())?),
            _ => files.handle(ctx).await,
        }
    };
    let server = Server::bind("127.0.0.1:0")
        .cores(1)
        .name(SERVER_NAME)
        .expect("a valid name")
        .tls(ServerTls::new(identity));
    let running = server.start(app).expect("a free port");
    announce(running.local_addr());
    running.wait().expect("corehttp serves for ever");
}

fn serve_hyper(root: &Path) {
    let chain = CertificateDer::from_pem_file(root.join(CHAIN)).expect("a certificate");
    let key = PrivateKeyDer::from_pem_file(root.join(KEY)).expect("a key");
    let mut config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .expect("ring has what they need")
        .with_no_client_auth()
        .with_single_cert(vec![chain], key)
        .expect("an identity");
    // As corehttp has it.
    config.ticketer = Ticketer::new().expect("there is randomness");
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let contents = [Bytes::from(vec![b'x'; SMALL]), Bytes::from(vec![b'x'; LARGE])];
    let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        announce(listener.local_addr().expect("it is bound"));
        loop {
            let (stream, _) = listener.accept().await.expect("a connection");
            stream.set_nodelay(true).expect("a socket");
            let (acceptor, contents) = (acceptor.clone(), contents.clone());
            tokio::spawn(async move {
                let Ok(stream) = acceptor.accept(stream).await else { return };
                let service = service_fn(move |request: hyper::Request<Incoming>| {
                    let [small, large] = contents.clone();
                    async move {
                        match request.uri().path() {
                            "/memory/small" => Ok(hyper::Response::new(Full::new(small))),
                            "/memory/large" => Ok(hyper::Response::new(Full::new(large))),
                            _ => hyper_respond(request).await,
                        }
                    }
                });
                let connection = hyper_builder().serve_connection(TokioIo::new(stream), service);
                // The load hangs up when it has enough: how a connection ended is no news.
                drop(connection.await);
            });
        }
    });
}
