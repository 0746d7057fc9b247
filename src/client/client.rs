//! [`Client`]: sends requests to servers.

use std::fmt;
use std::fs::File;
use std::sync::Arc;
use std::time::Duration;

use super::balance::BalancerBuilder;
use super::builder::ClientBuilder;
use super::call::Call;
use super::download::Download;
use super::host::Host;
use super::pipeline::PipelineBuilder;
use super::pool::Pool;
use super::redirects::Redirects;
use super::request_builder::RequestBuilder;
use super::retry::Retry;
use super::send::{ClientUpgraded, RequestSender, upgrade};
use super::settings::ClientTimeouts;
use crate::client::call::ResponseReader;
use crate::client::error::ClientError;
use crate::client::observe::ClientCounts;
use crate::message::{MessageError, Method, Request, Response};
use crate::runtime::boxed;

/// Sends requests to servers, and keeps connections to them open for further requests.
///
/// Make one client and keep it. Clones share its connections. A client can be used on any thread, and in any tokio runtime with
/// timers enabled, and with I/O enabled unless it uses no sockets. A connection is reused only in the runtime that opened it.
///
/// A response is not an error, whatever its status, unless [`Response::error_for_status`] makes it one.
///
/// With the feature `tower`, a client is also a service of tower, for requests of the crate `http`.
///
/// All futures and bodies that it returns can be dropped at any time. A drop cancels the exchange, closes its connection, and
/// lets the next waiting request open another. A connection that is just being opened is completed for the next request, one at
/// a time for each host.
///
/// # Examples
///
/// ```
/// # use corehttp::{Context, Server};
/// # use corehttp::net::MemoryListener;
/// use corehttp::{Client, Request, Response, Status};
///
/// # let listener = MemoryListener::new();
/// # let server = Server::bind(&listener).cores(1).start(|ctx: &mut Context| ctx.response.set_text("Hello"))?;
/// # corehttp::block_on(async {
/// let client = Client::new();
/// # let client = Client::builder().connect_to(listener).build();
/// let response = client.get("http://example.com/").await?;
/// assert_eq!(response.status, Status::OK);
/// println!("{}", response.body.text()?);
///
/// // This loop allocates nothing: request and response are reused.
/// let request = Request::get("http://example.com/items?page=2")?;
/// let mut response = Response::new();
/// for _ in 0..1000 {
///     client.send(&request, &mut response).await?;
/// }
/// assert_eq!(response.body.bytes(), b"Hello");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })??;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Client {
    pub(super) sender: RequestSender,
}

impl Client {
    /// Creates a client with the defaults of [`ClientBuilder`].
    pub fn new() -> Client {
        Client::builder().build()
    }

    /// Returns a builder, for settings other than the defaults.
    pub fn builder() -> ClientBuilder {
        ClientBuilder::default()
    }

    /// Returns this client with another time limit for whole exchanges, including redirects and the body. Connections are
    /// shared. Default: none, so only the limits of the phases apply. See [`ClientBuilder::timeout`].
    ///
    /// For a single request: `client.with_timeout(limit).send(..)`, or [`RequestBuilder::timeout`].
    #[must_use]
    pub fn with_timeout(&self, total: impl Into<Option<Duration>>) -> Client {
        Client { sender: self.sender.with_total(total.into()) }
    }

    /// Returns this client with other time limits for the phases of exchanges. Connections are shared. Default: those of
    /// [`ClientBuilder::timeouts`].
    ///
    /// For a single request: `client.with_timeouts(limits).open_call(..)`, or [`RequestBuilder::timeouts`].
    #[must_use]
    pub fn with_timeouts(&self, timeouts: ClientTimeouts) -> Client {
        Client { sender: self.sender.with_timeouts(timeouts) }
    }

    /// Returns this client with another policy for redirects. Connections are shared.
    #[must_use]
    pub fn with_redirects(&self, redirects: Redirects) -> Client {
        Client { sender: self.sender.with_redirects(redirects) }
    }

    /// Returns this client with another policy for retries, or with none. Connections and budgets are shared. Default: that of
    /// [`ClientBuilder::retry`].
    ///
    /// For a single request: `client.with_retry(policy).send(..)`, or [`RequestBuilder::retry`].
    #[must_use]
    pub fn with_retry(&self, retry: impl Into<Option<Retry>>) -> Client {
        Client { sender: self.sender.with_retry(retry.into().map(Arc::new)) }
    }

    /// Returns a GET request (RFC 9110 §9.3.1), which `.await` sends. [`RequestBuilder`] has settings for it.
    ///
    /// # Errors
    ///
    /// The `.await` fails for a malformed URL, or if no response arrives (see [`ClientError`]). A status of 4xx or 5xx is
    /// no error, unless [`Response::error_for_status`] makes it one.
    pub fn get(&self, url: &str) -> RequestBuilder {
        self.request(Method::Get, url)
    }

    /// Returns a HEAD request (RFC 9110 §9.3.2), which `.await` sends.
    ///
    /// # Errors
    ///
    /// As [`Client::get`].
    pub fn head(&self, url: &str) -> RequestBuilder {
        self.request(Method::Head, url)
    }

    /// Returns a POST request (RFC 9110 §9.3.3), which `.await` sends.
    ///
    /// # Errors
    ///
    /// As [`Client::get`].
    pub fn post(&self, url: &str) -> RequestBuilder {
        self.request(Method::Post, url)
    }

    /// Returns a PUT request (RFC 9110 §9.3.4), which `.await` sends.
    ///
    /// # Errors
    ///
    /// As [`Client::get`].
    pub fn put(&self, url: &str) -> RequestBuilder {
        self.request(Method::Put, url)
    }

    /// Returns a PATCH request (RFC 5789), which `.await` sends. Its content describes the changes, in a format that the
    /// server supports.
    ///
    /// # Errors
    ///
    /// As [`Client::get`].
    pub fn patch(&self, url: &str) -> RequestBuilder {
        self.request(Method::Patch, url)
    }

    /// Returns a DELETE request (RFC 9110 §9.3.5), which `.await` sends.
    ///
    /// # Errors
    ///
    /// As [`Client::get`].
    pub fn delete(&self, url: &str) -> RequestBuilder {
        self.request(Method::Delete, url)
    }

    /// Returns a request with any method, which `.await` sends. For example, `client.request(Method::Query, url)` is a
    /// [QUERY](Method::Query). The query of a URL is set by [`RequestBuilder::query`] instead.
    ///
    /// # Errors
    ///
    /// As [`Client::get`], or for a method that [`Method::parse`] refuses.
    pub fn request<M: TryInto<Method>>(&self, method: M, url: &str) -> RequestBuilder
    where
        MessageError: From<M::Error>,
    {
        let request = self.sender.settings().base.request(method, url);
        RequestBuilder::new(self.sender.clone(), request)
    }

    /// Sends `request`, and receives the response into `response`, including its body. The response is reset first, and
    /// its memory is reused.
    ///
    /// The request is sent once more, on a new connection, if all of this is so:
    ///
    /// - It was sent on a reused connection that turns out to be closed.
    /// - Its body can be sent again.
    /// - Sending it twice does no harm (RFC 9110 §9.2.2).
    ///
    /// Another idle connection takes its place if the new one fails to open, or takes 250 ms to. A [`Retry`] sends it again
    /// after other failures, too.
    ///
    /// # Errors
    ///
    /// As [`Client::get`], or for a body larger than [`ClientLimits::body_max`]. No part of a body is in the response then.
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
    /// #     std::mem::swap(&mut ctx.response.body, &mut ctx.request.body);
    /// # })?;
    /// # corehttp::block_on(async {
    /// let mut request = Request::put("http://example.com/notes/1")?;
    /// request.headers.set("if-match", "\"7b0f\"")?;
    /// request.body.set_bytes("milk");
    /// let mut response = Response::new();
    /// client.send(&request, &mut response).await?;
    /// assert_eq!(response.body.text()?, "milk");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })??;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// [`ClientLimits::body_max`]: crate::client::ClientLimits::body_max
    #[doc(alias("execute", "do"))]
    pub async fn send(&self, request: &Request, response: &mut Response) -> Result<(), ClientError> {
        self.sender.send_whole(None, request, response).await
    }

    /// Sends `request`, and receives the head of the response into `response`. The body is read from the returned
    /// [`ResponseReader`], as it arrives.
    ///
    /// A part of the response may arrive before the request has been sent completely. Such a part is buffered, up to
    /// [`ClientLimits::body_max`]. A server may answer with more than that before the end of the request. For such a
    /// server, use [`Client::open_call`] and [`Call::split`].
    ///
    /// # Errors
    ///
    /// As [`Client::get`].
    ///
    /// [`ClientLimits::body_max`]: crate::client::ClientLimits::body_max
    #[doc(alias = "download")]
    pub async fn open_response(
        &self,
        request: &Request,
        response: &mut Response,
    ) -> Result<ResponseReader, ClientError> {
        self.sender.open_response(None, request, response).await
    }

    /// Receives the content for `request` into `file`, in place of what the file had, and returns the length.
    ///
    /// After a broken connection, another one goes on with the rest (RFC 9110 §14.2), until five in a row have brought nothing.
    /// Before each there is a random wait of up to 100 ms. The bound doubles with each further connection that brings nothing.
    ///
    /// The rest is requested with `range` and `if-range`. Content that has changed meanwhile begins anew, at most five times. So
    /// does content with neither a strong `etag` nor an old `last-modified`. Content is requested without codings. The file is
    /// written by threads for blocking work. A [timeout](crate::ClientBuilder::timeout) counts for each connection, without the
    /// waits for the disk. `tokio::time::timeout` bounds all of it.
    ///
    /// A part of the content, such as the rest of a file that an earlier program has left, is received by
    /// [`Client::open_response`].
    ///
    /// # Errors
    ///
    /// As [`Client::get`], and with:
    ///
    /// - [`ClientCause::Request`] if the request has a `range` or an `if-range` of its own. Nothing is sent then. The file
    ///   stays unchanged.
    /// - [`ClientCause::Status`] for a response that is neither 200 nor the requested part. A 503 ends the download at once,
    ///   also of the rest, unless a [`Retry`] of the client sends the request again.
    /// - [`ClientCause::Other`], an [`io::Error`](std::io::Error), if the file cannot be written.
    ///
    /// After a failure in the middle of the content, the file has its beginning.
    ///
    /// [`ClientCause::Request`]: crate::client::ClientCause::Request
    /// [`ClientCause::Status`]: crate::client::ClientCause::Status
    /// [`ClientCause::Other`]: crate::client::ClientCause::Other
    ///
    /// # Examples
    ///
    /// ```no_run
    /// use std::fs::File;
    /// use corehttp::{Client, Request};
    ///
    /// # corehttp::block_on(async {
    /// let request = Request::get("https://example.com/disk.img")?;
    /// let len = Client::new().download(&request, File::create("disk.img")?).await?;
    /// println!("{len} bytes");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })??;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[doc(alias("resume", "range", "wget"))]
    pub async fn download(&self, request: &Request, file: File) -> Result<u64, ClientError> {
        boxed(|| async { Download::new(request, file)?.run(&self.sender).await }).await
    }

    /// Sends the head of `request`. Its body is then written to the returned [`Call`], and `request.body` is not sent.
    ///
    /// The body is sent with the `content-length` that was set. Without one, or with trailers, it is sent in chunks. A GET, or
    /// another method without usual content, has content only if `content-length` or `transfer-encoding` is set. Redirects are
    /// not followed.
    ///
    /// A server that has answered in HTTP/1.0 within the last minute reads no chunks (RFC 9112 §6.1). Such a server gets no
    /// trailers, and a body without a length is an error, [`ClientCause::LengthRequired`].
    ///
    /// A request without a body, or with a `content-length` of 0, is complete with its head if `request.body` and the trailers
    /// are empty, too. The method then waits for the response, or for the first interim one. On a stale connection, it sends
    /// the request once more, as [`Client::send`] does. A request with a body is never sent twice.
    ///
    /// Interim responses, such as 103, are dropped, unless [`CallReader::informational`] takes them.
    ///
    /// # Errors
    ///
    /// As [`Client::get`].
    ///
    /// [`CallReader::informational`]: crate::client::CallReader::informational
    /// [`ClientCause::LengthRequired`]: crate::client::ClientCause::LengthRequired
    pub async fn open_call(&self, request: &Request) -> Result<Call, ClientError> {
        self.sender.open_call(None, request).await
    }

    /// Sends `request`, which has an `upgrade` field, and hands the connection over (RFC 9110 §7.8). The head of the
    /// response is in `response`.
    ///
    /// The request names the protocol in its `upgrade` field. `connection: upgrade` is added. Both are for the next hop only
    /// (RFC 9110 §7.6.1). So any request with that field goes through a tunnel of an HTTP proxy, also for an `http` URL. Some
    /// proxies open tunnels to port 443 alone by default, and refuse others with 403.
    ///
    /// # Errors
    ///
    /// As [`Client::get`], or with [`ClientCause::Upgrade`] for a response other than 101 or with a protocol that the request
    /// does not name. The response is then in `response`, even a redirect. Its body, which usually has the reason, is received
    /// as by [`Client::send`]. A body that is cut short or too large is dropped.
    ///
    /// [`ClientCause::Upgrade`]: crate::client::ClientCause::Upgrade
    pub async fn upgrade(
        &self,
        request: &Request,
        response: &mut Response,
    ) -> Result<ClientUpgraded, ClientError> {
        upgrade(&self.sender, None, request, response).await
    }

    /// Returns a handle for the one origin that `url` names. Its requests need no look-up of the origin's connections, and
    /// their targets may be only a path. A path in `url` has no effect: it belongs to the requests, or to
    /// [`ClientBuilder::base_url`](crate::ClientBuilder::base_url).
    ///
    /// # Errors
    ///
    /// Fails if the URL is malformed or names no host.
    pub fn host(&self, url: &str) -> Result<Host, MessageError> {
        Host::new(self.sender.clone(), url)
    }

    /// Closes all connections that are not in use.
    pub fn close_idle(&self) {
        self.sender.each_pool(Pool::close_idle);
    }

    /// Returns how many connections are open and not in use.
    pub fn idle_connections(&self) -> usize {
        let mut idle = 0;
        self.sender.each_pool(|pool| idle += pool.idle());
        idle
    }

    /// Returns how many connections are in use, or about to be opened.
    pub fn busy_connections(&self) -> usize {
        let mut busy = 0;
        self.sender.each_pool(|pool| busy += pool.busy());
        busy
    }

    /// Returns the counts of this client so far: dials, failures, times and bytes, for each host and in total.
    pub fn counts(&self) -> ClientCounts {
        self.sender.counts()
    }

    /// Returns a builder for a balancer over the hosts that `urls` name. As with [`Client::host`], their paths have no effect.
    ///
    /// # Errors
    ///
    /// Fails if the URL is malformed or names no host.
    pub fn balance<U: AsRef<str>>(
        &self,
        urls: impl IntoIterator<Item = U>,
    ) -> Result<BalancerBuilder, MessageError> {
        let builder = BalancerBuilder::new(self.sender.with_redirects(Redirects::Return));
        urls.into_iter().try_fold(builder, |builder, url| builder.host(url.as_ref()))
    }

    /// Returns a builder for a pipeline to the one origin that `url` names: many requests in flight on few connections. As with
    /// [`Client::host`], a path in `url` has no effect.
    ///
    /// # Errors
    ///
    /// Fails if the URL is malformed or names no host.
    pub fn pipeline(&self, url: &str) -> Result<PipelineBuilder, MessageError> {
        PipelineBuilder::new(self.sender.clone(), url)
    }
}

impl ClientBuilder {
    /// Builds the client.
    pub fn build(self) -> Client {
        Client { sender: self.into_sender() }
    }
}

impl Default for Client {
    fn default() -> Client {
        Client::new()
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client")
            .field("idle", &self.idle_connections())
            .field("busy", &self.busy_connections())
            .finish_non_exhaustive()
    }
}
