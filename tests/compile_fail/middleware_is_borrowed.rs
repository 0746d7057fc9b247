//! Middleware that does not live as long as a server may.

use corehttp::middleware::{Middleware, Next, wrap};
use corehttp::{Context, Result};

struct Named<'a>(&'a str);

impl Middleware for Named<'_> {}

async fn log(name: &str, ctx: &mut Context, next: Next<'_>) -> Result {
    println!("{name}");
    next.handle(ctx).await
}

fn main() {
    let name = String::from("log");
    let log = async |ctx: &mut Context, next: Next<'_>| log(&name, ctx, next).await;
    let _ = wrap(log, |_: &mut Context| ());
}
