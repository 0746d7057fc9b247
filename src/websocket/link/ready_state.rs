//! [`ReadyState`]: whether a WebSocket is open, closing or closed (RFC 6455 §4.1, §7.1).

use std::io;

use crate::websocket::frame::Error;

/// Whether a WebSocket is open, closing or closed.
pub(crate) enum ReadyState {
    /// Messages may be sent (§4.1).
    Open,
    /// A close frame was sent, after which no frame is sent (§5.5.1, §7.1.3).
    Closing,
    /// The connection is closed (§7.1.4).
    Closed(Closed),
}

/// The end of a connection.
pub(crate) struct Closed {
    /// Whether a close frame was sent before.
    was_closing: bool,
    /// Whether bytes that waited to be written were lost.
    has_lost: bool,
    /// The error of sending what was held back; the next call fails with it.
    failure: Option<io::Error>,
}

impl ReadyState {
    /// Notes that a close frame was sent.
    pub(super) fn begin_close(&mut self) {
        if self.is_open() {
            *self = ReadyState::Closing;
        }
    }

    /// Notes that the connection is closed, and whether bytes were lost that waited to be written.
    pub(super) fn close(&mut self, has_lost: bool) {
        match self {
            ReadyState::Closed(closed) => closed.has_lost |= has_lost,
            ReadyState::Open | ReadyState::Closing => {
                let was_closing = self.is_closing();
                *self = ReadyState::Closed(Closed { was_closing, has_lost, failure: None });
            }
        }
    }

    /// Keeps the error that has closed the connection, of which no call has told yet.
    pub(super) fn keep_failure(&mut self, error: io::Error) {
        if let ReadyState::Closed(closed) = self {
            closed.failure = Some(error);
        }
    }

    /// The error of a call on a WebSocket that is closing or closed.
    pub(super) fn error(&mut self) -> io::Error {
        let failure = match self {
            ReadyState::Closed(closed) => closed.failure.take(),
            ReadyState::Open | ReadyState::Closing => None,
        };
        failure.unwrap_or_else(|| Error::Closed.into())
    }

    pub(crate) fn is_open(&self) -> bool {
        matches!(self, ReadyState::Open)
    }

    pub(super) fn is_closing(&self) -> bool {
        matches!(self, ReadyState::Closing)
    }

    pub(crate) fn is_closed(&self) -> bool {
        matches!(self, ReadyState::Closed(_))
    }

    /// Whether a close frame was sent.
    pub(crate) fn has_sent_close(&self) -> bool {
        match self {
            ReadyState::Open => false,
            ReadyState::Closing => true,
            ReadyState::Closed(closed) => closed.was_closing,
        }
    }

    /// Whether the connection was closed before all bytes were written that waited for it.
    pub(super) fn has_lost(&self) -> bool {
        matches!(self, ReadyState::Closed(closed) if closed.has_lost)
    }
}
