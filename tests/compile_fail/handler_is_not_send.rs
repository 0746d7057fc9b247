use std::rc::Rc;

use corehttp::{Context, Handler, Server};

struct Greeter(Rc<str>);

impl Handler for Greeter {
    async fn handle(&self, ctx: &mut Context) -> corehttp::Result {
        ctx.response.set_text(&self.0);
        Ok(())
    }
}

fn main() -> corehttp::Result {
    Server::bind("127.0.0.1:0").run(Greeter("hi".into()))
}
