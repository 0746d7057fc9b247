use corehttp::{Context, BodyReader, Server};

fn keep(_: BodyReader<'static>) {}

fn handler(ctx: &mut Context) {
    keep(ctx.body_reader());
}

fn main() -> corehttp::Result {
    Server::bind("127.0.0.1:0").run(handler)
}
