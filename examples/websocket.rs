//! Speaks WebSocket (RFC 6455): `cargo run --release --features websocket --example websocket -- [ADDR]`.
//!
//! | request | response |
//! |---|---|
//! | GET `/` | a page that sends messages and shows what comes back |
//! | GET `/echo` | a WebSocket that sends back what it receives |
//! | GET `/chat` | a WebSocket that sends what it receives to all who chat, on all cores |

use std::io;
use std::sync::Arc;
use std::time::Duration;

use corehttp::websocket::{self, Broadcast, DeflateOptions, OnLag, WebSocket};
use corehttp::{Context, Server, routes, shutdown_signal, with_state};

struct State {
    settings: websocket::Options,
    room: Broadcast,
}

fn main() -> corehttp::Result {
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:8080".into());
    let deflate = Some(DeflateOptions::default());
    let settings = websocket::Options { message_max: 64 << 10, deflate, ..websocket::Options::default() };
    // All cores share the room, which keeps 64 messages for those who are behind.
    let state = Arc::new(State { settings, room: Broadcast::new(64) });
    let handler = routes! {
        GET "/" => |ctx: &mut Context| ctx.response.set_html(PAGE),
        GET "/echo" => with_state(&state, echo),
        GET "/chat" => with_state(&state, chat),
    };
    let running = Server::bind(address).stop_on(shutdown_signal(), Duration::from_secs(3)).start(handler)?;
    println!("listening on {running}");
    running.wait()
}

/// Sends messages back, until the peer closes or the server stops.
async fn echo(state: &State, ctx: &mut Context) -> corehttp::Result {
    let mut socket = ctx.websocket(&state.settings).await?;
    let WebSocket { reader, writer, .. } = &mut socket;
    while let Some(message) = reader.receive().await? {
        writer.send(message).await?;
    }
    Ok(())
}

/// Sends messages to all, until the peer closes or the server stops. One that is slow misses some.
async fn chat(state: &State, ctx: &mut Context) -> corehttp::Result {
    let mut socket = ctx.websocket(&state.settings).await?;
    let WebSocket { reader, writer, .. } = &mut socket;
    let mut member = state.room.join(OnLag::Skip);
    tokio::select! {
        // Messages that were sent before the peer closes are forwarded first.
        biased;
        done = member.forward(writer) => done?,
        done = pass_on(reader, &state.room) => done?,
    }
    Ok(())
}

/// Sends the messages of one member to all.
async fn pass_on(reader: &mut websocket::Reader, room: &Broadcast) -> io::Result<()> {
    while let Some(message) = reader.receive().await? {
        room.send(message);
    }
    Ok(())
}

const PAGE: &str = r#"<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>WebSocket</title>
<style>
  :root { color-scheme: light dark; background: Canvas; color: CanvasText }
  body { font: 1rem/1.5 system-ui, sans-serif; max-width: 40rem; margin: 2rem auto; padding: 0 1rem }
  input, button { font: inherit; max-width: 100% }
  li { overflow-wrap: anywhere }
</style>
<main>
  <h1>WebSocket</h1>
  <section aria-labelledby="echo-title">
    <h2 id="echo-title">Echo</h2>
    <form data-path="/echo"><label>Text <input name="text" value="hello" autocomplete="off"></label> <button>Send</button></form>
    <ul aria-label="Messages of the echo" aria-live="polite"></ul>
  </section>
  <section aria-labelledby="chat-title">
    <h2 id="chat-title">Chat</h2>
    <form data-path="/chat"><label>Message <input name="text" autocomplete="off"></label> <button>Say to all</button></form>
    <ul aria-label="Messages of the chat" aria-live="polite"></ul>
  </section>
</main>
<script>
  for (const form of document.forms) {
    const scheme = location.protocol === "https:" ? "wss" : "ws";
    const socket = new WebSocket(`${scheme}://${location.host}${form.dataset.path}`);
    const show = text => {
      const line = document.createElement("li");
      line.textContent = text;
      form.nextElementSibling.append(line);
    };
    socket.onopen = () => { show("open"); socket.send("hello from a page"); };
    socket.onmessage = event => show(`received: ${event.data}`);
    socket.onclose = event => show(`closed: ${event.code}`);
    form.onsubmit = event => {
      event.preventDefault();
      socket.send(form.text.value);
    };
  }
</script>
"#;
