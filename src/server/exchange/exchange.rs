//! [`Exchange`]: one exchange on a connection, as the connection's loop sees it (RFC 9112 §9.3).

use std::cell::RefCell;
use std::future::poll_fn;
use std::io;
use std::mem;
use std::rc::Rc;
use std::task::{self, Poll, ready};
use std::time::Duration;

use super::exchange_info::{
    CloseMode, ExchangeInfo, NextStep, Persistence, ReportedEnd, ResponseContent, UnreadBody, may_persist,
};
use super::shared_conn::{OnPending, SharedConn};
use super::upgraded::{Upgraded, UpgradedHandle};
use crate::exchange::{
    Bounds, ExchangeError, Expectation, HeadOutcome, Incoming, Outgoing, poll_discard, poll_drain, poll_flush,
};
use crate::memory::{Reset, clear_cold, free_beyond};
use crate::message::{BodyLength, Request, Response, Status, Version};
use crate::net::{Conn, IoState, Peer, ReadBuffer, TimerSlot};
use crate::runtime::OwnWaits;
use crate::server::core_state::CoreState;
use crate::server::error::{ErrorCause, ErrorReport, Failure, RespondError};
use crate::server::opening::RareConnectionState;
use crate::server::report::{ConnectionEnd, ConnectionReport, ExchangeEndFn, HeadState, Observation};
use crate::wire::{ConnectionOption, Framing, OutgoingFraming, RequestInfo, encode};

/// One exchange on a connection: its receiving and its sending side, the connection, and the facts that its response
/// depends on.
///
/// The request and the response belong to the handler's [`Context`](crate::server::Context), which lends them to the steps that
/// receive the one and send the other.
pub(crate) struct Exchange {
    /// A cell, since the writer of the response discards input while a write waits.
    pub(crate) incoming: RefCell<Incoming>,
    pub(crate) outgoing: Outgoing,
    pub(crate) conn: SharedConn,
    pub(crate) info: ExchangeInfo,
    /// The transform's output that is not sent yet.
    pub(crate) transformed: Vec<u8>,
    /// The server's part of the connection, once that was upgraded.
    pub(crate) upgraded: Option<Box<UpgradedHandle>>,
    /// The notes for the report, if exchanges are reported.
    observation: Option<Box<Observation>>,
    /// Lent to the connection while that is busy.
    pub(crate) io_state: Option<Box<IoState>>,
}

impl Exchange {
    pub(crate) fn new(core: Rc<CoreState>) -> Exchange {
        let info = ExchangeInfo::new(core.clock.now());
        let observation = core.events.observes_exchanges().then(Box::default);
        Exchange {
            incoming: RefCell::default(),
            outgoing: Outgoing::default(),
            conn: SharedConn::new(core),
            info,
            transformed: Vec::new(),
            upgraded: None,
            observation,
            io_state: Some(Box::default()),
        }
    }

    /// Reads the first bytes of a request from an idle connection, which then keeps the I/O state. Returns whether there are any.
    #[inline(always)]
    pub(crate) fn poll_first_bytes(
        &mut self,
        cx: &mut task::Context<'_>,
        conn: &mut Conn,
        limit: Duration,
    ) -> Poll<bool> {
        debug_assert!(self.io_state.is_some(), "an exchange without a connection has its I/O state");
        debug_assert!(!conn.has_io_state(), "an idle connection has none");
        conn.swap_io_state(&mut self.io_state);
        let Incoming { input, large_input, .. } = self.incoming.get_mut();
        if input.reads_much() {
            self.conn.bounds(|bounds| large_input.prepare_head(&bounds.memory, input));
        }
        let has_any = conn.poll_fill(cx, input, limit).map(|filled| matches!(filled, Ok(1..)));
        if has_any != Poll::Ready(true) {
            conn.swap_io_state(&mut self.io_state);
        }
        has_any
    }

    /// Takes the connection, which has carried `exchange_count` exchanges, out of its slot.
    pub(crate) fn attach(&mut self, slot: &mut Option<Conn>, exchange_count: u64) {
        self.conn.attach(slot);
        self.info.exchange_count = exchange_count;
    }

    /// Puts the connection back into its slot, without its I/O state, and returns how many exchanges it has carried.
    pub(crate) fn release(&mut self, slot: &mut Option<Conn>) -> u64 {
        self.conn.release(slot);
        if let Some(conn) = slot {
            if self.conn.core().events.observes_disconnects() {
                conn.add_traffic_to_life();
            }
            // A read that a handler has given up has left this armed, which `poll_wake` would take for a wake-up.
            conn.disarm(TimerSlot::Read);
            conn.swap_io_state(&mut self.io_state);
        }
        debug_assert!(self.incoming.get_mut().input.is_empty(), "an idle connection has no input");
        self.info.exchange_count
    }

    /// Begins an exchange for a request that is already here. `conn` captures the response, in place of a peer.
    pub(crate) fn begin_captured(&mut self, conn: Conn, request: &Request) {
        self.attach(&mut Some(conn), 0);
        self.note_request(request);
        self.info.is_captured = true;
        // There is no peer to leave, and a wait for its end would read the content before the handler does.
        self.change_bounds(Bounds::without_peer);
    }

    /// Receives the head of a request.
    #[inline(always)]
    pub(crate) fn poll_head(
        &mut self,
        cx: &mut task::Context<'_>,
        request: &mut Request,
    ) -> Poll<Result<HeadOutcome, Box<Failure>>> {
        let Exchange { incoming, conn, info, .. } = self;
        let incoming = incoming.get_mut();
        let polled = conn.poll_uncounted(|conn, bounds, core| {
            incoming.poll_head(cx, conn, request, bounds, || core.clock.mark_stale())
        });
        conn.or_gone(cx, polled, &incoming.memory).map_err(|error| {
            info.note_failed_head(request, incoming);
            error.into()
        })
    }

    /// Counts a request whose head has arrived, and notes the facts that its response depends on.
    #[inline(always)]
    pub(crate) fn note_request(&mut self, request: &Request) {
        let Exchange { info, conn, observation, .. } = self;
        let request_info = RequestInfo::new(request);
        let core = conn.core();
        let exchange_count = info.exchange_count + 1;
        let may_follow =
            core.bounds.limits.requests_per_connection_max.is_none_or(|max| exchange_count < max);
        info.persistence = Persistence::new(request, request_info, may_follow);
        (info.request_info, info.exchange_count) = (request_info, exchange_count);
        info.arrived = core.clock.now();
        core.counters.requests.add(1);
        observation.iter_mut().for_each(|observation| observation.begin(info.arrived, request));
    }

    /// Receives the whole body into the request.
    pub(crate) fn poll_body(
        &mut self,
        cx: &mut task::Context<'_>,
        request: &mut Request,
        body_max: usize,
    ) -> Poll<Result<(), ExchangeError>> {
        let Exchange { incoming, conn, .. } = self;
        let incoming = incoming.get_mut();
        if !incoming.is_end_stream() {
            let content = request.body.receive_part();
            let received = conn.poll(|conn, bounds| incoming.poll_body(cx, conn, bounds, body_max, content));
            ready!(conn.or_gone(cx, received, &incoming.memory))?;
            request.body.receive();
            mem::swap(&mut request.trailers, &mut incoming.trailers);
        }
        Poll::Ready(Ok(()))
    }

    /// Writes the head of the response, with content of this `length`, to the write buffer. A body that is in memory and
    /// small, as most are, is copied after it.
    pub(crate) fn begin_response(
        &mut self,
        response: &Response,
        length: BodyLength,
        content: ResponseContent,
    ) {
        debug_assert!(!self.outgoing.has_begun(), "an exchange has one final response");
        let unread = if let ResponseContent::Streamed(unread) = content { unread } else { UnreadBody::Drain };
        self.observe(|observation| observation.note_response(response, length));
        let Exchange { incoming, outgoing, conn, info, .. } = self;
        let incoming = incoming.get_mut();
        let core = conn.core();
        let request_info = info.request_info;
        let framing = OutgoingFraming::from_response(request_info, response, length);
        outgoing.begin(framing);
        conn.with_bounds(|conn, bounds| {
            info.persistence.persists &= may_persist(incoming, response, unread, bounds)
                && framing.body() != Framing::UntilClose
                && !conn.is_stop_ordered()
                && !core.ages.is_over(conn);
            // A final response takes the place of 100. The peer may then send the body or not (RFC 9110 §10.1.1).
            incoming.expectation = Expectation::None;
            if info.is_captured {
                return outgoing.begin_raw();
            }
            let persist = match (info.persistence.persists, request_info.version) {
                (false, _) => ConnectionOption::Close,
                (true, Version::Http10) => ConnectionOption::KeepAlive,
                // HTTP/1.1 connections persist by default.
                (true, Version::Http11) => ConnectionOption::Absent,
            };
            let out = conn.write_buffer();
            core.clock.with_common_fields(|common| {
                encode::response(out.bytes(), response, framing, persist, common)
            });
            if let ResponseContent::Body = content {
                outgoing.copy_whole(out, &response.body);
            }
        });
    }

    /// Writes an interim response, or another head that begins no body.
    pub(crate) fn write_head(&self, encode: impl FnOnce(&mut Vec<u8>)) -> io::Result<()> {
        let written = self.conn.with(|conn| encode(conn.write_buffer().bytes()));
        written.ok_or_else(|| io::ErrorKind::NotConnected.into())
    }

    /// Sends all of the write buffer.
    pub(crate) async fn flush(&self) -> io::Result<()> {
        Ok(poll_fn(|cx| self.conn.poll_shared(cx, poll_flush)).await?)
    }

    /// Sends the rest of the response's body.
    pub(crate) fn poll_send(
        &mut self,
        cx: &mut task::Context<'_>,
        response: &Response,
    ) -> Poll<Result<(), Box<Failure>>> {
        self.note_response_time();
        let Exchange { incoming, outgoing, conn, .. } = self;
        conn.poll(|conn, bounds| {
            let own_waits = OwnWaits::so_far();
            let sent = outgoing.poll_send(cx, conn, &response.body, &response.trailers, bounds);
            if sent.is_ready() {
                conn.disarm(TimerSlot::Other);
                return sent;
            }
            let incoming = incoming.get_mut();
            let late = bounds.poll_response_timeout(cx, conn, &response.body, &incoming.memory);
            if let Poll::Ready(error) = late {
                return Poll::Ready(Err(error));
            }
            // Content that the application still makes is perhaps for nobody. Other content is there, such as a file.
            let is_made = response.body.is_in_progress() && !own_waits.have_grown();
            let cancel = if is_made { bounds.cancel } else { bounds.cancel.only_on_reset() };
            // While the write waits, input is discarded; that is ready only with an error.
            let failed = poll_discard(incoming, cx, conn, bounds);
            if failed.is_pending() { cancel.poll_gone(cx, conn) } else { failed }.map(Err)
        })
        .map_err(Into::into)
    }

    /// Sends all responses in the write buffer.
    #[inline]
    pub(crate) fn poll_flush(&mut self, cx: &mut task::Context<'_>) -> Poll<Result<(), Box<Failure>>> {
        let Exchange { incoming, conn, observation, .. } = self;
        conn.poll_uncounted(|conn, bounds, core| {
            let flushed = poll_flush(cx, conn, bounds);
            if flushed.is_pending() {
                observation.iter_mut().for_each(|observation| observation.note_response_time());
                return poll_discard(incoming.get_mut(), cx, conn, bounds).map(Err);
            }
            core.count_traffic(conn);
            flushed
        })
        .map_err(Into::into)
    }

    /// Drains the request's body: reads and drops the rest of it. Returns whether that was possible.
    pub(crate) fn poll_drain(&mut self, cx: &mut task::Context<'_>) -> Poll<Result<bool, ExchangeError>> {
        self.note_response_time();
        let Exchange { incoming, conn, .. } = self;
        conn.poll(|conn, bounds| poll_drain(incoming.get_mut(), cx, conn, bounds))
    }

    /// Checks that the connection can be upgraded.
    pub(crate) fn check_upgrade(&mut self) -> io::Result<()> {
        match (self.info.is_captured, self.incoming.get_mut().is_end_stream()) {
            (true, _) => Err(RespondError::Detached.into()),
            (false, false) => Err(RespondError::Unread.into()),
            (false, true) => Ok(()),
        }
    }

    /// Makes the stream of a connection that was taken out, with the bytes that have arrived, and keeps its handle.
    pub(crate) fn make_upgraded(&mut self, conn: Conn, early: ReadBuffer) -> Upgraded {
        let report = ConnectionReport::new(&conn, self.info.exchange_count);
        let (upgraded, mut handle) = Upgraded::new(conn, early);
        handle.report = report;
        self.upgraded = Some(Box::new(handle));
        upgraded
    }

    /// Sends the head that switches to another protocol, and takes the connection out, with the bytes that have arrived
    /// after the request. The caller sets the handle of the upgraded connection.
    pub(crate) async fn upgrade_conn(
        &mut self,
        response: &mut Response,
        protocol: Option<&str>,
    ) -> io::Result<(Conn, ReadBuffer)> {
        self.check_upgrade()?;
        let headers = &response.headers;
        self.write_head(|out| match protocol {
            Some(_) => encode::interim(out, Status::SWITCHING_PROTOCOLS, headers, protocol),
            None => self.conn.core().clock.with_common_fields(|common| encode::tunnel(out, headers, common)),
        })?;
        // An access log around the handler notes the status that was sent.
        response.status = protocol.map_or(Status::OK, |_| Status::SWITCHING_PROTOCOLS);
        // If the handler is cancelled from here on, the peer would take a response for bytes of the other protocol.
        self.outgoing.begin_tunnel();
        self.flush().await?;
        self.observe(|observation| observation.note_response(response, BodyLength::NoContent));
        self.note_response_time();
        self.take_conn()
    }

    /// Takes the connection out, with the bytes that have arrived and were not read.
    pub(crate) fn take_conn(&mut self) -> io::Result<(Conn, ReadBuffer)> {
        let mut conn = self.conn.take().ok_or(io::ErrorKind::NotConnected)?;
        self.conn.core().count_traffic(&mut conn);
        self.observe(|observation| observation.note_connection(&conn));
        conn.add_traffic_to_life();
        conn.swap_io_state(&mut self.io_state);
        let incoming = self.incoming.get_mut();
        incoming.forget_message();
        incoming.memory.clear();
        incoming.large_input.clear();
        Ok((conn, incoming.input.take_unread()))
    }

    /// Notes why the connection is closed after its last exchange, which went well or not.
    pub(crate) fn note_connection_end(&mut self, is_well: bool) {
        let Exchange { conn, info, .. } = self;
        if info.connection_end == ConnectionEnd::Aborted {
            let end = conn.with(|open| ExchangeInfo::connection_end_of(conn.core(), open, is_well));
            info.connection_end = end.unwrap_or(ConnectionEnd::Upgraded);
        }
    }

    /// Reports that the connection is over, if a report is wanted.
    pub(crate) fn report_disconnect(&mut self) {
        let count = self.info.exchange_count;
        let report = match &mut self.upgraded {
            Some(upgraded) => upgraded.report.take(),
            None => self
                .conn
                .with(|conn| {
                    conn.add_traffic_to_life();
                    ConnectionReport::new(conn, count)
                })
                .flatten(),
        };
        if let Some(report) = report {
            self.conn.core().report_connection(report, self.info.connection_end);
        }
    }

    /// Makes this response the last one of its connection.
    pub(crate) fn stop_persisting(&mut self) {
        self.info.persistence.persists = false;
    }

    /// Prepares for the next head on the same connection.
    #[inline]
    pub(crate) fn begin_next(&mut self) {
        self.reset_bounds();
        let Exchange { incoming, outgoing, info, .. } = self;
        incoming.get_mut().forget_message();
        outgoing.reset();
        // If the next head is refused, that response must not depend on the request before it.
        info.forget_request();
    }

    /// Changes the bounds of this exchange alone.
    pub(crate) fn change_bounds(&mut self, change: impl FnOnce(&mut Bounds)) {
        self.info.has_own_bounds = true;
        self.conn.change_bounds(change);
    }

    #[inline]
    fn reset_bounds(&mut self) {
        if mem::take(&mut self.info.has_own_bounds) {
            self.conn.reset_bounds();
        }
    }

    /// Cuts off the peer if it has received a part of a response, so that it cannot mistake that for the whole.
    pub(crate) fn abandon(&mut self) {
        let Exchange { outgoing, conn, io_state, .. } = self;
        let core = conn.core();
        conn.on_handler_wait().take();
        conn.set_on_pending(OnPending::CancelIfGone);
        // A WebSocket has taken the connection, and with it the I/O state.
        if conn.is_taken() {
            io_state.get_or_insert_default();
        }
        conn.with(|conn| {
            core.count_traffic(conn);
            if outgoing.has_begun() && !outgoing.is_finished_or_full() {
                conn.transport.reset();
            }
        });
    }

    /// Counts a failure, and passes its report to the application's `on_error`.
    pub(crate) fn report_error(&mut self, request: &Request, status: Option<Status>, cause: ErrorCause) {
        let report = self.error_report(request, status, cause);
        self.send_error_report(report);
    }

    /// The report of a failure of this exchange.
    pub(crate) fn error_report<'r>(
        &self,
        request: &'r Request,
        status: Option<Status>,
        cause: ErrorCause,
    ) -> ErrorReport<'r> {
        let (exchange_number, request) = match (self.info.exchange_count, self.info.head) {
            (count, HeadState::Refused | HeadState::Partial | HeadState::NoLine) => (count + 1, None),
            (count, HeadState::Accepted) => (count, (count > 0).then_some(request)),
        };
        let proxies = self.conn.core().proxies.trusted.clone();
        let report = ErrorReport::from_connection(self.peer(), cause);
        ErrorReport { status, exchange_number, request, proxies, ..report }
    }

    /// Counts a failure, and passes its report to the application's `on_error`. If the connection of an exchange that
    /// was reported fails afterwards, the failure is not reported.
    pub(crate) fn send_error_report(&mut self, report: ErrorReport<'_>) {
        let last = self.info.last_error_reported.replace((report.connection_id, report.exchange_number));
        if !matches!(report.cause, ErrorCause::Exchange(_)) || last != self.info.last_error_reported {
            self.conn.core().report_error(report);
        }
    }

    /// Notes something for the report, if exchanges are reported.
    #[inline]
    pub(crate) fn observe(&mut self, note: impl FnOnce(&mut Observation)) {
        if let Some(observation) = &mut self.observation {
            note(observation);
        }
    }

    /// Notes that the handler is called now.
    #[inline]
    pub(crate) fn note_handler(&mut self) {
        let Exchange { observation, conn, .. } = self;
        if let Some(observation) = observation {
            observation.note_handler(conn.core().clock.now());
        }
    }

    /// Notes when the head of the response was written, before anything that may wait. Otherwise that is the end.
    pub(crate) fn note_response_time(&mut self) {
        self.observe(Observation::note_response_time);
    }

    /// Whether exchanges are reported. Each response then leaves before the next request is looked at.
    #[inline]
    pub(crate) fn is_observed(&self) -> bool {
        self.observation.is_some()
    }

    /// Reports the exchange, if one has begun and reports are wanted.
    #[inline]
    pub(crate) fn report_end(&mut self, request: &Request, end: ReportedEnd) {
        if let Some(observation) = self.observation.as_mut().filter(|observation| observation.is_open()) {
            observation.cut = match end {
                ReportedEnd::Whole => None,
                ReportedEnd::Cut(by) => observation.cut.or(Some(by)),
                ReportedEnd::AsNoted => observation.cut,
            };
            self.report_exchange(request);
        }
    }

    #[inline(never)]
    fn report_exchange(&mut self, request: &Request) {
        let number = self.info.exchange_count + u64::from(self.info.head != HeadState::Accepted);
        let Some(observation) = &mut self.observation else { return };
        let conn = self.conn.borrow();
        let upgraded = || self.upgraded.as_ref().map(|upgraded| upgraded.peer()).unwrap_or_default();
        let (peer, traffic) = match &*conn {
            Some(conn) => (conn.peer(), conn.total_traffic()),
            None => (upgraded(), observation.upgraded_traffic()),
        };
        self.conn.core().report_exchange(observation, conn.as_ref(), (&peer, traffic, number), request);
        if !self.conn.core().events.observes_exchanges() {
            clear_cold(&mut self.observation);
        }
    }

    /// Calls `on_end` with the report of this exchange. The next one is observed only if all are, or if it has such a
    /// function, too.
    #[allow(dead_code, reason = "unused without the feature `tracing`")]
    pub(crate) fn on_end(&mut self, request: &Request, on_end: Box<ExchangeEndFn>) {
        let times = (self.info.arrived, self.conn.core().clock.now());
        self.observation.get_or_insert_default().on_end(times, request, on_end);
    }

    /// The peer of the connection, even if that was upgraded.
    pub(crate) fn peer(&self) -> Peer {
        let peer = self.conn.with(|conn| conn.peer());
        peer.or_else(|| self.upgraded.as_ref().map(|upgraded| upgraded.peer())).unwrap_or_default()
    }

    /// The rare state of the connection, unless that was upgraded.
    pub(crate) fn rare_state(&self) -> Option<Rc<RareConnectionState>> {
        self.conn.with(|conn| RareConnectionState::from_conn(conn)).flatten()
    }

    /// Whether the request's body has been received to its end.
    #[inline]
    pub(crate) fn is_end_stream(&mut self) -> bool {
        self.incoming.get_mut().is_end_stream()
    }

    /// Whether another request may follow on the connection.
    #[inline]
    pub(crate) fn persists(&self) -> bool {
        self.info.persistence.persists
    }

    /// Whether the responses that wait in the write buffer have reached a limit, and must be sent.
    #[inline]
    pub(crate) fn must_flush(&self, unflushed: usize) -> bool {
        let limits = &self.conn.core().bounds.limits;
        let waiting = self.conn.with(|conn| conn.write_buffer().len()).unwrap_or_default();
        unflushed >= limits.pipeline_responses_max || waiting >= limits.pipeline_bytes_max
    }

    /// Whether the connection was upgraded.
    #[inline]
    pub(crate) fn is_upgraded(&self) -> bool {
        debug_assert_eq!(self.upgraded.is_some(), self.conn.is_taken(), "a connection is here or upgraded");
        self.upgraded.is_some()
    }

    /// Whether bytes of another request have arrived.
    #[inline]
    pub(crate) fn has_input(&mut self) -> bool {
        !self.incoming.get_mut().input.is_empty()
    }

    /// Decides between keeping and closing the connection, once the response is written.
    #[inline]
    pub(crate) fn next_step(&mut self) -> NextStep {
        let incoming = self.incoming.get_mut();
        // After a handler that read exactly as much as there was, the last piece is still current. An idle connection
        // has none.
        incoming.consume_piece();
        debug_assert!(
            !self.info.persistence.persists || incoming.is_end_stream(),
            "the rest of a body would pass for a request"
        );
        let may_receive_more =
            !self.info.persistence.is_last_request || !incoming.is_end_stream() || !incoming.input.is_empty();
        match (self.info.persistence.persists, may_receive_more) {
            (true, _) => NextStep::KeepAlive,
            (false, true) => NextStep::Close(CloseMode::Linger),
            (false, false) => NextStep::Close(CloseMode::Graceful),
        }
    }
}

impl Reset for Exchange {
    #[inline]
    fn reset(&mut self) {
        self.reset_bounds();
        let Exchange { incoming, outgoing, conn, info, transformed, upgraded, observation, io_state } = self;
        incoming.get_mut().reset();
        outgoing.reset();
        if let Some(mut conn) = conn.take() {
            conn.swap_io_state(io_state);
        }
        debug_assert!(io_state.is_some(), "a connection gives back what it was lent");
        *info = ExchangeInfo::new(info.arrived);
        transformed.clear();
        clear_cold(upgraded);
        if let Some(observation) = observation {
            observation.reset();
        }
        if let Some(io_state) = io_state {
            io_state.reset();
        }
    }

    fn shrink(&mut self) -> usize {
        free_beyond(&mut self.transformed, TRANSFORMED_KEPT_MAX);
        let own = self.incoming.get_mut().shrink() + self.outgoing.shrink() + self.transformed.capacity();
        let noted = self.observation.as_mut().map_or(0, |observation| observation.shrink());
        own + noted + self.io_state.as_mut().map_or(0, |io_state| io_state.shrink())
    }
}

/// How much memory of a transform's output is kept for the next exchange.
const TRANSFORMED_KEPT_MAX: usize = 16 << 10;
