//! A gateway before a service that is found by SRV records (RFC 2782), such as those of Consul:
//! `cargo run --release --features srv --example srv -- NAME_SERVER SERVICE [ADDR]`.
//!
//! NAME_SERVER is an address such as `127.0.0.1:8600`, and SERVICE a name such as `_http._tcp.api.internal`. A request that
//! comes in at ADDR (default `127.0.0.1:8080`) goes to one of the targets of the lowest priority, by their weights, and to
//! another one if that cannot be reached. The records are looked up again when they are no longer valid, and each change of
//! the targets is printed.
//!
//! The tests run dnsmasq, where it is installed: `cargo test --features srv --example srv`.

mod dns;
#[cfg(all(test, target_os = "linux"))]
mod tests;
#[cfg(all(test, target_os = "linux"))]
mod zone;

use std::env;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use corehttp::client::{Balancer, BalancerBuilder, Retry};
use corehttp::middleware::wrap;
use corehttp::{BodyPlan, Client, ClientBuilder, Context, Handler, Server, shutdown_signal};

use dns::Dns;

/// A client that asks the name server at this address.
fn client(name_server: SocketAddr) -> io::Result<ClientBuilder> {
    Ok(Client::builder().resolver(Dns::new(name_server)?))
}

/// A balancer over the targets of `service`.
fn balance(client: &Client, service: &str) -> corehttp::Result<BalancerBuilder> {
    Ok(client.balance::<&str>([])?.each_target_of(&format!("http://{service}"))?.retry(Retry::new()))
}

/// Forwards each request to one of the targets.
fn gateway(targets: Balancer) -> impl Handler {
    wrap(BodyPlan::Stream, async move |ctx: &mut Context| -> corehttp::Result {
        let mut onward = ctx.request.forwarded_to("/")?;
        ctx.set_forwarded(&mut onward);
        ctx.forward(targets.open_call(&onward)).await
    })
}

fn main() -> corehttp::Result {
    let mut arguments = env::args().skip(1);
    let (Some(name_server), Some(service)) = (arguments.next(), arguments.next()) else {
        return Err(io::Error::other("usage: srv NAME_SERVER SERVICE [ADDR]").into());
    };
    let address = arguments.next().unwrap_or_else(|| "127.0.0.1:8080".into());
    let client = client(name_server.parse().map_err(corehttp::Error::other)?)?.build();
    let targets = balance(&client, &service)?.build();
    let server = Server::bind(address).stop_on(shutdown_signal(), Duration::from_secs(10));
    let running = server.start(gateway(targets))?;
    println!("listening on {running}");
    running.wait()
}
