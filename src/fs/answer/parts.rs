//! [`ByteRanges`]: several ranges in one answer, `multipart/byteranges` (RFC 9110 §14.6).

use std::io;
use std::ops::Range;

use crate::fs::resource::{Content, Representation};
use crate::message::{Body, Piece, Pieces, multipart};
use crate::net::FileReader;
use crate::runtime::random_token;

/// Several ranges of one representation, each after a head of its own.
pub(super) struct ByteRanges {
    pieces: Pieces,
    /// Separates the parts. It is random, so no file can have been made to contain it.
    boundary: String,
}

impl ByteRanges {
    /// Cuts `ranges`, none of which is empty, out of the `chosen` representation.
    ///
    /// # Errors
    ///
    /// Fails if the operating system provides no randomness.
    pub(super) fn new(
        chosen: &Representation,
        content_type: &str,
        ranges: &[Range<u64>],
    ) -> io::Result<ByteRanges> {
        let (boundary, whole) = (random_token()?, chosen.content().len());
        let parts = ranges.iter().map(|range| {
            let (first, last) = (range.start, range.end - 1);
            let head = format!(
                "content-type: {content_type}\r\ncontent-range: bytes {first}-{last}/{whole}\r\n\r\n"
            );
            (head, cut(chosen.content(), range.clone()))
        });
        Ok(ByteRanges { pieces: Pieces::new(multipart(&boundary, parts)), boundary })
    }

    pub(super) fn content_type(&self) -> String {
        format!("multipart/byteranges; boundary={}", self.boundary)
    }

    /// Makes this the content of a message.
    pub(super) fn fill(self, body: &mut Body) {
        self.pieces.fill(body);
    }
}

fn cut(content: &Content, range: Range<u64>) -> Piece {
    match content {
        Content::Bytes(bytes) => Piece::Bytes(bytes.slice(range.start as usize..range.end as usize)),
        Content::File(file, _) => {
            let left = Some(range.end - range.start);
            Piece::Stream { source: Box::pin(FileReader::new(file.clone(), range)), left }
        }
    }
}
