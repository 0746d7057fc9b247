//! Question: what do the clients of a gateway notice when a server behind it is killed, answers 500, or is halted?
//!
//! Four servers answer after a millisecond. For four seconds, one of them fails: its process is killed, and its port
//! refuses; or it answers 500 at once, but its health checks succeed; or it is halted, so that it takes connections and
//! answers nothing. Then it is well again. Each of 32 clients sends a GET every ten milliseconds, and counts what is no
//! 200. The traffic is even once the server has four fifths of its share of some 300 ms.
//!
//! All gateways check the servers twice a second, wait a second for a response, and send a GET to another server, as
//! often as they can. nginx does not check; a server that failed is left out for a second.
//!
//! ```text
//! cargo bench --bench failover             # two minutes
//! cargo bench --bench failover -- corehttp
//! ```

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{self, Command};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};
use std::{fs, thread};

use corehttp::client::{Balancer, ClientTimeouts, Ejection, HealthCheck, Retry};
use corehttp::middleware::wrap;
use corehttp::{BodyPlan, Client, Context, Response, Server, Status, routes};
use corehttp_benches::child::{self, Child, PinnedCore, announce, pin, spawn_on};
use corehttp_benches::nginx::Nginx;

fn main() {
    match child::server().as_deref() {
        None if child::wanted() => measure(),
        None => {}
        Some(server) => match server.split_once(' ').expect("a name and what it needs") {
            (MEMBER, address) => serve_member(address.parse().expect("an address")),
            (_, members) => serve_corehttp(members),
        },
    }
}

const MEMBER: &str = "member";
const COREHTTP: &str = "corehttp";
const HAPROXY: &str = "haproxy";
const NGINX: &str = "nginx";

/// Answers with its own port.
fn serve_member(address: SocketAddr) {
    pin(PinnedCore::Load);
    static IS_BROKEN: AtomicBool = AtomicBool::new(false);
    let handler = routes! {
        GET "/health" => |_: &mut Context| {},
        POST "/broken" => |_: &mut Context| IS_BROKEN.store(true, Relaxed),
        POST "/well" => |_: &mut Context| IS_BROKEN.store(false, Relaxed),
        GET "/" => async move |ctx: &mut Context| {
            if IS_BROKEN.load(Relaxed) {
                ctx.response.status = Status::INTERNAL_SERVER_ERROR;
                return;
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
            ctx.response.set_text(address.port().to_string());
        },
    };
    let running = Server::bind(address).cores(1).start(handler).expect("a free port");
    announce(running.local_addr());
    running.wait().expect("it serves for ever");
}

fn serve_corehttp(members: &str) {
    pin(PinnedCore::Server);
    let timeouts = ClientTimeouts {
        connect: Duration::from_secs(1),
        wait: Duration::from_secs(1),
        ..ClientTimeouts::default()
    };
    let check = HealthCheck::get("/health").expect("a path").interval(Duration::from_millis(500));
    // All errors of the way to a server and back; a GET may be sent again.
    let retry = Retry::new().retry_if(|outcome| !outcome.is_ok_and(is_healthy));
    let client = Client::builder().timeouts(timeouts).build();
    // A server that is out is tried again as soon as the others do that.
    let ejection = Ejection::new().time(Duration::from_secs(1), Duration::from_secs(30));
    let hosts = client.balance(members.split(' ')).expect("URLs").health_check(check).ejection(ejection);
    let balancer = hosts.healthy_if(|outcome| outcome.is_ok_and(is_healthy)).retry(retry).build();
    let pass = async move |ctx: &mut Context| pass(&balancer, ctx).await;
    let running =
        Server::bind("127.0.0.1:0").cores(1).start(wrap(BodyPlan::Stream, pass)).expect("a free port");
    announce(running.local_addr());
    running.wait().expect("it serves for ever");
}

fn is_healthy(response: &Response) -> bool {
    !response.status.is_server_error()
}

async fn pass(balancer: &Balancer, ctx: &mut Context) -> corehttp::Result {
    let onward = ctx.request.forwarded_to("/")?;
    ctx.forward(balancer.open_call(&onward)).await
}

fn measure() {
    let mut members: Vec<Member> = (0..4).map(|_| Member::new()).collect();
    println!(
        "{:<12}{:<14}{:>10}{:>9}{:>9}{:>10}{:>12}",
        "", "", "requests", "failed", "p99 ms", "most ms", "even after"
    );
    for name in child::chosen([COREHTTP, HAPROXY, NGINX]) {
        for failure in [Failure::Killed, Failure::Answers500, Failure::Halted] {
            let addresses: Vec<String> = members.iter().map(|member| member.address.to_string()).collect();
            let Some(gateway) = Gateway::start(name, &addresses) else { continue };
            pin(PinnedCore::Load);
            let seen = play(gateway.address(), &mut members[0], failure);
            seen.print(name, failure);
        }
    }
}

/// A server behind the gateway.
struct Member {
    address: SocketAddr,
    process: Child,
}

impl Member {
    fn new() -> Member {
        let address = free_address();
        Member { address, process: Child::spawn(&format!("{MEMBER} {address}")) }
    }

    fn fail(&mut self, failure: Failure) {
        match failure {
            Failure::Killed => self.signal("-KILL"),
            Failure::Answers500 => self.order("/broken"),
            Failure::Halted => self.signal("-STOP"),
        }
    }

    fn recover(&mut self, failure: Failure) {
        match failure {
            Failure::Killed => {
                *self = Member { process: Child::spawn(&format!("{MEMBER} {}", self.address)), ..*self }
            }
            Failure::Answers500 => self.order("/well"),
            Failure::Halted => self.signal("-CONT"),
        }
    }

    fn signal(&self, signal: &str) {
        let sent = Command::new("kill").args([signal, &self.process.id().to_string()]).status();
        assert!(sent.is_ok_and(|status| status.success()), "the process is there");
    }

    fn order(&self, path: &str) {
        let mut stream = TcpStream::connect(self.address).expect("it listens");
        let request =
            format!("POST {path} HTTP/1.1\r\nhost: a\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).expect("it reads");
        stream.read_to_end(&mut Vec::new()).expect("it answers");
    }
}

#[derive(Clone, Copy, Debug)]
enum Failure {
    Killed,
    Answers500,
    Halted,
}

enum Gateway {
    Own(Child),
    HaProxy(HaProxy),
    Nginx(Nginx),
}

impl Gateway {
    /// None where it is not installed.
    fn start(name: &str, members: &[String]) -> Option<Gateway> {
        match name {
            HAPROXY => HaProxy::start(members).map(Gateway::HaProxy),
            NGINX => {
                let servers: String =
                    members.iter().map(|member| format!("server {member} {LEFT_OUT};")).collect();
                Nginx::start(NGINX_SERVER, &format!("upstream behind {{ {servers} keepalive 64; }}"))
                    .map(Gateway::Nginx)
            }
            own => {
                let members: String = members.iter().map(|member| format!(" http://{member}")).collect();
                Some(Gateway::Own(Child::spawn(&format!("{own}{members}"))))
            }
        }
    }

    fn address(&self) -> SocketAddr {
        match self {
            Gateway::Own(child) => child.address,
            Gateway::HaProxy(haproxy) => haproxy.address,
            Gateway::Nginx(nginx) => nginx.address,
        }
    }
}

const LEFT_OUT: &str = "max_fails=1 fail_timeout=1s";
const NGINX_SERVER: &str = "
        keepalive_requests 1000000000;
        location / {
            proxy_pass http://behind;
            proxy_http_version 1.1;
            proxy_set_header connection '';
            proxy_connect_timeout 1s;
            proxy_read_timeout 1s;
            proxy_next_upstream error timeout http_500 http_502 http_503 http_504;
        }
";

/// The system's HAProxy, with one thread.
struct HaProxy {
    address: SocketAddr,
    process: process::Child,
    _folder: tempfile::TempDir,
}

impl HaProxy {
    fn start(members: &[String]) -> Option<HaProxy> {
        let folder = tempfile::tempdir().expect("a directory");
        let address = free_address();
        let servers: String =
            (0..).zip(members).map(|(at, member)| format!("    server s{at} {member}\n")).collect();
        let path = folder.path().join("haproxy.cfg");
        let settings = HAPROXY_CFG.replace("ADDRESS", &address.to_string()).replace("SERVERS", &servers);
        fs::write(&path, settings).expect("a file");
        let mut command = Command::new("haproxy");
        command.arg("-f").arg(&path).arg("-db").stderr(process::Stdio::null());
        let process = match spawn_on(PinnedCore::Server, &mut command) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return None,
            started => started.expect("HAProxy starts"),
        };
        let deadline = Instant::now() + Duration::from_secs(5);
        while TcpStream::connect(address).is_err() {
            assert!(Instant::now() < deadline, "HAProxy listens soon");
            thread::sleep(Duration::from_millis(10));
        }
        Some(HaProxy { address, process, _folder: folder })
    }
}

impl Drop for HaProxy {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

const HAPROXY_CFG: &str = "
global
    nbthread 1
    maxconn 4000
defaults
    mode http
    timeout connect 1s
    timeout client 30s
    timeout server 1s
    timeout check 500ms
    retries 3
    option redispatch 1
    retry-on all-retryable-errors 500
listen front
    bind ADDRESS
    balance leastconn
    option httpchk GET /health
    default-server check inter 500ms fall 1 rise 1 observe layer7 error-limit 5 on-error mark-down
SERVERS
";

/// The outcomes of requests, in the order in which they were over.
struct Seen {
    outcomes: Vec<Outcome>,
    recovered: Duration,
    failed: u16,
}

/// How a request ended: when it was over, how long it took, and the port of the server that answered with 200.
struct Outcome {
    at: Duration,
    took: Duration,
    member: Option<u16>,
}

/// Has the first member fail and recover before the gateway, under load.
fn play(gateway: SocketAddr, member: &mut Member, failure: Failure) -> Seen {
    let outcomes = Mutex::new(Vec::new());
    let is_over = AtomicBool::new(false);
    let started = Instant::now();
    let mut recovered = Duration::ZERO;
    thread::scope(|scope| {
        for _ in 0..CLIENTS {
            scope.spawn(|| {
                let mut client = Caller { gateway, stream: None };
                while !is_over.load(Relaxed) {
                    let asked = Instant::now();
                    let member = client.ask().ok();
                    let outcome = Outcome { at: started.elapsed(), took: asked.elapsed(), member };
                    outcomes.lock().expect("no thread panics").push(outcome);
                    thread::sleep(PAUSE.saturating_sub(asked.elapsed()));
                }
            });
        }
        thread::sleep(WARM_UP);
        member.fail(failure);
        thread::sleep(FAILING);
        member.recover(failure);
        recovered = started.elapsed();
        thread::sleep(RECOVERING);
        is_over.store(true, Relaxed);
    });
    Seen {
        outcomes: outcomes.into_inner().expect("no thread panics"),
        recovered,
        failed: member.address.port(),
    }
}

const CLIENTS: usize = 32;
const PAUSE: Duration = Duration::from_millis(10);
const WARM_UP: Duration = Duration::from_secs(1);
const FAILING: Duration = Duration::from_secs(4);
const RECOVERING: Duration = Duration::from_secs(8);
const WINDOW: Duration = Duration::from_millis(300);

impl Seen {
    fn print(mut self, gateway: &str, failure: Failure) {
        let failed = self.outcomes.iter().filter(|outcome| outcome.member.is_none()).count();
        let even = self.even_after().map_or("never".into(), |after| format!("{:.1} s", after.as_secs_f64()));
        self.outcomes.retain(|outcome| outcome.at > WARM_UP);
        let mut times: Vec<f64> =
            self.outcomes.iter().map(|outcome| outcome.took.as_secs_f64() * 1e3).collect();
        times.sort_by(f64::total_cmp);
        let (most, high) = (times[times.len() - 1], times[times.len() * 99 / 100]);
        let failure = format!("{failure:?}");
        println!("{gateway:<12}{failure:<14}{:>10}{failed:>9}{high:>9.1}{most:>10.0}{even:>12}", times.len());
    }

    /// How long after its recovery the member had four fifths of its share.
    fn even_after(&self) -> Option<Duration> {
        let windows = (RECOVERING.as_millis() / WINDOW.as_millis()) as u32;
        (0..windows).map(|index| index * WINDOW).find(|after| {
            let window = self.recovered + *after..self.recovered + *after + WINDOW;
            let members =
                || self.outcomes.iter().filter(|one| window.contains(&one.at)).filter_map(|one| one.member);
            let (all, own) = (members().count(), members().filter(|member| *member == self.failed).count());
            all > 0 && own * 5 >= all
        })
    }
}

/// One of the clients, and its connection.
struct Caller {
    gateway: SocketAddr,
    stream: Option<TcpStream>,
}

impl Caller {
    /// The port of the server that answered.
    fn ask(&mut self) -> io::Result<u16> {
        let mut stream = match self.stream.take() {
            Some(stream) => stream,
            None => TcpStream::connect(self.gateway)?,
        };
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.write_all(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n")?;
        let mut response = Vec::new();
        // Responses are small, and say how long they are.
        loop {
            let mut piece = [0; 1024];
            let count = stream.read(&mut piece)?;
            response.extend_from_slice(&piece[..count]);
            let text = String::from_utf8_lossy(&response).to_ascii_lowercase();
            let Some((head, content)) = text.split_once("\r\n\r\n") else {
                if count == 0 {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
                continue;
            };
            if !head.starts_with("http/1.1 200 ") {
                return Err(io::ErrorKind::Other.into());
            }
            let length =
                head.split_once("content-length: ").and_then(|(_, rest)| rest.lines().next()?.parse().ok());
            if length == Some(content.len()) {
                if !head.contains("connection: close") {
                    self.stream = Some(stream);
                }
                return content.parse().map_err(|_| io::ErrorKind::InvalidData.into());
            }
        }
    }
}

const PATIENCE: Duration = Duration::from_secs(10);

fn free_address() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a free port")
}
