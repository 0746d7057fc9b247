//! [`BodyPlan`]: what becomes of a request's body, as its head decides.

use crate::message::Status;

/// What becomes of a request's body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyPlan {
    /// All of it is received first, up to [`Limits::body_max`](crate::Limits::body_max).
    Buffer,
    /// All of it is received first, up to so many bytes.
    BufferUpTo(usize),
    /// The handler is called at once, and reads it through [`Context::body_reader`](crate::Context::body_reader), or not
    /// at all. How much it reads is up to the handler alone.
    Stream,
    /// The request is answered with this status, and the connection closed.
    Refuse(Status),
    /// A CONNECT request is served, and may become a tunnel by [`Context::tunnel`](crate::Context::tunnel); others are
    /// buffered.
    Tunnel,
}
