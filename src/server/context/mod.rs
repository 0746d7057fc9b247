//! [`Context`]: one exchange, as its handler sees it.

mod client_ip;
mod exchange_info;

mod decode;
mod handler_io;
mod next_step;
mod peer_closed;
mod response_head;
#[cfg(feature = "tower")]
mod tower;

mod body_reader;
mod body_writer;
mod upgraded;

mod extensions;
mod transform;
mod transform_writer;
mod user_values;

use std::cell::RefCell;
use std::fmt;
use std::rc::Rc;
use std::task::{self, Poll, ready};

pub use body_reader::BodyReader;
pub use body_writer::BodyWriter;
pub use extensions::Extensions;
pub(super) use next_step::{CloseMode, NextStep};
pub(super) use response_head::UnreadBody;
pub use transform::{Transform, TransformAction};
pub use upgraded::Upgraded;
pub(super) use upgraded::UpgradedHandle;

use self::exchange_info::ExchangeInfo;
use super::core_state::CoreState;
use super::error_report::Refused;
use super::{ErrorCause, ErrorReport};
use crate::exchange::{ExchangeError, HeadOutcome, Incoming, Outgoing, poll_flush};
use crate::memory::{Reset, clear_cold};
use crate::message::{Method, Request, Response, Status};
use crate::net::{Conn, IoState, Peer};
use crate::wire::RequestInfo;

/// One exchange: a request, its response, and the connection between client and server.
///
/// A handler borrows it. Whatever is in its response when the handler returns is the answer:
///
/// ```
/// use corehttp::{Context, Status};
///
/// fn greet(ctx: &mut Context) -> corehttp::Result {
///     let Context { request, response, .. } = ctx; // so that one can be read while the other is written
///     let name = request.query().get("name").ok_or(Status::BAD_REQUEST)?;
///     response.set_text(format!("Hello, {name}!"));
///     Ok(())
/// }
/// # let _ = corehttp::Server::new().service(greet);
/// ```
///
/// A body that is too large for memory is read with [`Context::body_reader`], and written with [`Context::body_writer`].
///
/// A path, a field, or JSON that borrows its texts is a view of the request. While one is in use, the context as a whole
/// cannot be lent on, neither to a function nor to one of its methods (error E0502). There are three ways around that:
///
/// ```
/// use corehttp::{Context, Response};
///
/// async fn answer(ctx: &mut Context, name: &str) -> corehttp::Result {
///     ctx.response.set_text(format!("Hello, {name}!"));
///     Ok(())
/// }
///
/// async fn with_a_copy(ctx: &mut Context) -> corehttp::Result {
///     let name = ctx.request.path()[1..].to_owned(); // a number, by `parse`, is a copy, too
///     answer(ctx, &name).await
/// }
///
/// async fn with_the_parts(ctx: &mut Context) {
///     let Context { request, response, .. } = ctx;
///     let write = async |response: &mut Response, name: &str| response.set_text(format!("Hello, {name}!"));
///     write(response, &request.path()[1..]).await;
/// }
///
/// async fn with_the_request_taken_out(ctx: &mut Context) -> corehttp::Result {
///     let request = std::mem::take(&mut ctx.request);
///     let outcome = answer(ctx, &request.path()[1..]).await;
///     ctx.request = request; // so that its memory is used again
///     outcome
/// }
/// # let check = |response: Response| assert_eq!(response.body.text(), Ok("Hello, Ada!"));
/// # let server = corehttp::Server::new;
/// # corehttp::block_on(async {
/// #     let request = || corehttp::Request::get("/Ada").unwrap();
/// #     check(server().service(with_a_copy).respond(request()).await);
/// #     check(server().service(with_the_parts).respond(request()).await);
/// #     check(server().service(with_the_request_taken_out).respond(request()).await);
/// # }).unwrap();
/// ```
///
/// Everything in it is reused for the next exchange, so a view of the request cannot be kept longer. The compiler sees
/// to that:
///
/// ```compile_fail
/// use corehttp::{Context, Server};
///
/// let kept = std::sync::Mutex::new(Vec::new());
/// Server::bind("127.0.0.1:8080").run(move |ctx: &mut Context| {
///     kept.lock().unwrap().push(ctx.request.path());
/// });
/// ```
#[doc(alias = "RequestCtx")]
pub struct Context {
    /// The request. It includes the body, unless the handler planned to stream it (see [`BodyPlan`](crate::BodyPlan)).
    pub request: Request,
    /// The answer, unless the handler sends it itself, for example with [`Context::body_writer`].
    pub response: Response,
    /// Values that middleware passes on to the handlers it wraps.
    pub extensions: Extensions,
    /// What changes the answer on its way to the peer, if the handler streams it. Set by middleware.
    pub transform: Option<Box<dyn Transform>>,
    /// The transform's output that is not sent yet.
    transformed: Vec<u8>,
    pub(super) incoming: RefCell<Incoming>,
    pub(super) outgoing: Outgoing,
    /// The connection; none while the context waits to be used again, or once it was taken over.
    pub(super) conn: SharedConn,
    /// The place that the connection left, once it was taken over.
    pub(super) upgraded: Option<Box<UpgradedHandle>>,
    /// The I/O state of the connection while it is busy; kept in the context while the context has no connection.
    io_state: Option<Box<IoState>>,
    pub(super) info: ExchangeInfo,
    pub(super) shared: Rc<CoreState>,
}

/// The connection. It is borrowed only during a poll, so that a reader, a writer and the loop that runs the handler can
/// share it.
pub(super) type SharedConn = Rc<RefCell<Option<Conn>>>;

/// The side that the loop of the connection uses.
impl Context {
    pub(super) fn new(shared: Rc<CoreState>) -> Box<Context> {
        let info = ExchangeInfo::new(shared.clock.now());
        Box::new(Context {
            request: Request::default(),
            response: Response::default(),
            extensions: Extensions::default(),
            transform: None,
            transformed: Vec::new(),
            incoming: RefCell::default(),
            outgoing: Outgoing::default(),
            conn: SharedConn::default(),
            upgraded: None,
            io_state: Some(Box::default()),
            info,
            shared,
        })
    }

    /// Takes a connection, which has carried `number` exchanges, out of its place.
    pub(super) fn attach(&mut self, slot: &mut Option<Conn>, number: u64) {
        let mut conn = self.conn.borrow_mut();
        std::mem::swap(&mut *conn, slot);
        conn.iter_mut().for_each(Conn::share);
        self.info.number = number;
    }

    /// Lends the connection the I/O state that it needs while it is busy, or takes it back.
    #[inline]
    pub(super) fn swap_io_state(&mut self, conn: &mut Conn) {
        conn.swap_io_state(&mut self.io_state);
    }

    /// Puts the connection into its place again, and returns the number of exchanges it has carried. Its memory stays
    /// here.
    pub(super) fn release(&mut self, slot: &mut Option<Conn>) -> u64 {
        std::mem::swap(&mut *self.conn.borrow_mut(), slot);
        slot.iter_mut().for_each(|conn| conn.swap_io_state(&mut self.io_state));
        self.info.number
    }

    /// Forgets the exchange, to be ready for the next head.
    pub(super) fn reset_exchange(&mut self) {
        let Context { request, response, incoming, outgoing, info, .. } = self;
        request.reset();
        response.reset();
        incoming.get_mut().forget_message();
        outgoing.reset();
        // If the next head is refused, that answer must not depend on the request before it.
        info.request_info = RequestInfo::default();
    }

    /// Begins an exchange for a request that is already here, with a capture stream for the connection.
    pub(super) fn detach(&mut self, request: Request, conn: Conn) {
        self.request = request;
        self.attach(&mut Some(conn), 0);
        self.note_request();
        self.info.detached = true;
    }

    #[inline]
    pub(super) fn poll_head(
        &mut self,
        cx: &mut task::Context<'_>,
    ) -> Poll<Result<HeadOutcome, Box<Refused>>> {
        let Context { request, incoming, conn, info, shared, .. } = self;
        let mut conn = conn.borrow_mut();
        let Some(conn) = &mut *conn else { return Poll::Ready(Ok(HeadOutcome::Closed)) };
        let on_read = || shared.clock.refresh();
        incoming.get_mut().poll_head(cx, conn, request, &shared.bounds, on_read).map_err(|error| {
            // A refused HEAD request is answered without content, too.
            info.request_info.is_head = request.method() == Method::Head;
            info.is_head_refused = true;
            error.into()
        })
    }

    /// Receives the whole body into the request.
    pub(super) fn poll_body(
        &mut self,
        cx: &mut task::Context<'_>,
        body_max: usize,
    ) -> Poll<Result<(), ExchangeError>> {
        let Context { request, incoming, conn, shared, .. } = self;
        let (incoming, mut conn) = (incoming.get_mut(), conn.borrow_mut());
        let Some(conn) = &mut *conn else { return Poll::Ready(Ok(())) };
        if !incoming.is_read() {
            let received = incoming.poll_body(cx, conn, &shared.bounds, body_max, request.body.receive());
            if received.is_pending() {
                shared.count_traffic(conn);
            }
            ready!(received)?;
            std::mem::swap(&mut request.trailers, &mut incoming.trailers);
        }
        Poll::Ready(Ok(()))
    }

    /// Copies the response's body to the output if it is in memory and small, as most are. Returns whether it did.
    #[inline]
    pub(super) fn copy_body(&mut self) -> bool {
        let mut conn = self.conn.borrow_mut();
        conn.as_mut().is_some_and(|conn| self.outgoing.copy_whole(conn, &self.response.body))
    }

    /// Sends what is left of the response's body.
    pub(super) fn poll_send(&mut self, cx: &mut task::Context<'_>) -> Poll<Result<(), Box<Refused>>> {
        let Context { response, incoming, outgoing, conn, shared, .. } = self;
        let mut conn = conn.borrow_mut();
        let Some(conn) = &mut *conn else { return Poll::Ready(Ok(())) };
        let sent = outgoing.poll_send(cx, conn, &response.body, &response.trailers, &shared.bounds);
        if sent.is_pending() {
            shared.count_traffic(conn);
            let failed = ready!(incoming.get_mut().poll_discard(cx, conn, &shared.bounds));
            return Poll::Ready(Err(failed.into()));
        }
        sent.map_err(Into::into)
    }

    /// Sends all answers in the output.
    #[inline]
    pub(super) fn poll_flush(&mut self, cx: &mut task::Context<'_>) -> Poll<Result<(), Box<Refused>>> {
        let Context { incoming, conn, shared, .. } = self;
        let mut conn = conn.borrow_mut();
        let Some(conn) = &mut *conn else { return Poll::Ready(Ok(())) };
        let flushed = poll_flush(cx, conn, &shared.bounds);
        if flushed.is_pending() {
            let failed = ready!(incoming.get_mut().poll_discard(cx, conn, &shared.bounds));
            return Poll::Ready(Err(failed.into()));
        }
        shared.count_traffic(conn);
        flushed.map_err(Into::into)
    }

    /// Reads and discards what is left of the body. Returns whether that was possible.
    pub(super) fn poll_drain(&mut self, cx: &mut task::Context<'_>) -> Poll<Result<bool, ExchangeError>> {
        let Context { incoming, conn, shared, .. } = self;
        match &mut *conn.borrow_mut() {
            Some(conn) => incoming.get_mut().poll_drain(cx, conn, &shared.bounds),
            None => Poll::Ready(Ok(false)),
        }
    }

    /// Whether the request's body has been received to its end.
    #[inline]
    pub(super) fn is_read(&mut self) -> bool {
        self.incoming.get_mut().is_read()
    }

    /// Whether as many answers wait in the output as may.
    #[inline]
    pub(super) fn must_flush(&mut self, unsent: usize) -> bool {
        let limits = &self.shared.bounds.limits;
        let waiting = self.conn.borrow_mut().as_mut().map_or(0, |conn| conn.write_buffer().len());
        unsent >= limits.pipeline_answers_max || waiting >= limits.pipeline_bytes_max
    }

    /// Counts a refusal, and passes it to the application's `on_error`. If the connection of an exchange that was
    /// reported fails afterwards, that is no news.
    pub(super) fn report(&mut self, status: Option<Status>, cause: ErrorCause) {
        let Peer { addr: peer, id: connection_id } = self.peer();
        let (exchange_number, request) = match (self.info.number, self.info.is_head_refused) {
            (number, true) => (number + 1, None),
            (0, false) => (0, None),
            (number, false) => (number, Some(&self.request)),
        };
        let last = self.info.reported.replace((connection_id, exchange_number));
        if matches!(cause, ErrorCause::Exchange(_)) && last == self.info.reported {
            return;
        }
        self.shared.report(ErrorReport { status, peer, connection_id, exchange_number, request, cause });
    }
}

impl Reset for Context {
    fn reset(&mut self) {
        let Context {
            request,
            response,
            extensions,
            transform,
            transformed,
            incoming,
            outgoing,
            conn,
            upgraded,
            io_state,
            info,
            shared: _,
        } = self;
        request.reset();
        response.reset();
        extensions.clear();
        clear_cold(transform);
        transformed.clear();
        incoming.get_mut().reset();
        outgoing.reset();
        clear_cold(upgraded);
        if let Some(mut conn) = conn.borrow_mut().take() {
            conn.swap_io_state(io_state);
        }
        io_state.iter_mut().for_each(|io_state| io_state.reset());
        *info = ExchangeInfo::new(info.arrived);
    }

    fn shrink(&mut self) {
        self.request.shrink();
        self.response.shrink();
        self.transformed.shrink_to(transform_writer::KEPT_MAX);
        self.incoming.get_mut().shrink();
        self.outgoing.shrink();
        self.io_state.iter_mut().for_each(|io_state| io_state.shrink());
    }
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context")
            .field("request", &self.request)
            .field("response", &self.response)
            .field("extensions", &self.extensions)
            .field("info", &self.info)
            .finish_non_exhaustive()
    }
}
