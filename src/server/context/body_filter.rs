//! [`BodyFilter`]: changes or checks the content of a request while it is read (RFC 9110 §7.7).

use std::error::Error as StdError;
use std::io;
use std::ops::Range;

use crate::coding::Flush;
use crate::message::Headers;
use crate::server::Result;

/// Changes or checks the content of a request, before a handler reads it or [`Context::forward`](crate::Context::forward) passes it on.
///
/// A filter is for middleware that would otherwise have to wait for the whole content. The middleware gives it to
/// [`Context::filter_body`](crate::Context::filter_body) before it calls its handler. From then on, all who read the content
/// get the filter's output: [`Context::body_reader`](crate::Context::body_reader),
/// [`Context::buffer_body`](crate::Context::buffer_body), `Context::multipart`, a service of tower, a gateway. A rest that is
/// not read is drained without it. [`Transform`](crate::server::Transform) is the same for responses.
///
/// # Examples
///
/// Middleware that refuses uploads which have a certain text in them, and lets all before it through:
///
/// ```
/// use corehttp::coding::Flush;
/// use corehttp::middleware::{Middleware, defer_body, handle_deferred, wrap};
/// use corehttp::server::BodyFilter;
/// use corehttp::{BodyPlan, Context, Handler, Request, Result, Server, Status};
///
/// const FORBIDDEN: &[u8] = b"<!DOCTYPE";
///
/// #[derive(Default)]
/// struct Search {
///     /// The end of the content so far, with which the text may begin.
///     tail: Vec<u8>,
/// }
///
/// impl BodyFilter for Search {
///     fn apply(&mut self, data: &[u8], _: Flush, out: &mut Vec<u8>) -> Result {
///         self.tail.extend_from_slice(data);
///         if self.tail.windows(FORBIDDEN.len()).any(|text| text == FORBIDDEN) {
///             return Err(Status::UNPROCESSABLE_CONTENT.into());
///         }
///         self.tail.drain(..self.tail.len().saturating_sub(FORBIDDEN.len() - 1));
///         out.extend_from_slice(data);
///         Ok(())
///     }
///
///     fn keeps_length(&self) -> bool {
///         true
///     }
/// }
///
/// #[derive(Clone)]
/// struct Searched;
///
/// impl Middleware for Searched {
///     fn on_head(&self, ctx: &mut Context, next: &impl Handler) -> BodyPlan {
///         defer_body(ctx, next) // nothing is received before the filter is there
///     }
///
///     async fn call(&self, ctx: &mut Context, next: &impl Handler) -> Result {
///         ctx.filter_body(Search::default()).await?;
///         handle_deferred(ctx, next).await
///     }
/// }
///
/// let app = wrap(Searched, |ctx: &mut Context| ctx.response.set_text(ctx.request.body.len().to_string()));
/// let service = Server::new().service(app);
/// # corehttp::block_on(async {
/// let mut request = Request::post("/")?;
/// request.set_text("<p>hi</p>");
/// assert_eq!(service.respond(request.clone()).await.text()?, "9");
/// request.set_text("<!DOCTYPE x>");
/// assert_eq!(service.respond(request).await.status, Status::UNPROCESSABLE_CONTENT);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })??;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[doc(alias("request filter", "MapRequestBody"))]
pub trait BodyFilter: 'static {
    /// Takes `data`, a few KiB at a time, and appends to `out` the bytes that are read in its place. With [`Flush::Now`],
    /// the peer pauses, and a reader waits. The last call is the only one with [`Flush::End`], and has no data.
    ///
    /// # Errors
    ///
    /// Any error ends the content: the read fails with it, and so do all that follow. Passed on with `?`, it is the response,
    /// unless that has begun, and a gateway cuts the request that it forwards.
    fn apply(&mut self, data: &[u8], flush: Flush, out: &mut Vec<u8>) -> Result;

    /// Called after all content has gone through, with the trailers, to check them or to change them. By default they stay as
    /// they are.
    ///
    /// # Errors
    ///
    /// As [`BodyFilter::apply`].
    fn end(&mut self, _trailers: &mut Headers) -> Result {
        Ok(())
    }

    /// Whether the content keeps its length, as that of a filter does which checks it alone. Default: no, so the length that
    /// the peer has announced is removed from the fields of the request, which is then forwarded in chunks.
    fn keeps_length(&self) -> bool {
        false
    }
}

/// The content of a request as its filter makes it, piece by piece.
pub(super) struct FilteredBody {
    /// `None` once it has failed: what comes after would be a part that passes for the whole.
    filter: Option<Box<dyn BodyFilter>>,
    /// The filter's output, and the piece of it that is read.
    out: Vec<u8>,
    piece: Range<usize>,
    /// The flush of the last [`BodyFilter::apply`].
    last: Flush,
}

impl FilteredBody {
    pub(super) fn new(filter: Box<dyn BodyFilter>) -> FilteredBody {
        FilteredBody { filter: Some(filter), out: Vec::new(), piece: 0..0, last: Flush::Now }
    }

    /// Has the content pass through `second` as well, after the filters before it.
    pub(super) fn push(&mut self, second: Box<dyn BodyFilter>) {
        self.filter = self
            .filter
            .take()
            .map(|first| -> Box<dyn BodyFilter> { Box::new(Chain { first, second, between: Vec::new() }) });
    }

    /// Filters `data`, once the output before has been read.
    pub(super) fn apply(&mut self, data: &[u8], flush: Flush) -> io::Result<()> {
        debug_assert!(self.piece.end == self.out.len(), "output is read before there is more");
        debug_assert!(self.last != Flush::End, "nothing follows the end");
        self.out.clear();
        self.piece = 0..0;
        self.last = flush;
        self.call(|filter, out| filter.apply(data, flush, out))
    }

    /// Ends the content. The filter may change the trailers.
    pub(super) fn end(&mut self, trailers: &mut Headers) -> io::Result<()> {
        self.apply(&[], Flush::End)?;
        self.call(|filter, _| filter.end(trailers))
    }

    /// Calls the filter, if no call has failed before.
    fn call(&mut self, call: impl FnOnce(&mut dyn BodyFilter, &mut Vec<u8>) -> Result) -> io::Result<()> {
        let mut filter = self.filter.take().ok_or_else(failed)?;
        call(&mut *filter, &mut self.out)
            .map_err(|error| io::Error::other(Box::<dyn StdError + Send + Sync>::from(error)))?;
        self.filter = Some(filter);
        Ok(())
    }

    /// Makes the output that is not read yet the current piece. Returns its length.
    ///
    /// # Errors
    ///
    /// Fails if the filter has failed.
    pub(super) fn next_piece(&mut self) -> io::Result<usize> {
        self.filter.as_ref().ok_or_else(failed)?;
        self.piece = self.piece.end..self.out.len();
        Ok(self.piece.len())
    }

    /// Shortens the current piece to its first `count` bytes. The others become the next piece.
    pub(super) fn truncate_piece(&mut self, count: usize) {
        self.piece.end = self.piece.start + count;
    }

    /// The current piece.
    pub(super) fn piece(&self) -> &[u8] {
        &self.out[self.piece.clone()]
    }

    /// Whether the filter may hold content back, which it was not told to flush.
    pub(super) fn may_hold_back(&self) -> bool {
        self.last == Flush::Later
    }

    /// Whether all of the content has passed. The current piece may be the last one.
    pub(super) fn is_at_end(&self) -> bool {
        self.last == Flush::End && self.piece.end == self.out.len() && self.filter.is_some()
    }
}

#[cold]
fn failed() -> io::Error {
    io::Error::other("the filter of the body has failed before")
}

/// How many bytes are filtered in one step, and for how many content reserves no memory.
pub(super) const PIECE: usize = 16 << 10;

/// Two filters, one after the other.
struct Chain {
    first: Box<dyn BodyFilter>,
    second: Box<dyn BodyFilter>,
    /// The output of the first.
    between: Vec<u8>,
}

impl BodyFilter for Chain {
    fn apply(&mut self, data: &[u8], flush: Flush, out: &mut Vec<u8>) -> Result {
        self.between.clear();
        self.first.apply(data, flush, &mut self.between)?;
        if flush == Flush::End && !self.between.is_empty() {
            self.second.apply(&self.between, Flush::Later, out)?;
            self.between.clear();
        }
        self.second.apply(&self.between, flush, out)
    }

    fn end(&mut self, trailers: &mut Headers) -> Result {
        self.first.end(trailers)?;
        self.second.end(trailers)
    }
}
