//! [`SharedMessage`]: a message of a server that many WebSockets send, encoded once.

use std::io;
use std::sync::OnceLock;
use std::task;

use bytes::Bytes;

use super::options::DeflateOptions;
use crate::runtime::Budget;
use crate::websocket::codec::{DeflateParams, SharedForm, WINDOW_BITS_MAX, WINDOW_BITS_MIN, encode_alone};
use crate::websocket::frame::{Message, MessageKind};
use crate::websocket::link::Link;
use crate::websocket::link::private::RoleParts;

/// A message in the forms in which it is written.
pub(crate) struct SharedMessage {
    kind: MessageKind,
    /// The frame that is not compressed, and how long its head is.
    frame: Bytes,
    head_len: usize,
    /// The frames that are compressed without reference to other messages, for each size of the window, once a member
    /// needs one.
    deflated: [OnceLock<Bytes>; WINDOWS],
}

impl SharedMessage {
    pub(super) fn new(message: Message<'_>) -> SharedMessage {
        let mut frame = Vec::with_capacity(message.as_bytes().len() + HEAD_MAX);
        let encoded = encode_alone(message, None, &mut frame);
        debug_assert!(encoded.is_ok(), "a frame without mask and compression needs nothing of the system");
        SharedMessage {
            kind: message.kind(),
            head_len: frame.len() - message.as_bytes().len(),
            frame: frame.into(),
            deflated: [const { OnceLock::new() }; WINDOWS],
        }
    }

    /// Appends the message to what waits to be written, in a form that the WebSocket can read.
    pub(super) fn write<R: RoleParts>(
        &self,
        link: &mut Link<R>,
        cx: &mut task::Context<'_>,
    ) -> io::Result<()> {
        match link.encoder.shares(self.payload().len()) {
            SharedForm::Plain => link.write_frame(cx, &self.frame),
            SharedForm::Deflated(deflate) => {
                let frame = self.deflated(deflate, &mut link.budget)?;
                link.write_frame(cx, frame)
            }
            SharedForm::Own => link.write_message(cx, self.message()),
        }
    }

    fn payload(&self) -> &[u8] {
        &self.frame[self.head_len..]
    }

    /// The message as it was. A text was a `str`, so only its kind has to be restored.
    fn message(&self) -> Message<'_> {
        match (self.kind, std::str::from_utf8(self.payload())) {
            (MessageKind::Text, Ok(text)) => Message::Text(text),
            _ => Message::Binary(self.payload()),
        }
    }

    /// The frame that is compressed as `deflate` says, which the first member does that needs it.
    fn deflated(&self, deflate: (DeflateParams, DeflateOptions), budget: &mut Budget) -> io::Result<&[u8]> {
        let deflated = &self.deflated[usize::from(deflate.0.window_bits - WINDOW_BITS_MIN)];
        if let Some(frame) = deflated.get() {
            return Ok(frame);
        }
        budget.spend(self.payload().len());
        let mut frame = Vec::new();
        encode_alone(self.message(), Some(deflate), &mut frame)?;
        Ok(deflated.get_or_init(|| frame.into()))
    }
}

/// How many sizes of windows there are.
const WINDOWS: usize = (WINDOW_BITS_MAX - WINDOW_BITS_MIN + 1) as usize;

/// The head of a frame has no more bytes.
const HEAD_MAX: usize = 14;
