//! Requests of a client, as they are sent and given content in other crates.

use corehttp::{Client, ClientError};

async fn sends(client: &Client) -> Result<(), ClientError> {
    client.get("http://a/").send().await?;
    client.post("http://a/").body("text").await?;
    Ok(())
}

fn main() {
    let _ = sends;
}
