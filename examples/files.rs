//! Serves a directory: `cargo run --release --example files -- DIR [ADDR]`.
//!
//! A request for `/a.js` is answered with `a.js.br`, `a.js.zst` or `a.js.gz` if there is one and the peer prefers it.
//! Directories without an `index.html` are listed. Browsers keep the files below `/assets/`, whose names should have a
//! hash, and ask again for all others; the response is 304 if a file has not changed.

use std::time::Duration;

use corehttp::fs::Files;
use corehttp::server::ErrorLog;
use corehttp::{Context, Handler, IntoHandler, Server, shutdown_signal};

fn main() -> corehttp::Result {
    let mut args = std::env::args().skip(1);
    let directory = args.next().ok_or_else(|| std::io::Error::other("usage: files DIR [ADDR]"))?;
    let address = args.next().unwrap_or_else(|| "127.0.0.1:8080".into());
    let files = Files::new(directory)?
        .listing(true)
        .precompressed(true)
        .cache_control("/assets/*", "public, max-age=31536000, immutable")?
        .cache_control("*", "no-cache")?;
    let handler = async move |ctx: &mut Context| -> corehttp::Result {
        // Browsers should not guess another type than the one that is sent.
        ctx.response.headers.set("x-content-type-options", "nosniff")?;
        files.handle(ctx).await
    };
    let server =
        Server::bind(address).stop_on(shutdown_signal(), Duration::from_secs(10)).observe(ErrorLog::stderr());
    let running = server.start(handler.into_handler())?;
    println!("listening on {running}");
    running.wait()
}
