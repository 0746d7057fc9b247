//! [`Server`]: where to listen, on how many cores, and with which limits.

use std::fmt;
#[cfg(unix)]
use std::io;
#[cfg(unix)]
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::Duration;

use super::service::Service;
use crate::exchange::{Cancel, Timeouts};
use crate::message::{Headers, MessageError, Response};
#[cfg(unix)]
use crate::net::ListenFn;
use crate::net::{Address, Keepalive, SocketOptions};
use crate::runtime::Pinning;
use crate::server::core_state::ServerSettings;
use crate::server::error::ErrorReport;
use crate::server::error::Result;
use crate::server::forwarded::TrustedProxies;
use crate::server::handler::IntoHandler;
use crate::server::run::IntoIoResult;
use crate::server::run::ServerHandle;
use crate::server::run::{CORES_MAX, LaunchOptions, ServerCore, launch};
use crate::wire::Limits;

/// A server that has not started yet, with its addresses, its cores and its limits.
///
/// Configure it with the methods below, and end the chain with one of these:
///
/// | method | what it does |
/// |---|---|
/// | [`Server::run`] | serves until the server is stopped, and blocks the calling thread meanwhile |
/// | [`Server::start`] | returns a [`ServerHandle`] as soon as all cores listen |
/// | [`Server::run_per_core`], [`Server::start_per_core`] | do the same, with a handler of its own for each core |
/// | [`Server::service`] | listens nowhere, and serves given connections or requests |
///
/// The methods may be called in any order. Middleware is put [around the handler](crate::middleware#where-it-goes).
/// Logs and metrics [observe](Server::observe) the server.
///
/// # Examples
///
/// ```no_run
/// use std::time::Duration;
/// use corehttp::server::ErrorLog;
/// use corehttp::{Context, Limits, Server, Timeouts};
///
/// fn main() -> corehttp::Result {
///     Server::bind("[::]:8080")
///         .limits(Limits { body_max: 64 << 20, ..Limits::default() })
///         .timeouts(Timeouts { idle: Duration::from_secs(30), ..Timeouts::default() })
///         .observe(ErrorLog::stderr())
///         .run(|ctx: &mut Context| ctx.response.set_text("Hello, World!"))
/// }
/// ```
#[must_use]
pub struct Server {
    pub(crate) launch: LaunchOptions,
    pub(super) settings: ServerSettings,
}

impl Server {
    /// Creates a server without an address to listen on, for [`Server::service`] or [`Server::and_bind`]. Starting it
    /// without an address is an error.
    pub fn new() -> Server {
        Server { launch: LaunchOptions::new(), settings: ServerSettings::default() }
    }

    /// Creates a server that will listen on `address`.
    ///
    /// An address is one of:
    ///
    /// - a string, such as `"127.0.0.1:8080"`, `"[::]:8080"` for IPv6 and IPv4, `"localhost:8080"` or
    ///   `"unix:/run/app.sock"`
    /// - a [`SocketAddr`](std::net::SocketAddr)
    /// - a host and a port, such as `("127.0.0.1", port)`
    /// - a port alone, for every address
    /// - a path
    /// - an open listener of the standard library
    /// - a [`MemoryListener`](crate::net::MemoryListener)
    ///
    /// [`Address`] describes each, including the access to a Unix socket.
    ///
    /// A TCP port in use is an error, unless both servers [share it](Server::reuse_port).
    pub fn bind(address: impl Into<Address>) -> Server {
        Server::new().and_bind(address)
    }

    /// Adds another `address` to listen on. See [`Server::bind`].
    pub fn and_bind(mut self, address: impl Into<Address>) -> Server {
        self.launch.addresses.push((address.into(), None));
        self
    }

    /// Sets how many cores serve, each with a thread of its own. By default, all serve that the process may use. Values
    /// are clamped to between 1 and 1,024.
    #[doc(alias = "workers")]
    pub fn cores(mut self, cores: usize) -> Server {
        self.launch.cores = cores.clamp(1, CORES_MAX);
        self
    }

    /// Sets whether each thread is pinned to one core of the machine. Default: no. A thread that the operating
    /// system does not pin runs unpinned.
    pub fn pinned(mut self, pinned: bool) -> Server {
        self.launch.pinning = if pinned { Pinning::Pinned } else { Pinning::Free };
        self
    }

    /// Sets whether one core accepts all connections and gives each to the core with the fewest. Default: no, except on
    /// Unix sockets, on listeners that were already open, and outside of Linux. The system cannot spread connections
    /// there.
    ///
    /// By default each core accepts for itself. The operating system spreads connections at random. So a core gives a
    /// new connection away, in a few microseconds, if it has a quarter more of them than one of the next eight. With
    /// balancing, no core ever has more than one connection more than another when it gets a new one.
    pub fn balanced(mut self, balanced: bool) -> Server {
        self.launch.balanced = balanced;
        self
    }

    /// Sets whether `[::]` accepts IPv4 peers as well. Default: yes.
    pub fn dual_stack(mut self, dual_stack: bool) -> Server {
        self.launch.listen.dual_stack = dual_stack;
        self
    }

    /// Sets whether this server shares its TCP ports with other servers of the same setting. A new process can then
    /// take over from an old one while both listen. The new one gets a share of the connections, and all of them after
    /// the stop of the old one. Default: no. A port in use is then an error. The cores of one server always share its
    /// ports. Other systems than Linux never share a port.
    ///
    /// A program without this crate can share the port even without this setting, if it runs as the same user and sets
    /// `SO_REUSEPORT`.
    ///
    /// Linux resets connections whose handshake is completed during the close of the older server's sockets (5 of
    /// 142,000 in a test). With `sysctl net.ipv4.tcp_migrate_req=1` (Linux 5.14) Linux gives them to the newer one, and
    /// no peer is turned away. With the feature `handover`, `Server::handover` needs no such setting.
    pub fn reuse_port(mut self, reuse_port: bool) -> Server {
        self.launch.listen.reuse_port = reuse_port;
        self
    }

    /// Sets the mode of the files of Unix sockets, such as `0o660`. A process that may write to the file may connect. A
    /// proxy in front often runs as another user, which the umask keeps out. `0o660` lets it in if both are in the same
    /// group. By default, the umask determines the mode.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// use corehttp::{Context, Server};
    ///
    /// fn main() -> corehttp::Result {
    ///     Server::bind("unix:/run/app.sock")
    ///         .unix_mode(0o660)
    ///         .run(|ctx: &mut Context| ctx.response.set_text("Hello, World!"))
    /// }
    /// ```
    #[cfg(unix)]
    pub fn unix_mode(mut self, mode: u32) -> Server {
        self.launch.listen.unix_mode = Some(mode);
        self
    }

    /// Sets how many connections of each listener may wait in the operating system to be accepted. Default: 4,096.
    pub fn backlog(mut self, backlog: u16) -> Server {
        self.launch.listen.backlog = backlog.into();
        self
    }

    /// Sets the silence of a TCP peer after which the operating system probes it, and the pause between probes. After
    /// several unanswered probes in a row (nine on Linux), the connection fails.
    ///
    /// Use it for connections that may be silent for long. An [upgraded](crate::Context::upgrade) connection has no
    /// other time limit. Default: no probes (RFC 9293 §3.8.4). Counted in whole seconds, clamped to between 1 and
    /// 32,767.
    pub fn tcp_keepalive(mut self, silence: impl Into<Option<Duration>>) -> Server {
        self.launch.listen.keepalive = silence.into().map(Keepalive::new);
        self
    }

    /// Sets options of the TCP sockets. Default: those of the operating system.
    pub fn socket_options(mut self, socket_options: SocketOptions) -> Server {
        self.launch.listen.socket_options = socket_options;
        self
    }

    /// Sets a function that is called with each TCP socket before the bind, for options beyond [`SocketOptions`]. For a
    /// socket that is already bound, the call comes before the listen. On Linux, accepted sockets inherit most options.
    /// Default: none. If the function fails, [`Server::run`] fails with its error.
    ///
    /// # Examples
    ///
    /// The crate socket2 has functions for many options, and the crate nix a macro for others, such as the two of nginx's
    /// `deferred` and `fastopen`. For a socket of systemd, `DeferAcceptSec=` sets the first one.
    ///
    /// ```no_run
    /// # #[cfg(target_os = "linux")]
    /// # mod linux {
    /// use corehttp::{Context, Server};
    /// use nix::sys::socket::SetSockOpt;
    /// use nix::{setsockopt_impl, sockopt_impl};
    /// use socket2::SockRef;
    ///
    /// sockopt_impl!(DeferAccept, SetOnly, libc::IPPROTO_TCP, libc::TCP_DEFER_ACCEPT, u32);
    /// sockopt_impl!(FastOpen, SetOnly, libc::IPPROTO_TCP, libc::TCP_FASTOPEN, u32);
    ///
    /// fn main() -> corehttp::Result {
    ///     Server::bind("[::]:8080")
    ///         .on_listen(|socket| {
    ///             DeferAccept.set(&socket, &10)?; // seconds that a connection may be silent before it is accepted
    ///             FastOpen.set(&socket, &256)?; // connections that wait
    ///             SockRef::from(&socket).set_tcp_congestion(b"bbr")
    ///         })
    ///         .run(|ctx: &mut Context| ctx.response.set_text("Hello, World!"))
    /// }
    /// # }
    /// ```
    #[cfg(unix)]
    #[doc(alias("setsockopt", "TCP_DEFER_ACCEPT", "TCP_FASTOPEN"))]
    pub fn on_listen(
        mut self,
        on_listen: impl Fn(BorrowedFd<'_>) -> io::Result<()> + Send + Sync + 'static,
    ) -> Server {
        self.launch.listen.on_listen = Some(ListenFn(Arc::new(on_listen)));
        self
    }

    /// Sets the `server` field of final responses without one (RFC 9110 §10.2.4). Default: none, as with an empty name.
    ///
    /// # Errors
    ///
    /// Fails if `name` is not a valid field value.
    pub fn name(mut self, name: &str) -> Result<Server, MessageError> {
        Headers::new().set("server", name)?;
        self.settings.name = Some(name.trim()).filter(|name| !name.is_empty()).map(Arc::from);
        Ok(self)
    }

    /// Sets the bounds on what peers may send. Default: those of [`Limits`].
    pub fn limits(mut self, limits: Limits) -> Server {
        self.settings.bounds.limits = limits.capped();
        self
    }

    /// Sets the bounds on how long peers may take. Default: those of [`Timeouts`], all in force except the handler's.
    pub fn timeouts(mut self, timeouts: Timeouts) -> Server {
        self.settings.bounds.timeouts = timeouts;
        self
    }

    /// Sets the proxies in front of the server, whose fields about their clients are believed. Default:
    /// [none](TrustedProxies::default). The peer is then the client. One setting is for all uses of the client's
    /// address, scheme and host:
    ///
    /// - [`Context::client_ip`](crate::Context::client_ip) and [`Context::forwarded`](crate::Context::forwarded), and
    ///   [`Context::set_forwarded`](crate::Context::set_forwarded) of gateways
    /// - [`ExchangeReport::client_ip`](crate::server::ExchangeReport::client_ip), and so the access log
    /// - [`RateLimit`](crate::middleware::RateLimit), [`HttpsRedirect`](crate::middleware::HttpsRedirect) and
    ///   [`CrossOriginProtection`](crate::middleware::CrossOriginProtection)
    /// - `Origins` of WebSockets, and `Tracing`
    ///
    /// The address in a PROXY header is the [`Context::peer_addr`](crate::Context::peer_addr). The fields of the request
    /// are believed only if this is the address of a proxy.
    ///
    /// # Examples
    ///
    /// ```
    /// use corehttp::{Context, Request, Server, TrustedProxies};
    ///
    /// let proxies = TrustedProxies::new(["10.0.0.0/8"])?;
    /// let service = Server::new().trusted_proxies(proxies).service(|ctx: &mut Context| {
    ///     ctx.response.set_text(format!("Hello, {:?}!", ctx.client_ip()));
    /// });
    /// let mut request = Request::get("/")?;
    /// request.headers.set("x-forwarded-for", "192.0.2.1")?;
    /// let balancer = std::net::SocketAddr::from(([10, 0, 0, 1], 50_000)).into();
    /// let response = corehttp::block_on(service.respond_from(balancer, request))?;
    /// assert_eq!(response.text()?, "Hello, Some(192.0.2.1)!");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[doc(alias("realip", "set_real_ip_from", "trust proxy", "ProxyFix", "ForwardedHeaders"))]
    pub fn trusted_proxies(mut self, proxies: TrustedProxies) -> Server {
        self.settings.proxies.trusted = proxies;
        self
    }

    /// Sets whether peers may close their sending half after a request and still get the response (RFC 9112 §9.6).
    /// `nc -N`, some health checks, and scripts do so. Default: no, as in hyper and in nginx as a proxy.
    ///
    /// A close of the whole connection looks the same until something is sent. By default, the close drops a waiting
    /// handler, or the waiting source of a [stream](crate::Body::set_stream). The connection is then closed without the
    /// rest of a response. The access log has such a request with the status 499, and as JSON with `"cut":"peer"`. With
    /// `true`, only a reset drops a handler or a source. After a close, the work goes on until a write fails.
    ///
    /// A close is seen even after unread content. With more unread octets than the system keeps for the socket, on Linux
    /// some 128 KiB (`net.ipv4.tcp_rmem`), the peer's system holds the close back. A handler that does not read then runs
    /// on. A gateway whose server behind takes nothing gives up after
    /// [`ClientTimeouts::send`](crate::client::ClientTimeouts::send). A reset is always seen.
    ///
    /// Either way a handler that does not wait runs to its end. Its response is sent, even to a peer that has closed
    /// its sending half. So is a file, however long the disk takes. Work of this crate is no wait of the handler, such
    /// as looking for a file, coding content, saving parts of a form, or a [health check](crate::health). An overloaded
    /// core looks for a close first, and calls no handler after one.
    ///
    /// A handler that must end, such as a payment, is [`uncancelled`](crate::middleware::uncancelled).
    pub fn half_close(mut self, half_close: bool) -> Server {
        self.settings.bounds.cancel = if half_close { Cancel::OnReset } else { Cancel::OnClose };
        self
    }

    /// Sets a function that makes the content of error responses. The ready-made
    /// [`problem_details`](crate::server::problem_details) sends JSON, and a page to browsers.
    /// [`error_page`](crate::server::error_page) sends a page, and JSON to clients that prefer it. Without a function,
    /// the content is one of these:
    ///
    /// - a [`Problem`](crate::Problem) that the handler has failed with
    /// - the fault of the request, as [`Error`](crate::Error) has it
    /// - otherwise the [reason](crate::Status::reason) of the status, as text
    ///
    /// Error responses go to:
    ///
    /// - a request that is malformed, too large or too late
    /// - a connection beyond a limit of connections
    /// - a request that [`BodyPlan::Refuse`](crate::BodyPlan::Refuse) refuses
    /// - a request whose handler fails with an [`Error`](crate::Error), panics, or takes too long
    ///
    /// A response that a handler leaves with `Ok` is its own, whatever its status.
    ///
    /// The function gets a report and the response. The report has a [`status`](ErrorReport::status) always, and a
    /// `request` after a valid head. The response has the status, the default content, and fields such as `allow`,
    /// `retry-after` and those of middleware. The function may change the content and the fields. The cause may contain
    /// secrets, and text of the peer. Show the peer at most the cause of a 4xx, with escapes.
    ///
    /// The function cannot break the connection. The status stays, because logs and middleware have seen it. The fields
    /// of the framing are computed, and trailers are left out. A response to HEAD has the length of the content, and
    /// not the content. In place of a stream, or after a panic of the function, the default content is sent. The panic
    /// goes to [`Server::on_error`] in a second report, of [`ErrorCause::Panic`](crate::server::ErrorCause::Panic).
    ///
    /// # Examples
    ///
    /// ```
    /// use corehttp::{Context, Request, Server, Status};
    ///
    /// let server = Server::new().error_response(|report, response| {
    ///     let page = format!("<!doctype html><title>Sorry</title><h1>{}</h1>", response.status);
    ///     if report.status != Some(Status::UNAUTHORIZED) {
    ///         response.set_html(page);
    ///     }
    /// });
    /// let service = server.service(|_: &mut Context| Err(Status::NOT_FOUND.into()));
    /// let response = corehttp::block_on(service.respond(Request::get("/none")?))?;
    /// assert_eq!(response.status, Status::NOT_FOUND);
    /// assert!(response.text()?.ends_with("<h1>404 Not Found</h1>"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[doc(alias("ErrorHandler", "error_page", "fallback", "catchers"))]
    pub fn error_response(
        mut self,
        error_response: impl Fn(&ErrorReport<'_>, &mut Response) + Send + Sync + 'static,
    ) -> Server {
        self.settings.error_responses.function = Some(Arc::new(error_response));
        self
    }

    /// Stops the server when `signal` completes, like [`ServerHandle::stop`] with `grace`. A failure or a panic of the
    /// signal stops it, too. [`ServerHandle::wait`] then fails. Default: no signal.
    ///
    /// A core polls the signal, in its tokio runtime. [`shutdown_signal`](crate::shutdown_signal) waits for Ctrl-C and
    /// for SIGTERM. Service managers send SIGTERM before they kill a process.
    ///
    /// The signal stops this server alone. A program that waits for something else goes on. Ctrl-C no longer ends it.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// use std::time::Duration;
    /// use corehttp::{Context, Server, shutdown_signal};
    ///
    /// fn main() -> corehttp::Result {
    ///     Server::bind("[::]:8080")
    ///         .stop_on(shutdown_signal(), Duration::from_secs(10))
    ///         .run(|ctx: &mut Context| ctx.response.set_text("Hello, World!"))
    /// }
    /// ```
    #[doc(alias = "with_graceful_shutdown")]
    pub fn stop_on(
        mut self,
        signal: impl Future<Output: IntoIoResult> + Send + 'static,
        grace: Duration,
    ) -> Server {
        self.launch.stop_on = Some((Box::pin(async { signal.await.into_result() }), grace));
        self
    }

    /// Sets how long the server goes on accepting connections after the order to stop. Default: not at all.
    ///
    /// Meanwhile [`Health::ready`](crate::health::Health::ready) refuses, and
    /// [`Context::is_stop_ordered`](crate::Context::is_stop_ordered) is true. Each response is the last one of its
    /// connection, with `connection: close`. So load balancers send new requests elsewhere before the first connection
    /// is refused. With Kubernetes, a delay of about twice the period of its probes takes the place of a `preStop` hook
    /// that sleeps.
    ///
    /// The delay is a part of the grace period of the stop, and no longer than that. A stop with a grace of zero has
    /// none.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// use std::time::Duration;
    /// use corehttp::{Context, Server, shutdown_signal};
    ///
    /// fn main() -> corehttp::Result {
    ///     Server::bind("[::]:8080")
    ///         .stop_delay(Duration::from_secs(5))
    ///         .stop_on(shutdown_signal(), Duration::from_secs(25))
    ///         .run(|ctx: &mut Context| ctx.response.set_text("Hello, World!"))
    /// }
    /// ```
    #[doc(alias("lame duck", "preStop", "drain"))]
    pub fn stop_delay(mut self, delay: Duration) -> Server {
        self.launch.stop_delay = delay;
        self
    }

    /// Serves until the server is stopped, with one handler for all cores. Blocks, as [`ServerHandle::wait`] does.
    ///
    /// The cores share the handler, which must be [`Send`] and [`Sync`]. Its future need not be. For a handler that is
    /// not, use [`Server::run_per_core`].
    ///
    /// # Errors
    ///
    /// Fails without an address, after a failure of a thread or a listener, or for an address that cannot be bound. The
    /// error names that address.
    #[doc(alias("serve", "listen_and_serve"))]
    pub fn run<Kind, H>(self, handler: H) -> Result
    where
        H: IntoHandler<Kind>,
        H::Handler: Send + Sync,
    {
        self.start(handler)?.wait()
    }

    /// Starts the server with one handler for all cores. Returns once all of them listen.
    ///
    /// The server makes its own runtimes. So the call may be made on any thread, even from `async` code.
    ///
    /// # Errors
    ///
    /// As [`Server::run`]. No thread is then left behind.
    pub fn start<Kind, H>(self, handler: H) -> Result<ServerHandle>
    where
        H: IntoHandler<Kind>,
        H::Handler: Send + Sync,
    {
        let handler = Arc::new(handler.into_handler());
        self.start_per_core(async move |_| Ok(handler.clone()))
    }

    /// Serves until the server is stopped, with a handler of its own for each core.
    ///
    /// `make` is called once on each core, in the core's runtime. So the state of a handler need not be [`Send`], and
    /// needs no locks. On a shared port, the server listens once all handlers are made.
    ///
    /// # Errors
    ///
    /// As [`Server::run`], or with the error of `make`. Handlers still being made for the other cores are then dropped.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// use std::cell::Cell;
    /// use corehttp::{Context, Server};
    ///
    /// # fn main() -> corehttp::Result {
    /// Server::bind("127.0.0.1:8080").run_per_core(async |core| {
    ///     let hits = Cell::new(0u64);
    ///     Ok(move |ctx: &mut Context| {
    ///         hits.set(hits.get() + 1);
    ///         ctx.response.set_text(format!("request {} of core {}", hits.get(), core.index()));
    ///     })
    /// })
    /// # }
    /// ```
    ///
    /// A pool of database connections for each core, as they belong to the runtime that opened them:
    ///
    /// ```no_run
    /// use corehttp::{Context, Server};
    ///
    /// # mod database {
    /// #     pub struct Pool;
    /// #     impl Pool {
    /// #         pub async fn connect(_: &str) -> std::io::Result<Pool> { Ok(Pool) }
    /// #         pub async fn count(&self, _: &str) -> std::io::Result<u64> { Ok(0) }
    /// #     }
    /// # }
    /// # fn main() -> corehttp::Result {
    /// Server::bind("127.0.0.1:8080").run_per_core(async |_| {
    ///     let pool = database::Pool::connect("postgres://localhost/shop").await?;
    ///     Ok(async move |ctx: &mut Context| -> corehttp::Result {
    ///         let orders = pool.count("orders").await?;
    ///         ctx.response.set_text(orders.to_string());
    ///         Ok(())
    ///     })
    /// })
    /// # }
    /// ```
    pub fn run_per_core<F, Kind, H>(self, make: F) -> Result
    where
        F: AsyncFn(ServerCore) -> Result<H> + Send + Sync + 'static,
        H: IntoHandler<Kind>,
    {
        self.start_per_core(make)?.wait()
    }

    /// Starts the server with a handler of its own for each core. Returns once all of them listen. See
    /// [`Server::run_per_core`].
    ///
    /// # Errors
    ///
    /// As [`Server::run_per_core`]. If it fails, no thread is left behind.
    pub fn start_per_core<F, Kind, H>(self, make: F) -> Result<ServerHandle>
    where
        F: AsyncFn(ServerCore) -> Result<H> + Send + Sync + 'static,
        H: IntoHandler<Kind>,
    {
        launch(self.launch, self.settings, make)
    }

    /// Makes a [`Service`]: a handler with this server's settings, for connections that you accept yourself.
    ///
    /// The number of connections, and their end, are then yours to decide. Settings for listening, for cores and for
    /// the stop have no effect, nor do [`Limits::connections_max`] and [`Limits::connections_per_peer_max`].
    pub fn service<Kind, H: IntoHandler<Kind>>(self, handler: H) -> Service<H::Handler> {
        Service::new(handler.into_handler(), &self.settings.with_memory())
    }
}

impl Default for Server {
    fn default() -> Server {
        Server::new()
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server")
            .field("addresses", &self.launch.addresses.iter().map(|(address, _)| address).collect::<Vec<_>>())
            .field("cores", &self.launch.cores)
            .field("bounds", &self.settings.bounds)
            .finish_non_exhaustive()
    }
}
