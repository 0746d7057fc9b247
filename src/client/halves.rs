//! [`CallWriter`] and [`CallReader`]: a call taken apart, so that the answer is read while the request is written.

use std::fmt;
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::link::Link;
use super::upload::Upload;
use super::{ClientError, ClientPhase};
use crate::memory::Reset;
use crate::message::{Headers, Response};

/// Writes the body of a request whose answer a [`CallReader`] reads meanwhile.
///
/// Made by [`Call::split`](super::Call::split). Dropping it before [`CallWriter::finish`] closes the connection, once its
/// reader is dropped, too.
pub struct CallWriter {
    both: Arc<Mutex<Both>>,
    trailers: Headers,
}

/// Reads the answer to a request that a [`CallWriter`] writes meanwhile.
///
/// Made by [`Call::split`](super::Call::split). What is not read holds the server back; dropped before its end, it closes
/// the connection.
pub struct CallReader {
    both: Arc<Mutex<Both>>,
    /// What was read last: the connection is not ours alone, so it lends nothing.
    piece: Vec<u8>,
    trailers: Headers,
}

/// The halves of a call whose head is sent.
pub(super) fn split(link: Box<Link>, trailers: Headers) -> (CallWriter, CallReader) {
    let both = Arc::new(Mutex::new(Both { link: Some(link), reader: None }));
    let reader = CallReader { both: both.clone(), piece: Vec::new(), trailers: Headers::new() };
    (CallWriter { both, trailers }, reader)
}

impl CallWriter {
    /// Writes some of the front of `data`, and answers how much: nothing is lost if the future is dropped. Once the
    /// server has refused the request, or said that it will close, what is written is dropped.
    ///
    /// # Errors
    ///
    /// More than the `content-length` that was set; a connection that fails.
    pub async fn write(&mut self, data: &[u8]) -> Result<usize, ClientError> {
        poll_fn(|cx| self.poll_data(cx, data)).await
    }

    /// Sends all that was written.
    ///
    /// # Errors
    ///
    /// A connection that fails.
    pub async fn flush(&mut self) -> Result<(), ClientError> {
        poll_fn(|cx| self.poll_sent(cx)).await
    }

    /// Ends the body, and sends all of it. If the future is dropped, another call goes on.
    ///
    /// # Errors
    ///
    /// Less than the `content-length` that was set; a connection that fails.
    pub async fn finish(&mut self) -> Result<(), ClientError> {
        poll_fn(|cx| self.poll_finish(cx)).await
    }

    fn poll_data(&mut self, cx: &mut Context<'_>, data: &[u8]) -> Poll<Result<usize, ClientError>> {
        let mut both = lock(&self.both);
        match both.link().gear.upload {
            Upload::Abandoned => Poll::Ready(Ok(data.len())),
            _ => both.link().poll_write(cx, data),
        }
    }

    fn poll_sent(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), ClientError>> {
        let mut both = lock(&self.both);
        match both.link().gear.upload {
            Upload::Abandoned => Poll::Ready(Ok(())),
            _ => both.link().poll_flush(cx),
        }
    }

    fn poll_finish(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), ClientError>> {
        let mut both = lock(&self.both);
        let link = both.link();
        if !matches!(link.gear.upload, Upload::Abandoned) {
            link.end(&self.trailers)?;
            link.go_ahead();
            ready!(link.poll_flush(cx))?;
            link.sent();
        }
        if let Some(reader) = both.reader.take() {
            reader.wake();
        }
        Poll::Ready(Ok(()))
    }
}

impl CallReader {
    /// Receives the head of the answer into `response`. If the future is dropped, another call goes on.
    ///
    /// # Errors
    ///
    /// Whatever keeps an answer from coming.
    pub async fn head(&mut self, response: &mut Response) -> Result<(), ClientError> {
        response.reset();
        poll_fn(|cx| {
            let mut both = lock(&self.both);
            both.reader = Some(cx.waker().clone());
            match both.link().poll_early(cx, response) {
                Poll::Pending => both.link().poll_deadline(cx, ClientPhase::Wait).map(Err),
                head => head,
            }
        })
        .await?;
        let mut both = lock(&self.both);
        *response.timings_mut() = both.link().gear.timings;
        both.link().decode(response)
    }

    /// The next piece of the body, as large as it came; none at its end. To be asked for once the head is there.
    ///
    /// # Errors
    ///
    /// A body that is cut short, malformed or too slow. Its end was not reached then, and it never will be.
    pub async fn chunk(&mut self) -> Result<Option<&[u8]>, ClientError> {
        match poll_fn(|cx| self.poll_piece(cx)).await? {
            0 => Ok(None),
            _ => Ok(Some(&self.piece)),
        }
    }

    /// The trailer fields, once the body has been read to its end (RFC 9110 §6.5).
    pub fn trailers(&self) -> &Headers {
        &self.trailers
    }

    fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<Result<usize, ClientError>> {
        let mut both = lock(&self.both);
        let link = both.link();
        self.piece.clear();
        match ready!(link.poll_chunk(cx)) {
            Ok(0) => std::mem::swap(&mut self.trailers, &mut link.gear.incoming.trailers),
            Ok(_) => self.piece.extend_from_slice(link.chunk()),
            Err(error) => {
                link.close();
                return Poll::Ready(Err(error));
            }
        }
        Poll::Ready(Ok(self.piece.len()))
    }
}

impl AsyncRead for CallReader {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, out: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let mut both = lock(&self.both);
        let link = both.link();
        let count = ready!(link.poll_chunk(cx))?.min(out.remaining());
        out.put_slice(&link.chunk()[..count]);
        if count > 0 {
            link.took(count);
        }
        Poll::Ready(Ok(()))
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

impl fmt::Debug for CallReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CallReader").field("trailers", &self.trailers).finish_non_exhaustive()
    }
}

/// What the halves have in common.
struct Both {
    /// Some, until this is dropped.
    link: Option<Box<Link>>,
    /// Whoever waits for the answer, whose time begins when the request is sent.
    reader: Option<Waker>,
}

impl Both {
    fn link(&mut self) -> &mut Link {
        self.link.as_deref_mut().expect("it is taken when this is dropped")
    }
}

impl Drop for Both {
    fn drop(&mut self) {
        if let Some(link) = self.link.take() {
            link.rest();
        }
    }
}

fn lock(both: &Mutex<Both>) -> MutexGuard<'_, Both> {
    both.lock().unwrap_or_else(PoisonError::into_inner)
}
