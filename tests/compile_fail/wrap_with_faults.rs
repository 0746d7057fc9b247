//! Things that are no middleware, and things that are no handlers to be wrapped.

use corehttp::middleware::{Next, wrap};
use corehttp::{Context, Handler, Result};

async fn log(ctx: &mut Context, next: Next<'_>) -> Result {
    next.handle(ctx).await
}

/// A function as it is written for other crates.
async fn around(next: &impl Handler, ctx: &mut Context) -> Result {
    next.handle(ctx).await
}

fn check(ctx: &mut Context) -> Result {
    ctx.request.text().map(drop).map_err(Into::into)
}

async fn succeeds(ctx: &mut Context, next: Next<'_>) -> bool {
    next.handle(ctx).await.is_ok()
}

fn main() {
    let _ = wrap(log, "hello");
    let _ = wrap(log, log);
    let _ = wrap(check, |_: &mut Context| ());
    let _ = wrap([log, log], |_: &mut Context| ());
    let _ = wrap((log, check), |_: &mut Context| ());
    let _ = wrap(around, |_: &mut Context| ());
    let _ = wrap(succeeds, |_: &mut Context| ());
}
