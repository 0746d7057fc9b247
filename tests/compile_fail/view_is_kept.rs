use corehttp::{Context, Server};

fn keep<T: ?Sized>(_: &'static T) {}

fn handler(ctx: &mut Context) {
    keep(ctx.request.path());
}

async fn async_handler(ctx: &mut Context) {
    keep(ctx.request.headers.get_bytes("cookie").unwrap());
}

fn main() -> corehttp::Result {
    Server::bind("127.0.0.1:0").start(handler)?;
    Server::bind("127.0.0.1:0").start(async_handler)?;
    Server::bind("127.0.0.1:0").run(|ctx: &mut Context| keep(ctx.request.body.bytes()))
}
