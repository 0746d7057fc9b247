//! [`WebSocket`]: an open WebSocket (RFC 6455), at a server or at a client.

use std::fmt;
use std::io;
use std::sync::Arc;

use super::options::Options;
use super::reader::Reader;
use super::writer::Writer;
use crate::net::{Conn, ReadBuffer};
use crate::runtime::MemoryBudget;
use crate::server::WebSocketCounter;
use crate::websocket::codec::{Decoder, DeflateParams, Encoder};
use crate::websocket::frame::{CloseCode, CloseReason, Message};
use crate::websocket::link::private::RoleParts;
use crate::websocket::link::{ClientRole, Half, Link, Role, ServerRole, Shared};

/// An open WebSocket (RFC 6455): messages in both directions, over one connection.
///
/// Made by [`Context::websocket`](crate::Context::websocket) at a server. The client's is a [`ClientWebSocket`], made by
/// [`Client::websocket`](crate::Client::websocket), and does the same.
///
/// A received message is a view until the next call. To send meanwhile, use the reader and the writer on their own:
/// borrow them as in the example, or move them into two tasks of the core.
///
/// All bounds are in [`Options`], with defaults.
///
/// A WebSocket whose halves are dropped is closed in the background. Waiting messages are sent, then a close frame unless one
/// was sent already. The connection is closed once the peer has closed, too, or after [`Options::close_timeout`]. The code is
/// then 1011 from a server, whose handler may have failed, and 1001 from a client. For another code, see [`WebSocket::close`].
///
/// A silent WebSocket holds no buffer. In its handler it still holds the context and the request: 4.0 KB in all. Moved
/// to a task of its core (`tokio::task::spawn_local`), after the end of the handler, it holds 1.8 KB.
///
/// # Examples
///
/// ```no_run
/// use corehttp::{Context, Server};
/// use corehttp::websocket::{self, WebSocket};
///
/// async fn echo(ctx: &mut Context) -> corehttp::Result {
///     let mut socket = ctx.websocket(&websocket::Options::default()).await?;
///     let WebSocket { reader, writer, .. } = &mut socket;
///     while let Some(message) = reader.receive().await? {
///         writer.send(message).await?;
///     }
///     Ok(())
/// }
///
/// fn main() -> corehttp::Result {
///     Server::bind("127.0.0.1:8080").run(echo)
/// }
/// ```
#[non_exhaustive]
pub struct WebSocket<R: Role = ServerRole> {
    /// Receives messages.
    pub reader: Reader<R>,
    /// Sends messages.
    pub writer: Writer<R>,
    /// The subprotocol that was agreed on, one of [`Options::protocols`].
    pub protocol: Option<Box<str>>,
}

/// The client's end of a WebSocket, which may move between threads.
pub type ClientWebSocket = WebSocket<ClientRole>;

/// The outcome of an opening handshake.
#[derive(Default)]
pub(super) struct Agreement {
    pub(super) protocol: Option<Box<str>>,
    pub(super) deflate: Option<DeflateParams>,
}

/// The parts of a WebSocket that only a server has.
pub(super) struct ServerParts<G> {
    pub(super) counter: WebSocketCounter,
    /// The memory that the peers of the server share.
    pub(super) memory_budget: MemoryBudget,
    /// The guard by which the server counts the connection.
    pub(super) guard: G,
}

impl<R: Role> WebSocket<R> {
    /// A WebSocket over `conn`, on which `early` has arrived already.
    pub(super) fn new(
        conn: Conn<<R as RoleParts>::Locality>,
        early: &ReadBuffer,
        options: &Options,
        agreement: Agreement,
        server: Option<ServerParts<R::Guard>>,
        close_in_background: fn(Arc<Shared<R>>),
    ) -> WebSocket<R> {
        let (counter, memory_budget, guard) = match server {
            Some(ServerParts { counter, memory_budget, guard }) => {
                (Some(counter), memory_budget, Some(guard))
            }
            None => (None, MemoryBudget::default(), None),
        };
        let Agreement { protocol, deflate } = agreement;
        let encoder = Encoder::new(R::SIDE, deflate.zip(options.deflate));
        let decoder = Decoder::new(R::SIDE, options.message_bounds(), deflate);
        let link = Link::new(conn, options.link_bounds(), encoder, memory_budget.clone(), guard);
        let (reading, writing) = Half::pair(link, counter, close_in_background);
        WebSocket {
            reader: Reader::new(reading, early.unread(), decoder, memory_budget, options.control_rate_max),
            writer: Writer { half: writing },
            protocol,
        }
    }

    /// Receives a message: see [`Reader::receive`].
    ///
    /// # Errors
    ///
    /// As [`Reader::receive`].
    pub async fn receive(&mut self) -> io::Result<Option<Message<'_>>> {
        self.reader.receive().await
    }

    /// Sends a message: see [`Writer::send`].
    ///
    /// # Errors
    ///
    /// As [`Writer::send`].
    pub async fn send(&mut self, message: impl Into<Message<'_>>) -> io::Result<()> {
        self.writer.send(message).await
    }

    /// Closes the WebSocket with `code`, and a `reason` of up to 123 bytes (RFC 6455 §7).
    ///
    /// Sends a close frame, and waits for that of the peer, no longer than [`Options::close_timeout`]. Messages
    /// meanwhile are discarded.
    ///
    /// # Errors
    ///
    /// Fails if the connection ends before a close frame of the peer. Also fails if the peer does not close in time.
    ///
    /// Fails with an [`Error`](crate::websocket::Error) for a code that must not be sent ([`Writer::close`]), and for a
    /// reason of more than 123 bytes. Fails in the same way if the peer breaks RFC 6455.
    ///
    /// # Examples
    ///
    /// ```
    /// use corehttp::Context;
    /// use corehttp::websocket::{self, CloseCode};
    ///
    /// async fn greet(ctx: &mut Context) -> corehttp::Result {
    ///     let mut socket = ctx.websocket(&websocket::Options::default()).await?;
    ///     socket.send("Hello, and good bye!").await?;
    ///     Ok(socket.close(CloseCode::NORMAL, "").await?)
    /// }
    /// # let _ = corehttp::Server::new().service(greet);
    /// ```
    pub async fn close(&mut self, code: CloseCode, reason: &str) -> io::Result<()> {
        let sent = self.writer.close(code, reason).await;
        if sent.is_err() && !self.writer.is_closed() {
            return sent;
        }
        // A peer that has closed takes no close frame, and its own may be here.
        loop {
            match self.reader.receive_part().await {
                Ok(Some(_)) => {}
                Ok(None) => return Ok(()),
                Err(error) => return sent.and(Err(error)),
            }
        }
    }

    /// Returns the content of the peer's close frame. `None` if there is none.
    pub fn close_reason(&self) -> Option<&CloseReason> {
        self.reader.close_reason()
    }
}

impl<R: Role> fmt::Debug for WebSocket<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WebSocket").field("protocol", &self.protocol).finish_non_exhaustive()
    }
}
