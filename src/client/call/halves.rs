//! [`CallWriter`] and [`CallReader`]: the halves of a call, one to write the request and one to read the response.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, ready};
use std::{fmt, io};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::call_exchange::CallExchange;
use crate::client::error::ClientError;
use crate::memory::{Reset, lock};
use crate::message::{Headers, Response, Status};
use crate::net::WakerSet;

/// Writes the body of a request while a [`CallReader`](super::CallReader) reads its response.
///
/// Made by [`Call::split`](super::Call::split). After a failure, or a drop before [`CallWriter::finish`], the server still has
/// [`ClientTimeouts::wait`](crate::client::ClientTimeouts::wait) to answer. The connection is then not used again. It is closed
/// once both halves are dropped.
pub struct CallWriter {
    half: Half,
}

impl CallWriter {
    pub(super) fn new(half: Half) -> CallWriter {
        CallWriter { half }
    }

    /// Writes some bytes from the front of `data`, and returns how many. Nothing is lost if the future is dropped.
    ///
    /// Data is dropped once the server has refused the request or has answered and closes.
    ///
    /// # Errors
    ///
    /// Fails for more data than the `content-length`, or if the connection fails before any response. After a failed write,
    /// all others fail, too. The body cannot be ended then, because the server would take it for complete.
    pub async fn write(&mut self, data: &[u8]) -> Result<usize, ClientError> {
        poll_fn(|cx| self.poll_data(cx, data)).await
    }

    /// Writes all of `data`. After a drop of the future, it is unknown how much of `data` was written.
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

    /// Ends the body, with the trailers of the request, and sends all of it. If the future is dropped, the next call continues.
    ///
    /// # Errors
    ///
    /// Fails for less data than the `content-length`, after a failed write, or if the connection fails.
    pub async fn finish(&mut self) -> Result<(), ClientError> {
        poll_fn(|cx| self.poll_finish(cx)).await
    }

    /// Ends the body as [`CallWriter::finish`] does, with these trailer fields (RFC 9110 §6.5) instead of the
    /// request's. Only the first call counts. A body with a `content-length` is sent without them.
    ///
    /// # Errors
    ///
    /// As [`CallWriter::finish`].
    pub async fn finish_with_trailers(&mut self, trailers: &Headers) -> Result<(), ClientError> {
        poll_fn(|cx| self.poll_ended(cx, |call, cx| call.poll_end(cx, trailers))).await
    }

    /// Returns whether the server still reads the body. Otherwise further data would be dropped, and need not be produced.
    pub fn is_body_wanted(&self) -> bool {
        self.half.with_call(|call| call.is_body_wanted())
    }

    fn poll_data(&mut self, cx: &mut Context<'_>, data: &[u8]) -> Poll<Result<usize, ClientError>> {
        self.half.poll(cx, |call, cx| call.poll_data(cx, data))
    }

    fn poll_sent(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), ClientError>> {
        self.half.poll(cx, CallExchange::poll_sent)
    }

    fn poll_finish(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), ClientError>> {
        self.poll_ended(cx, CallExchange::poll_finish)
    }

    fn poll_ended(
        &mut self,
        cx: &mut Context<'_>,
        poll: impl FnOnce(&mut CallExchange, &mut Context<'_>) -> Poll<Result<(), ClientError>>,
    ) -> Poll<Result<(), ClientError>> {
        let ended = ready!(self.half.poll(cx, poll));
        // The time limit of the reader that waits for the response begins now.
        self.half.wake_halves();
        Poll::Ready(ended)
    }
}

impl Drop for CallWriter {
    /// Fails the upload, and wakes a reader that waits for the response.
    fn drop(&mut self) {
        self.half.with_call(CallExchange::fail_upload);
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

/// Reads the response to a request while a [`CallWriter`](super::CallWriter) writes its body.
///
/// Made by [`Call::split`](super::Call::split). If you read the response slowly, the server has to wait. Dropping the reader
/// before the end of the response closes the connection. The writer then fails if the response has not begun. Otherwise its
/// body is no longer [wanted](super::CallWriter::is_body_wanted). The connection is free for other requests once both halves
/// have reached their end and are dropped.
pub struct CallReader {
    half: Half,
    /// The piece that was read last. A copy, since the other half uses the connection, too.
    piece: Vec<u8>,
    /// The interim response that was taken last.
    interim: Response,
    /// Why the final response, whose head has come, cannot be used.
    refused: Option<ClientError>,
    trailers: Headers,
}

impl CallReader {
    pub(super) fn new(half: Half) -> CallReader {
        CallReader {
            half,
            piece: Vec::new(),
            interim: Response::new(),
            refused: None,
            trailers: Headers::new(),
        }
    }

    /// Receives the next interim response, such as 103 with `link` fields (RFC 9110 §15.2, RFC 8297). `None` once the final
    /// response is here, for [`CallReader::head`]. If the future is dropped, the next call continues.
    ///
    /// From the first call on, each interim response waits to be taken, and with it the rest of the response. Only afterwards
    /// does the writer find that the server reads no more. Interim responses before the first call are dropped, unless the
    /// request has no body to write. The dropped ones may have [`ClientLimits::head_max`](crate::client::ClientLimits::head_max)
    /// bytes together.
    ///
    /// # Errors
    ///
    /// As [`CallReader::head`].
    ///
    /// # Examples
    ///
    /// ```
    /// # use corehttp::{Context, Headers, Server, Status};
    /// # use corehttp::net::MemoryListener;
    /// use corehttp::{Client, Request, Response};
    ///
    /// # let listener = MemoryListener::new();
    /// # let client = Client::builder().connect_to(&listener).build();
    /// # let server = Server::bind(listener).cores(1).start(async |ctx: &mut Context| {
    /// #     let mut fields = Headers::new();
    /// #     fields.set("link", "</style.css>; rel=preload")?;
    /// #     ctx.send_informational(Status::EARLY_HINTS, &fields).await?;
    /// #     Ok(ctx.response.set_text("Hello"))
    /// # })?;
    /// # corehttp::block_on(async {
    /// # let mut hints = Vec::new();
    /// let (_, mut reader) = client.open_call(&Request::get("http://example.com/")?).await?.split();
    /// while let Some((status, fields)) = reader.informational().await? {
    ///     println!("{status}: {:?}", fields.get("link"));
    /// #   hints.push((status, fields.get("link").unwrap().to_owned()));
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
                    std::mem::swap(interim, call.response_head());
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

    /// Receives the head of the final response into `response`, and drops earlier interim responses. If the future is dropped,
    /// the next call continues. The head is returned only once. A further call empties `response`.
    ///
    /// # Errors
    ///
    /// Fails if no response arrives, or if its content cannot be decoded. The latter fails again with each call.
    pub async fn head(&mut self, response: &mut Response) -> Result<(), ClientError> {
        if self.half.with_call(|call| call.drop_interim()) {
            self.half.wake_halves();
        }
        response.reset();
        if let Some(refused) = &self.refused {
            return Err(refused.again());
        }
        let received = poll_fn(|cx| self.half.poll(cx, |call, cx| call.poll_head(cx, response))).await;
        // A head is taken only once, and the next call would find an empty one.
        if let Err(error) = &received
            && self.half.with_call(|call| call.has_response())
        {
            self.refused = Some(error.again());
        }
        received
    }

    /// Returns the next piece of the body, of whatever size it arrived in, or `None` at the end. Call it after
    /// [`CallReader::head`].
    ///
    /// # Errors
    ///
    /// Fails if the body is cut short, malformed or too slow. The end of the body is then never reached. Also fails before
    /// the head has come.
    pub async fn chunk(&mut self) -> Result<Option<&[u8]>, ClientError> {
        let CallReader { half, piece, trailers, .. } = self;
        piece.clear();
        let wait = EndWaitOnDrop(half);
        poll_fn(|cx| poll_piece(wait.0, cx, trailers, |call| piece.extend_from_slice(call.piece()))).await?;
        drop(wait);
        Ok(Some(&**piece).filter(|piece| !piece.is_empty()))
    }

    /// Returns the trailer fields, once the body has been read to its end (RFC 9110 §6.5).
    pub fn trailers(&self) -> &Headers {
        &self.trailers
    }
}

/// Receives the next piece of the body, and calls `take` to take it; at the end, the trailers.
fn poll_piece(
    half: &Half,
    cx: &mut Context<'_>,
    trailers: &mut Headers,
    take: impl FnOnce(&mut CallExchange),
) -> Poll<Result<(), ClientError>> {
    half.poll(cx, |call, cx| {
        if !call.has_response() {
            return Poll::Ready(Err(call.no_head()));
        }
        match ready!(call.poll_piece(cx))? {
            0 if trailers.is_empty() => call.swap_received_trailers(trailers),
            0 => {}
            _ => take(call),
        }
        Poll::Ready(Ok(()))
    })
}

/// A wait for the next piece. While the caller waits for none, the time does not count against the server.
struct EndWaitOnDrop<'a>(&'a Half);

impl Drop for EndWaitOnDrop<'_> {
    fn drop(&mut self) {
        self.0.with_call(|call| call.end_wait());
    }
}

impl Drop for CallReader {
    /// Ends the exchange, unless all of the response has arrived, and wakes a writer that waits.
    fn drop(&mut self) {
        if self.half.with_call(CallExchange::abort_unless_read) {
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
        poll_piece(half, cx, trailers, |call| call.read_piece(out)).map_err(io::Error::from)
    }
}

impl fmt::Debug for CallReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CallReader").field("trailers", &self.trailers).finish_non_exhaustive()
    }
}

/// The access that one half of a call has to it.
pub(crate) struct Half {
    shared: Arc<Mutex<SharedCall>>,
    wakers: Arc<WakerSet>,
}

impl Half {
    /// The halves of the writer and of the reader.
    pub(super) fn pair(call: CallExchange) -> (Half, Half) {
        let shared = Arc::new(Mutex::new(SharedCall(Some(call))));
        let wakers = Arc::<WakerSet>::default();
        (Half { shared: shared.clone(), wakers: wakers.clone() }, Half { shared, wakers })
    }

    /// Polls the call for one half. Each event of the connection and each of its time limits wakes both tasks: the
    /// connection has one timer, and the half that polls last sets it for both.
    pub(super) fn poll<T>(
        &self,
        cx: &mut Context<'_>,
        poll: impl FnOnce(&mut CallExchange, &mut Context<'_>) -> Poll<Result<T, ClientError>>,
    ) -> Poll<Result<T, ClientError>> {
        let both = self.wakers.register(cx.waker());
        let mut cx = Context::from_waker(both.as_ref().unwrap_or(cx.waker()));
        let polled = self.with_call(|call| poll(call, &mut cx));
        if let Poll::Ready(Err(_)) = polled {
            // The other half is polled again, since no other event wakes it.
            self.wake_halves();
        }
        polled
    }

    /// Calls `then` with the call.
    pub(super) fn with_call<T>(&self, then: impl FnOnce(&mut CallExchange) -> T) -> T {
        then(lock(&self.shared).0.as_mut().expect("it is taken when this is dropped"))
    }

    /// Wakes the tasks of both halves.
    pub(super) fn wake_halves(&self) {
        self.wakers.wake_by_ref();
    }
}

/// The call that the halves share, until this is dropped.
struct SharedCall(Option<CallExchange>);

impl Drop for SharedCall {
    fn drop(&mut self) {
        if let Some(call) = self.0.take() {
            call.release();
        }
    }
}
