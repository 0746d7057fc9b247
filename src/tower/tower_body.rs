//! [`TowerBody`]: the body of a request, as a service reads it; and [`BodyPump`], which feeds it from the connection.

use std::cell::Cell;
use std::fmt;
use std::future::{pending, poll_fn};
use std::io;
use std::mem;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex};
use std::task::{self, Poll, Waker, ready};

use bytes::Bytes;
use http::HeaderMap;
use http_body::{Body, Frame, SizeHint};

use crate::exchange::ExchangeError;
use crate::memory::lock;
use crate::message::Status;
use crate::runtime::select;
use crate::server::{BodyReader, Context, Error, Result};
use crate::wire::WireError;

/// The body of a request that a [`Tower`](super::Tower) passes to its service.
///
/// Before the first poll, nothing of it is read and no `100 Continue` is sent. Then one piece after the other is read, as large
/// as it arrived, or up to 64 KiB of a body in memory. So a fast peer waits for a slow service. No limit applies but those of
/// the service, such as axum's `DefaultBodyLimit`. If the body is dropped before its end, the rest is discarded, within
/// [`Limits::drain_max`](crate::Limits::drain_max).
///
/// The body may be sent to another task. It ends with an error once the response to its request has been sent.
///
/// # Errors
///
/// A frame is an error if the body is cut short, malformed or too slow. So is one after the exchange. Nothing follows it.
pub struct TowerBody {
    /// `None` at its end.
    channel: Option<Arc<FrameChannel>>,
    /// How many bytes are still to come, if that is known, and no trailers after them.
    left: Option<u64>,
}

impl TowerBody {
    /// A body that comes through `channel`; without one, it is empty.
    fn new(channel: Option<Arc<FrameChannel>>, left: Option<u64>) -> TowerBody {
        TowerBody { channel, left }
    }
}

impl Body for TowerBody {
    type Data = Bytes;
    type Error = ExchangeError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut task::Context<'_>,
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

/// Reads a body for a service, one frame for each that the service polls for. A service may keep its [`TowerBody`] for
/// longer than the handler runs; the body then ends with an error.
pub(super) struct BodyPump {
    channel: Option<Arc<FrameChannel>>,
    /// How many bytes of a body that was buffered from the start have been sent.
    sent_buffered: Cell<usize>,
    failure: Cell<Option<BodyFailure>>,
}

/// How a body has failed, for errors of a service that are that failure in its own types.
#[derive(Clone, Copy)]
enum BodyFailure {
    /// The peer can still be answered, with this status.
    Answerable(Status),
    /// The peer is gone.
    Gone,
}

impl BodyPump {
    /// Creates a pump for the request's body, of which nothing has been read, and the body that it fills.
    pub(super) fn new(ctx: &mut Context) -> (BodyPump, TowerBody) {
        let left = ctx.unread_len().filter(|_| ctx.request.trailers.is_empty());
        let channel = (left != Some(0)).then(Arc::<FrameChannel>::default);
        let pump =
            BodyPump { channel: channel.clone(), sent_buffered: Cell::new(0), failure: Cell::new(None) };
        (pump, TowerBody::new(channel, left))
    }

    /// A pump that has nothing to send, and a body without content.
    pub(super) fn empty() -> (BodyPump, TowerBody) {
        let pump = BodyPump { channel: None, sent_buffered: Cell::new(0), failure: Cell::new(None) };
        (pump, TowerBody::new(None, Some(0)))
    }

    /// Returns `body` without the part that the service already has.
    pub(super) fn reader<'a>(&self, body: BodyReader<'a>) -> BodyReader<'a> {
        body.skip_to(self.sent_buffered.get())
    }

    /// Sends no more of what is buffered: another body has taken its place.
    pub(super) fn skip_buffered(&self) {
        self.sent_buffered.set(usize::MAX);
    }

    /// Whether the service still holds the body, and so may poll for more of it.
    pub(super) fn is_body_wanted(&self) -> bool {
        self.channel.as_ref().is_some_and(|channel| Arc::strong_count(channel) > 1)
    }

    /// Awaits `work`, and meanwhile sends the frames of `body` that it polls for.
    pub(super) async fn run_beside<T>(
        &self,
        body: &mut BodyReader<'_>,
        work: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        let mut work = pin!(work);
        loop {
            let done = async { work.as_mut().await.map(Some) };
            let sent = async { self.send_next(body).await.map(|()| None) };
            if let Some(done) = select(done, sent).await? {
                return Ok(done);
            }
        }
    }

    /// Sends the next frame, once the service polls for it.
    async fn send_next(&self, body: &mut BodyReader<'_>) -> Result {
        let Some(channel) = &self.channel else { return pending().await };
        poll_fn(|cx| channel.poll_requested(cx)).await;
        let frame = next_frame(body).await;
        if let Some(Err(error)) = &frame {
            self.failure.set(Some(error.status().map_or(BodyFailure::Gone, BodyFailure::Answerable)));
        }
        channel.send(frame);
        self.sent_buffered.set(self.sent_buffered.get().max(body.buffered_read()));
        Ok(())
    }

    /// The error of a service that has failed. If the body has failed before and the error chooses no status, it has that
    /// of the body: services and bodies wrap errors in types of their own, as axum does.
    pub(super) fn explain(&self, error: Error) -> Error {
        match self.failure.get().filter(|_| error.status() == Status::INTERNAL_SERVER_ERROR) {
            Some(BodyFailure::Answerable(status)) => Error::new(status, error),
            Some(BodyFailure::Gone) => ExchangeError::PeerClosed.into(),
            None => error,
        }
    }
}

impl Drop for BodyPump {
    fn drop(&mut self) {
        if let Some(channel) = &self.channel {
            channel.send(Some(Err(ExchangeError::Io(io::ErrorKind::NotConnected.into()))));
        }
    }
}

/// Reads the next frame: data, or else the trailers.
async fn next_frame(body: &mut BodyReader<'_>) -> NextFrame {
    match body.chunk().await {
        Ok(Some(chunk)) => return Some(Ok(Frame::data(Bytes::copy_from_slice(chunk)))),
        Ok(None) => {}
        Err(error) => return Some(Err(error.downcast().unwrap_or_else(ExchangeError::Io))),
    }
    let trailers = body.trailers();
    let map = || HeaderMap::try_from(trailers).map_err(|_| WireError::TrailersTooLarge.into());
    (!trailers.is_empty()).then(|| map().map(Frame::trailers))
}

/// A channel for one frame, from the handler, which reads the body, to the service, which may be in another task. No
/// frame is read before the service polls for it.
#[derive(Default)]
struct FrameChannel(Mutex<ChannelInner>);

#[derive(Default)]
struct ChannelInner {
    state: State,
    /// The task that polls for a frame.
    receiver: Option<Waker>,
    /// The handler's task, while it waits for such a poll.
    sender: Option<Waker>,
}

#[derive(Default)]
enum State {
    #[default]
    Empty,
    Requested,
    Full(NextFrame),
}

/// Data or trailers of a body; `None` at its end.
type NextFrame = Option<Result<Frame<Bytes>, ExchangeError>>;

impl FrameChannel {
    /// Requests a frame, and takes it once it was sent.
    fn poll_recv(&self, cx: &mut task::Context<'_>) -> Poll<NextFrame> {
        let mut inner = lock(&self.0);
        if let State::Full(frame) = mem::take(&mut inner.state) {
            return Poll::Ready(frame);
        }
        inner.state = State::Requested;
        inner.receiver = Some(cx.waker().clone());
        let sender = inner.sender.take();
        // Unlocked first: the task that is woken may lock the channel at once, on another thread.
        drop(inner);
        if let Some(sender) = sender {
            sender.wake();
        }
        Poll::Pending
    }

    /// Ready once a frame is requested.
    fn poll_requested(&self, cx: &mut task::Context<'_>) -> Poll<()> {
        let mut inner = lock(&self.0);
        if let State::Requested = inner.state {
            return Poll::Ready(());
        }
        inner.sender = Some(cx.waker().clone());
        Poll::Pending
    }

    /// Sends a frame, in place of one that was not taken.
    fn send(&self, frame: NextFrame) {
        let mut inner = lock(&self.0);
        inner.state = State::Full(frame);
        let receiver = inner.receiver.take();
        drop(inner);
        if let Some(receiver) = receiver {
            receiver.wake();
        }
    }
}
