//! [`Error`]: why a WebSocket failed; [`ProtocolFault`]: how the peer broke RFC 6455.

use std::error;
use std::fmt;
use std::io;

use super::close_code::CloseCode;
use crate::error_text::write_error;
use crate::message::{PeerFault, Status};

/// Why a WebSocket was not opened or has failed, or why something cannot be sent over it.
///
/// The error is inside the [`io::Error`] of the methods of a [`WebSocket`](crate::websocket::WebSocket). Errors of the
/// connection are there as an [`ExchangeError`](crate::error::ExchangeError), such as a peer that is silent for too long.
/// Errors of a client's connection are a [`ClientError`](crate::ClientError) with such a cause.
///
/// In a handler, `?` answers with 500 for a failed WebSocket of a client.
///
/// # Examples
///
/// ```
/// use std::io;
/// use corehttp::websocket;
///
/// fn was_too_large(error: &io::Error) -> bool {
///     let reason = error.get_ref().and_then(|error| error.downcast_ref());
///     matches!(reason, Some(websocket::Error::MessageTooLarge(_)))
/// }
/// # assert!(!was_too_large(&io::ErrorKind::TimedOut.into()));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Error {
    /// The request to open a WebSocket is refused.
    Handshake(HandshakeFault),
    /// The peer broke RFC 6455.
    Protocol(ProtocolFault),
    /// A text from the peer, or the reason of its close frame, is not UTF-8 (RFC 6455 §8.1).
    Text,
    /// A part of a text cannot be sent, because the text is not UTF-8.
    PartText,
    /// A compressed message is corrupt (RFC 7692 §7.2.2).
    Compressed,
    /// A message has more bytes than [`Options::message_max`](crate::websocket::Options::message_max).
    MessageTooLarge(usize),
    /// A frame has more bytes than [`Options::frame_max`](crate::websocket::Options::frame_max).
    FrameTooLarge(usize),
    /// A message has more frames than [`Options::fragments_max`](crate::websocket::Options::fragments_max).
    TooManyFragments(u32),
    /// Control frames came faster than [`Options::control_rate_max`](crate::websocket::Options::control_rate_max)
    /// allows. The number is this bound, in frames a second on average.
    TooManyControls(u32),
    /// There is no memory for a message within [`Limits::memory_max`](crate::Limits::memory_max), because other peers
    /// of the server hold it.
    Memory,
    /// Nothing can be sent any more, after a close frame, a failed write or the end of the connection.
    Closed,
    /// A message cannot be sent between the parts of another one.
    Interleaved,
    /// The payload of a control frame, or the reason of a close frame, is too long to be sent (RFC 6455 §5.5).
    LongPayload,
    /// This code must not be sent in a close frame (RFC 6455 §7.4).
    Code(CloseCode),
    /// A member of a broadcast has not kept up, and so many messages were lost to it.
    Lagged(u64),
}

/// How a peer broke RFC 6455.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ProtocolFault {
    /// A reserved bit is set without an extension that defines it (§5.2).
    ReservedBits,
    /// This opcode is reserved (§5.2).
    OpCode(u8),
    /// A length has a longer form than it needs, or exceeds 63 bits (§5.2).
    Length,
    /// A frame of a client is not masked (§5.1).
    Unmasked,
    /// A frame of a server is masked (§5.1).
    Masked,
    /// A control frame is fragmented (§5.5).
    FragmentedControl,
    /// A control frame is longer than 125 bytes (§5.5).
    LongControl,
    /// A continuation has no message that it goes on with (§5.4).
    Continuation,
    /// A message begins inside another one (§5.4).
    Interleaved,
    /// A close frame has a payload of one byte (§5.5.1).
    ClosePayload,
    /// This code must not be in a close frame (§7.4).
    CloseCode(u16),
}

impl Error {
    /// Returns the code of the close frame that is sent to the peer, if there is one (RFC 6455 §7.4.1).
    pub(crate) fn close_code(&self) -> Option<CloseCode> {
        Some(match self {
            Error::Protocol(_) => CloseCode::PROTOCOL_ERROR,
            Error::Text | Error::Compressed => CloseCode::INVALID_DATA,
            Error::MessageTooLarge(_) | Error::FrameTooLarge(_) => CloseCode::TOO_LARGE,
            Error::TooManyFragments(_) | Error::TooManyControls(_) => CloseCode::POLICY,
            Error::Lagged(_) | Error::Memory => CloseCode::TRY_AGAIN_LATER,
            Error::Handshake(_)
            | Error::PartText
            | Error::Closed
            | Error::Interleaved
            | Error::LongPayload
            | Error::Code(_) => return None,
        })
    }

    fn kind(&self) -> io::ErrorKind {
        match self {
            Error::Closed => io::ErrorKind::BrokenPipe,
            Error::Lagged(_) | Error::Memory => io::ErrorKind::TimedOut,
            Error::Handshake(_)
            | Error::PartText
            | Error::Interleaved
            | Error::LongPayload
            | Error::Code(_) => io::ErrorKind::InvalidInput,
            _ => io::ErrorKind::InvalidData,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_error(f, self, |f| match self {
            Error::Handshake(fault) => fault.fmt(f),
            Error::Protocol(fault) => fault.fmt(f),
            Error::Text => f.write_str("a text is not UTF-8"),
            Error::PartText => f.write_str("a part of a text cannot be sent, because the text is not UTF-8"),
            Error::Compressed => f.write_str("a compressed message is corrupt"),
            Error::MessageTooLarge(max) => write!(f, "a message exceeds {max} bytes"),
            Error::FrameTooLarge(max) => write!(f, "a frame exceeds {max} bytes"),
            Error::TooManyFragments(max) => write!(f, "a message has more than {max} frames"),
            Error::TooManyControls(max) => {
                write!(f, "control frames came faster than {max} a second on average")
            }
            Error::Closed => f.write_str("the WebSocket is closed"),
            Error::Interleaved => f.write_str("a message cannot be sent between the parts of another one"),
            Error::LongPayload => f.write_str("the payload of a control frame exceeds 125 bytes"),
            Error::Code(code) => write!(f, "the code {code} must not be sent"),
            Error::Memory => f.write_str("there is no memory for the message, because others hold it"),
            Error::Lagged(lost) => {
                write!(f, "the peer has not kept up with a broadcast, and has lost {lost} messages")
            }
        })
    }
}

impl fmt::Display for ProtocolFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ProtocolFault::ReservedBits => "a reserved bit of a frame is set",
            ProtocolFault::OpCode(opcode) => return write!(f, "the opcode {opcode:#x} is reserved"),
            ProtocolFault::Length => "the length of a frame is malformed",
            ProtocolFault::Unmasked => "a frame of a client is not masked",
            ProtocolFault::Masked => "a frame of a server is masked",
            ProtocolFault::FragmentedControl => "a control frame is fragmented",
            ProtocolFault::LongControl => "a control frame exceeds 125 bytes",
            ProtocolFault::Continuation => "a continuation has no message",
            ProtocolFault::Interleaved => "a message begins inside another one",
            ProtocolFault::ClosePayload => "a close frame has a payload of one byte",
            ProtocolFault::CloseCode(code) => return write!(f, "the code {code} is reserved"),
        })
    }
}

impl error::Error for Error {
    /// The status of the answer to a request to open a WebSocket, or a mark of a fault of the peer.
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        match self {
            Error::Handshake(fault) => Some(fault.status()),
            error => error.close_code().map(|_| &PeerFault as &(dyn error::Error + 'static)),
        }
    }
}

impl From<HandshakeFault> for Error {
    fn from(fault: HandshakeFault) -> Error {
        Error::Handshake(fault)
    }
}

impl From<ProtocolFault> for Error {
    fn from(fault: ProtocolFault) -> Error {
        Error::Protocol(fault)
    }
}

impl From<Error> for io::Error {
    fn from(error: Error) -> io::Error {
        io::Error::new(error.kind(), error)
    }
}

/// Why a request to open a WebSocket is refused.
///
/// Found in [`Error::Handshake`](crate::websocket::Error::Handshake), inside the [`io::Error`](std::io::Error) of
/// [`Context::websocket`](crate::Context::websocket). In a handler, `?` turns that error into the right status.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum HandshakeFault {
    /// The method is not GET. Answered with 405.
    Method,
    /// The version is not 13. Answered with 426.
    Version,
    /// The key is missing, or is not 16 bytes in base64. Answered with 400.
    Key,
    /// The request has content, which a gateway would not pass on with the wish for a WebSocket. Answered with 400.
    Content,
    /// The WebSocket is from a page of a refused origin. See [`Options::origins`](crate::websocket::Options::origins).
    /// Answered with 403.
    Origin,
}

impl fmt::Display for HandshakeFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            HandshakeFault::Method => "a WebSocket is opened by GET",
            HandshakeFault::Version => "the WebSocket is of another version than 13",
            HandshakeFault::Key => "the sec-websocket-key is missing or malformed",
            HandshakeFault::Content => "a request that opens a WebSocket has no content",
            HandshakeFault::Origin => "a page of another origin opens the WebSocket",
        })
    }
}

impl HandshakeFault {
    fn status(self) -> &'static Status {
        match self {
            HandshakeFault::Method => &Status::METHOD_NOT_ALLOWED,
            HandshakeFault::Version => &Status::UPGRADE_REQUIRED,
            HandshakeFault::Key | HandshakeFault::Content => &Status::BAD_REQUEST,
            HandshakeFault::Origin => &Status::FORBIDDEN,
        }
    }
}
