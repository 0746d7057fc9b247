//! Functions that are no checks: each is one error.

use corehttp::middleware::{Next, guard, wrap};
use corehttp::{Context, Result, routes};

fn returns_a_bool(ctx: &mut Context) -> bool {
    ctx.request.bearer_auth().is_some()
}

fn takes_it_shared(ctx: &Context) -> Result {
    ctx.request.text().map(drop).map_err(Into::into)
}

async fn returns_nothing(_: &mut Context) {}

async fn is_middleware(ctx: &mut Context, next: Next<'_>) -> Result {
    next.handle(ctx).await
}

fn show(ctx: &mut Context) {
    ctx.response.set_text("a user");
}

fn main() {
    let _ = routes! { wrap guard(returns_a_bool) => { GET "/users" => show, POST "/users" => show } };
    let _ = routes! { wrap guard(takes_it_shared) => { GET "/users" => show, POST "/users" => show } };
    let _ = routes! { wrap guard(returns_nothing) => { GET "/users" => show, POST "/users" => show } };
    let _ = wrap(guard(is_middleware), show);
}
