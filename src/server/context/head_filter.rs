//! [`HeadFilter`], [`HeadFields`], [`StateSaver`] and [`HeadFilters`]: change the head of a response that a handler sends
//! itself.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{self, Poll};

use super::extensions::Extensions;
use super::transform::Transform;
use crate::message::{Response, Status};
use crate::server::Result;

/// Changes the head of a response that a handler streams, or upgrades the connection with, before it is sent.
///
/// Unlike a [`Transform`], a filter may wait, and may keep the handler waiting for good, if its owner cancels the
/// handler.
pub(crate) trait HeadFilter {
    /// Ready once `response` has the head that is sent, and its content the `transform` that it passes through.
    fn poll_head(
        &mut self,
        cx: &mut task::Context<'_>,
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
    /// The connection is upgraded, after a head with this status.
    Upgrade(Status),
}

/// Sets fields of a response that a handler sends itself, such as those of CORS, over those that the handler has set.
pub(crate) trait HeadFields {
    fn set_on(&self, response: &mut Response);
}

/// Saves the state of an exchange, such as its session, which may set fields of the response.
///
/// A stream may go on for hours after its head. State that is saved only then would undo all that other requests have
/// changed meanwhile, and could set no cookie.
pub(crate) trait StateSaver {
    /// Saves what has changed in the extensions since the last call. `head` is the response, unless its head was sent.
    fn save<'a>(
        &'a self,
        head: Option<&'a mut Response>,
        extensions: &'a mut Extensions,
    ) -> Pin<Box<dyn Future<Output = Result> + 'a>>;
}

/// The filters of an exchange, from the inside out.
#[derive(Default)]
pub(crate) struct HeadFilters {
    pub(crate) first: Option<Box<dyn HeadFilter>>,
    /// Set after the filters.
    pub(crate) fields: Option<Arc<dyn HeadFields>>,
    /// Called last, when it is certain that the head is sent, with the fields that it sets.
    pub(crate) saver: Option<Arc<dyn StateSaver>>,
}

impl HeadFilters {
    /// Whether the head is to be passed through anything.
    pub(super) fn is_empty(&self) -> bool {
        self.first.is_none() && self.fields.is_none() && self.saver.is_none()
    }

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
        if let Some(fields) = &self.fields {
            fields.set_on(response);
        }
        Ok(())
    }

    fn poll_first(
        &mut self,
        cx: &mut task::Context<'_>,
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
