//! [`ReadyState`]: whether a WebSocket is open, closing or closed (RFC 6455 §4.1, §7.1).

use std::{io, mem};

use crate::websocket::frame::Error;

/// Whether a WebSocket is open, closing or closed.
pub(crate) enum ReadyState {
    /// Messages may be sent (§4.1).
    Open,
    /// A close frame was sent, after which no frame is sent (§5.5.1, §7.1.3).
    Closing,
    /// A write has failed, and no frame is sent. Frames of the peer are received to its end, as its close frame may be
    /// among them (§7.1.5).
    ReceiveOnly(SendingEnd),
    /// The connection is closed (§7.1.4).
    Closed(SendingEnd),
}

/// The end of what is sent over a connection.
#[derive(Default)]
pub(crate) struct SendingEnd {
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

    /// Notes that a write has failed, with which bytes were lost.
    pub(super) fn end_sending(&mut self) {
        if self.is_writable() {
            *self = ReadyState::ReceiveOnly(self.take_end(true));
        }
    }

    /// Notes that the connection is closed, and whether bytes were lost that waited to be written.
    pub(super) fn close(&mut self, has_lost: bool) {
        *self = ReadyState::Closed(self.take_end(has_lost));
    }

    fn take_end(&mut self, has_lost: bool) -> SendingEnd {
        let mut end = match mem::replace(self, ReadyState::Open) {
            ReadyState::Open => SendingEnd::default(),
            ReadyState::Closing => SendingEnd { was_closing: true, ..SendingEnd::default() },
            ReadyState::ReceiveOnly(end) | ReadyState::Closed(end) => end,
        };
        end.has_lost |= has_lost;
        end
    }

    /// Keeps the error that has ended the sending, of which no call has told yet.
    pub(super) fn keep_failure(&mut self, error: io::Error) {
        if let ReadyState::ReceiveOnly(end) | ReadyState::Closed(end) = self {
            end.failure = Some(error);
        }
    }

    /// The error of a call on a WebSocket that is closing or closed.
    pub(super) fn error(&mut self) -> io::Error {
        let failure = match self {
            ReadyState::ReceiveOnly(end) | ReadyState::Closed(end) => end.failure.take(),
            ReadyState::Open | ReadyState::Closing => None,
        };
        failure.unwrap_or_else(|| Error::Closed.into())
    }

    pub(crate) fn is_open(&self) -> bool {
        matches!(self, ReadyState::Open)
    }

    /// Whether bytes that wait may still be written.
    pub(crate) fn is_writable(&self) -> bool {
        matches!(self, ReadyState::Open | ReadyState::Closing)
    }

    pub(crate) fn is_closed(&self) -> bool {
        matches!(self, ReadyState::Closed(_))
    }

    /// Whether a close frame was sent.
    pub(crate) fn has_sent_close(&self) -> bool {
        match self {
            ReadyState::Open => false,
            ReadyState::Closing => true,
            ReadyState::ReceiveOnly(end) | ReadyState::Closed(end) => end.was_closing,
        }
    }

    /// Whether the sending has ended before all bytes were written that waited for it.
    pub(super) fn has_lost(&self) -> bool {
        matches!(self, ReadyState::ReceiveOnly(end) | ReadyState::Closed(end) if end.has_lost)
    }
}
