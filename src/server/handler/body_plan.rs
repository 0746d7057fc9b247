//! [`BodyPlan`]: what becomes of a request's body, decided by the head alone.

use crate::message::Status;

/// What becomes of a request's body, as [`Handler::on_head`](crate::Handler::on_head) decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyPlan {
    /// The whole body is received before the handler is called, up to [`Limits::body_max`](crate::Limits::body_max). A
    /// request with a larger one is answered with 413, and reaches neither the handler nor middleware.
    Buffer,
    /// The whole body is received before the handler is called, up to this many bytes.
    BufferUpTo(usize),
    /// The handler is called at once, and reads the body with [`Context::body_reader`](crate::Context::body_reader), or
    /// not at all. No limit applies except the handler's own.
    Stream,
    /// The request is answered with this status. [`Server::on_error`](crate::Server::on_error) is called, but neither
    /// the handler nor middleware, such as an access log. The body is discarded. The connection is closed if the body
    /// is larger than [`Limits::drain_max`](crate::Limits::drain_max) or does not arrive in time, if the peer waits for
    /// `100 Continue`, or if the request is a CONNECT.
    Refuse(Status),
    /// A CONNECT request is passed to the handler, which may open a [`Context::tunnel`](crate::Context::tunnel). The
    /// bodies of other requests are buffered.
    Tunnel,
}
