//! [`Plan`]: what all connections of a load send, and what must come back.

use std::io;
use std::net::SocketAddr;

use super::Work;
use super::responses::Shape;
use super::stream::{Secure, Stream, open_websocket};

/// The requests, which each connection sends in turn.
pub(crate) struct Plan {
    pub(super) address: SocketAddr,
    pub(super) protocol: Protocol,
    pub(super) steps: Vec<Step>,
    /// How many requests a step is.
    pub(super) depth: u64,
    /// A connection closes after so many steps.
    pub(super) per_connection: Option<u32>,
}

/// The protocol of a connection.
#[derive(Clone)]
pub(crate) enum Protocol {
    Http,
    Https(Secure),
    /// On this path.
    WebSocket(&'static str),
}

/// Octets that a connection sends at once.
pub(crate) struct Step {
    pub(crate) request: Vec<u8>,
    pub(crate) shape: Shape,
    /// How many exchanges it counts as.
    pub(crate) weight: u64,
}

impl Plan {
    /// Asks once, to learn what responses look like.
    pub(crate) fn learn(address: SocketAddr, work: Work) -> io::Result<Plan> {
        let one = work.exchange.request();
        let shape = Shape::learn(address, &one, &work.exchange.content())?;
        let weight = work.depth as u64;
        let step = Step { request: one.repeat(work.depth), shape: shape.repeated(work.depth), weight };
        let steps = vec![step];
        let per_connection = work.per_connection;
        Ok(Plan { address, protocol: Protocol::Http, steps, depth: weight, per_connection })
    }

    /// Of steps of as many requests each.
    pub(crate) fn new(
        address: SocketAddr,
        protocol: Protocol,
        steps: Vec<Step>,
        depth: usize,
        per_connection: Option<u32>,
    ) -> Plan {
        Plan { address, protocol, steps, depth: depth as u64, per_connection }
    }

    /// Connects, and waits for it.
    pub(super) fn connect(&self) -> io::Result<Stream> {
        let stream = std::net::TcpStream::connect(self.address)?;
        stream.set_nodelay(true)?;
        match &self.protocol {
            Protocol::Http => Stream::from_plain(stream),
            Protocol::Https(secure) => secure.shake_hands(stream),
            Protocol::WebSocket(path) => open_websocket(stream, path),
        }
    }

    /// Connects without waiting, where nothing but TCP has to be opened.
    pub(super) fn begin_to_connect(&self) -> io::Result<Stream> {
        match self.protocol {
            Protocol::Http => Stream::begin(self.address),
            _ => self.connect(),
        }
    }

    /// Where a connection begins, so that not all of them ask for the same.
    pub(super) fn first_step(&self, connection: usize) -> usize {
        connection * STRIDE % self.steps.len()
    }
}

/// Not a divisor of any number of steps.
const STRIDE: usize = 7_919;
