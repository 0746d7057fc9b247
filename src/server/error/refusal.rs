//! [`Refusal`]: what a peer was refused, and why; and [`Refused`]: the same, on its way to be told.

use std::fmt;

use super::Error;
use crate::exchange::{ExchangeError, write_causes};
use crate::message::{Request, Status};
use crate::net::{Peer, PeerAddr, TlsError};

/// A peer was refused something, or an exchange failed: what [`Server::on_error`](crate::Server::on_error) sees.
///
/// `{}` says in one line who was told what, and why, with the method and the path if they are known; `{:?}` says no more
/// of the request than that either.
///
/// # Examples
///
/// ```
/// use corehttp::{Context, Refusal, Server};
///
/// fn log(refusal: &Refusal) {
///     let id = refusal.request.and_then(|request| request.headers.text("x-request-id"));
///     eprintln!("{}.{} {id:?} {refusal}", refusal.connection_id, refusal.exchange_number);
/// }
///
/// let server = Server::new().on_error(log);
/// # let _ = server.service(|ctx: &mut Context| ctx.response.text("hi"));
/// ```
#[non_exhaustive]
pub struct Refusal<'a> {
    /// What was answered. None if nothing could be: the connection was gone, or an answer was sent already, if only half
    /// of it.
    pub status: Option<Status>,
    /// Who was refused.
    pub peer: PeerAddr,
    /// The number of the connection, as [`Context::connection_id`](crate::Context::connection_id) tells it.
    pub connection_id: u64,
    /// Which exchange of the connection it was, from 1. Zero: none, for the connection itself was refused.
    pub exchange_number: u64,
    /// The request, if its head was received and good. It is as its handler has left it, and its body may be gone.
    pub request: Option<&'a Request>,
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

impl Refusal<'_> {
    /// A connection is refused, on which nothing was told and nothing was asked.
    pub(in crate::server) fn of_connection(peer: Peer, cause: RefusalCause) -> Refusal<'static> {
        let Peer { addr: peer, id: connection_id } = peer;
        Refusal { status: None, peer, connection_id, exchange_number: 0, request: None, cause }
    }
}

impl fmt::Display for Refusal<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.status {
            Some(status) => write!(f, "{status} to {}", self.peer)?,
            None => write!(f, "{} cut off", self.peer)?,
        }
        if let Some(request) = self.request {
            write!(f, ", {} {}", request.method(), place(request))?;
        }
        write!(f, ": {}", self.cause)
    }
}

impl fmt::Debug for Refusal<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Refusal")
            .field("status", &self.status)
            .field("peer", &self.peer)
            .field("connection_id", &self.connection_id)
            .field("exchange_number", &self.exchange_number)
            .field("request", &self.request.map(|request| (request.method(), place(request))))
            .field("cause", &self.cause)
            .finish()
    }
}

/// What was asked for, without the query: that may hold secrets, as fields may.
fn place(request: &Request) -> &str {
    match request.path() {
        "" => request.target().as_str(),
        path => path,
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
pub(in crate::server) struct Refused {
    /// None: nothing, for it would not be there to hear, or has half of another answer.
    pub(in crate::server) status: Option<Status>,
    pub(in crate::server) cause: RefusalCause,
}

impl Refused {
    // In a box: it is rare, and the results that it is the error of are moved for every request.
    pub(in crate::server) fn new(status: Status, cause: RefusalCause) -> Box<Refused> {
        Box::new(Refused { status: Some(status), cause })
    }

    /// What it is too late to tell.
    pub(in crate::server) fn untold(cause: RefusalCause) -> Box<Refused> {
        Box::new(Refused { status: None, cause })
    }
}

impl From<ExchangeError> for Box<Refused> {
    fn from(error: ExchangeError) -> Box<Refused> {
        Box::new(Refused { status: error.owed(), cause: RefusalCause::Exchange(error) })
    }
}
