use std::rc::Rc;
use std::sync::Arc;

use corehttp::{Context, Server};

fn main() {
    let shared = Arc::new(String::from("hello"));
    let _ = Server::bind("127.0.0.1:0").run(|ctx: &mut Context| ctx.response.set_text(&*shared));
}

fn per_core() {
    let own = Rc::new(String::from("hello"));
    let _ = Server::bind("127.0.0.1:0").run(move |ctx: &mut Context| ctx.response.set_text(&*own));
}
