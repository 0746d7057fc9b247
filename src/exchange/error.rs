//! [`ExchangeError`]: why an exchange ended early.

use std::error::Error;
use std::fmt;
use std::io;
use std::iter;

use crate::message::Status;
use crate::net::Fault;
use crate::wire::WireError;

/// Why an exchange ended early.
///
/// It is inside the [`io::Error`] of readers and writers, so passing the error on with `?` results in the right status.
#[derive(Debug)]
#[non_exhaustive]
pub enum ExchangeError {
    /// The peer closed before the message was complete (RFC 9112 §8).
    Incomplete,
    /// The peer closed the connection, or its sending half, before it was answered in full. It gets no answer: return
    /// this error where nobody waits for one.
    PeerClosed,
    /// The socket failed.
    Io(io::Error),
    /// A [`Phase`] took longer than its time limit.
    TimedOut(Phase),
    /// The peer broke RFC 9112, or a limit.
    Wire(WireError),
    /// The application's content is not as long as it announced.
    Length,
    /// The handler returned without finishing the answer that it streamed, for example with
    /// [`Writer::finish`](crate::Writer::finish).
    Unfinished,
    /// The application's source of a streamed body failed.
    Source(io::Error),
}

/// What was waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Phase {
    /// The TLS handshake.
    Handshake,
    /// The rest of a head.
    Head,
    /// More of a body, or a body at the required rate.
    Body,
    /// The peer to read what is sent.
    Write,
    /// The handler.
    Handler,
}

impl ExchangeError {
    /// Converts a fault of the connection that occurred during `phase`.
    pub(crate) fn during(phase: Phase) -> impl Fn(Fault) -> ExchangeError {
        move |fault| match fault {
            Fault::Expired => ExchangeError::TimedOut(phase),
            Fault::Io(error) => ExchangeError::Io(error),
        }
    }

    /// The error of an operation that fails because a write had failed before, with an error of this kind.
    pub(crate) fn again(kind: io::ErrorKind) -> ExchangeError {
        match kind {
            io::ErrorKind::TimedOut => ExchangeError::TimedOut(Phase::Write),
            io::ErrorKind::InvalidInput => ExchangeError::Length,
            kind => ExchangeError::Io(kind.into()),
        }
    }

    /// Converts it to an error of the standard library, without its source.
    pub(crate) fn as_io(&self) -> io::Error {
        io::Error::new(self.kind(), self.to_string())
    }

    pub(crate) fn kind(&self) -> io::ErrorKind {
        match self {
            ExchangeError::Incomplete => io::ErrorKind::UnexpectedEof,
            ExchangeError::PeerClosed => io::ErrorKind::ConnectionAborted,
            ExchangeError::Io(error) | ExchangeError::Source(error) => error.kind(),
            ExchangeError::Length | ExchangeError::Unfinished => io::ErrorKind::InvalidInput,
            ExchangeError::TimedOut(_) => io::ErrorKind::TimedOut,
            ExchangeError::Wire(_) => io::ErrorKind::InvalidData,
        }
    }

    /// Returns the status with which the peer is answered, if it can still be answered.
    pub fn owed(&self) -> Option<Status> {
        match self {
            ExchangeError::Incomplete => Some(Status::BAD_REQUEST),
            ExchangeError::PeerClosed | ExchangeError::Io(_) => None,
            ExchangeError::TimedOut(Phase::Head | Phase::Body) => Some(Status::REQUEST_TIMEOUT),
            ExchangeError::TimedOut(Phase::Handler) => Some(Status::SERVICE_UNAVAILABLE),
            ExchangeError::TimedOut(Phase::Handshake | Phase::Write) => None,
            ExchangeError::Wire(error) => Some(error.owed()),
            ExchangeError::Length | ExchangeError::Unfinished | ExchangeError::Source(_) => {
                Some(Status::INTERNAL_SERVER_ERROR)
            }
        }
    }
}

impl fmt::Display for ExchangeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ExchangeError::Incomplete => f.write_str("the peer closed before the message was complete"),
            ExchangeError::PeerClosed => f.write_str("the peer closed before it was answered in full"),
            ExchangeError::Io(_) => f.write_str("the connection failed"),
            ExchangeError::TimedOut(phase) => write!(f, "{phase} took too long"),
            ExchangeError::Wire(_) => f.write_str("the message breaks RFC 9112 or a limit"),
            ExchangeError::Length => f.write_str("the content is not as long as was announced"),
            ExchangeError::Unfinished => {
                f.write_str("the handler did not finish the answer that it had begun")
            }
            ExchangeError::Source(_) => f.write_str("the source of the content failed"),
        }
    }
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Phase::Handshake => "the handshake",
            Phase::Head => "the head",
            Phase::Body => "the body",
            Phase::Write => "the peer's reading",
            Phase::Handler => "the handler",
        })
    }
}

impl Error for ExchangeError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            ExchangeError::Incomplete
            | ExchangeError::PeerClosed
            | ExchangeError::TimedOut(_)
            | ExchangeError::Length
            | ExchangeError::Unfinished => None,
            ExchangeError::Io(error) | ExchangeError::Source(error) => Some(error),
            ExchangeError::Wire(error) => Some(error),
        }
    }
}

impl From<WireError> for ExchangeError {
    #[cold]
    fn from(error: WireError) -> ExchangeError {
        ExchangeError::Wire(error)
    }
}

impl From<ExchangeError> for io::Error {
    fn from(error: ExchangeError) -> io::Error {
        io::Error::new(error.kind(), error)
    }
}

/// Writes `error` and the chain of its causes, each after a colon.
pub(crate) fn write_chain(f: &mut fmt::Formatter<'_>, error: &dyn Error) -> fmt::Result {
    write!(f, "{error}")?;
    iter::successors(error.source(), |&cause| cause.source()).try_for_each(|cause| write!(f, ": {cause}"))
}
