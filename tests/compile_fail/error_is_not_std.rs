use std::error::Error;
use std::sync::Mutex;

use corehttp::{Context, Server};

fn anyhow() -> anyhow::Result<()> {
    Ok(())
}

fn boxed() -> Result<(), Box<dyn Error + Send + Sync>> {
    Ok(())
}

fn boxed_for_one_thread() -> Result<(), Box<dyn Error>> {
    Ok(())
}

async fn handler(ctx: &mut Context) -> corehttp::Result {
    anyhow()?;
    boxed()?;
    boxed_for_one_thread()?;
    let id = ctx.request.path().strip_prefix("/users/").ok_or("no user")?;
    let id: u32 = id.parse().map_err(|_| format!("{id} is no number"))?;
    ctx.response.set_text(id.to_string());
    Ok(())
}

fn count(visits: &Mutex<u64>, _: &mut Context) -> corehttp::Result {
    *visits.lock()? += 1;
    Ok(())
}

struct Denied;

fn enter() -> Result<(), Denied> {
    Err(Denied)
}

fn guard(_: &mut Context) -> corehttp::Result {
    Ok(enter()?)
}

fn main() -> corehttp::Result {
    Server::bind("127.0.0.1:0").run(handler)
}
