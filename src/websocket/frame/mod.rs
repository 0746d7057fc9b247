//! Frames (RFC 6455 §5), and what they carry: pure functions on bytes.

mod frame;
mod utf8;

mod close;
mod close_code;
mod message;

mod error;

pub use close::CloseReason;
pub(crate) use close::close_payload;
pub use close_code::CloseCode;
pub use error::{Error, HandshakeFault, ProtocolFault};
pub(crate) use frame::{CONTROL_MAX, FrameHeader, Mask, OpCode, Side};
pub use message::{Message, MessageKind, MessagePart};
pub(crate) use utf8::Utf8Check;
