//! The limit: what a server costs that does nothing but read and write.
//!
//! An edge-triggered epoll loop that answers from a can. Of a request it looks at the first line, and at the length of
//! a body that it sends back; nothing is parsed, timed or checked, so no HTTP server can be faster on the same kernel.

use std::io::{self, ErrorKind, IoSlice, Read, Write};

use memchr::memmem;
use mio::net::{TcpListener, TcpStream};
use mio::{Events, Interest, Poll, Registry, Token};

use super::ANY;
use crate::application::{Exchange, HELLO, LARGE, chunked, filler};
use crate::child::announce;

pub(super) fn serve() -> io::Result<()> {
    let mut listener = TcpListener::bind(ANY)?;
    let mut poll = Poll::new()?;
    poll.registry().register(&mut listener, LISTENER, Interest::READABLE)?;
    announce(listener.local_addr()?);
    let (mut limit, mut events) = (Limit::new(), Events::with_capacity(1024));
    loop {
        match poll.poll(&mut events, None) {
            // strace interrupts when it attaches.
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            polled => polled?,
        }
        for event in &events {
            match event.token() {
                LISTENER => limit.accept(&listener, poll.registry())?,
                Token(index) => limit.drive(index),
            }
        }
    }
}

const LISTENER: Token = Token(usize::MAX - 1);

struct Limit {
    connections: Vec<Option<Connection>>,
    /// The places in `connections` that are empty.
    free: Vec<usize>,
    input: Vec<u8>,
    cans: Cans,
}

impl Limit {
    fn new() -> Limit {
        Limit { connections: Vec::new(), free: Vec::new(), input: vec![0; INPUT_LEN], cans: Cans::new() }
    }

    fn accept(&mut self, listener: &TcpListener, registry: &Registry) -> io::Result<()> {
        while let Ok((mut stream, _)) = listener.accept() {
            stream.set_nodelay(true)?;
            let index = self.free.pop().unwrap_or(self.connections.len());
            registry.register(&mut stream, Token(index), Interest::READABLE | Interest::WRITABLE)?;
            self.connections.resize_with(self.connections.len().max(index + 1), || None);
            self.connections[index] = Some(Connection { stream, stage: Stage::Head, unsent: Vec::new() });
        }
        Ok(())
    }

    fn drive(&mut self, index: usize) {
        let Some(connection) = &mut self.connections[index] else { return };
        if connection.drive(&mut self.input, &self.cans).is_err() {
            self.connections[index] = None;
            self.free.push(index);
        }
    }
}

const INPUT_LEN: usize = 256 << 10;

struct Connection {
    stream: TcpStream,
    stage: Stage,
    /// What the socket did not take.
    unsent: Vec<u8>,
}

/// What comes next, and how much of it is missing.
#[derive(Clone, Copy)]
enum Stage {
    Head,
    Echo {
        left: usize,
    },
    /// What comes is dropped, and answered from a can when all of it was here.
    Sink {
        left: usize,
        answer: Answer,
    },
}

#[derive(Clone, Copy)]
enum Answer {
    Hello,
    Uploaded,
}

impl Connection {
    /// Answers what is there. An error is the end of the connection, for whatever reason.
    fn drive(&mut self, input: &mut [u8], cans: &Cans) -> io::Result<()> {
        loop {
            if !self.unsent.is_empty() {
                let unsent = std::mem::take(&mut self.unsent);
                self.send(&[], &unsent)?;
                if !self.unsent.is_empty() {
                    return Ok(());
                }
            }
            let read = match self.stream.read(input) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(read) => read,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            };
            self.answer(&input[..read], cans)?;
            // Less than there was room for: the next event says when there is more.
            if read < input.len() && self.unsent.is_empty() {
                return Ok(());
            }
        }
    }

    fn answer(&mut self, mut input: &[u8], cans: &Cans) -> io::Result<()> {
        let mut head: &[u8] = &[];
        while !input.is_empty() {
            match self.stage {
                Stage::Head if input.starts_with(b"GET") => {
                    let count = memmem::find_iter(input, b"\r\n\r\n").count();
                    return self.answer_from_can(input, count, cans);
                }
                Stage::Head => {
                    let end = memmem::find(input, b"\r\n\r\n").ok_or(ErrorKind::InvalidData)? + 4;
                    let len = content_length(&input[..end]);
                    self.stage = match &input[5..7] {
                        b"/u" => Stage::Sink { left: cans.upload_len, answer: Answer::Uploaded },
                        b"/s" => Stage::Sink { left: len, answer: Answer::Hello },
                        _ => Stage::Echo { left: len },
                    };
                    if let Stage::Echo { left } = self.stage {
                        head = cans.echo_head(left)?;
                    }
                    input = &input[end..];
                }
                Stage::Echo { left } => {
                    let (piece, rest) = input.split_at(left.min(input.len()));
                    self.send(std::mem::take(&mut head), piece)?;
                    let left = left - piece.len();
                    self.stage = if left == 0 { Stage::Head } else { Stage::Echo { left } };
                    input = rest;
                }
                Stage::Sink { left, answer } if input.len() < left => {
                    self.stage = Stage::Sink { left: left - input.len(), answer };
                    return Ok(());
                }
                Stage::Sink { left, answer } => {
                    (self.stage, input) = (Stage::Head, &input[left..]);
                    self.send(&[], cans.answer(answer))?;
                }
            }
        }
        // A head whose body is still on its way: the answer's head may go ahead.
        if head.is_empty() { Ok(()) } else { self.send(head, &[]) }
    }

    fn answer_from_can(&mut self, input: &[u8], count: usize, cans: &Cans) -> io::Result<()> {
        match input.get(4..6) {
            Some(b"/j") => self.send(&[], &cans.json),
            Some(b"/d") => self.send(&[], &cans.download),
            Some(b"/l") => self.send(&[], &cans.large),
            Some(b"/c") => {
                self.send(&[], &cans.farewell)?;
                Err(ErrorKind::ConnectionAborted.into())
            }
            _ => self.send(&[], &cans.hello[..count * cans.hello_len]),
        }
    }

    /// Sends both, and keeps what the socket does not take.
    fn send(&mut self, head: &[u8], body: &[u8]) -> io::Result<()> {
        let written = match head {
            [] => self.stream.write(body),
            _ => self.stream.write_vectored(&[IoSlice::new(head), IoSlice::new(body)]),
        };
        let sent = match written {
            Ok(sent) => sent,
            Err(error) if error.kind() == ErrorKind::WouldBlock => 0,
            Err(error) => return Err(error),
        };
        if sent < head.len() + body.len() {
            self.unsent.extend_from_slice(&head[sent.min(head.len())..]);
            self.unsent.extend_from_slice(&body[sent.saturating_sub(head.len())..]);
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

/// The answers, ready to be sent.
struct Cans {
    /// As many as one read can ask for.
    hello: Vec<u8>,
    hello_len: usize,
    /// The same, and the end of the connection.
    farewell: Vec<u8>,
    json: Vec<u8>,
    download: Vec<u8>,
    large: Vec<u8>,
    uploaded: Vec<u8>,
    upload_len: usize,
    /// The heads of bodies that are sent back, by the length of the body.
    echo_heads: Vec<(usize, Vec<u8>)>,
}

impl Cans {
    fn new() -> Cans {
        let whole = |fields: &str, content: &[u8]| {
            [head(&format!("{fields}Content-Length: {}", content.len())).as_slice(), content].concat()
        };
        let hello = whole("", HELLO.as_bytes());
        Cans {
            hello_len: hello.len(),
            hello: hello.repeat(64),
            farewell: whole("Connection: close\r\n", HELLO.as_bytes()),
            json: whole("", &Exchange::Json.content()),
            download: [head("Transfer-Encoding: chunked"), chunked()].concat(),
            large: whole("", &filler(LARGE)),
            uploaded: whole("", &Exchange::Upload.content()),
            upload_len: chunked().len(),
            echo_heads: ECHO_LENS.map(|len| (len, head(&format!("Content-Length: {len}")))).to_vec(),
        }
    }

    fn answer(&self, answer: Answer) -> &[u8] {
        match answer {
            Answer::Hello => &self.hello[..self.hello_len],
            Answer::Uploaded => &self.uploaded,
        }
    }

    fn echo_head(&self, len: usize) -> io::Result<&[u8]> {
        let found = self.echo_heads.iter().find(|(of, _)| *of == len);
        found.map(|(_, head)| head.as_slice()).ok_or_else(|| ErrorKind::InvalidData.into())
    }
}

const ECHO_LENS: [usize; 3] = [1 << 10, 64 << 10, LARGE];

fn head(fields: &str) -> Vec<u8> {
    let date = "Sat, 21 Nov 2026 12:00:00 GMT";
    let head = "HTTP/1.1 200 OK\r\nServer: compare\r\nDate: ";
    format!("{head}{date}\r\nContent-Type: text/plain\r\n{fields}\r\n\r\n").into_bytes()
}
