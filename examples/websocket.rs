//! Speaks WebSocket (RFC 6455), by tokio-tungstenite: `cargo run --release --example websocket -- [ADDR]`.
//!
//! | request | response |
//! |---|---|
//! | GET `/` | a page that sends messages and shows what comes back |
//! | GET `/echo` | a WebSocket that sends back what it receives |

use std::pin::pin;
use std::time::Duration;

use corehttp::{Context, Method, Request, Server, Status, shutdown_signal};
use futures_util::{SinkExt, StreamExt};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::{Role, WebSocketConfig};

fn main() -> corehttp::Result {
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:8080".into());
    let running = Server::bind(address).on_stop(shutdown_signal(), Duration::from_secs(3)).start(answer)?;
    println!("listening on {running}");
    running.wait()
}

async fn answer(ctx: &mut Context) -> corehttp::Result {
    match (ctx.request.method(), ctx.request.path()) {
        (Method::Get | Method::Head, "/") => ctx.response.set_html(PAGE),
        (Method::Get, "/echo") => echo(ctx).await?,
        _ => return Err(Status::NOT_FOUND.into()),
    }
    Ok(())
}

/// Sends messages back, until the peer closes or the server stops.
async fn echo(ctx: &mut Context) -> corehttp::Result {
    let mut stopping = pin!(ctx.stopping());
    let mut socket = accept(ctx).await?;
    loop {
        let message = tokio::select! {
            message = socket.next() => message,
            () = &mut stopping => return Ok(socket.close(None).await?),
        };
        let Some(message) = message else { return Ok(()) };
        let message = message?;
        if message.is_text() || message.is_binary() {
            socket.send(message).await?;
        }
    }
}

/// Answers the handshake (RFC 6455 §4.2.2) and hands the connection over.
async fn accept(ctx: &mut Context) -> corehttp::Result<WebSocketStream<corehttp::Upgraded>> {
    let Context { request, response, .. } = ctx;
    if !request.headers.contains_token("upgrade", "websocket")
        || request.headers.text("sec-websocket-version") != Some("13")
    {
        // The fields that a request must have to be served (RFC 9110 §15.5.22, RFC 6455 §4.4).
        response.headers.set("upgrade", "websocket")?;
        response.headers.set("connection", "upgrade")?;
        response.headers.set("sec-websocket-version", "13")?;
        return Err(Status::UPGRADE_REQUIRED.into());
    }
    // A page of another origin may open a socket to here, with the cookies of this one (§10.2).
    if request.headers.text("origin").is_some_and(|origin| !is_own(origin, request)) {
        return Err(Status::FORBIDDEN.into());
    }
    let key = request.headers.get("sec-websocket-key").ok_or(Status::BAD_REQUEST)?;
    response.headers.set("sec-websocket-accept", derive_accept_key(key))?;
    let upgraded = ctx.upgrade("websocket").await?;
    // By default, each connection has 128 KiB to read into.
    let config = WebSocketConfig::default().max_message_size(Some(1 << 20)).read_buffer_size(8 << 10);
    Ok(WebSocketStream::from_raw_socket(upgraded, Role::Server, Some(config)).await)
}

/// Whether `origin` is that of a page from here. Its scheme is that of a proxy, if one is in front, which may also add
/// the default port to the host.
fn is_own(origin: &str, request: &Request) -> bool {
    let (Some((scheme, _)), Some(authority)) = (origin.split_once("://"), request.authority()) else {
        return false;
    };
    // URLs are compared without default ports, and in lower case.
    let (page, own) = (Request::get(origin), Request::get(&format!("{scheme}://{authority}")));
    page.is_ok_and(|page| own.is_ok_and(|own| page.target() == own.target()))
}

const PAGE: &str = r#"<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Echo</title>
<style>
  :root { color-scheme: light dark; background: Canvas; color: CanvasText }
  body { font: 1rem/1.5 system-ui, sans-serif; max-width: 40rem; margin: 2rem auto; padding: 0 1rem }
  input, button { font: inherit; max-width: 100% }
  li { overflow-wrap: anywhere }
</style>
<main>
  <h1>Echo</h1>
  <form><label>Text <input name="text" value="hello" autofocus></label> <button>Say</button></form>
  <ul id="heard" aria-live="polite"></ul>
</main>
<script>
  const socket = new WebSocket(`${location.protocol === "https:" ? "wss" : "ws"}://${location.host}/echo`);
  const show = text => {
    const line = document.createElement("li");
    line.textContent = text;
    document.getElementById("heard").append(line);
  };
  socket.onopen = () => { show("open"); socket.send("hello from the page"); };
  socket.onmessage = event => show(`heard: ${event.data}`);
  socket.onclose = event => show(`closed: ${event.code}`);
  document.forms[0].onsubmit = event => {
    event.preventDefault();
    socket.send(document.forms[0].text.value);
  };
</script>
"#;
