use corehttp::Context;

async fn handler(ctx: &mut Context) -> corehttp::Result {
    ctx.response.status = 404;
    ctx.response.headers.insert("x-id", 7)?;
    let text = ctx.request.body.text().await?;
    ctx.response.set_text(text);
    Ok(())
}

async fn client(url: String) -> Result<(), corehttp::ClientError> {
    corehttp::Client::new().get(url).await?;
    Ok(())
}

fn main() {
    let _ = (handler, client);
}
