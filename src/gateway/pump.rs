//! [`Pump`]: forwards the body of a request to the server behind.

use std::future::pending;

use crate::client::{CallWriter, ClientError};
use crate::runtime::beside;
use crate::server::{Error, Reader, Result};

/// Forwards the body of a request to the server behind. It can be stopped at any time, and continues where it was.
pub(super) struct Pump {
    writer: CallWriter,
    piece: Vec<u8>,
    /// How many bytes of the piece have been sent.
    sent: usize,
}

impl Pump {
    /// Begins with `buffered`, which is all of the body if it was received before.
    pub(super) fn new(writer: CallWriter, buffered: &[u8]) -> Pump {
        Pump { writer, piece: buffered.to_vec(), sent: 0 }
    }

    /// Runs until all that is still to come of `body` has been sent, or the server reads no more of it.
    pub(super) async fn run(&mut self, body: &mut Reader<'_>) -> Result {
        self.run_unless(async |_: &mut Reader<'_>| pending().await, body).await
    }

    /// Runs as [`Pump::run`] does, and then waits until the peer closes, which is an error.
    pub(super) async fn attend(&mut self, body: &mut Reader<'_>) -> Result {
        self.run_unless(async |body: &mut Reader<'_>| body.peer_left().await, body).await?;
        body.peer_left().await
    }

    /// Whether the server behind still reads the body.
    pub(super) fn is_wanted(&self) -> bool {
        self.writer.is_wanted()
    }

    /// Runs, unless `left` fails because the peer has left while the server behind takes no more.
    async fn run_unless(
        &mut self,
        left: impl AsyncFn(&mut Reader<'_>) -> Result,
        body: &mut Reader<'_>,
    ) -> Result {
        while self.is_wanted() {
            while self.sent < self.piece.len() {
                let write = async { self.writer.write(&self.piece[self.sent..]).await.map_err(owed) };
                self.sent += beside(write, left(body)).await?;
            }
            let chunk = async { Ok(body.chunk().await?) };
            // A peer that pauses may be waiting for an answer to what it has sent.
            let flush = async { self.writer.flush().await.map_err(owed) };
            let Some(chunk) = beside(chunk, flush).await? else {
                let trailers = body.trailers().forwarded_behind(&body.request.headers);
                let finish = async { self.writer.finish_with(&trailers).await.map_err(owed) };
                return beside(finish, left(body)).await;
            };
            self.piece.clear();
            self.piece.extend_from_slice(chunk);
            self.sent = 0;
        }
        Ok(())
    }
}

/// The error of a gateway whose server behind fails.
pub(super) fn owed(error: ClientError) -> Error {
    Error::new(error.owed(), error)
}
