//! Middleware of a group that cannot be cloned for each route: one error, at the middleware.

use corehttp::middleware::{Middleware, guard};
use corehttp::{Context, routes};

struct Log;

impl Middleware for Log {}

fn show(ctx: &mut Context) {
    ctx.response.set_text("a user");
}

fn main() {
    let _ = routes! { wrap Log => { GET "/users" => show, POST "/users" => show, DELETE "/users" => show } };
    let is_open = guard(|_: &mut Context| Ok(()));
    let _ = routes! { wrap (is_open, Log) => { GET "/users" => show, POST "/users" => show } };
}
