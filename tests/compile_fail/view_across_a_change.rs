use corehttp::{Context, Server};

fn handler(ctx: &mut Context) {
    let cookie = ctx.request.headers.get("cookie");
    ctx.request.headers.clear();
    ctx.response.set_text(cookie.unwrap_or_default());
}

fn main() -> corehttp::Result {
    Server::bind("127.0.0.1:0").run(handler)
}
