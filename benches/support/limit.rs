//! The limit: what a server costs that does nothing but read and write.
//!
//! An edge-triggered epoll loop that counts `\r\n\r\n` and writes so many canned responses: one
//! read and one write for each time a socket is readable. Nothing is parsed, timed or checked, so
//! no HTTP server can be faster on the same kernel.

use std::io::{ErrorKind, Read, Write};
use std::net::SocketAddr;

use memchr::memmem;
use mio::net::{TcpListener, TcpStream};
use mio::{Events, Interest, Poll, Token};

use crate::child::announce;

pub fn serve_limit() {
    let any: SocketAddr = ([127, 0, 0, 1], 0).into();
    let mut listener = TcpListener::bind(any).expect("a free port");
    let mut poll = Poll::new().expect("an epoll");
    poll.registry().register(&mut listener, LISTENER, Interest::READABLE).expect("a socket");
    announce(listener.local_addr().expect("it is bound"));

    let mut limit = Limit {
        connections: Vec::new(),
        free: Vec::new(),
        input: vec![0; INPUT_MAX],
        responses: responses(),
    };
    let mut events = Events::with_capacity(1024);
    loop {
        if let Err(error) = poll.poll(&mut events, None) {
            assert_eq!(error.kind(), ErrorKind::Interrupted, "strace interrupts when it attaches");
            continue;
        }
        for event in &events {
            match event.token() {
                LISTENER => limit.accept(&listener, &poll),
                Token(index) => limit.answer(index),
            }
        }
    }
}

struct Limit {
    connections: Vec<Option<TcpStream>>,
    /// The places in `connections` that are empty.
    free: Vec<usize>,
    input: Vec<u8>,
    responses: Vec<u8>,
}

impl Limit {
    fn accept(&mut self, listener: &TcpListener, poll: &Poll) {
        while let Ok((mut stream, _)) = listener.accept() {
            stream.set_nodelay(true).expect("a socket");
            let index = self.free.pop().unwrap_or(self.connections.len());
            poll.registry().register(&mut stream, Token(index), Interest::READABLE).expect("a socket");
            self.connections.resize_with(self.connections.len().max(index + 1), || None);
            self.connections[index] = Some(stream);
        }
    }

    fn answer(&mut self, index: usize) {
        let Some(stream) = &mut self.connections[index] else { return };
        let read = match stream.read(&mut self.input) {
            Ok(0) => 0,
            Ok(read) => read,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return,
            Err(_) => 0,
        };
        if read == 0 {
            self.connections[index] = None;
            self.free.push(index);
            return;
        }
        let input = &self.input[..read];
        assert!(read < INPUT_MAX && input.ends_with(b"\r\n\r\n"), "the load sends whole requests");
        let responses = &self.responses[..memmem::find_iter(input, b"\r\n\r\n").count() * RESPONSE.len()];
        // A peer that has gone shows itself at the next read.
        let _ = stream.write(responses);
    }
}

const LISTENER: Token = Token(usize::MAX - 1);
const INPUT_MAX: usize = 64 << 10;

pub const RESPONSE: &str = "HTTP/1.1 200 OK\r\nServer: corehttp\r\nDate: Sat, 21 Nov 2026 12:00:00 GMT\r\n\
    Content-Type: text/plain\r\nContent-Length: 13\r\n\r\nHello, world!";

/// As many responses as one read can ask for here.
pub fn responses() -> Vec<u8> {
    RESPONSE.as_bytes().repeat(64)
}
