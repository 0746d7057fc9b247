//! Patterns and handlers that no router takes.

use corehttp::{Context, routes};

fn page(ctx: &mut Context) {
    ctx.response.set_text("page");
}

fn main() {
    let _ = routes! { GET "/users/:id" => page };
    let _ = routes! { GET "/users/{id" => page };
    let _ = routes! { mount "/static/" => page };
    let _ = routes! { GET "/users/{id}" => page, POST "/users/{id}" => page, GET "/users/{name}" => page };
    let _ = routes! { GET "/number" => 7 };
    let _ = routes! { get "/users" => page };
    let _ = routes! { ANY "/users" => page };
    let _ = routes! { GET "*" => page };
}
