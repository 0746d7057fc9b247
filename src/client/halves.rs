//! [`CallWriter`] and [`CallReader`]: a call taken apart, so that the answer is read while the request is written.

use std::fmt;
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::cookies::Visit;
use super::link::Link;
use super::upload::Upload;
use super::{ClientError, ClientPhase};
use crate::memory::Reset;
use crate::message::{Headers, Response};

/// Writes the body of a request whose answer a [`CallReader`] reads meanwhile.
///
/// Made by [`Call::split`](super::Call::split). Dropped before [`CallWriter::finish`], it gives the server
/// [`ClientTimeouts::wait`](super::ClientTimeouts::wait) to answer all the same; the connection is closed, once its reader
/// is dropped, too.
pub struct CallWriter {
    both: Shared,
    trailers: Headers,
}

/// Reads the answer to a request that a [`CallWriter`] writes meanwhile.
///
/// Made by [`Call::split`](super::Call::split). What is not read holds the server back; dropped before its end, it closes
/// the connection.
pub struct CallReader {
    both: Shared,
    /// What was read last: the connection is not ours alone, so it lends nothing.
    piece: Vec<u8>,
    trailers: Headers,
    visit: Visit<'static>,
}

/// The halves of a call whose head is sent.
pub(super) fn split(link: Box<Link>, trailers: Headers, visit: Visit<'static>) -> (CallWriter, CallReader) {
    let both = Shared { both: Arc::new(Mutex::new(Both { link: Some(link) })), owners: Arc::default() };
    let reader = CallReader { both: both.clone(), piece: Vec::new(), trailers: Headers::new(), visit };
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

    /// Writes all of `data`. If the future is dropped, nobody knows how much of it was written.
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

    /// Sends all that was written.
    ///
    /// # Errors
    ///
    /// A connection that fails.
    pub async fn flush(&mut self) -> Result<(), ClientError> {
        poll_fn(|cx| self.poll_sent(cx)).await
    }

    /// Ends the body, with the request's trailers if it had some, and sends all of it. If the future is dropped, another
    /// call goes on.
    ///
    /// # Errors
    ///
    /// Less than the `content-length` that was set; a connection that fails.
    pub async fn finish(&mut self) -> Result<(), ClientError> {
        poll_fn(|cx| self.poll_finish(cx)).await
    }

    /// The same with these trailer fields instead (RFC 9110 §6.5); it is the first call that counts. A body that goes
    /// under a `content-length` goes without them.
    ///
    /// # Errors
    ///
    /// As [`CallWriter::finish`].
    pub async fn finish_with(&mut self, trailers: &Headers) -> Result<(), ClientError> {
        poll_fn(|cx| self.poll_end(cx, trailers)).await
    }

    fn poll_data(&mut self, cx: &mut Context<'_>, data: &[u8]) -> Poll<Result<usize, ClientError>> {
        self.both.poll(Half::Writer, cx, |link, cx| link.poll_write(cx, data))
    }

    fn poll_sent(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), ClientError>> {
        self.both.poll(Half::Writer, cx, |link, cx| match link.exchange.upload {
            Upload::Abandoned => Poll::Ready(Ok(())),
            _ => link.poll_flush(cx),
        })
    }

    fn poll_finish(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), ClientError>> {
        // They are written by the first call, whatever the last one waits for.
        let trailers = std::mem::take(&mut self.trailers);
        self.poll_end(cx, &trailers)
    }

    fn poll_end(&mut self, cx: &mut Context<'_>, trailers: &Headers) -> Poll<Result<(), ClientError>> {
        let ended = ready!(self.both.poll(Half::Writer, cx, |link, cx| link.poll_end(cx, trailers)));
        // The time of whoever waits for the answer begins now.
        self.both.owners.wake_by_ref();
        Poll::Ready(ended)
    }
}

impl Drop for CallWriter {
    /// Whoever waits for the answer need not wait for the end of a request that will have none.
    fn drop(&mut self) {
        self.both.lock().link().give_up();
        self.both.owners.wake_by_ref();
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
            self.both.poll(Half::Reader, cx, |link, cx| match link.poll_early(cx, response) {
                Poll::Pending => link.poll_deadline(cx, ClientPhase::Wait).map(Err),
                head => head,
            })
        })
        .await?;
        self.visit.end(response);
        let mut both = self.both.lock();
        *response.timings_mut() = both.link().exchange.timings;
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
        let CallReader { both, piece, trailers, .. } = self;
        piece.clear();
        both.poll(Half::Reader, cx, |link, cx| {
            match ready!(link.poll_chunk(cx)) {
                Ok(0) => std::mem::swap(trailers, &mut link.exchange.incoming.trailers),
                Ok(_) => piece.extend_from_slice(link.chunk()),
                Err(error) => {
                    link.close();
                    return Poll::Ready(Err(error));
                }
            }
            Poll::Ready(Ok(piece.len()))
        })
    }
}

impl AsyncRead for CallReader {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, out: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        self.both.poll(Half::Reader, cx, |link, cx| {
            let count = ready!(link.poll_chunk(cx))?.min(out.remaining());
            out.put_slice(&link.chunk()[..count]);
            if count > 0 {
                link.took(count);
            }
            Poll::Ready(Ok(()))
        })
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

/// What a half has of its call.
#[derive(Clone)]
struct Shared {
    both: Arc<Mutex<Both>>,
    owners: Arc<Owners>,
}

impl Shared {
    /// Polls the link for one half. Whatever happens to the connection, and each of its limits of time, wakes the owners
    /// of both: it has one alarm, and who of them polls last cannot know what the other one waits for.
    fn poll<T>(
        &self,
        half: Half,
        cx: &mut Context<'_>,
        poll: impl FnOnce(&mut Link, &mut Context<'_>) -> Poll<T>,
    ) -> Poll<T> {
        let mut both = self.lock();
        self.owners.note(half, cx.waker());
        poll(both.link(), &mut Context::from_waker(&Waker::from(self.owners.clone())))
    }

    fn lock(&self) -> MutexGuard<'_, Both> {
        self.both.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(Clone, Copy, Debug)]
enum Half {
    Writer,
    Reader,
}

/// Who awaits each half, or did so last.
#[derive(Default)]
struct Owners(Mutex<[Option<Waker>; 2]>);

impl Owners {
    fn note(&self, half: Half, waker: &Waker) {
        match &mut self.lock()[half as usize] {
            Some(owner) => owner.clone_from(waker),
            none => *none = Some(waker.clone()),
        }
    }

    fn lock(&self) -> MutexGuard<'_, [Option<Waker>; 2]> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Wake for Owners {
    fn wake(self: Arc<Owners>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Owners>) {
        // They are not woken under the lock: a waker may do whatever it likes.
        let owners = self.lock().clone();
        owners.into_iter().flatten().for_each(Waker::wake);
    }
}

/// What the halves have in common.
struct Both {
    /// Some, until this is dropped.
    link: Option<Box<Link>>,
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
