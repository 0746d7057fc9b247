//! A block that borrows the context, and closures that borrow what they should own.

use corehttp::{Context, Server, routes};

fn main() -> corehttp::Result {
    Server::bind("127.0.0.1:0").run(|ctx: &mut Context| async move { ctx.response.set_text("hello") })
}

fn own() {
    let greeting = String::from("hello");
    let _ = routes! {
        GET "/" => async |ctx: &mut Context| ctx.response.set_text(greeting.clone()),
        GET "/plain" => |ctx: &mut Context| ctx.response.set_text(greeting.clone()),
    };
}
