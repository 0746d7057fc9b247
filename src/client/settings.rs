//! [`ClientSettings`]: what is set when a client is built; [`RequestBase`]: the URL that requests are relative to;
//! [`ClientLimits`] and [`ClientTimeouts`]: the bounds of its exchanges; [`RequestTimeouts`]: those of one request.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;

use super::cookies::CookieStore;
use super::redirects::RedirectCheck;
use super::route::Proxies;
use crate::client::error::{ClientError, ClientPhase};
use crate::client::middleware::Middlewares;
use crate::client::observe::{Observers, Spans};
use crate::client::retry::{HostBudgets, RetryBudget};
use crate::coding::ACCEPTED;
use crate::exchange::{Bounds, Timeouts};
use crate::message::{FieldName, FormBuf, Headers, MessageError, Method, Request, Target, TargetError};
use crate::net::{HostConnector, TlsConnector};
use crate::runtime::{self, Instant, later};
use crate::wire::parse::Leniency;
use crate::wire::{Limits, encode};

/// The settings of a client.
#[derive(Clone)]
pub(crate) struct ClientSettings {
    pub(super) limits: ClientLimits,
    pub(super) timeouts: ClientTimeouts,
    /// The limits, and the timeouts as an exchange takes them.
    pub(super) bounds: Bounds,
    /// The same for a body that the caller reads in pieces, however slowly it comes.
    pub(super) streamed_bounds: Bounds,
    pub(crate) dial: HostConnector,
    pub(super) proxies: Proxies,
    pub(super) tls: TlsConnector,
    pub(super) base: RequestBase,
    /// Default fields of requests.
    pub(super) fields: Headers,
    pub(super) cookies: Option<Arc<dyn CookieStore>>,
    pub(super) observers: Observers,
    pub(super) middleware: Middlewares,
    /// Decides which redirects are followed.
    pub(super) redirect_check: Option<RedirectCheck>,
    pub(crate) spans: Spans,
    /// The codings that are asked for, if content is decoded and no default field names others.
    pub(super) accept_encoding: Option<&'static str>,
    /// How many bytes coded content may decode to, if it is decoded.
    pub(super) decode_max: Option<usize>,
    /// Whether faults of responses are overlooked.
    pub(super) leniency: Leniency,
    /// Whether `http` URLs are refused.
    pub(super) https_only: bool,
    /// How many retries each host gets.
    pub(super) budgets: Arc<HostBudgets>,
}

impl ClientSettings {
    /// Completes the settings of a new client: what one of them says to another.
    pub(super) fn completed(mut self) -> ClientSettings {
        // A range would be one of the coded content, which cannot be decoded without the rest (RFC 9110 §14.1).
        let has_own_fields = self.fields.contains("accept-encoding") || self.fields.contains("range");
        let decodes = self.decode_max.is_some() && !has_own_fields;
        self.accept_encoding = decodes.then_some(ACCEPTED);
        // A builder may build several clients, each with budgets of its own.
        self.budgets = Arc::new(self.budgets.renewed());
        self.limits = self.limits.clamped();
        self.bounds.limits = self.limits.exchange_limits();
        let PhaseTimeouts { timeouts, bounds, streamed_bounds } =
            PhaseTimeouts::new(self.timeouts, &self.bounds);
        (self.timeouts, self.bounds, self.streamed_bounds) = (timeouts, bounds, streamed_bounds);
        // The fields of each request, and only one of each, name its host, its framing, the protocol to upgrade to and
        // the wait for 100.
        for name in encode::ROUTING.names().iter().chain(&[FieldName::UPGRADE, FieldName::EXPECT]) {
            self.fields.remove(name.as_str());
        }
        if let Some(authorization) = self.fields.get(PROXY_AUTHORIZATION) {
            self.proxies.set_default_authorization(authorization);
        }
        self.fields.remove(PROXY_AUTHORIZATION);
        if let Some(user_agent) = self.fields.get_bytes("user-agent") {
            self.proxies.set_default_user_agent(user_agent);
        }
        self
    }
}

impl Default for ClientSettings {
    fn default() -> ClientSettings {
        ClientSettings {
            limits: ClientLimits::default(),
            bounds: Bounds::default(),
            streamed_bounds: Bounds::default(),
            timeouts: ClientTimeouts::default(),
            dial: HostConnector::default(),
            proxies: Proxies::none(),
            tls: TlsConnector::default(),
            base: RequestBase::default(),
            fields: Headers::new(),
            cookies: None,
            observers: Observers::new(),
            middleware: Middlewares::default(),
            redirect_check: None,
            spans: None,
            accept_encoding: None,
            decode_max: None,
            leniency: Leniency::None,
            https_only: false,
            budgets: Arc::new(HostBudgets::new(Some(RetryBudget::default()))),
        }
    }
}

const PROXY_AUTHORIZATION: &str = "proxy-authorization";

/// The URL that others are relative to, and the query that requests have, if a client has them.
#[derive(Clone, Default)]
pub(super) struct RequestBase {
    url: Option<Target>,
    query: FormBuf,
}

impl RequestBase {
    /// Sets the URL that others are relative to.
    ///
    /// # Errors
    ///
    /// Fails if the URL is malformed, or names no host.
    pub(super) fn set_url(&mut self, url: &str) -> Result<(), MessageError> {
        let target = Request::get(url)?.target().clone();
        if target.origin().is_none() {
            return Err(MessageError::from_url(TargetError::Scheme, url));
        }
        self.url = Some(target);
        Ok(())
    }

    /// The parameters of each request.
    pub(super) fn query_mut(&mut self) -> &mut FormBuf {
        &mut self.query
    }

    /// Makes a request for `url`, which may be relative.
    ///
    /// # Errors
    ///
    /// Fails if the URL or the method is malformed.
    pub(super) fn request<M: TryInto<Method>>(&self, method: M, url: &str) -> Result<Request, MessageError>
    where
        MessageError: From<M::Error>,
    {
        let mut request = match &self.url {
            None => Request::new(method, url)?,
            Some(base) => {
                let mut target = base.join(url)?;
                if target.origin() == base.origin() {
                    target.inherit_authorization(base);
                }
                Request::with_target(method.try_into()?, target)
            }
        };
        match (request.query().as_str(), self.query.as_str()) {
            (_, "") => {}
            ("", added) => request.set_query(added)?,
            (own, added) => request.set_query(format!("{own}&{added}"))?,
        }
        Ok(request)
    }
}

/// The timeouts of one request.
#[derive(Clone, Default)]
pub(super) struct RequestTimeouts {
    /// When the whole exchange must be complete.
    pub(super) deadline: Option<Instant>,
    /// The time limit of the whole exchange, for errors.
    pub(super) total: Option<Duration>,
    /// The timeouts of the phases, if they are not those of the client.
    pub(super) phases: Option<Arc<PhaseTimeouts>>,
}

/// The timeouts of the phases of an exchange, and the bounds that follow from them.
pub(super) struct PhaseTimeouts {
    timeouts: ClientTimeouts,
    bounds: Bounds,
    streamed_bounds: Bounds,
}

impl PhaseTimeouts {
    /// The timeouts of a client with `bounds`, and with these timeouts in place of its own.
    pub(super) fn new(timeouts: ClientTimeouts, bounds: &Bounds) -> PhaseTimeouts {
        let bounds = Bounds { timeouts: timeouts.exchange_timeouts(), ..bounds.clone() };
        let mut streamed_bounds = bounds.clone();
        streamed_bounds.timeouts.body_rate_min = 0;
        PhaseTimeouts { timeouts, bounds, streamed_bounds }
    }
}

impl RequestTimeouts {
    /// Adds to `error` the target of `request`, and the time limit that was exceeded.
    #[cold]
    pub(super) fn describe(
        &self,
        error: ClientError,
        request: &Request,
        settings: &ClientSettings,
    ) -> ClientError {
        let error = error.with_url(request.target().as_str());
        match self.is_over() {
            true => error.with_total_limit(self.total),
            false => error.with_phase_limit(|phase| self.of_phases(settings).phase_limit(phase)),
        }
    }

    /// Whether the time of the whole exchange is up.
    pub(super) fn is_over(&self) -> bool {
        self.deadline.is_some_and(|deadline| deadline <= runtime::now())
    }

    /// The timeouts of the phases, for a client with these settings.
    pub(super) fn of_phases<'a>(&'a self, settings: &'a ClientSettings) -> &'a ClientTimeouts {
        self.phases.as_deref().map_or(&settings.timeouts, |phases| &phases.timeouts)
    }

    /// The bounds of the exchange, for a client with these settings.
    pub(super) fn bounds<'a>(&'a self, settings: &'a ClientSettings) -> &'a Bounds {
        self.phases.as_deref().map_or(&settings.bounds, |phases| &phases.bounds)
    }

    /// The same for a body that the caller reads in pieces, however slowly it comes.
    pub(super) fn streamed_bounds<'a>(&'a self, settings: &'a ClientSettings) -> &'a Bounds {
        self.phases.as_deref().map_or(&settings.streamed_bounds, |phases| &phases.streamed_bounds)
    }

    /// The end of a request's wait for a connection, if the wait began at `since`.
    pub(super) fn queue_until(&self, since: Instant, settings: &ClientSettings) -> Instant {
        let until = later(since, self.of_phases(settings).queue);
        self.deadline.map_or(until, |deadline| deadline.min(until))
    }
}

/// Bounds on what servers may take of a client: bytes of a response, and connections. A server has
/// [`Limits`](crate::Limits).
///
/// All fields are public and stay so. As a later release may add some, end literals in `..ClientLimits::default()`, and
/// patterns in `..`.
///
/// # Examples
///
/// ```
/// use corehttp::Client;
/// use corehttp::client::ClientLimits;
///
/// let limits = ClientLimits { body_max: 64 << 20, ..ClientLimits::default() };
/// let client = Client::builder().limits(limits).build();
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientLimits {
    /// Bytes of the head of a response. Default: 64 KiB; at most 1 GiB. The interim responses of an exchange may have as many
    /// together, without those that [`CallReader::informational`](crate::client::CallReader::informational) or a gateway takes.
    /// Each of these may have as many.
    pub head_max: usize,
    /// Fields in the head of a response. Default: 128; at most 1,024.
    pub fields_max: usize,
    /// Bytes of a body that is received whole. A body that is streamed has no limit. Default: 16 MiB.
    pub body_max: usize,
    /// Connections to one host in each runtime, in use and idle together. Further requests wait in line, for at most
    /// [`ClientTimeouts::queue`]. Default: 512; the least is 1.
    ///
    /// A proxy that reads requests, those to `http` URLs, is one host. Its connections carry requests to any origin. Tunnels
    /// count for the host that they lead to.
    pub connections_per_host_max: usize,
    /// Connections to one host that are dialed at once in each runtime. Further requests wait for the next dial, or for a
    /// connection that comes back before, for at most [`ClientTimeouts::queue`]. Default: none but
    /// [`ClientLimits::connections_per_host_max`]; the least is 1.
    ///
    /// After an outage, all requests find no connection and dial at once. A server with expensive connections, as those over
    /// TLS, recovers sooner with a bound such as 32. The first connections serve many requests before others would be open. In
    /// turn, the requests to a host that does not answer at all wait for each other.
    pub dials_per_host_max: Option<usize>,
    /// Idle connections in each runtime, over all hosts. Beyond, the longest idle ones are closed. Default: 1,024.
    ///
    /// Without a free file descriptor for a new connection or the look-up of its name (`EMFILE`, `ENFILE`), each client and
    /// server of the process closes a few of its longest idle connections. The client then tries again.
    pub idle_connections_max: usize,
}

impl ClientLimits {
    /// These limits, with values that pools can take.
    fn clamped(self) -> ClientLimits {
        let connections_per_host_max = self.connections_per_host_max.clamp(1, Semaphore::MAX_PERMITS);
        let dials_per_host_max = self.dials_per_host_max.map(|most| most.clamp(1, Semaphore::MAX_PERMITS));
        ClientLimits { connections_per_host_max, dials_per_host_max, ..self }
    }

    /// The limits of an exchange, which treats a server as a peer like any other.
    fn exchange_limits(&self) -> Limits {
        let ClientLimits { head_max, fields_max, body_max, .. } = *self;
        Limits { head_max, fields_max, body_max, ..Limits::default() }.capped()
    }
}

impl Default for ClientLimits {
    fn default() -> ClientLimits {
        ClientLimits {
            head_max: 64 << 10,
            fields_max: 128,
            body_max: 16 << 20,
            connections_per_host_max: 512,
            dials_per_host_max: None,
            idle_connections_max: 1024,
        }
    }
}

/// The time limits of a client, for each phase of an exchange, and for the connections that it keeps. `None` is no limit.
///
/// A phase counts the time that the resolver, the proxy or the server takes. Only
/// [`ClientBuilder::timeout`](crate::ClientBuilder::timeout) counts the caller's.
///
/// The limits hold for a client ([`ClientBuilder::timeouts`](crate::ClientBuilder::timeouts)). A single request may have others
/// ([`RequestBuilder::timeouts`](crate::RequestBuilder::timeouts), [`Client::with_timeouts`](crate::Client::with_timeouts)),
/// such as one for a response that takes minutes, or a stream of events with hours of silence.
///
/// All fields are public and stay so. As a later release may add some, end literals in `..ClientTimeouts::default()`, and
/// patterns in `..`.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use corehttp::Client;
/// use corehttp::client::ClientTimeouts;
///
/// let timeouts = ClientTimeouts { connect: Duration::from_secs(2), ..ClientTimeouts::default() };
/// let client = Client::builder().timeouts(timeouts).timeout(Duration::from_secs(20)).build();
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientTimeouts {
    /// The wait for one of the connections of the host. Default: 30 s.
    pub queue: Duration,
    /// Looking up the addresses of the host. Default: 5 s.
    pub resolve: Duration,
    /// Connecting, over all addresses, including the time that a proxy takes. Default: 10 s.
    pub connect: Duration,
    /// The TLS handshake. Default: 10 s.
    pub tls: Duration,
    /// How long the server may take nothing of what is written to it. Default: 60 s. Over a socket, bytes count as taken once
    /// the operating system there has acknowledged them. Some servers read a lot at once and then pause. So after more than 256
    /// KiB since the last such limit, the server gets the time once more.
    ///
    /// A complete response with a `content-length` is valid even then. Only the rest of the request is dropped, and the
    /// connection is closed.
    pub send: Duration,
    /// The wait from the last byte of the request to the end of the response's head. Default: 30 s.
    ///
    /// The wait goes on even while the caller does something else. A head that has arrived by the caller's return is in time.
    pub wait: Duration,
    /// The wait for `100 Continue`, if the request expects it. After that the body is sent anyway (RFC 9110 §10.1.1).
    /// Default: 1 s.
    ///
    /// After a 417 instead, the request is sent once more without the expectation. For a stream that has been begun, or the
    /// body of a [`Call`](crate::client::Call), the 417 is the response.
    pub expect_continue: Duration,
    /// The wait for each next byte of a body. Default: 30 s.
    ///
    /// Only the waits of the caller for the body count, and no time after an abandoned read.
    pub receive: Duration,
    /// The least average rate of a body that is received whole, in bytes per second, after the first ten seconds of waiting for
    /// it. Default: 0, so a body may be as slow as [`ClientTimeouts::receive`] allows. Bytes that came faster are credited for
    /// the next ten seconds, and no longer.
    ///
    /// All bytes after the head count, even those in its packet, over the time of waiting for more. Bytes that complete the
    /// body are never refused, however late.
    ///
    /// A body that is read in pieces ([`Client::open_response`](crate::Client::open_response),
    /// [`Client::open_call`](crate::Client::open_call)) has no minimal rate. Streams of events are slow by nature.
    pub receive_rate_min: u64,
    /// How long a connection may be idle. Later it is not reused, and is closed within a second. With zero, no connection is
    /// used twice. A server may shorten the time, for example with `keep-alive: timeout=5`. Default: 30 s. The time has no
    /// effect for a single request.
    #[doc(alias = "pool_idle_timeout")]
    pub idle: Duration,
    /// How old a connection may be and still be used for further requests. Default: no limit. It has no effect for a
    /// single request.
    pub connection_age: Option<Duration>,
}

impl ClientTimeouts {
    /// How long a phase may take.
    pub(super) fn phase_limit(&self, phase: ClientPhase) -> Option<Duration> {
        match phase {
            ClientPhase::Queue => Some(self.queue),
            ClientPhase::Resolve => Some(self.resolve),
            ClientPhase::Connect => Some(self.connect),
            ClientPhase::Tls => Some(self.tls),
            ClientPhase::Send => Some(self.send),
            ClientPhase::Wait => Some(self.wait),
            ClientPhase::Receive => Some(self.receive),
            ClientPhase::Prepare | ClientPhase::Redirect => None,
        }
    }

    /// The timeouts of an exchange, which treats a server as a peer like any other.
    pub(super) fn exchange_timeouts(&self) -> Timeouts {
        Timeouts {
            head: self.wait,
            body: self.receive,
            body_rate_min: self.receive_rate_min,
            write: self.send,
            // A connection whose response is not read is not worth a wait.
            linger: Duration::ZERO,
            ..Timeouts::default()
        }
    }
}

impl Default for ClientTimeouts {
    fn default() -> ClientTimeouts {
        ClientTimeouts {
            queue: Duration::from_secs(30),
            resolve: Duration::from_secs(5),
            connect: Duration::from_secs(10),
            tls: Duration::from_secs(10),
            send: Duration::from_secs(60),
            wait: Duration::from_secs(30),
            expect_continue: Duration::from_secs(1),
            receive: Duration::from_secs(30),
            receive_rate_min: 0,
            idle: Duration::from_secs(30),
            connection_age: None,
        }
    }
}
