//! [`Service`]: a handler with its settings, for connections that come from elsewhere.

use std::cell::Cell;
use std::fmt;
use std::io;
use std::rc::Rc;
use std::sync::Arc;

use tokio::io::{AsyncRead, AsyncWrite};

use super::Handler;
use super::connection::{Connection, respond};
use super::settings::Settings;
use super::worker::Worker;
use crate::message::{Request, Response};
use crate::net::{Conn, Peer, PeerAddr, Transport, Watch};

/// A handler with its settings, for connections that come from elsewhere, on any tokio runtime.
///
/// Its clones are cheap and share their memory. It stays on one thread. Deadlines are tokio timers here, so the
/// runtime must have its time driver enabled, as `#[tokio::main]` has.
///
/// # Examples
///
/// ```
/// use corehttp::{Context, Request, Server};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let service = Server::new().service(|ctx: &mut Context| ctx.response.text("hi"));
/// let response = service.respond(Request::get("/")?).await;
/// assert_eq!(response.body.text()?, "hi");
/// # Ok(())
/// # }
/// ```
pub struct Service<H: Handler> {
    worker: Rc<Worker<H>>,
    connections: Rc<Cell<u64>>,
}

impl<H: Handler> Service<H> {
    pub(super) fn new(handler: H, settings: &Settings) -> Service<H> {
        let worker = Worker::new(handler, settings, Watch::with_alarms(), Arc::default());
        Service { worker: Rc::new(worker), connections: Rc::default() }
    }

    /// Serves one connection until it closes, or is taken over. Any number may be served side by side.
    ///
    /// Who is at the other end only the caller knows, so handlers see [`PeerAddr::Memory`].
    ///
    /// # Errors
    ///
    /// What ended the connection early. The peer has been told already, if it could be.
    pub fn serve_connection(
        &self,
        io: impl AsyncRead + AsyncWrite + 'static,
    ) -> impl Future<Output = io::Result<()>> {
        self.serve_connection_from(PeerAddr::Memory, io)
    }

    /// Serves one connection until it closes, with `peer` at its other end: that is what handlers see, and what
    /// [`Server::on_error`](super::Server::on_error) hears.
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
    ///     ctx.response.text(ctx.peer_addr().to_string());
    /// });
    /// let listener = TcpListener::bind("127.0.0.1:0").await?;
    /// # let client = TcpStream::connect(listener.local_addr()?).await?;
    /// LocalSet::new()
    ///     .run_until(async {
    ///         let mut connections = JoinSet::new();
    ///         let (stream, peer) = listener.accept().await?; // as often as it is wanted
    ///         let serving = service.clone();
    ///         connections.spawn_local(async move { serving.serve_connection_from(peer.into(), stream).await });
    ///         // The end: what is being answered is, and then nobody is left.
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
        // Made here and not in the future, which would have room for `io` as long as the connection lasts.
        let mut connection = Connection::new(self.worker.clone(), self.connect(peer, io));
        async move {
            let served = connection.serve().await;
            self.worker.trim_if_due();
            served.map(drop)
        }
    }

    /// Stops gracefully, for all clones: idle connections are closed, and the others after the answer they are waiting
    /// for, which says `connection: close`. A connection that has not sent a request yet has a second to do so.
    ///
    /// Returns at once; each [`Service::serve_connection`] returns when its connection is done, and dropping its future
    /// cuts the connection. Connections served after this get one answer, and are closed.
    pub fn stop(&self) {
        self.worker.shared.watch.stop();
    }

    /// Answers one request without a connection, for tests of handlers. As on a connection the handler is asked for its
    /// plan first, and a body that is more than may be buffered is refused. One that is a stream is received first, whatever
    /// the plan is.
    ///
    /// The response is as the handler has left it, without the fields that are computed when it is sent, and with the
    /// content of an answer to HEAD. What the handler writes by [`Context::stream`] is the body; that of an answer which
    /// would be aborted ends there.
    ///
    /// [`Context::stream`]: super::Context::stream
    #[doc(alias = "oneshot")]
    pub async fn respond(&self, request: Request) -> Response {
        respond(&self.worker, request, |nobody| self.connect(PeerAddr::Memory, nobody)).await
    }

    fn connect(&self, peer: PeerAddr, io: impl AsyncRead + AsyncWrite + 'static) -> Conn {
        let id = self.connections.get() + 1;
        self.connections.set(id);
        let deadline = self.worker.shared.watch.deadline(Peer { addr: peer, id });
        Conn::new(Transport::boxed(io), deadline)
    }
}

impl<H: Handler> Clone for Service<H> {
    fn clone(&self) -> Service<H> {
        Service { worker: self.worker.clone(), connections: self.connections.clone() }
    }
}

impl<H: Handler> fmt::Debug for Service<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Service").finish_non_exhaustive()
    }
}
