//! [`ExchangeError`]: why an exchange ended early.

use std::error::Error;
use std::fmt;
use std::io;
use std::time::Duration;

use crate::error_text::{TimeLimit, write_error};
use crate::message::Status;
use crate::net::ConnError;
use crate::runtime::MemoryError;
use crate::wire::{Limits, WireDetail, WireError};

/// Why an exchange ended early.
///
/// The [`io::Error`] of readers and writers contains this error, so passing it on with `?` results in the right status.
#[derive(Debug)]
#[non_exhaustive]
pub enum ExchangeError {
    /// The peer closed before the message was complete (RFC 9112 §8).
    Incomplete,
    /// The peer closed the connection, or its sending half, before it was answered in full. A handler that returns this
    /// error ends the exchange without a response.
    PeerClosed,
    /// The peer of a WebSocket closed the connection without a close frame, which is code 1006 (RFC 6455 §7.1.5). A
    /// handler that returns this error ends the exchange as with [`ExchangeError::PeerClosed`].
    NoCloseFrame,
    /// The socket failed.
    Io(io::Error),
    /// A [`Phase`] took longer than its time limit.
    TimedOut(Phase, TimeLimit),
    /// The peer broke RFC 9112, or a limit. With the field or the limit, if there is one.
    Wire(WireError, Option<Box<WireDetail>>),
    /// Other peers hold the memory ([`Limits::memory_max`](crate::Limits::memory_max)), and a wait for it is over or
    /// impossible. The memory is for a large response, a message to a slow WebSocket, or a body beyond 256 KiB.
    NoMemory,
    /// The application's content is not as long as it announced.
    Length,
    /// The handler returned without finishing the response that it streamed, for example with
    /// [`BodyWriter::finish`](crate::BodyWriter::finish).
    Unfinished,
    /// The handler reads a body of which a part was discarded, while the response was sent or after a failure.
    Discarded,
    /// The application's source of a streamed body failed.
    Source(io::Error),
}

/// The part of an exchange that was waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Phase {
    /// The TLS handshake.
    Handshake,
    /// The rest of a head.
    Head,
    /// The turn of a request on its busy core ([`Timeouts::queue`](crate::Timeouts::queue)).
    Queue,
    /// More of a body, or a body at the required rate.
    Body,
    /// The peer to read what is sent.
    Write,
    /// The wait for memory that other exchanges hold ([`Limits::memory_max`](crate::Limits::memory_max)).
    Memory,
    /// The handler.
    Handler,
    /// Anything at all, even a pong, from the peer of a WebSocket.
    Silence,
    /// The close frame of the peer of a WebSocket.
    Close,
}

impl ExchangeError {
    /// Makes a function that converts an error of the connection during `phase`, which may take as long as `limit`.
    pub(crate) fn during(phase: Phase, limit: Duration) -> impl Fn(ConnError) -> ExchangeError {
        move |error| match error {
            ConnError::TimedOut => ExchangeError::TimedOut(phase, limit.into()),
            ConnError::Io(error) => ExchangeError::Io(error),
        }
    }

    /// Whether the handler is at fault.
    pub(crate) fn is_of_handler(&self) -> bool {
        match self {
            ExchangeError::TimedOut(phase, _) => *phase == Phase::Handler,
            ExchangeError::Length
            | ExchangeError::Unfinished
            | ExchangeError::Discarded
            | ExchangeError::Source(_) => true,
            _ => false,
        }
    }

    /// Whether the application or the machine is at fault, and not the peer, which may break the protocol, be slow, or go
    /// away.
    pub(crate) fn is_fault(&self) -> bool {
        use io::ErrorKind as Kind;
        match self {
            ExchangeError::Io(error) => !matches!(
                error.kind(),
                Kind::BrokenPipe
                    | Kind::ConnectionAborted
                    | Kind::ConnectionReset
                    | Kind::InvalidData
                    | Kind::NotConnected
                    | Kind::TimedOut
                    | Kind::UnexpectedEof
            ),
            ExchangeError::NoMemory | ExchangeError::TimedOut(Phase::Queue | Phase::Memory, _) => true,
            error => error.is_of_handler(),
        }
    }

    /// The error of content for which there is no memory.
    #[cold]
    pub(crate) fn from_memory(error: MemoryError) -> ExchangeError {
        match error {
            MemoryError::TimedOut(limit) => ExchangeError::TimedOut(Phase::Memory, limit.into()),
            MemoryError::NoneLeft => ExchangeError::NoMemory,
            MemoryError::NeverFits(max) => {
                let detail = WireDetail::limit("memory_max", "bytes", max);
                ExchangeError::Wire(WireError::BodyTooLarge, Some(detail))
            }
        }
    }

    /// The error of an operation that fails because an earlier write failed, with an error of this kind. The peer had
    /// the time `write` to read.
    pub(crate) fn from_failed_write(kind: io::ErrorKind, write: Duration) -> ExchangeError {
        match kind {
            io::ErrorKind::TimedOut => ExchangeError::TimedOut(Phase::Write, write.into()),
            io::ErrorKind::InvalidInput => ExchangeError::Length,
            kind => ExchangeError::Io(kind.into()),
        }
    }

    /// The error of a body of more than `body_max` bytes, of which `announced` is the length that the peer announced.
    #[cold]
    pub(crate) fn body_too_large(body_max: usize, announced: Option<u64>) -> ExchangeError {
        ExchangeError::Wire(WireError::BodyTooLarge, Some(WireDetail::body_too_large(body_max, announced)))
    }

    /// Adds to `error`, which was found in `text`, the field or the limit in question.
    #[cold]
    pub(super) fn with_detail(error: WireError, text: &[u8], limits: &Limits) -> ExchangeError {
        ExchangeError::Wire(error, WireDetail::from_error(error, text, limits))
    }

    /// Converts the error to an error of the standard library, without its source.
    pub(crate) fn as_io(&self) -> io::Error {
        io::Error::new(self.kind(), format!("{self:#}"))
    }

    pub(crate) fn kind(&self) -> io::ErrorKind {
        match self {
            ExchangeError::Incomplete => io::ErrorKind::UnexpectedEof,
            ExchangeError::PeerClosed | ExchangeError::NoCloseFrame => io::ErrorKind::ConnectionAborted,
            ExchangeError::Io(error) | ExchangeError::Source(error) => error.kind(),
            ExchangeError::Length | ExchangeError::Unfinished | ExchangeError::Discarded => {
                io::ErrorKind::InvalidInput
            }
            ExchangeError::NoMemory => io::ErrorKind::ResourceBusy,
            ExchangeError::TimedOut(..) => io::ErrorKind::TimedOut,
            ExchangeError::Wire(..) => io::ErrorKind::InvalidData,
        }
    }

    /// Returns the status of the response, if the peer can still be answered.
    pub fn status(&self) -> Option<Status> {
        match self {
            ExchangeError::Incomplete => Some(Status::BAD_REQUEST),
            ExchangeError::PeerClosed | ExchangeError::NoCloseFrame | ExchangeError::Io(_) => None,
            ExchangeError::TimedOut(Phase::Head | Phase::Body, _) => Some(Status::REQUEST_TIMEOUT),
            ExchangeError::NoMemory
            | ExchangeError::TimedOut(Phase::Queue | Phase::Handler | Phase::Memory, _) => {
                Some(Status::SERVICE_UNAVAILABLE)
            }
            ExchangeError::TimedOut(Phase::Handshake | Phase::Write | Phase::Silence | Phase::Close, _) => {
                None
            }
            ExchangeError::Wire(error, _) => Some(error.status()),
            ExchangeError::Length
            | ExchangeError::Unfinished
            | ExchangeError::Discarded
            | ExchangeError::Source(_) => Some(Status::INTERNAL_SERVER_ERROR),
        }
    }
}

/// Takes the end of a secure connection without `close_notify` (RFC 8446 §6.1) for an end as any other. It is one wherever the
/// bytes themselves tell where a message ends.
pub(crate) fn cut_as_end(read: Result<usize, ConnError>) -> Result<usize, ConnError> {
    match read {
        Err(ConnError::Io(error)) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(0),
        read => read,
    }
}

impl fmt::Display for ExchangeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_error(f, self, |f| match self {
            ExchangeError::Incomplete => f.write_str("the peer closed before the message was complete"),
            ExchangeError::PeerClosed => f.write_str("the peer closed before it was answered in full"),
            ExchangeError::NoCloseFrame => {
                f.write_str("the peer closed the connection without a close frame")
            }
            ExchangeError::Io(_) => f.write_str("the connection failed"),
            ExchangeError::TimedOut(phase, limit) => write!(f, "{phase} {}", limit.exceeded()),
            ExchangeError::Wire(error, None) => error.fmt(f),
            ExchangeError::Wire(error, Some(detail)) => write!(f, "{error}: {detail}"),
            ExchangeError::NoMemory => f.write_str("there is no memory left, because others hold it"),
            ExchangeError::Length => f.write_str("the content is not as long as was announced"),
            ExchangeError::Unfinished => {
                f.write_str("the handler did not finish the response that it had begun")
            }
            ExchangeError::Discarded => f.write_str(
                "a part of the body was discarded, while the response was sent or after a failure",
            ),
            ExchangeError::Source(_) => f.write_str("the source of the content failed"),
        })
    }
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Phase::Handshake => "the handshake",
            Phase::Head => "the head",
            Phase::Queue => "the wait for a busy core",
            Phase::Body => "the body",
            Phase::Write => "the wait for the peer to read",
            Phase::Memory => "the wait for memory that other requests hold",
            Phase::Handler => "the handler",
            Phase::Silence => "the silence of the peer",
            Phase::Close => "the wait for the peer to close",
        })
    }
}

impl Error for ExchangeError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            ExchangeError::Incomplete
            | ExchangeError::PeerClosed
            | ExchangeError::NoCloseFrame
            | ExchangeError::TimedOut(..)
            | ExchangeError::Wire(..)
            | ExchangeError::NoMemory
            | ExchangeError::Length
            | ExchangeError::Unfinished
            | ExchangeError::Discarded => None,
            ExchangeError::Io(error) | ExchangeError::Source(error) => Some(error),
        }
    }
}

impl From<WireError> for ExchangeError {
    #[cold]
    fn from(error: WireError) -> ExchangeError {
        ExchangeError::Wire(error, None)
    }
}

impl From<ExchangeError> for io::Error {
    fn from(error: ExchangeError) -> io::Error {
        io::Error::new(error.kind(), error)
    }
}
