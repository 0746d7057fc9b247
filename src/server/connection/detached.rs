//! [`respond`]: answers a request without a connection, as if it had come over one.

use std::cell::Cell;
use std::future::poll_fn;
use std::io;
use std::mem;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{self, Poll};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadBuf};

use super::close::close;
use super::context_guard::{ContextGuard, drop_user_values};
use super::handler_outcome::{finalize_response, refuse};
use super::serve::{
    RequestAction, decide_action, note_expectation, poll_send, refuse_body, run_handler, run_refusal,
};
use crate::exchange::ExchangeError;
use crate::message::{Body, Request, Response};
use crate::net::Conn;
use crate::server::error_report::Refused;
use crate::server::exchange::CloseMode;
use crate::server::per_core::PerCore;
use crate::server::{Context, Handler};

/// Answers `request`. `connect` makes a connection of the [`CaptureStream`], which takes the place of a peer.
pub(in crate::server) async fn respond<H: Handler + 'static>(
    per_core: &PerCore<H>,
    request: Request,
    connect: impl FnOnce(CaptureStream) -> Conn,
) -> Response {
    let written = Rc::default();
    per_core.core.clock.refresh();
    let mut guard = ContextGuard::new(per_core, per_core.take_context());
    let ctx = &mut *guard;
    ctx.request = request;
    // A handler may have passed its own request on.
    ctx.request.matched_route_mut().clear();
    ctx.exchange.begin_detached(connect(CaptureStream { written: Rc::clone(&written) }), &ctx.request);
    let mode = match answer(per_core, &mut guard).await {
        Ok(()) => CloseMode::Graceful,
        // There is no peer to linger for: the capture stream has already received all that was written.
        Err(refused) => match refuse(&mut guard, *refused).0 {
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
async fn answer<H: Handler + 'static>(per_core: &PerCore<H>, ctx: &mut Context) -> Result<(), Box<Refused>> {
    note_expectation(&mut ctx.exchange, &ctx.request)?;
    let mut action = decide_action(per_core, ctx)?;
    let body_max = if let RequestAction::Buffer(body_max) = action { body_max } else { usize::MAX };
    if !matches!(action, RequestAction::Refuse(_))
        && let Err(error) = receive(&mut ctx.request.body, body_max).await
    {
        action = RequestAction::Refuse(refuse_body(ctx, error)?);
    }
    let conn = ctx.exchange.conn.clone();
    let outcome = match action {
        RequestAction::Refuse(refusal) => run_refusal(per_core, ctx, refusal).await,
        RequestAction::Buffer(_) | RequestAction::Call => {
            ctx.exchange.note_handler();
            run_handler(&conn, pin!(async { per_core.handler.handle(ctx).await })).await
        }
    };
    finalize_response(ctx, outcome)?;
    debug_assert!(ctx.exchange.outgoing.has_begun(), "a final response has begun");
    poll_fn(|cx| poll_send(ctx, cx)).await
}

/// Receives the body as bytes, which is how it would arrive over a connection. A stream is read to one byte beyond
/// `body_max`.
async fn receive(body: &mut Body, body_max: usize) -> Result<(), ExchangeError> {
    if let Some(source) = body.take_source() {
        let (most, mut content) = ((body_max as u64).saturating_add(1), Vec::new());
        source.take(most).read_to_end(&mut content).await.map_err(|_| ExchangeError::Incomplete)?;
        body.set_bytes(content);
    }
    if body.len() > body_max { Err(ExchangeError::body_too_large(body_max, None)) } else { Ok(()) }
}

/// The peer of a request without a connection: a stream that keeps the bytes that are written to it, and yields
/// nothing, not even its end.
pub(in crate::server) struct CaptureStream {
    written: Rc<Cell<Vec<u8>>>,
}

impl AsyncRead for CaptureStream {
    fn poll_read(
        self: Pin<&mut Self>,
        _: &mut task::Context<'_>,
        _: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Poll::Pending
    }
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
