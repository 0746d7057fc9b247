//! [`Answer`]: the body of a response, read as it comes (RFC 9112 §6).

use std::fmt;
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, ReadBuf};

use super::ClientError;
use super::link::Link;
use super::pending::Pending;
use crate::message::Headers;

/// The body of a response, read as it comes: what is not read holds the server back.
///
/// Made by [`Client::stream`](super::Client::stream) and [`Call::finish`](super::Call::finish). When it has been read to
/// its end the connection is free for others; dropped before that, it is closed.
pub struct Answer {
    /// None once the body is read.
    link: Option<Box<Link>>,
    trailers: Headers,
    /// What a balancer counts until the body is read.
    pending: Option<Pending>,
}

impl Answer {
    pub(super) fn new(link: Link) -> Answer {
        let is_read = link.exchange.incoming.is_read();
        let mut answer = Answer { link: Some(Box::new(link)), trailers: Headers::new(), pending: None };
        if is_read {
            answer.release();
        }
        answer
    }

    /// This answer, which is `pending` until its body is read.
    pub(super) fn counted(mut self, pending: Pending) -> Answer {
        self.pending = self.link.is_some().then_some(pending);
        self
    }

    /// The next piece of the body, as large as it came; none at its end.
    ///
    /// # Errors
    ///
    /// A body that is cut short, malformed or too slow. Its end was not reached then, and it never will be.
    pub async fn chunk(&mut self) -> Result<Option<&[u8]>, ClientError> {
        match poll_fn(|cx| self.poll_chunk(cx)).await? {
            0 => Ok(None),
            _ => Ok(self.link.as_ref().map(|link| link.chunk())),
        }
    }

    /// The trailer fields, once the body has been read to its end (RFC 9110 §6.5).
    pub fn trailers(&self) -> &Headers {
        &self.trailers
    }

    fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Result<usize, ClientError>> {
        let Some(link) = &mut self.link else { return Poll::Ready(Ok(0)) };
        match ready!(link.poll_chunk(cx)) {
            Ok(0) => self.release(),
            Ok(count) => return Poll::Ready(Ok(count)),
            Err(error) => {
                link.close();
                return Poll::Ready(Err(error));
            }
        }
        Poll::Ready(Ok(0))
    }

    /// Gives the connection back: the body is read.
    fn release(&mut self) {
        if let Some(mut link) = self.link.take() {
            std::mem::swap(&mut self.trailers, &mut link.exchange.incoming.trailers);
            link.rest();
            self.pending = None;
        }
    }
}

impl AsyncRead for Answer {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        out: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let lent = ready!(self.poll_chunk(cx))?;
        if let Some(link) = self.link.as_mut().filter(|_| lent > 0) {
            link.read_chunk(out);
        }
        Poll::Ready(Ok(()))
    }
}

impl fmt::Debug for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Answer").field("trailers", &self.trailers).finish_non_exhaustive()
    }
}
