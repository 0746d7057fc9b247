//! [`ResponseReader`]: the body of a response, read as it arrives (RFC 9112 §6).

use std::fmt;
use std::future::poll_fn;
use std::io;
use std::mem;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, ReadBuf};

use super::outcome_recorder::BalancedOutcome;
use crate::client::error::ClientError;
use crate::client::pool::PooledConn;
use crate::message::{Headers, Response};

/// The body of a response, read as it arrives. If you read slowly, the server has to wait.
///
/// Made by [`Client::open_response`](crate::Client::open_response) and [`Call::finish`](crate::client::Call::finish). Once the
/// body has been read to its end, the connection is free for other requests. If the `ResponseReader` is
/// dropped before that, the connection is closed.
///
/// To read a stream of events, use an [`EventReader`](crate::sse::EventReader). With the feature `tower` it is a `Body` of the
/// crate `http-body`, and `BodyDataStream` of `http-body-util` makes a `Stream` of it.
///
/// # Examples
///
/// A download:
///
/// ```
/// # use corehttp::{Context, Server};
/// # use corehttp::net::MemoryListener;
/// use corehttp::{Client, Request, Response};
/// use tokio::io::{AsyncWrite, AsyncWriteExt};
///
/// async fn download(
///     client: &Client,
///     url: &str,
///     mut file: impl AsyncWrite + Unpin, // such as tokio::fs::File
/// ) -> Result<usize, Box<dyn std::error::Error>> {
///     let mut response = Response::new();
///     let mut reader = client.open_response(&Request::get(url)?, &mut response).await?;
///     if !response.status.is_success() {
///         return Err(response.status.into());
///     }
///     let (length, mut received) = (response.headers.content_length(), 0);
///     while let Some(chunk) = reader.chunk().await? {
///         file.write_all(chunk).await?;
///         received += chunk.len();
///         println!("{received} of {length:?} bytes");
///     }
///     file.flush().await?;
///     Ok(received)
/// }
/// # let listener = MemoryListener::new();
/// # let client = Client::builder().connect_to(&listener).build();
/// # let server = Server::bind(listener).cores(1).start(|ctx: &mut Context| ctx.response.set_text("Hello"))?;
/// # let size = corehttp::block_on(download(&client, "http://example.com/", tokio::io::sink()))??;
/// # assert_eq!(size, 5);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct ResponseReader {
    pub(crate) state: ReadState,
    pub(crate) trailers: Headers,
}

/// How far the body has been read.
pub(crate) enum ReadState {
    /// The end has not been read. A balancer counts the request until then.
    Open(Box<PooledConn>, Option<BalancedOutcome>),
    Read,
    /// The end is never reached, because of this error.
    Broken(ClientError),
}

impl ResponseReader {
    pub(crate) fn new(pooled: PooledConn) -> ResponseReader {
        let is_end_stream = pooled.exchange.incoming.is_end_stream();
        let mut reader =
            ResponseReader { state: ReadState::Open(Box::new(pooled), None), trailers: Headers::new() };
        if is_end_stream {
            reader.release();
        }
        reader
    }

    /// Counts for a balancer until the body has been read, and records it if that fails.
    pub(crate) fn balanced_by(mut self, outcome: Option<BalancedOutcome>) -> ResponseReader {
        if let ReadState::Open(_, balanced) = &mut self.state {
            *balanced = outcome;
        }
        self
    }

    /// Receives the body, of which nothing has been read, into `response`, which has its head.
    ///
    /// # Errors
    ///
    /// As [`ResponseReader::chunk`], or if the body is too large. No part of it is in the response then.
    pub(in crate::client) async fn receive(mut self, response: &mut Response) -> Result<(), ClientError> {
        match mem::replace(&mut self.state, ReadState::Read) {
            ReadState::Open(pooled, mut balanced) => {
                let received = pooled.receive_body(response).await;
                if let (Err(error), Some(balanced)) = (&received, &mut balanced) {
                    balanced.record(Err(error));
                }
                received
            }
            ReadState::Read => {
                mem::swap(&mut self.trailers, &mut response.trailers);
                Ok(())
            }
            ReadState::Broken(error) => Err(error),
        }
    }

    /// Discards what is left of the body, if that is little and arrives soon, so that the connection can be used again.
    pub(in crate::client) async fn discard(mut self) {
        if let ReadState::Open(pooled, _balanced) = mem::replace(&mut self.state, ReadState::Read) {
            pooled.discard().await;
        }
    }

    /// Returns the next piece of the body, of whatever size it arrived in, or `None` at the end.
    ///
    /// # Errors
    ///
    /// Fails if the body is cut short, malformed or too slow. The end of the body is then never reached.
    pub async fn chunk(&mut self) -> Result<Option<&[u8]>, ClientError> {
        let wait = EndWaitOnDrop(self);
        let len = poll_fn(|cx| wait.0.poll_piece(cx)).await?;
        drop(wait);
        match &self.state {
            ReadState::Open(pooled, _) if len > 0 => Ok(Some(pooled.piece())),
            _ => Ok(None),
        }
    }

    /// Returns the trailer fields, once the body has been read to its end (RFC 9110 §6.5).
    pub fn trailers(&self) -> &Headers {
        &self.trailers
    }

    /// Whether the body is decoded.
    pub(in crate::client) fn is_decoded(&self) -> bool {
        match &self.state {
            ReadState::Open(pooled, _) => pooled.exchange.progress.decoder.is_some(),
            ReadState::Read | ReadState::Broken(_) => false,
        }
    }

    pub(crate) fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<Result<usize, ClientError>> {
        let (pooled, balanced) = match &mut self.state {
            ReadState::Open(pooled, balanced) => (pooled, balanced),
            ReadState::Read => return Poll::Ready(Ok(0)),
            ReadState::Broken(error) => return Poll::Ready(Err(error.again())),
        };
        let polled = ready!(pooled.poll_piece(cx));
        match &polled {
            Ok(0) => self.release(),
            Ok(_) => {}
            // The permit is free at once, for a caller that sends another request before this reader is dropped.
            Err(error) => {
                if let Some(balanced) = balanced {
                    balanced.record(Err(error));
                }
                self.state = ReadState::Broken(error.again());
            }
        }
        Poll::Ready(polled)
    }

    /// Gives the connection back, once the body has been read.
    fn release(&mut self) {
        if let ReadState::Open(mut pooled, _balanced) = mem::replace(&mut self.state, ReadState::Read) {
            debug_assert!(pooled.exchange.incoming.is_end_stream(), "the body has been read to its end");
            mem::swap(&mut self.trailers, &mut pooled.exchange.incoming.trailers);
            pooled.release();
        }
    }
}

/// A wait for the next piece. While the caller waits for none, the time does not count against the server.
struct EndWaitOnDrop<'a>(&'a mut ResponseReader);

impl Drop for EndWaitOnDrop<'_> {
    fn drop(&mut self) {
        if let ReadState::Open(pooled, _) = &mut self.0.state {
            pooled.end_wait();
        }
    }
}

impl Drop for ResponseReader {
    /// A caller that has counted the bytes of a body need not read beyond its last one.
    fn drop(&mut self) {
        if let ReadState::Open(pooled, _) = &self.state
            && pooled.exchange.incoming.is_end_stream()
        {
            self.release();
        }
    }
}

impl AsyncRead for ResponseReader {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        out: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let len = ready!(self.poll_piece(cx))?;
        if let ReadState::Open(pooled, _) = &mut self.state
            && len > 0
        {
            pooled.read_piece(out);
        }
        Poll::Ready(Ok(()))
    }
}

impl fmt::Debug for ResponseReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResponseReader").field("trailers", &self.trailers).finish_non_exhaustive()
    }
}
