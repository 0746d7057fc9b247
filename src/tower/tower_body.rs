//! [`TowerBody`]: the body of a request, as a service gets it.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};

use super::frame_channel::FrameChannel;
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
    channel: Option<Arc<FrameChannel>>,
    /// How many bytes are still to come, if that is known, and no trailers behind them.
    left: Option<u64>,
}

impl TowerBody {
    /// A body that comes through `channel`; without one, it is empty.
    pub(super) fn new(channel: Option<Arc<FrameChannel>>, left: Option<u64>) -> TowerBody {
        TowerBody { channel, left }
    }
}

impl Body for TowerBody {
    type Data = Bytes;
    type Error = ExchangeError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, ExchangeError>>> {
        let Some(channel) = &self.channel else { return Poll::Ready(None) };
        let frame = ready!(channel.poll_recv(cx));
        match frame.as_ref().and_then(|frame| frame.as_ref().ok()?.data_ref()) {
            Some(data) => self.left = self.left.map(|left| left.saturating_sub(data.len() as u64)),
            // Trailers, the end or an error: nothing follows.
            None => self.left = Some(0),
        }
        if self.left == Some(0) {
            self.channel = None;
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.channel.is_none()
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
