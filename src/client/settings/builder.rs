//! [`ClientBuilder`]: the settings of a client that is about to be made.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;

use super::{ClientTimeouts, PoolBounds, Settings};
use crate::client::{Client, CookieStore, Proxies, Redirects, Shared};
use crate::coding::ACCEPTED;
use crate::exchange::Bounds;
use crate::message::{FieldValue, Headers, InvalidField, Name};
use crate::net::{
    Connector, Dial, Dialer, Keepalive, Medium, MemoryConnector, Names, Resolver, SystemResolver,
};
use crate::wire::{Limits, encode};

/// The settings of a client that is about to be made. Made by [`Client::builder`].
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
    /// The limit for all of an exchange, redirects and the body included. Default: none, so that only the limits of the
    /// phases hold: see [`ClientTimeouts`].
    pub fn timeout(mut self, total: impl Into<Option<Duration>>) -> Self {
        self.total = total.into();
        self
    }

    /// How long each phase of an exchange may take. Default: those of [`ClientTimeouts`].
    pub fn timeouts(mut self, timeouts: ClientTimeouts) -> Self {
        self.settings.timeouts = timeouts;
        self
    }

    /// Whether redirects are followed. Default: at most 10, one after the other.
    pub fn redirects(mut self, redirects: Redirects) -> Self {
        self.redirects = redirects;
        self
    }

    /// How many connections to one host there may be in one runtime, those in use and those at rest. Further requests
    /// wait in turn. Default: 512; the least is 1.
    pub fn connections_per_host_max(mut self, most: usize) -> Self {
        self.settings.pool.connections_max = most.clamp(1, Semaphore::MAX_PERMITS);
        self
    }

    /// How long a connection rests before it is closed. With zero none is used twice. A server may ask for less, as
    /// with `keep-alive: timeout=5`. Default: 30 s.
    #[doc(alias = "pool_idle_timeout")]
    pub fn idle_timeout(mut self, idle: Duration) -> Self {
        self.settings.pool.idle = idle;
        self
    }

    /// How old a connection may be and still be used for another request. Default: any age.
    pub fn age_max(mut self, age: impl Into<Option<Duration>>) -> Self {
        self.settings.pool.age = age.into();
        self
    }

    /// How many bytes a body may have that is received whole; a body that is streamed has no bound. Default: 16 MiB.
    pub fn body_max(mut self, most: usize) -> Self {
        self.settings.bounds.limits.body_max = most;
        self
    }

    /// How many bytes the head of an answer may have. Default: 64 KiB; more than 1 GiB count as 1 GiB.
    pub fn head_max(mut self, most: usize) -> Self {
        self.settings.bounds.limits.head_max = most;
        self.settings.bounds.limits = self.settings.bounds.limits.capped();
        self
    }

    /// How many fields the head of an answer may have. Default: 128; more than 1,024 count as 1,024.
    pub fn fields_max(mut self, most: usize) -> Self {
        self.settings.bounds.limits.fields_max = most;
        self
    }

    /// Asks for coded content, and decodes it as it comes. More than so many decoded bytes are an error, streamed or
    /// not. A part of coded content (206) stays coded. Which codings there are is up to the features `compress` and
    /// `zstd`. Default: none, and coded content stays coded.
    #[doc(alias("gzip", "brotli"))]
    pub fn decode(mut self, most: impl Into<Option<usize>>) -> Self {
        self.settings.decode_max = most.into();
        self
    }

    /// A field for every request that does not set it, such as `user-agent`. Default: none. `host`, and what frames a
    /// body, are computed for each request and not taken from here. `authorization`, `cookie` and `proxy-authorization`
    /// go to every origin that is asked, but to none that a redirect leads to.
    ///
    /// # Errors
    ///
    /// A name or a value that could not stand in a field.
    #[doc(alias("user_agent", "default_headers"))]
    pub fn field(mut self, name: &str, value: impl FieldValue) -> Result<Self, InvalidField> {
        self.settings.fields.append(name, value)?;
        Ok(self)
    }

    /// Where the addresses of names are looked up, and how long they are kept. Default: the system, 60 s.
    pub fn resolver(mut self, resolver: impl Resolver, keep: Duration) -> Self {
        self.settings.dial.names = Arc::new(Names::new(resolver, keep));
        self
    }

    /// How long the system's answers for names are kept. Default: 60 s.
    pub fn names_kept(self, keep: Duration) -> Self {
        self.resolver(SystemResolver, keep)
    }

    /// The address of this machine that connections come from. Default: the system chooses.
    pub fn local_address(mut self, address: impl Into<Option<IpAddr>>) -> Self {
        self.settings.dial.local_address = address.into();
        self
    }

    /// After how much silence the system asks whether a TCP server is still there, and how often it asks again. One
    /// that answers none of several times, nine on Linux, is gone, and its connection fails. Meant for connections that
    /// may be silent for long: a [`Tunnel`](crate::Tunnel) has no other limit. Default: never (RFC 9293 §3.8.4). In
    /// whole seconds, from 1 to 32,767: less and more count as these.
    pub fn tcp_keepalive(mut self, silence: impl Into<Option<Duration>>) -> Self {
        self.settings.dial.keepalive = silence.into().map(Keepalive::every);
        self
    }

    /// Connects to the socket at `path`, whatever host is asked. Default: over TCP, to an address of the host.
    #[cfg(unix)]
    pub fn unix(mut self, path: impl AsRef<std::path::Path>) -> Self {
        self.settings.dial.medium = Medium::Unix(path.as_ref().into());
        self
    }

    /// Connects to a listener in memory, whatever host is asked. Default: over TCP, to an address of the host.
    pub fn memory(mut self, connector: MemoryConnector) -> Self {
        self.settings.dial.medium = Medium::Memory(connector);
        self
    }

    /// Connects as `dialer` does. Default: over TCP, to an address of the host.
    pub fn dialer(mut self, dialer: impl Dialer) -> Self {
        self.settings.dial.medium = Medium::custom(dialer);
        self
    }

    /// Which proxies are asked for which hosts: see [`Proxies::from_env`] for those of the environment. Default: none.
    pub fn proxies(mut self, proxies: Proxies) -> Self {
        self.settings.proxies = proxies;
        self
    }

    /// Keeps the cookies that servers set, and gives them back, redirects included. A request that has a `cookie` field
    /// of its own, or one from [`ClientBuilder::field`], is sent with that instead. Default: none.
    #[doc(alias = "cookie_store")]
    pub fn cookies(mut self, store: Arc<dyn CookieStore>) -> Self {
        self.settings.cookies = Some(store);
        self
    }

    /// Makes the client.
    pub fn build(self) -> Client {
        let ClientBuilder { total, redirects, mut settings } = self;
        if settings.decode_max.is_some() && !settings.fields.contains("accept-encoding") {
            settings.fields.put(Name::new("accept-encoding"), ACCEPTED.as_bytes());
        }
        settings.bounds.timeouts = settings.timeouts.of_exchange();
        // Each request says itself, and once, whom it is for and how it is framed.
        for name in encode::ROUTING {
            settings.fields.remove(name.as_str());
        }
        let shared = Shared { settings: Arc::new(settings), pools: Default::default() };
        Client { shared: Arc::new(shared), total, redirects }
    }
}

impl Default for ClientBuilder {
    fn default() -> ClientBuilder {
        let limits = Limits { body_max: BODY_MAX, ..Limits::default() };
        let settings = Settings {
            bounds: Bounds { limits, ..Bounds::default() },
            timeouts: ClientTimeouts::default(),
            pool: PoolBounds { connections_max: 512, idle: Duration::from_secs(30), age: None },
            dial: Dial::default(),
            proxies: Proxies::none(),
            tls: Connector::default(),
            fields: Headers::new(),
            cookies: None,
            decode_max: None,
        };
        ClientBuilder { total: None, redirects: Redirects::default(), settings }
    }
}

const BODY_MAX: usize = 16 << 20;

impl fmt::Debug for ClientBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientBuilder").field("timeouts", &self.settings.timeouts).finish_non_exhaustive()
    }
}
