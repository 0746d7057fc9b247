//! [`respond`]: answers a request without a connection, as if it had come over one.

use std::cell::Cell;
use std::future::poll_fn;
use std::io::{self, Cursor};
use std::mem;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{self, Poll, ready};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadBuf};

use super::close::close;
use super::context_guard::{ContextGuard, drop_user_values};
use super::handler_outcome::{answer_failure, write_response};
use super::per_core::PerCore;
use super::serve::{
    RequestAction, decide_action, note_expectation, poll_send, refuse_body, run_handler, run_refusal,
};
use crate::exchange::{ExchangeError, Expectation};
use crate::message::{Body, BodyLength, BodySource, FieldName, Request, Response};
use crate::net::Conn;
use crate::server::error::Failure;
use crate::server::exchange::CloseMode;
use crate::server::{Context, Handler};
use crate::wire::Framing;

/// Answers `request`. `connect` makes a connection of the [`CaptureStream`], which takes the place of a peer.
pub(in crate::server) async fn respond<H: Handler + 'static>(
    per_core: &PerCore<H>,
    request: Request,
    connect: impl FnOnce(CaptureStream) -> Conn,
) -> Response {
    let written = Rc::<Cell<Vec<u8>>>::default();
    let content = Rc::default();
    let stream = CaptureStream { written: Rc::clone(&written), content: Rc::clone(&content) };
    per_core.core.clock.refresh();
    let mut guard = ContextGuard::new(per_core, per_core.take_context());
    let ctx = &mut *guard;
    ctx.request = request;
    // A handler may have passed its own request on.
    ctx.request.matched_route_mut().clear();
    announce_body(&mut ctx.request);
    ctx.exchange.begin_captured(connect(stream), &ctx.request);
    let mode = match answer(per_core, &mut guard, &content).await {
        Ok(()) => CloseMode::Graceful,
        // There is no peer to linger for: the capture stream has already received all that was written.
        Err(failure) => match answer_failure(&mut guard, *failure).0 {
            CloseMode::Linger => CloseMode::Graceful,
            mode => mode,
        },
    };
    close(&mut guard, mode).await;
    let mut response = mem::take(&mut guard.response);
    drop_user_values(&mut guard);
    let written = written.take();
    if !written.is_empty() {
        response.body.set_bytes(written);
    }
    response
}

/// Produces the response, as for a request on a connection.
async fn answer<H: Handler + 'static>(
    per_core: &PerCore<H>,
    ctx: &mut Context,
    content: &Cell<Option<Content>>,
) -> Result<(), Box<Failure>> {
    note_expectation(&mut ctx.exchange, &ctx.request)?;
    // An interim response would pass for content here.
    ctx.exchange.incoming.get_mut().expectation = Expectation::None;
    let mut action = decide_action(per_core, ctx)?;
    match action {
        RequestAction::Refuse(_) => {}
        RequestAction::Buffer(body_max) => {
            if let Err(error) = receive(&mut ctx.request.body, body_max).await {
                action = refuse_body(ctx, error)?;
            }
        }
        RequestAction::Call => defer_body(ctx, content),
    }
    let conn = ctx.exchange.conn.clone();
    let outcome = match action {
        RequestAction::Refuse(status) => run_refusal(per_core, ctx, status).await,
        RequestAction::Buffer(_) | RequestAction::Call => {
            ctx.exchange.note_handler();
            run_handler(&conn, pin!(async { per_core.handler.handle(ctx).await })).await
        }
    };
    write_response(ctx, outcome)?;
    debug_assert!(ctx.exchange.outgoing.has_begun(), "a final response has begun");
    poll_fn(|cx| poll_send(ctx, cx)).await
}

/// Sets the fields that announce a body, as a client does when it sends the request, unless the request has them.
fn announce_body(request: &mut Request) {
    let Request { headers, body, .. } = request;
    if headers.contains("content-length") || headers.contains("transfer-encoding") {
        return;
    }
    match body.declared_length() {
        BodyLength::NoContent => {}
        BodyLength::Known(len) => headers.put(FieldName::CONTENT_LENGTH, len.to_string().as_bytes()),
        BodyLength::Unknown => headers.put(FieldName::TRANSFER_ENCODING, b"chunked"),
    }
}

/// Has the body arrive only when the handler reads it, which has planned for a stream.
fn defer_body(ctx: &mut Context, content: &Cell<Option<Content>>) {
    let body = mem::take(&mut ctx.request.body);
    let (framing, left) = match body.declared_length() {
        BodyLength::NoContent => return,
        BodyLength::Known(0) => return ctx.request.body.set_bytes(""),
        BodyLength::Known(len) => (Framing::Length(len), Some(len)),
        BodyLength::Unknown => (Framing::UntilClose, None),
    };
    let source = body.take_source();
    let source = source.unwrap_or_else(|| Box::pin(Cursor::new(body.into_bytes().unwrap_or_default())));
    content.set(Some(Content { source, left }));
    ctx.exchange.incoming.get_mut().begin_body(framing);
}

/// Receives the body as bytes, which is how it would arrive over a connection. A stream is read to one byte beyond
/// `body_max`, or beyond its length: one of another length ends as if its peer had closed within.
async fn receive(body: &mut Body, body_max: usize) -> Result<(), ExchangeError> {
    if let Some(source) = body.take_source() {
        let announced = body.known_len();
        if announced.is_some_and(|len| len > body_max as u64) {
            return Err(ExchangeError::body_too_large(body_max, announced));
        }
        let most = announced.unwrap_or(body_max as u64).saturating_add(1);
        let mut content = Vec::new();
        source.take(most).read_to_end(&mut content).await.map_err(|_| ExchangeError::Incomplete)?;
        if announced.is_some_and(|len| len != content.len() as u64) {
            return Err(ExchangeError::Incomplete);
        }
        body.set_bytes(content);
    }
    if body.len() > body_max { Err(ExchangeError::body_too_large(body_max, None)) } else { Ok(()) }
}

/// The peer of a request without a connection: a stream that keeps the bytes that are written to it, and yields
/// the content that is left for it. After that it yields nothing, not even its end.
pub(in crate::server) struct CaptureStream {
    written: Rc<Cell<Vec<u8>>>,
    content: Rc<Cell<Option<Content>>>,
}

/// Content that arrives when it is read.
struct Content {
    source: BodySource,
    /// How many bytes are left. `None` if its end is that of the source.
    left: Option<u64>,
}

impl AsyncRead for CaptureStream {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut task::Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.content.take() {
            None => Poll::Pending,
            Some(mut content) => {
                let polled = content.poll_read(cx, buf);
                let is_over = content.left == Some(0) || matches!(polled, Poll::Ready(Ok(0) | Err(_)));
                self.content.set((!is_over).then_some(content));
                polled.map_ok(|_| ())
            }
        }
    }
}

impl Content {
    /// Reads once. Returns how much; 0 at the end of the source, and in place of the last bytes if more follow than announced.
    fn poll_read(&mut self, cx: &mut task::Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<usize>> {
        let most = self.left.and_then(|left| usize::try_from(left).ok()).unwrap_or(usize::MAX);
        let mut part = ReadBuf::new(buf.initialize_unfilled_to(most.min(buf.remaining())));
        ready!(self.source.as_mut().poll_read(cx, &mut part))?;
        let count = part.filled().len();
        if let Some(left) = &mut self.left {
            *left -= count as u64;
            if *left == 0 && has_more(&mut self.source, cx) {
                return Poll::Ready(Ok(0));
            }
        }
        buf.advance(count);
        Poll::Ready(Ok(count))
    }
}

/// Whether more of a source has come.
fn has_more(source: &mut BodySource, cx: &mut task::Context<'_>) -> bool {
    let mut byte = [0];
    let mut byte = ReadBuf::new(&mut byte);
    source.as_mut().poll_read(cx, &mut byte).is_ready() && !byte.filled().is_empty()
}

impl AsyncWrite for CaptureStream {
    fn poll_write(self: Pin<&mut Self>, _: &mut task::Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let mut written = self.written.take();
        written.extend_from_slice(bytes);
        self.written.set(written);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut task::Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut task::Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}
