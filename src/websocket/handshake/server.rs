//! [`Context::websocket`]: opens a WebSocket at a server (RFC 6455 §4.2).

use std::io;
use std::sync::Arc;

use super::handshake::{ACCEPT, PROTOCOL, VERSION, VERSION_VALUE, check_request, choose_protocol};
use crate::message::FieldName;
use crate::runtime::boxed;
use crate::server::{Context, WebSocketConn};
use crate::websocket::codec::{EXTENSIONS, accept_offer};
use crate::websocket::frame::{Error, HandshakeFault};
use crate::websocket::link::{Link, ServerRole, Shared, close_dropped};
use crate::websocket::options::Options;
use crate::websocket::websocket::{Agreement, ServerParts, WebSocket};

impl Context {
    /// Opens a WebSocket (RFC 6455 §4.2).
    ///
    /// Checks the request and the origin of the page, answers 101 with the response's fields, and hands the connection
    /// over. Frames that have come with the request are received first.
    ///
    /// The WebSocket may be used in the handler, or in a task of the same core. While it is open, it counts as one of
    /// the server's connections. At a stop of the server, a running [receive](crate::websocket::Reader::receive) closes
    /// it with code 1001, within the grace.
    ///
    /// A router sends the requests for a WebSocket to a handler for GET. [`Timeouts::handler`](crate::Timeouts::handler)
    /// ends when the WebSocket is open.
    ///
    /// # Errors
    ///
    /// Fails with an [`Error::Handshake`](crate::websocket::Error::Handshake) or a
    /// [`RespondError`](crate::server::RespondError) if the request does not ask for a WebSocket properly. In a
    /// handler, `?` turns that into:
    ///
    /// - 426 if the request does not ask for the upgrade or for version 13.
    /// - 405 if its method is not GET.
    /// - 400 for content, or for a missing or malformed key.
    /// - 403 if a page of another origin asks.
    ///
    /// Fails with a `RespondError` of status 500 without a connection, and if a response has been sent. Also fails if
    /// the connection does, and for a subprotocol not valid in a field.
    ///
    /// # Examples
    ///
    /// Options that all WebSockets of a handler share:
    ///
    /// ```
    /// use corehttp::{Context, Server};
    /// use corehttp::websocket::{self, DeflateOptions, WebSocket};
    ///
    /// async fn shout(ctx: &mut Context, options: &websocket::Options) -> corehttp::Result {
    ///     let mut socket = ctx.websocket(options).await?;
    ///     let WebSocket { reader, writer, .. } = &mut socket;
    ///     while let Some(message) = reader.receive().await? {
    ///         let text = message.text().unwrap_or("what?").to_uppercase();
    ///         writer.send(&text).await?;
    ///     }
    ///     Ok(())
    /// }
    ///
    /// let deflate = Some(DeflateOptions::default());
    /// let options = websocket::Options { deflate, ..websocket::Options::default() };
    /// let server = Server::bind("127.0.0.1:8080");
    /// # let _ = || -> corehttp::Result {
    /// server.run(async move |ctx: &mut Context| shout(ctx, &options).await)
    /// # };
    /// ```
    pub async fn websocket(&mut self, options: &Options) -> io::Result<WebSocket> {
        // Boxed, or the future of the handler would be as large for good as it is while the WebSocket is opened.
        boxed(|| self.open_websocket(options)).await
    }

    async fn open_websocket(&mut self, options: &Options) -> io::Result<WebSocket> {
        self.check_upgrade_to(PROTOCOL_NAME)?;
        let checked = check_request(&self.request, &options.origins, self.forwarded().authority);
        let Context { request, response, .. } = self;
        let accept = checked.inspect_err(|error| match error {
            HandshakeFault::Method => {
                // The only method, which a 405 must name (RFC 9110 §15.5.6).
                response.headers.put(FieldName::new("allow"), b"GET");
            }
            HandshakeFault::Version => {
                // The version that would be accepted (§4.4), and the protocol, which a 426 must name.
                response.headers.put(FieldName::new(VERSION), VERSION_VALUE.as_bytes());
                response.headers.put(FieldName::UPGRADE, PROTOCOL_NAME.as_bytes());
            }
            _ => {}
        });
        let accept = accept.map_err(Error::from)?;
        let protocol = choose_protocol(&request.headers, &options.protocols);
        let offer = options.deflate.and_then(|deflate| accept_offer(&request.headers, deflate));
        let mut set = |name: &str, value: &[u8]| response.headers.set(name, value).map_err(io::Error::other);
        set(ACCEPT, &accept)?;
        if let Some(protocol) = protocol {
            set(PROTOCOL, protocol.as_bytes())?;
        }
        let deflate = match offer {
            Some((params, answer)) => {
                set(EXTENSIONS, answer.as_bytes())?;
                Some(params)
            }
            None => None,
        };
        let agreement = Agreement { protocol: protocol.map(Into::into), deflate };
        let upgraded = self.upgrade_to_websocket().await;
        let WebSocketConn { conn, early, counter, memory_budget, guard } = upgraded.inspect_err(|_| {
            // The error is answered by another response, which accepts nothing.
            self.response.headers.remove_each(&[ACCEPT, PROTOCOL, EXTENSIONS].map(FieldName::new));
        })?;
        let socket = WebSocket::new(
            conn,
            &early,
            options,
            agreement,
            Some(ServerParts { counter, memory_budget, guard }),
            close_in_background,
        );
        let shared = Arc::downgrade(socket.writer.half.shared());
        self.set_on_handler_wait(move |cx| {
            if let Some(shared) = shared.upgrade() {
                shared.with(|link| link.flush_held_back(cx));
            }
        });
        Ok(socket)
    }
}

/// Leaves the close to the connection of the server, which lasts until then.
fn close_in_background(shared: Arc<Shared<ServerRole>>) {
    if let Some(guard) = shared.with(Link::take_guard) {
        // Without a connection of the server, the future is dropped, and closes at once.
        let _ = guard.send(Box::pin(close_dropped(shared)));
    }
}

const PROTOCOL_NAME: &str = "websocket";
