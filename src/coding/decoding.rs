//! [`Decoding`]: one content, undone of its codings as it comes (RFC 9110 §8.4).

use super::{CodingError, Decoders};
use crate::memory::Arena;

/// One content that comes in pieces, undone of its codings, and goes in other pieces.
pub(crate) struct Decoding {
    decoders: Decoders,
    /// What was decoded last.
    piece: Arena,
    /// Which part of it is lent.
    start: usize,
    end: usize,
    /// How much of the input at hand was decoded.
    decoded: usize,
    /// So much may still come out.
    left: usize,
    /// What is wrong with the content, for good.
    failed: Option<CodingError>,
}

impl Decoding {
    /// Decodes what `decoders` are for, of which at most `limit` bytes may come out.
    pub(crate) fn new(decoders: Decoders, limit: usize) -> Decoding {
        let piece = Arena::default();
        Decoding { decoders, piece, start: 0, end: 0, decoded: 0, left: limit, failed: None }
    }

    /// Decodes on, and answers how much is lent until the next call. None: all of the input was decoded. The next call
    /// needs another one, or else [`Decoding::end`] says whether there need be none.
    ///
    /// # Errors
    ///
    /// Content that is corrupt or larger than it may be, now and for ever.
    pub(crate) fn pull(&mut self, input: &[u8]) -> Result<usize, CodingError> {
        // What was lent has been read.
        self.start = self.end;
        if self.start == self.piece.len() {
            let made = self.refill(input);
            self.failed = made.err();
        }
        self.end = self.piece.len();
        self.failed.map_or(Ok(self.end - self.start), Err)
    }

    /// The bytes that are lent.
    pub(crate) fn piece(&self) -> &[u8] {
        &self.piece.as_slice()[self.start..self.end]
    }

    /// The reader took only the first `count` bytes of what is lent.
    pub(crate) fn took(&mut self, count: usize) {
        self.end = self.start + count;
    }

    /// No more content will come.
    ///
    /// # Errors
    ///
    /// Content that was cut short.
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
        let left = made.and_then(|count| self.left.checked_sub(count).ok_or(CodingError::TooLarge));
        match left {
            Ok(_) if self.piece.is_empty() => self.decoded = 0,
            Ok(left) => self.left = left,
            Err(_) => self.piece.clear(),
        }
        left.map(drop)
    }
}
