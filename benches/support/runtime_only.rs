//! What the limit does, as tasks of tokio's: how much of a server's time is its runtime's.

use std::net::SocketAddr;

use memchr::memmem;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Builder;

use crate::child::announce;
use crate::limit::{ANSWER, answers};

pub(crate) fn serve_tokio() {
    let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let any: SocketAddr = ([127, 0, 0, 1], 0).into();
        let listener = TcpListener::bind(any).await.expect("a free port");
        announce(listener.local_addr().expect("it is bound"));
        let answers: &'static [u8] = answers().leak();
        loop {
            let (stream, _) = listener.accept().await.expect("a connection");
            stream.set_nodelay(true).expect("a socket");
            tokio::spawn(answer(stream, answers));
        }
    });
}

async fn answer(mut stream: TcpStream, answers: &[u8]) {
    let mut input = vec![0; 8 << 10];
    while let Ok(read @ 1..) = stream.read(&mut input).await {
        let count = memmem::find_iter(&input[..read], b"\r\n\r\n").count();
        // A peer that has gone shows itself at the next read.
        let _ = stream.write_all(&answers[..count * ANSWER.len()]).await;
    }
}
