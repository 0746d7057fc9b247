//! [`Feed`]: reads a body for a service, as the service asks for it.

use std::future::poll_fn;
use std::io;
use std::pin::pin;
use std::sync::Arc;

use bytes::Bytes;
use http_body::Frame;

use super::fields::field_map;
use super::slot::{Piece, Slot};
use super::tower_body::TowerBody;
use crate::exchange::ExchangeError;
use crate::runtime::{beside, first};
use crate::server::{Context, Reader, Result};
use crate::wire::WireError;

/// Reads a body for a service, as the service asks for it. The service's [`TowerBody`] outlives the handler if the
/// service keeps it, and ends with an error then.
pub(super) struct Feed(Option<Arc<Slot>>);

impl Feed {
    /// For the body of the request, of which nothing has been read.
    pub(super) fn new(ctx: &mut Context) -> (Feed, TowerBody) {
        let left = ctx.unread_len().filter(|_| ctx.request.trailers.is_empty());
        let slot = match (left, ctx.request.body.bytes()) {
            (Some(0), _) => None,
            (_, []) => Some(Arc::default()),
            (_, buffered) => Some(Arc::new(Slot::with(Bytes::copy_from_slice(buffered)))),
        };
        (Feed(slot.clone()), TowerBody::new(slot, left))
    }

    /// Whether the service may still ask for more of the body.
    pub(super) fn is_wanted(&self) -> bool {
        self.0.as_ref().is_some_and(|slot| Arc::strong_count(slot) > 1)
    }

    /// Awaits `work`, and gives it what it asks for of `body`. Fails once the peer has left.
    pub(super) async fn attend<T>(
        &self,
        body: &mut Reader<'_>,
        work: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        let mut work = pin!(work);
        loop {
            let done = async { work.as_mut().await.map(Some) };
            let given = async { self.give_next(body).await.map(|()| None) };
            if let Some(done) = first(done, given).await? {
                return Ok(done);
            }
        }
    }

    /// Gives the next piece, once it is asked for.
    async fn give_next(&self, body: &mut Reader<'_>) -> Result {
        let Some(slot) = &self.0 else { return body.peer_gone().await };
        beside(poll_fn(|cx| slot.poll_asked(cx).map(Ok)), body.peer_gone()).await?;
        slot.give(next(body).await);
        Ok(())
    }
}

impl Drop for Feed {
    fn drop(&mut self) {
        if let Some(slot) = &self.0 {
            slot.give(Some(Err(ExchangeError::Io(io::ErrorKind::NotConnected.into()))));
        }
    }
}

/// Reads the next piece.
async fn next(body: &mut Reader<'_>) -> Piece {
    match body.chunk().await {
        Ok(Some(chunk)) => return Some(Ok(Frame::data(Bytes::copy_from_slice(chunk)))),
        Ok(None) => {}
        Err(error) => return Some(Err(error.downcast().unwrap_or_else(ExchangeError::Io))),
    }
    let trailers = body.trailers();
    let map = || field_map(trailers).map_err(|_| WireError::TrailersTooLarge.into());
    (!trailers.is_empty()).then(|| map().map(Frame::trailers))
}
