//! [`Host`]: a client for a single origin.

use std::fmt;
use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use super::call::Call;
use super::pool::{Pool, open_new};
use super::retry::{BudgetShare, EarlierAttempts, Retry};
use super::send::{ClientUpgraded, RequestSender, upgrade};
use crate::client::call::ResponseReader;
use crate::client::error::ClientError;
use crate::client::route::{Origin, origin};
use crate::memory::Reset;
use crate::message::{MessageError, Request, Response};
use crate::net::SrvRecord;
use crate::runtime::{self, timeout};

/// A client for a single origin.
///
/// Requests need no look-up of the origin's connections, and targets may be only a path.
///
/// Made by [`Client::host`](crate::Client::host). A request for another origin is an error.
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
/// #     let path = ctx.request.path().to_owned();
/// #     ctx.response.set_text(path);
/// # })?;
/// # corehttp::block_on(async {
/// let api = client.host("http://api:8080")?;
/// let mut response = Response::new();
/// api.send(&Request::get("/items")?, &mut response).await?;
/// assert_eq!(response.body.bytes(), b"/items");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })??;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[doc(alias = "HostClient")]
#[derive(Clone)]
pub struct Host {
    sender: RequestSender,
    key: Arc<str>,
    /// The address at which it is reached, if that is not looked up.
    address: Option<IpAddr>,
    /// The pool of the runtime in which the handle was made.
    pool: Option<Arc<Pool>>,
}

impl Host {
    pub(super) fn new(sender: RequestSender, url: &str) -> Result<Host, MessageError> {
        let key: Arc<str> = origin::key_of_url(url)?.into();
        let pool = sender.pool(&key, None).ok();
        Ok(Host { sender, key, address: None, pool })
    }

    /// Returns this host as it is reached at `address`, with connections of its own.
    pub(super) fn at(&self, address: IpAddr) -> Host {
        let pool = self.sender.pool(&self.key, Some(address)).ok();
        Host { address: Some(address), pool, ..self.clone() }
    }

    /// Returns the host at another origin, with this normalized spelling. Its last addresses stay while it cannot be looked up.
    pub(super) fn at_origin(&self, key: &str) -> Host {
        if let Some(origin) = Origin::from_key(key) {
            self.sender.settings().dial.dns.keep_last(origin.host());
        }
        let pool = self.sender.pool(key, None).ok();
        Host { key: key.into(), address: None, pool, ..self.clone() }
    }

    /// Returns this host with the connections of `sender`.
    pub(super) fn with_sender(&self, sender: RequestSender) -> Host {
        Host { sender, pool: None, ..self.clone() }
    }

    /// Returns this host with another policy for retries, or with none. Connections and budgets are shared. Default: that of
    /// the client.
    #[must_use]
    pub fn with_retry(&self, retry: impl Into<Option<Retry>>) -> Host {
        Host { sender: self.sender.with_retry(retry.into().map(Arc::new)), ..self.clone() }
    }

    /// Sends `request`, and receives the response into `response`, as [`Client::send`](crate::Client::send) does.
    ///
    /// # Errors
    ///
    /// As [`Client::send`](crate::Client::send), or for a request to another origin.
    pub async fn send(&self, request: &Request, response: &mut Response) -> Result<(), ClientError> {
        let pool = self.pool(request).inspect_err(|_| response.reset())?;
        let sent = self.sender.send_whole(Some(pool), request, response).await;
        sent.map_err(|error| error.with_origin(&self.key))
    }

    /// Sends `request`, and receives the head of the response into `response`, as
    /// [`Client::open_response`](crate::Client::open_response) does.
    ///
    /// # Errors
    ///
    /// As [`Client::open_response`](crate::Client::open_response), or for a request to another origin.
    pub async fn open_response(
        &self,
        request: &Request,
        response: &mut Response,
    ) -> Result<ResponseReader, ClientError> {
        let pool = self.pool(request).inspect_err(|_| response.reset())?;
        let answered = self.sender.open_response(Some(pool), request, response).await;
        answered.map_err(|error| error.with_origin(&self.key))
    }

    /// Sends the head of `request`, whose body is then written to the returned [`Call`], like
    /// [`Client::open_call`](crate::Client::open_call).
    ///
    /// # Errors
    ///
    /// As [`Client::open_call`](crate::Client::open_call), or for a request to another origin.
    pub async fn open_call(&self, request: &Request) -> Result<Call, ClientError> {
        let opened = self.sender.open_call(Some(self.pool(request)?), request).await;
        opened.map_err(|error| error.with_origin(&self.key))
    }

    /// Sends `request`, which has an `upgrade` field, and hands the connection over, like
    /// [`Client::upgrade`](crate::Client::upgrade).
    ///
    /// # Errors
    ///
    /// As [`Client::upgrade`](crate::Client::upgrade), or for a request to another origin.
    pub async fn upgrade(
        &self,
        request: &Request,
        response: &mut Response,
    ) -> Result<ClientUpgraded, ClientError> {
        let pool = self.pool(request).inspect_err(|_| response.reset())?;
        let upgraded = upgrade(&self.sender, Some(pool), request, response).await;
        upgraded.map_err(|error| error.with_origin(&self.key))
    }

    /// Returns scheme, host and port, in lower case and without a default port.
    pub fn origin(&self) -> &str {
        &self.key
    }

    /// The address at which it is reached, if that is not looked up.
    pub(super) fn address(&self) -> Option<IpAddr> {
        self.address
    }

    /// Returns the number of open but idle connections to the origin, in the runtime in which this handle was made. One to
    /// a proxy that reads requests counts for its last origin.
    pub fn idle_connections(&self) -> usize {
        self.pool.as_ref().map_or(0, |pool| pool.idle())
    }

    /// Returns the number of busy connections to the origin, those in use or about to be opened, in the runtime in which
    /// this handle was made.
    pub fn busy_connections(&self) -> usize {
        self.pool.as_ref().map_or(0, |pool| pool.busy())
    }

    /// Looks up the addresses of the host, and for how long they are valid.
    ///
    /// # Errors
    ///
    /// Fails as the resolver does, or after the timeout for look-ups.
    pub(super) async fn look_up(&self) -> io::Result<(Arc<[IpAddr]>, Duration)> {
        let host = Origin::from_key(&self.key).ok_or(io::ErrorKind::InvalidInput)?;
        self.in_time(self.sender.settings().dial.dns.resolve_with_ttl(host.host())).await
    }

    /// Looks up the SRV records of the host, which is the name of a service (RFC 2782), and for how long they are valid.
    ///
    /// # Errors
    ///
    /// As [`Host::look_up`].
    pub(super) async fn look_up_srv(&self) -> io::Result<(Arc<[SrvRecord]>, Duration)> {
        let service = Origin::from_key(&self.key).ok_or(io::ErrorKind::InvalidInput)?;
        self.in_time(self.sender.settings().dial.dns.resolve_srv(service.host())).await
    }

    /// Waits for a look-up, until the timeout for these.
    async fn in_time<T>(&self, looked_up: impl Future<Output = io::Result<T>>) -> io::Result<T> {
        let limit = self.sender.timeouts().of_phases(self.sender.settings()).resolve;
        timeout(limit, looked_up).await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
    }

    /// Opens a connection, and closes it again.
    ///
    /// # Errors
    ///
    /// Fails as a request does that needs a new connection.
    pub(super) async fn check_connection(&self) -> Result<(), ClientError> {
        let opened = open_new(self.current_pool()?, runtime::now(), &self.sender.timeouts()).await;
        opened.map(drop).map_err(|error| error.with_origin(&self.key))
    }

    /// Returns this host with a time limit for each exchange; connections are shared.
    pub(super) fn with_timeout(&self, total: Duration) -> Host {
        Host { sender: self.sender.with_total(Some(total)), ..self.clone() }
    }

    /// Returns this host for a request after these attempts; connections are shared.
    pub(super) fn with_earlier(&self, earlier: EarlierAttempts) -> Host {
        Host { sender: self.sender.with_earlier(earlier), ..self.clone() }
    }

    /// How many retries the host gets.
    pub(super) fn budget(&self) -> BudgetShare {
        let budgets = &self.sender.settings().budgets;
        match self.address {
            None => budgets.of(&self.key),
            Some(_) => budgets.unshared(),
        }
    }

    /// The pool of this origin in the current runtime, for `request`.
    ///
    /// # Errors
    ///
    /// Fails if the request is for another origin, or if there is no runtime.
    fn pool(&self, request: &Request) -> Result<Arc<Pool>, ClientError> {
        origin::check(request.target(), &self.key)?;
        self.current_pool()
    }

    /// The pool of this origin in the current runtime.
    ///
    /// # Errors
    ///
    /// Fails if there is no runtime.
    pub(super) fn current_pool(&self) -> Result<Arc<Pool>, ClientError> {
        match &self.pool {
            Some(pool) if pool.is_of_current_runtime() => Ok(pool.clone()),
            _ => self.sender.pool(&self.key, self.address),
        }
    }
}

impl fmt::Debug for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Host").field("origin", &self.key).finish_non_exhaustive()
    }
}
