use corehttp::{Client, Context};

async fn echo(ctx: &mut Context) -> corehttp::Result {
    let mut socket = ctx.websocket(&Default::default()).await?;
    while let Some(message) = socket.reader.receive().await? {
        socket.writer.send(message).await?;
    }
    Ok(())
}

async fn listen(client: &Client) -> corehttp::Result {
    let mut socket = client.websocket("ws://127.0.0.1:8080/").await?;
    socket.close().await
}

fn main() {}
