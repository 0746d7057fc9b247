//! The limit: an edge-triggered epoll loop that reads and writes. Of a request it looks at the method, and at the length
//! of a body, which it drops; nothing is parsed, timed or checked.

use std::io::{self, ErrorKind, Read, Write};

use memchr::memmem;
use mio::net::{TcpListener, TcpStream};
use mio::{Events, Interest, Poll, Token};

use crate::environment::port;

pub(super) fn serve() -> io::Result<()> {
    let mut listener = TcpListener::bind(([0, 0, 0, 0], port("PORT", 8080)).into())?;
    let mut poll = Poll::new()?;
    poll.registry().register(&mut listener, LISTENER, Interest::READABLE)?;
    let (mut events, mut input) = (Events::with_capacity(1024), vec![0; INPUT_LEN]);
    let mut connections: Vec<Option<Connection>> = Vec::new();
    loop {
        match poll.poll(&mut events, None) {
            // strace interrupts when it attaches.
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            polled => polled?,
        }
        for event in &events {
            if event.token() != LISTENER {
                let place = &mut connections[event.token().0];
                place.take_if(|connection| connection.drive(&mut input).is_err());
                continue;
            }
            while let Ok((mut stream, _)) = listener.accept() {
                stream.set_nodelay(true)?;
                poll.registry().register(&mut stream, Token(connections.len()), Interest::READABLE)?;
                connections.push(Some(Connection { stream, len: 0, left: 0 }));
            }
        }
    }
}

const LISTENER: Token = Token(usize::MAX - 1);
const INPUT_LEN: usize = 512 << 10;

struct Connection {
    stream: TcpStream,
    /// The length of the last body, and how much of it is missing.
    len: usize,
    left: usize,
}

impl Connection {
    /// Answers what is there. An error is the end of the connection, for whatever reason.
    fn drive(&mut self, input: &mut [u8]) -> io::Result<()> {
        loop {
            let read = match self.stream.read(input) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(read) => read,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            };
            self.answer(&input[..read])?;
        }
    }

    fn answer(&mut self, mut input: &[u8]) -> io::Result<()> {
        while !input.is_empty() {
            if self.left == 0 {
                if input.starts_with(b"GET") {
                    let count = memmem::find_iter(input, b"\r\n\r\n").count();
                    return self.stream.write_all(&response("ok").repeat(count));
                }
                let end = memmem::find(input, b"\r\n\r\n").ok_or(ErrorKind::InvalidData)? + 4;
                self.len = content_length(&input[..end]);
                (self.left, input) = (self.len, &input[end..]);
            }
            let dropped = self.left.min(input.len());
            (self.left, input) = (self.left - dropped, &input[dropped..]);
            if self.left == 0 {
                self.stream.write_all(&response(&self.len.to_string()))?;
            }
        }
        Ok(())
    }
}

/// The number after `Content-Length`, of peers that are known to send one.
fn content_length(head: &[u8]) -> usize {
    let at = memmem::find(head, b"ength: ").map_or(head.len(), |at| at + 7);
    let digits = head[at..].iter().take_while(|byte| byte.is_ascii_digit());
    digits.fold(0, |number, digit| number * 10 + usize::from(digit - b'0'))
}

fn response(content: &str) -> Vec<u8> {
    let head = "HTTP/1.1 200 OK\r\nDate: Sat, 21 Nov 2026 12:00:00 GMT\r\nContent-Type: text/plain";
    format!("{head}\r\nContent-Length: {}\r\n\r\n{content}", content.len()).into_bytes()
}
