//! [`Parts`]: several ranges in one answer, `multipart/byteranges` (RFC 9110 §14.6).

use std::collections::VecDeque;
use std::io;
use std::ops::Range;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use tokio::io::{AsyncRead, ReadBuf};

use crate::fs::resource::{Content, Representation};
use crate::message::Body;
use crate::net::FileReader;
use crate::runtime::random_token;

/// Several ranges of one representation, each after a head of its own.
pub(super) struct Parts {
    pieces: VecDeque<Piece>,
    len: u64,
    /// Separates the parts. It is random, so no file can have been made to contain it.
    boundary: String,
}

enum Piece {
    Bytes(Bytes),
    File(FileReader),
}

impl Parts {
    /// Cuts `ranges`, none of which is empty, out of the `chosen` representation.
    ///
    /// # Errors
    ///
    /// Fails if the operating system provides no randomness.
    pub(super) fn new(
        chosen: &Representation,
        content_type: &str,
        ranges: &[Range<u64>],
    ) -> io::Result<Parts> {
        let mut parts = Parts { pieces: VecDeque::new(), len: 0, boundary: random_token()? };
        ranges.iter().for_each(|range| parts.add(chosen, content_type, range));
        let end = format!("\r\n--{}--\r\n", parts.boundary);
        parts.push(end.len() as u64, Piece::Bytes(end.into()));
        Ok(parts)
    }

    fn add(&mut self, chosen: &Representation, content_type: &str, range: &Range<u64>) {
        let (boundary, first, last, whole) =
            (&self.boundary, range.start, range.end - 1, chosen.content().len());
        let start = if self.len == 0 { "--" } else { "\r\n--" };
        let head = format!(
            "{start}{boundary}\r\ncontent-type: {content_type}\r\n\
             content-range: bytes {first}-{last}/{whole}\r\n\r\n"
        );
        self.push(head.len() as u64, Piece::Bytes(head.into()));
        let piece = match chosen.content() {
            Content::Bytes(bytes) => Piece::Bytes(bytes.slice(range.start as usize..range.end as usize)),
            Content::File(file, _) => Piece::File(FileReader::new(file.clone(), range.clone())),
        };
        self.push(range.end - range.start, piece);
    }

    pub(super) fn content_type(&self) -> String {
        format!("multipart/byteranges; boundary={}", self.boundary)
    }

    /// Makes this the content of a message.
    pub(super) fn fill(self, body: &mut Body) {
        let len = self.len;
        body.stream(self, Some(len));
    }

    fn push(&mut self, len: u64, piece: Piece) {
        self.len += len;
        self.pieces.push_back(piece);
    }
}

impl AsyncRead for Parts {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        while buf.remaining() > 0 && buf.filled().len() == before {
            let Some(piece) = self.pieces.front_mut() else { break };
            match piece {
                Piece::Bytes(bytes) => buf.put_slice(&bytes.split_to(bytes.len().min(buf.remaining()))),
                Piece::File(file) => ready!(Pin::new(file).poll_read(cx, buf))?,
            }
            if buf.filled().len() == before {
                self.pieces.pop_front();
            }
        }
        Poll::Ready(Ok(()))
    }
}
