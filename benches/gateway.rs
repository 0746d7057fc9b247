//! Question: how much CPU time does a hop through a gateway cost, over what the kernel makes every gateway pay?
//!
//! Each gateway is a process pinned to one core. The load, and the server behind, which is a bare epoll loop
//! (`support/limit.rs`), share the other. The `limit` copies what arrives from either side to the other, with a
//! connection to the server behind for each of its own, and reads none of it. The gateways take turns round by round;
//! the ratio is that of one round, and its median is what counts.
//!
//! ```text
//! cargo bench --bench gateway              # about half a minute
//! cargo bench --bench gateway -- corehttp  # against the limit only
//! ```

use std::net::SocketAddr;
use std::time::Duration;

use corehttp::client::Host;
use corehttp::middleware::wrap;
use corehttp::{BodyPlan, Client, Context, Server};
use corehttp_benches::child::{self, Child, PinnedCore, announce, pin};
use corehttp_benches::load::Load;
use corehttp_benches::nginx::Nginx;
use corehttp_benches::spread::Spread;
use corehttp_benches::{handlers, limit, servers};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::client::legacy::Client as HyperClient;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

fn main() {
    match child::server().as_deref() {
        None if child::wanted() => measure(),
        None => {}
        Some(BEHIND) => {
            pin(PinnedCore::Load);
            limit::serve_limit();
        }
        Some(gateway) => {
            pin(PinnedCore::Server);
            let (name, behind) = gateway.split_once(' ').expect("a name and an address");
            serve(name, behind.parse().expect("the address of the server behind"));
        }
    }
}

fn serve(name: &str, behind: SocketAddr) {
    match name {
        LIMIT => serve_limit(behind),
        COREHTTP => serve_corehttp(behind),
        HYPER => serve_hyper(behind),
        unknown => panic!("no gateway is called {unknown}"),
    }
}

const BEHIND: &str = "behind";
const LIMIT: &str = "limit";
const COREHTTP: &str = "corehttp";
const HYPER: &str = "hyper";
const NGINX: &str = "nginx";

fn serve_limit(behind: SocketAddr) {
    servers::serve_tokio(|peer| drop(tokio::spawn(copy(peer, behind))));
}

async fn copy(mut peer: TcpStream, behind: SocketAddr) {
    let mut behind = TcpStream::connect(behind).await.expect("the server behind listens");
    behind.set_nodelay(true).expect("a socket");
    let mut piece = vec![0; 8 << 10];
    while let Ok(read @ 1..) = peer.read(&mut piece).await {
        behind.write_all(&piece[..read]).await.expect("the server behind reads");
        let read = behind.read(&mut piece).await.expect("the server behind answers");
        // A peer that has gone shows itself at the next read.
        let _ = peer.write_all(&piece[..read]).await;
    }
}

fn serve_corehttp(behind: SocketAddr) {
    let host = Client::new().host(&format!("http://{behind}")).expect("a host");
    let pass = async move |ctx: &mut Context| pass(&host, ctx).await;
    let handler = wrap(BodyPlan::Stream, pass);
    let running = Server::bind("127.0.0.1:0").cores(1).start(handler).expect("a free port");
    announce(running.local_addr());
    running.wait().expect("corehttp serves for ever");
}

async fn pass(host: &Host, ctx: &mut Context) -> corehttp::Result {
    let mut onward = ctx.request.forwarded_to("/")?;
    onward.headers.append("via", "1.1 front")?;
    ctx.forward(host.open_call(&onward)).await
}

/// As its users write it: what it received is passed on, but for the fields that are meant for one connection.
fn serve_hyper(behind: SocketAddr) {
    let mut connector = HttpConnector::new();
    connector.set_nodelay(true);
    let client = HyperClient::builder(TokioExecutor::new()).build(connector);
    let builder = handlers::hyper_builder();
    servers::serve_tokio(|stream| {
        let client = client.clone();
        let service = service_fn(move |request| hyper_pass(client.clone(), behind, request));
        let connection = builder.serve_connection(TokioIo::new(stream), service);
        // The load hangs up when it has enough: how a connection ended is no news.
        tokio::spawn(async { drop(connection.await) });
    });
}

async fn hyper_pass(
    client: HyperClient<HttpConnector, Incoming>,
    behind: SocketAddr,
    mut request: hyper::Request<Incoming>,
) -> Result<hyper::Response<Incoming>, hyper_util::client::legacy::Error> {
    let path = request.uri().path_and_query().map_or("/", |path| path.as_str());
    *request.uri_mut() = format!("http://{behind}{path}").parse().expect("a target");
    request.headers_mut().remove("connection");
    request.headers_mut().append("via", hyper::header::HeaderValue::from_static("1.1 front"));
    let mut response = client.request(request).await?;
    response.headers_mut().remove("connection");
    Ok(response)
}

fn measure() {
    let behind = Child::spawn(BEHIND);
    let spawn = |name| Gateway::Own(name, Child::spawn(&format!("{name} {}", behind.address)));
    let mut gateways: Vec<Gateway> = vec![spawn(LIMIT)];
    for name in child::chosen([COREHTTP, HYPER, NGINX]) {
        let gateway = match name {
            NGINX => Nginx::start(SERVER, &BESIDE.replace("BEHIND", &behind.address.to_string()))
                .map(Gateway::Nginx),
            own => Some(spawn(own)),
        };
        gateways.extend(gateway);
    }
    pin(PinnedCore::Load);
    for connections in [1, 64, 512] {
        let mut rounds = vec![Vec::new(); gateways.len()];
        for _ in 0..ROUNDS {
            for (gateway, rounds) in gateways.iter_mut().zip(&mut rounds) {
                rounds.push(gateway.round(connections));
            }
        }
        println!("\n{connections} connections");
        println!("{:<12}{:>26}{:>24}", "", "CPU us/request", "over the limit");
        for (gateway, own) in gateways.iter().zip(&rounds) {
            let over = Spread::from_values(own.iter().zip(&rounds[0]).map(|(own, limit)| own / limit));
            println!("{:<12}{:>26}{over:>24}", gateway.name(), Spread::from_values(own.iter().copied()));
        }
    }
}

const ROUNDS: usize = 7;
const WARM_UP: Duration = Duration::from_millis(300);
const ROUND: Duration = Duration::from_millis(700);

const SERVER: &str = "
        keepalive_requests 1000000000;
        location / {
            proxy_pass http://behind;
            proxy_http_version 1.1;
            proxy_set_header connection '';
            proxy_set_header via '1.1 front';
        }
";
const BESIDE: &str = "
    upstream behind {
        server BEHIND;
        keepalive 1024;
        keepalive_requests 1000000000;
    }
";

enum Gateway {
    Own(&'static str, Child),
    Nginx(Nginx),
}

impl Gateway {
    fn name(&self) -> &'static str {
        match self {
            Gateway::Own(name, _) => name,
            Gateway::Nginx(_) => NGINX,
        }
    }

    fn address(&self) -> SocketAddr {
        match self {
            Gateway::Own(_, child) => child.address,
            Gateway::Nginx(nginx) => nginx.address,
        }
    }

    fn cpu_time(&mut self) -> Duration {
        match self {
            Gateway::Own(_, child) => child.cpu_time(),
            Gateway::Nginx(nginx) => nginx.cpu_time(),
        }
    }

    /// The microseconds of a core that a request takes, with so many connections.
    fn round(&mut self, connections: usize) -> f64 {
        let mut load = Load::open(self.address(), connections, 1);
        load.run(WARM_UP);
        let before = self.cpu_time();
        let requests = load.run(ROUND);
        (self.cpu_time() - before).as_secs_f64() * 1e6 / requests as f64
    }
}
