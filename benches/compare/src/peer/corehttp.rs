//! The application in corehttp.

use std::io::{self, Write};

use corehttp::middleware::{plan, wrap};
use corehttp::{BodyPlan, Context, Method, Server, Status};

use crate::application::{HELLO, PIECE_BYTES, PIECES, Page, SERVER_NAME};
use crate::child::announce;

pub(super) fn serve() -> io::Result<()> {
    let server = Server::bind("127.0.0.1:0").cores(1).name(SERVER_NAME).expect("a valid name");
    let by_path = |request: &corehttp::Request| match request.path() {
        "/upload" => BodyPlan::Stream,
        _ => BodyPlan::Buffer,
    };
    let running = server.start(wrap(plan(by_path), respond)).map_err(io::Error::other)?;
    announce(running.local_addr());
    running.wait().map_err(io::Error::other)
}

async fn respond(ctx: &mut Context) -> corehttp::Result {
    match (ctx.request.method(), ctx.request.path()) {
        (Method::Get, "/") => ctx.response.set_shared_bytes("text/plain", HELLO)?,
        (Method::Get, "/json") => {
            ctx.response.headers.set("content-type", "application/json")?;
            serde_json::to_writer(&mut ctx.response.body, &Page::new())?;
        }
        (Method::Get, "/download") => download(ctx).await?,
        (Method::Post, "/") => {
            let Context { request, response, .. } = ctx;
            response.headers.set("content-type", "text/plain")?;
            std::mem::swap(&mut request.body, &mut response.body);
        }
        (Method::Post, "/upload") => upload(ctx).await?,
        _ => return Err(Status::NOT_FOUND.into()),
    }
    Ok(())
}

async fn download(ctx: &mut Context) -> corehttp::Result {
    ctx.response.headers.set("content-type", "text/plain")?;
    let mut writer = ctx.body_writer().await?;
    for _ in 0..PIECES {
        writer.write_all(&PIECE_BYTES).await?;
    }
    writer.finish().await?;
    Ok(())
}

async fn upload(ctx: &mut Context) -> corehttp::Result {
    let (mut len, mut body) = (0, ctx.body_reader());
    while let Some(chunk) = body.chunk().await? {
        len += chunk.len();
    }
    ctx.response.headers.set("content-type", "text/plain")?;
    Ok(write!(ctx.response.body, "{len}")?)
}
