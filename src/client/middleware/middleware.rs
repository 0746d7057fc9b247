//! [`ClientMiddleware`], which surrounds the requests of a client; [`ClientNext`], the rest of its way.

use std::fmt;
use std::sync::Arc;

use super::attempt::{Attempt, AttemptDetails, SendFuture, Transmit};
use crate::client::error::{ClientCause, ClientError, ClientPhase};
use crate::message::Request;
use crate::runtime::{Instant, timeout_at};

/// Surrounds each attempt at a request of a client: tokens, signatures, ids, a log.
///
/// All requests pass through it, however they are sent: by a [`Client`](crate::Client), a [`Host`](crate::client::Host), a
/// [`Balancer`](crate::client::Balancer) or a [`Pipeline`](crate::client::Pipeline), whole or as a
/// [`Call`](crate::client::Call). So do those that open WebSockets or other protocols. [`ClientBuilder::wrap`] takes any
/// number of middleware, in the order in which requests pass.
///
/// While a call with a body passes, [`Attempt::response`] is `None`. Middleware for responses does nothing for it, and its
/// caller finds the 401 of an expired token. Content that was [consumed](crate::Body::is_consumed) cannot be sent once more.
///
/// Middleware is beneath retries and redirects. Each of their requests is an attempt of its own. Fields of cookies, traces and
/// [defaults](crate::ClientBuilder::default_header) are added after it. A client without middleware spends nothing on it. With
/// middleware, each attempt costs a copy of the request, and a few allocations.
///
/// A function of `&mut Attempt` is middleware, and does its work before the request is sent:
///
/// ```
/// # use corehttp::{Context, Server};
/// # use corehttp::net::MemoryListener;
/// use corehttp::Client;
/// use corehttp::client::Attempt;
///
/// # let listener = MemoryListener::new();
/// # let server = Server::bind(&listener).cores(1).start(|ctx: &mut Context| {
/// #     ctx.response.set_text(ctx.request.headers.get("x-attempt").unwrap_or_default());
/// # })?;
/// # corehttp::block_on(async {
/// let count = |attempt: &mut Attempt<'_>| {
///     let number = attempt.number();
///     attempt.request.headers.set("x-attempt", number)?;
///     Ok(())
/// };
/// let client = Client::builder().wrap(count).build();
/// # let client = Client::builder().connect_to(listener).wrap(count).build();
/// let response = client.get("http://example.com/").await?;
/// assert_eq!(response.text()?, "1");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })??;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// A type does work on both sides of [`ClientNext::send`], or sends more than once:
///
/// ```
/// # use corehttp::{Context, Server};
/// # use corehttp::net::MemoryListener;
/// use corehttp::client::{Attempt, ClientMiddleware, ClientNext};
/// use corehttp::{Client, ClientError, Status};
/// use tokio::sync::Mutex;
///
/// /// A token of one API, which is renewed when the API refuses it.
/// struct Token {
///     origin: &'static str,
///     token: Mutex<String>,
/// }
///
/// impl Token {
///     /// Returns another token than the `refused` one. All requests that wait get the same.
///     async fn other_than(&self, refused: &str) -> String {
///         let mut token = self.token.lock().await;
///         if *token == refused {
///             *token = "second".to_owned(); // from the authorization server, with a client of its own
///         }
///         token.clone()
///     }
/// }
///
/// impl ClientMiddleware for Token {
///     async fn call(&self, attempt: &mut Attempt<'_>, next: ClientNext<'_>) -> Result<(), ClientError> {
///         if attempt.origin() != self.origin {
///             return next.send(attempt).await; // a redirect must not take the token elsewhere
///         }
///         let token = self.token.lock().await.clone();
///         attempt.request.set_bearer_auth(&token)?;
///         next.send(attempt).await?;
///         let is_refused = attempt.response().is_some_and(|response| response.status == Status::UNAUTHORIZED);
///         // A stream that cannot be sent again leaves its caller the 401.
///         if is_refused && !attempt.request.body.is_consumed() {
///             let token = self.other_than(&token).await;
///             attempt.request.set_bearer_auth(&token)?;
///             next.send(attempt).await?;
///         }
///         Ok(())
///     }
/// }
///
/// # let listener = MemoryListener::new();
/// # let server = Server::bind(&listener).cores(1).start(|ctx: &mut Context| {
/// #     if ctx.request.bearer_auth() != Some("second") {
/// #         ctx.response.status = Status::UNAUTHORIZED;
/// #     }
/// # })?;
/// # corehttp::block_on(async {
/// let token = Token { origin: "https://api.example", token: Mutex::new("first".to_owned()) };
/// let client = Client::builder().wrap(token).build();
/// # let token = Token { origin: "http://api.example", token: Mutex::new("first".to_owned()) };
/// # let client = Client::builder().connect_to(listener).wrap(token).build();
/// # assert_eq!(client.get("http://api.example/").await?.status, Status::OK);
/// # assert_eq!(client.get("http://other.example/").await?.status, Status::UNAUTHORIZED);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })??;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// [`ClientBuilder::wrap`]: crate::ClientBuilder::wrap
#[doc(alias("RoundTripper", "interceptor", "layer", "before_request"))]
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not middleware of a client",
    note = "it is a type with `impl ClientMiddleware`, or a function or closure of `attempt: &mut Attempt<'_>` that returns \
            `Result<(), ClientError>`; write out the type of its parameter",
    note = "an observer, which changes nothing, is given to `observe(..)`, and middleware of a server to `wrap(..)` there"
)]
pub trait ClientMiddleware: Send + Sync + 'static {
    /// Sends the request of `attempt` by [`next.send(attempt)`](ClientNext::send), and may change it before.
    ///
    /// Each further `send` sends the request once more, whatever its method, and drops the response before. With a body that
    /// can be sent only once, it fails with [`ClientCause::BodyConsumed`](crate::client::ClientCause::BodyConsumed). Bytes,
    /// files and what [`Body::set_stream_with`](crate::Body::set_stream_with) makes are sent again.
    ///
    /// The time that middleware takes counts for the [timeout](crate::ClientBuilder::timeout) of the whole exchange, and for
    /// no phase.
    ///
    /// # Errors
    ///
    /// The error is that of the attempt. One of `next` may bring a retry. By default, one of
    /// [`ClientError::other`](crate::ClientError::other) does not (see [`Retry::retry_if`](crate::client::Retry::retry_if)).
    /// Middleware that succeeds without a response fails with [`ClientCause::NotSent`](crate::client::ClientCause::NotSent).
    /// Such middleware has not sent the request, or has dropped the future. After a drop, [`ClientError::is_sent`] is true,
    /// since some of the request may have left.
    fn call(
        &self,
        attempt: &mut Attempt<'_>,
        next: ClientNext<'_>,
    ) -> impl Future<Output = Result<(), ClientError>> + Send;
}

impl<F> ClientMiddleware for F
where
    F: Fn(&mut Attempt<'_>) -> Result<(), ClientError> + Send + Sync + 'static,
{
    async fn call(&self, attempt: &mut Attempt<'_>, next: ClientNext<'_>) -> Result<(), ClientError> {
        self(attempt)?;
        next.send(attempt).await
    }
}

impl<M: ClientMiddleware> ClientMiddleware for Arc<M> {
    fn call(
        &self,
        attempt: &mut Attempt<'_>,
        next: ClientNext<'_>,
    ) -> impl Future<Output = Result<(), ClientError>> + Send {
        (**self).call(attempt, next)
    }
}

/// The rest of a request's way: the [middleware](ClientMiddleware) after this one, and the server.
#[derive(Clone, Copy)]
pub struct ClientNext<'a> {
    rest: &'a [Arc<dyn AnyMiddleware>],
}

impl ClientNext<'_> {
    /// Sends the request of `attempt`, and waits for the head of the response. [`Attempt::response`] returns it.
    ///
    /// For a [`Call`](crate::client::Call) with a body, the method waits until the head of the request is sent.
    ///
    /// # Errors
    ///
    /// As [`Client::send`](crate::Client::send), or with the error of other middleware. A status of 4xx or 5xx is no error.
    pub async fn send(self, attempt: &mut Attempt<'_>) -> Result<(), ClientError> {
        match self.rest.split_first() {
            Some((first, rest)) => first.call_boxed(attempt, ClientNext { rest }).await,
            None => attempt.transmit().await,
        }
    }
}

impl fmt::Debug for ClientNext<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientNext").field("middleware", &self.rest.len()).finish()
    }
}

/// Middleware of any type.
trait AnyMiddleware: Send + Sync {
    fn call_boxed<'x>(&'x self, attempt: &'x mut Attempt<'_>, next: ClientNext<'x>) -> SendFuture<'x>;
}

impl<M: ClientMiddleware> AnyMiddleware for M {
    fn call_boxed<'x>(&'x self, attempt: &'x mut Attempt<'_>, next: ClientNext<'x>) -> SendFuture<'x> {
        Box::pin(self.call(attempt, next))
    }
}

/// The middleware of a client, in the order in which requests pass.
#[derive(Clone, Default)]
pub(in crate::client) struct Middlewares(Vec<Arc<dyn AnyMiddleware>>);

impl Middlewares {
    pub(in crate::client) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds the innermost one.
    pub(in crate::client) fn push(&mut self, middleware: impl ClientMiddleware) {
        self.0.push(Arc::new(middleware));
    }
}

/// Passes a request through `middleware` to `transmit`, until `deadline` at the latest. It has been sent then.
///
/// # Errors
///
/// Fails as middleware or `transmit` does, or if middleware is content although the request was not sent. The error says
/// whether it was sent before.
pub(in crate::client) async fn surround(
    middleware: &Middlewares,
    request: &Request,
    details: AttemptDetails<'_>,
    transmit: &mut dyn Transmit,
    deadline: Option<Instant>,
) -> Result<(), ClientError> {
    let mut attempt = Attempt::new(request.clone(), details, transmit);
    let passing = ClientNext { rest: &middleware.0 }.send(&mut attempt);
    let passed = match deadline {
        None => passing.await,
        Some(deadline) => timeout_at(deadline, passing).await.unwrap_or_else(|_| Err(late())),
    };
    attempt.end(passed)
}

/// The error of middleware that was still busy when the whole exchange had to be complete.
fn late() -> ClientError {
    ClientError::new(ClientPhase::Prepare, ClientCause::TimedOut)
}
