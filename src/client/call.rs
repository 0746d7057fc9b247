//! [`Call`]: a request whose body is written as it comes.

use std::fmt;
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::AsyncWrite;

use super::link::Link;
use super::{Answer, ClientError, ClientPhase};
use crate::memory::Reset;
use crate::message::{Headers, Response};

/// A request whose head is sent, and whose body is written.
///
/// Made by [`Client::open`](super::Client::open). Dropping it closes the connection.
///
/// # Examples
///
/// ```
/// # use corehttp::{Context, Server, MemoryListener};
/// use corehttp::{Client, Request, Response};
///
/// # let listener = MemoryListener::new();
/// # let client = Client::builder().memory(listener.connector()).build();
/// # let server = Server::bind(listener).cores(1).start(|ctx: &mut Context| {
/// #     let body = std::mem::take(&mut ctx.request.body);
/// #     ctx.response.body = body;
/// # })?;
/// # corehttp::block_on(async {
/// let mut call = client.open(&Request::post("http://example.com/upload")?).await?;
/// call.write_all(b"piece by ").await?;
/// call.write_all(b"piece").await?;
/// let mut response = Response::new();
/// let mut answer = call.finish(&mut response).await?;
/// assert_eq!(answer.chunk().await?, Some(&b"piece by piece"[..]));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })??;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Call {
    link: Box<Link>,
    /// An answer that came before all was written, if it has come.
    early: Response,
    is_answered: bool,
    trailers: Headers,
}

impl Call {
    pub(super) fn new(link: Link, trailers: Headers) -> Call {
        Call { link: Box::new(link), early: Response::new(), is_answered: false, trailers }
    }

    /// Writes all of `data`: some of it may wait until [`Call::flush`]. Once the server has answered it reads no more,
    /// so what is written then is dropped.
    ///
    /// # Errors
    ///
    /// More than the `content-length` that was set; a connection that fails, and no answer that came before.
    pub async fn write_all(&mut self, data: &[u8]) -> Result<(), ClientError> {
        let mut written = 0;
        while written < data.len() {
            written += poll_fn(|cx| self.poll_data(cx, &data[written..])).await?;
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

    /// Ends the body, and receives the head of the answer into `response`.
    ///
    /// # Errors
    ///
    /// Less than the `content-length` that was set, and whatever keeps an answer from coming.
    pub async fn finish(mut self, response: &mut Response) -> Result<Answer, ClientError> {
        if self.is_answered {
            *response = self.early;
            *response.timings_mut() = self.link.timings;
            return Ok(Answer::new(self.link.decoded(response)?));
        }
        let Link { conn, gear, .. } = &mut *self.link;
        if let Err(error) = gear.outgoing.finish(conn, &self.trailers) {
            return Err(self.link.fail(ClientPhase::Send, error));
        }
        let link = &mut *self.link;
        response.reset();
        link.go_ahead();
        poll_fn(|cx| link.poll_answer(cx, None, response)).await?;
        *response.timings_mut() = link.timings;
        Ok(Answer::new(self.link.decoded(response)?))
    }

    fn poll_data(&mut self, cx: &mut Context<'_>, data: &[u8]) -> Poll<Result<usize, ClientError>> {
        self.poll_unless_answered(cx, data.len(), |link, cx| link.poll_write(cx, data))
    }

    fn poll_sent(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), ClientError>> {
        self.poll_unless_answered(cx, (), Link::poll_flush)
    }

    /// Whatever `poll` yields; or `dropped` once the server has answered, which it may do while, or although, nothing
    /// goes out.
    fn poll_unless_answered<T>(
        &mut self,
        cx: &mut Context<'_>,
        dropped: T,
        poll: impl FnOnce(&mut Link, &mut Context<'_>) -> Poll<Result<T, ClientError>>,
    ) -> Poll<Result<T, ClientError>> {
        if self.is_answered {
            return Poll::Ready(Ok(dropped));
        }
        let polled = poll(&mut self.link, cx);
        if let Poll::Ready(Ok(_)) = polled {
            return polled;
        }
        match (self.link.poll_early(cx, &mut self.early), polled) {
            (Poll::Ready(Ok(())), _) => {
                self.is_answered = true;
                Poll::Ready(Ok(dropped))
            }
            (Poll::Ready(Err(error)), Poll::Pending) => Poll::Ready(Err(error)),
            (_, polled) => polled,
        }
    }
}

impl AsyncWrite for Call {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_data(cx, data).map_err(io::Error::from)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_sent(cx).map_err(io::Error::from)
    }

    /// Sends what was written. The body ends with [`Call::finish`].
    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_sent(cx)).map_err(io::Error::from)?;
        Poll::Ready(Ok(()))
    }
}

impl fmt::Debug for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Call").finish_non_exhaustive()
    }
}
