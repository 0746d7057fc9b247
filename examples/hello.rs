//! The first program: `cargo run --release --example hello -- [ADDR] [CORES]`, then `curl -i http://127.0.0.1:8080/`.
//!
//! Listens on 127.0.0.1:8080 with all cores unless told otherwise. Ctrl-C lets requests in flight finish.

use std::time::Duration;

use corehttp::{Context, Server, shutdown_signal};

fn main() -> corehttp::Result {
    let mut args = std::env::args().skip(1);
    let address = args.next().unwrap_or_else(|| "127.0.0.1:8080".into());
    let mut server =
        Server::bind(address).name("corehttp")?.stop_on(shutdown_signal(), Duration::from_secs(10));
    if let Some(cores) = args.next() {
        server = server.cores(cores.parse()?);
    }
    let running = server.start(|ctx: &mut Context| ctx.response.set_text("Hello, World!"))?;
    println!("listening on {running}");
    running.wait()
}
