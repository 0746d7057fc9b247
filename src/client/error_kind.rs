//! Which kind of [`io::Error`] a [`ClientError`] becomes.

use std::io;

use super::error::{ClientCause, ClientError};

impl ClientError {
    /// The kind of the error of the standard library that this becomes: that of its cause.
    pub(super) fn kind(&self) -> io::ErrorKind {
        match self.cause() {
            ClientCause::TimedOut => io::ErrorKind::TimedOut,
            ClientCause::Io(error) => error.kind(),
            ClientCause::Exchange(error) => error.kind(),
            ClientCause::Coding(error) => error.kind(),
            ClientCause::Tls(error) => error.kind(),
            // Its connection failed, or it has refused, for whatever reason.
            ClientCause::Proxy(error) => error
                .source()
                .and_then(|cause| cause.downcast_ref())
                .map_or(io::ErrorKind::ConnectionRefused, io::Error::kind),
            ClientCause::Closed => io::ErrorKind::UnexpectedEof,
            ClientCause::OutOfStep => io::ErrorKind::ConnectionAborted,
            ClientCause::TooManyInterim | ClientCause::Location(_) | ClientCause::Locations => {
                io::ErrorKind::InvalidData
            }
            ClientCause::Upgrade => io::ErrorKind::Unsupported,
            ClientCause::Request(_) | ClientCause::Origin | ClientCause::Spent | ClientCause::Pipelined => {
                io::ErrorKind::InvalidInput
            }
            ClientCause::NoRuntime
            | ClientCause::TooManyRedirects
            | ClientCause::Downgrade
            | ClientCause::LengthRequired
            | ClientCause::NoHost => io::ErrorKind::Other,
        }
    }
}

/// The kind is that of the cause, such as [`ConnectionReset`](io::ErrorKind::ConnectionReset). For an answer that is cut
/// short, also within its coding, it is [`UnexpectedEof`](io::ErrorKind::UnexpectedEof).
impl From<ClientError> for io::Error {
    fn from(error: ClientError) -> io::Error {
        io::Error::new(error.kind(), error)
    }
}
