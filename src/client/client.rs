//! [`Client`]: sends requests to servers; [`ClientBuilder`] configures it.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use super::balance::BalancerBuilder;
use super::call::Call;
use super::cookies::CookieStore;
use super::host::Host;
use super::pipeline::PipelineBuilder;
use super::pool::Pool;
use super::request_builder::RequestBuilder;
use super::retry::{HostBudgets, Retry, RetryBudget};
use super::route::Proxies;
use super::send::{ClientUpgraded, Redirects, RequestSender, upgrade};
use super::settings::{ClientLimits, ClientSettings, ClientTimeouts};
use crate::client::call::ResponseReader;
use crate::client::error::ClientError;
use crate::client::observe::{ClientCounts, ClientObserver};
use crate::message::{FieldValue, MessageError, Method, Request, Response};
use crate::net::{Address, Dialer, Keepalive, Resolver};

/// Sends requests to servers, and keeps connections to them open for further requests.
///
/// Make one client and keep it; clones share its connections. A client can be used on any thread, and in any tokio
/// runtime with timers enabled, and with I/O enabled unless it uses no sockets. A connection is reused only in the
/// runtime that opened it.
///
/// A response is not an error, whatever its status, unless [`Response::error_for_status`] makes it one.
///
/// With the feature `tower`, a client is also a service of tower, for requests of the crate `http`.
///
/// All futures and bodies that it returns can be dropped at any time. That cancels the exchange, closes its connection,
/// and lets the next waiting request open another. A connection that is just being opened is opened all the same, one at
/// a time for each host, and is for the next request.
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

    /// Returns this client with another time limit for whole exchanges, including redirects and the body; connections
    /// are shared. Default: none, so only the limits of the phases apply. See [`ClientBuilder::timeout`].
    ///
    /// For a single request: `client.with_timeout(limit).send(..)`, or [`RequestBuilder::timeout`].
    #[must_use]
    pub fn with_timeout(&self, total: impl Into<Option<Duration>>) -> Client {
        Client { sender: self.sender.with_total(total.into()) }
    }

    /// Returns this client with other time limits for the phases of exchanges; connections are shared. Default: those
    /// of [`ClientBuilder::timeouts`].
    ///
    /// For a single request: `client.with_timeouts(limits).open_call(..)`, or [`RequestBuilder::timeouts`].
    #[must_use]
    pub fn with_timeouts(&self, timeouts: ClientTimeouts) -> Client {
        Client { sender: self.sender.with_timeouts(timeouts) }
    }

    /// Returns this client with another policy for redirects; connections are shared.
    #[must_use]
    pub fn with_redirects(&self, redirects: Redirects) -> Client {
        Client { sender: self.sender.with_redirects(redirects) }
    }

    /// Returns this client with another policy for retries, or with none; connections and budgets are shared. Default: that
    /// of [`ClientBuilder::retry`].
    ///
    /// For a single request: `client.with_retry(policy).send(..)`, or [`RequestBuilder::retry`].
    #[must_use]
    pub fn with_retry(&self, retry: impl Into<Option<Retry>>) -> Client {
        Client { sender: self.sender.with_retry(retry.into().map(Arc::new)) }
    }

    /// Returns a GET request (RFC 9110 §9.3.1), which `.await` sends. [`RequestBuilder`] is what can be set before that.
    ///
    /// # Errors
    ///
    /// The `.await` fails if the URL is malformed, or if no response arrives: see [`ClientError`]. A status of 4xx or 5xx
    /// is no error, unless [`Response::error_for_status`] makes it one.
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

    /// Returns a request with any method, which `.await` sends: `client.request(Method::Query, url)` is a
    /// [QUERY](Method::Query), while [`RequestBuilder::query`] sets the query of a URL.
    ///
    /// # Errors
    ///
    /// As [`Client::get`], or if the method is one that [`Method::parse`] refuses.
    pub fn request<M: TryInto<Method>>(&self, method: M, url: &str) -> RequestBuilder
    where
        MessageError: From<M::Error>,
    {
        RequestBuilder::new(self.sender.clone(), Request::new(method, url))
    }

    /// Sends `request`, and receives the response into `response`, including its body. The response is reset first, and
    /// its memory is reused.
    ///
    /// The request is sent once more, on a new connection, if it was sent on a reused connection that turns out to be
    /// closed, its body can be sent again, and sending it twice does no harm (RFC 9110 §9.2.2). A [`Retry`] sends it again
    /// after other failures, too.
    ///
    /// # Errors
    ///
    /// As [`Client::get`], or if the body is larger than [`ClientLimits::body_max`].
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
    #[doc(alias("execute", "do"))]
    pub async fn send(&self, request: &Request, response: &mut Response) -> Result<(), ClientError> {
        self.sender.send_whole(None, request, response).await
    }

    /// Sends `request`, and receives the head of the response into `response`. The body is read from the returned
    /// [`ResponseReader`], as it arrives.
    ///
    /// The part of the response that arrives before the request has been sent completely is buffered, up to
    /// [`ClientLimits::body_max`]. For a server that may answer with more than that while it still reads, use
    /// [`Client::open_call`] and [`Call::split`].
    ///
    /// # Errors
    ///
    /// As [`Client::get`].
    #[doc(alias = "download")]
    pub async fn open_response(
        &self,
        request: &Request,
        response: &mut Response,
    ) -> Result<ResponseReader, ClientError> {
        self.sender.open_response(None, request, response).await
    }

    /// Sends the head of `request`. Its body is then written to the returned [`Call`], and `request.body` is not sent.
    ///
    /// The body is sent with the `content-length` that was set; without one, or with trailers, it is sent in chunks. A
    /// method that usually has no content, such as GET, has content only if `content-length` or `transfer-encoding` is
    /// set. Redirects are not followed.
    ///
    /// A server that has answered in HTTP/1.0 within the last minute reads no chunks (RFC 9112 §6.1): it is sent no
    /// trailers, and a body without a length is an error, [`ClientCause::LengthRequired`].
    ///
    /// A request that has no body, or a `content-length` of 0, is complete with its head, if `request.body` and the
    /// trailers are empty, too. The method then waits for its response, or for the first interim one, so that it can
    /// send the request once more if the connection turns out to be stale, as [`Client::send`] does. A request with a
    /// body is never sent twice.
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
    /// The request names the protocol in its `upgrade` field; `connection: upgrade` is added. Both are for the next hop
    /// only (RFC 9110 §7.6.1). So any request with that field goes through a tunnel of an HTTP proxy, also for an
    /// `http` URL: some proxies open tunnels to port 443 alone unless they are told to, and then refuse with 403.
    ///
    /// # Errors
    ///
    /// As [`Client::get`], or with [`ClientCause::Upgrade`] if the response is not 101, or switches to a protocol that
    /// the request does not name. That response is then in `response`, even if it is a redirect. Its body, which
    /// usually has the reason, is received as by [`Client::send`]; if it does not arrive whole, or is too large, it is
    /// empty.
    ///
    /// [`ClientCause::Upgrade`]: crate::client::ClientCause::Upgrade
    pub async fn upgrade(
        &self,
        request: &Request,
        response: &mut Response,
    ) -> Result<ClientUpgraded, ClientError> {
        upgrade(&self.sender, None, request, response).await
    }

    /// Returns a handle for the one origin that `url` names. The handle saves looking up the origin's connections for
    /// each request, and allows targets that are only a path.
    ///
    /// # Errors
    ///
    /// Fails if the URL is malformed, or names no host.
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

    /// Returns a builder for a balancer over the hosts that `urls` name.
    ///
    /// # Errors
    ///
    /// Fails if the URL is malformed, or names no host.
    pub fn balance<U: AsRef<str>>(
        &self,
        urls: impl IntoIterator<Item = U>,
    ) -> Result<BalancerBuilder, MessageError> {
        let builder = BalancerBuilder::new(self.sender.with_redirects(Redirects::Return));
        urls.into_iter().try_fold(builder, |builder, url| builder.host(url.as_ref()))
    }

    /// Returns a builder for a pipeline to the one origin that `url` names: many requests in flight on few connections.
    ///
    /// # Errors
    ///
    /// Fails if the URL is malformed, or names no host.
    pub fn pipeline(&self, url: &str) -> Result<PipelineBuilder, MessageError> {
        PipelineBuilder::new(self.sender.clone(), url)
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

/// Configures a [`Client`]. Made by [`Client::builder`].
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use corehttp::Client;
/// use corehttp::client::{ClientLimits, Redirects};
///
/// let client = Client::builder()
///     .timeout(Duration::from_secs(5))
///     .limits(ClientLimits { connections_per_host_max: 64, ..ClientLimits::default() })
///     .redirects(Redirects::Follow(3))
///     .build();
/// # drop(client);
/// ```
#[derive(Clone, Default)]
#[must_use]
pub struct ClientBuilder {
    total: Option<Duration>,
    redirects: Redirects,
    retry: Option<Arc<Retry>>,
    pub(crate) settings: ClientSettings,
}

impl ClientBuilder {
    /// Sets the time limit for a whole exchange, including redirects and the body. Default: none, so only the limits of
    /// the phases apply: see [`ClientTimeouts`].
    ///
    /// The time runs from the call that begins the exchange to the end of the body, whichever side is slow: the time of
    /// the caller between two reads or writes counts, too. After that, every read and write fails with a timeout, even
    /// if more has arrived, until the whole body has been read. While a limit is set, `AsyncRead` yields little at once
    /// to a slow reader, so that one that buffers notices it in time.
    pub fn timeout(mut self, total: impl Into<Option<Duration>>) -> Self {
        self.total = total.into();
        self
    }

    /// Sets how long each phase of an exchange may take. Default: those of [`ClientTimeouts`].
    pub fn timeouts(mut self, timeouts: ClientTimeouts) -> Self {
        self.settings.timeouts = timeouts;
        self
    }

    /// Sets whether redirects are followed. Default: at most 10 in a row.
    pub fn redirects(mut self, redirects: Redirects) -> Self {
        self.redirects = redirects;
        self
    }

    /// Sets the policy by which requests that fail are sent again. Default: none, so a request is sent once, and once more
    /// if its connection turns out to be stale. [`Retry`] says why, and which requests are retried.
    pub fn retry(mut self, retry: impl Into<Option<Retry>>) -> Self {
        self.retry = retry.into().map(Arc::new);
        self
    }

    /// Sets how many retries each host gets in proportion to its requests, whatever their policies are. Default: those of
    /// [`RetryBudget`], one for ten requests and one per second. `None`: as many as the policies make.
    pub fn retry_budget(mut self, budget: impl Into<Option<RetryBudget>>) -> Self {
        self.settings.budgets = Arc::new(HostBudgets::new(budget.into()));
        self
    }

    /// Sets how much servers may take: bytes of a response, and connections. Default: those of [`ClientLimits`].
    #[doc(alias("max_idle_connections", "MaxIdleConns", "body_max", "head_max"))]
    pub fn limits(mut self, limits: ClientLimits) -> Self {
        self.settings.limits = limits;
        self
    }

    /// Requests compressed content and decodes it as it arrives, up to `most` decoded bytes. Default: no
    /// `accept-encoding` is sent, and content stays as it was sent.
    ///
    /// More than `most` bytes are an error, whether the body is streamed or not; so are more coded ones that decode to
    /// nothing. Content without codings has only the limit of [`ClientLimits::body_max`]. A part of coded content
    /// (206) stays coded. Which codings are supported depends on the features `compress` and `zstd`.
    ///
    /// A request names other codings in an `accept-encoding` of its own, or with `identity` for none: a download that
    /// may be resumed should not be coded. One with a `range` asks for `identity` by itself (Fetch §4.5), since the
    /// range would be one of coded content.
    #[doc(alias("gzip", "brotli"))]
    pub fn decode_up_to(mut self, most: usize) -> Self {
        self.settings.decode_max = Some(most);
        self
    }

    /// Adds a default field, such as `user-agent`, for all requests that do not set it. Default: none.
    ///
    /// `host`, `connection`, `keep-alive`, `upgrade`, `expect` and the fields that frame a body belong to each single
    /// request, and are ignored here.
    ///
    /// `authorization` and `cookie` are sent to every origin that you send a request to, but not to another one that a
    /// redirect leads to, and not with a TRACE, whose response repeats them (RFC 9110 §9.3.8).
    ///
    /// `proxy-authorization` is for HTTP proxies that have no credentials of their own: they get it with each request
    /// that they read, and with each request for a tunnel. No origin gets it (RFC 9110 §11.7.2). A request for a tunnel
    /// has the `user-agent`, too, and what [`Proxy::header`](crate::client::Proxy::header) adds, but no other field.
    ///
    /// # Errors
    ///
    /// Fails if the name or the value is not valid in a field.
    #[doc(alias("user_agent", "default_headers"))]
    pub fn default_header(mut self, name: &str, value: impl FieldValue) -> Result<Self, MessageError> {
        self.settings.fields.append(name, value)?;
        Ok(self)
    }

    /// Sets the resolver that looks up the addresses of names. Default: the operating system.
    pub fn resolver(mut self, resolver: impl Resolver) -> Self {
        self.settings.dial.dns = Arc::new(self.settings.dial.dns.asking(resolver));
        self
    }

    /// Sets how long the addresses of a name are kept at most, unless the resolver
    /// [returns a shorter time](Resolver::resolve_with_ttl). With zero they are not kept. Default: 60 s.
    pub fn dns_ttl(mut self, keep: Duration) -> Self {
        self.settings.dial.dns = Arc::new(self.settings.dial.dns.kept_for(keep));
        self
    }

    /// Sets the local address that connections come from. Default: the operating system chooses.
    pub fn local_address(mut self, address: impl Into<Option<IpAddr>>) -> Self {
        self.settings.dial.local_address = address.into();
        self
    }

    /// Sets how long a TCP server may be silent before the operating system probes whether it is still there, and how
    /// often the probe is repeated. A server that leaves several probes in a row unanswered (nine on Linux) is
    /// considered gone, and its connection fails.
    ///
    /// Use it for connections that may be silent for long: a [`ClientUpgraded`](crate::client::ClientUpgraded) has no other
    /// time limit. Default: no probes (RFC 9293 §3.8.4). Counted in whole seconds, clamped to between 1 and 32,767.
    pub fn tcp_keepalive(mut self, silence: impl Into<Option<Duration>>) -> Self {
        self.settings.dial.keepalive = silence.into().map(Keepalive::new);
        self
    }

    /// Connects to `address`, whatever the host of a URL: to a Unix socket, to a listener in memory, or to a certain
    /// server. It is where a server that was [bound](crate::Server::bind) to the same address listens. Default: over TCP,
    /// to an address of the host.
    ///
    /// Requests, the names that certificates are checked for, and the bounds of each host stay those of the URL. A name
    /// without a port is dialed with the port of the URL. A proxy is a host, too: it is expected at `address`. The module
    /// [`net`](crate::net) has an example.
    #[doc(alias("unix_socket", "unix", "resolve"))]
    pub fn connect_to(mut self, address: impl Into<Address>) -> Self {
        self.settings.dial.address = address.into().into();
        self
    }

    /// Opens connections to hosts with `dialer`. Default: over TCP, to an address of the host.
    ///
    /// With [`ClientBuilder::connect_to`] as well, in either order, the dialer gets that host and port instead of those
    /// of the URL. A Unix socket and a listener in memory have neither, so they are reached without a dialer.
    pub fn dialer(mut self, dialer: impl Dialer) -> Self {
        self.settings.dial.dialer = Some(Arc::new(dialer));
        self
    }

    /// Sets which proxies are used for which URLs. Default: none; [`Proxies::from_env`] reads them from the
    /// environment.
    pub fn proxies(mut self, proxies: Proxies) -> Self {
        self.settings.proxies = proxies;
        self
    }

    /// Keeps the cookies that servers set in `store`, and sends them back, with redirected requests, too. Default: no
    /// cookies are kept.
    ///
    /// A request with a `cookie` field of its own, or one from [`ClientBuilder::default_header`], is sent with that
    /// field instead, and a TRACE is sent without cookies.
    pub fn cookie_store(mut self, store: Arc<dyn CookieStore>) -> Self {
        self.settings.cookies = Some(store);
        self
    }

    /// Adds an observer, such as metrics. Default: none, which costs nothing. Observers are called in the order in which
    /// they were added.
    #[doc(alias("on_request", "on_response", "connection_verbose"))]
    pub fn observe(mut self, observer: impl ClientObserver) -> Self {
        self.settings.observers.push(Arc::new(observer));
        self
    }

    /// Builds the client.
    pub fn build(self) -> Client {
        let ClientBuilder { total, redirects, retry, settings } = self;
        Client { sender: RequestSender::new(settings.completed(), total, redirects, retry) }
    }
}

impl fmt::Debug for ClientBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientBuilder").field("timeouts", &self.settings.timeouts).finish_non_exhaustive()
    }
}
