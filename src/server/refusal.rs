//! [`Refusal`]: what a peer was refused, and why; and [`Refused`]: the same, on its way to be told.

use std::fmt;

use super::Error;
use crate::exchange::{ExchangeError, write_causes};
use crate::message::Status;
use crate::net::{PeerAddr, TlsError};

/// A peer was refused something, or an exchange failed: what [`Server::on_error`](crate::Server::on_error) sees.
#[derive(Debug)]
#[non_exhaustive]
pub struct Refusal {
    /// What was answered. None if nothing could be: the connection was gone, or an answer was sent already, if only half
    /// of it.
    pub status: Option<Status>,
    /// Who was refused.
    pub peer: PeerAddr,
    /// Why.
    pub cause: RefusalCause,
}

/// Why a peer was refused.
#[derive(Debug)]
#[non_exhaustive]
pub enum RefusalCause {
    /// The exchange failed, by the peer's fault or by the connection's.
    Exchange(ExchangeError),
    /// The handler failed.
    Handler(Error),
    /// The handler panicked, or what it has left behind did when it was dropped.
    Panic,
    /// [`Handler::on_head`](crate::Handler::on_head) refused it, or did not plan for a CONNECT.
    Plan,
    /// The connection could not be made secure.
    Tls(TlsError),
    /// The server has as many connections as it may.
    Connections,
    /// The peer has as many connections as it may.
    ConnectionsOfPeer,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.status {
            Some(status) => write!(f, "{status} to {}: {}", self.peer, self.cause),
            None => write!(f, "{} cut off: {}", self.peer, self.cause),
        }
    }
}

impl fmt::Display for RefusalCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RefusalCause::Exchange(error) => {
                write!(f, "{error}")?;
                write_causes(f, error)
            }
            RefusalCause::Tls(error) => {
                write!(f, "{error}")?;
                write_causes(f, error)
            }
            RefusalCause::Handler(error) => write!(f, "the handler failed: {error:?}"),
            RefusalCause::Panic => f.write_str("the handler panicked"),
            RefusalCause::Plan => f.write_str("the handler refused it by its head"),
            RefusalCause::Connections => f.write_str("the server has too many connections"),
            RefusalCause::ConnectionsOfPeer => f.write_str("the peer has too many connections"),
        }
    }
}

impl From<ExchangeError> for RefusalCause {
    fn from(error: ExchangeError) -> RefusalCause {
        RefusalCause::Exchange(error)
    }
}

/// A refusal on its way: why a connection ends here, and what the peer is told.
#[derive(Debug)]
pub(super) struct Refused {
    /// None: nothing, for it would not be there to hear, or has half of another answer.
    pub(super) status: Option<Status>,
    pub(super) cause: RefusalCause,
}

impl Refused {
    // In a box: it is rare, and the results that it is the error of are moved for every request.
    pub(super) fn new(status: Status, cause: RefusalCause) -> Box<Refused> {
        Box::new(Refused { status: Some(status), cause })
    }

    /// What it is too late to tell.
    pub(super) fn untold(cause: RefusalCause) -> Box<Refused> {
        Box::new(Refused { status: None, cause })
    }
}

impl From<ExchangeError> for Box<Refused> {
    fn from(error: ExchangeError) -> Box<Refused> {
        Box::new(Refused { status: error.owed(), cause: RefusalCause::Exchange(error) })
    }
}
