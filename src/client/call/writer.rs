//! [`CallWriter`]: the half of a call that writes the request.

use std::fmt;
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::AsyncWrite;

use super::Call;
use super::half::Half;
use crate::client::ClientError;
use crate::message::Headers;

/// Writes the body of a request while a [`CallReader`](super::CallReader) reads its answer.
///
/// Made by [`Call::split`](super::Call::split). If it fails, or is dropped before [`CallWriter::finish`], the server
/// still has [`ClientTimeouts::wait`](crate::ClientTimeouts::wait) to answer, and the connection is closed once both
/// halves are dropped.
pub struct CallWriter {
    half: Half,
}

impl CallWriter {
    pub(super) fn new(half: Half) -> CallWriter {
        CallWriter { half }
    }

    /// Writes some bytes from the front of `data`, and returns how many. Nothing is lost if the future is dropped.
    ///
    /// Once the server reads no more, because it has refused the request, or has answered and closes, what is written
    /// is dropped.
    ///
    /// # Errors
    ///
    /// Fails if there is more data than the `content-length` that was set, or if the connection fails before any
    /// answer. Once a write has failed, all others fail, too, and the body cannot be ended: otherwise the server would
    /// not notice that something is missing.
    pub async fn write(&mut self, data: &[u8]) -> Result<usize, ClientError> {
        poll_fn(|cx| self.poll_data(cx, data)).await
    }

    /// Writes all of `data`. If the future is dropped, it is unknown how much was written.
    ///
    /// # Errors
    ///
    /// As [`CallWriter::write`].
    pub async fn write_all(&mut self, data: &[u8]) -> Result<(), ClientError> {
        let mut rest = data;
        while !rest.is_empty() {
            let count = self.write(rest).await?;
            rest = &rest[count..];
        }
        Ok(())
    }

    /// Sends what has been written so far.
    ///
    /// # Errors
    ///
    /// Fails if the connection does.
    pub async fn flush(&mut self) -> Result<(), ClientError> {
        poll_fn(|cx| self.poll_sent(cx)).await
    }

    /// Ends the body, with the trailers of the request if there were any, and sends all of it. If the future is
    /// dropped, the next call continues.
    ///
    /// # Errors
    ///
    /// Fails if there was less data than the `content-length` that was set, if a write has failed, or if the connection
    /// fails.
    pub async fn finish(&mut self) -> Result<(), ClientError> {
        poll_fn(|cx| self.poll_finish(cx)).await
    }

    /// Ends the body as [`CallWriter::finish`] does, with these trailer fields (RFC 9110 §6.5) instead of the
    /// request's. Only the first call counts. A body with a `content-length` is sent without them.
    ///
    /// # Errors
    ///
    /// As [`CallWriter::finish`].
    pub async fn finish_with(&mut self, trailers: &Headers) -> Result<(), ClientError> {
        poll_fn(|cx| self.poll_ended(cx, |call, cx| call.poll_end(cx, trailers))).await
    }

    /// Returns whether the server still reads the body. Once it does not, what is written is dropped, so there is no
    /// need to produce any more.
    pub fn is_wanted(&self) -> bool {
        self.half.with_call(|call| call.is_wanted())
    }

    fn poll_data(&mut self, cx: &mut Context<'_>, data: &[u8]) -> Poll<Result<usize, ClientError>> {
        self.half.poll(cx, |call, cx| call.poll_data(cx, data))
    }

    fn poll_sent(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), ClientError>> {
        self.half.poll(cx, Call::poll_sent)
    }

    fn poll_finish(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), ClientError>> {
        self.poll_ended(cx, Call::poll_finish)
    }

    fn poll_ended(
        &mut self,
        cx: &mut Context<'_>,
        poll: impl FnOnce(&mut Call, &mut Context<'_>) -> Poll<Result<(), ClientError>>,
    ) -> Poll<Result<(), ClientError>> {
        let ended = ready!(self.half.poll(cx, poll));
        // The time limit of the reader that waits for the answer begins now.
        self.half.wake_halves();
        Poll::Ready(ended)
    }
}

impl Drop for CallWriter {
    /// Tells a reader that waits for the answer that the end of the request will not come.
    fn drop(&mut self) {
        self.half.with_call(Call::fail_upload);
        self.half.wake_halves();
    }
}

impl AsyncWrite for CallWriter {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_data(cx, data).map_err(io::Error::from)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_sent(cx).map_err(io::Error::from)
    }

    /// Ends the body, as [`CallWriter::finish`].
    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_finish(cx).map_err(io::Error::from)
    }
}

impl fmt::Debug for CallWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CallWriter").finish_non_exhaustive()
    }
}
