//! [`Answer`]: the body of a response, read as it arrives (RFC 9112 §6).

use std::fmt;
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, ReadBuf};

use super::link::Link;
use super::pending::Pending;
use super::{ClientCause, ClientError, ClientPhase};
use crate::exchange::ExchangeError;
use crate::message::Headers;

/// The body of a response, read as it arrives. If it is read slowly, the server has to wait.
///
/// Made by [`Client::stream`](super::Client::stream) and [`Call::finish`](super::Call::finish). Once the body has been
/// read to its end, the connection is free for other requests. If the answer is dropped before that, the connection is
/// closed.
///
/// # Examples
///
/// A download:
///
/// ```
/// # use corehttp::{Context, Server, MemoryListener};
/// use corehttp::{Client, Request, Response};
/// use tokio::io::{AsyncWrite, AsyncWriteExt};
///
/// async fn download(
///     client: &Client,
///     url: &str,
///     mut file: impl AsyncWrite + Unpin, // such as tokio::fs::File
/// ) -> Result<usize, Box<dyn std::error::Error>> {
///     let mut response = Response::new();
///     let mut answer = client.stream(&Request::get(url)?, &mut response).await?;
///     if !response.status.is_success() {
///         return Err(response.status.into());
///     }
///     let (length, mut received) = (response.headers.content_length(), 0);
///     while let Some(chunk) = answer.chunk().await? {
///         file.write_all(chunk).await?;
///         received += chunk.len();
///         println!("{received} of {length:?} bytes");
///     }
///     file.flush().await?;
///     Ok(received)
/// }
/// # let listener = MemoryListener::new();
/// # let client = Client::builder().memory(listener.connector()).build();
/// # let server = Server::bind(listener).cores(1).start(|ctx: &mut Context| ctx.response.text("Hello"))?;
/// # let size = corehttp::block_on(download(&client, "http://example.com/", tokio::io::sink()))??;
/// # assert_eq!(size, 5);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Answer {
    /// None once the body is read, or known to be broken.
    link: Option<Box<Link>>,
    /// Whether the connection had been used before, once the body is known to be broken.
    broken: Option<bool>,
    trailers: Headers,
    /// Counts the request for a balancer, until the body has been read.
    pending: Option<Pending>,
}

impl Answer {
    pub(super) fn new(link: Link) -> Answer {
        let is_read = link.exchange.incoming.is_read();
        let mut answer =
            Answer { link: Some(Box::new(link)), broken: None, trailers: Headers::new(), pending: None };
        if is_read {
            answer.release();
        }
        answer
    }

    /// Keeps `pending` until the body has been read.
    pub(super) fn counted(mut self, pending: Pending) -> Answer {
        self.pending = self.link.is_some().then_some(pending);
        self
    }

    /// Returns the next piece of the body, as large as it arrived; `None` at its end.
    ///
    /// # Errors
    ///
    /// Fails if the body is cut short, malformed or too slow. Its end is then never reached.
    pub async fn chunk(&mut self) -> Result<Option<&[u8]>, ClientError> {
        match poll_fn(|cx| self.poll_chunk(cx)).await? {
            0 => Ok(None),
            _ => Ok(self.link.as_ref().map(|link| link.chunk())),
        }
    }

    /// Returns the trailer fields, once the body has been read to its end (RFC 9110 §6.5).
    pub fn trailers(&self) -> &Headers {
        &self.trailers
    }

    fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Result<usize, ClientError>> {
        let Some(link) = &mut self.link else { return Poll::Ready(self.broken.map_or(Ok(0), still_broken)) };
        let polled = ready!(link.poll_chunk(cx));
        match polled {
            Ok(0) => self.release(),
            Ok(_) => {}
            Err(_) => {
                // The place is free at once, for a caller who asks again before this is dropped.
                self.broken = Some(link.is_reused());
                (self.link, self.pending) = (None, None);
            }
        }
        Poll::Ready(polled)
    }

    /// Gives the connection back, once the body has been read.
    fn release(&mut self) {
        if let Some(mut link) = self.link.take() {
            std::mem::swap(&mut self.trailers, &mut link.exchange.incoming.trailers);
            link.rest();
            self.pending = None;
        }
    }
}

/// The end of a body that broke is never reached.
fn still_broken(reused: bool) -> Result<usize, ClientError> {
    let cause = ClientCause::Exchange(ExchangeError::Incomplete);
    Err(ClientError::new(ClientPhase::Receive, cause).on(reused, true))
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
