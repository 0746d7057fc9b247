//! [`Connection`]: one of the load's.

use std::io::{self, ErrorKind, Read, Write};
use std::time::Instant;

use mio::{Registry, Token};

use super::plan::Plan;
use super::responses::ResponseProgress;
use super::stream::Stream;

pub(super) struct Connection {
    stream: Stream,
    /// The place in the plan of the request that is on its way, or is the next.
    step: usize,
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
    pub(super) fn open(plan: &Plan, index: usize, registry: &Registry) -> io::Result<Connection> {
        let mut connection = Connection {
            stream: plan.connect()?,
            step: plan.first_step(index),
            sent: 0,
            responses: ResponseProgress::default(),
            since: None,
            exchanges: 0,
        };
        connection.stream.register(Token(index), registry)?;
        Ok(connection)
    }

    /// Gives its place to a new connection, if it has had its share.
    pub(super) fn renew(&mut self, plan: &Plan, token: Token, registry: &Registry) -> io::Result<()> {
        self.exchanges += 1;
        if Some(self.exchanges) == plan.per_connection {
            (self.stream, self.exchanges) = (plan.begin_to_connect()?, 0);
            self.stream.register(token, registry)?;
        }
        Ok(())
    }

    /// Sends a request that was due at `since`.
    pub(super) fn ask(&mut self, plan: &Plan, since: Instant) -> io::Result<()> {
        (self.sent, self.since, self.responses) = (0, Some(since), ResponseProgress::default());
        self.send(plan)
    }

    /// Does what its socket allows; when the responses are complete, returns what they are, and goes on to the next
    /// request.
    pub(super) fn drive(&mut self, plan: &Plan, input: &mut [u8]) -> io::Result<Option<Answered>> {
        let Some(since) = self.since else { return Ok(None) };
        self.send(plan)?;
        loop {
            let read = match self.stream.read(input) {
                Ok(0) => return Err(io::Error::new(ErrorKind::UnexpectedEof, "the server closed")),
                Ok(read) => read,
                Err(error) if is_later(&error) => return Ok(None),
                Err(error) => return Err(error),
            };
            let step = &plan.steps[self.step];
            if self.responses.feed(&step.shape, &input[..read])? {
                (self.since, self.step) = (None, (self.step + 1) % plan.steps.len());
                let bytes = self.responses.received() as u64;
                return Ok(Some(Answered { since, weight: step.weight, bytes }));
            }
            // Less than there was room for: the next event says when there is more.
            if read < input.len() && self.stream.says_when_there_is_more() {
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
        let request = &plan.steps[self.step].request;
        while self.sent < request.len() {
            match self.stream.write(&request[self.sent..]) {
                Ok(sent) => self.sent += sent,
                Err(error) if is_later(&error) => break,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// A request that was answered.
pub(super) struct Answered {
    /// When it was due.
    pub(super) since: Instant,
    pub(super) weight: u64,
    /// Of its responses, with their heads.
    pub(super) bytes: u64,
}

/// A socket that is full, empty, or not connected yet: there will be an event.
fn is_later(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::NotConnected)
}
