//! Closures whose parameters have no types.

use corehttp::middleware::wrap;
use corehttp::{Context, Server};

fn main() -> corehttp::Result {
    Server::bind("127.0.0.1:0").start(|ctx| ctx.response.set_text("hello"))?;
    Server::bind("127.0.0.1:0").run(|ctx| async move { ctx.response.set_text("hello") })
}

fn middleware() {
    let _ = wrap(async |ctx: &mut Context, next| next.handle(ctx).await, |_: &mut Context| ());
}
