//! [`Pump`]: forwards the body of a request to the server behind.

use std::cell::RefCell;
use std::future::{pending, poll_fn};
use std::task::{Context, Poll, ready};

use crate::client::{Call, ClientError};
use crate::message::Headers;
use crate::runtime::join_first;
use crate::server::{Error, Reader, Result};

/// Forwards the body of a request to the server behind. It can be stopped at any time, and continues where it was.
pub(super) struct Pump<'c> {
    call: &'c RefCell<Call>,
    chunk: Vec<u8>,
    /// How many bytes of the piece have been sent.
    sent: usize,
}

impl Pump<'_> {
    /// Begins with `buffered`, which is all of the body if it was received before.
    pub(super) fn new<'c>(call: &'c RefCell<Call>, buffered: &[u8]) -> Pump<'c> {
        Pump { call, chunk: buffered.to_vec(), sent: 0 }
    }

    /// Runs until all that is still to come of `body` has been sent, or the server reads no more of it.
    pub(super) async fn run(&mut self, body: &mut Reader<'_>) -> Result {
        self.run_until(async |_: &mut Reader<'_>| pending().await, body).await
    }

    /// Runs as [`Pump::run`] does, and then waits until the peer closes, which is an error. What is not forwarded is
    /// discarded, since many peers take nothing of an answer before they have sent all of their request.
    pub(super) async fn run_and_watch(&mut self, body: &mut Reader<'_>) -> Result {
        self.run_until(async |body: &mut Reader<'_>| body.peer_gone().await, body).await?;
        while let Ok(Some(_)) = body.chunk().await {}
        body.peer_gone().await
    }

    /// Whether the server behind still reads the body.
    pub(super) fn is_wanted(&self) -> bool {
        self.call.borrow().is_wanted()
    }

    /// Runs, unless `left` fails because the peer has left while the server behind takes no more.
    async fn run_until(
        &mut self,
        gone: impl AsyncFn(&mut Reader<'_>) -> Result,
        body: &mut Reader<'_>,
    ) -> Result {
        while self.is_wanted() {
            while self.sent < self.chunk.len() {
                let chunk = &self.chunk[self.sent..];
                let write = self.poll_call(|call, cx| call.poll_data(cx, chunk));
                self.sent += join_first(write, gone(body)).await?;
            }
            let chunk = async { Ok(body.chunk().await?) };
            // A peer that pauses may be waiting for an answer to what it has sent.
            let flush = self.poll_call(Call::poll_sent);
            let Some(chunk) = join_first(chunk, flush).await? else {
                let trailers = body.trailers().forwarded_behind(&body.request.headers);
                return join_first(self.finish(&trailers), gone(body)).await;
            };
            self.chunk.clear();
            self.chunk.extend_from_slice(chunk);
            self.sent = 0;
        }
        Ok(())
    }

    /// Ends the request.
    async fn finish(&self, trailers: &Headers) -> Result {
        let end = |call: &mut Call, cx: &mut Context<'_>| {
            let ended = ready!(call.poll_end(cx, trailers));
            if !call.is_answered() {
                // The time limit of whoever waits for the answer begins now.
                cx.waker().wake_by_ref();
            }
            Poll::Ready(ended)
        };
        self.poll_call(end).await
    }

    /// Awaits what `poll` does with the call.
    async fn poll_call<T>(
        &self,
        mut poll: impl FnMut(&mut Call, &mut Context<'_>) -> Poll<Result<T, ClientError>>,
    ) -> Result<T> {
        poll_fn(|cx| poll(&mut self.call.borrow_mut(), cx)).await.map_err(gateway_error)
    }
}

/// The error of a gateway whose server behind fails.
pub(super) fn gateway_error(error: ClientError) -> Error {
    Error::new(error.owed(), error)
}
