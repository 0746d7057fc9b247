//! [`ExchangeInfo`]: the facts of an exchange that its response depends on, and the persistence of its connection
//! (RFC 9112 §9.3, §9.6).

use std::time::Instant;

use super::body_plan::PlanNotes;
use crate::exchange::{Bounds, Expectation, Incoming};
use crate::message::{Method, Request, Response};
use crate::net::Conn;
use crate::server::core_state::CoreState;
use crate::server::report::{ConnectionEnd, CutBy, HeadState};
use crate::wire::parse::begins_with;
use crate::wire::{ConnectionOption, RequestInfo, persists};

/// The facts of an exchange that are noted before the handler runs. The framing of the response and the persistence of
/// the connection do not depend on the request afterwards, since the handler may rewrite it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ExchangeInfo {
    pub(crate) request_info: RequestInfo,
    pub(super) persistence: Persistence,
    /// How many exchanges the connection has carried, this one included.
    pub(crate) exchange_count: u64,
    /// The reason why the connection is over, if it ends now.
    pub(crate) connection_end: ConnectionEnd,
    /// The head of the current request. If it was refused, the previous request must not be reported in its place.
    pub(crate) head: HeadState,
    /// The connection and the number of the exchange whose error was reported last.
    pub(super) last_error_reported: Option<(u64, u64)>,
    pub(crate) arrived: Instant,
    /// Whether a stream captures the response in place of a peer, for [`Service::respond`](crate::Service::respond).
    pub(crate) is_captured: bool,
    /// Whether the exchange has bounds of its own, in place of the server's.
    pub(super) has_own_bounds: bool,
    pub(crate) plans: PlanNotes,
}

/// Whether the connection outlives the exchange (RFC 9112 §9.3).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Persistence {
    /// Whether the peer has announced that this request is its last.
    pub(super) is_last_request: bool,
    /// Whether another request may follow, by the request, the response, the limits and the state of the server.
    pub(super) persists: bool,
}

impl Persistence {
    /// By the head of a request. `may_follow`: the limits admit another one.
    pub(super) fn new(request: &Request, request_info: RequestInfo, may_follow: bool) -> Persistence {
        let is_last_request =
            !persists(request_info.version, ConnectionOption::from_headers(&request.headers));
        // After a CONNECT, the next bytes may be for its tunnel, whatever the response is: they are no request.
        let persists = may_follow && !is_last_request && !request_info.is_connect;
        Persistence { is_last_request, persists }
    }
}

impl ExchangeInfo {
    pub(super) fn new(arrived: Instant) -> ExchangeInfo {
        ExchangeInfo {
            request_info: RequestInfo::default(),
            persistence: Persistence::default(),
            exchange_count: 0,
            connection_end: ConnectionEnd::Aborted,
            head: HeadState::Accepted,
            last_error_reported: None,
            arrived,
            is_captured: false,
            has_own_bounds: false,
            plans: PlanNotes::default(),
        }
    }

    #[inline]
    pub(super) fn forget_request(&mut self) {
        self.request_info = RequestInfo::default();
        self.plans = PlanNotes::default();
    }

    /// Notes that the head of `request` was refused, or did not come to its end.
    #[cold]
    pub(super) fn note_failed_head(&mut self, request: &Request, incoming: &Incoming) {
        self.head = match (request.has_line(), incoming.has_partial_head()) {
            (false, _) => HeadState::NoLine,
            (true, true) => HeadState::Partial,
            (true, false) => HeadState::Refused,
        };
        // A refused HEAD request is answered without content, too, even if no more of it was understood.
        self.request_info.is_head = match request.has_line() {
            true => request.method() == Method::Head,
            false => begins_with(Method::Head, incoming.input.unread()),
        };
    }

    /// Why a connection is closed after its last exchange, which went well or not.
    pub(super) fn connection_end_of(core: &CoreState, conn: &Conn, is_well: bool) -> ConnectionEnd {
        match is_well {
            false => ConnectionEnd::Failed,
            true if conn.is_stop_ordered() => ConnectionEnd::Stop,
            true if core.ages.is_over(conn) => ConnectionEnd::Age,
            true => ConnectionEnd::Last,
        }
    }
}

/// How the part of the request's body that is still unread when the response begins is treated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UnreadBody {
    /// It is drained after the response, if it is short enough.
    Drain,
    /// The handler is about to read it.
    Keep,
}

/// Where the content of a response is.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ResponseContent {
    /// In the body of the response.
    Body,
    /// In what the handler writes, while the unread part of the request's body is treated like this.
    Streamed(UnreadBody),
}

/// Whether the handler's response, and the unread part of the request, allow another request.
#[inline]
pub(super) fn may_persist(
    incoming: &Incoming,
    response: &Response,
    unread: UnreadBody,
    bounds: &Bounds,
) -> bool {
    let can_end = match incoming.expectation {
        // Without 100, the peer may send the body or leave it out.
        Expectation::Continue => false,
        Expectation::None if unread == UnreadBody::Keep => true,
        Expectation::None => incoming.length_left().is_none_or(|left| left <= bounds.limits.drain_max as u64),
    };
    let may_follow = incoming.is_end_stream() || (can_end && !incoming.has_failed());
    may_follow && ConnectionOption::from_headers(&response.headers) != ConnectionOption::Close
}

/// The next step of a connection after an exchange (RFC 9112 §9.3, §9.6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NextStep {
    /// Another request may come.
    KeepAlive,
    Close(CloseMode),
}

/// How an exchange ended, for its report.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ReportedEnd {
    /// The response was sent to its end.
    Whole,
    /// The exchange was cut off, by this unless another cause was noted before.
    Cut(CutBy),
    /// As was noted before: the connection was upgraded.
    AsNoted,
}

/// How a connection is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CloseMode {
    /// At once, with nothing left to send, or with the connection handed over.
    Now,
    /// The sending half first. The peer knows that this response is the last.
    Graceful,
    /// The sending half first. Then the connection lingers for a peer that is still sending. To close at once would
    /// cause a reset, which may take the response away before the peer has read it.
    Linger,
    /// With a reset, in the middle of a response. The peer cannot mistake it for the whole.
    Reset,
}
