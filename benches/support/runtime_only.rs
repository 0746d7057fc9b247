//! The work of the limit, as tasks of tokio's: how much of a server's time is its runtime's.

use memchr::memmem;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::limit::{RESPONSE, responses};
use crate::servers::serve_tokio;

pub fn serve_runtime_only() {
    let responses: &'static [u8] = responses().leak();
    serve_tokio(|stream| drop(tokio::spawn(answer(stream, responses))));
}

async fn answer(mut stream: TcpStream, responses: &[u8]) {
    let mut input = vec![0; 8 << 10];
    while let Ok(read @ 1..) = stream.read(&mut input).await {
        let count = memmem::find_iter(&input[..read], b"\r\n\r\n").count();
        // A peer that has gone shows itself at the next read.
        let _ = stream.write_all(&responses[..count * RESPONSE.len()]).await;
    }
}
