//! Groups of routes as they are not written.

use corehttp::middleware::Next;
use corehttp::{Context, Result, routes};

async fn log(ctx: &mut Context, next: Next<'_>) -> Result {
    next.handle(ctx).await
}

fn show(ctx: &mut Context) {
    ctx.response.set_text("a user");
}

fn main() {
    let _ = routes! { wrap log, log => { GET "/users" => show } };
    let _ = routes! { wrap(log) { GET "/users" => show } };
    let _ = routes! { wrap log => GET "/users" => show };
    let _ = routes! { wrap log => { "/users" => show } };
    let _ = routes! { wrap log => { GET "/users" => show } POST "/users" show };
    let _ = routes! { wrap show => { GET "/users" => show } };
}
