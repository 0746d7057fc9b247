//! [`ClientError`]: why an exchange brought no response, in which phase it failed, and whether the server may have seen
//! the request.

use std::error::Error;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use super::cause::{ClientCause, ClientPhase, ProxyRefusal};
use super::retry_report::{RetryLog, RetryReport, RetryStop};
use crate::coding::CodingError;
use crate::error_text::{SharedError, TimeLimit, write_error};
use crate::exchange::ExchangeError;
use crate::message::{ContentError, MessageError, Response, Status};
use crate::net::{ConnError, DialError};
use crate::wire::WireError;

/// Why an exchange brought no response.
///
/// `{}` formats the URL, the phase, the peer, and the exceeded time limit, if any. `{:#}` formats the chain of causes as well,
/// in one line that is understood without another:
///
/// ```text
/// http://a.example/items: looking up a.example failed: failed to lookup address information: Name or service not known
/// https://a.example/: connecting to a.example:443 through the proxy http://proxy:80 failed: the proxy answered 502 Bad Gateway
/// http://a.example/items: waiting for the response of 192.0.2.1:80 took longer than 30 s
/// ```
///
/// None of `{}`, `{:#}` and `{:?}` shows the query of the URL, credentials, or a field.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// use corehttp::Client;
/// use corehttp::client::ClientPhase;
///
/// let error = Client::new().get("http://127.0.0.1:1/").await.unwrap_err();
/// assert_eq!(error.phase(), ClientPhase::Connect);
/// assert!(!error.is_sent() && !error.is_reused() && !error.is_timeout());
/// # }
/// ```
///
/// A request can be sent again if it cannot have reached the server, or with an idempotent method (RFC 9110 §9.2.2). A
/// [`Retry`](crate::client::Retry) does so, by default only with a good chance of success. A GET is not sent again after
/// its connection was closed without a response, or after a timeout of the response.
/// [`Retry::retry_if`](crate::client::Retry::retry_if) can change that. A loop of your own:
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
pub struct ClientError(Box<ErrorInner>);

struct ErrorInner {
    phase: ClientPhase,
    is_reused: bool,
    is_sent: bool,
    cause: ClientCause,
    /// The URL of the request, without credentials; or its target, until the origin has been added.
    url: Option<Box<str>>,
    /// The address of the other end of the connection.
    peer: Option<SocketAddr>,
    /// The host, the peer or the proxy that the phase was about, as a text.
    subject: Option<Box<str>>,
    detail: Option<Detail>,
    /// The attempts before the one that failed, if a policy for retries had a say.
    retries: Option<Arc<RetryLog>>,
}

/// A detail of the cause.
#[derive(Clone, Debug)]
enum Detail {
    /// The time limit of the phase, which was exceeded.
    PhaseLimit(TimeLimit),
    /// The time limit of the whole exchange, which was exceeded.
    TotalLimit(TimeLimit),
    /// Another limit or the broken rule, as a text.
    Text(Box<str>),
}

impl ClientError {
    pub(crate) fn new(phase: ClientPhase, cause: ClientCause) -> ClientError {
        ClientError(Box::new(ErrorInner {
            phase,
            is_reused: false,
            is_sent: false,
            cause,
            url: None,
            peer: None,
            subject: None,
            detail: None,
            retries: None,
        }))
    }

    /// The error of a look-up of `host`, or of a dial to `subject`.
    pub(crate) fn from_dial(error: DialError, host: &str, subject: &str) -> ClientError {
        let cause = |fault| match fault {
            ConnError::TimedOut => ClientCause::TimedOut,
            ConnError::Io(error) => ClientCause::Io(error),
        };
        let (phase, cause, subject) = match error {
            DialError::Resolve(fault) => (ClientPhase::Resolve, cause(fault), host),
            DialError::Connect(fault) => (ClientPhase::Connect, cause(fault), subject),
            DialError::Refused(address) => {
                (ClientPhase::Connect, ClientCause::AddressRefused(address), subject)
            }
        };
        ClientError::new(phase, cause).with_subject(subject)
    }

    /// Adds the host, the peer or the proxy that the phase is about, unless there is one.
    pub(crate) fn with_subject(mut self, subject: impl Into<Box<str>>) -> ClientError {
        self.0.subject.get_or_insert(subject.into());
        self
    }

    /// Adds the address of the peer.
    pub(crate) fn with_peer(mut self, peer: Option<SocketAddr>) -> ClientError {
        self.0.peer = peer;
        self
    }

    /// Adds a limit that is no time limit, or the rule that was broken, as a text.
    pub(crate) fn with_detail(mut self, text: impl Into<Box<str>>) -> ClientError {
        self.0.detail = Some(Detail::Text(text.into()));
        self
    }

    /// Adds how many bytes interim responses may have together.
    pub(in crate::client) fn with_interim_max(self, head_max: usize) -> ClientError {
        self.with_detail(format!("more than {head_max} bytes of them (`head_max`)"))
    }

    /// Adds the time limit that was exceeded.
    pub(crate) fn with_time_limit(mut self, limit: TimeLimit) -> ClientError {
        self.0.detail = Some(Detail::PhaseLimit(limit));
        self
    }

    /// Adds the time limit of the whole exchange, if a time limit was exceeded.
    pub(crate) fn with_total_limit(mut self, total: Option<Duration>) -> ClientError {
        if let (ClientCause::TimedOut, Some(total)) = (&self.0.cause, total) {
            self.0.detail = Some(Detail::TotalLimit(total.into()));
        }
        self
    }

    /// Whether it is the time limit of the whole exchange or a bound for the body that was exceeded.
    pub(in crate::client) fn exceeds_callers_bound(&self) -> bool {
        let is_total = matches!(self.0.detail, Some(Detail::TotalLimit(_)));
        let is_too_large = matches!(
            self.0.cause,
            ClientCause::Coding(CodingError::TooLarge(_))
                | ClientCause::Exchange(ExchangeError::Wire(WireError::BodyTooLarge, _))
        );
        is_total || is_too_large
    }

    /// Adds the time limit of the phase, if one was exceeded and none was added before.
    pub(crate) fn with_phase_limit(
        mut self,
        limit: impl FnOnce(ClientPhase) -> Option<Duration>,
    ) -> ClientError {
        let ErrorInner { phase, cause, detail, .. } = &mut *self.0;
        if let (ClientCause::TimedOut, None) = (cause, &detail) {
            *detail = limit(*phase).map(|limit| Detail::PhaseLimit(limit.into()));
        }
        self
    }

    /// Adds the target of the request, unless there is one.
    pub(crate) fn with_url(mut self, target: &str) -> ClientError {
        self.0.url.get_or_insert_with(|| target.into());
        self
    }

    /// Adds the origin, if the target is only a path.
    pub(crate) fn with_origin(mut self, origin: &str) -> ClientError {
        let url = self.0.url.take();
        self.0.url = match url.as_deref() {
            Some(path) if path.starts_with('/') => Some(format!("{origin}{path}").into()),
            Some(url) if url.contains("://") => Some(url.into()),
            Some(_) | None => Some(origin.into()),
        };
        self
    }

    /// Adds whether the connection was reused, and whether any of the request was sent.
    pub(crate) fn on_connection(mut self, is_reused: bool, is_sent: bool) -> ClientError {
        self.0.is_reused = is_reused;
        self.0.is_sent = is_sent;
        self
    }

    /// Returns this error as one of a request that may have reached the server over another connection before.
    pub(crate) fn sent_before(mut self, is_sent: bool) -> ClientError {
        self.0.is_sent |= is_sent;
        self
    }

    /// Adds the attempts before, unless there are some.
    pub(in crate::client) fn with_retries(mut self, retries: Option<Arc<RetryLog>>) -> ClientError {
        self.0.retries = self.0.retries.or(retries);
        self
    }

    /// Has [`ClientError::duplicate`] keep a cause that is an error of the application, such as one of a dialer.
    pub(in crate::client) fn shared(mut self) -> ClientError {
        self.0.cause = match self.0.cause {
            ClientCause::Io(error) => ClientCause::Io(SharedError::from(error).into()),
            cause => cause,
        };
        self
    }

    /// A copy, for another request that failed for the same reason. Other causes that cannot be cloned become text.
    pub(crate) fn duplicate(&self) -> ClientError {
        let ErrorInner { phase, is_reused, is_sent, cause, url: _, peer, subject, detail, retries: _ } =
            &*self.0;
        let cause = match cause {
            ClientCause::Io(error) => ClientCause::Io(SharedError::duplicate(error)),
            ClientCause::Proxy(error) => ClientCause::Proxy(match error.downcast_ref::<ProxyRefusal>() {
                Some(refused) => refused.clone().into(),
                None => format!("{error:#}").into(),
            }),
            ClientCause::Tls(error) => ClientCause::Tls(error.duplicate()),
            ClientCause::NoRuntime => ClientCause::NoRuntime,
            ClientCause::HttpsOnly => ClientCause::HttpsOnly,
            ClientCause::AddressRefused(address) => ClientCause::AddressRefused(*address),
            ClientCause::TimedOut => ClientCause::TimedOut,
            ClientCause::Coding(error) => ClientCause::Coding(*error),
            ClientCause::Content(error) => ClientCause::Content(error.clone()),
            other => ClientCause::Io(io::Error::new(self.kind(), format!("{other:#}"))),
        };
        let mut duplicate =
            ClientError::new(*phase, cause).on_connection(*is_reused, *is_sent).with_peer(*peer);
        // The other request has a URL of its own.
        duplicate.0.subject = subject.clone();
        duplicate.0.detail = detail.clone();
        duplicate
    }

    /// A copy, for the same request when its caller asks again.
    pub(in crate::client) fn again(&self) -> ClientError {
        let mut again = self.duplicate();
        again.0.url = self.0.url.clone();
        again.0.retries = self.0.retries.clone();
        again
    }

    /// Makes the error of [middleware](crate::client::ClientMiddleware) that could not do its work, such as one without a
    /// token. The phase is [`ClientPhase::Prepare`], and the cause [`ClientCause::Other`].
    pub fn other(cause: impl Into<Box<dyn Error + Send + Sync>>) -> ClientError {
        ClientError::new(ClientPhase::Prepare, ClientCause::Other(cause.into()))
    }

    /// Returns the phase in which the exchange failed.
    pub fn phase(&self) -> ClientPhase {
        self.0.phase
    }

    /// Returns the URL of the failed request, without its query, which may hold secrets. After a redirect, it is the URL that
    /// was reached. `None` if the request had no valid target.
    pub fn url(&self) -> Option<&str> {
        self.url_with_query()?.split('?').next()
    }

    /// Returns the URL of the failed request, with its query.
    pub fn url_with_query(&self) -> Option<&str> {
        self.0.url.as_deref()
    }

    /// Returns the address of the peer, a server or a proxy, if the connection was open and is over TCP.
    pub fn peer_addr(&self) -> Option<SocketAddr> {
        self.0.peer
    }

    /// Returns the cause.
    pub fn cause(&self) -> &ClientCause {
        &self.0.cause
    }

    /// Returns the response of a proxy that opened no tunnel, with its status and its fields (such as `proxy-authenticate`). Of
    /// its content, there is as much as came within a second, up to 64 KiB.
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
            ClientCause::Proxy(error) => error.downcast_ref::<ProxyRefusal>().map(|refused| &refused.0),
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

    /// Returns the failed attempts before the last one, if the client has a policy to [retry](crate::client::Retry). Each has
    /// its cause and the wait after it.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// use corehttp::Client;
    /// use corehttp::client::{Retry, RetryStop};
    ///
    /// let client = Client::builder().retry(Retry::new().attempts_max(2)).build();
    /// let error = client.get("http://127.0.0.1:1/").await.unwrap_err();
    /// assert_eq!((error.retries().len(), error.retry_stop()), (1, Some(RetryStop::AttemptsMax)));
    /// # }
    /// ```
    pub fn retries(&self) -> &[RetryReport] {
        self.0.retries.as_deref().map_or(&[], |log| &log.retries)
    }

    /// Returns why the client's policy did not send the request again.
    ///
    /// `None` without a policy. Also `None` if another attempt would not help, by
    /// [`Retry::is_transient`](crate::client::Retry::is_transient) or the function of
    /// [`Retry::retry_if`](crate::client::Retry::retry_if).
    pub fn retry_stop(&self) -> Option<RetryStop> {
        self.0.retries.as_deref().and_then(|log| log.stop)
    }

    /// Returns whether a time limit was exceeded.
    pub fn is_timeout(&self) -> bool {
        match &self.0.cause {
            ClientCause::TimedOut | ClientCause::Exchange(ExchangeError::TimedOut(..)) => true,
            ClientCause::Io(error) | ClientCause::Exchange(ExchangeError::Io(error)) => {
                error.kind() == io::ErrorKind::TimedOut
            }
            _ => false,
        }
    }

    /// The failure of the connection, or else this error.
    pub(crate) fn into_failure(self) -> Result<ExchangeError, ClientError> {
        match self.0.cause {
            ClientCause::Exchange(failure @ ExchangeError::Io(_)) => Ok(failure),
            _ => Err(self),
        }
    }

    /// The kind of the [`io::Error`] that this becomes.
    pub(crate) fn kind(&self) -> io::ErrorKind {
        self.0.cause.kind()
    }

    /// Writes which attempt it was, and why there was no other, if a policy for retries had a say.
    fn write_attempt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.retries().len() + 1, self.retry_stop()) {
            (1, None | Some(RetryStop::AttemptsMax)) => Ok(()),
            (attempt, None | Some(RetryStop::AttemptsMax)) => write!(f, " in attempt {attempt}"),
            (1, Some(stop)) => write!(f, " (no retry: {stop})"),
            (attempt, Some(stop)) => write!(f, " in attempt {attempt} (no retry: {stop})"),
        }
    }

    /// Returns the status with which a gateway reports this failure of the server behind it: 504 for a timeout,
    /// otherwise 502 (RFC 9110 §15.6.3, §15.6.5). A TRACE with content is not forwarded, and the peer is to blame: 400.
    /// A body of unknown length is not forwarded to a server that speaks HTTP/1.0: 411 (§15.5.12). A body that was streamed
    /// from a request and has failed there has the status of that failure, such as 408 or 413.
    ///
    /// With `?`, a handler answers with 500 instead, because not every handler with a client is a gateway.
    ///
    /// # Examples
    ///
    /// ```
    /// use corehttp::{Client, Context, Error};
    ///
    /// async fn relay(client: &Client, ctx: &mut Context) -> corehttp::Result {
    ///     let mut onward = ctx.request.forwarded_to("http://backend:8080")?;
    ///     onward.body = std::mem::take(&mut ctx.request.body);
    ///     let asked = client.send(&onward, &mut ctx.response).await; // fields that middleware has set are lost
    ///     asked.map_err(|error| Error::new(error.status(), error))?;
    ///     ctx.response = std::mem::take(&mut ctx.response).forwarded();
    ///     Ok(())
    /// }
    /// ```
    pub fn status(&self) -> Status {
        match &self.0.cause {
            ClientCause::Request(MessageError::Content) => Status::BAD_REQUEST,
            ClientCause::LengthRequired => Status::LENGTH_REQUIRED,
            ClientCause::Exchange(ExchangeError::Source(source)) => {
                status_of_source(source).unwrap_or(Status::BAD_GATEWAY)
            }
            _ if self.is_timeout() => Status::GATEWAY_TIMEOUT,
            _ => Status::BAD_GATEWAY,
        }
    }
}

/// The status of a failure of the request that a body is streamed from, whatever has wrapped its error. The error of another
/// client is about a response.
fn status_of_source(source: &io::Error) -> Option<Status> {
    let mut cause = source.get_ref().map(|cause| cause as &(dyn Error + 'static));
    while let Some(error) = cause.filter(|error| !error.is::<ClientError>()) {
        if let Some(exchange) = error.downcast_ref::<ExchangeError>() {
            return exchange.status();
        }
        cause = match error.downcast_ref::<io::Error>().and_then(io::Error::get_ref) {
            Some(inner) => Some(inner),
            None => error.source(),
        };
    }
    None
}

impl fmt::Display for ClientError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_error(f, self, |f| {
            if let Some(url) = self.url() {
                write!(f, "{url}: ")?;
            }
            let ErrorInner { phase, cause, subject, detail, .. } = &*self.0;
            if let ClientCause::Status(_) = cause {
                return write!(f, "{cause}");
            }
            write_phase(f, *phase, cause, subject.as_deref())?;
            self.write_attempt(f)?;
            match (cause, detail) {
                (ClientCause::TimedOut, Some(Detail::PhaseLimit(limit))) => {
                    write!(f, " {}", limit.exceeded())
                }
                (ClientCause::TimedOut, Some(Detail::TotalLimit(limit))) => {
                    write!(f, ": the whole exchange {}", limit.exceeded())
                }
                (ClientCause::TimedOut, _) => f.write_str(" took too long"),
                (cause, _) if cause.is_transparent() => f.write_str(" failed"),
                (ClientCause::Closed, _) if *phase == ClientPhase::Connect => {
                    f.write_str(": the proxy closed the connection without a response")
                }
                (cause, Some(Detail::Text(text))) => write!(f, ": {cause}: {text}"),
                (cause, _) => write!(f, ": {cause}"),
            }
        })
    }
}

impl fmt::Debug for ClientError {
    /// The same as `{:#}`, since `unwrap` and a `main` function print an error by `{:?}`. `{:#?}` lists what it holds.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !f.alternate() {
            return write!(f, "{self:#}");
        }
        let ErrorInner { phase, is_reused, is_sent, cause, url: _, peer, subject: _, detail, retries } =
            &*self.0;
        f.debug_struct("ClientError")
            .field("url", &self.url())
            .field("peer", peer)
            .field("phase", phase)
            .field("is_reused", is_reused)
            .field("is_sent", is_sent)
            .field("cause", cause)
            .field("detail", detail)
            .field("retries", retries)
            .finish()
    }
}

/// Writes the phase and its subject. The handshake with a proxy is a part of connecting.
fn write_phase(
    f: &mut fmt::Formatter<'_>,
    phase: ClientPhase,
    cause: &ClientCause,
    subject: Option<&str>,
) -> fmt::Result {
    let Some(subject) = subject else { return write!(f, "{phase}") };
    match (phase, cause) {
        (ClientPhase::Prepare | ClientPhase::Redirect, _) => write!(f, "{phase}"),
        (ClientPhase::Queue, _) => write!(f, "waiting for {subject}"),
        (ClientPhase::Resolve, _) => write!(f, "looking up {subject}"),
        (ClientPhase::Tls, _) | (ClientPhase::Connect, ClientCause::Tls(_)) => {
            write!(f, "the TLS handshake with {subject}")
        }
        (ClientPhase::Connect, _) => write!(f, "connecting to {subject}"),
        (ClientPhase::Send, _) => write!(f, "sending the request to {subject}"),
        (ClientPhase::Wait, _) => write!(f, "waiting for the response of {subject}"),
        (ClientPhase::Receive, _) => write!(f, "receiving the body from {subject}"),
    }
}

impl Error for ClientError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.0.cause.source()
    }
}

/// The kind is that of the cause, such as [`ConnectionReset`](io::ErrorKind::ConnectionReset). For a response that is
/// cut short, also within its coding, it is [`UnexpectedEof`](io::ErrorKind::UnexpectedEof).
impl From<ClientError> for io::Error {
    fn from(error: ClientError) -> io::Error {
        io::Error::new(error.kind(), error)
    }
}

impl From<MessageError> for ClientError {
    fn from(error: MessageError) -> ClientError {
        ClientError::new(ClientPhase::Prepare, ClientCause::Request(error))
    }
}

/// The error of content that was received whole, so that a function of a client has one type of errors.
impl From<ContentError> for ClientError {
    fn from(error: ContentError) -> ClientError {
        ClientError::new(ClientPhase::Receive, ClientCause::Content(error)).sent_before(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_that_cannot_be_read_is_an_error_of_the_client() {
        fn text(response: &Response) -> Result<&str, ClientError> {
            Ok(response.text()?)
        }
        let mut response = Response::new();
        response.body.set_bytes(b"caf\xe9");
        let error = text(&response).unwrap_err();
        assert_eq!(format!("{error:#}"), "receiving the body failed: the content is not UTF-8");
        assert!(matches!(error.cause(), ClientCause::Content(_)) && error.is_sent());
        assert_eq!(error.status(), Status::BAD_GATEWAY);
    }

    use crate::exchange::Phase;

    /// An error of another crate around one of a body.
    #[derive(Debug)]
    struct Wrapped(Box<dyn Error + Send + Sync>);

    impl fmt::Display for Wrapped {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("wrapped")
        }
    }

    impl Error for Wrapped {
        fn source(&self) -> Option<&(dyn Error + 'static)> {
            Some(&*self.0)
        }
    }

    #[test]
    fn a_body_of_a_request_that_fails_has_the_status_of_its_failure_rfc9110_15_5() {
        let slow = || ExchangeError::TimedOut(Phase::Body, Duration::from_secs(30).into());
        let large = || ExchangeError::body_too_large(4, None);
        let of_response = || ClientError::new(ClientPhase::Receive, ClientCause::Exchange(slow()));
        for (source, expected) in [
            (io::Error::other(slow()), Status::REQUEST_TIMEOUT),
            (io::Error::other(large()), Status::CONTENT_TOO_LARGE),
            (io::Error::other(Wrapped(large().into())), Status::CONTENT_TOO_LARGE),
            (io::Error::other(Wrapped(io::Error::other(slow()).into())), Status::REQUEST_TIMEOUT),
            (io::Error::other(Wrapped(Wrapped(slow().into()).into())), Status::REQUEST_TIMEOUT),
            (io::Error::other(of_response()), Status::BAD_GATEWAY),
            (io::Error::other(Wrapped(of_response().into())), Status::BAD_GATEWAY),
            (io::Error::other(ExchangeError::PeerClosed), Status::BAD_GATEWAY),
            (io::Error::other("other"), Status::BAD_GATEWAY),
            (io::ErrorKind::UnexpectedEof.into(), Status::BAD_GATEWAY),
        ] {
            let shown = format!("{source:?}");
            let cause = ClientCause::Exchange(ExchangeError::Source(source));
            assert_eq!(ClientError::new(ClientPhase::Send, cause).status(), expected, "{shown}");
        }
    }
}
