//! Sends back what it receives: `cargo run --release --example echo -- [ADDR] [CORES]`.
//!
//! | request | response |
//! |---|---|
//! | GET `/` | `Hello, World!` |
//! | POST or PUT `/echo` | the body, byte for byte, as it arrives: of any length, in constant memory |
//! | GET `/headers` | the request's fields, a line each, names in lower case |
//! | GET `/status/N` | that status, 200 to 599 |

use std::io::Write;
use std::time::Duration;

use corehttp::message::FromText;
use corehttp::middleware::wrap;
use corehttp::{BodyPlan, Context, Method, Server, Status, shutdown_signal};

fn main() -> corehttp::Result {
    let mut args = std::env::args().skip(1);
    let address = args.next().unwrap_or_else(|| "127.0.0.1:8080".into());
    let mut server = Server::bind(address).stop_on(shutdown_signal(), Duration::from_secs(10));
    if let Some(cores) = args.next() {
        server = server.cores(cores.parse()?);
    }
    let running = server.start(wrap(BodyPlan::Stream, answer))?;
    println!("listening on {running}");
    running.wait()
}

async fn answer(ctx: &mut Context) -> corehttp::Result {
    match (ctx.request.method(), ctx.request.path()) {
        (Method::Get | Method::Head, "/") => ctx.response.set_shared_bytes("text/plain", "Hello, World!")?,
        (Method::Post | Method::Put, "/echo") => echo(ctx).await?,
        (Method::Get | Method::Head, "/headers") => headers(ctx)?,
        (Method::Get | Method::Head, path) => match path.strip_prefix("/status/") {
            Some(status) => ctx.response.status = parse_status(status)?,
            None => return Err(Status::NOT_FOUND.into()),
        },
        _ => return Err(Status::NOT_FOUND.into()),
    }
    Ok(())
}

/// Sends the body back while it arrives.
async fn echo(ctx: &mut Context) -> corehttp::Result {
    let Context { request, response, .. } = ctx;
    if let Some(content_type) = request.headers.get_bytes("content-type") {
        response.headers.set("content-type", content_type)?;
    }
    if let Some(length) = request.headers.content_length() {
        response.headers.set("content-length", length)?;
    }
    let (mut body, mut out) = ctx.duplex().await?;
    while let Some(chunk) = body.chunk().await? {
        out.write_all(chunk).await?;
    }
    out.finish().await?;
    Ok(())
}

fn headers(ctx: &mut Context) -> corehttp::Result {
    let Context { request, response, .. } = ctx;
    response.set_shared_bytes("text/plain", "")?;
    for (name, value) in &request.headers {
        // A value may hold bytes that are no text.
        write!(response.body, "{}: ", name.to_ascii_lowercase())?;
        response.body.write_all(value)?;
        writeln!(response.body)?;
    }
    Ok(())
}

fn parse_status(text: &str) -> corehttp::Result<Status> {
    let status = u16::from_text(text).and_then(Status::new).filter(|status| !status.is_informational());
    status.ok_or_else(|| Status::NOT_FOUND.into())
}
