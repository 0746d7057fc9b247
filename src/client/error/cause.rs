//! [`ClientPhase`] and [`ClientCause`]: in which phase an exchange failed, and why.

use std::error::Error;
use std::net::IpAddr;
use std::{fmt, io};

use crate::coding::CodingError;
use crate::error_text::write_causes;
use crate::exchange::ExchangeError;
use crate::message::{ContentError, MessageError, Response, Status, TargetError};
use crate::net::tls;

/// The phase of an exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ClientPhase {
    /// Checking the request. Nothing has been dialed.
    Prepare,
    /// Waiting for one of the connections of the host.
    Queue,
    /// Looking up the host's addresses.
    Resolve,
    /// Connecting, with the handshake of a proxy.
    Connect,
    /// The TLS handshake.
    Tls,
    /// Sending the request.
    Send,
    /// Waiting for the head of the response.
    Wait,
    /// Receiving the body of the response.
    Receive,
    /// Following a redirect.
    Redirect,
}

/// The cause of a [`ClientError`](super::error::ClientError).
#[derive(Debug)]
#[non_exhaustive]
pub enum ClientCause {
    /// The phase, or the whole exchange, took longer than it may.
    TimedOut,
    /// The request is invalid.
    Request(MessageError),
    /// The target names no scheme and host, or not those of the [`Host`](crate::client::Host) or
    /// [`Pipeline`](crate::client::Pipeline). For a [`Balancer`](crate::client::Balancer), it is more than a path.
    Origin,
    /// The URL is not `https`, and the client is for no others (see
    /// [`ClientBuilder::https_only`](crate::ClientBuilder::https_only)).
    HttpsOnly,
    /// The host has this address, and no allowed one (see
    /// [`ClientBuilder::allow_addresses`](crate::ClientBuilder::allow_addresses)).
    AddressRefused(IpAddr),
    /// There is no tokio runtime (see [`block_on`](crate::block_on)), or the runtime of a
    /// [`Pipeline`](crate::client::Pipeline)'s connection has ended.
    NoRuntime,
    /// A [blocking](crate::blocking) client was used in a tokio runtime, where [`corehttp::Client`](crate::Client) is to be
    /// used.
    InRuntime,
    /// The name has no address, or the resolver, the operating system or the dialer failed.
    Io(io::Error),
    /// The server closed the connection without a response.
    Closed,
    /// The exchange failed halfway, or the server broke RFC 9112 or a limit.
    Exchange(ExchangeError),
    /// The content cannot be decoded (RFC 9110 §8.4).
    Coding(CodingError),
    /// The content of the response is not what its reader wants, such as text or JSON: `?` behind
    /// [`Response::text`](crate::Response::text) makes this of its error.
    Content(ContentError),
    /// The interim responses not taken by a caller have more bytes together than one head may have (RFC 9110 §15.2). See
    /// [`ClientLimits::head_max`](crate::client::ClientLimits::head_max).
    TooManyInformational,
    /// The server did not switch to a protocol of the request's `upgrade` field, switched without such a field, or did not
    /// confirm the switch by `connection: upgrade` (RFC 9110 §7.8).
    Upgrade,
    /// The proxy did not answer a CONNECT with success (see
    /// [`ClientError::proxy_response`](super::error::ClientError::proxy_response)), or a SOCKS proxy did not connect. Or the
    /// environment names no usable proxy (see [`Proxies::from_env`](crate::client::Proxies::from_env)).
    Proxy(Box<dyn Error + Send + Sync>),
    /// The TLS handshake failed, or the server has ended the connection with an alert. Or this crate was built without the
    /// feature `tls`.
    Tls(tls::Error),
    /// The caller asked for an error by [`Response::error_for_status`](crate::Response::error_for_status), or
    /// [`Client::download`](crate::Client::download) got an unexpected status.
    Status(Status),
    /// There were more redirects than the client follows.
    TooManyRedirects,
    /// The `location` of a redirect is empty, or not a URL that can be requested (RFC 9110 §15.4).
    Location(Option<TargetError>),
    /// A redirect has several `location` fields, which lead to different places.
    AmbiguousLocation,
    /// A redirect leads from https to http, which would expose a confidential request.
    Downgrade,
    /// The request would have to be sent again, but its body was a stream for a single use.
    BodyConsumed,
    /// The length of the body is unknown, and the server's HTTP/1.0 has no chunks (RFC 9112 §6.1).
    LengthRequired,
    /// The request is of a kind that a [`Pipeline`](crate::client::Pipeline) does not send.
    NotPipelinable,
    /// The connection of a [`Pipeline`](crate::client::Pipeline) failed on another request before this one was answered.
    PipelineBroken,
    /// The [`Balancer`](crate::client::Balancer) has no host, or only hosts of weight 0.
    NoHost,
    /// [Middleware](crate::client::ClientMiddleware), or another function of the application, failed with an error of its own.
    Other(Box<dyn Error + Send + Sync>),
    /// [Middleware](crate::client::ClientMiddleware) has succeeded without a response. It has not sent the request, or has left
    /// out the error of the last `send`.
    NotSent,
}

impl ClientCause {
    /// The cause of an exchange that failed with `error`. An alert of TLS is why the connection failed, and no fault of
    /// the exchange.
    pub(crate) fn from_exchange(error: ExchangeError) -> ClientCause {
        match error {
            ExchangeError::Io(error) => match tls::Error::from_alert(error) {
                Ok(refused) => ClientCause::Tls(refused),
                Err(error) => ClientCause::Exchange(ExchangeError::Io(error)),
            },
            error => ClientCause::Exchange(error),
        }
    }

    /// The cause of an exchange that failed with `error` before the head of its response was here.
    pub(crate) fn from_head(error: ExchangeError) -> ClientCause {
        match error {
            ExchangeError::TimedOut(..) => ClientCause::TimedOut,
            error => ClientCause::from_exchange(error),
        }
    }

    /// Whether the source alone explains the failure.
    pub(super) fn is_transparent(&self) -> bool {
        match self {
            ClientCause::Request(_)
            | ClientCause::Io(_)
            | ClientCause::Exchange(_)
            | ClientCause::Coding(_)
            | ClientCause::Content(_)
            | ClientCause::Proxy(_)
            | ClientCause::Tls(_)
            | ClientCause::Other(_) => true,
            ClientCause::TimedOut
            | ClientCause::Origin
            | ClientCause::HttpsOnly
            | ClientCause::AddressRefused(_)
            | ClientCause::NoRuntime
            | ClientCause::InRuntime
            | ClientCause::Closed
            | ClientCause::TooManyInformational
            | ClientCause::Upgrade
            | ClientCause::Status(_)
            | ClientCause::TooManyRedirects
            | ClientCause::Location(_)
            | ClientCause::AmbiguousLocation
            | ClientCause::Downgrade
            | ClientCause::BodyConsumed
            | ClientCause::LengthRequired
            | ClientCause::NotPipelinable
            | ClientCause::PipelineBroken
            | ClientCause::NoHost
            | ClientCause::NotSent => false,
        }
    }

    pub(super) fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            ClientCause::Request(error) => Some(error),
            ClientCause::Io(error) => Some(error),
            ClientCause::Exchange(error) => Some(error),
            ClientCause::Coding(error) => Some(error),
            ClientCause::Content(error) => Some(error),
            ClientCause::Proxy(error) | ClientCause::Other(error) => Some(&**error),
            ClientCause::Tls(error) => Some(error),
            ClientCause::Location(Some(error)) => Some(error),
            _ => None,
        }
    }

    /// The kind of the [`io::Error`] that this becomes: that of its cause.
    pub(super) fn kind(&self) -> io::ErrorKind {
        match self {
            ClientCause::TimedOut => io::ErrorKind::TimedOut,
            ClientCause::Io(error) => error.kind(),
            ClientCause::Exchange(error) => error.kind(),
            ClientCause::Coding(error) => error.kind(),
            ClientCause::Tls(error) => error.kind(),
            // If the connection to the proxy did not fail, the proxy has refused.
            ClientCause::Proxy(error) => error
                .source()
                .and_then(|cause| cause.downcast_ref())
                .map_or(io::ErrorKind::ConnectionRefused, io::Error::kind),
            ClientCause::Closed => io::ErrorKind::UnexpectedEof,
            ClientCause::PipelineBroken => io::ErrorKind::ConnectionAborted,
            ClientCause::Content(_)
            | ClientCause::TooManyInformational
            | ClientCause::Location(_)
            | ClientCause::AmbiguousLocation => io::ErrorKind::InvalidData,
            ClientCause::Upgrade => io::ErrorKind::Unsupported,
            ClientCause::AddressRefused(_) => io::ErrorKind::PermissionDenied,
            ClientCause::Request(_)
            | ClientCause::Origin
            | ClientCause::HttpsOnly
            | ClientCause::BodyConsumed
            | ClientCause::NotPipelinable => io::ErrorKind::InvalidInput,
            ClientCause::NoRuntime
            | ClientCause::InRuntime
            | ClientCause::Status(_)
            | ClientCause::TooManyRedirects
            | ClientCause::Downgrade
            | ClientCause::LengthRequired
            | ClientCause::NoHost
            | ClientCause::Other(_)
            | ClientCause::NotSent => io::ErrorKind::Other,
        }
    }
}

impl fmt::Display for ClientPhase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ClientPhase::Prepare => "preparing the request",
            ClientPhase::Queue => "waiting for a connection",
            ClientPhase::Resolve => "looking up the host",
            ClientPhase::Connect => "connecting",
            ClientPhase::Tls => "the TLS handshake",
            ClientPhase::Send => "sending the request",
            ClientPhase::Wait => "waiting for the response",
            ClientPhase::Receive => "receiving the body",
            ClientPhase::Redirect => "following the redirect",
        })
    }
}

impl fmt::Display for ClientCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ClientCause::TimedOut => "it took too long",
            ClientCause::Request(_) => "the request is invalid",
            ClientCause::Origin => "the target is not one that can be sent here",
            ClientCause::HttpsOnly => "the client is for https URLs only",
            ClientCause::AddressRefused(address) => {
                return write!(f, "its address {address} is not one that the client may connect to");
            }
            ClientCause::NoRuntime => "there is no tokio runtime, or it has ended",
            ClientCause::InRuntime => {
                "a blocking client must not be used in a runtime: use corehttp::Client there"
            }
            ClientCause::Io(_) => "the system or the network failed",
            ClientCause::Closed => "the server closed the connection without a response",
            ClientCause::Exchange(_) => "the exchange failed",
            ClientCause::Coding(_) => "the content cannot be decoded",
            ClientCause::Content(_) => "the content is not what was wanted",
            ClientCause::TooManyInformational => "there were too many interim responses",
            ClientCause::Upgrade => "the switch of protocols failed",
            ClientCause::Proxy(_) => "the proxy refused",
            ClientCause::Tls(_) => "the connection is not secure",
            ClientCause::Status(status) => return write!(f, "the server responded {status}"),
            ClientCause::TooManyRedirects => "there were too many in a row",
            ClientCause::Location(_) => "its field location is empty, or not a URL that can be requested",
            ClientCause::AmbiguousLocation => "its fields location lead to several places",
            ClientCause::Downgrade => "it leads from https to http",
            ClientCause::BodyConsumed => "the body was a stream, which can be sent only once",
            ClientCause::LengthRequired => {
                "the server speaks HTTP/1.0, and the length of the body is unknown"
            }
            ClientCause::NotPipelinable => "the request cannot be pipelined",
            ClientCause::PipelineBroken => "the connection broke on another request",
            ClientCause::NoHost => "the balancer has no host",
            ClientCause::Other(_) => "middleware or a function of the client failed",
            ClientCause::NotSent => "middleware has not sent it",
        })?;
        if f.alternate() { write_causes(f, self.source()) } else { Ok(()) }
    }
}

/// The response of a proxy that opened no tunnel (RFC 9110 §9.3.6).
#[derive(Clone)]
pub(crate) struct ProxyRefusal(pub(crate) Response);

impl fmt::Display for ProxyRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the proxy answered {}", self.0.status)
    }
}

impl fmt::Debug for ProxyRefusal {
    /// Shows the status only, since the fields may hold secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ProxyRefusal").field(&self.0.status).finish()
    }
}

impl Error for ProxyRefusal {}
