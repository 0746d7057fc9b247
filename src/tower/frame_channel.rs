//! [`FrameChannel`]: where the handler leaves a piece of a body, and the service finds it.

use std::mem;
use std::sync::Mutex;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use http_body::Frame;

use crate::exchange::ExchangeError;
use crate::memory::lock;

/// Where a piece of a body passes from the handler, which reads it, to the service, which may be in another task. There
/// is never more than one, and none is read before it is asked for, except what was buffered from the start.
#[derive(Default)]
pub(super) struct FrameChannel(Mutex<ChannelInner>);

#[derive(Default)]
struct ChannelInner {
    state: State,
    /// Who has asked.
    receiver: Option<Waker>,
    /// The handler, while it waits to be asked.
    sender: Option<Waker>,
}

#[derive(Default)]
enum State {
    #[default]
    Empty,
    Requested,
    Full(NextFrame),
}

/// A part of a body, its trailers, or its end.
pub(super) type NextFrame = Option<Result<Frame<Bytes>, ExchangeError>>;

impl FrameChannel {
    /// A channel in which the first piece lies already.
    pub(super) fn with_first(frame: Bytes) -> FrameChannel {
        let state = State::Full(Some(Ok(Frame::data(frame))));
        FrameChannel(Mutex::new(ChannelInner { state, ..ChannelInner::default() }))
    }

    /// Asks for a piece, and takes it once it is there.
    pub(super) fn poll_recv(&self, cx: &mut Context<'_>) -> Poll<NextFrame> {
        let mut inner = lock(&self.0);
        if let State::Full(frame) = mem::take(&mut inner.state) {
            return Poll::Ready(frame);
        }
        inner.state = State::Requested;
        inner.receiver = Some(cx.waker().clone());
        let sender = inner.sender.take();
        // Whoever is woken may come here at once.
        drop(inner);
        sender.into_iter().for_each(Waker::wake);
        Poll::Pending
    }

    /// Ready when a piece is asked for.
    pub(super) fn poll_requested(&self, cx: &mut Context<'_>) -> Poll<()> {
        let mut inner = lock(&self.0);
        if let State::Requested = inner.state {
            return Poll::Ready(());
        }
        inner.sender = Some(cx.waker().clone());
        Poll::Pending
    }

    /// Leaves a piece, in place of one that was not taken.
    pub(super) fn send(&self, frame: NextFrame) {
        let mut inner = lock(&self.0);
        inner.state = State::Full(frame);
        let receiver = inner.receiver.take();
        drop(inner);
        receiver.into_iter().for_each(Waker::wake);
    }
}
