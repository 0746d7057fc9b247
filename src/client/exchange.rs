//! [`Exchange`]: the state and memory of one exchange, which the next one uses again.

use std::time::Duration;

use crate::coding::Decoding;
use crate::exchange::{ExchangeError, Incoming, Outgoing};
use crate::memory::Reset;
use crate::message::Timings;
use crate::net::Workspace;
use crate::runtime::{self, Instant, Turn};
use crate::wire::Asked;

/// The state and the memory of one exchange.
pub(super) struct Exchange {
    pub(super) incoming: Incoming,
    pub(super) outgoing: Outgoing,
    /// Lent to the connection while it is in use.
    pub(super) workspace: Option<Box<Workspace>>,
    pub(super) timings: Timings,
    /// When the connection was opened.
    pub(super) born: Instant,
    /// When the exchange must be complete.
    pub(super) deadline: Option<Instant>,
    /// When the current phase began.
    pub(super) mark: Instant,
    pub(super) asked: Asked,
    pub(super) asks_for_upgrade: bool,
    pub(super) upload: Upload,
    /// How the body of the answer is decoded, if it is.
    pub(super) decoding: Option<Box<Decoding>>,
    /// How much was decoded since other tasks had their turn.
    pub(super) turn: Turn,
    /// How many interim answers have come.
    pub(super) interim: u32,
    /// Whether somebody takes them. If not, they are dropped.
    pub(super) wants_interim: bool,
    pub(super) heard: Heard,
    /// Whether another exchange may follow, by what both sides have said so far.
    pub(super) persists: bool,
    /// How long the server keeps the connection idle, if it has said so (RFC 2068 §19.7.1.1).
    pub(super) idle: Option<Duration>,
}

/// How much of the request has been sent.
#[derive(Debug)]
pub(super) enum Upload {
    /// The head is being sent, and the body will wait for `100 Continue` (RFC 9110 §10.1.1).
    Expecting,
    /// The head has been sent, and the body waits.
    Waiting,
    Sending,
    Sent,
    /// The server has answered, and reads no more of it.
    Abandoned,
    /// Sending failed, but there may be an answer.
    Failed(ExchangeError),
}

/// What has come of the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Heard {
    Nothing,
    /// The head of an interim answer, which waits to be taken.
    Interim,
    /// The head of the final answer.
    Final,
}

impl Exchange {
    /// Whether the head of the final answer has come.
    pub(super) fn is_answered(&self) -> bool {
        self.heard == Heard::Final
    }

    /// Drops interim answers from here on. Returns whether one was waiting to be taken.
    pub(super) fn drop_interim(&mut self) -> bool {
        let has_waited = self.heard == Heard::Interim;
        if has_waited {
            self.heard = Heard::Nothing;
        }
        self.wants_interim = false;
        has_waited
    }

    /// Prepares for the next answer on a connection with several requests in flight.
    pub(super) fn next_answer(&mut self, asked: Asked, timings: Timings) {
        self.incoming.forget_message();
        (self.asked, self.timings, self.interim, self.decoding) = (asked, timings, 0, None);
        (self.upload, self.heard) = (Upload::Sending, Heard::Nothing);
    }
}

/// How many interim answers are read. An endless sequence of them would be a hang.
pub(super) const INTERIM_MAX: u32 = 16;

impl Default for Exchange {
    fn default() -> Exchange {
        let now = runtime::now();
        Exchange {
            incoming: Incoming::default(),
            outgoing: Outgoing::default(),
            workspace: None,
            timings: Timings::default(),
            born: now,
            deadline: None,
            mark: now,
            asked: Asked::default(),
            asks_for_upgrade: false,
            upload: Upload::Sending,
            decoding: None,
            turn: Turn::default(),
            interim: 0,
            wants_interim: false,
            heard: Heard::Nothing,
            persists: true,
            idle: None,
        }
    }
}

impl Reset for Exchange {
    fn reset(&mut self) {
        let Exchange {
            incoming,
            outgoing,
            workspace,
            timings,
            born: _,
            deadline,
            mark: _,
            asked,
            asks_for_upgrade,
            upload,
            decoding,
            turn,
            interim,
            wants_interim,
            heard,
            persists,
            idle,
        } = self;
        incoming.reset();
        outgoing.reset();
        workspace.iter_mut().for_each(|workspace| workspace.reset());
        (*timings, *deadline, *asked, *turn, *idle) = Default::default();
        (*asks_for_upgrade, *upload, *decoding) = (false, Upload::Sending, None);
        (*interim, *wants_interim, *heard, *persists) = (0, false, Heard::Nothing, true);
    }

    fn shrink(&mut self) {
        self.incoming.shrink();
        self.outgoing.shrink();
        self.workspace.iter_mut().for_each(|workspace| workspace.shrink());
    }
}
