//! [`CallReader`]: the half of a call that reads the answer.

use std::fmt;
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, ReadBuf};

use super::Call;
use super::half::Half;
use crate::client::ClientError;
use crate::memory::Reset;
use crate::message::{Headers, Response, Status};

/// Reads the answer to a request while a [`CallWriter`](super::CallWriter) writes its body.
///
/// Made by [`Call::split`](super::Call::split). If you read the answer slowly, the server has to wait. Dropping the
/// reader before the end of the answer closes the connection: the writer then fails if the answer has not begun, and is
/// otherwise no longer [wanted](super::CallWriter::is_wanted). The connection is free for other requests once both
/// halves have reached their end and are dropped.
pub struct CallReader {
    half: Half,
    /// The piece that was read last. It is a copy, since the other half uses the connection too.
    piece: Vec<u8>,
    /// The interim answer that was taken last.
    interim: Response,
    trailers: Headers,
}

impl CallReader {
    pub(super) fn new(half: Half) -> CallReader {
        CallReader { half, piece: Vec::new(), interim: Response::new(), trailers: Headers::new() }
    }

    /// Receives the next interim answer, such as 103 with `link` fields (RFC 9110 §15.2, RFC 8297); `None` once the
    /// final answer is here, which [`CallReader::head`] receives. If the future is dropped, the next call continues.
    ///
    /// From the first call on, each interim answer waits to be taken, and everything behind it waits, too: the writer
    /// learns only afterwards that the server reads no more. Interim answers before the first call are dropped, unless
    /// the request has no body to write. There may be at most 16.
    ///
    /// # Errors
    ///
    /// As [`CallReader::head`].
    ///
    /// # Examples
    ///
    /// ```
    /// # use corehttp::{Context, Headers, Server, Status, MemoryListener};
    /// use corehttp::{Client, Request, Response};
    ///
    /// # let listener = MemoryListener::new();
    /// # let client = Client::builder().memory(listener.connector()).build();
    /// # let server = Server::bind(listener).cores(1).start(async |ctx: &mut Context| {
    /// #     let mut fields = Headers::new();
    /// #     fields.set("link", "</style.css>; rel=preload")?;
    /// #     ctx.informational(Status::EARLY_HINTS, &fields).await?;
    /// #     Ok(ctx.response.set_text("Hello"))
    /// # })?;
    /// # corehttp::block_on(async {
    /// # let mut hints = Vec::new();
    /// let (_, mut reader) = client.open(&Request::get("http://example.com/")?).await?.split();
    /// while let Some((status, fields)) = reader.informational().await? {
    ///     println!("{status}: {:?}", fields.text("link"));
    /// #   hints.push((status, fields.text("link").unwrap().to_owned()));
    /// }
    /// # assert_eq!(hints, [(Status::EARLY_HINTS, "</style.css>; rel=preload".to_owned())]);
    /// let mut response = Response::new();
    /// reader.head(&mut response).await?;
    /// assert_eq!(reader.chunk().await?, Some(&b"Hello"[..]));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })??;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[doc(alias("early_hints", "interim", "on_informational"))]
    pub async fn informational(&mut self) -> Result<Option<(Status, &Headers)>, ClientError> {
        let CallReader { half, interim, .. } = self;
        let has_come = poll_fn(|cx| {
            half.poll(cx, |call, cx| {
                let has_come = ready!(call.poll_interim(cx))?;
                if has_come {
                    std::mem::swap(interim, call.early());
                }
                Poll::Ready(Ok(has_come))
            })
        })
        .await?;
        if has_come {
            // The writer may have waited for it to be taken.
            half.wake_halves();
        }
        Ok(has_come.then_some((interim.status, &interim.headers)))
    }

    /// Receives the head of the final answer into `response`, and drops the interim answers before it. If the future is
    /// dropped, the next call continues. The head is returned only once: a further call empties `response`.
    ///
    /// # Errors
    ///
    /// Fails if no answer arrives.
    pub async fn head(&mut self, response: &mut Response) -> Result<(), ClientError> {
        if self.half.with_call(|call| call.pooled.exchange.progress.drop_interim()) {
            self.half.wake_halves();
        }
        response.reset();
        poll_fn(|cx| self.half.poll(cx, |call, cx| call.poll_head(cx, response))).await
    }

    /// Returns the next piece of the body, of whatever size it arrived in; `None` at the end. Call it after
    /// [`CallReader::head`].
    ///
    /// # Errors
    ///
    /// Fails if the body is cut short, malformed or too slow. The end of the body is then never reached.
    pub async fn chunk(&mut self) -> Result<Option<&[u8]>, ClientError> {
        let CallReader { half, piece, trailers, .. } = self;
        piece.clear();
        let wait = PauseOnDrop(half);
        poll_fn(|cx| poll_chunk(wait.0, cx, trailers, |call| piece.extend_from_slice(call.chunk()))).await?;
        drop(wait);
        Ok(Some(&**piece).filter(|piece| !piece.is_empty()))
    }

    /// Returns the trailer fields, once the body has been read to its end (RFC 9110 §6.5).
    pub fn trailers(&self) -> &Headers {
        &self.trailers
    }
}

/// Receives the next piece of the body, and calls `take` to take it; at the end, the trailers.
fn poll_chunk(
    half: &Half,
    cx: &mut Context<'_>,
    trailers: &mut Headers,
    take: impl FnOnce(&mut Call),
) -> Poll<Result<(), ClientError>> {
    half.poll(cx, |call, cx| {
        match ready!(call.poll_chunk(cx))? {
            0 if trailers.is_empty() => std::mem::swap(trailers, &mut call.pooled.exchange.incoming.trailers),
            0 => {}
            _ => take(call),
        }
        Poll::Ready(Ok(()))
    })
}

/// A wait for the next piece. While the caller waits for none, the time does not count against the server.
struct PauseOnDrop<'a>(&'a Half);

impl Drop for PauseOnDrop<'_> {
    fn drop(&mut self) {
        self.0.with_call(|call| call.pooled.pause());
    }
}

impl Drop for CallReader {
    /// Ends the exchange, unless all of the answer has come. A writer that waits learns of it.
    fn drop(&mut self) {
        if self.half.with_call(Call::abort_unless_read) {
            self.half.wake_halves();
        }
    }
}

impl AsyncRead for CallReader {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        out: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let CallReader { half, trailers, .. } = &mut *self;
        poll_chunk(half, cx, trailers, |call| call.pooled.read_chunk(out)).map_err(io::Error::from)
    }
}

impl fmt::Debug for CallReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CallReader").field("trailers", &self.trailers).finish_non_exhaustive()
    }
}
