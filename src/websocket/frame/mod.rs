//! Frames (RFC 6455 §5), and what they carry: pure functions on bytes.

mod frame;
mod utf8;

mod close;
mod close_code;
mod message;

mod error;

pub use close::CloseReason;
pub(super) use close::close_payload;
pub use close_code::CloseCode;
pub use error::{Error, ProtocolError};
pub(super) use frame::{CONTROL_MAX, FrameHeader, Mask, OpCode, Side};
pub use message::{Message, MessageKind, MessagePart};
pub(super) use utf8::Utf8Check;
