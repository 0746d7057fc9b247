//! [`TowerBody`]: the body of a request, as a service gets it.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};

use super::slot::Slot;
use crate::exchange::ExchangeError;

/// The body of a request that a [`Tower`](super::Tower) passes to its service.
///
/// Nothing of it is read, and no `100 Continue` is sent, before it is polled; then one piece after the other is read, as
/// large as it arrived. So a peer that sends faster than the service reads has to wait. No limit applies but those of
/// the service, such as axum's `DefaultBodyLimit`. If it is dropped before its end, what is left is discarded, within
/// [`Limits::drain_max`](crate::Limits::drain_max).
///
/// It may be sent to another task, but ends with an error once the answer to its request has been sent.
///
/// # Errors
///
/// A frame is an error if the body is cut short, malformed or too slow, or if the exchange is over. Nothing follows it.
pub struct TowerBody {
    /// `None` at its end.
    slot: Option<Arc<Slot>>,
    /// How many bytes are still to come, if that is known, and no trailers behind them.
    left: Option<u64>,
}

impl TowerBody {
    /// A body that comes through `slot`; without one, it is empty.
    pub(super) fn new(slot: Option<Arc<Slot>>, left: Option<u64>) -> TowerBody {
        TowerBody { slot, left }
    }
}

impl Body for TowerBody {
    type Data = Bytes;
    type Error = ExchangeError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, ExchangeError>>> {
        let Some(slot) = &self.slot else { return Poll::Ready(None) };
        let piece = ready!(slot.poll_take(cx));
        match piece.as_ref().and_then(|piece| piece.as_ref().ok()?.data_ref()) {
            Some(data) => self.left = self.left.map(|left| left.saturating_sub(data.len() as u64)),
            // Trailers, the end or an error: nothing follows.
            None => self.left = Some(0),
        }
        if self.left == Some(0) {
            self.slot = None;
        }
        Poll::Ready(piece)
    }

    fn is_end_stream(&self) -> bool {
        self.slot.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        self.left.map_or_else(SizeHint::default, SizeHint::with_exact)
    }
}

impl fmt::Debug for TowerBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TowerBody").field("left", &self.left).finish_non_exhaustive()
    }
}
