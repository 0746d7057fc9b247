//! [`Stream`]: a stream that a caller may supply as a connection; [`AnyStream`]: such a stream in a box.

use std::pin::Pin;

use tokio::io::{AsyncRead, AsyncWrite};

use super::memory_listener::MemoryStream;

/// A stream that a caller may supply as a connection.
pub(crate) trait Stream: AsyncRead + AsyncWrite {}

impl<T: AsyncRead + AsyncWrite> Stream for T {}

/// A boxed [`Stream`], which may or may not be `Send`.
pub(crate) trait AnyStream: Unpin {
    fn as_stream(&mut self) -> Pin<&mut dyn Stream>;

    fn is_write_vectored(&self) -> bool;
}

impl AnyStream for Pin<Box<dyn Stream>> {
    fn as_stream(&mut self) -> Pin<&mut dyn Stream> {
        self.as_mut()
    }

    fn is_write_vectored(&self) -> bool {
        AsyncWrite::is_write_vectored(self)
    }
}

impl AnyStream for Pin<Box<dyn Stream + Send>> {
    fn as_stream(&mut self) -> Pin<&mut dyn Stream> {
        self.as_mut()
    }

    fn is_write_vectored(&self) -> bool {
        AsyncWrite::is_write_vectored(self)
    }
}

impl AnyStream for MemoryStream {
    fn as_stream(&mut self) -> Pin<&mut dyn Stream> {
        Pin::<&mut MemoryStream>::new(self)
    }

    fn is_write_vectored(&self) -> bool {
        AsyncWrite::is_write_vectored(self)
    }
}
