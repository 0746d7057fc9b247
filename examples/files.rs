//! Serves a directory: `cargo run --release --example files -- DIR [ADDR]`.
//!
//! What is asked for as `/a.js` is answered with `a.js.br`, `a.js.zst` or `a.js.gz` where the peer likes that better.
//! Directories without an `index.html` are listed. Whatever has a hash in its name, below `/assets/`, keeps for ever;
//! everything else is asked for again, and answered 304 where it has not changed.

use std::time::Duration;

use corehttp::{Context, Files, Handler, IntoHandler, Server};

fn main() -> corehttp::Result {
    let mut args = std::env::args().skip(1);
    let directory =
        args.next().ok_or("which directory? `files DIR [ADDR]`").map_err(std::io::Error::other)?;
    let address = args.next().unwrap_or_else(|| "127.0.0.1:8080".into());
    let files = Files::new(directory)?
        .listing()
        .precompressed()
        .cache_control("/assets/*", "public, max-age=31536000, immutable")?
        .cache_control("*", "no-cache")?;
    let handler = async move |ctx: &mut Context| -> corehttp::Result {
        // Nothing is taken for what it does not say it is.
        ctx.response.headers.set("x-content-type-options", "nosniff")?;
        files.handle(ctx).await
    };
    let server = Server::bind(address).on_stop(interrupted(), Duration::from_secs(10));
    let running = server.on_error(|refusal| eprintln!("{refusal}")).start(handler.into_handler())?;
    println!("listening on {running}");
    running.wait()
}

/// Ready at Ctrl-C, or never where it cannot be heard.
async fn interrupted() {
    if tokio::signal::ctrl_c().await.is_err() {
        std::future::pending().await
    }
}
