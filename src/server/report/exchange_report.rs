//! [`ExchangeReport`]: an exchange that is over, as [`Server::on_exchange`](crate::Server::on_exchange) sees it.
//! [`Observation`] notes what the report needs.

use std::cell::RefCell;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicU16;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use crate::error_text::write_escaped;
use crate::exchange::ExchangeError;
use crate::memory::{Counter, Reset, clear_cold, free_text_beyond};
use crate::message::content::is_event_stream;
use crate::message::{BodyLength, Method, Request, Response, Status, Version};
use crate::net::{Conn, Peer, PeerAddr, Traffic, tls};
use crate::server::error::ErrorCause;
use crate::server::forwarded::{Source, TrustedProxies, client_ip};
use crate::server::opening::{ProxyHeader, RareConnectionState};

/// An exchange that is over, with its response or without.
///
/// `{}` formats it as one line, without the query, which may contain secrets.
///
/// # Examples
///
/// ```
/// use std::sync::mpsc;
/// use corehttp::{Context, Server};
///
/// // A thread of the application takes the lines, and writes them: no core waits for a terminal.
/// let (lines, taken) = mpsc::sync_channel(1_000);
/// let server = Server::new().on_exchange(move |exchange| {
///     let _ = lines.try_send(exchange.to_string()); // GET /a from 192.0.2.1:50000: 200, 114 bytes in 73µs
/// });
/// # drop(taken);
/// # let _ = server.service(|ctx: &mut Context| ctx.response.set_text("hi"));
/// ```
#[non_exhaustive]
pub struct ExchangeReport<'a> {
    /// The method, as it was received. `None` for a request line cut before the end of its target, for a line that is none, and
    /// for a refused method. A head that was refused later has one.
    pub method: Option<Method>,
    /// The target, as it was received, perhaps with a query. Empty if it is not known. In a refused request line, the
    /// target ends before the fault, and may be invalid.
    pub target: &'a str,
    /// The version that the peer speaks. HTTP/1.1 if the request line was refused.
    pub version: Version,
    /// The request, as the handler left it. Its body may be gone. Of a head that was refused or unfinished, only the
    /// lines before the fault are here. Important fields may be missing.
    pub request: &'a Request,
    /// The status of the response. `None` if its head was not even written.
    pub status: Option<Status>,
    /// The cause for which the peer got only a part of its response, or none. `None` if the exchange was not cut.
    pub cut: Option<CutBy>,
    /// The address of the peer.
    pub peer_addr: PeerAddr,
    /// The number of the connection, as in [`Context::connection_id`](crate::Context::connection_id).
    pub connection_id: u64,
    /// The number of the exchange on its connection, counted from 1.
    pub exchange_number: u64,
    /// The number of bytes received since the last exchange: the head, the body, and perhaps a part of the next
    /// request.
    pub received: u64,
    /// The number of bytes handed to the system, or to the TLS connection: heads, bodies and their framing. Bytes after
    /// an upgrade do not count, except those of a WebSocket, here and in `received`.
    pub sent: u64,
    /// The part of a WebSocket in the exchange. `None` if none was opened.
    pub websocket: Option<WebSocketReport>,
    /// The part of the last server behind in the exchange. `None` if the request was not forwarded.
    pub forward: Option<ForwardReport>,
    /// The time from the head of the request to the call of the handler. The receipt of a buffered body is a part of
    /// it. Zero if all of the request had arrived together. `None` if the handler was not called.
    pub until_handler: Option<Duration>,
    /// The time from the head of the request until the head of the response was ready to be sent. With a small body in
    /// the same write, the time until the system had taken both. `None` if there is no response.
    pub until_response: Option<Duration>,
    /// The time from the head of the request to the end of the exchange.
    pub duration: Duration,
    /// The moment at which the exchange was over.
    pub ended_at: Instant,
    /// Whether the response was a stream of events, without a bound on its time.
    pub is_event_stream: bool,
    head: HeadState,
    /// The connection, unless it was upgraded.
    conn: Option<&'a Conn>,
    observation: &'a Observation,
    proxies: &'a TrustedProxies,
}

/// A WebSocket at the end of its exchange, when its handler has returned.
///
/// Messages and bytes of a WebSocket that lives on in another task are only in
/// [`ServerCounts`](crate::server::ServerCounts).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct WebSocketReport {
    /// How many messages were received.
    pub messages_received: u64,
    /// How many messages were sent.
    pub messages_sent: u64,
    /// The code of the first close frame, of either end, such as 1000. `None` without a close frame.
    pub close_code: Option<u16>,
}

/// The part of the server behind in an exchange that [`Context::forward`](crate::Context::forward) has answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ForwardReport {
    /// How many attempts there were: 1, and one more for each retry by the client's [`Retry`](crate::client::Retry).
    pub attempts: u32,
    /// The address of the server behind that was connected to last, or of the proxy in front of it. `None` if no server was, or
    /// not over IP.
    pub peer_addr: Option<SocketAddr>,
    /// The status of the response behind, which the gateway may have changed. `None` if there was none.
    pub status: Option<Status>,
}

/// The cause for which an exchange was cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CutBy {
    /// The peer closed or reset the connection, or the connection failed.
    Peer,
    /// A time limit of the server.
    Timeout,
    /// The server, which had no memory left ([`Limits::memory_max`](crate::Limits::memory_max)).
    Memory,
    /// The end of the grace period of a stop, or of the task of the connection.
    Stop,
    /// The handler: it failed, or left its response unfinished, after the head had been sent.
    Handler,
}

impl CutBy {
    /// Returns the cause as one word in lower case, for logs and labels: `peer`, `timeout`, `memory`, `stop` or `handler`.
    pub fn as_str(self) -> &'static str {
        match self {
            CutBy::Peer => "peer",
            CutBy::Timeout => "timeout",
            CutBy::Memory => "memory",
            CutBy::Stop => "stop",
            CutBy::Handler => "handler",
        }
    }

    pub(crate) fn from_cause(cause: &ErrorCause) -> CutBy {
        let exchange = match cause {
            ErrorCause::Exchange(error) => Some(error),
            ErrorCause::Handler(error) => error.downcast_cause(),
            _ => None,
        };
        match exchange {
            Some(ExchangeError::TimedOut(..)) => CutBy::Timeout,
            Some(ExchangeError::NoMemory) => CutBy::Memory,
            Some(ExchangeError::Length | ExchangeError::Unfinished | ExchangeError::Source(_)) | None => {
                CutBy::Handler
            }
            Some(_) => CutBy::Peer,
        }
    }
}

impl fmt::Display for CutBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl ExchangeReport<'_> {
    /// Returns the pattern of the route that a [`Router`](crate::Router) has matched, such as `/users/{id}`.
    pub fn matched_pattern(&self) -> Option<&str> {
        self.request.matched_pattern()
    }

    /// Returns the address of the client, as [`Context::client_ip`](crate::Context::client_ip) does. If the head was
    /// refused before its end, the address is the peer's. A proxy may have named its client after the fault.
    ///
    /// Behind [trusted proxies](crate::Server::trusted_proxies), the fields of `request` name the client, as the handler
    /// left them. A handler that takes the request out of its context, as with `std::mem::take`, leaves the address of
    /// the proxy: it should take the parts that it needs, such as the body.
    pub fn client_ip(&self) -> Option<IpAddr> {
        match self.head {
            HeadState::Accepted | HeadState::Refused => {
                client_ip(self.peer_addr, &self.request.headers, self.proxies)
            }
            HeadState::Partial | HeadState::NoLine => self.peer_addr.ip(),
        }
    }

    /// The client, and the peer if that is another.
    pub(crate) fn source(&self) -> Source {
        Source { client: self.client_ip(), peer: self.peer_addr }
    }

    /// Whether the version of the request is known.
    #[allow(dead_code, reason = "unused without the feature `access-log`")]
    #[inline]
    pub(crate) fn has_version(&self) -> bool {
        self.head != HeadState::NoLine
    }

    /// Whether there was a request, and not a head that was refused or did not come to its end.
    #[allow(dead_code, reason = "unused without the feature `metrics`")]
    pub(crate) fn has_request(&self) -> bool {
        self.head == HeadState::Accepted
    }

    /// The session of the connection, if that is secure.
    #[allow(dead_code, reason = "unused without the feature `tls`")]
    pub(crate) fn tls_session(&self) -> Option<Arc<tls::Session>> {
        match self.conn {
            Some(conn) => conn.transport.tls_session(),
            None => self.observation.upgrade.as_ref()?.tls_session.clone(),
        }
    }

    /// The PROXY header that the connection began with.
    #[allow(dead_code, reason = "unused without the feature `proxy-protocol`")]
    pub(crate) fn header(&self) -> Option<Rc<ProxyHeader>> {
        match self.conn {
            Some(conn) => RareConnectionState::proxy_header(conn),
            None => self.observation.upgrade.as_ref()?.proxy_header.clone(),
        }
    }
}

impl fmt::Display for ExchangeReport<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.method {
            Some(method) => {
                let path = self.target.split('?').next().unwrap_or_default();
                write!(f, "{method} ")?;
                write_escaped(f, path)?;
            }
            None => f.write_str("a refused head")?,
        }
        write!(f, " from {}: ", self.source())?;
        match self.status {
            Some(status) => write!(f, "{}", status.as_u16())?,
            None => f.write_str("no response")?,
        }
        if let Some(cut) = self.cut {
            write!(f, ", cut by {cut}")?;
        }
        write!(f, ", {} bytes in {:?}", self.sent, self.duration)
    }
}

impl fmt::Debug for ExchangeReport<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ExchangeReport({self})")
    }
}

/// Gets the report of one exchange.
pub(crate) type ExchangeEndFn = dyn FnOnce(&ExchangeReport<'_>);

/// The notes of an exchange that is to be reported. Its memory is kept for the next one.
#[derive(Default)]
pub(crate) struct Observation {
    /// When the head arrived. `None` if no exchange has begun since the last report.
    arrived: Option<Instant>,
    handler_called: Option<Instant>,
    status: Option<Status>,
    is_event_stream: bool,
    head: HeadState,
    /// When the head of the response left. `None` if the head left with the end of the response.
    responded: Option<Instant>,
    method: Option<Method>,
    version: Version,
    target: String,
    pub(crate) cut: Option<CutBy>,
    pub(crate) forward: Option<ForwardReport>,
    /// The traffic of the connection at the end of the last exchange.
    traffic_before: Traffic,
    // In a cell, since the report that these functions get borrows the observation.
    on_end: RefCell<Vec<Box<ExchangeEndFn>>>,
    upgrade: Option<Box<UpgradeInfo>>,
}

/// How the head of a request has ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum HeadState {
    /// There is a request.
    #[default]
    Accepted,
    /// Its fields were refused, all of which are known.
    Refused,
    /// It was refused before its end, or did not come to one. More fields may have followed.
    Partial,
    /// Its request line was refused, or did not come to its end.
    NoLine,
}

/// The facts of a connection that was upgraded, for the report.
#[derive(Default)]
struct UpgradeInfo {
    /// The counts of the WebSocket that the exchange has opened.
    websocket: Option<Arc<WebSocketCounts>>,
    /// The traffic of the connection until it was upgraded.
    traffic: Traffic,
    tls_session: Option<Arc<tls::Session>>,
    proxy_header: Option<Rc<ProxyHeader>>,
}

/// The counts of a WebSocket, which its exchange reports. The WebSocket may live on.
#[derive(Debug, Default)]
pub(crate) struct WebSocketCounts {
    pub(crate) received: Counter,
    pub(crate) sent: Counter,
    pub(crate) messages_received: Counter,
    pub(crate) messages_sent: Counter,
    /// 0 as long as there is none.
    pub(crate) close_code: AtomicU16,
}

impl WebSocketCounts {
    #[cold]
    #[inline(never)]
    fn add_to(&self, report: &mut ExchangeReport<'_>) {
        report.received += self.received.get();
        report.sent += self.sent.get();
        report.websocket = Some(WebSocketReport {
            messages_received: self.messages_received.get(),
            messages_sent: self.messages_sent.get(),
            close_code: Some(self.close_code.load(Relaxed)).filter(|code| *code > 0),
        });
    }
}

impl Observation {
    /// Notes a request, whose head has arrived. A separate function, so that its code is not in the way of exchanges that
    /// are not reported.
    #[inline(never)]
    pub(crate) fn begin(&mut self, now: Instant, request: &Request) {
        self.arrived = Some(now);
        self.method = Some(request.method());
        self.version = request.version();
        self.target.push_str(request.target().as_str());
    }

    /// Notes a head that was refused or did not come to its end, of which `request` has as much as was read.
    #[cold]
    pub(crate) fn begin_refused(&mut self, now: Instant, request: &Request, head: HeadState) {
        match head {
            HeadState::NoLine => self.arrived = Some(now),
            _ => self.begin(now, request),
        }
        self.head = head;
    }

    /// Notes as much of a refused request line as is known.
    #[cold]
    pub(crate) fn note_line(&mut self, method: Option<Method>, target: &str) {
        self.method = method;
        self.target.push_str(target);
    }

    /// Adds a function for the end of this exchange, whose head has arrived and whose handler was called at these times.
    pub(crate) fn on_end(
        &mut self,
        (arrived, called): (Instant, Instant),
        request: &Request,
        on_end: Box<ExchangeEndFn>,
    ) {
        // Without an observer nothing was noted so far; make up for it.
        if !self.is_open() {
            self.begin(arrived, request);
            self.note_handler(called);
        }
        self.on_end.get_mut().push(on_end);
    }

    #[inline]
    pub(crate) fn is_open(&self) -> bool {
        self.arrived.is_some()
    }

    #[inline]
    pub(crate) fn note_handler(&mut self, now: Instant) {
        self.handler_called = Some(now);
    }

    #[inline]
    pub(crate) fn note_response(&mut self, response: &Response, content: BodyLength) {
        self.status = Some(response.status);
        self.is_event_stream = content == BodyLength::Unknown && is_event_stream(&response.headers);
    }

    /// Notes what the report tells of a connection that is about to be upgraded.
    pub(crate) fn note_connection(&mut self, conn: &Conn) {
        let upgrade = self.upgrade.get_or_insert_default();
        upgrade.traffic = conn.total_traffic();
        upgrade.tls_session = conn.transport.tls_session();
        upgrade.proxy_header = RareConnectionState::proxy_header(conn);
    }

    /// Notes that the exchange opens a WebSocket, and returns its counts.
    #[allow(dead_code, reason = "unused without the feature `websocket`")]
    pub(crate) fn note_websocket(&mut self) -> Arc<WebSocketCounts> {
        self.upgrade.get_or_insert_default().websocket.insert(Arc::default()).clone()
    }

    /// Notes the time of the response's head before something else takes time. A small response, which is sent at once,
    /// is over with its head, so that one reading of the clock does for both.
    pub(crate) fn note_response_time(&mut self) {
        if self.status.is_some() && self.responded.is_none() {
            // The handler may have taken long, and the core has not read its clock since.
            self.responded = Some(Instant::now());
        }
    }

    /// The report of the exchange, which has begun, and was over at `now`.
    #[inline]
    pub(crate) fn report<'r>(
        &'r self,
        now: Instant,
        conn: Option<&'r Conn>,
        (peer, traffic, exchange_number): (&Peer, Traffic, u64),
        request: &'r Request,
        proxies: &'r TrustedProxies,
    ) -> ExchangeReport<'r> {
        debug_assert!(self.is_open(), "an exchange that has not begun is not reported");
        let arrived = self.arrived.unwrap_or(now);
        let since = |instant: Instant| instant.saturating_duration_since(arrived);
        let duration = since(now);
        // Most handlers are called as soon as the head is here, and most responses are sent with their heads.
        let until_handler = self.handler_called.map(|called| match called == arrived {
            true => Duration::ZERO,
            false => since(called),
        });
        let until_response = self.status.map(|_| self.responded.map_or(duration, since));
        let received = traffic.received.saturating_sub(self.traffic_before.received);
        let sent = traffic.sent.saturating_sub(self.traffic_before.sent);
        // Nothing is computed between the fields, so that the report is written in its place, and not copied there.
        ExchangeReport {
            method: self.method,
            target: &self.target,
            version: self.version,
            request,
            status: self.status,
            cut: self.cut,
            peer_addr: peer.addr,
            connection_id: peer.id,
            exchange_number,
            received,
            sent,
            websocket: None,
            forward: self.forward,
            until_handler,
            until_response,
            duration,
            ended_at: now,
            is_event_stream: self.is_event_stream,
            head: self.head,
            conn,
            observation: self,
            proxies,
        }
    }

    /// Adds the counts of the WebSocket that the exchange has opened to its report.
    pub(crate) fn add_websocket_counts(&self, report: &mut ExchangeReport<'_>) {
        if let Some(websocket) = self.upgrade.as_ref().and_then(|upgrade| upgrade.websocket.as_ref()) {
            websocket.add_to(report);
        }
    }

    /// The traffic of a connection that was upgraded, until then.
    pub(crate) fn upgraded_traffic(&self) -> Traffic {
        self.upgrade.as_ref().map(|upgrade| upgrade.traffic).unwrap_or_default()
    }

    /// Calls the functions for the end of the exchange, which has this report.
    pub(crate) fn call_on_end(&self, report: &ExchangeReport<'_>) {
        if !self.on_end.borrow().is_empty() {
            call_on_end(self.on_end.take(), report);
        }
    }

    /// Forgets the exchange, whose functions for its end were called, and notes the `traffic` of its connection so far.
    #[inline]
    pub(crate) fn close(&mut self, traffic: Traffic) {
        let Observation {
            arrived,
            handler_called,
            status,
            is_event_stream,
            head,
            responded,
            method,
            version,
            target,
            cut,
            forward,
            traffic_before,
            on_end: _,
            upgrade,
        } = self;
        (*arrived, *handler_called, *status, *responded) = Default::default();
        (*method, *version, *cut) = Default::default();
        (*is_event_stream, *head, *forward) = Default::default();
        target.clear();
        *traffic_before = traffic;
        clear_cold(upgrade);
    }
}

#[cold]
#[inline(never)]
fn call_on_end(functions: Vec<Box<ExchangeEndFn>>, report: &ExchangeReport<'_>) {
    for on_end in functions {
        let _ = catch_unwind(AssertUnwindSafe(|| on_end(report)));
    }
}

impl Reset for Observation {
    #[inline]
    fn reset(&mut self) {
        self.close(Traffic::default());
        if !self.on_end.get_mut().is_empty() {
            self.on_end.take();
        }
    }

    fn shrink(&mut self) -> usize {
        free_text_beyond(&mut self.target, TARGET_KEPT_MAX);
        size_of::<Observation>() + self.target.capacity()
    }
}

/// How much memory of a target is kept for the next exchange.
const TARGET_KEPT_MAX: usize = 4 << 10;
