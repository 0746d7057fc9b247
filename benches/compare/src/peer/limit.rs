//! The limit: what a server costs that does nothing but read and write.
//!
//! An edge-triggered epoll loop that answers from a can, in as few reads and writes as the sockets allow. Of a request
//! it looks at the first line, and at the length of a body that it sends back; nothing is parsed, timed or checked.

use std::io::{self, ErrorKind, IoSlice, Read, Write};
use std::mem;

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
            self.connections[index] =
                Some(Connection { stream, stage: Stage::Head, body: Vec::new(), unsent: Vec::new() });
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

/// A large body, and its head.
const INPUT_LEN: usize = LARGE + (4 << 10);

struct Connection {
    stream: TcpStream,
    stage: Stage,
    /// A body of which a part is here.
    body: Vec<u8>,
    /// The octets that the socket did not take.
    unsent: Vec<u8>,
}

/// The part that comes next, and how much of it is missing.
#[derive(Clone, Copy)]
enum Stage {
    Head,
    /// A body goes back in one piece, when all of it is here.
    Echo {
        filled: usize,
        len: usize,
    },
    /// The content is dropped, and answered from a can when all of it was here.
    Sink {
        left: usize,
        response: Canned,
    },
}

#[derive(Clone, Copy)]
enum Canned {
    Hello,
    Uploaded,
}

impl Connection {
    /// Answers what is there. An error is the end of the connection, for whatever reason.
    fn drive(&mut self, input: &mut [u8], cans: &Cans) -> io::Result<()> {
        loop {
            if !self.unsent.is_empty() {
                let unsent = mem::take(&mut self.unsent);
                self.send(&[], &unsent)?;
                if !self.unsent.is_empty() {
                    return Ok(());
                }
            }
            // Content that is sent back is read where it stays, and nothing comes behind it until it is answered.
            if let Stage::Echo { filled, len } = self.stage {
                let room = rest(&mut self.body, filled, len);
                let Some(read) = receive(&mut self.stream, room)? else { return Ok(()) };
                self.stage = Stage::Echo { filled: filled + read, len };
                return if filled + read == len { self.send_back(cans) } else { Ok(()) };
            }
            let Some(read) = receive(&mut self.stream, input)? else { return Ok(()) };
            self.answer(&input[..read], cans)?;
            // Less than there was room for: the next event says when there is more.
            if read < input.len() && self.unsent.is_empty() {
                return Ok(());
            }
        }
    }

    fn answer(&mut self, mut input: &[u8], cans: &Cans) -> io::Result<()> {
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
                        b"/u" => Stage::Sink { left: cans.upload_len, response: Canned::Uploaded },
                        b"/s" => Stage::Sink { left: len, response: Canned::Hello },
                        _ => Stage::Echo { filled: 0, len },
                    };
                    input = &input[end..];
                }
                Stage::Echo { filled: 0, len } if input.len() >= len => {
                    self.stage = Stage::Head;
                    self.send(cans.echo_head(len)?, &input[..len])?;
                    input = &input[len..];
                }
                Stage::Echo { filled, len } => {
                    rest(&mut self.body, filled, len)[..input.len()].copy_from_slice(input);
                    self.stage = Stage::Echo { filled: filled + input.len(), len };
                    return Ok(());
                }
                Stage::Sink { left, response } if input.len() < left => {
                    self.stage = Stage::Sink { left: left - input.len(), response };
                    return Ok(());
                }
                Stage::Sink { left, response } => {
                    (self.stage, input) = (Stage::Head, &input[left..]);
                    self.send(&[], cans.response(response))?;
                }
            }
        }
        Ok(())
    }

    fn send_back(&mut self, cans: &Cans) -> io::Result<()> {
        self.stage = Stage::Head;
        let body = mem::take(&mut self.body);
        let sent = self.send(cans.echo_head(body.len())?, &body);
        self.body = body;
        sent
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

/// Where the rest of a body goes that is of so many bytes.
fn rest(body: &mut Vec<u8>, filled: usize, len: usize) -> &mut [u8] {
    body.resize(len, 0);
    &mut body[filled..]
}

/// The number of octets that have arrived; none if there are none, and an error at the end.
fn receive(stream: &mut TcpStream, room: &mut [u8]) -> io::Result<Option<usize>> {
    match stream.read(room) {
        Ok(0) => Err(ErrorKind::UnexpectedEof.into()),
        Ok(read) => Ok(Some(read)),
        Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(None),
        Err(error) => Err(error),
    }
}

/// The number after `Content-Length`, of peers that are known to send one.
fn content_length(head: &[u8]) -> usize {
    let at = memmem::find(head, b"ength: ").map_or(head.len(), |at| at + 7);
    let digits = head[at..].iter().take_while(|byte| byte.is_ascii_digit());
    digits.fold(0, |number, digit| number * 10 + usize::from(digit - b'0'))
}

/// The responses, ready to be sent.
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
        let whole = |kind: &str, content: &[u8]| {
            [head(kind, &format!("Content-Length: {}", content.len())).as_slice(), content].concat()
        };
        let hello = whole(TEXT, HELLO.as_bytes());
        let farewell = head(TEXT, &format!("Connection: close\r\nContent-Length: {}", HELLO.len()));
        Cans {
            hello_len: hello.len(),
            hello: hello.repeat(64),
            farewell: [farewell, HELLO.into()].concat(),
            json: whole("application/json", &Exchange::Json.content()),
            download: [head(TEXT, "Transfer-Encoding: chunked"), chunked()].concat(),
            large: whole(TEXT, &filler(LARGE)),
            uploaded: whole(TEXT, &Exchange::Upload.content()),
            upload_len: chunked().len(),
            echo_heads: ECHO_LENS.map(|len| (len, head(TEXT, &format!("Content-Length: {len}")))).to_vec(),
        }
    }

    fn response(&self, response: Canned) -> &[u8] {
        match response {
            Canned::Hello => &self.hello[..self.hello_len],
            Canned::Uploaded => &self.uploaded,
        }
    }

    fn echo_head(&self, len: usize) -> io::Result<&[u8]> {
        let found = self.echo_heads.iter().find(|(of, _)| *of == len);
        found.map(|(_, head)| head.as_slice()).ok_or_else(|| ErrorKind::InvalidData.into())
    }
}

const ECHO_LENS: [usize; 3] = [1 << 10, 64 << 10, LARGE];

const TEXT: &str = "text/plain";

fn head(content_type: &str, fields: &str) -> Vec<u8> {
    let date = "Sat, 21 Nov 2026 12:00:00 GMT";
    let head = "HTTP/1.1 200 OK\r\nServer: compare\r\nDate: ";
    format!("{head}{date}\r\nContent-Type: {content_type}\r\n{fields}\r\n\r\n").into_bytes()
}
