//! Floor 4: the client. A [`Pool`] holds the connections to one origin, and a [`PooledConn`] is one of them with
//! one exchange on it.
//!
//! In reading order: origins; connections, and the way to an origin; one exchange; what surrounds it; what callers get;
//! several hosts, and many requests at once; errors and settings.

mod origin;

mod connect;
mod pool;
mod route;
mod tls_handshake;

mod exchange;

mod ask;
mod cookie_exchange;
mod cookie_store;
mod redirect;

mod call;
mod host;
mod outcome_recorder;
mod response_reader;
mod upgraded;

mod balance;
mod pipeline;

mod cause;
mod error;
mod settings;

use std::fmt;
use std::sync::{Arc, RwLock};
use std::time::Duration;

pub use balance::{Balancer, BalancerBuilder, HostChoice, HostCounts};
pub use call::{Call, CallReader, CallWriter};
pub use cause::{ClientCause, ClientPhase};
pub use cookie_store::CookieStore;
pub use error::ClientError;
pub use host::Host;
pub use pipeline::{Pipeline, PipelineBuilder};
pub use redirect::Redirects;
pub use response_reader::ResponseReader;
pub use route::{InvalidProxy, Proxies, Proxy, SocksError, SocksReply};
pub use settings::{ClientBuilder, ClientTimeouts};
pub use upgraded::ClientUpgraded;

use self::pool::Pool;
use self::pool::Pools;
use self::settings::Settings;
use crate::memory::{read_lock, write_lock};
use crate::message::{InvalidRequest, Method, Request, Response, Target};
use crate::runtime::{Handle, Id};

/// Sends requests to servers, and keeps connections to them open for further requests.
///
/// Make one client and keep it; clones share its connections. It can be used on any thread, and in any tokio runtime
/// with timers enabled, and with I/O enabled unless it uses no sockets. A connection is reused only in the runtime that
/// opened it.
///
/// An answer is not an error, whatever its status. `Err(response.status)?` turns it into one, because a
/// [`Status`](crate::Status) is an error, too.
///
/// All futures and bodies that it returns can be dropped at any time. That cancels the exchange, closes its connection,
/// and gives its place to the next waiting request.
///
/// # Examples
///
/// ```
/// # use corehttp::{Context, Server, MemoryListener};
/// use corehttp::{Client, Request, Response, Status};
///
/// # let listener = MemoryListener::new();
/// # let connector = listener.connector();
/// # let server = Server::bind(listener).cores(1).start(|ctx: &mut Context| ctx.response.set_text("Hello"))?;
/// # corehttp::block_on(async {
/// let client = Client::new();
/// # let client = Client::builder().memory(connector).build();
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
#[doc(alias = "error_for_status")]
#[derive(Clone)]
pub struct Client {
    inner: Arc<ClientInner>,
    /// The time limit for a whole exchange.
    total: Option<Duration>,
    redirects: Redirects,
}

/// What the clones of a client have in common.
struct ClientInner {
    settings: Arc<Settings>,
    /// One for each runtime. There are few.
    pools: RwLock<Vec<(Id, Arc<Pools>)>>,
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
    /// For a single request: `client.timeout(limit).send(..)`.
    #[must_use]
    pub fn timeout(&self, total: impl Into<Option<Duration>>) -> Client {
        Client { total: total.into(), ..self.clone() }
    }

    /// Returns this client with another policy for redirects; connections are shared.
    #[must_use]
    pub fn redirects(&self, redirects: Redirects) -> Client {
        Client { redirects, ..self.clone() }
    }

    /// Sends a GET request (RFC 9110 §9.3.1), and receives the answer. To send fields as well, use [`Client::send`].
    ///
    /// # Errors
    ///
    /// Fails if the URL is malformed, or if no answer arrives: see [`ClientError`]. A status of 4xx or 5xx is not an
    /// error. To treat it as one, return it: `Err(response.status)?`.
    pub async fn get(&self, url: &str) -> Result<Response, ClientError> {
        self.request(Method::Get, url, None).await
    }

    /// Sends a HEAD request (RFC 9110 §9.3.2), and receives the answer.
    ///
    /// # Errors
    ///
    /// As [`Client::get`].
    pub async fn head(&self, url: &str) -> Result<Response, ClientError> {
        self.request(Method::Head, url, None).await
    }

    /// Sends a POST request (RFC 9110 §9.3.3) with `body`, and receives the answer. To send fields as well, use
    /// [`Client::send`].
    ///
    /// # Errors
    ///
    /// As [`Client::get`].
    pub async fn post(&self, url: &str, body: impl AsRef<[u8]>) -> Result<Response, ClientError> {
        self.request(Method::Post, url, Some(body.as_ref())).await
    }

    /// Sends a PUT request (RFC 9110 §9.3.4) with `body`, and receives the answer.
    ///
    /// # Errors
    ///
    /// As [`Client::get`].
    pub async fn put(&self, url: &str, body: impl AsRef<[u8]>) -> Result<Response, ClientError> {
        self.request(Method::Put, url, Some(body.as_ref())).await
    }

    /// Sends a PATCH request (RFC 5789), and receives the answer. The body describes the changes, in a format that the
    /// server supports.
    ///
    /// # Errors
    ///
    /// As [`Client::get`].
    pub async fn patch(&self, url: &str, body: impl AsRef<[u8]>) -> Result<Response, ClientError> {
        self.request(Method::Patch, url, Some(body.as_ref())).await
    }

    /// Sends a DELETE request (RFC 9110 §9.3.5), and receives the answer.
    ///
    /// # Errors
    ///
    /// As [`Client::get`].
    pub async fn delete(&self, url: &str) -> Result<Response, ClientError> {
        self.request(Method::Delete, url, None).await
    }

    async fn request(&self, method: Method, url: &str, body: Option<&[u8]>) -> Result<Response, ClientError> {
        let mut request = Request::new(method, url)?;
        if let Some(body) = body {
            request.body.set_bytes(body);
        }
        let mut response = Response::new();
        self.send(&request, &mut response).await?;
        Ok(response)
    }

    /// Sends `request`, and receives the answer into `response`, including its body. The response is reset first, and
    /// its memory is reused.
    ///
    /// The request is sent once more, on a new connection, if it was sent on a reused connection that turns out to be
    /// closed, its body is not a stream, and sending it twice does no harm (RFC 9110 §9.2.2).
    ///
    /// # Errors
    ///
    /// As [`Client::get`], or if the body is larger than [`ClientBuilder::body_max`].
    ///
    /// # Examples
    ///
    /// ```
    /// # use corehttp::{Context, Server, MemoryListener};
    /// use corehttp::{Client, Request, Response};
    ///
    /// # let listener = MemoryListener::new();
    /// # let client = Client::builder().memory(listener.connector()).build();
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
        self.exchange_whole(None, request, response).await
    }

    /// Sends `request`, and receives the head of the answer into `response`. The body is read from the returned
    /// [`ResponseReader`], as it arrives.
    ///
    /// The part of the answer that arrives before the request has been sent completely is buffered, up to
    /// [`ClientBuilder::body_max`]. For a server that may answer with more than that while it still reads, use
    /// [`Client::open`] and [`Call::split`].
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
        self.exchange_head(None, request, response).await
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
    /// trailers are empty, too. This method then waits for its answer, or for the first interim one, so that it can
    /// send the request once more if the connection turns out to be stale, as [`Client::send`] does. A request with a
    /// body is never sent twice.
    ///
    /// Interim answers, such as 103, are dropped, unless [`CallReader::informational`] takes them.
    ///
    /// # Errors
    ///
    /// As [`Client::get`].
    pub async fn open(&self, request: &Request) -> Result<Call, ClientError> {
        self.call(None, request).await
    }

    /// Sends `request`, which asks for an upgrade, and hands the connection over (RFC 9110 §7.8). The head of the
    /// answer is in `response`.
    ///
    /// The request names the protocol in its `upgrade` field; `connection: upgrade` is added. Most HTTP proxies drop
    /// both from a request for an `http` URL (RFC 9110 §7.6.1). A request for an `https` URL goes through a tunnel,
    /// which proxies cannot read.
    ///
    /// # Errors
    ///
    /// As [`Client::get`], or with [`ClientCause::Upgrade`] if the answer is not 101, or switches to a protocol that
    /// the request does not ask for. That answer is then in `response`, even if it is a redirect. Its body, which
    /// usually says why, is received as by [`Client::send`]; if it does not arrive whole, or is too large, it is empty.
    pub async fn upgrade(
        &self,
        request: &Request,
        response: &mut Response,
    ) -> Result<ClientUpgraded, ClientError> {
        self.send_upgrade(None, request, response).await
    }

    /// Returns a handle for the one origin that `url` names. It saves looking up the origin's connections for each
    /// request, and allows targets that are only a path.
    ///
    /// # Errors
    ///
    /// Fails if the URL is malformed, or names no host.
    pub fn host(&self, url: &str) -> Result<Host, InvalidRequest> {
        Host::new(self.clone(), url)
    }

    /// Closes all connections that are not in use.
    pub fn close_idle(&self) {
        self.each_pool(Pool::close_idle);
    }

    /// Returns how many connections are open and not in use.
    pub fn idle(&self) -> usize {
        let mut idle = 0;
        self.each_pool(|pool| idle += pool.idle());
        idle
    }

    /// Returns how many connections are in use, or about to be opened.
    pub fn busy(&self) -> usize {
        let mut busy = 0;
        self.each_pool(|pool| busy += pool.busy());
        busy
    }

    fn each_pool(&self, mut then: impl FnMut(&Pool)) {
        // Not under the lock: what is dropped here may need it.
        let all = Vec::from_iter(read_lock(&self.inner.pools).iter().map(|(_, pools)| pools.clone()));
        all.iter().for_each(|pools| pools.each(&mut then));
    }

    /// The pool of the origin that `target` names, in this runtime.
    fn pool_of(&self, target: &Target) -> Result<Arc<Pool>, ClientError> {
        self.in_pools(|pools| {
            // Nearly all targets spell the origin exactly as its key does, and then nothing has to be normalized.
            let known = target.origin().and_then(|key| pools.find(key));
            known.map_or_else(|| pools.pool(&origin::key(target)?), Ok)
        })
    }

    /// The pool of the origin with this key, in this runtime.
    fn pool(&self, key: &str) -> Result<Arc<Pool>, ClientError> {
        self.in_pools(|pools| pools.pool(key))
    }

    fn in_pools<T>(
        &self,
        then: impl FnOnce(&Arc<Pools>) -> Result<T, ClientError>,
    ) -> Result<T, ClientError> {
        let Some(handle) = Handle::current() else {
            return Err(ClientError::new(ClientPhase::Prepare, ClientCause::NoRuntime));
        };
        let all = read_lock(&self.inner.pools);
        let is_current = |(id, _): &&(Id, Arc<Pools>)| *id == handle.id();
        if let Some((_, pools)) = all.iter().find(is_current) {
            return then(pools);
        }
        drop(all);
        let mut all = write_lock(&self.inner.pools);
        // Removes the pools of runtimes that have ended, or a program that makes a runtime for each request would
        // accumulate them.
        all.retain(|(_, pools)| !pools.is_empty());
        let at = all.iter().position(|entry| is_current(&entry)).unwrap_or_else(|| {
            all.push((handle.id(), Pools::new(handle.clone(), self.inner.settings.clone())));
            all.len() - 1
        });
        then(&all[at].1)
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
            .field("idle", &self.idle())
            .field("busy", &self.busy())
            .finish_non_exhaustive()
    }
}
