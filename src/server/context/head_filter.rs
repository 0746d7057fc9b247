//! [`HeadFilter`] and [`HeadFilters`]: change the head of a response that a handler sends itself.

use std::future::poll_fn;
use std::io;
use std::task::{Context, Poll};

use super::transform::Transform;
use crate::message::{Response, Status};

/// Changes the head of a response that a handler streams, or upgrades the connection with, before it is sent.
///
/// Unlike a [`Transform`], a filter may wait, and may keep the handler waiting for good, if its owner cancels the
/// handler.
pub(crate) trait HeadFilter {
    /// Ready once `response` has the head that is sent, and its content the `transform` that it passes through.
    fn poll_head(
        &mut self,
        cx: &mut Context<'_>,
        response: &mut Response,
        transform: &mut Option<Box<dyn Transform>>,
        kind: SentKind,
    ) -> Poll<io::Result<()>>;

    /// Returns the filter of middleware around that of this one, which gets the head next.
    fn into_outer(self: Box<Self>) -> Option<Box<dyn HeadFilter>>;
}

/// A response that a handler sends itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SentKind {
    Stream,
    /// The connection is upgraded, behind a head with this status.
    Upgrade(Status),
}

/// The filters of an exchange, from the inside out.
#[derive(Default)]
pub(crate) struct HeadFilters {
    pub(crate) first: Option<Box<dyn HeadFilter>>,
}

impl HeadFilters {
    /// Passes the head through the filters, before the handler sends it. If the future is dropped, the filter that was
    /// waiting is the first of the next call.
    pub(super) async fn pass(
        &mut self,
        response: &mut Response,
        transform: &mut Option<Box<dyn Transform>>,
        kind: SentKind,
    ) -> io::Result<()> {
        while self.first.is_some() {
            poll_fn(|cx| self.poll_first(cx, response, transform, kind)).await?;
        }
        Ok(())
    }

    fn poll_first(
        &mut self,
        cx: &mut Context<'_>,
        response: &mut Response,
        transform: &mut Option<Box<dyn Transform>>,
        kind: SentKind,
    ) -> Poll<io::Result<()>> {
        let Some(mut filter) = self.first.take() else { return Poll::Ready(Ok(())) };
        let filtered = filter.poll_head(cx, response, transform, kind);
        self.first = if filtered.is_pending() { Some(filter) } else { filter.into_outer() };
        filtered
    }
}
