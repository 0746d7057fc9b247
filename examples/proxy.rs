//! A reverse proxy: `cargo run --release --example proxy -- BACKEND [ADDR]`.
//!
//! A request that comes in at ADDR (default `127.0.0.1:8080`) goes out to BACKEND, a URL such as
//! `http://127.0.0.1:9000`. Both bodies flow at the same time, piece by piece, with their trailers behind them: files
//! of any size pass in constant memory, and so does a backend that answers while it reads. Interim responses, such as
//! 103, pass as they come, and so does WebSocket.

use std::env;
use std::io;
use std::time::Duration;

use corehttp::{
    BodyPlan, Client, ClientCause, Context, Error, Handler, Method, Request, Response, Server, Version,
    shutdown_signal,
};

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
        onward.headers.append("via", format!("{} corehttp", ctx.request.version()))?;
        if let Some(ip) = ctx.peer_addr().ip() {
            onward.headers.append("x-forwarded-for", ip.to_string())?;
        }
        if may_switch(&ctx.request) {
            return self.switch(ctx, onward).await;
        }
        ctx.forward(self.client.open(&onward)).await
    }
}

impl Proxy {
    /// Asks the backend for WebSocket, and joins both connections if it agrees (RFC 9110 §7.8).
    async fn switch(&self, ctx: &mut Context, mut onward: Request) -> corehttp::Result {
        onward.headers.set("upgrade", "websocket")?;
        let mut response = Response::new();
        let mut behind = match self.client.upgrade(&onward, &mut response).await {
            Ok(tunnel) => tunnel,
            Err(error) if matches!(error.cause(), ClientCause::Upgrade) => {
                if response.body.is_empty() {
                    // A body that was too large for memory, or cut short, must not look whole.
                    onward.headers.remove("upgrade");
                    return ctx.forward(self.client.open(&onward)).await;
                }
                // The refusal of the backend, with its reason.
                ctx.response = response.forwarded();
                return Ok(());
            }
            Err(error) => return Err(Error::new(error.status(), error)),
        };
        ctx.response = response.forwarded();
        let mut front = ctx.upgrade("websocket").await?;
        tokio::io::copy_bidirectional(&mut front, &mut behind).await?;
        Ok(())
    }
}

/// Whether it asks for WebSocket and nothing else, has no content, and can be asked twice. All others go on without
/// that wish, which every server may ignore (RFC 9110 §7.8): through a tunnel of h2c, requests would pass that nobody
/// has seen here.
fn may_switch(request: &Request) -> bool {
    let headers = &request.headers;
    headers.text("upgrade").is_some_and(|protocol| protocol.eq_ignore_ascii_case("websocket"))
        && headers.contains_token("connection", "upgrade")
        && request.method() == Method::Get
        && request.version() == Version::Http11
        && !headers.contains("content-length")
        && !headers.contains("transfer-encoding")
}

fn main() -> corehttp::Result {
    let mut arguments = env::args().skip(1);
    let backend = arguments.next().ok_or_else(|| io::Error::other("usage: proxy BACKEND [ADDR]"))?;
    let address = arguments.next().unwrap_or_else(|| "127.0.0.1:8080".into());
    let server = Server::bind(address).on_stop(shutdown_signal(), Duration::from_secs(10));
    let running = server.start(Proxy { backend, client: Client::new() })?;
    println!("listening on {running}");
    running.wait()
}
