//! Routes as they are written for other crates.

use corehttp::{Context, routes};

const USERS: &str = "/users";

fn show(ctx: &mut Context) {
    ctx.response.set_text("a user");
}

fn main() {
    let _ = routes! { "/users" => get(show) };
    let _ = routes! { GET("/users") => show };
    let _ = routes! { GET "/users", show };
    let _ = routes! { GET "/users" => show; POST "/users" => show };
    let _ = routes! { GET | POST "/users" => show };
    let _ = routes! { GET USERS => show };
}
