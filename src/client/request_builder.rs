//! [`RequestBuilder`]: a request that is made and sent in one expression.

use std::fmt;
use std::fs::File;
use std::future::IntoFuture;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::io::AsyncRead;

use super::redirects::Redirects;
use super::retry::Retry;
use super::send::RequestSender;
use super::settings::ClientTimeouts;
use crate::client::error::{ClientCause, ClientError, ClientPhase};
use crate::memory::Reset;
use crate::message::{FieldValue, MessageError, Request, Response};

/// A request that is made and sent in one expression. Made by [`Client::get`](crate::Client::get), by
/// [`Client::post`](crate::Client::post), and for any method by [`Client::request`](crate::Client::request).
///
/// `.await` sends the request, and receives the response whole. With the feature `json` there is `json`. With `form` there
/// are `query` and `form`, and with `multipart` there is `multipart`.
///
/// Each step replaces what earlier ones have set. So a `content-type` of your own comes after the content. The error of the
/// first failed step is that of the `.await`, and nothing is sent.
///
/// A request for many uses is better a [`Request`], which [`Client::send`](crate::Client::send) sends again and again without
/// an allocation. These need a [`Request`], too:
///
/// - a response read as it arrives: [`Client::open_response`](crate::Client::open_response),
/// - a stream to be sent again by a redirect or a [`Retry`]: [`Body::set_stream_with`](crate::Body::set_stream_with),
/// - a body written piece by piece: [`Client::open_call`](crate::Client::open_call).
///
/// # Examples
///
/// ```
/// # use corehttp::{Context, Server};
/// # use corehttp::net::MemoryListener;
/// use std::time::Duration;
/// use corehttp::Client;
///
/// # let listener = MemoryListener::new();
/// # let server = Server::bind(&listener).cores(1).start(|ctx: &mut Context| {
/// #     assert_eq!(ctx.request.basic_auth().unwrap().user_id, "Ada");
/// #     assert_eq!(ctx.request.headers.get("x-attempt"), Some("1"));
/// #     std::mem::swap(&mut ctx.response.body, &mut ctx.request.body);
/// # })?;
/// # corehttp::block_on(async {
/// let client = Client::new();
/// # let client = Client::builder().connect_to(listener).build();
/// let response = client
///     .post("http://example.com/notes")
///     .basic_auth("Ada", "secret")
///     .header("x-attempt", 1)
///     .text("milk")
///     .timeout(Duration::from_secs(5))
///     .await?
///     .error_for_status()?;
/// assert_eq!(response.text()?, "milk");
///
/// let error = client.get("http://example.com/").header("x-note", "two\nlines").await.unwrap_err();
/// assert_eq!(
///     format!("{error:#}"),
///     "http://example.com/: preparing the request failed: \
///      the value of the field x-note contains a control character",
/// );
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })??;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "a request is sent by `.await`"]
pub struct RequestBuilder<S = Awaited> {
    sender: RequestSender,
    /// The request so far, or the error of the first step that failed.
    request: Result<Request, ClientError>,
    /// How the request is sent.
    sends: S,
}

/// The requests of a [`Client`](crate::Client), which `.await` sends. The module [`blocking`](crate::blocking) has others.
#[derive(Clone, Copy, Debug)]
pub struct Awaited(());

impl RequestBuilder {
    pub(super) fn new(sender: RequestSender, request: Result<Request, MessageError>) -> RequestBuilder {
        RequestBuilder { sender, request: request.map_err(ClientError::from), sends: Awaited(()) }
    }

    /// Returns the same request, which is sent otherwise.
    pub(crate) fn sent_by<S>(self, sends: S) -> RequestBuilder<S> {
        RequestBuilder { sender: self.sender, request: self.request, sends }
    }

    /// Sends the request like `.await`, and receives the response into `response`, whose memory is reused.
    ///
    /// # Errors
    ///
    /// As `.await`.
    pub async fn send_into(self, response: &mut Response) -> Result<(), ClientError> {
        let (sender, request) = self.into_parts().inspect_err(|_| response.reset())?;
        sender.send_whole(None, &request, response).await?;
        response.url.get_or_insert_with(|| request.target().as_str().into());
        Ok(())
    }

    /// Cannot be called. The message of the compiler names `.await` instead.
    #[doc(hidden)]
    pub fn send(self) -> Self
    where
        for<'a> &'a Self: SentByCall,
    {
        self
    }

    /// The request, unless a step has failed, and what sends it.
    pub(super) fn into_parts(self) -> Result<(RequestSender, Request), ClientError> {
        Ok((self.sender, self.request?))
    }
}

impl<S> RequestBuilder<S> {
    /// Returns the same request, which `.await` sends, and how it was to be sent.
    pub(crate) fn into_awaited(self) -> (S, RequestBuilder) {
        let RequestBuilder { sender, request, sends } = self;
        (sends, RequestBuilder { sender, request, sends: Awaited(()) })
    }

    /// Sets a field, in place of all lines with that name (see [`Headers::set`](crate::Headers::set)).
    ///
    /// The `.await` fails if the name or the value is not valid in a field.
    pub fn header(self, name: &str, value: impl FieldValue) -> Self {
        self.change(|request| request.headers.set(name, value))
    }

    /// Makes `text` the content, as `text/plain` in UTF-8 (see [`Request::set_text`]).
    pub fn text(self, text: impl AsRef<str>) -> Self {
        self.change(|request| {
            request.set_text(text);
            Ok(())
        })
    }

    /// Makes `bytes` the content, without copying them: static data, a `Bytes`, a `Vec<u8>` or a `String`. See
    /// [`Request::set_shared_bytes`].
    ///
    /// The `.await` fails if the content type is not valid in a field.
    #[doc(alias = "body")]
    pub fn bytes(self, content_type: &str, bytes: impl Into<Bytes>) -> Self {
        self.change(|request| request.set_shared_bytes(content_type, bytes))
    }

    /// Makes what `source` yields the content, without a copy of the whole (see [`Body::set_stream`](crate::Body::set_stream)).
    /// The stream is sent a single time. So a redirect with the same content is an error, and a failure is not retried. Without
    /// a length, the stream is sent in chunks. A file is better given to [`RequestBuilder::file`].
    ///
    /// The `.await` fails if the content type is not valid in a field.
    #[doc(alias = "body")]
    pub fn stream(
        self,
        content_type: &str,
        source: impl AsyncRead + Send + 'static,
        len: impl Into<Option<u64>>,
    ) -> Self {
        self.change(|request| {
            request.body.set_stream(source, len.into());
            request.headers.set("content-type", content_type)
        })
    }

    /// Makes a file the content (see [`Body::set_file`](crate::Body::set_file)). The file is read each time that the request is
    /// sent. The length is that of the file now. A file of tokio becomes one of std by `tokio::fs::File::into_std`.
    ///
    /// The `.await` fails if the length cannot be read, or for a content type not valid in a field.
    #[doc(alias("body", "upload"))]
    pub fn file(self, content_type: &str, file: File) -> Self {
        let len = match file.metadata() {
            Ok(metadata) => metadata.len(),
            Err(error) => {
                let error = ClientError::new(ClientPhase::Prepare, ClientCause::Io(error));
                return RequestBuilder { request: self.request.and(Err(error)), ..self };
            }
        };
        self.change(|request| {
            request.body.set_file(file, 0..len);
            request.headers.set("content-type", content_type)
        })
    }

    /// Cannot be called. The message of the compiler names the methods for content.
    #[doc(hidden)]
    pub fn body(self, _: impl Sized) -> Self
    where
        for<'a> &'a Self: HasUntypedBody,
    {
        self
    }

    /// Sends a user-id and a password, with the scheme Basic (see [`Request::set_basic_auth`]).
    ///
    /// The `.await` fails for a colon in the user-id, or a control character in either.
    pub fn basic_auth(self, user_id: &str, password: &str) -> Self {
        self.change(|request| request.set_basic_auth(user_id, password))
    }

    /// Sends a bearer token (see [`Request::set_bearer_auth`]).
    ///
    /// The `.await` fails if the token is empty or contains an octet not allowed in tokens.
    pub fn bearer_auth(self, token: &str) -> Self {
        self.change(|request| request.set_bearer_auth(token))
    }

    /// Sets the time limit for the whole exchange, including redirects and the body. Default: that of the client, see
    /// [`ClientBuilder::timeout`](crate::ClientBuilder::timeout). The limits of the phases still apply, 30 s for the head of
    /// the response among them (see [`RequestBuilder::timeouts`]).
    pub fn timeout(self, total: impl Into<Option<Duration>>) -> Self {
        RequestBuilder { sender: self.sender.with_total(total.into()), ..self }
    }

    /// Sets the time limits of the phases, such as how long the server may take to answer. Default: those of the
    /// client, see [`ClientBuilder::timeouts`](crate::ClientBuilder::timeouts).
    ///
    /// The limit for the whole exchange is another one, and extends none of these.
    ///
    /// # Examples
    ///
    /// ```
    /// # use corehttp::{Context, Server};
    /// # use corehttp::net::MemoryListener;
    /// use std::time::Duration;
    /// use corehttp::Client;
    /// use corehttp::client::ClientTimeouts;
    ///
    /// # let listener = MemoryListener::new();
    /// # let server = Server::bind(&listener).cores(1).start(|ctx: &mut Context| ctx.response.set_text("42"))?;
    /// # corehttp::block_on(async {
    /// let client = Client::new();
    /// # let client = Client::builder().connect_to(listener).build();
    /// let patient = ClientTimeouts { wait: Duration::from_secs(600), ..ClientTimeouts::default() };
    /// let answer = client.post("http://model.example/").text("6 * 7?").timeouts(patient).await?;
    /// assert_eq!(answer.text()?, "42");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })??;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn timeouts(self, timeouts: ClientTimeouts) -> Self {
        RequestBuilder { sender: self.sender.with_timeouts(timeouts), ..self }
    }

    /// Sets whether redirects are followed. Default: as the client does, see
    /// [`ClientBuilder::redirects`](crate::ClientBuilder::redirects).
    pub fn redirects(self, redirects: Redirects) -> Self {
        RequestBuilder { sender: self.sender.with_redirects(redirects), ..self }
    }

    /// Sets how many bytes the body of the response may have. Default: those of the client, see
    /// [`ClientLimits::body_max`](crate::client::ClientLimits::body_max). Content that is decoded has the limit of
    /// [`ClientBuilder::decode_up_to`](crate::ClientBuilder::decode_up_to) as well.
    pub fn body_max(self, most: usize) -> Self {
        RequestBuilder { sender: self.sender.with_body_max(most), ..self }
    }

    /// Sets the policy by which the request is sent again after a failure. `None` is no policy. Default: that of the client,
    /// see [`ClientBuilder::retry`](crate::ClientBuilder::retry).
    ///
    /// # Examples
    ///
    /// A POST that the server recognizes the second time:
    ///
    /// ```
    /// # use corehttp::{Context, Server};
    /// # use corehttp::net::MemoryListener;
    /// use corehttp::Client;
    /// use corehttp::client::Retry;
    ///
    /// # let listener = MemoryListener::new();
    /// # let server = Server::bind(&listener).cores(1).start(|ctx: &mut Context| ctx.response.set_text("paid"))?;
    /// # corehttp::block_on(async {
    /// let client = Client::new();
    /// # let client = Client::builder().connect_to(listener).build();
    /// let payment = client.post("http://example.com/payments").header("idempotency-key", "\"8e03978e\"").text("42");
    /// let response = payment.retry(Retry::new().attempts_max(5)).await?;
    /// assert_eq!(response.text()?, "paid");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })??;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn retry(self, retry: impl Into<Option<Retry>>) -> Self {
        RequestBuilder { sender: self.sender.with_retry(retry.into().map(Arc::new)), ..self }
    }

    /// Changes the request, unless a step has failed before.
    pub(crate) fn change(mut self, change: impl FnOnce(&mut Request) -> Result<(), MessageError>) -> Self {
        if let Ok(request) = &mut self.request
            && let Err(error) = change(request)
        {
            let error = ClientError::from(error);
            self.request = Err(error.with_url(request.target().as_str()));
        }
        self
    }
}

/// Implemented by nothing. The message names `.await`, for programs that call `.send()` as with reqwest.
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "a request is sent by `.await`, without `.send()`",
    label = "`.await` sends the request",
    note = "`client.get(url).await?` is the response, with its body; a `blocking::Client` has requests with `.send()`"
)]
pub trait SentByCall {}

/// Requests with content of any type. There are none, since the type of the content is sent with it.
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "content is set by `.text(..)`, `.bytes(type, ..)`, `.file(type, ..)` or `.stream(type, .., len)`",
    label = "not by `body`",
    note = "with the features `json`, `form` and `multipart`, there are also `.json(..)`, `.form(..)` and `.multipart(..)`"
)]
pub trait HasUntypedBody {}

impl IntoFuture for RequestBuilder {
    type Output = Result<Response, ClientError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    /// Sends the request, and receives the response with its body, as [`Client::send`](crate::Client::send) does.
    /// [`Response::url`] is the URL that the response came from, redirected or not.
    ///
    /// `.await` calls it. Where a future is needed, as by `tokio::join!` or `tokio::spawn`, this is one.
    ///
    /// # Errors
    ///
    /// Fails after a failed step, such as one with a malformed URL, or if no response arrives (see [`ClientError`]). A
    /// status of 4xx or 5xx is no error, unless [`Response::error_for_status`] makes it one.
    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let mut response = Response::new();
            self.send_into(&mut response).await?;
            Ok(response)
        })
    }
}

impl<S> fmt::Debug for RequestBuilder<S> {
    /// Shows neither the query nor the fields, since they may hold secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut fields = f.debug_struct("RequestBuilder");
        match &self.request {
            Ok(request) => {
                let url = request.target().as_str().split('?').next();
                fields.field("method", &request.method()).field("url", &url.unwrap_or_default())
            }
            Err(error) => fields.field("error", error),
        };
        fields.finish_non_exhaustive()
    }
}
