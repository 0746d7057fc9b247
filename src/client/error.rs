//! [`ClientError`]: why an exchange brought no answer, in which phase it failed, and whether the server may have seen
//! the request.

use std::error::Error;
use std::fmt;
use std::io;

use super::refused::Refused;
use crate::coding::CodingError;
use crate::exchange::{ExchangeError, write_chain};
use crate::message::{InvalidRequest, InvalidTarget, Response, Status};
use crate::net::{DialError, Fault, TlsError};

/// Why an exchange brought no answer.
///
/// `{}` formats the phase and the cause, `{:#}` the whole chain of causes.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// use corehttp::{Client, ClientPhase};
///
/// let error = Client::new().get("http://127.0.0.1:1/").await.unwrap_err();
/// assert_eq!(error.phase(), ClientPhase::Connect);
/// assert!(!error.is_sent() && !error.is_reused() && !error.is_timeout());
/// # }
/// ```
///
/// A request can be sent again if it cannot have reached the server, or if it may have its effect twice:
///
/// ```
/// use std::time::Duration;
/// use corehttp::{Client, ClientError, Request, Response};
///
/// async fn send(client: &Client, request: &Request, response: &mut Response) -> Result<(), ClientError> {
///     for pause in [100, 200, 400].map(Duration::from_millis) {
///         match client.send(request, response).await {
///             Err(error) if !error.is_sent() || request.method().is_idempotent() => {
///                 eprintln!("again in {pause:?}: {error:#}");
///                 tokio::time::sleep(pause).await;
///             }
///             result => return result,
///         }
///     }
///     client.send(request, response).await
/// }
/// # let client = Client::new();
/// # let request = Request::get("http://127.0.0.1:1/")?;
/// # let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build()?;
/// # let error = runtime.block_on(send(&client, &request, &mut Response::new())).unwrap_err();
/// # assert!(!error.is_sent());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct ClientError(Box<Inner>);

struct Inner {
    phase: ClientPhase,
    is_reused: bool,
    is_sent: bool,
    cause: ClientCause,
}

/// The phase of an exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ClientPhase {
    /// Checking the request. Nothing has been dialed.
    Prepare,
    /// Waiting for a place among the connections of the host.
    Queue,
    /// Looking up the host's addresses.
    Resolve,
    /// Connecting, and asking the proxy if there is one.
    Connect,
    /// The TLS handshake.
    Tls,
    /// Sending the request.
    Send,
    /// Waiting for the head of the answer.
    Wait,
    /// Receiving the body of the answer.
    Receive,
    /// Following a redirect.
    Redirect,
}

/// The cause of a [`ClientError`].
#[derive(Debug)]
#[non_exhaustive]
pub enum ClientCause {
    /// The phase, or the whole exchange, took longer than it may.
    TimedOut,
    /// The request is invalid.
    Request(InvalidRequest),
    /// The target names no scheme and host, or not those of the [`Host`](super::Host) or [`Pipeline`](super::Pipeline);
    /// or it is more than a path, for a [`Balancer`](super::Balancer).
    Origin,
    /// There is no tokio runtime (see [`block_on`](crate::block_on)), or the runtime of a
    /// [`Pipeline`](super::Pipeline)'s connection has ended.
    NoRuntime,
    /// The name has no address, or the resolver, the operating system or the dialer failed.
    Io(io::Error),
    /// The server closed the connection without an answer.
    Closed,
    /// The exchange failed halfway, or the server broke RFC 9112 or a limit.
    Exchange(ExchangeError),
    /// The content cannot be decoded (RFC 9110 §8.4).
    Coding(CodingError),
    /// There were more interim answers than the client reads (RFC 9110 §15.2).
    TooManyInterim,
    /// The server switched protocols without being asked, did not switch when asked, or switched to another protocol.
    Upgrade,
    /// The proxy did not answer a CONNECT with success (see [`ClientError::proxy_response`]), or a SOCKS proxy did not
    /// connect.
    Proxy(Box<dyn Error + Send + Sync>),
    /// The TLS handshake failed, or this crate was built without the feature `tls`.
    Tls(TlsError),
    /// There were more redirects than the client follows.
    TooManyRedirects,
    /// The `location` of a redirect is empty, or not a URL that can be requested (RFC 9110 §15.4).
    Location(Option<InvalidTarget>),
    /// A redirect has several `location` fields, which lead to different places.
    Locations,
    /// A redirect leads from https to http, which would expose a confidential request.
    Downgrade,
    /// The request would have to be sent again, but its body was a stream, which can be sent only once.
    Spent,
    /// The request is of a kind that a [`Pipeline`](super::Pipeline) does not send.
    Pipelined,
    /// The connection of a [`Pipeline`](super::Pipeline) failed on another request before this one was answered.
    OutOfStep,
    /// The [`Balancer`](super::Balancer) has no host.
    NoHost,
}

impl ClientError {
    #[cold]
    pub(super) fn new(phase: ClientPhase, cause: ClientCause) -> ClientError {
        ClientError(Box::new(Inner { phase, is_reused: false, is_sent: false, cause }))
    }

    /// Adds what is known about the connection.
    pub(super) fn on(mut self, is_reused: bool, is_sent: bool) -> ClientError {
        (self.0.is_reused, self.0.is_sent) = (is_reused, is_sent);
        self
    }

    /// This error, of a request that another connection may have brought to the server before.
    pub(super) fn sent_before(mut self, is_sent: bool) -> ClientError {
        self.0.is_sent |= is_sent;
        self
    }

    /// A copy, for another request that failed for the same reason. Causes that cannot be cloned become text.
    pub(super) fn twin(&self) -> ClientError {
        let Inner { phase, is_reused, is_sent, cause } = &*self.0;
        let cause = match cause {
            ClientCause::Io(error) => ClientCause::Io(match error.raw_os_error() {
                Some(code) => io::Error::from_raw_os_error(code),
                None => io::Error::new(error.kind(), error.to_string()),
            }),
            ClientCause::Proxy(error) => ClientCause::Proxy(match error.downcast_ref::<Refused>() {
                Some(refused) => refused.clone().into(),
                None => error.to_string().into(),
            }),
            ClientCause::Tls(error) => ClientCause::Tls(error.twin()),
            ClientCause::NoRuntime => ClientCause::NoRuntime,
            ClientCause::TimedOut => ClientCause::TimedOut,
            other => ClientCause::Io(io::Error::other(other.to_string())),
        };
        ClientError::new(*phase, cause).on(*is_reused, *is_sent)
    }

    /// Returns the phase in which the exchange failed.
    pub fn phase(&self) -> ClientPhase {
        self.0.phase
    }

    /// Returns the cause.
    pub fn cause(&self) -> &ClientCause {
        &self.0.cause
    }

    /// Returns the answer of a proxy that opened no tunnel, with its status, its fields (such as `proxy-authenticate`), and
    /// of its content the first 64 KiB that came within a second.
    ///
    /// # Examples
    ///
    /// ```
    /// use corehttp::ClientError;
    ///
    /// fn explain(error: &ClientError) {
    ///     if let Some(refusal) = error.proxy_response() {
    ///         eprintln!("{}: {}", refusal.status, String::from_utf8_lossy(refusal.body.bytes()));
    ///     }
    /// }
    /// ```
    pub fn proxy_response(&self) -> Option<&Response> {
        match &self.0.cause {
            ClientCause::Proxy(error) => error.downcast_ref::<Refused>().map(|refused| &refused.0),
            _ => None,
        }
    }

    /// Returns whether the connection had been used before.
    pub fn is_reused(&self) -> bool {
        self.0.is_reused
    }

    /// Returns whether the server may have seen some of the request, and acted on it.
    pub fn is_sent(&self) -> bool {
        self.0.is_sent
    }

    /// Returns whether a time limit was exceeded.
    pub fn is_timeout(&self) -> bool {
        match &self.0.cause {
            ClientCause::TimedOut | ClientCause::Exchange(ExchangeError::TimedOut(_)) => true,
            ClientCause::Io(error) | ClientCause::Exchange(ExchangeError::Io(error)) => {
                error.kind() == io::ErrorKind::TimedOut
            }
            _ => false,
        }
    }

    /// The failure of the connection, or else this error.
    pub(super) fn into_failure(self) -> Result<ExchangeError, ClientError> {
        match self.0.cause {
            ClientCause::Exchange(failure @ ExchangeError::Io(_)) => Ok(failure),
            _ => Err(self),
        }
    }

    /// Returns the status with which a gateway reports this failure of the server behind it: 504 for a timeout,
    /// otherwise 502 (RFC 9110 §15.6.3, §15.6.5). A TRACE with content is not forwarded, and the peer is to blame: 400.
    ///
    /// A handler that passes the error on with `?` answers with 500 instead, because not every handler that sends a
    /// request is a gateway.
    ///
    /// # Examples
    ///
    /// ```
    /// use corehttp::{Client, Context, Error};
    ///
    /// async fn relay(client: &Client, ctx: &mut Context) -> corehttp::Result {
    ///     let mut onward = ctx.request.target_to("http://backend:8080")?;
    ///     onward.body = std::mem::take(&mut ctx.request.body);
    ///     let asked = client.send(&onward, &mut ctx.response).await; // fields that middleware has set are lost
    ///     asked.map_err(|error| Error::new(error.owed(), error))?;
    ///     ctx.response = std::mem::take(&mut ctx.response).forwarded();
    ///     Ok(())
    /// }
    /// ```
    pub fn owed(&self) -> Status {
        match &self.0.cause {
            ClientCause::Request(InvalidRequest::Content) => Status::BAD_REQUEST,
            _ if self.is_timeout() => Status::GATEWAY_TIMEOUT,
            _ => Status::BAD_GATEWAY,
        }
    }
}

impl fmt::Display for ClientError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match f.alternate() {
            true => write_chain(f, self),
            false => write!(f, "{}: {}", self.0.phase, self.0.cause),
        }
    }
}

impl fmt::Debug for ClientError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Inner { phase, is_reused, is_sent, cause } = &*self.0;
        f.debug_struct("ClientError")
            .field("phase", phase)
            .field("is_reused", is_reused)
            .field("is_sent", is_sent)
            .field("cause", cause)
            .finish()
    }
}

impl Error for ClientError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match &self.0.cause {
            ClientCause::Request(error) => Some(error),
            ClientCause::Io(error) => Some(error),
            ClientCause::Exchange(error) => Some(error),
            ClientCause::Coding(error) => Some(error),
            ClientCause::Proxy(error) => Some(&**error),
            ClientCause::Tls(error) => Some(error),
            ClientCause::Location(Some(error)) => Some(error),
            _ => None,
        }
    }
}

impl From<InvalidRequest> for ClientError {
    fn from(error: InvalidRequest) -> ClientError {
        ClientError::new(ClientPhase::Prepare, ClientCause::Request(error))
    }
}

impl From<DialError> for ClientError {
    fn from(error: DialError) -> ClientError {
        let (phase, fault) = match error {
            DialError::Resolve(fault) => (ClientPhase::Resolve, fault),
            DialError::Connect(fault) => (ClientPhase::Connect, fault),
        };
        let cause = match fault {
            Fault::Expired => ClientCause::TimedOut,
            Fault::Io(error) => ClientCause::Io(error),
        };
        ClientError::new(phase, cause)
    }
}

impl From<ClientError> for io::Error {
    fn from(error: ClientError) -> io::Error {
        let kind = match error.cause() {
            ClientCause::Io(error) => error.kind(),
            ClientCause::Closed | ClientCause::Exchange(ExchangeError::Incomplete) => {
                io::ErrorKind::UnexpectedEof
            }
            _ if error.is_timeout() => io::ErrorKind::TimedOut,
            _ => io::ErrorKind::Other,
        };
        io::Error::new(kind, error)
    }
}

impl fmt::Display for ClientPhase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ClientPhase::Prepare => "the request",
            ClientPhase::Queue => "waiting for a connection",
            ClientPhase::Resolve => "looking up the host",
            ClientPhase::Connect => "connecting",
            ClientPhase::Tls => "the handshake",
            ClientPhase::Send => "sending the request",
            ClientPhase::Wait => "waiting for the answer",
            ClientPhase::Receive => "receiving the body",
            ClientPhase::Redirect => "following a redirect",
        })
    }
}

impl fmt::Display for ClientCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ClientCause::TimedOut => "it took too long",
            ClientCause::Request(_) => "it cannot be made",
            ClientCause::Origin => "its target has no scheme and host, or others than those asked",
            ClientCause::NoRuntime => "there is no tokio runtime, or it has ended",
            ClientCause::Io(_) => "the system or the network failed",
            ClientCause::Closed => "the server closed the connection without an answer",
            ClientCause::Exchange(_) => "the exchange failed",
            ClientCause::Coding(_) => "the content cannot be decoded",
            ClientCause::TooManyInterim => "there were too many interim answers",
            ClientCause::Upgrade => "the server upgraded unasked, or did not when asked",
            ClientCause::Proxy(_) => "the proxy refused",
            ClientCause::Tls(_) => "the connection is not secure",
            ClientCause::TooManyRedirects => "there were too many",
            ClientCause::Location(_) => "it has no usable location",
            ClientCause::Locations => "it leads to several places",
            ClientCause::Downgrade => "it leads from https to http",
            ClientCause::Spent => "the body was a stream, and is gone",
            ClientCause::Pipelined => "it cannot be pipelined",
            ClientCause::OutOfStep => "the connection broke on another request",
            ClientCause::NoHost => "there is no host to ask",
        })
    }
}
