//! The limit of clients: a write and reads on a socket of tokio's, which is what all but ureq and Go stand on.

use std::net::SocketAddr;

use hyper::body::Buf;
use memchr::memmem;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::{Ask, Fault, Task, check};

pub(super) struct Raw {
    address: SocketAddr,
    task: Task,
    head: Vec<u8>,
    stream: Option<TcpStream>,
    buffer: Vec<u8>,
}

impl Raw {
    pub(super) fn new(task: Task, address: SocketAddr) -> Raw {
        let (method, length) = match task.content() {
            Some(content) => ("POST", format!("content-length: {}\r\n", content.len())),
            None => ("GET", String::new()),
        };
        let head = format!("{method} {} HTTP/1.1\r\nhost: {address}\r\n{length}\r\n", task.path());
        let buffer = vec![0; HEAD_MAX + task.response().len()];
        Raw { address, task, head: head.into_bytes(), stream: None, buffer }
    }

    async fn connect(&self) -> Result<TcpStream, Fault> {
        let stream = TcpStream::connect(self.address).await?;
        stream.set_nodelay(true)?;
        Ok(stream)
    }
}

impl Ask for Raw {
    async fn ask(&mut self) -> Result<(), Fault> {
        let mut stream = match self.stream.take() {
            Some(stream) => stream,
            None => self.connect().await?,
        };
        let content = self.task.content().unwrap_or_default();
        stream.write_all_buf(&mut Buf::chain(self.head.as_slice(), content)).await?;
        let (mut filled, expected) = (0, self.task.response());
        let start = loop {
            let read = stream.read(&mut self.buffer[filled..]).await?;
            if read == 0 {
                return Err("the server closed too early".into());
            }
            filled += read;
            let start = memmem::find(&self.buffer[..filled], b"\r\n\r\n").map_or(filled, |at| at + 4);
            if filled - start >= expected.len() {
                break start;
            }
        };
        check(&self.buffer[start..filled], self.task)?;
        if self.task != Task::Close {
            self.stream = Some(stream);
        }
        Ok(())
    }
}

const HEAD_MAX: usize = 4 << 10;
