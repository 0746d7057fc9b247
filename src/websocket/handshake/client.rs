//! [`ClientRequest`]: opens a WebSocket at a client (RFC 6455 §4.1).

use std::fmt;
use std::future::IntoFuture;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use super::handshake::{KEY, PROTOCOL, VERSION, VERSION_VALUE, check_response, new_key};
use crate::client::client::Client;
use crate::client::request_builder::RequestBuilder;
use crate::client::{ClientError, ClientTimeouts, not_prepared, switch_protocols};
use crate::memory::Reset;
use crate::message::{FieldValue, Response};
use crate::runtime::Handle;
use crate::websocket::codec::{EXTENSIONS, offer, read_answer};
use crate::websocket::link::{ClientRole, Shared, close_dropped};
use crate::websocket::options::Options;
use crate::websocket::websocket::{Agreement, ClientWebSocket, WebSocket};

/// A request that opens a WebSocket, made by [`Client::websocket`].
///
/// `.await` sends it, and returns the open WebSocket.
#[must_use = "a WebSocket is opened by `.await`"]
pub struct ClientRequest {
    builder: RequestBuilder,
    options: Options,
}

impl Client {
    /// Opens a WebSocket (RFC 6455 §4.1) at a URL with the scheme `ws` or `wss`. `http` and `https` mean the same.
    ///
    /// The connection is opened as for any other request: through the proxies of the client, by TLS for `wss`, with its
    /// default fields and cookies, and within its time limits. HTTP proxies are asked for a tunnel, also for `ws`
    /// (§4.1). Redirects are not followed.
    ///
    /// # Examples
    ///
    /// ```
    /// # use corehttp::{Context, Server};
    /// # use corehttp::net::MemoryListener;
    /// # use corehttp::websocket::WebSocket;
    /// use corehttp::Client;
    /// use corehttp::websocket::{self, CloseCode, Message};
    ///
    /// # let listener = MemoryListener::new();
    /// # let server = Server::bind(&listener).cores(1).start(async |ctx: &mut Context| -> corehttp::Result {
    /// #     assert_eq!(ctx.request.bearer_auth(), Some("t0k3n"));
    /// #     let mut socket = ctx.websocket(&websocket::Options::default()).await?;
    /// #     let WebSocket { reader, writer, .. } = &mut socket;
    /// #     while let Some(message) = reader.receive().await? { writer.send(message).await?; }
    /// #     Ok(())
    /// # })?;
    /// # corehttp::block_on(async {
    /// let client = Client::new();
    /// # let client = Client::builder().connect_to(listener).build();
    /// let mut socket = client.websocket("ws://example.com/echo").bearer_auth("t0k3n").await?;
    /// socket.send("hello").await?;
    /// assert_eq!(socket.receive().await?, Some(Message::Text("hello")));
    /// socket.close(CloseCode::NORMAL, "").await?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })??;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn websocket(&self, url: &str) -> ClientRequest {
        let split = url.split_once(':');
        let url = match split {
            Some((scheme, rest)) if scheme.eq_ignore_ascii_case("ws") => format!("http:{rest}"),
            Some((scheme, rest)) if scheme.eq_ignore_ascii_case("wss") => format!("https:{rest}"),
            _ => url.to_owned(),
        };
        ClientRequest { builder: self.get(&url), options: Options::default() }
    }
}

impl ClientRequest {
    /// Sets the bounds, the subprotocols on offer, and the compression of messages.
    pub fn options(self, options: &Options) -> ClientRequest {
        ClientRequest { options: options.clone(), ..self }
    }

    /// Sets a field: see [`RequestBuilder::header`]. A server may expect an `origin`, for example.
    pub fn header(self, name: &str, value: impl FieldValue) -> ClientRequest {
        ClientRequest { builder: self.builder.header(name, value), ..self }
    }

    /// Sends a user-id and a password: see [`RequestBuilder::basic_auth`].
    pub fn basic_auth(self, user_id: &str, password: &str) -> ClientRequest {
        ClientRequest { builder: self.builder.basic_auth(user_id, password), ..self }
    }

    /// Sends a bearer token: see [`RequestBuilder::bearer_auth`].
    pub fn bearer_auth(self, token: &str) -> ClientRequest {
        ClientRequest { builder: self.builder.bearer_auth(token), ..self }
    }

    /// Sets the time limit for opening the WebSocket. Default: that of the client.
    pub fn timeout(self, total: impl Into<Option<Duration>>) -> ClientRequest {
        ClientRequest { builder: self.builder.timeout(total), ..self }
    }

    /// Sets the time limits of the phases of the opening. See [`RequestBuilder::timeouts`].
    pub fn timeouts(self, timeouts: ClientTimeouts) -> ClientRequest {
        ClientRequest { builder: self.builder.timeouts(timeouts), ..self }
    }

    /// Opens the WebSocket as `.await` does. The head of the response is in `response`. So is the body of a refusal,
    /// which usually has the reason.
    ///
    /// # Errors
    ///
    /// As `.await`.
    pub async fn send_into(self, response: &mut Response) -> Result<ClientWebSocket, ClientError> {
        response.reset();
        let ClientRequest { builder, options } = self;
        let key = new_key().map_err(not_prepared)?;
        let mut builder =
            builder.header("upgrade", "websocket").header(VERSION, VERSION_VALUE).header(KEY, &*key);
        if !options.protocols.is_empty() {
            builder = builder.header(PROTOCOL, options.protocols.join(", "));
        }
        if let Some(deflate) = options.deflate {
            builder = builder.header(EXTENSIONS, offer(deflate));
        }
        let mut agreement = Agreement::default();
        let check = |response: &Response| {
            let headers = &response.headers;
            let protocol = check_response(headers, key.as_bytes(), &options.protocols)?;
            let deflate = read_answer(headers, options.deflate).map_err(
                |_| "the server accepted an extension that was not offered, or with other parameters",
            )?;
            agreement = Agreement { protocol: protocol.map(Into::into), deflate };
            Ok(())
        };
        let (conn, early) = switch_protocols(builder, response, check).await?;
        Ok(WebSocket::new(*conn, &early, &options, agreement, None, close_in_background))
    }
}

/// Closes in a task, if there is a runtime.
fn close_in_background(shared: Arc<Shared<ClientRole>>) {
    if let Some(handle) = Handle::current() {
        handle.spawn(close_dropped(shared));
    }
}

impl IntoFuture for ClientRequest {
    type Output = Result<ClientWebSocket, ClientError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    /// Opens the WebSocket. `.await` calls it.
    ///
    /// # Errors
    ///
    /// Fails like [`Client::upgrade`]. A response of 101 that opens no such WebSocket also fails with
    /// [`ClientCause::Upgrade`](crate::client::ClientCause::Upgrade).
    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move { self.send_into(&mut Response::new()).await })
    }
}

impl fmt::Debug for ClientRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientRequest").field("request", &self.builder).finish_non_exhaustive()
    }
}
