//! A reverse proxy: `cargo run --release --example proxy -- BACKEND [ADDR [NETWORK..]]`.
//!
//! A request that comes in at ADDR (default `127.0.0.1:8080`) goes out to BACKEND, a URL such as
//! `http://127.0.0.1:9000`. Both bodies flow at the same time, piece by piece, with their trailers behind them: files
//! of any size pass in constant memory, and so does a backend that answers while it reads. Interim responses, such as
//! 103, pass as they come, and so does WebSocket. The server behind finds the client in `x-forwarded-for` and its like;
//! only proxies in a NETWORK, such as `10.0.0.0/8`, can write these for a client of theirs.

use std::env;
use std::io;
use std::time::Duration;

use corehttp::server::ForwardedHeader;
use corehttp::{BodyPlan, Client, Context, Handler, Server, TrustedProxies, shutdown_signal};

struct Proxy {
    backend: String,
    client: Client,
}

impl Handler for Proxy {
    fn on_head(&self, _: &mut Context) -> BodyPlan {
        BodyPlan::Stream
    }

    async fn handle(&self, ctx: &mut Context) -> corehttp::Result {
        let mut onward = ctx.request.forwarded_to(&self.backend)?;
        // A gateway names itself (RFC 9110 §7.6.3), and its peer.
        onward.add_via(ctx.request.version(), "corehttp")?;
        ctx.set_forwarded(&mut onward);
        ctx.forward(self.client.open_call(&onward)).await
    }
}

fn main() -> corehttp::Result {
    let mut arguments = env::args().skip(1);
    let backend =
        arguments.next().ok_or_else(|| io::Error::other("usage: proxy BACKEND [ADDR [NETWORK..]]"))?;
    let address = arguments.next().unwrap_or_else(|| "127.0.0.1:8080".into());
    let in_front = TrustedProxies::new(arguments)?.headers([
        ForwardedHeader::XForwardedFor,
        ForwardedHeader::XForwardedProto,
        ForwardedHeader::XForwardedHost,
    ]);
    let server =
        Server::bind(address).trusted_proxies(in_front).stop_on(shutdown_signal(), Duration::from_secs(10));
    let running = server.start(Proxy { backend, client: Client::new() })?;
    println!("listening on {running}");
    running.wait()
}
