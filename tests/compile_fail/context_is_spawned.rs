use corehttp::{Context, Server};

async fn handler(ctx: &mut Context) {
    tokio::task::spawn_local(async move { ctx.response.set_text("too late") });
}

fn main() -> corehttp::Result {
    Server::bind("127.0.0.1:0").run(handler)
}
