//! [`BodyDecoder`]: what remains to be received of a body (RFC 9112 §6).

use crate::message::Headers;
use crate::net::ReadBuffer;
use crate::wire::chunked::ChunkedDecoder;
use crate::wire::parse::ForbiddenTrailers;
use crate::wire::{Framing, Limits, WireError};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum BodyDecoder {
    #[default]
    Done,
    Length(u64),
    Chunked(ChunkedDecoder),
    /// Everything until the peer closes.
    UntilClose,
}

impl BodyDecoder {
    pub(super) fn new(framing: Framing, forbidden: ForbiddenTrailers) -> BodyDecoder {
        match framing {
            Framing::Empty | Framing::Length(0) => BodyDecoder::Done,
            Framing::Length(length) => BodyDecoder::Length(length),
            Framing::Chunked => BodyDecoder::Chunked(ChunkedDecoder::new(forbidden)),
            Framing::UntilClose => BodyDecoder::UntilClose,
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
            BodyDecoder::Done => Ok(0),
            BodyDecoder::Length(left) => {
                let data = usize::try_from(*left).unwrap_or(usize::MAX).min(input.unread().len());
                *left -= data as u64;
                if *left == 0 {
                    *self = BodyDecoder::Done;
                }
                Ok(data)
            }
            BodyDecoder::UntilClose => Ok(input.unread().len()),
            BodyDecoder::Chunked(decoder) => {
                let decoded = decoder.decode(input.unread(), limits, trailers)?;
                if decoder.is_done() {
                    *self = BodyDecoder::Done;
                }
                input.consume(decoded.framing);
                Ok(decoded.data)
            }
        }
    }
}
