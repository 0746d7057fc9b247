//! [`Pump`]: brings the body of a request to the server behind.

use super::beside::beside;
use crate::client::{CallWriter, ClientError};
use crate::server::{Error, Reader, Result};

/// Brings the body of a request to the server behind. It can be stopped at any time, and goes on where it was.
pub(super) struct Pump {
    writer: CallWriter,
    piece: Vec<u8>,
    /// So much of the piece has gone out.
    sent: usize,
}

impl Pump {
    pub(super) fn new(writer: CallWriter) -> Pump {
        Pump { writer, piece: Vec::new(), sent: 0 }
    }

    /// Goes on until all of `body` is sent, or the server wants no more of it.
    pub(super) async fn run(&mut self, body: &mut Reader<'_>) -> Result {
        while self.is_wanted() {
            while self.sent < self.piece.len() {
                self.sent += self.writer.write(&self.piece[self.sent..]).await.map_err(owed)?;
            }
            let chunk = async { Ok(body.chunk().await?) };
            // Whoever sends no more for now may wait for an answer to what was sent.
            let flush = async { self.writer.flush().await.map_err(owed) };
            let Some(chunk) = beside(chunk, flush).await? else {
                return self.writer.finish_with(body.trailers()).await.map_err(owed);
            };
            self.piece.clear();
            self.piece.extend_from_slice(chunk);
            self.sent = 0;
        }
        Ok(())
    }

    /// Whether the server behind still wants to have the body.
    pub(super) fn is_wanted(&self) -> bool {
        self.writer.is_wanted()
    }
}

/// What a gateway owes when the server behind it fails so.
pub(super) fn owed(error: ClientError) -> Error {
    Error::new(error.owed(), error)
}
