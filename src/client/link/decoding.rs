//! The body of an answer, undone of its codings as it comes (RFC 9110 §8.4).

use std::task::{Context, Poll, ready};

use super::Link;
use crate::client::exchange::Exchange;
use crate::client::{ClientCause, ClientError, ClientPhase};
use crate::coding::{CodingError, Decoders, Decoding, OF_CODED};
use crate::memory::Arena;
use crate::message::Response;
use crate::wire::WireError;

impl Link {
    /// Has the body decoded, if the client was told so. The fields that speak of the codings are removed; a coding that
    /// nobody here knows stays.
    pub(in crate::client) fn decode(&mut self, response: &mut Response) -> Result<(), ClientError> {
        let has_body = !self.exchange.incoming.is_read();
        let Some(most) = self.settings().decode_max.filter(|_| has_body) else { return Ok(()) };
        match Decoders::of(&response.headers, most) {
            Ok(None) | Err(CodingError::Unknown) => {}
            Ok(Some(decoders)) => {
                response.headers.remove_each(&OF_CODED);
                self.exchange.decoding = Some(Box::new(Decoding::new(decoders, most)));
            }
            Err(error) => return Err(self.coding_error(error)),
        }
        Ok(())
    }

    /// Decodes the next piece of the body; it lies in the decoding until the next call. None: it is at its end.
    pub(super) fn poll_decoded(&mut self, cx: &mut Context<'_>) -> Poll<Result<usize, ClientError>> {
        loop {
            let Exchange { incoming, decoding, .. } = &mut *self.exchange;
            let Some(decoding) = decoding else { return self.poll_received(cx) };
            match decoding.pull(incoming.chunk()) {
                Ok(0) => {}
                pulled => return Poll::Ready(pulled.map_err(|error| self.coding_error(error))),
            }
            let end = decoding.end();
            if ready!(self.poll_received(cx))? == 0 {
                return Poll::Ready(end.map(|()| 0).map_err(|error| self.coding_error(error)));
            }
        }
    }

    /// Decodes the whole body into `content`.
    pub(super) fn poll_body_decoded(
        &mut self,
        cx: &mut Context<'_>,
        content: &mut Arena,
    ) -> Poll<Result<(), ClientError>> {
        while ready!(self.poll_decoded(cx))? > 0 {
            content.extend(self.chunk());
            if content.len() > self.settings().bounds.limits.body_max {
                return Poll::Ready(Err(self.fail(ClientPhase::Receive, WireError::BodyTooLarge.into())));
            }
        }
        Poll::Ready(Ok(()))
    }

    fn coding_error(&self, error: CodingError) -> ClientError {
        self.error(ClientPhase::Receive, ClientCause::Coding(error))
    }
}
