//! [`Message`]: a message of a WebSocket; [`MessagePart`]: a part of one (RFC 6455 §5.4, §5.6).

use bytes::Bytes;

use super::frame::OpCode;

/// A message, as a view of the memory in which it was received, or of your own.
///
/// # Examples
///
/// ```
/// use corehttp::websocket::Message;
///
/// let message = Message::from("hello");
/// assert_eq!((message, message.as_bytes()), (Message::Text("hello"), &b"hello"[..]));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Message<'a> {
    /// A text.
    Text(&'a str),
    /// Any bytes.
    Binary(&'a [u8]),
}

impl<'a> Message<'a> {
    /// Returns the bytes of the message, those of a text in UTF-8.
    pub fn as_bytes(self) -> &'a [u8] {
        match self {
            Message::Text(text) => text.as_bytes(),
            Message::Binary(bytes) => bytes,
        }
    }

    /// Returns the text. `None` if the message is binary.
    pub fn text(self) -> Option<&'a str> {
        match self {
            Message::Text(text) => Some(text),
            Message::Binary(_) => None,
        }
    }

    /// Returns a copy of the bytes, to keep.
    pub fn to_bytes(self) -> Bytes {
        Bytes::copy_from_slice(self.as_bytes())
    }

    /// Returns the kind of the message.
    pub fn kind(self) -> MessageKind {
        match self {
            Message::Text(_) => MessageKind::Text,
            Message::Binary(_) => MessageKind::Binary,
        }
    }
}

impl<'a> From<&'a str> for Message<'a> {
    fn from(text: &'a str) -> Message<'a> {
        Message::Text(text)
    }
}

impl<'a> From<&'a String> for Message<'a> {
    fn from(text: &'a String) -> Message<'a> {
        Message::Text(text)
    }
}

impl<'a> From<&'a [u8]> for Message<'a> {
    fn from(bytes: &'a [u8]) -> Message<'a> {
        Message::Binary(bytes)
    }
}

impl<'a> From<&'a Vec<u8>> for Message<'a> {
    fn from(bytes: &'a Vec<u8>) -> Message<'a> {
        Message::Binary(bytes)
    }
}

impl<'a> From<&'a Bytes> for Message<'a> {
    fn from(bytes: &'a Bytes) -> Message<'a> {
        Message::Binary(bytes)
    }
}

/// The kinds of messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MessageKind {
    /// Text in UTF-8.
    Text,
    /// Any bytes.
    Binary,
}

impl MessageKind {
    /// The kind of the message that a frame begins; `None` if it begins none.
    pub(crate) fn from_opcode(opcode: OpCode) -> Option<MessageKind> {
        match opcode {
            OpCode::Text => Some(MessageKind::Text),
            OpCode::Binary => Some(MessageKind::Binary),
            _ => None,
        }
    }

    pub(crate) fn opcode(self) -> OpCode {
        match self {
            MessageKind::Text => OpCode::Text,
            MessageKind::Binary => OpCode::Binary,
        }
    }
}

/// A part of a message that is received or sent piece by piece.
///
/// The parts of a text are UTF-8 together, but each of them may begin and end inside a character. The places of the
/// cuts have no meaning. A proxy may cut elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MessagePart<'a> {
    /// The kind of the message, the same for all of its parts.
    pub kind: MessageKind,
    /// The bytes of this part. A last part may be empty.
    pub bytes: &'a [u8],
    /// Whether this part is the last one of its message.
    pub is_last: bool,
}
