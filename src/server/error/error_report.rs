//! [`ErrorReport`]: which exchange or connection failed or was refused, and why; and [`Failure`], one that is still to
//! be answered.

use std::borrow::Cow;
use std::fmt;
use std::io;
use std::net::IpAddr;

use super::error::Error;
use crate::error_text::write_escaped;
use crate::exchange::{ExchangeError, Phase};
use crate::message::{Problem, Request, Status};
use crate::net::{Peer, PeerAddr, tls};
use crate::server::forwarded::{Source, TrustedProxies, client_ip};

/// A refused request or connection, a failed exchange, or a failure to accept, as
/// [`Server::on_error`](crate::Server::on_error) and [`Server::error_response`](crate::Server::error_response) see it.
///
/// `{}` formats it as one line, such as `192.0.2.1:50000 cut off: the PROXY header is malformed; 41 more suppressed`.
/// The line has the status, the peer, the method and path if known, the cause, and the number of suppressed reports.
/// Behind a [proxy](crate::Server::trusted_proxies) the line has the client as well:
/// `192.0.2.1 through 10.0.0.1:50000`. Neither `{}` nor `{:?}` reveals more of the request than that.
///
/// # Examples
///
/// ```
/// use std::sync::mpsc;
///
/// use corehttp::{Context, Server};
///
/// // A thread of the application takes the lines. Without room for more, a line is dropped: no core waits for the log.
/// let (lines, taken) = mpsc::sync_channel(1_024);
/// let server = Server::new().on_error(move |report| {
///     let id = report.request.and_then(|request| request.headers.get("x-request-id"));
///     let line = format!("{}.{} {id:?} {report}", report.connection_id, report.exchange_number);
///     let _ = lines.try_send(line);
/// });
/// # drop(taken);
/// # let _ = server.service(|ctx: &mut Context| ctx.response.set_text("hi"));
/// ```
#[non_exhaustive]
pub struct ErrorReport<'a> {
    /// The status of the response. `None` if the peer was not answered. The connection was then gone or not yet secure,
    /// had carried a part of a response, or was one of very many refused at once.
    pub status: Option<Status>,
    /// The address of the peer.
    pub peer_addr: PeerAddr,
    /// The number of the connection, as in [`Context::connection_id`](crate::Context::connection_id).
    pub connection_id: u64,
    /// The number of the exchange on its connection, counted from 1. 0 if the connection itself was refused.
    pub exchange_number: u64,
    /// The request, if its head was received and valid. The request is as the handler left it. Its body may be gone.
    pub request: Option<&'a Request>,
    /// The cause.
    pub cause: ErrorCause,
    /// The number of reports of the same kind and core left out since the last one for
    /// [`Server::on_error`](crate::Server::on_error). Always 0 if there is a `request`, and for
    /// [`Server::error_response`](crate::Server::error_response).
    pub suppressed: u64,
    /// The proxies whose word about the client is believed.
    pub(in crate::server) proxies: TrustedProxies,
}

/// Why an exchange or a connection failed or was refused.
#[derive(Debug)]
#[non_exhaustive]
pub enum ErrorCause {
    /// The exchange failed by a fault of the peer or the connection, or of a handler that took too long or left its
    /// response incomplete.
    Exchange(ExchangeError),
    /// The handler failed.
    Handler(Error),
    /// A panic of the handler, of a value that it left behind, or of another function of the application, such as that
    /// of [`Server::error_response`](crate::Server::error_response) or
    /// [`Server::on_connect`](crate::Server::on_connect).
    Panic,
    /// [`Handler::on_head`](crate::Handler::on_head) refused the request, or did not plan a tunnel for a CONNECT.
    Refused,
    /// The TLS handshake failed.
    Tls(tls::Error),
    /// The PROXY header that the connection should have begun with is missing or malformed.
    ProxyHeader(ProxyHeaderFault),
    /// The server has reached [`Limits::connections_max`](crate::Limits::connections_max), which is this many.
    Connections(usize),
    /// The peer has reached [`Limits::connections_per_peer_max`](crate::Limits::connections_per_peer_max), which is
    /// this many.
    ConnectionsOfPeer(usize),
    /// No connection could be accepted, for lack of descriptors or memory. The report is of no peer, with the default
    /// of [`PeerAddr`], and the number 0.
    Accept(io::Error),
    /// A listener failed for good, and the server stops. The report is of no peer, as that of [`ErrorCause::Accept`].
    Listener(io::Error),
    /// A certificate of the server is about to expire, has expired, or was refused. The report is of no peer, as that
    /// of [`ErrorCause::Accept`]. A server makes one at its start, when such a time comes, at a replacement, and once a
    /// day, and one for each refusal.
    Certificate(tls::CertificateFault),
    /// The store of a [`SharedRateLimit`](crate::middleware::SharedRateLimit) failed or took too long, so a request was
    /// admitted or refused without having been counted. The report is of no peer, as that of [`ErrorCause::Accept`],
    /// because the store is that of all requests.
    Rates(Error),
}

impl ErrorReport<'_> {
    /// The report of a refused connection that carried no exchange, and gets no response.
    pub(in crate::server) fn from_connection(peer: Peer, cause: ErrorCause) -> ErrorReport<'static> {
        let Peer { addr: peer_addr, id: connection_id } = peer;
        ErrorReport {
            status: None,
            peer_addr,
            connection_id,
            exchange_number: 0,
            request: None,
            cause,
            suppressed: 0,
            proxies: TrustedProxies::default(),
        }
    }

    /// Returns the address of the client, as [`Context::client_ip`](crate::Context::client_ip) does. Without a `request`,
    /// that is the address of the peer. If a handler has taken the request out of its context, it is that of the proxy.
    pub fn client_ip(&self) -> Option<IpAddr> {
        match self.request {
            Some(request) => client_ip(self.peer_addr, &request.headers, &self.proxies),
            None => self.peer_addr.ip(),
        }
    }

    fn source(&self) -> Source {
        Source { client: self.client_ip(), peer: self.peer_addr }
    }

    /// Returns whether the server is at fault: the application, this machine, or a limit of the server as a whole. Such
    /// a report belongs in a log. All others are of peers, for requests refused with a 4xx, slowness, or an early
    /// close. A server on the open internet has many of them.
    ///
    /// A fault is one of:
    ///
    /// - a handler that fails with a 5xx, panics, takes too long or leaves its response unfinished
    /// - a refusal with 5xx by [`Handler::on_head`](crate::Handler::on_head), except for 501
    /// - a failed socket whose peer is still there
    /// - a function of the application that fails during a TLS handshake
    /// - [`ErrorCause::Accept`], [`ErrorCause::Listener`], [`ErrorCause::Certificate`], [`ErrorCause::Rates`] and
    ///   [`ErrorCause::Connections`]
    ///
    /// # Examples
    ///
    /// ```
    /// use std::sync::mpsc;
    /// use corehttp::{Context, Server};
    ///
    /// // A thread of the application takes them, and wakes somebody up.
    /// let (faults, taken) = mpsc::sync_channel(100);
    /// let server = Server::new().on_error(move |report| {
    ///     if report.is_fault() {
    ///         let _ = faults.try_send(report.to_string());
    ///     }
    /// });
    /// # drop(taken);
    /// # let _ = server.service(|ctx: &mut Context| ctx.response.set_text("hi"));
    /// ```
    #[doc(alias("severity", "level"))]
    pub fn is_fault(&self) -> bool {
        match &self.cause {
            ErrorCause::Exchange(error) => error.is_fault(),
            // A status that was chosen for a request at fault is no longer sent.
            ErrorCause::Handler(error) => {
                error.is_fault() || (self.status.is_none() && error.has_chosen_status())
            }
            ErrorCause::Refused => self
                .status
                .is_some_and(|status| status.is_server_error() && status != Status::NOT_IMPLEMENTED),
            ErrorCause::Tls(error) => matches!(error, tls::Error::Panic | tls::Error::Resolver(_)),
            ErrorCause::Panic
            | ErrorCause::Accept(_)
            | ErrorCause::Listener(_)
            | ErrorCause::Certificate(_)
            | ErrorCause::Rates(_)
            | ErrorCause::Connections(_) => true,
            ErrorCause::ProxyHeader(_) | ErrorCause::ConnectionsOfPeer(_) => false,
        }
    }

    /// Returns the details for the peer: the [`Problem`] of the handler's failure, or else the status. The detail of a
    /// status is the fault of the request, from an [`Error`] of this crate. No other cause is part of the details.
    ///
    /// # Examples
    ///
    /// Details with the exchange as in the log, and with all faults of the peer, even those found by the application:
    ///
    /// ```
    /// use corehttp::{Context, Request, Server};
    ///
    /// let server = Server::new().error_response(|report, response| {
    ///     let mut problem = report.problem();
    ///     if problem.status().is_client_error() {
    ///         problem = problem.with_detail(report.cause.to_string());
    ///     }
    ///     let instance = format!("urn:exchange:{}.{}", report.connection_id, report.exchange_number);
    ///     response.set_problem(&problem.with_instance(instance));
    /// });
    /// let service = server.service(|ctx: &mut Context| -> corehttp::Result {
    ///     let page: u32 = ctx.request.query().get_as("page")?.unwrap_or(1);
    ///     Ok(ctx.response.set_text(page.to_string()))
    /// });
    /// # let response = corehttp::block_on(service.respond(Request::get("/?page=one")?))?;
    /// # assert_eq!(response.status.as_u16(), 400);
    /// # let content = response.text()?;
    /// # assert!(content.contains("not a whole number") && content.contains("urn:exchange:1.1"), "{content}");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn problem(&self) -> Problem {
        let status = self.status.unwrap_or(Status::INTERNAL_SERVER_ERROR);
        match (self.cause.problem(), self.cause.explanation()) {
            (Some(problem), _) => problem.clone().with_status(status),
            (None, Some(explanation)) => Problem::new(status).with_detail(explanation),
            (None, None) => Problem::new(status),
        }
    }
}

impl ErrorCause {
    /// The details that the handler has failed with.
    pub(super) fn problem(&self) -> Option<&Problem> {
        if let ErrorCause::Handler(error) = self { error.problem() } else { None }
    }

    /// Whether the server has no room, and may have some in a moment.
    pub(in crate::server) fn is_overload(&self) -> bool {
        let failed = match self {
            ErrorCause::Connections(_) => return true,
            ErrorCause::Exchange(error) => Some(error),
            ErrorCause::Handler(error) => error.downcast_cause(),
            _ => None,
        };
        matches!(
            failed,
            Some(ExchangeError::NoMemory | ExchangeError::TimedOut(Phase::Queue | Phase::Memory, _))
        )
    }

    /// A sentence for a person, where the reason of the status is not enough.
    fn explanation(&self) -> Option<Cow<'static, str>> {
        match self {
            ErrorCause::Handler(error) => error.explanation().map(Cow::Owned),
            // Most such peers are browsers, whose users have typed `http` for `https`.
            ErrorCause::Tls(tls::Error::PlainText) => {
                Some("This port speaks HTTPS, and the request came in plain HTTP.".into())
            }
            _ => None,
        }
    }
}

impl fmt::Display for ErrorReport<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.status, &self.cause) {
            (None, ErrorCause::Accept(_)) => f.write_str("peers wait")?,
            (None, ErrorCause::Listener(_)) => f.write_str("the server stops")?,
            (None, ErrorCause::Certificate(_)) => f.write_str("TLS")?,
            (None, ErrorCause::Rates(_)) => f.write_str("rates are not counted")?,
            (None, _) => write!(f, "{} cut off", self.source())?,
            (Some(status), _) => write!(f, "{status} to {}", self.source())?,
        }
        if let Some(request) = self.request {
            write!(f, ", {} ", request.method())?;
            write_escaped(f, path_or_target(request))?;
        }
        f.write_str(": ")?;
        match (&self.cause, self.exchange_number) {
            (ErrorCause::Panic, 0) => f.write_str("a function of the application panicked")?,
            // Such a status answers nobody, since another response has begun.
            (ErrorCause::Handler(error), _) if error.is_bare_refusal() => {
                write!(f, "the handler failed: {error}")?;
            }
            (cause, _) => write_escaped(f, &cause.to_string())?,
        }
        match self.suppressed {
            0 => Ok(()),
            suppressed => write!(f, "; {suppressed} more suppressed"),
        }
    }
}

impl fmt::Debug for ErrorReport<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ErrorReport")
            .field("status", &self.status)
            .field("peer_addr", &self.peer_addr)
            .field("connection_id", &self.connection_id)
            .field("exchange_number", &self.exchange_number)
            .field("request", &self.request.map(|request| (request.method(), path_or_target(request))))
            .field("cause", &self.cause)
            .field("suppressed", &self.suppressed)
            .finish()
    }
}

/// The request's path, without the query, which may hold secrets, as fields may.
fn path_or_target(request: &Request) -> &str {
    match request.path() {
        "" => request.target().as_str(),
        path => path,
    }
}

impl fmt::Display for ErrorCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ErrorCause::Exchange(error) => write!(f, "{error:#}"),
            ErrorCause::Accept(error) => write!(f, "no connection could be accepted: {error}"),
            ErrorCause::Listener(error) => write!(f, "a listener failed: {error}"),
            ErrorCause::Certificate(fault) => fault.fmt(f),
            ErrorCause::Rates(error) => write!(f, "their store failed: {error:#}"),
            ErrorCause::Tls(error) => write!(f, "{error:#}"),
            ErrorCause::ProxyHeader(fault) => fault.fmt(f),
            ErrorCause::Handler(error) if error.is_peer_fault() || error.is_bare_refusal() => {
                write!(f, "{error:#}")
            }
            ErrorCause::Handler(error) => write!(f, "the handler failed: {error:#}"),
            ErrorCause::Panic => f.write_str("the handler panicked"),
            ErrorCause::Refused => f.write_str("the handler refused the request by its head"),
            ErrorCause::Connections(max) => {
                write!(f, "the server has {max} connections, as many as it may have (`connections_max`)")
            }
            ErrorCause::ConnectionsOfPeer(max) => {
                write!(
                    f,
                    "the peer has {max} connections, as many as it may have (`connections_per_peer_max`)"
                )
            }
        }
    }
}

impl From<ExchangeError> for ErrorCause {
    fn from(error: ExchangeError) -> ErrorCause {
        ErrorCause::Exchange(error)
    }
}

/// Why a connection that should begin with a PROXY header was closed, without a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ProxyHeaderFault {
    /// The connection began with other bytes.
    Missing,
    /// The header is malformed, too long, for datagrams, or ends in the middle.
    Malformed,
}

impl fmt::Display for ProxyHeaderFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ProxyHeaderFault::Missing => "the connection does not begin with a PROXY header",
            ProxyHeaderFault::Malformed => "the PROXY header is malformed",
        })
    }
}

impl From<ProxyHeaderFault> for ErrorCause {
    fn from(fault: ProxyHeaderFault) -> ErrorCause {
        ErrorCause::ProxyHeader(fault)
    }
}

/// The failure of an exchange, or of a connection before its first, that is still to be answered: with which status, and
/// why.
#[derive(Debug)]
pub(crate) struct Failure {
    /// `None` if the peer is not answered, because it is gone, or has received part of another response.
    pub(in crate::server) status: Option<Status>,
    pub(in crate::server) cause: ErrorCause,
}

impl Failure {
    // Boxed, because it is rare, and the results that hold it are moved for every request.
    pub(in crate::server) fn new(status: Status, cause: ErrorCause) -> Box<Failure> {
        Box::new(Failure { status: Some(status), cause })
    }

    /// A failure that comes too late to be answered.
    pub(in crate::server) fn unanswered(cause: ErrorCause) -> Box<Failure> {
        Box::new(Failure { status: None, cause })
    }
}

impl From<ExchangeError> for Box<Failure> {
    fn from(error: ExchangeError) -> Box<Failure> {
        Box::new(Failure { status: error.status(), cause: ErrorCause::Exchange(error) })
    }
}
