//! [`ServerHandle`]: a server at work.

use std::fmt;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle, ThreadId};
use std::time::Duration;

use tokio::sync::watch;

use super::stop::Stop;
use super::systemd::Notifier;
use crate::memory::lock;
use crate::message::{Scheme, Status};
use crate::net::Address;
use crate::runtime;
use crate::server::counts::{CoreCounterSet, ServerCounts};
use crate::server::error::{Error, Result};

/// A server that has started, to be inspected, stopped and waited for from any thread.
///
/// `{}` formats the addresses: for TCP as a URL with `http`, or with `https` if connections are secure, such as
/// `http://127.0.0.1:8080`. Others are written as the address, such as `unix:/run/app.sock`. Several are separated by
/// commas. Clones refer to the same server. Dropping all of them does not stop it.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use corehttp::{Context, Server};
///
/// # fn main() -> corehttp::Result {
/// let running = Server::bind("127.0.0.1:0").start(|ctx: &mut Context| ctx.response.set_text("hi"))?;
/// println!("listening on {running}");
/// assert_eq!(running.to_string(), format!("http://{}", running.local_addr()));
/// running.stop(Duration::from_secs(10));
/// running.wait()?;
/// assert_eq!(running.counts().total.open, 0);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct ServerHandle {
    inner: Arc<HandleInner>,
}

struct HandleInner {
    addresses: Vec<Address>,
    /// The schemes of their URLs, in the same order.
    schemes: Vec<Scheme>,
    stop: watch::Sender<Option<Stop>>,
    /// How long connections are accepted after a stop was ordered.
    stop_delay: Duration,
    counters: Vec<Arc<CoreCounterSet>>,
    notifier: Option<Notifier>,
    threads: Mutex<Vec<Thread>>,
    /// The threads of the cores, which cannot wait for themselves.
    thread_ids: Mutex<Vec<ThreadId>>,
}

/// An address, and the scheme of its URL.
pub(super) type ListenedAddress = (Address, Scheme);

/// The thread of one core.
type Thread = JoinHandle<io::Result<io::Result<()>>>;

impl ServerHandle {
    pub(super) fn new(
        addresses: Vec<ListenedAddress>,
        stop_delay: Duration,
        counters: Vec<Arc<CoreCounterSet>>,
        notifier: Option<Notifier>,
    ) -> ServerHandle {
        let (addresses, schemes) = addresses.into_iter().unzip();
        let stop = watch::Sender::new(None);
        let threads = Mutex::default();
        let thread_ids = Mutex::default();
        let inner =
            HandleInner { addresses, schemes, stop, stop_delay, counters, notifier, threads, thread_ids };
        ServerHandle { inner: Arc::new(inner) }
    }

    /// Adds a core that has started.
    pub(super) fn add(&self, thread: Thread) {
        lock(&self.inner.thread_ids).push(thread.thread().id());
        lock(&self.inner.threads).push(thread);
    }

    /// Returns a receiver of the order to stop.
    pub(super) fn stop_signal(&self) -> watch::Receiver<Option<Stop>> {
        self.inner.stop.subscribe()
    }

    /// Returns a guard that stops the server when it is dropped.
    pub(super) fn stop_on_drop(&self, grace: Duration) -> StopOnDrop {
        StopOnDrop { running: self.clone(), grace }
    }

    /// Returns the first TCP address of the server. A port of 0 is replaced by the port that the system chose. Returns
    /// `0.0.0.0:0` if the server listens on no TCP address.
    pub fn local_addr(&self) -> SocketAddr {
        let tcp = self.inner.addresses.iter().find_map(|address| match address {
            Address::Tcp(address) => Some(*address),
            _ => None,
        });
        tcp.unwrap_or((Ipv4Addr::UNSPECIFIED, 0).into())
    }

    /// Returns all addresses of the server, except listeners in memory and Unix sockets without a path, which have no
    /// address.
    pub fn addresses(&self) -> &[Address] {
        &self.inner.addresses
    }

    /// Stops the server gracefully. The server accepts no more connections, closes idle ones, and sends
    /// `connection: close` on the others. After `grace` the rest is cut. During a
    /// [`Server::stop_delay`](crate::Server::stop_delay), the server goes on accepting connections, and only sends
    /// `connection: close`.
    ///
    /// Arrived requests are answered. Silent connections are closed at once. A connection has a tenth of a second after
    /// a response for the next request of a busy client. A new one has a second from its opening. A request that arrives
    /// on a closed connection is not answered. Clients such as [`Client`](crate::Client) send it again if a repetition
    /// is safe (RFC 9112 §9.3.1). Otherwise, as with a POST, they report an error.
    ///
    /// The server does not wait for tasks that handlers have started. They are dropped when no core has connections
    /// left. Work that must be finished belongs in the handler, or in a runtime of your own, through its
    /// `tokio::runtime::Handle`. Work of `tokio::task::spawn_blocking` cannot be dropped. It has time until the end of
    /// `grace`, and a tenth of a second at least. After that the server ends without it. The work goes on with the
    /// process.
    ///
    /// Returns at once. To wait for the end, use [`ServerHandle::wait`]. A later call can shorten the grace period, but
    /// not extend it.
    #[doc(alias = "shutdown", alias = "graceful_shutdown")]
    pub fn stop(&self, grace: Duration) {
        self.stop_service(grace, Later::Shortens);
    }

    /// Stops the server as [`ServerHandle::stop`] does, but accepts nothing more, since another process does. The
    /// service goes on, so its manager learns of no stop.
    #[allow(dead_code, reason = "unused without the feature `handover`")]
    pub(super) fn stop_for_successor(&self, grace: Duration) {
        if let Some(notifier) = &self.inner.notifier {
            notifier.retire();
        }
        self.order_stop(Duration::ZERO, grace, Later::Shortens);
    }

    /// Orders the server to stop. Returns whether this order is the first one.
    fn order_stop(&self, delay: Duration, grace: Duration, later: Later) -> bool {
        let now = runtime::now();
        let (cut_at, close_at) = (runtime::later(now, grace), runtime::later(now, delay));
        let mut is_first = false;
        self.inner.stop.send_if_modified(|stop| {
            is_first = stop.is_none();
            let close_at = match (*stop, later) {
                (None, _) => close_at,
                (Some(stop), Later::Shortens) if cut_at < stop.cut_at => stop.close_at,
                (Some(_), Later::Shortens | Later::Ignored) => return false,
            };
            *stop = Some(Stop { close_at: close_at.min(cut_at), cut_at });
            true
        });
        is_first
    }

    /// Orders a stop after which no process serves, so the manager learns of it.
    fn stop_service(&self, grace: Duration, later: Later) {
        if self.order_stop(self.inner.stop_delay, grace, later)
            && let Some(notifier) = &self.inner.notifier
        {
            notifier.stopping();
        }
    }

    /// Returns whether a stop has been ordered, also during its [`stop_delay`](crate::Server::stop_delay) and after its
    /// end.
    pub fn is_stop_ordered(&self) -> bool {
        self.inner.stop.borrow().is_some()
    }

    /// Waits until all cores have stopped. Any number of threads may wait.
    ///
    /// The call blocks the thread. So a task of another runtime waits with
    /// `tokio::task::spawn_blocking(move || running.wait()).await`. On a core of this server, such a wait lasts to the
    /// end of the grace period, because the core waits for blocking work.
    ///
    /// # Errors
    ///
    /// Fails if a core could not go on, for instance after the final failure of a listener. Also fails after a
    /// failure of the signal of [`Server::stop_on`](crate::Server::stop_on). The whole server then stops, with the grace
    /// period of that signal, or 10 seconds. Only one caller gets the error. The others get `Ok`.
    ///
    /// # Panics
    ///
    /// Panics on the thread of one of the server's cores, which would wait for itself.
    pub fn wait(&self) -> Result {
        let is_own = lock(&self.inner.thread_ids).contains(&thread::current().id());
        assert!(!is_own, "a core of a server cannot wait for it");
        let mut threads = lock(&self.inner.threads);
        let mut result = Ok(());
        for core in threads.drain(..) {
            match core.join() {
                Ok(served) => result = result.and(served.flatten().map_err(Error::from)),
                Err(_) => result = Err(Error::new(Status::INTERNAL_SERVER_ERROR, "a core panicked")),
            }
        }
        result
    }

    /// Returns the counts of the server so far.
    pub fn counts(&self) -> ServerCounts {
        ServerCounts::from_cores(&self.inner.counters)
    }
}

/// The effect of an order to stop on a server that is stopping already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Later {
    /// The order shortens the grace, and never extends it.
    Shortens,
    Ignored,
}

/// Held by a core while it accepts connections, and by the task that awaits a signal to stop. Dropping it stops the
/// server, unless it was stopped before. A core that fails must not end alone: its share of the peers would not be
/// served, and the error would not be reported.
pub(super) struct StopOnDrop {
    running: ServerHandle,
    pub(super) grace: Duration,
}

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.running.stop_service(self.grace, Later::Ignored);
    }
}

impl fmt::Display for ServerHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let HandleInner { addresses, schemes, .. } = &*self.inner;
        for (index, (address, scheme)) in addresses.iter().zip(schemes).enumerate() {
            f.write_str(if index > 0 { ", " } else { "" })?;
            match address {
                Address::Tcp(address) => write!(f, "{}://{address}", scheme.as_str())?,
                other => other.fmt(f)?,
            }
        }
        if addresses.is_empty() { f.write_str("no address") } else { Ok(()) }
    }
}

impl fmt::Debug for ServerHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerHandle").field("addresses", &self.inner.addresses).finish_non_exhaustive()
    }
}
