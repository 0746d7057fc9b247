use corehttp::{Context, Server};

/// Views of the request live as long as the handler, whatever becomes of the response.
async fn handler(ctx: &mut Context) -> corehttp::Result {
    let (cookie, path) = (ctx.request.headers.text("cookie"), ctx.request.path());
    ctx.response.headers.set("x-path", path)?;
    tokio::task::yield_now().await;
    ctx.response.text(cookie.unwrap_or_default());
    ctx.response.headers.append("x-path", path)?;
    Ok(())
}

fn main() {
    let _ = || Server::bind("127.0.0.1:0").run(handler);
}
