//! Clients, proxies, servers and an authority that others wrote, where they are installed: curl, Python, Node, Go, Java, nginx and
//! HAProxy.
//!
//! Each client is one program in `programs/`, which gets a URL and the size of its large bodies, prints what went wrong
//! and exits with 1. It talks to the server, to nginx and HAProxy in front of it with their defaults, and to a gateway
//! before servers of Go, Node and nginx. A peer that is missing is skipped, and a line on stderr names it.

#[cfg(feature = "acme")]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod acme;
mod origin;
mod program;
mod proxies;
#[cfg(feature = "proxy-protocol")]
mod proxy_protocol;
#[cfg(feature = "websocket")]
mod websockets;

use std::thread;

use corehttp::middleware::wrap;
use corehttp::{BodyPlan, Client, Context, Server, ServerHandle};

use origin::origin;
use program::{CLIENTS, SERVERS};
use proxies::{haproxy, nginx};

/// Larger than what the buffers of two sockets hold, so that a client is still sending when the response comes.
const LARGE: usize = 8 << 20;

/// By default nginx forwards at most 1 MiB.
const WITHIN_NGINX: usize = 900_000;

#[test]
fn clients_get_what_the_server_answers() {
    let server = Served(origin());
    ask_all(&server.url(), LARGE);
}

#[test]
fn clients_get_it_through_nginx() {
    let server = Served(origin());
    if let Some(nginx) = nginx(&format!("location / {{ proxy_pass {}; }}", server.url())) {
        ask_all(&nginx.url(), WITHIN_NGINX);
    }
}

#[test]
fn clients_get_it_through_haproxy() {
    let server = Served(origin());
    if let Some(haproxy) = haproxy(server.0.local_addr()) {
        ask_all(&haproxy.url(), LARGE);
    }
}

#[test]
fn clients_get_it_through_a_gateway_before_ours() {
    let server = Served(origin());
    let gateway = Served(gateway(server.url()));
    ask_all(&gateway.url(), LARGE);
}

#[test]
fn clients_get_what_others_answer_through_a_gateway() {
    thread::scope(|scope| {
        for program in SERVERS {
            scope.spawn(|| {
                if let Some(server) = program.serve() {
                    let gateway = Served(gateway(server.url()));
                    ask("curl.sh", &gateway.url(), LARGE);
                    ask("client.py", &gateway.url(), LARGE);
                }
            });
        }
        scope.spawn(|| {
            // nginx answers nothing of this by itself: it stands before a server that does.
            let server = Served(origin());
            let settings = format!("client_max_body_size 0; location / {{ proxy_pass {}; }}", server.url());
            if let Some(nginx) = nginx(&settings) {
                let gateway = Served(gateway(nginx.url()));
                ask("curl.sh", &gateway.url(), LARGE);
                ask("client.py", &gateway.url(), LARGE);
            }
        });
    });
}

/// Lets every client ask at `url`, all at the same time.
fn ask_all(url: &str, size: usize) {
    thread::scope(|scope| {
        for program in CLIENTS {
            scope.spawn(|| program.run(&[url, &size.to_string()]));
        }
    });
}

fn ask(name: &str, url: &str, size: usize) {
    let program = CLIENTS.iter().find(|program| program.file == name);
    program.unwrap_or_else(|| panic!("{name} is no client")).run(&[url, &size.to_string()]);
}

/// Forwards every request to `backend`.
fn gateway(backend: String) -> ServerHandle {
    let client = Client::new();
    let forward = async move |ctx: &mut Context| -> corehttp::Result {
        let onward = ctx.request.forwarded_to(&backend)?;
        ctx.forward(client.open_call(&onward)).await
    };
    let handler = wrap(BodyPlan::Stream, forward);
    Server::bind("127.0.0.1:0").start(handler).expect("a gateway starts")
}

/// A server of this crate that is stopped when this is dropped.
struct Served(ServerHandle);

impl Served {
    fn url(&self) -> String {
        self.0.to_string()
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.0.stop(std::time::Duration::ZERO);
    }
}
