//! [`Remaining`]: what remains to be received of a body (RFC 9112 §6).

use crate::message::Headers;
use crate::net::ReadBuffer;
use crate::wire::chunked::ChunkedDecoder;
use crate::wire::parse::ForbiddenTrailers;
use crate::wire::{Framing, Limits, WireError};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Remaining {
    #[default]
    Nothing,
    Length(u64),
    Chunked(ChunkedDecoder),
    /// Everything until the peer closes.
    UntilClose,
}

impl Remaining {
    pub(super) fn new(framing: Framing, forbidden: ForbiddenTrailers) -> Remaining {
        match framing {
            Framing::Empty | Framing::Length(0) => Remaining::Nothing,
            Framing::Length(length) => Remaining::Length(length),
            Framing::Chunked => Remaining::Chunked(ChunkedDecoder::new(forbidden)),
            Framing::UntilClose => Remaining::UntilClose,
        }
    }

    /// Finds the next piece of the body at the front of `input`, consumes the framing before it, and returns its
    /// length. 0 means that more input is needed, or that the body has ended.
    pub(super) fn decode(
        &mut self,
        input: &mut ReadBuffer,
        limits: &Limits,
        trailers: &mut Headers,
    ) -> Result<usize, WireError> {
        match self {
            Remaining::Nothing => Ok(0),
            Remaining::Length(left) => {
                let data = usize::try_from(*left).unwrap_or(usize::MAX).min(input.unread().len());
                *left -= data as u64;
                if *left == 0 {
                    *self = Remaining::Nothing;
                }
                Ok(data)
            }
            Remaining::UntilClose => Ok(input.unread().len()),
            Remaining::Chunked(decoder) => {
                let decoded = decoder.decode(input.unread(), limits, trailers)?;
                if decoder.is_done() {
                    *self = Remaining::Nothing;
                }
                input.consume(decoded.framing);
                Ok(decoded.data)
            }
        }
    }
}
