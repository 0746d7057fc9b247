//! [`ContentDecoder`]: one content, decoded as it arrives (RFC 9110 §8.4).

use super::{CodingError, DecoderChain};
use crate::memory::Arena;

/// One content that arrives in pieces, and comes out decoded, in other pieces.
pub(crate) struct ContentDecoder {
    decoders: DecoderChain,
    /// The piece that was decoded last.
    piece: Arena,
    /// The part of it that is lent.
    start: usize,
    end: usize,
    /// How much of the current input has been decoded.
    decoded: usize,
    /// How many bytes may come out, and how many of them still may.
    limit: usize,
    left: usize,
    /// Why the content cannot be decoded any further.
    failed: Option<CodingError>,
}

impl ContentDecoder {
    /// Decodes with `decoders`, up to `limit` bytes.
    pub(crate) fn new(decoders: DecoderChain, limit: usize) -> ContentDecoder {
        let piece = Arena::default();
        ContentDecoder { decoders, piece, start: 0, end: 0, decoded: 0, limit, left: limit, failed: None }
    }

    /// Decodes on, and returns how many bytes are lent until the next call. 0 means that all of `input` was decoded:
    /// the next call needs new input, unless [`ContentDecoder::end`] says that the content is complete.
    ///
    /// # Errors
    ///
    /// Fails if the content is corrupt, or larger than allowed; all further calls fail too.
    pub(crate) fn pull(&mut self, input: &[u8]) -> Result<usize, CodingError> {
        // What was lent has been read.
        self.start = self.end;
        if self.start == self.piece.len() {
            self.failed = self.refill(input).err();
        }
        self.end = self.piece.len();
        self.failed.map_or(Ok(self.end - self.start), Err)
    }

    /// The bytes that are lent.
    pub(crate) fn piece(&self) -> &[u8] {
        &self.piece.as_slice()[self.start..self.end]
    }

    /// Shortens what is lent to the first `count` bytes. The others will be lent again.
    pub(crate) fn truncate_piece(&mut self, count: usize) {
        self.end = self.start + count;
    }

    /// Checks that the content may end here.
    ///
    /// # Errors
    ///
    /// Fails if the content was cut short.
    pub(crate) fn end(&self) -> Result<(), CodingError> {
        self.failed.map_or_else(|| self.decoders.end(), Err)
    }

    fn refill(&mut self, input: &[u8]) -> Result<(), CodingError> {
        self.piece.clear();
        self.start = 0;
        self.failed.map_or(Ok(()), Err)?;
        let mut rest = &input[self.decoded..];
        let made = self.decoders.pull(&mut rest, &mut self.piece);
        self.decoded = input.len() - rest.len();
        let left =
            made.and_then(|count| self.left.checked_sub(count).ok_or(CodingError::TooLarge(self.limit)));
        match left {
            Ok(_) if self.piece.is_empty() => self.decoded = 0,
            Ok(left) => self.left = left,
            Err(_) => self.piece.clear(),
        }
        left.map(drop)
    }
}
