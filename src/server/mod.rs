//! Floor 4: the server. A connection is one short loop; a handler gets a [`Context`] and nothing else.
//!
//! In reading order: a server and what it shares; a core; a connection; an exchange, as its handler sees it; handlers;
//! and what goes wrong.

mod launch;
mod running;
mod service;
mod settings;
mod shared;
mod stats;

mod inlet;
mod worker;

mod connection;

mod context;
#[cfg(feature = "tls")]
mod tls;

mod handler;

mod error;

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

pub use context::{Context, Course, Extensions, Reader, Transform, Upgraded, Writer};
pub use error::{Error, InvalidAnswer, Refusal, RefusalCause, Result};
pub use handler::{
    AsyncHandler, BodyPlan, BoxHandler, Handler, IntoHandler, Outcome, PlainHandler, WithPlan, with_plan,
};
pub use launch::ServerCore;
pub use running::Running;
pub use service::Service;
pub use stats::{ErrorCounts, ServerCounts, ServerStats};

use self::settings::Settings;
use crate::exchange::Timeouts;
use crate::message::Headers;
use crate::net::{Address, Keepalive, ListenOptions};
use crate::runtime::{self, Pinning};
use crate::wire::Limits;

/// A server to be started: where it listens, on how many cores, and within which limits.
///
/// | it ends with | which |
/// |---|---|
/// | [`Server::run`] | serves until the server is stopped, and blocks this thread meanwhile |
/// | [`Server::start`] | returns once all cores listen; the [`Running`] stops them |
/// | [`Server::run_per_core`], [`Server::start_per_core`] | do the same with a handler for each core |
/// | [`Server::service`] | serves what comes from elsewhere: connections of your own runtime, requests of a test |
///
/// # Examples
///
/// ```no_run
/// use std::time::Duration;
/// use corehttp::{Context, Limits, Server, Timeouts};
///
/// fn main() -> corehttp::Result {
///     Server::bind("[::]:8080")
///         .limits(Limits { body_max: 64 << 20, ..Limits::default() })
///         .timeouts(Timeouts { idle: Duration::from_secs(30), ..Timeouts::default() })
///         .on_error(|refusal| eprintln!("{refusal}"))
///         .run(|ctx: &mut Context| ctx.response.text("Hello, World!"))
/// }
/// ```
#[must_use]
pub struct Server {
    addresses: Vec<Address>,
    cores: usize,
    pinning: Pinning,
    balanced: bool,
    listen: ListenOptions,
    settings: Settings,
    on_stop: Option<(Signal, Duration)>,
}

/// Ready when the server is to stop.
type Signal = Pin<Box<dyn Future<Output = ()> + Send>>;

impl Server {
    /// A server that listens nowhere yet: for [`Server::service`], or for [`Server::and_bind`]. It is an error to start
    /// it without an address.
    pub fn new() -> Server {
        Server {
            addresses: Vec::new(),
            cores: runtime::available_cores().min(CORES_MAX),
            pinning: Pinning::default(),
            balanced: false,
            listen: ListenOptions::default(),
            settings: Settings::default(),
            on_stop: None,
        }
    }

    /// Will listen on `address`: `"127.0.0.1:8080"`, `"[::]:8080"` for IPv6 and IPv4, `"localhost:8080"`,
    /// `"unix:/run/app.sock"`, a `SocketAddr`, a path, a listener of the standard library's that is open already, or a
    /// [`MemoryListener`](crate::MemoryListener).
    ///
    /// Another server may listen on the same TCP port: it gets a part of the connections, and all of them once this
    /// one stops. See [`Server::share_port`].
    pub fn bind(address: impl Into<Address>) -> Server {
        Server::new().and_bind(address)
    }

    /// Will listen on `address` too.
    pub fn and_bind(mut self, address: impl Into<Address>) -> Server {
        self.addresses.push(address.into());
        self
    }

    /// How many cores serve, each with a thread of its own. Default: all that the process may use. At least 1, and at
    /// most 1,024: more count as that.
    #[doc(alias = "workers")]
    pub fn cores(mut self, cores: usize) -> Server {
        self.cores = cores.clamp(1, CORES_MAX);
        self
    }

    /// Whether each thread stays on one core of the machine. Default: no.
    pub fn pinned(mut self, pinned: bool) -> Server {
        self.pinning = if pinned { Pinning::Pinned } else { Pinning::Free };
        self
    }

    /// Whether one core accepts for all and gives each connection to the core that has the fewest. Default: no,
    /// where the system spreads connections itself.
    ///
    /// The system spreads by chance, and a few connections that live long may then share one core while another
    /// has none. It costs each connection some microseconds once.
    pub fn balanced(mut self, balanced: bool) -> Server {
        self.balanced = balanced;
        self
    }

    /// Whether `[::]` takes IPv4 peers as well. Default: yes.
    pub fn dual_stack(mut self, dual_stack: bool) -> Server {
        self.listen.dual_stack = dual_stack;
        self
    }

    /// Whether somebody else may listen on the same TCP port already, so that this server can take over from an older one
    /// and nobody is turned away. If not, a port where somebody listens is an error. Default: yes, on Linux; elsewhere no
    /// two can.
    #[doc(alias = "reuse_port")]
    pub fn share_port(mut self, share_port: bool) -> Server {
        self.listen.share_port = share_port;
        self
    }

    /// How many connections may wait in the system to be accepted, for each listener. Default: 4,096.
    pub fn backlog(mut self, backlog: u16) -> Server {
        self.listen.backlog = backlog.into();
        self
    }

    /// After how much silence the system asks whether a TCP peer is still there, and how often it asks again. One that
    /// answers none of several times, nine on Linux, is gone, and its connection fails. Meant for connections that may
    /// be silent for long: an [upgraded](Context::upgrade) one has no other limit. Default: never (RFC 9293 §3.8.4). In
    /// whole seconds, from 1 to 32,767: less and more count as these.
    pub fn tcp_keepalive(mut self, silence: impl Into<Option<Duration>>) -> Server {
        self.listen.keepalive = silence.into().map(Keepalive::every);
        self
    }

    /// The `server` field of all answers (RFC 9110 §10.2.4). Default: none.
    ///
    /// # Panics
    ///
    /// A name that could not stand in a field.
    pub fn name(mut self, name: &str) -> Server {
        Headers::new().set("server", name).expect("a server's name can stand in a field");
        self.settings.name = Some(Arc::from(name.trim()));
        self
    }

    /// The bounds on what peers send. Default: those of [`Limits`], all of them.
    pub fn limits(mut self, limits: Limits) -> Server {
        self.settings.bounds.limits = limits.capped();
        self
    }

    /// The bounds on how long peers take. Default: those of [`Timeouts`], all but the one of the handler.
    pub fn timeouts(mut self, timeouts: Timeouts) -> Server {
        self.settings.bounds.timeouts = timeouts;
        self
    }

    /// Is called with every refusal and every exchange that failed, except where a handler fails with a bare
    /// [`Status`](crate::Status), which is an answer like any other. It runs on the core where that happened, so it
    /// should be quick. Default: nothing is called.
    pub fn on_error(mut self, on_error: impl Fn(&Refusal<'_>) + Send + Sync + 'static) -> Server {
        self.settings.on_error = Some(Arc::new(on_error));
        self
    }

    /// Stops when `signal` is ready, as [`Running::shutdown`] does with `grace`. The signal is polled on a core, so it
    /// may await anything that needs a runtime. Default: the server runs until the process ends.
    ///
    /// # Examples
    ///
    /// At SIGTERM, which comes before a system kills:
    ///
    /// ```no_run
    /// # #[cfg(unix)]
    /// fn main() -> corehttp::Result {
    ///     use std::time::Duration;
    ///     use corehttp::{Context, Server};
    ///     use tokio::signal::unix::{SignalKind, signal};
    ///
    ///     let terminated = async {
    ///         match signal(SignalKind::terminate()) {
    ///             Ok(mut signals) => _ = signals.recv().await,
    ///             Err(_) => std::future::pending().await, // it cannot be heard
    ///         }
    ///     };
    ///     Server::bind("[::]:8080")
    ///         .on_stop(terminated, Duration::from_secs(10))
    ///         .run(|ctx: &mut Context| ctx.response.text("Hello, World!"))
    /// }
    /// # #[cfg(not(unix))]
    /// # fn main() {}
    /// ```
    #[doc(alias = "with_graceful_shutdown")]
    pub fn on_stop(mut self, signal: impl Future<Output = ()> + Send + 'static, grace: Duration) -> Server {
        self.on_stop = Some((Box::pin(signal), grace));
        self
    }

    /// Serves with one handler for all cores, until it is stopped. It is shared, so it must be [`Send`] and [`Sync`];
    /// its future need not be. For state that is neither there is [`Server::run_per_core`].
    ///
    /// # Errors
    ///
    /// No address; one that cannot be bound, which it names; a thread or a listener that fails.
    #[doc(alias("serve", "listen_and_serve"))]
    pub fn run<Kind, H>(self, handler: H) -> Result
    where
        H: IntoHandler<Kind>,
        H::Handler: Send + Sync,
    {
        self.start(handler)?.wait()
    }

    /// Starts to serve with one handler for all cores. All of them listen when it returns.
    ///
    /// # Errors
    ///
    /// As [`Server::run`]; no thread is left behind then.
    pub fn start<Kind, H>(self, handler: H) -> Result<Running>
    where
        H: IntoHandler<Kind>,
        H::Handler: Send + Sync,
    {
        let handler = Arc::new(handler.into_handler());
        self.start_per_core(async move |_| Ok(handler.clone()))
    }

    /// Serves with a handler for each core, which `make` makes in the core's own runtime: its state need not be
    /// [`Send`], and needs no locks.
    ///
    /// # Errors
    ///
    /// As [`Server::run`], and what `make` fails with.
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
    ///         ctx.response.text(format!("core {} was asked {} times", core.index(), hits.get()));
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

    /// Starts to serve with a handler for each core. See [`Server::run_per_core`].
    ///
    /// # Errors
    ///
    /// As [`Server::run_per_core`]; no thread is left behind then.
    pub fn start_per_core<F, Kind, H>(self, make: F) -> Result<Running>
    where
        F: AsyncFn(ServerCore) -> Result<H> + Send + Sync + 'static,
        H: IntoHandler<Kind>,
    {
        launch::launch(self, make)
    }

    /// A handler with this server's settings, for connections that come from elsewhere.
    pub fn service<Kind, H: IntoHandler<Kind>>(self, handler: H) -> Service<H::Handler> {
        Service::new(handler.into_handler(), &self.settings)
    }
}

/// What is made for each core is made before the first one starts.
const CORES_MAX: usize = 1024;

impl Default for Server {
    fn default() -> Server {
        Server::new()
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server")
            .field("addresses", &self.addresses)
            .field("cores", &self.cores)
            .field("bounds", &self.settings.bounds)
            .finish_non_exhaustive()
    }
}
