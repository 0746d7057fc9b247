//! Floor 4: the client. Whom it asks is a [`Pool`] of connections; how is a [`Link`](link::Link), which is
//! one connection with one exchange on it.
//!
//! In reading order: who is asked, the connections to them and the way there, one exchange, what surrounds it, what is
//! handed out, several hosts and many requests at once, and what can be set.

mod origin;

mod connect;
mod pool;
mod pools;
mod route;

mod exchange;
mod link;

mod ask;
mod cookie_visit;
mod cookies;
mod redirect;

mod answer;
mod call;
mod host;
mod pending;
mod tunnel;

mod balance;
mod pipeline;

mod error;
mod settings;

use std::fmt;
use std::sync::{Arc, RwLock};
use std::time::Duration;

pub use answer::Answer;
pub use balance::{Balancer, BalancerBuilder, HostChoice, HostCounts};
pub use call::{Call, CallReader, CallWriter};
pub use cookies::CookieStore;
pub use error::{ClientCause, ClientError, ClientPhase};
pub use host::Host;
pub use pipeline::{Pipeline, PipelineBuilder};
use pool::Pool;
use pools::Pools;
pub use redirect::Redirects;
pub use route::{InvalidProxy, Proxies, Proxy, SocksError, SocksReply};
use settings::Settings;
pub use settings::{ClientBuilder, ClientTimeouts};
pub use tunnel::Tunnel;

use crate::memory::{read_lock, write_lock};
use crate::message::{InvalidRequest, Method, Request, Response, Target};
use crate::runtime::{Here, Id};

/// Sends requests to servers, and keeps connections to them.
///
/// Make one and keep it: a clone is the same client. It may be used from any thread, and in any tokio runtime that
/// has its timers enabled; a connection is used again only in the runtime that opened it. Whatever it returns can be
/// dropped at any time: that cancels the exchange, closes its connection and lets the next in line have its place.
///
/// # Examples
///
/// ```
/// # use corehttp::{Context, Server, MemoryListener};
/// use corehttp::{Client, Request, Response, Status};
///
/// # let listener = MemoryListener::new();
/// # let connector = listener.connector();
/// # let server = Server::bind(listener).cores(1).start(|ctx: &mut Context| ctx.response.text("Hello"))?;
/// # corehttp::block_on(async {
/// let client = Client::new();
/// # let client = Client::builder().memory(connector).build();
/// let response = client.get("http://example.com/").await?;
/// assert_eq!(response.status, Status::OK);
/// println!("{}", response.body.text()?);
///
/// // The loop that allocates nothing: both are reset and used again.
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
    shared: Arc<Shared>,
    /// For all of an exchange.
    total: Option<Duration>,
    redirects: Redirects,
}

/// What the clones of a client have in common.
struct Shared {
    settings: Arc<Settings>,
    /// One for each runtime, and there are few.
    pools: RwLock<Vec<(Id, Arc<Pools>)>>,
}

impl Client {
    /// A client with the defaults of [`ClientBuilder`].
    pub fn new() -> Client {
        Client::builder().build()
    }

    /// A builder, for settings other than the defaults.
    pub fn builder() -> ClientBuilder {
        ClientBuilder::default()
    }

    /// This client with another limit for all of an exchange, redirects and the body included; it shares the
    /// connections. For a single request: `client.timeout(limit).send(..)`. Default: none, so that only the limits of
    /// the phases hold.
    #[must_use]
    pub fn timeout(&self, total: impl Into<Option<Duration>>) -> Client {
        Client { total: total.into(), ..self.clone() }
    }

    /// This client with another way to treat redirects; it shares the connections.
    #[must_use]
    pub fn redirects(&self, redirects: Redirects) -> Client {
        Client { redirects, ..self.clone() }
    }

    /// GET (RFC 9110 §9.3.1).
    ///
    /// # Errors
    ///
    /// A malformed URL, and whatever keeps an answer from coming: see [`ClientError`]. A status of 4xx or 5xx is no
    /// error.
    pub async fn get(&self, url: &str) -> Result<Response, ClientError> {
        self.ask(Method::Get, url, None).await
    }

    /// HEAD (RFC 9110 §9.3.2).
    ///
    /// # Errors
    ///
    /// As [`Client::get`].
    pub async fn head(&self, url: &str) -> Result<Response, ClientError> {
        self.ask(Method::Head, url, None).await
    }

    /// POST (RFC 9110 §9.3.3). To send more than bytes, such as fields, use [`Client::send`].
    ///
    /// # Errors
    ///
    /// As [`Client::get`].
    pub async fn post(&self, url: &str, body: impl AsRef<[u8]>) -> Result<Response, ClientError> {
        self.ask(Method::Post, url, Some(body.as_ref())).await
    }

    /// PUT (RFC 9110 §9.3.4).
    ///
    /// # Errors
    ///
    /// As [`Client::get`].
    pub async fn put(&self, url: &str, body: impl AsRef<[u8]>) -> Result<Response, ClientError> {
        self.ask(Method::Put, url, Some(body.as_ref())).await
    }

    /// PATCH (RFC 5789). The body says how the resource is to be changed, in a format that the server takes.
    ///
    /// # Errors
    ///
    /// As [`Client::get`].
    pub async fn patch(&self, url: &str, body: impl AsRef<[u8]>) -> Result<Response, ClientError> {
        self.ask(Method::Patch, url, Some(body.as_ref())).await
    }

    /// DELETE (RFC 9110 §9.3.5).
    ///
    /// # Errors
    ///
    /// As [`Client::get`].
    pub async fn delete(&self, url: &str) -> Result<Response, ClientError> {
        self.ask(Method::Delete, url, None).await
    }

    async fn ask(&self, method: Method, url: &str, body: Option<&[u8]>) -> Result<Response, ClientError> {
        let mut request = Request::new(method, url)?;
        if let Some(body) = body {
            request.body.set(body);
        }
        let mut response = Response::new();
        self.send(&request, &mut response).await?;
        Ok(response)
    }

    /// Sends `request`, and receives the answer into `response`, its body included. The response is reset first, and
    /// its memory is used again.
    ///
    /// A request whose body is not a stream is sent a second time, on a new connection, if a connection that had been
    /// used before turns out to be closed and nobody can have acted on the request twice (RFC 9110 §9.2.2).
    ///
    /// # Errors
    ///
    /// As [`Client::get`]; and a body larger than [`ClientBuilder::body_max`].
    #[doc(alias("execute", "do"))]
    pub async fn send(&self, request: &Request, response: &mut Response) -> Result<(), ClientError> {
        self.exchange(None, request, response).await?.receive_body(response).await
    }

    /// Sends `request`, and receives the head of the answer into `response`. Its body is read, as it comes, from the
    /// [`Answer`] that is returned. What comes of it before the request is sent completely is kept, up to
    /// [`ClientBuilder::body_max`]; for a server that answers with more while it still reads, use [`Client::open`] and
    /// [`Call::split`].
    ///
    /// # Errors
    ///
    /// As [`Client::get`].
    pub async fn stream(&self, request: &Request, response: &mut Response) -> Result<Answer, ClientError> {
        Ok(Answer::new(self.exchange(None, request, response).await?))
    }

    /// Sends the head of `request`. Its body is then written to the [`Call`] that is returned.
    ///
    /// The body goes under the `content-length` that was set; without one, or with trailers, in chunks. A method that
    /// usually has no content, such as GET, has some only if `content-length` or `transfer-encoding` says so.
    /// `request.body` is not sent. No redirect is followed, and nothing is sent twice.
    ///
    /// # Errors
    ///
    /// As [`Client::get`].
    pub async fn open(&self, request: &Request) -> Result<Call, ClientError> {
        self.call(None, request).await
    }

    /// Sends `request`, which asks for an upgrade, and hands the connection over (RFC 9110 §7.8). The request names the
    /// protocol in its `upgrade` field; `connection: upgrade` is added. The answer's head is in `response`.
    ///
    /// # Errors
    ///
    /// As [`Client::get`]; and an answer that is not 101, which is then in `response`, without its body.
    pub async fn upgrade(&self, request: &Request, response: &mut Response) -> Result<Tunnel, ClientError> {
        self.switch(None, request, response).await
    }

    /// A handle for the one origin that `url` names: requests to it need not be looked up, and may have targets that
    /// are only a path.
    ///
    /// # Errors
    ///
    /// A URL that is malformed, or names no host.
    pub fn host(&self, url: &str) -> Result<Host, InvalidRequest> {
        Host::new(self.clone(), url)
    }

    /// Closes all connections that are not in use.
    pub fn close_idle(&self) {
        self.each_pool(Pool::close_idle);
    }

    /// How many connections are not in use.
    pub fn idle(&self) -> usize {
        let mut idle = 0;
        self.each_pool(|pool| idle += pool.idle());
        idle
    }

    /// How many connections are in use, or about to be opened.
    pub fn busy(&self) -> usize {
        let mut busy = 0;
        self.each_pool(|pool| busy += pool.busy());
        busy
    }

    fn each_pool(&self, mut then: impl FnMut(&Pool)) {
        // Not under the lock: whoever is dropped meanwhile may ask for it.
        let all = Vec::from_iter(read_lock(&self.shared.pools).iter().map(|(_, pools)| pools.clone()));
        all.iter().for_each(|pools| pools.each(&mut then));
    }

    /// The pool of the origin that `target` names, in this runtime.
    fn pool_of(&self, target: &Target) -> Result<Arc<Pool>, ClientError> {
        self.in_pools(|pools| {
            // Nearly all spell an origin as its key does, and then there is nothing to be looked at.
            let known = target.origin().and_then(|key| pools.known(key));
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
        let Some(here) = Here::get() else {
            return Err(ClientError::new(ClientPhase::Prepare, ClientCause::NoRuntime));
        };
        let all = read_lock(&self.shared.pools);
        let is_here = |(id, _): &&(Id, Arc<Pools>)| *id == here.id();
        if let Some((_, pools)) = all.iter().find(is_here) {
            return then(pools);
        }
        drop(all);
        let mut all = write_lock(&self.shared.pools);
        // Those of runtimes that have ended, for one: whoever makes a runtime for each request is not to pay for all.
        all.retain(|(_, pools)| !pools.is_empty());
        let at = all.iter().position(|entry| is_here(&entry)).unwrap_or_else(|| {
            all.push((here.id(), Pools::new(here.clone(), self.shared.settings.clone())));
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
