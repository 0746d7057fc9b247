//! [`ClientBuilder`], which configures a client.

use std::error::Error;
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use super::cookies::CookieStore;
use super::redirects::{NextRequest, RedirectAction, Redirects};
use super::retry::{HostBudgets, Retry, RetryBudget};
use super::route::Proxies;
use super::send::RequestSender;
use super::settings::{ClientLimits, ClientSettings, ClientTimeouts};
use crate::client::middleware::ClientMiddleware;
use crate::client::observe::ClientObserver;
use crate::message::{FieldValue, MessageError, TargetError, uri_host};
use crate::net::{Address, AllowedAddresses, Dialer, Keepalive, Resolver, SocketOptions, UriHost};
use crate::wire::parse::Leniency;

/// Configures a [`Client`](crate::Client). Made by [`Client::builder`](crate::Client::builder).
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
    /// Sets the time limit for a whole exchange, including redirects and the body. Default: none, so only the limits of the
    /// phases apply (see [`ClientTimeouts`]).
    ///
    /// The time runs from the call that begins the exchange to the end of the body. Delays of both sides count. The time of the
    /// caller between two reads or writes counts, too. After the limit, reads and writes fail with a timeout, even of arrived
    /// bytes, until the whole body has been read. While a limit is set, `AsyncRead` yields little at once to a slow reader. A
    /// reader with a buffer thus notices the limit in time.
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

    /// Sets a function that decides about each redirect to be followed. Default: none, so as many are followed as
    /// [`ClientBuilder::redirects`] allows.
    ///
    /// An error of the function fails the request with [`ClientCause::Other`](crate::client::ClientCause::Other), in the phase
    /// [`Redirect`](crate::client::ClientPhase::Redirect).
    ///
    /// # Examples
    ///
    /// ```
    /// use corehttp::Client;
    /// use corehttp::client::{NextRequest, RedirectAction};
    ///
    /// let client = Client::builder().check_redirects(|next: &NextRequest<'_>| match next.is_cross_origin() {
    ///     true if next.request().path().starts_with("/login") => Err("the session has ended".into()),
    ///     true => Ok(RedirectAction::Return),
    ///     false => Ok(RedirectAction::Follow),
    /// });
    /// # drop(client.build());
    /// ```
    #[doc(alias("CheckRedirect", "redirect_policy"))]
    pub fn check_redirects(
        mut self,
        check: impl Fn(&NextRequest<'_>) -> Result<RedirectAction, Box<dyn Error + Send + Sync>>
        + Send
        + Sync
        + 'static,
    ) -> Self {
        self.settings.redirect_check = Some(Arc::new(check));
        self
    }

    /// Sets the policy by which failed requests are sent again. Default: none. A request is then sent once more at most,
    /// after a stale connection. [`Retry`] describes which requests are retried.
    pub fn retry(mut self, retry: impl Into<Option<Retry>>) -> Self {
        self.retry = retry.into().map(Arc::new);
        self
    }

    /// Sets how many retries each host gets in proportion to its requests, whatever their policies. Default: those of
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

    /// Requests compressed content and decodes it as it arrives, up to `most` decoded bytes. Default: no `accept-encoding`, and
    /// no decoding.
    ///
    /// More than `most` bytes are an error, also of a streamed body. So are more than `most` coded bytes that decode to
    /// nothing. Content without codings has only the limit of [`ClientLimits::body_max`]. A part of coded content (206)
    /// stays coded. Which codings are supported depends on the features `compress` and `zstd`.
    ///
    /// A request may have an `accept-encoding` of its own, with other codings, or with `identity` for none. A download that may
    /// be resumed should not be coded. A request with a `range` asks for `identity` by itself (Fetch §4.5), since the range
    /// would be one of coded content.
    #[doc(alias("gzip", "brotli"))]
    pub fn decode_up_to(mut self, most: usize) -> Self {
        self.settings.decode_max = Some(most);
        self
    }

    /// Sets the URL that the URLs of requests are relative to (RFC 3986 §5.2), those of [`Client::get`](crate::Client::get)
    /// and its like, `websocket` among them. Default: none, so they are absolute. A [`Request`](crate::Request) has its
    /// whole URL already, so the URLs of [`Client::send`](crate::Client::send), `open_response` and `download`, and of an
    /// [`EventSource`](crate::sse::EventSource), are always absolute.
    ///
    /// The text after the last slash of `url` is not a part of the base, as for links of a page. A URL that begins with a slash
    /// replaces the path of the base. An absolute URL stays as it is.
    ///
    /// # Errors
    ///
    /// Fails if the URL is malformed or names no host.
    ///
    /// # Examples
    ///
    /// ```
    /// # use corehttp::{Context, Server};
    /// # use corehttp::net::MemoryListener;
    /// use corehttp::Client;
    ///
    /// # let listener = MemoryListener::new();
    /// # let server = Server::bind(&listener).cores(1).start(|ctx: &mut Context| {
    /// #     ctx.response.set_text(ctx.request.target().as_str().to_owned());
    /// # })?;
    /// # corehttp::block_on(async {
    /// let api = Client::builder().base_url("https://api.example/v1/")?.default_query("key", "8f14e45f").build();
    /// # let builder = Client::builder().connect_to(listener).base_url("http://api.example/v1/")?;
    /// # let api = builder.default_query("key", "8f14e45f").build();
    /// let response = api.get("notes?page=2").await?; // https://api.example/v1/notes?page=2&key=8f14e45f
    /// # assert_eq!(response.text()?, "/v1/notes?page=2&key=8f14e45f");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })??;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn base_url(mut self, url: &str) -> Result<Self, MessageError> {
        self.settings.base.set_url(url)?;
        Ok(self)
    }

    /// Adds a parameter to the query of each request of [`Client::get`](crate::Client::get) and its like, after those
    /// of its URL. Default: none.
    ///
    /// The parameter is sent to every origin that such a request is for. A redirect does not take it along, unless the
    /// `location` repeats it.
    pub fn default_query(mut self, name: &str, value: impl FieldValue) -> Self {
        self.settings.base.query_mut().append(name, value);
        self
    }

    /// Sets whether certain faults in the responses of devices are overlooked, such as those of cameras, printers and meters.
    /// None of them leaves a doubt about the end of the response. Default: off, so each of them is an error.
    ///
    /// | fault | is read as |
    /// |---|---|
    /// | a line of a head, of trailers or around a chunk that ends with LF alone (RFC 9112 §2.2, §7.1) | CRLF |
    /// | a line other than a field: a space in the name or after it, a control character, no colon (§5.1, RFC 9110 §5.5) | nothing |
    /// | several lengths that are equal (RFC 9110 §8.6) | one |
    /// | blanks after the size of a chunk (§7.1) | nothing |
    /// | octets after the end of `gzip`, if content is [decoded](ClientBuilder::decode_up_to) | nothing |
    ///
    /// All else stays an error: different lengths, a length beside chunks, a size with a sign, a malformed status line, a
    /// `content-length` or `transfer-encoding` in a line that is no field, and any fault in the response of a proxy to CONNECT.
    /// A proxy may read such a response otherwise (§11.2). So the connection is closed after any fault of the table but the
    /// last, and [`Context::forward`](crate::Context::forward) refuses the calls of such a client.
    ///
    /// # Examples
    ///
    /// ```
    /// use corehttp::Client;
    ///
    /// # let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
    /// # let url = format!("http://{}/", listener.local_addr()?);
    /// # std::thread::spawn(move || {
    /// #     use std::io::{Read, Write};
    /// #     for _ in 0..2 {
    /// #         let (mut stream, _) = listener.accept().unwrap();
    /// #         let _ = stream.read(&mut [0; 1024]);
    /// #         stream.write_all(b"HTTP/1.1 200 OK\nMeter Model: 7\nContent-Length: 6\n\n17 kWh").unwrap();
    /// #     }
    /// # });
    /// # corehttp::block_on(async {
    /// let client = Client::builder().lenient(true).build();
    /// assert_eq!(client.get(&url).await?.text()?, "17 kWh");
    ///
    /// let error = Client::new().get(&url).await.unwrap_err();
    /// assert!(format!("{error:#}").contains("a line does not end with CRLF"), "{error:#}");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })??;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[doc(alias("insecure_http_parser", "allow_spaces_after_header_name", "http1_ignore_invalid_headers"))]
    pub fn lenient(mut self, on: bool) -> Self {
        self.settings.leniency = if on { Leniency::Allowed } else { Leniency::None };
        self
    }

    /// Adds a default field, such as `user-agent`, for all requests that do not set it. Default: none.
    ///
    /// `host`, `connection`, `keep-alive`, `upgrade`, `expect` and the fields that frame a body are ignored here. Each request
    /// has its own.
    ///
    /// `authorization` and `cookie` are sent to every origin that you send a request to. They are sent neither after a redirect
    /// to another origin nor with a TRACE, whose response repeats them (RFC 9110 §9.3.8).
    ///
    /// `proxy-authorization` is for HTTP proxies without credentials of their own. They get it with each request that they
    /// read, and with each request for a tunnel. No origin gets it (RFC 9110 §11.7.2). A request for a tunnel has the
    /// `user-agent`, too, and what [`Proxy::header`](crate::client::Proxy::header) adds, but no other field.
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

    /// Sets how long the addresses of a name are kept at most. The resolver may [return a shorter
    /// time](Resolver::resolve_with_ttl). With zero they are not kept. Default: 60 s.
    pub fn dns_ttl(mut self, keep: Duration) -> Self {
        self.settings.dial.dns = Arc::new(self.settings.dial.dns.kept_for(keep));
        self
    }

    /// Sets the addresses of a name, in place of those of the resolver. Default: all names are resolved. With no address, the
    /// name cannot be reached.
    ///
    /// Certificates and the field `host` are those of the name. [`ClientBuilder::allow_addresses`] holds for these
    /// addresses, too. Another call with the same name replaces them. A [`ClientBuilder::dialer`] gets names, and is not
    /// concerned.
    ///
    /// # Errors
    ///
    /// Fails if `name` is an address or cannot be the host of a URL.
    ///
    /// # Examples
    ///
    /// ```
    /// use corehttp::Client;
    ///
    /// let client = Client::builder()
    ///     .resolve("api.example.com", ["192.0.2.7".parse()?, "2001:db8::7".parse()?])?
    ///     .build();
    /// # drop(client);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[doc(alias("hosts", "pin", "resolve_to_addrs"))]
    pub fn resolve(
        mut self,
        name: &str,
        addresses: impl IntoIterator<Item = IpAddr>,
    ) -> Result<Self, MessageError> {
        let host = uri_host(name).map_err(|invalid| MessageError::from_url(invalid, name))?;
        let Ok(UriHost::Name(host)) = UriHost::parse(&host) else {
            return Err(MessageError::from_url(TargetError::Authority, name));
        };
        let addresses = Vec::from_iter(addresses);
        self.settings.dial.dns = Arc::new(self.settings.dial.dns.with_fixed(host, addresses));
        Ok(self)
    }

    /// Connects only to addresses for which `is_allowed` returns `true`, such as [public](crate::net::is_public) ones. Default:
    /// to all.
    ///
    /// A service that fetches URLs of its users must not reach its own network for them (SSRF). A URL does not show where it
    /// leads. A name may have any address, another one at each look-up (DNS rebinding), and a server may redirect. So each
    /// address is checked right before the connection, be it from the URL, from the resolver or its cache, or from
    /// [`ClientBuilder::resolve`]. All connections are checked: of a request, a redirect, a
    /// [`Pipeline`](crate::client::Pipeline), a [`Balancer`](crate::client::Balancer) and its health checks, a WebSocket. If a
    /// name has other addresses as well, these are used. Otherwise the error is
    /// [`ClientCause::AddressRefused`](crate::client::ClientCause::AddressRefused), and a [`Retry`](crate::client::Retry) does
    /// not try again by default. An IPv4 address that is mapped to IPv6 is checked as the IPv4 address.
    ///
    /// Addresses chosen by the operator or unseen by the client are not checked:
    ///
    /// - that of a [proxy](ClientBuilder::proxies), and those that it connects to. Such a proxy must have a check of its own.
    /// - that of [`ClientBuilder::connect_to`], and those that a [`ClientBuilder::dialer`] connects to.
    ///
    /// The function is called for each dial, in the runtime of the request, and should not block.
    ///
    /// # Examples
    ///
    /// ```
    /// use corehttp::Client;
    /// use corehttp::client::ClientCause;
    /// use corehttp::net::is_public;
    ///
    /// # corehttp::block_on(async {
    /// let client = Client::builder().allow_addresses(is_public).build();
    /// for url in ["http://127.0.0.1:9/", "http://0x7f.1:9/", "http://[::ffff:10.0.0.1]/", "http://localhost:9/"] {
    ///     let error = client.get(url).await.unwrap_err();
    ///     assert!(matches!(error.cause(), ClientCause::AddressRefused(_)), "{error:#}");
    /// }
    /// # })?;
    /// # Ok::<(), std::io::Error>(())
    /// ```
    ///
    /// Public addresses but that of Azure's service in each network, and a single private one:
    ///
    /// ```
    /// use std::net::IpAddr;
    /// use corehttp::Client;
    /// use corehttp::net::is_public;
    ///
    /// const PARTNER: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 7, 0, 2));
    /// const AZURE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(168, 63, 129, 16));
    ///
    /// let client = Client::builder()
    ///     .allow_addresses(|address| address == PARTNER || (is_public(address) && address != AZURE))
    ///     .build();
    /// # drop(client);
    /// ```
    #[doc(alias("ssrf", "rebinding", "ControlContext", "acl", "filter"))]
    pub fn allow_addresses(mut self, is_allowed: impl Fn(IpAddr) -> bool + Send + Sync + 'static) -> Self {
        self.settings.dial.allowed = AllowedAddresses::new(is_allowed);
        self
    }

    /// Sets the local address that connections come from. Default: the operating system chooses.
    pub fn local_address(mut self, address: impl Into<Option<IpAddr>>) -> Self {
        self.settings.dial.local_address = address.into();
        self
    }

    /// Sets the silence of a TCP server after which the operating system sends a probe, and the interval of further probes.
    /// After several unanswered ones in a row (nine on Linux), the connection fails.
    ///
    /// Probes are for connections with long silences, such as a [`ClientUpgraded`](crate::client::ClientUpgraded), which has no
    /// other time limit. Default: no probes (RFC 9293 §3.8.4). Counted in whole seconds, clamped to between 1 and 32,767.
    pub fn tcp_keepalive(mut self, silence: impl Into<Option<Duration>>) -> Self {
        self.settings.dial.keepalive = silence.into().map(Keepalive::new);
        self
    }

    /// Sets options of the TCP sockets of connections, such as their network interface, or the longest time without an
    /// acknowledgment (`TCP_USER_TIMEOUT`, RFC 5482). Default: those of the operating system.
    ///
    /// If the system refuses an option, the connection cannot be opened. The sockets of a [`ClientBuilder::dialer`] are its
    /// own.
    ///
    /// # Examples
    ///
    /// A connection through one interface, with an error after 20 seconds without an acknowledgment:
    ///
    /// ```
    /// use std::time::Duration;
    /// use corehttp::Client;
    /// use corehttp::net::SocketOptions;
    ///
    /// let client = Client::builder()
    ///     .socket_options(SocketOptions {
    ///         interface: Some("eth1".into()),
    ///         user_timeout: Some(Duration::from_secs(20)),
    ///         ..SocketOptions::default()
    ///     })
    ///     .build();
    /// # drop(client);
    /// ```
    #[doc(alias("interface", "tcp_user_timeout", "SO_BINDTODEVICE", "TCP_USER_TIMEOUT"))]
    pub fn socket_options(mut self, socket_options: SocketOptions) -> Self {
        self.settings.dial.socket_options = socket_options;
        self
    }

    /// Connects to `address`, whatever the host of a URL: to a Unix socket, to a listener in memory, or to a certain server. A
    /// server that is [bound](crate::Server::bind) to the same address listens there. Default: over TCP, to an address of the
    /// host.
    ///
    /// Requests, the names expected in certificates, and the bounds of each host stay those of the URL. A name without a
    /// port is dialed with the port of the URL. A proxy is expected at `address`, too. The module [`net`](crate::net) has
    /// an example.
    #[doc(alias("unix_socket", "unix"))]
    pub fn connect_to(mut self, address: impl Into<Address>) -> Self {
        self.settings.dial.address = address.into().into();
        self.settings.dial.is_in_memory = false;
        self
    }

    /// Opens connections to hosts with `dialer`. Default: over TCP, to an address of the host.
    ///
    /// With [`ClientBuilder::connect_to`] as well, in either order, the dialer gets that host and port instead of those
    /// of the URL. A Unix socket and a listener in memory have neither, so they are reached without a dialer.
    pub fn dialer(mut self, dialer: impl Dialer) -> Self {
        self.settings.dial.dialer = Some(Arc::new(dialer));
        self.settings.dial.is_in_memory = false;
        self
    }

    /// Sets the proxies through which URLs are requested. Default: none. [`Proxies::from_env`] reads them from the environment.
    pub fn proxies(mut self, proxies: Proxies) -> Self {
        self.settings.proxies = proxies;
        self
    }

    /// Sets whether only `https` URLs are requested. Default: `http` URLs are requested, too.
    ///
    /// The error for another URL is [`ClientCause::HttpsOnly`](crate::client::ClientCause::HttpsOnly), and nothing is
    /// dialed. A redirect from `https` to `http` is [an error](crate::client::Redirects) in any case. A
    /// [proxy](ClientBuilder::proxies) may be reached by `http`, and then opens a tunnel.
    ///
    /// # Examples
    ///
    /// ```
    /// use corehttp::Client;
    /// use corehttp::client::ClientCause;
    ///
    /// # corehttp::block_on(async {
    /// let client = Client::builder().https_only(true).build();
    /// let error = client.get("http://example.com/").await.unwrap_err();
    /// assert!(matches!(error.cause(), ClientCause::HttpsOnly));
    /// # })?;
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn https_only(mut self, https_only: bool) -> Self {
        self.settings.https_only = https_only;
        self
    }

    /// Keeps the cookies of servers in `store`, and sends them back, with redirected requests, too. Default: no cookies are
    /// kept.
    ///
    /// A request with a `cookie` field of its own, or one from [`ClientBuilder::default_header`], is sent with that field
    /// instead. A TRACE is sent without cookies.
    pub fn cookie_store(mut self, store: Arc<dyn CookieStore>) -> Self {
        self.settings.cookies = Some(store);
        self
    }

    /// Adds middleware, such as one that signs requests. Default: none. Middleware is added in the order in which requests pass
    /// through it (see [`ClientMiddleware`]).
    #[doc(alias("middleware", "layer", "with", "interceptor"))]
    pub fn wrap(mut self, middleware: impl ClientMiddleware) -> Self {
        self.settings.middleware.push(middleware);
        self
    }

    /// Adds an observer, such as metrics. Default: none, which costs nothing. Observers are called in the order in which
    /// they were added.
    #[doc(alias("on_request", "on_response", "connection_verbose"))]
    pub fn observe(mut self, observer: impl ClientObserver) -> Self {
        self.settings.observers.push(Arc::new(observer));
        self
    }

    /// The sender of the client.
    pub(super) fn into_sender(self) -> RequestSender {
        let ClientBuilder { total, redirects, retry, settings } = self;
        RequestSender::new(settings.completed(), total, redirects, retry)
    }
}

impl fmt::Debug for ClientBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientBuilder").field("timeouts", &self.settings.timeouts).finish_non_exhaustive()
    }
}
