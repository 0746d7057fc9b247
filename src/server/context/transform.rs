//! [`Transform`]: changes a streamed response on its way out (RFC 9110 §7.7).

use std::any::Any;
use std::io;
use std::task::{self, Poll, ready};

use crate::coding::Flush;
use crate::exchange::{Bounds, ExchangeError, Outgoing};
use crate::message::{Headers, Response};
use crate::net::Conn;
use crate::runtime::Budget;

/// Changes the content that a handler streams, on its way to the peer.
///
/// A transform is for middleware that would otherwise have to wait for the whole response. The middleware puts a
/// transform into [`Context::transform`](super::Context::transform) before it calls its handler. Responses that are not
/// streamed do not pass through it. Middleware changes those in `ctx.response`, after the handler.
///
/// A context has room for one transform. Middleware wraps an earlier one, and passes its own output on to it, as
/// `Compress` does. The examples below do not, so they must be outside of other transforms.
///
/// # Examples
///
/// ```
/// use std::io;
/// use corehttp::middleware::Middleware;
/// use corehttp::{Context, Handler, Response, Result};
/// use corehttp::coding::Flush;
/// use corehttp::server::{Transform, TransformAction};
///
/// struct Upper;
///
/// impl Transform for Upper {
///     fn begin(&mut self, response: &mut Response) -> TransformAction {
///         match response.headers.content_type() {
///             Some("text/plain") => TransformAction::Apply,
///             _ => TransformAction::Bypass,
///         }
///     }
///
///     fn apply(&mut self, data: &[u8], _: Flush, out: &mut Vec<u8>) -> io::Result<()> {
///         out.extend(data.to_ascii_uppercase());
///         Ok(())
///     }
/// }
///
/// #[derive(Clone)]
/// struct Shouting;
///
/// impl Middleware for Shouting {
///     async fn call(&self, ctx: &mut Context, next: &impl Handler) -> Result {
///         ctx.transform = Some(Box::new(Upper));
///         next.handle(ctx).await
///     }
/// }
/// ```
///
/// Middleware that counts the bytes of responses, streamed or not. Around a `Compress`, it counts the compressed bytes:
///
/// ```
/// # use std::{cell::Cell, io, rc::Rc};
/// # use corehttp::middleware::{Middleware, wrap};
/// # use corehttp::{Context, Handler};
/// # use corehttp::coding::Flush;
/// # use corehttp::{Request, Response, Result, Server};
/// # use corehttp::server::{Transform, TransformAction};
/// struct Count(Rc<Cell<u64>>);
///
/// impl Transform for Count {
///     fn begin(&mut self, _: &mut Response) -> TransformAction {
///         TransformAction::Apply
///     }
///
///     fn apply(&mut self, data: &[u8], _: Flush, out: &mut Vec<u8>) -> io::Result<()> {
///         self.0.set(self.0.get() + data.len() as u64);
///         out.extend_from_slice(data);
///         Ok(())
///     }
/// }
///
/// #[derive(Clone)]
/// struct Log;
///
/// impl Middleware for Log {
///     async fn call(&self, ctx: &mut Context, next: &impl Handler) -> Result {
///         let streamed = Rc::new(Cell::new(0));
///         ctx.transform = Some(Box::new(Count(streamed.clone())));
///         let outcome = next.handle(ctx).await; // an error, if a stream was cut off
///         let rest = ctx.response.body.known_len(); // of what was not streamed by the handler
///         println!("{:?} bytes", rest.map(|rest| streamed.get() + rest));
/// #       assert_eq!(streamed.get() + rest.unwrap(), 5);
///         outcome
///     }
/// }
/// # let service = Server::new().service(wrap(Log, async |ctx: &mut Context| -> Result {
/// #     match ctx.request.path() {
/// #         "/streamed" => {
/// #             let mut out = ctx.body_writer().await?;
/// #             out.write_all(b"Hel").await?;
/// #             out.write_all(b"lo").await?;
/// #             out.finish().await?;
/// #         }
/// #         "/lazy" => ctx.response.body.set_stream(&b"Hello"[..], Some(5)),
/// #         _ => ctx.response.set_text("Hello"),
/// #     }
/// #     Ok(())
/// # }));
/// # for path in ["/", "/lazy", "/streamed"] {
/// #     let response = corehttp::block_on(service.respond(Request::get(path)?))?;
/// #     assert_eq!((response.status.as_u16(), response.body.text()), (200, Ok("Hello")));
/// # }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait Transform: Any {
    /// Called before the head is sent, to change it if need be. Returns whether the content goes through
    /// [`Transform::apply`].
    ///
    /// A transform that changes the length of the content must remove `content-length`.
    fn begin(&mut self, response: &mut Response) -> TransformAction;

    /// Transforms `data`, a few KiB at a time, and appends the output for the peer to `out`. The last call is the only
    /// one with [`Flush::End`].
    ///
    /// # Errors
    ///
    /// Any error ends the response, and aborts the connection.
    fn apply(&mut self, data: &[u8], flush: Flush, out: &mut Vec<u8>) -> io::Result<()>;

    /// Called after all content, before the trailers are sent, to change them if need be. A digest of the original
    /// content, for one, is wrong for the transformed content. By default the trailers stay as they are.
    fn end(&mut self, _trailers: &mut Headers) {}
}

/// How a [`Transform`] treats the content of a streamed response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TransformAction {
    /// The content goes through [`Transform::apply`].
    Apply,
    /// The content goes to the peer as it is.
    Bypass,
}

/// Writes a streamed response through its transform.
pub(super) struct TransformWriter<'a> {
    /// `None` once it has ended or failed, so that the response cannot end as if it were whole.
    transform: Option<&'a mut dyn Transform>,
    /// The transform's output, and how much of it has been sent.
    out: &'a mut Vec<u8>,
    sent: usize,
    /// The flush of the last [`Transform::apply`].
    last: Flush,
    budget: Budget,
}

impl<'a> TransformWriter<'a> {
    pub(super) fn new(transform: &'a mut dyn Transform, out: &'a mut Vec<u8>) -> TransformWriter<'a> {
        out.clear();
        TransformWriter {
            transform: Some(transform),
            out,
            sent: 0,
            last: Flush::Now,
            budget: Budget::default(),
        }
    }

    /// Transforms a piece from the front of `data`, once earlier output has been sent. Returns the length of the piece.
    pub(super) fn poll_write(
        &mut self,
        cx: &mut task::Context<'_>,
        outgoing: &mut Outgoing,
        conn: &mut Conn,
        data: &[u8],
        bounds: &Bounds,
    ) -> Poll<io::Result<usize>> {
        ready!(self.poll_sent(cx, outgoing, conn, bounds))?;
        ready!(self.budget.poll_proceed(cx));
        let piece = &data[..data.len().min(PIECE)];
        self.budget.spend(piece.len());
        self.apply(piece, Flush::Later)?;
        Poll::Ready(Ok(piece.len()))
    }

    /// Whether a write that is pending has yielded to other tasks: all earlier output was sent.
    pub(super) fn has_yielded(&self) -> bool {
        self.budget.has_yielded() && self.out.is_empty()
    }

    /// Flushes the transform, and sends its output.
    pub(super) fn poll_flush(
        &mut self,
        cx: &mut task::Context<'_>,
        outgoing: &mut Outgoing,
        conn: &mut Conn,
        flush: Flush,
        bounds: &Bounds,
    ) -> Poll<io::Result<()>> {
        ready!(self.poll_sent(cx, outgoing, conn, bounds))?;
        if self.last != flush && self.last != Flush::End {
            self.apply(&[], flush)?;
        }
        self.poll_sent(cx, outgoing, conn, bounds).map_err(io::Error::from)
    }

    /// Ends the transform, after the last flush. The transform may change the trailers.
    pub(super) fn end(&mut self, trailers: &mut Headers) {
        if let Some(transform) = self.transform.take() {
            transform.end(trailers);
        }
    }

    fn apply(&mut self, data: &[u8], flush: Flush) -> io::Result<()> {
        let transform = self.transform.take().filter(|_| self.last != Flush::End);
        let transform = transform.ok_or(ExchangeError::Length)?;
        transform.apply(data, flush, self.out)?;
        self.last = flush;
        self.transform = Some(transform);
        Ok(())
    }

    /// Sends the output.
    fn poll_sent(
        &mut self,
        cx: &mut task::Context<'_>,
        outgoing: &mut Outgoing,
        conn: &mut Conn,
        bounds: &Bounds,
    ) -> Poll<Result<(), ExchangeError>> {
        debug_assert!(self.sent <= self.out.len(), "no more is sent than there is");
        while self.sent < self.out.len() {
            self.sent += ready!(outgoing.poll_write(cx, conn, &self.out[self.sent..], bounds))?;
        }
        self.out.clear();
        self.sent = 0;
        Poll::Ready(Ok(()))
    }
}

/// How many bytes are transformed in one step.
const PIECE: usize = 16 << 10;
