//! A page that ticks, by server-sent events: `cargo run --release --example events -- [ADDR]`.
//!
//! | request | response |
//! |---|---|
//! | GET `/` | a page that shows the events |
//! | GET `/events` | a numbered tick each second; a page that has lost its connection goes on where it was |

use std::pin::pin;
use std::time::Duration;

use corehttp::message::FromText;
use corehttp::sse::Event;
use corehttp::{Context, Method, Server, Status, shutdown_signal};

fn main() -> corehttp::Result {
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:8080".into());
    let server = Server::bind(address).stop_on(shutdown_signal(), Duration::from_secs(3));
    let running = server.start(answer)?;
    println!("listening on {running}");
    running.wait()
}

async fn answer(ctx: &mut Context) -> corehttp::Result {
    match (ctx.request.method(), ctx.request.path()) {
        (Method::Get | Method::Head, "/") => ctx.response.set_html(PAGE),
        (Method::Get, "/events") => ticks(ctx).await?,
        _ => return Err(Status::NOT_FOUND.into()),
    }
    Ok(())
}

async fn ticks(ctx: &mut Context) -> corehttp::Result {
    let mut stopping = pin!(ctx.stopping());
    let mut events = ctx.events().await?;
    let last = events.last_id().and_then(u32::from_text).unwrap_or(0);
    let mut clock = tokio::time::interval(Duration::from_secs(1));
    for number in last.saturating_add(1)..=u32::MAX {
        tokio::select! {
            // If ticks were rarer, comments would keep the connection alive meanwhile.
            tick = events.wait(clock.tick()) => tick?,
            () = &mut stopping => break,
        };
        let (id, data) = (number.to_string(), format!("tick {number}\nand its second line"));
        events.send(Event { id: Some(&id), event: Some("tick"), ..Event::new(&data) }).await?;
    }
    Ok(events.finish().await?)
}

const PAGE: &str = r#"<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Ticks</title>
<style>
  :root { color-scheme: light dark; background: Canvas; color: CanvasText }
  body { font: 1rem/1.5 system-ui, sans-serif; max-width: 40rem; margin: 2rem auto; padding: 0 1rem }
  pre { border-left: .2rem solid teal; padding-left: 1rem; white-space: pre-wrap }
</style>
<main>
  <h1>Ticks</h1>
  <p id="state" role="status">connecting</p>
  <div id="heard"></div>
</main>
<script>
  const source = new EventSource("/events");
  const say = text => document.getElementById("state").textContent = text;
  source.onopen = () => say("connected");
  source.onerror = () => say("lost; the browser comes again by itself");
  source.addEventListener("tick", event => {
    const line = document.createElement("pre");
    line.textContent = `${event.lastEventId}: ${event.data}`;
    document.getElementById("heard").append(line);
  });
</script>
"#;
