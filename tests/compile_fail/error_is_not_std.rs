use std::error::Error;

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

fn main() -> corehttp::Result {
    Server::bind("127.0.0.1:0").run(handler)
}
