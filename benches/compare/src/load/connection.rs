//! [`Connection`]: one of the load's, and the [`Plan`] that all of them follow.

use std::io::{self, ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::time::Instant;

use mio::net::TcpStream;
use mio::{Interest, Registry, Token};

use super::Work;
use super::responses::{ResponseProgress, Shape};

/// The octets that are sent, and those that come.
pub(super) struct Plan {
    address: SocketAddr,
    /// The octets that a connection sends at once.
    request: Vec<u8>,
    shape: Shape,
    /// Bytes of one response, its head included.
    pub(super) response: u64,
    /// How many requests that is.
    pub(super) depth: u64,
    per_connection: Option<u32>,
}

impl Plan {
    /// Asks once, to learn what responses look like.
    pub(super) fn learn(address: SocketAddr, work: Work) -> io::Result<Plan> {
        let one = work.exchange.request();
        let (shape, response) = Shape::learn(address, &one, &work.exchange.content())?;
        Ok(Plan {
            address,
            request: one.repeat(work.depth),
            shape: shape.repeated(work.depth),
            response,
            depth: work.depth as u64,
            per_connection: work.per_connection,
        })
    }
}

pub(super) struct Connection {
    stream: TcpStream,
    /// How much of the request left.
    sent: usize,
    responses: ResponseProgress,
    /// When the request that is on its way was due.
    since: Option<Instant>,
    /// How often it was answered.
    exchanges: u32,
}

impl Connection {
    /// Connects, and waits for it.
    pub(super) fn open(address: SocketAddr, token: Token, registry: &Registry) -> io::Result<Connection> {
        let stream = std::net::TcpStream::connect(address)?;
        stream.set_nonblocking(true)?;
        let mut connection = Connection {
            stream: TcpStream::from_std(stream),
            sent: 0,
            responses: ResponseProgress::default(),
            since: None,
            exchanges: 0,
        };
        connection.register(token, registry)?;
        Ok(connection)
    }

    /// Gives its place to a new connection, if it has had its share.
    pub(super) fn renew(&mut self, plan: &Plan, token: Token, registry: &Registry) -> io::Result<()> {
        self.exchanges += 1;
        if Some(self.exchanges) == plan.per_connection {
            (self.stream, self.exchanges) = (TcpStream::connect(plan.address)?, 0);
            self.register(token, registry)?;
        }
        Ok(())
    }

    /// Sends a request that was due at `since`.
    pub(super) fn ask(&mut self, plan: &Plan, since: Instant) -> io::Result<()> {
        (self.sent, self.since, self.responses) = (0, Some(since), ResponseProgress::default());
        self.send(plan)
    }

    /// Does what its socket allows; when the responses are complete, returns since when they were due.
    pub(super) fn drive(&mut self, plan: &Plan, input: &mut [u8]) -> io::Result<Option<Instant>> {
        if self.since.is_none() {
            return Ok(None);
        }
        self.send(plan)?;
        loop {
            let read = match self.stream.read(input) {
                Ok(0) => return Err(io::Error::new(ErrorKind::UnexpectedEof, "the server closed")),
                Ok(read) => read,
                Err(error) if is_later(&error) => return Ok(None),
                Err(error) => return Err(error),
            };
            if self.responses.feed(&plan.shape, &input[..read])? {
                return Ok(self.since.take());
            }
            // Less than there was room for: the next event says when there is more.
            if read < input.len() {
                return Ok(None);
            }
        }
    }

    pub(super) fn is_busy(&self) -> bool {
        self.since.is_some()
    }

    /// When the request was due that is not answered yet.
    pub(super) fn since(&self) -> Option<Instant> {
        self.since
    }

    fn send(&mut self, plan: &Plan) -> io::Result<()> {
        while self.sent < plan.request.len() {
            match self.stream.write(&plan.request[self.sent..]) {
                Ok(sent) => self.sent += sent,
                Err(error) if is_later(&error) => break,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn register(&mut self, token: Token, registry: &Registry) -> io::Result<()> {
        self.stream.set_nodelay(true)?;
        registry.register(&mut self.stream, token, Interest::READABLE | Interest::WRITABLE)
    }
}

/// A socket that is full, empty, or not connected yet: there will be an event.
fn is_later(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::NotConnected)
}
