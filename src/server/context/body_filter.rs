//! [`BodyFilter`]: changes or checks the content of a request while it is read (RFC 9110 §7.7).

use std::error::Error as StdError;
use std::io;
use std::ops::Range;

use crate::coding::Flush;
use crate::message::{Headers, Status};
use crate::runtime::Budget;
use crate::server::{Error, Result};

/// Changes or checks the content of a request, before it is read by a handler or passed on by
/// [`Context::forward`](crate::Context::forward).
///
/// A filter is for middleware that would otherwise have to wait for the whole content. The middleware gives it to
/// [`Context::filter_body`](crate::Context::filter_body) before it calls its handler. From then on, all readers of the
/// content get the filter's output: [`Context::body_reader`](crate::Context::body_reader),
/// [`Context::buffer_body`](crate::Context::buffer_body), `Context::multipart`, a service of tower, a gateway. An
/// unread rest is drained without the filter. [`Transform`](crate::server::Transform) is the same for responses.
///
/// # Examples
///
/// Middleware that refuses uploads with a certain text. All content before the text passes:
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
    /// Filters `data`, and appends the output to `out`. The first filter gets at most 16 KiB at a time. With
    /// [`Flush::Now`], append all content held back, because a reader waits. The last call is the only one with
    /// [`Flush::End`], and has no data.
    ///
    /// # Errors
    ///
    /// An error ends the content. The read that meets it fails with this error. Passed on with `?` before the
    /// response, the error answers the request with its status. Later reads fail with an error of their own,
    /// which is answered with 500. A gateway cuts the request that it forwards.
    fn apply(&mut self, data: &[u8], flush: Flush, out: &mut Vec<u8>) -> Result;

    /// Called after all content, with the trailers, to check or to change them. By default they stay as they are.
    ///
    /// # Errors
    ///
    /// As [`BodyFilter::apply`].
    fn end(&mut self, _trailers: &mut Headers) -> Result {
        Ok(())
    }

    /// Whether the output keeps the length of the content, as that of a mere check does. Default: no. The
    /// `content-length` of the request is then removed, and a gateway forwards it in chunks.
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
    /// How many bytes more may be filtered, if the output is to be buffered.
    pub(super) left_max: Option<usize>,
    pub(super) budget: Budget,
}

impl FilteredBody {
    pub(super) fn new(filter: Box<dyn BodyFilter>) -> FilteredBody {
        FilteredBody {
            filter: Some(filter),
            out: Vec::new(),
            piece: 0..0,
            last: Flush::Now,
            left_max: None,
            budget: Budget::default(),
        }
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

    /// Counts bytes that are to be filtered.
    ///
    /// # Errors
    ///
    /// Fails if there are more than the output may have in memory: a filter that drops content would receive it without end.
    pub(super) fn spend(&mut self, count: usize) -> io::Result<()> {
        self.budget.spend(count);
        let Some(left_max) = &mut self.left_max else { return Ok(()) };
        let error = || Error::new(Status::CONTENT_TOO_LARGE, "the body is too large to be filtered");
        *left_max = left_max.checked_sub(count).ok_or_else(error).map_err(into_io)?;
        Ok(())
    }

    /// Ends the content. The filter may change the trailers.
    pub(super) fn end(&mut self, trailers: &mut Headers) -> io::Result<()> {
        self.apply(&[], Flush::End)?;
        self.call(|filter, _| filter.end(trailers))
    }

    /// Calls the filter, if no call has failed before.
    fn call(&mut self, call: impl FnOnce(&mut dyn BodyFilter, &mut Vec<u8>) -> Result) -> io::Result<()> {
        let mut filter = self.filter.take().ok_or_else(failed)?;
        call(&mut *filter, &mut self.out).map_err(into_io)?;
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

    /// Drops the current piece, which has been read.
    pub(super) fn consume_piece(&mut self) {
        self.piece.start = self.piece.end;
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

fn into_io(error: Error) -> io::Error {
    io::Error::other(Box::<dyn StdError + Send + Sync>::from(error))
}

#[cold]
fn failed() -> io::Error {
    io::Error::other("the filter of the body has failed before")
}

/// The bytes of one step. Content up to this length reserves no memory.
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
