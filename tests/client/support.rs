//! A server that answers as it is told, byte for byte.

use std::future::Future;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// A server, and what it has seen so far.
pub struct Scripted {
    pub url: String,
    connections: Arc<AtomicUsize>,
}

impl Scripted {
    /// Serves each connection with the future that `serve` makes of it and its number.
    pub async fn new<F>(serve: impl Fn(Peer, usize) -> F + Send + 'static) -> Scripted
    where
        F: Future<Output = io::Result<()>> + Send + 'static,
    {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let connections = Arc::new(AtomicUsize::new(0));
        let count = connections.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let number = count.fetch_add(1, Ordering::Relaxed);
                tokio::spawn(serve(Peer { stream }, number));
            }
        });
        Scripted { url, connections }
    }

    /// Gives the same answer to every request.
    pub async fn always(answer: impl Into<Vec<u8>>) -> Scripted {
        let answer: Vec<u8> = answer.into();
        Scripted::new(move |mut peer, _| {
            let answer = answer.clone();
            async move {
                while peer.request().await?.is_some() {
                    peer.say(&answer).await?;
                }
                Ok(())
            }
        })
        .await
    }

    /// How many connections were made.
    pub fn connections(&self) -> usize {
        self.connections.load(Ordering::Relaxed)
    }
}

/// The server's end of one connection.
pub struct Peer {
    pub stream: TcpStream,
}

impl Peer {
    /// The head of the next request; none if there is no other.
    pub async fn request(&mut self) -> io::Result<Option<String>> {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            match self.stream.read_u8().await {
                Ok(byte) => head.push(byte),
                Err(_) if head.is_empty() => return Ok(None),
                Err(error) => return Err(error),
            }
        }
        Ok(Some(String::from_utf8(head).unwrap()))
    }

    pub async fn say(&mut self, bytes: impl AsRef<[u8]>) -> io::Result<()> {
        self.stream.write_all(bytes.as_ref()).await
    }
}
