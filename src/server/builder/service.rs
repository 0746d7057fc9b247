//! [`Service`]: a handler with its settings, for connections that the application accepts itself.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::future::poll_fn;
use std::io;
use std::rc::Rc;
use std::sync::Arc;

use tokio::io::{AsyncRead, AsyncWrite};

use crate::message::{Request, Response};
use crate::net::tls::{CertificateWatch, TlsAcceptor};
use crate::net::{Conn, ConnTable, Peer, PeerAddr, Transport};
use crate::server::connection::{Connection, PerCore, respond};
use crate::server::core_state::ServerSettings;
use crate::server::counts::OpenGuard;
use crate::server::handler::Handler;
use crate::server::opening::Opening;

/// A handler with its settings, for connections that you accept yourself, on any tokio runtime. It is not the trait
/// `Service` of tower or hyper.
///
/// Made by [`Server::service`](crate::Server::service). Clones are cheap and share their memory, but cannot leave their
/// thread. Deadlines are tokio timers here. So the runtime must have its time driver enabled, as under
/// `#[tokio::main]`. Handlers that call `tokio::task::spawn_local` also need a `tokio::task::LocalSet`, or
/// [`block_on`](crate::block_on). Only on a core and in `block_on` does the crate finish what is left of a request that was
/// dropped, such as the release of an idempotency-key by a store that waits.
///
/// # Examples
///
/// ```
/// use corehttp::{Context, Request, Server};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let service = Server::new().service(|ctx: &mut Context| ctx.response.set_text("hi"));
/// let response = service.respond(Request::get("/")?).await;
/// assert_eq!(response.body.text()?, "hi");
/// # Ok(())
/// # }
/// ```
pub struct Service<H: Handler + 'static> {
    per_core: Rc<PerCore<H>>,
    connections: Rc<Cell<u64>>,
    acceptor: Option<TlsAcceptor>,
    certificates: Rc<RefCell<Option<CertificateWatch>>>,
}

impl<H: Handler + 'static> Service<H> {
    pub(super) fn new(handler: H, settings: &ServerSettings) -> Service<H> {
        let per_core = PerCore::new(0, handler, settings, ConnTable::with_sleeps(), Arc::default());
        let per_core = Rc::new(per_core);
        let acceptor = settings.acceptor.clone();
        let certificates = acceptor.as_ref().and_then(TlsAcceptor::watch);
        Service { per_core, connections: Rc::default(), acceptor, certificates: Rc::new(certificates.into()) }
    }

    /// Serves one connection until it closes or is upgraded. Any number of connections may be served concurrently.
    ///
    /// Handlers see [`PeerAddr::Memory`] as the address of the peer. To give them the real one, use
    /// [`Service::serve_connection_from`].
    ///
    /// # Errors
    ///
    /// Fails if the connection ended early. The peer has been answered already, if possible.
    pub fn serve_connection(
        &self,
        io: impl AsyncRead + AsyncWrite + 'static,
    ) -> impl Future<Output = io::Result<()>> {
        self.serve_connection_from(PeerAddr::Memory, io)
    }

    /// Serves one connection until it closes or is upgraded. Handlers and
    /// [`Server::on_error`](crate::Server::on_error) see `peer` as the address of the peer.
    ///
    /// With [`Server::tls`](crate::Server::tls), the certificates are looked at with each connection, at most once a day if
    /// they stay the same. `Server::on_error` has a report of those that have expired or will soon.
    ///
    /// # Errors
    ///
    /// As [`Service::serve_connection`].
    ///
    /// # Examples
    ///
    /// ```
    /// use corehttp::{Context, Server};
    /// use tokio::net::{TcpListener, TcpStream};
    /// use tokio::task::{JoinSet, LocalSet};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// let service = Server::new().service(|ctx: &mut Context| {
    ///     ctx.response.set_text(ctx.peer_addr().to_string());
    /// });
    /// let listener = TcpListener::bind("127.0.0.1:0").await?;
    /// # let client = TcpStream::connect(listener.local_addr()?).await?;
    /// LocalSet::new()
    ///     .run_until(async {
    ///         let mut connections = JoinSet::new();
    ///         let (stream, peer) = listener.accept().await?; // in a loop, in a real server
    ///         let serving = service.clone();
    ///         connections.spawn_local(async move { serving.serve_connection_from(peer.into(), stream).await });
    ///         // Graceful stop: responses in progress are still sent, and then all connections are closed.
    ///         service.stop();
    /// #       drop(client);
    ///         while connections.join_next().await.is_some() {}
    ///         Ok(())
    ///     })
    ///     .await
    /// # }
    /// ```
    pub fn serve_connection_from(
        &self,
        peer: PeerAddr,
        io: impl AsyncRead + AsyncWrite + 'static,
    ) -> impl Future<Output = io::Result<()>> {
        self.report_certificates();
        let counters = &self.per_core.core.counters;
        counters.accepted.add(1);
        let open = OpenGuard::new(counters);
        // The connection is made outside of the future, which would otherwise keep room for `io` until its end.
        let conn = self.connect(peer, io);
        let acceptor = self.acceptor.clone();
        let expects_proxy_header = self.per_core.core.expects_proxy_header(peer);
        let opening = Opening { conn, acceptor, expects_proxy_header, limiter: None, accepted_at: None };
        let mut connection = Connection::new(self.per_core.clone(), opening);
        async move {
            let served = poll_fn(|cx| connection.poll_http(cx)).await;
            poll_fn(|cx| connection.poll_close_if_dropped(cx)).await;
            connection.trim_if_due();
            drop(open);
            served
        }
    }

    /// Stops all clones gracefully, as [`ServerHandle::stop`](crate::ServerHandle::stop) does. Silent connections are
    /// closed at once. The others are closed after the response in progress, which carries `connection: close`.
    ///
    /// Returns at once. Each [`Service::serve_connection`] returns when its connection is done. Dropping its future
    /// cuts the connection. A connection served after this call gets one response, and is closed.
    pub fn stop(&self) {
        self.per_core.core.connections.stop();
    }

    /// Answers one request without a connection, for tests of handlers.
    ///
    /// As on a connection, the handler's [`BodyPlan`](crate::server::BodyPlan) decides whether the body is received
    /// before the handler. A body beyond the plan is refused. The fields `content-length` and `transfer-encoding`
    /// announce a body, unless the request has them.
    ///
    /// The handler sees [`PeerAddr::Memory`] as the address of the peer, and no TLS session. For another address, use
    /// [`Service::respond_from`]. [Observers](crate::Server::observe), such as an access log, see the exchange like any
    /// other.
    ///
    /// The response is as the handler left it. Fields that are computed for sending are missing. The content is there
    /// even if the request is a HEAD. Content that the handler writes with [`Context::body_writer`] becomes the body,
    /// up to the point of an abort, of which [`Server::on_error`](crate::Server::on_error) has a report. In response to a
    /// HEAD, written content is dropped.
    ///
    /// # Examples
    ///
    /// ```
    /// use corehttp::{Context, Request, Server, Status};
    ///
    /// fn greet(ctx: &mut Context) -> corehttp::Result {
    ///     let Context { request, response, .. } = ctx;
    ///     let name = request.query().get("name").ok_or(Status::BAD_REQUEST)?;
    ///     response.set_text(format!("Hello, {name}!"));
    ///     Ok(())
    /// }
    ///
    /// // The rest can be the body of a `#[test]`.
    /// let service = Server::new().service(greet);
    /// let get = |url: &str| corehttp::block_on(service.respond(Request::get(url).unwrap())).unwrap();
    /// assert_eq!(get("/?name=Ada").body.bytes(), b"Hello, Ada!");
    /// assert_eq!(get("/").status, Status::BAD_REQUEST);
    /// ```
    ///
    /// [`Context::body_writer`]: crate::server::Context::body_writer
    #[doc(alias = "oneshot")]
    pub async fn respond(&self, request: Request) -> Response {
        self.respond_from(PeerAddr::Memory, request).await
    }

    /// Answers one request as [`Service::respond`] does. Handlers see `peer` as the address of the peer.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::net::SocketAddr;
    /// use corehttp::{Context, Request, Server};
    ///
    /// let service = Server::new().service(|ctx: &mut Context| ctx.response.set_text(ctx.peer_addr().to_string()));
    /// let peer = SocketAddr::from(([192, 0, 2, 1], 50_000)).into();
    /// let response = corehttp::block_on(service.respond_from(peer, Request::get("/")?))?;
    /// assert_eq!(response.body.bytes(), b"192.0.2.1:50000");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub async fn respond_from(&self, peer: PeerAddr, request: Request) -> Response {
        respond(&self.per_core, request, |stream| self.connect(peer, stream)).await
    }

    /// Reports the certificates that were refused or expire, if it is time to look at them.
    fn report_certificates(&self) {
        let found = self.certificates.borrow_mut().as_mut().map(CertificateWatch::faults_now);
        // The observers may use this service.
        found.into_iter().flatten().for_each(|fault| self.per_core.core.report_certificate(fault));
    }

    fn connect(&self, peer: PeerAddr, io: impl AsyncRead + AsyncWrite + 'static) -> Conn {
        let id = self.connections.get() + 1;
        self.connections.set(id);
        let entry = self.per_core.core.connections.add(Peer { addr: peer, id });
        Conn::new(Transport::from_stream(io), entry)
    }
}

impl<H: Handler + 'static> Clone for Service<H> {
    fn clone(&self) -> Service<H> {
        let Service { per_core, connections, acceptor, certificates } = self;
        Service {
            per_core: per_core.clone(),
            connections: connections.clone(),
            acceptor: acceptor.clone(),
            certificates: certificates.clone(),
        }
    }
}

impl<H: Handler + 'static> fmt::Debug for Service<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Service").finish_non_exhaustive()
    }
}
