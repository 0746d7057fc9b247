//! [`BodyPump`]: reads a body for a service, as the service asks for it.

use std::future::poll_fn;
use std::io;
use std::pin::pin;
use std::sync::Arc;

use bytes::Bytes;
use http_body::Frame;

use super::frame_channel::{FrameChannel, NextFrame};
use super::header_map::to_header_map;
use super::tower_body::TowerBody;
use crate::exchange::ExchangeError;
use crate::runtime::{join_first, select};
use crate::server::{Context, Reader, Result};
use crate::wire::WireError;

/// Reads a body for a service, as the service asks for it. The service's [`TowerBody`] outlives the handler if the
/// service keeps it, and ends with an error then.
pub(super) struct BodyPump(Option<Arc<FrameChannel>>);

impl BodyPump {
    /// For the body of the request, of which nothing has been read.
    pub(super) fn new(ctx: &mut Context) -> (BodyPump, TowerBody) {
        let left = ctx.unread_len().filter(|_| ctx.request.trailers.is_empty());
        let channel = match (left, ctx.request.body.bytes()) {
            (Some(0), _) => None,
            (_, []) => Some(Arc::default()),
            (_, buffered) => Some(Arc::new(FrameChannel::with_first(Bytes::copy_from_slice(buffered)))),
        };
        (BodyPump(channel.clone()), TowerBody::new(channel, left))
    }

    /// Whether the service may still ask for more of the body.
    pub(super) fn is_body_wanted(&self) -> bool {
        self.0.as_ref().is_some_and(|channel| Arc::strong_count(channel) > 1)
    }

    /// Awaits `work`, and gives it what it asks for of `body`. Fails once the peer has left.
    pub(super) async fn run_beside<T>(
        &self,
        body: &mut Reader<'_>,
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

    /// Gives the next piece, once it is asked for.
    async fn send_next(&self, body: &mut Reader<'_>) -> Result {
        let Some(channel) = &self.0 else { return body.peer_gone().await };
        join_first(poll_fn(|cx| channel.poll_requested(cx).map(Ok)), body.peer_gone()).await?;
        channel.send(next_frame(body).await);
        Ok(())
    }
}

impl Drop for BodyPump {
    fn drop(&mut self) {
        if let Some(channel) = &self.0 {
            channel.send(Some(Err(ExchangeError::Io(io::ErrorKind::NotConnected.into()))));
        }
    }
}

/// Reads the next piece.
async fn next_frame(body: &mut Reader<'_>) -> NextFrame {
    match body.chunk().await {
        Ok(Some(chunk)) => return Some(Ok(Frame::data(Bytes::copy_from_slice(chunk)))),
        Ok(None) => {}
        Err(error) => return Some(Err(error.downcast().unwrap_or_else(ExchangeError::Io))),
    }
    let trailers = body.trailers();
    let map = || to_header_map(trailers).map_err(|_| WireError::TrailersTooLarge.into());
    (!trailers.is_empty()).then(|| map().map(Frame::trailers))
}
