//! [`ClientBuilder`]: configures a client.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;

use super::{ClientTimeouts, PoolBounds, Settings};
use crate::client::{Client, ClientInner, CookieStore, Proxies, Redirects};
use crate::coding::ACCEPTED;
use crate::exchange::Bounds;
use crate::message::{FieldName, FieldValue, Headers, InvalidField};
use crate::net::{
    Dialer, DnsCache, HostConnector, Keepalive, MemoryConnector, Network, Resolver, SystemResolver,
    TlsConnector,
};
use crate::wire::{Limits, encode};

/// Configures a [`Client`]. Made by [`Client::builder`].
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use corehttp::{Client, Redirects};
///
/// let client = Client::builder()
///     .timeout(Duration::from_secs(5))
///     .connections_per_host_max(64)
///     .redirects(Redirects::Follow(3))
///     .build();
/// # drop(client);
/// ```
#[derive(Clone)]
#[must_use]
pub struct ClientBuilder {
    total: Option<Duration>,
    redirects: Redirects,
    pub(super) settings: Settings,
}

impl ClientBuilder {
    /// Sets the time limit for a whole exchange, including redirects and the body. Default: none, so only the limits of
    /// the phases apply: see [`ClientTimeouts`].
    ///
    /// The time runs from the call that begins the exchange to the end of the body, whoever is slow: what the caller
    /// spends between two reads or writes counts, too. After that, every read and write fails with a timeout, even if
    /// more has arrived, until the whole body has been read. While a limit is set, `AsyncRead` yields little at once to a
    /// slow reader, so that one that buffers notices it in time.
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

    /// Sets how many connections to one host there may be in each runtime, in use and idle together. Further requests
    /// wait in line, for at most [`ClientTimeouts::queue`]. Default: 512; the least is 1.
    pub fn connections_per_host_max(mut self, most: usize) -> Self {
        self.settings.pool.connections_max = most.clamp(1, Semaphore::MAX_PERMITS);
        self
    }

    /// Sets how long a connection may be idle. After that it is not reused, and is closed within a second. With zero,
    /// no connection is used twice. A server may ask for less, for example with `keep-alive: timeout=5`. Default: 30 s.
    #[doc(alias = "pool_idle_timeout")]
    pub fn idle_timeout(mut self, idle: Duration) -> Self {
        self.settings.pool.idle = idle;
        self
    }

    /// Sets how old a connection may be and still be used for further requests. Default: any age.
    pub fn age_max(mut self, age: impl Into<Option<Duration>>) -> Self {
        self.settings.pool.age = age.into();
        self
    }

    /// Sets how many bytes a body that is received whole may have. A body that is streamed has no limit. Default: 16
    /// MiB.
    pub fn body_max(mut self, most: usize) -> Self {
        self.settings.bounds.limits.body_max = most;
        self
    }

    /// Sets how many bytes the head of an answer may have. Default: 64 KiB; at most 1 GiB.
    pub fn head_max(mut self, most: usize) -> Self {
        self.settings.bounds.limits.head_max = most;
        self.settings.bounds.limits = self.settings.bounds.limits.capped();
        self
    }

    /// Sets how many fields the head of an answer may have. Default: 128; at most 1,024.
    pub fn fields_max(mut self, most: usize) -> Self {
        self.settings.bounds.limits.fields_max = most;
        self
    }

    /// Asks for compressed content and decodes it as it arrives, up to `most` decoded bytes. Default: compressed
    /// content is not asked for, and stays as it was sent.
    ///
    /// More than `most` bytes are an error, whether the body is streamed or not; so are more coded ones that decode to
    /// nothing. Content without codings has only the limit of [`ClientBuilder::body_max`]. A part of coded content (206)
    /// stays coded. Which codings are supported depends on the features `compress` and `zstd`.
    ///
    /// A request asks for other codings in an `accept-encoding` of its own, or with `identity` for none: a download that
    /// may be resumed should not be coded.
    #[doc(alias("gzip", "brotli"))]
    pub fn decode(mut self, most: impl Into<Option<usize>>) -> Self {
        self.settings.decode_max = most.into();
        self
    }

    /// Adds a default field, such as `user-agent`, for all requests that do not set it. Default: none.
    ///
    /// `host`, `connection`, `keep-alive`, `upgrade`, `expect` and the fields that frame a body belong to each single
    /// request, and are ignored here.
    ///
    /// `authorization` and `cookie` are sent to every origin that you send a request to, but not to another one that a
    /// redirect leads to, and not with a TRACE, whose answer repeats them (RFC 9110 §9.3.8).
    ///
    /// `proxy-authorization` is for HTTP proxies that have no credentials of their own: they get it with each request
    /// that they read, and with each request for a tunnel. No origin gets it (RFC 9110 §11.7.2). A request for a tunnel
    /// has the `user-agent`, too, and what [`Proxy::field`](crate::Proxy::field) adds, but no other field.
    ///
    /// # Errors
    ///
    /// Fails if the name or the value is not valid in a field.
    #[doc(alias("user_agent", "default_headers"))]
    pub fn field(mut self, name: &str, value: impl FieldValue) -> Result<Self, InvalidField> {
        self.settings.fields.append(name, value)?;
        Ok(self)
    }

    /// Sets what looks up the addresses of names, and how long these are kept at most, which may be less by what the
    /// resolver [says](Resolver::resolve_with_ttl). Default: the operating system, 60 s.
    pub fn resolver(mut self, resolver: impl Resolver, keep: Duration) -> Self {
        self.settings.dial.dns = Arc::new(DnsCache::new(resolver, keep));
        self
    }

    /// Sets how long addresses from the operating system are kept, which does not say how long they are valid. Default:
    /// 60 s.
    pub fn names_kept(self, keep: Duration) -> Self {
        self.resolver(SystemResolver, keep)
    }

    /// Sets the local address that connections come from. Default: the operating system chooses.
    pub fn local_address(mut self, address: impl Into<Option<IpAddr>>) -> Self {
        self.settings.dial.local_address = address.into();
        self
    }

    /// Sets how long a TCP server may be silent before the operating system probes whether it is still there, and how
    /// often the probe is repeated. A server that leaves several probes in a row no_response (nine on Linux) is
    /// considered gone, and its connection fails.
    ///
    /// Use it for connections that may be silent for long: a [`ClientUpgraded`](crate::ClientUpgraded) has no other time limit.
    /// Default: no probes (RFC 9293 §3.8.4). Counted in whole seconds, clamped to between 1 and 32,767.
    pub fn tcp_keepalive(mut self, silence: impl Into<Option<Duration>>) -> Self {
        self.settings.dial.keepalive = silence.into().map(Keepalive::every);
        self
    }

    /// Connects to the Unix socket at `path`, whatever the host. Default: over TCP, to an address of the host.
    #[cfg(unix)]
    pub fn unix(mut self, path: impl AsRef<std::path::Path>) -> Self {
        self.settings.dial.network = Network::Unix(path.as_ref().into());
        self
    }

    /// Connects to a listener in memory, whatever the host. Default: over TCP, to an address of the host.
    pub fn memory(mut self, connector: MemoryConnector) -> Self {
        self.settings.dial.network = Network::Memory(connector);
        self
    }

    /// Connects with `dialer`. Default: over TCP, to an address of the host.
    pub fn dialer(mut self, dialer: impl Dialer) -> Self {
        self.settings.dial.network = Network::custom(dialer);
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
    /// A request with a `cookie` field of its own, or one from [`ClientBuilder::field`], is sent with that field
    /// instead, and a TRACE is sent without cookies.
    #[doc(alias = "cookie_store")]
    pub fn cookies(mut self, store: Arc<dyn CookieStore>) -> Self {
        self.settings.cookies = Some(store);
        self
    }

    /// Builds the client.
    pub fn build(self) -> Client {
        let ClientBuilder { total, redirects, mut settings } = self;
        if settings.decode_max.is_some() && !settings.fields.contains("accept-encoding") {
            settings.fields.put(FieldName::new("accept-encoding"), ACCEPTED.as_bytes());
        }
        settings.bounds.timeouts = settings.timeouts.of_exchange();
        settings.bounds_in_pieces = settings.bounds.clone();
        settings.bounds_in_pieces.timeouts.body_rate_min = 0;
        // Each request says, and only once, which host it is for, how it is framed, and whether it asks for another
        // protocol or waits for 100.
        for name in encode::ROUTING.into_iter().chain([FieldName::UPGRADE, FieldName::EXPECT]) {
            settings.fields.remove(name.as_str());
        }
        if let Some(authorization) = settings.fields.text(PROXY_AUTHORIZATION) {
            settings.proxies.set_default_authorization(authorization);
        }
        settings.fields.remove(PROXY_AUTHORIZATION);
        if let Some(user_agent) = settings.fields.get("user-agent") {
            settings.proxies.set_default_user_agent(user_agent);
        }
        let inner = ClientInner { settings: Arc::new(settings), pools: Default::default() };
        Client { inner: Arc::new(inner), total, redirects }
    }
}

impl Default for ClientBuilder {
    fn default() -> ClientBuilder {
        let limits = Limits { body_max: BODY_MAX, ..Limits::default() };
        let settings = Settings {
            bounds: Bounds { limits, ..Bounds::default() },
            bounds_in_pieces: Bounds::default(),
            timeouts: ClientTimeouts::default(),
            pool: PoolBounds { connections_max: 512, idle: Duration::from_secs(30), age: None },
            dial: HostConnector::default(),
            proxies: Proxies::none(),
            tls: TlsConnector::default(),
            fields: Headers::new(),
            cookies: None,
            decode_max: None,
        };
        ClientBuilder { total: None, redirects: Redirects::default(), settings }
    }
}

const BODY_MAX: usize = 16 << 20;

const PROXY_AUTHORIZATION: &str = "proxy-authorization";

impl fmt::Debug for ClientBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientBuilder").field("timeouts", &self.settings.timeouts).finish_non_exhaustive()
    }
}
