//! [`Call`]: a request whose body is written piece by piece; and its two halves, one to write it and one to read the
//! response.

use std::fmt;
use std::future::{Ready, poll_fn, ready};
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::io::AsyncWrite;

use super::call_exchange::CallExchange;
use super::halves::{CallReader, CallWriter, Half};
use super::outcome_recorder::BalancedOutcome;
use super::response_reader::ResponseReader;
use crate::client::error::{ClientError, RetryLog, RetryReport};
use crate::message::{Headers, Response};

/// A request whose head has been sent. Its body is written piece by piece.
///
/// Made by [`Client::open_call`](crate::Client::open_call). Dropping it closes the connection.
///
/// # Examples
///
/// ```
/// # use corehttp::{Context, Server};
/// # use corehttp::net::MemoryListener;
/// use corehttp::{Client, Request, Response};
///
/// # let listener = MemoryListener::new();
/// # let client = Client::builder().connect_to(&listener).build();
/// # let server = Server::bind(listener).cores(1).start(|ctx: &mut Context| {
/// #     let body = std::mem::take(&mut ctx.request.body);
/// #     ctx.response.body = body;
/// # })?;
/// # corehttp::block_on(async {
/// let mut call = client.open_call(&Request::post("http://example.com/upload")?).await?;
/// call.write_all(b"piece by ").await?;
/// call.write_all(b"piece").await?;
/// let mut response = Response::new();
/// let mut reader = call.finish(&mut response).await?;
/// assert_eq!(reader.chunk().await?, Some(&b"piece by piece"[..]));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })??;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Call(CallExchange);

impl Call {
    pub(in crate::client) fn new(exchange: CallExchange) -> Call {
        Call(exchange)
    }

    /// Returns this call, which records its outcome for a balancer.
    pub(in crate::client) fn balanced_by(mut self, outcome: BalancedOutcome) -> Call {
        self.0.set_balanced(outcome);
        self
    }

    /// Returns this call with the log of the attempts before it, which its response and its errors show.
    pub(in crate::client) fn with_retry_log(mut self, retries: Option<Arc<RetryLog>>) -> Call {
        self.0.set_retries(retries);
        self
    }

    /// The head of the final response, if that has come with the call.
    pub(in crate::client) fn first_response(&mut self) -> Option<&Response> {
        self.0.first_response()
    }

    /// Returns the exchange, for a gateway, which polls it.
    pub(crate) fn into_exchange(self) -> CallExchange {
        self.0
    }

    /// Writes all of `data`. Some of it may be buffered until [`Call::flush`]. After a drop of the future, it is
    /// unknown how much of `data` was written.
    ///
    /// Data is dropped once the server reads no more, for one of these reasons:
    ///
    /// - It has refused the request.
    /// - It has answered and closes.
    /// - A write made no progress for [`ClientTimeouts::send`](crate::client::ClientTimeouts::send), and the complete
    ///   response is here.
    ///
    /// # Errors
    ///
    /// Fails for more data than the `content-length`, or if the connection fails before any response. After a failed write,
    /// all others fail, too. The body cannot be ended then, because the server would take it for complete.
    pub async fn write_all(&mut self, data: &[u8]) -> Result<(), ClientError> {
        let mut written = 0;
        while written < data.len() {
            written += poll_fn(|cx| self.0.poll_data(cx, &data[written..])).await?;
        }
        Ok(())
    }

    /// Sends what has been written so far.
    ///
    /// # Errors
    ///
    /// Fails if the connection does.
    pub async fn flush(&mut self) -> Result<(), ClientError> {
        poll_fn(|cx| self.0.poll_sent(cx)).await
    }

    /// Returns whether the server still reads the body. Otherwise further data would be dropped, and need not be produced.
    pub fn is_body_wanted(&self) -> bool {
        self.0.is_body_wanted()
    }

    /// Ends the body, with the trailers of the request, and receives the head of the response into `response`.
    ///
    /// # Errors
    ///
    /// Fails for less data than the `content-length`, after a failed write, or if no response arrives.
    pub async fn finish(mut self, response: &mut Response) -> Result<ResponseReader, ClientError> {
        let trailers = self.0.take_trailers();
        self.0.finish(&trailers, response).await
    }

    /// Ends the body as [`Call::finish`] does, with these trailer fields (RFC 9110 §6.5) instead of the request's. A
    /// body with a `content-length` is sent without them.
    ///
    /// # Errors
    ///
    /// As [`Call::finish`].
    pub async fn finish_with_trailers(
        self,
        trailers: &Headers,
        response: &mut Response,
    ) -> Result<ResponseReader, ClientError> {
        self.0.finish(trailers, response).await
    }

    /// Returns the failed attempts before the one that opened this call, like
    /// [`Response::retries`](crate::Response::retries).
    pub fn retries(&self) -> &[RetryReport] {
        self.0.retries()
    }

    /// The address that the call is connected to: that of the server, or of the proxy in front of it.
    pub(crate) fn peer_addr(&self) -> Option<SocketAddr> {
        self.0.peer_addr()
    }

    /// Splits the call into two halves, to read the response while the body is written.
    ///
    /// With a server that answers early, each side could otherwise wait for the other to read. The halves may be used by one
    /// task or by two.
    ///
    /// # Examples
    ///
    /// ```
    /// # use corehttp::{Context, Server};
    /// # use corehttp::net::MemoryListener;
    /// use corehttp::{Client, Request, Response};
    ///
    /// # let listener = MemoryListener::new();
    /// # let client = Client::builder().connect_to(&listener).build();
    /// # let server = Server::bind(listener).cores(1).start(|ctx: &mut Context| {
    /// #     let body = std::mem::take(&mut ctx.request.body);
    /// #     ctx.response.body = body;
    /// # })?;
    /// # corehttp::block_on(async {
    /// let (mut writer, mut reader) = client.open_call(&Request::post("http://example.com/")?).await?.split();
    /// let write = async {
    ///     writer.write_all(b"there and back").await?;
    ///     writer.finish().await
    /// };
    /// let mut response = Response::new();
    /// let (written, head) = tokio::join!(write, reader.head(&mut response));
    /// (written?, head?);
    /// assert_eq!(reader.chunk().await?, Some(&b"there and back"[..]));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })??;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn split(self) -> (CallWriter, CallReader) {
        let (writer, reader) = Half::pair(self.0);
        (CallWriter::new(writer), CallReader::new(reader))
    }
}

/// An open call can be passed in place of one that is still being opened, as to [`Context::forward`](crate::Context::forward).
impl IntoFuture for Call {
    type Output = Result<Call, ClientError>;
    type IntoFuture = Ready<Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        ready(Ok(self))
    }
}

impl AsyncWrite for Call {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        self.0.poll_data(cx, data).map_err(io::Error::from)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.0.poll_sent(cx).map_err(io::Error::from)
    }

    /// Ends the body, with the trailers of the request, and sends all of it. [`Call::finish`] still receives the response.
    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.0.poll_finish(cx).map_err(io::Error::from)
    }
}

impl fmt::Debug for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Call").finish_non_exhaustive()
    }
}
