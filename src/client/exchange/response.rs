//! A received [`Response`]: the [`ClientConnection`] that it came over, and its status as an error.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

use crate::client::error::{ClientCause, ClientError, ClientPhase, RetryLog, RetryReport, RetryStop};
use crate::message::Response;
use crate::net::{BoxedStream, Transport, tls};
use crate::runtime::{self, Instant};

/// The connection that a response came over. Made by [`Response::connection`].
pub struct ClientConnection {
    peer: Option<SocketAddr>,
    pub(crate) tls: Option<Arc<tls::Session>>,
    pub(crate) opened_at: Instant,
}

impl ClientConnection {
    /// The connection over `transport`, which has just been opened.
    pub(crate) fn new(transport: &Transport<BoxedStream>) -> ClientConnection {
        let peer = transport.peer_addr();
        let tls = transport.tls_session();
        ClientConnection { peer, tls, opened_at: runtime::now() }
    }

    /// Returns the address of the server, or of the proxy in front of it. `None` if the connection is not over TCP or was
    /// opened by a [`Dialer`](crate::net::Dialer).
    pub fn peer_addr(&self) -> Option<SocketAddr> {
        self.peer
    }
}

impl Response {
    /// Returns the connection that this response came over. `None` if no client has received it. Whether the connection had
    /// been used before is in [`Response::timings`].
    ///
    /// # Examples
    ///
    /// ```
    /// # use corehttp::{Client, Context, Server};
    /// # let server = Server::bind("127.0.0.1:0").cores(1).start(|ctx: &mut Context| ctx.response.set_text("Hello"))?;
    /// # let url = server.to_string();
    /// # corehttp::block_on(async {
    /// let response = Client::new().get(&url).await?;
    /// let connection = response.connection().expect("a client has received it");
    /// println!("{:?} speaks {}", connection.peer_addr(), response.version());
    /// # assert_eq!(url, format!("http://{}", connection.peer_addr().unwrap()));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })??;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn connection(&self) -> Option<&ClientConnection> {
        self.origin_connection()?.downcast_ref()
    }

    /// Returns the failed attempts before the one of this response, if the client has a policy to
    /// [retry](crate::client::Retry). Each has its cause and the wait after it. After redirects, they are those at the last
    /// request.
    ///
    /// A hedged attempt is among them, with the cause [`RetryCause::Slow`](crate::client::RetryCause::Slow), even if this
    /// response is its own.
    pub fn retries(&self) -> &[RetryReport] {
        self.retry_log().map_or(&[], |log| &log.retries)
    }

    /// Returns why the client's policy did not send the request again after this response.
    ///
    /// `None` without a policy or without a failure. Also `None` if another attempt would not help, by
    /// [`Retry::is_transient`](crate::client::Retry::is_transient) or the function of
    /// [`Retry::retry_if`](crate::client::Retry::retry_if). By default, it would not after a 503 without `retry-after`.
    pub fn retry_stop(&self) -> Option<RetryStop> {
        self.retry_log()?.stop
    }

    fn retry_log(&self) -> Option<&RetryLog> {
        self.client_retries()?.downcast_ref()
    }

    /// Returns this response, or an error for a status of 4xx or 5xx (RFC 9110 §15.5, §15.6).
    ///
    /// The error names the URL of [`Response::url`], which the response of a [`RequestBuilder`](crate::RequestBuilder) has.
    /// With `?`, a handler answers with 500, whatever the status, because its own peer is not to blame. `Err(response.status)?`
    /// passes the status on.
    ///
    /// # Errors
    ///
    /// Fails with [`ClientCause::Status`]. The content is then gone. A program that needs it looks at
    /// [`Response::status`](crate::Response::status) instead.
    ///
    /// # Examples
    ///
    /// ```
    /// # use corehttp::{Context, Server, Status};
    /// # use corehttp::net::MemoryListener;
    /// use corehttp::Client;
    /// use corehttp::client::ClientCause;
    ///
    /// # let listener = MemoryListener::new();
    /// # let client = Client::builder().connect_to(&listener).build();
    /// # let server = Server::bind(listener).cores(1).start(|ctx: &mut Context| ctx.response.status = Status::NOT_FOUND)?;
    /// # corehttp::block_on(async {
    /// let error = client.get("http://example.com/a").await?.error_for_status().unwrap_err();
    /// assert_eq!(error.to_string(), "http://example.com/a: the server responded 404 Not Found");
    /// assert!(matches!(error.cause(), ClientCause::Status(status) if *status == 404));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })??;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn error_for_status(self) -> Result<Response, ClientError> {
        if !(self.status.is_client_error() || self.status.is_server_error()) {
            return Ok(self);
        }
        let error = ClientError::new(ClientPhase::Receive, ClientCause::Status(self.status));
        let error = error.on_connection(false, true);
        Err(match self.url {
            Some(url) => error.with_url(&url),
            None => error,
        })
    }
}

impl fmt::Debug for ClientConnection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientConnection")
            .field("peer_addr", &self.peer)
            .field("is_secure", &self.tls.is_some())
            .finish_non_exhaustive()
    }
}
