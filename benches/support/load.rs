//! [`Load`]: connections that each have one request, or some pipelined ones, on its way at any
//! time, and check what comes back.

use std::io::{ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use mio::net::TcpStream;
use mio::{Events, Interest, Poll, Token};

use crate::handlers::HELLO;

/// All connections to one server.
pub struct Load {
    poll: Poll,
    events: Events,
    connections: Vec<Connection>,
    /// The octets that a connection sends at once.
    requests: Vec<u8>,
    /// How many requests that is.
    depth: u64,
    /// How many bytes it gets for them.
    responses: usize,
    input: Vec<u8>,
}

impl Load {
    /// Connects so many times, and sends the first requests.
    pub fn open(address: SocketAddr, connections: usize, depth: usize) -> Load {
        let mut load = Load {
            poll: Poll::new().expect("an epoll"),
            events: Events::with_capacity(1024),
            connections: Vec::with_capacity(connections),
            requests: REQUEST.as_bytes().repeat(depth),
            depth: depth as u64,
            responses: response_len(address) * depth,
            input: vec![0; 64 << 10],
        };
        for index in 0..connections {
            let stream = connect(address);
            stream.set_nonblocking(true).expect("a socket");
            let mut stream = TcpStream::from_std(stream);
            load.poll.registry().register(&mut stream, Token(index), Interest::READABLE).expect("a socket");
            load.connections.push(Connection { stream, received: 0 });
        }
        for connection in &mut load.connections {
            connection.send(&load.requests);
        }
        load
    }

    /// Keeps the server busy for so long, and returns how many requests were answered.
    pub fn run(&mut self, time: Duration) -> u64 {
        let (started, mut answered) = (Instant::now(), 0);
        while started.elapsed() < time {
            self.poll.poll(&mut self.events, Some(time)).expect("events");
            for event in &self.events {
                let connection = &mut self.connections[event.token().0];
                if connection.receive(&mut self.input, self.responses) {
                    answered += self.depth;
                    connection.send(&self.requests);
                }
            }
        }
        assert!(answered > 0, "the server answers");
        answered
    }
}

struct Connection {
    stream: TcpStream,
    /// How much of the responses is there.
    received: usize,
}

impl Connection {
    fn send(&mut self, requests: &[u8]) {
        let sent = self.stream.write(requests).expect("the server reads");
        assert_eq!(sent, requests.len(), "a socket's buffer holds all that may be on its way");
    }

    /// Reads what is there; `true` when all responses are.
    fn receive(&mut self, input: &mut [u8], expected: usize) -> bool {
        let read = match self.stream.read(input) {
            Ok(read) => read,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return false,
            Err(error) => panic!("{error}"),
        };
        let input = &input[..read];
        assert!(read > 0, "the server keeps its connections");
        assert!(self.received > 0 || input.starts_with(b"HTTP/1.1 200 OK\r\n"), "{}", input.escape_ascii());
        self.received += read;
        assert!(self.received <= expected, "no more than was asked for");
        if self.received < expected {
            return false;
        }
        assert!(input.ends_with(HELLO.as_bytes()), "{}", input.escape_ascii());
        self.received = 0;
        true
    }
}

/// The request of wrk.
const REQUEST: &str = "GET / HTTP/1.1\r\nHost: 127.0.0.1:8080\r\n\r\n";

/// Asks once, to learn how long a response is.
fn response_len(address: SocketAddr) -> usize {
    let mut stream = connect(address);
    stream.write_all(REQUEST.as_bytes()).expect("the server reads");
    let (mut response, mut input) = (Vec::new(), [0; 1024]);
    while !response.ends_with(HELLO.as_bytes()) {
        let read = stream.read(&mut input).expect("the server answers");
        assert!(read > 0, "the server answers in full");
        response.extend_from_slice(&input[..read]);
    }
    response.len()
}

fn connect(address: SocketAddr) -> std::net::TcpStream {
    let stream = std::net::TcpStream::connect(address).expect("the server accepts");
    stream.set_nodelay(true).expect("a socket");
    stream
}
