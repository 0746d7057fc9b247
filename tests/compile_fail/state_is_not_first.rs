//! A function with state takes the state first, by reference and of its own type; a trait object without a lifetime of its
//! own.

use std::sync::Arc;

use corehttp::{Context, Server, with_state};

fn show(ctx: &mut Context, greeting: &str) {
    ctx.response.set_text(greeting);
}

fn keep(greeting: Arc<str>, ctx: &mut Context) {
    ctx.response.set_text(greeting);
}

async fn count(visits: &u64, ctx: &mut Context) {
    ctx.response.set_text(visits.to_string());
}

trait Greeter {}

fn greet(_: &dyn Greeter, _: &mut Context) {}

fn by_trait(greeter: Arc<dyn Greeter>) {
    let _ = Server::new().service(with_state(&greeter, greet));
}

fn main() {
    let greeting: Arc<str> = "hello".into();
    let _ = Server::new().service(with_state(&greeting, show));
    let _ = Server::new().service(with_state(&greeting, keep));
    let _ = Server::new().service(with_state(&7, count));
}
