//! Compresses its responses, and decodes compressed requests: `cargo run --release --example compress -- [ADDR]`.
//!
//! | request | response |
//! |---|---|
//! | GET `/` | a page of some KiB |
//! | GET `/large` | a page of 2 MiB, compressed on a thread of its own |
//! | GET `/events` | an event each second, ten in all, each of which arrives at once |
//! | POST `/` | the body, decoded, as text |
//!
//! ```text
//! curl --compressed -i http://127.0.0.1:8080/
//! curl --compressed -N http://127.0.0.1:8080/events
//! echo hello | gzip | curl -H 'content-encoding: gzip' --data-binary @- http://127.0.0.1:8080/
//! ```

use std::time::Duration;

use corehttp::middleware::Compress;
use corehttp::middleware::wrap;
use corehttp::sse::Event;
use corehttp::{Context, Method, Server, Status, shutdown_signal};

fn main() -> corehttp::Result {
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:8080".into());
    let server = Server::bind(address).stop_on(shutdown_signal(), Duration::from_secs(10));
    let running = server.start(wrap(Compress::new(), answer))?;
    println!("listening on {running}");
    running.wait()
}

async fn answer(ctx: &mut Context) -> corehttp::Result {
    match (ctx.request.method(), ctx.request.path()) {
        (Method::Get | Method::Head, "/") => ctx.response.set_html(page(50)),
        (Method::Get | Method::Head, "/large") => ctx.response.set_html(page(40_000)),
        (Method::Get | Method::Head, "/events") => events(ctx).await?,
        (Method::Post, "/") => {
            ctx.decode_body().await?;
            let Context { request, response, .. } = ctx;
            response.set_text(request.text()?);
        }
        _ => return Err(Status::NOT_FOUND.into()),
    }
    Ok(())
}

fn page(lines: usize) -> String {
    let lines: String = (1..=lines).map(|n| format!("<li>Bottle number {n} on the wall</li>\n")).collect();
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>Bottles</title>\n\
         <style>:root {{ color-scheme: light dark; background: Canvas; color: CanvasText }}\n\
         body {{ font: 1rem/1.5 system-ui, sans-serif }}</style>\n\
         <main>\n<h1>Bottles</h1>\n<ol>\n{lines}</ol>\n</main>\n"
    )
}

async fn events(ctx: &mut Context) -> corehttp::Result {
    let mut events = ctx.events().await?;
    for number in 1..=10 {
        events.send(Event { id: Some(&number.to_string()), ..Event::new("tick") }).await?;
        events.wait(tokio::time::sleep(Duration::from_secs(1))).await?;
    }
    Ok(events.finish().await?)
}
