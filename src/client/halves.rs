//! [`CallWriter`] and [`CallReader`]: a call taken apart, so that the answer is read while the request is written.

use std::fmt;
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::cookies::Visit;
use super::link::Link;
use super::{ClientError, ClientPhase};
use crate::memory::{Reset, lock};
use crate::message::{Headers, Response};

/// Writes the body of a request whose answer a [`CallReader`] reads meanwhile.
///
/// Made by [`Call::split`](super::Call::split). Dropped before [`CallWriter::finish`], it gives the server
/// [`ClientTimeouts::wait`](super::ClientTimeouts::wait) to answer all the same; the connection is closed, once its reader
/// is dropped, too.
pub struct CallWriter {
    half: Half,
    trailers: Headers,
}

/// Reads the answer to a request that a [`CallWriter`] writes meanwhile.
///
/// Made by [`Call::split`](super::Call::split). What is not read holds the server back; dropped before its end, it closes
/// the connection.
pub struct CallReader {
    half: Half,
    /// What was read last: the connection is not ours alone, so it lends nothing.
    piece: Vec<u8>,
    trailers: Headers,
    visit: Visit<'static>,
}

/// The halves of a call whose head is sent.
pub(super) fn split(
    link: Box<Link>,
    early: Response,
    trailers: Headers,
    visit: Visit<'static>,
) -> (CallWriter, CallReader) {
    let (both, owners) = (Arc::new(Mutex::new(Both { link: Some(link), early })), Arc::<Owners>::default());
    let half = |side| Half { side, both: both.clone(), owners: owners.clone() };
    let reader = CallReader { half: half(Side::Reader), piece: Vec::new(), trailers: Headers::new(), visit };
    (CallWriter { half: half(Side::Writer), trailers }, reader)
}

impl CallWriter {
    /// Writes some of the front of `data`, and answers how much: nothing is lost if the future is dropped. Once the
    /// server has refused the request, or said that it will close, what is written is dropped.
    ///
    /// # Errors
    ///
    /// More than the `content-length` that was set; a connection that fails, and no answer that came before.
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
        self.poll_unless_refused(cx, data.len(), |link, cx| link.poll_write(cx, data))
    }

    fn poll_sent(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), ClientError>> {
        self.poll_unless_refused(cx, (), Link::poll_flush)
    }

    fn poll_finish(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), ClientError>> {
        // They are written by the first call, whatever the last one waits for.
        let trailers = std::mem::take(&mut self.trailers);
        self.poll_end(cx, &trailers)
    }

    fn poll_end(&mut self, cx: &mut Context<'_>, trailers: &Headers) -> Poll<Result<(), ClientError>> {
        let ended = ready!(self.poll_unless_refused(cx, (), |link, cx| link.poll_end(cx, trailers)));
        // The time of whoever waits for the answer begins now.
        self.half.owners.wake_by_ref();
        Poll::Ready(ended)
    }

    fn poll_unless_refused<T>(
        &mut self,
        cx: &mut Context<'_>,
        dropped: T,
        poll: impl FnMut(&mut Link, &mut Context<'_>) -> Poll<Result<T, ClientError>>,
    ) -> Poll<Result<T, ClientError>> {
        self.half.poll(cx, |link, early, cx| link.poll_unless_refused(cx, early, dropped, poll))
    }
}

impl Drop for CallWriter {
    /// Whoever waits for the answer need not wait for the end of a request that will have none.
    fn drop(&mut self) {
        lock(&self.half.both).parts().0.give_up();
        self.half.owners.wake_by_ref();
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
            self.half.poll(cx, |link, early, cx| {
                if link.exchange.is_answered {
                    std::mem::swap(response, early);
                    return Poll::Ready(Ok(()));
                }
                match link.poll_early(cx, response) {
                    Poll::Pending => link.poll_deadline(cx, ClientPhase::Wait).map(Err),
                    head => head,
                }
            })
        })
        .await?;
        self.visit.end(response);
        let mut both = lock(&self.half.both);
        let (link, _) = both.parts();
        *response.timings_mut() = link.exchange.timings;
        link.decode(response)
    }

    /// The next piece of the body, as large as it came; none at its end. To be asked for once the head is there.
    ///
    /// # Errors
    ///
    /// A body that is cut short, malformed or too slow. Its end was not reached then, and it never will be.
    pub async fn chunk(&mut self) -> Result<Option<&[u8]>, ClientError> {
        let CallReader { half, piece, trailers, .. } = self;
        piece.clear();
        poll_fn(|cx| half.poll_chunk(cx, trailers, |link| piece.extend_from_slice(link.chunk()))).await?;
        Ok(Some(&**piece).filter(|piece| !piece.is_empty()))
    }

    /// The trailer fields, once the body has been read to its end (RFC 9110 §6.5).
    pub fn trailers(&self) -> &Headers {
        &self.trailers
    }
}

impl AsyncRead for CallReader {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        out: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let CallReader { half, trailers, .. } = &mut *self;
        half.poll_chunk(cx, trailers, |link| link.read_chunk(out)).map_err(io::Error::from)
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

/// What each half has of the call.
struct Half {
    side: Side,
    both: Arc<Mutex<Both>>,
    owners: Arc<Owners>,
}

impl Half {
    /// Polls the link for one half. Whatever happens to the connection, and each of its limits of time, wakes the owners
    /// of both: it has one alarm, and who of them polls last cannot know what the other one waits for.
    fn poll<T>(
        &self,
        cx: &mut Context<'_>,
        poll: impl FnOnce(&mut Link, &mut Response, &mut Context<'_>) -> Poll<T>,
    ) -> Poll<T> {
        let mut both = lock(&self.both);
        self.owners.note(self.side, cx.waker());
        let (link, early) = both.parts();
        poll(link, early, &mut Context::from_waker(&Waker::from(self.owners.clone())))
    }

    /// Receives the next piece of the body, and has `take` take it; at the end come the trailers.
    fn poll_chunk(
        &self,
        cx: &mut Context<'_>,
        trailers: &mut Headers,
        take: impl FnOnce(&mut Link),
    ) -> Poll<Result<(), ClientError>> {
        self.poll(cx, |link, _, cx| {
            match ready!(link.poll_chunk(cx)) {
                Ok(0) if trailers.is_empty() => {
                    std::mem::swap(trailers, &mut link.exchange.incoming.trailers);
                }
                Ok(0) => {}
                Ok(_) => take(link),
                Err(error) => {
                    link.close();
                    return Poll::Ready(Err(error));
                }
            }
            Poll::Ready(Ok(()))
        })
    }
}

#[derive(Clone, Copy, Debug)]
enum Side {
    Writer,
    Reader,
}

/// Who awaits each half, or did so last.
#[derive(Default)]
struct Owners(Mutex<[Option<Waker>; 2]>);

impl Owners {
    fn note(&self, side: Side, waker: &Waker) {
        match &mut lock(&self.0)[side as usize] {
            Some(owner) => owner.clone_from(waker),
            none => *none = Some(waker.clone()),
        }
    }
}

impl Wake for Owners {
    fn wake(self: Arc<Owners>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Owners>) {
        // They are not woken under the lock: a waker may do whatever it likes.
        let owners = lock(&self.0).clone();
        owners.into_iter().flatten().for_each(Waker::wake);
    }
}

/// What the halves have in common.
struct Both {
    /// Some, until this is dropped.
    link: Option<Box<Link>>,
    /// The answer's head, if the writer was the one to find it, or the call before it was taken apart.
    early: Response,
}

impl Both {
    fn parts(&mut self) -> (&mut Link, &mut Response) {
        (self.link.as_deref_mut().expect("it is taken when this is dropped"), &mut self.early)
    }
}

impl Drop for Both {
    fn drop(&mut self) {
        if let Some(link) = self.link.take() {
            link.rest();
        }
    }
}
