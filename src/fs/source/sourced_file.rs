//! [`SourcedFile`]: a file that a source has found, and reads when a response needs it.

use std::fmt;
use std::io;
use std::ops::Range;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, ReadBuf};

use super::file_metadata::FileMetadata;
use super::file_source::ErasedSource;
use crate::message::{Body, BodyChain, ChainLink};

/// A file that a source has found.
pub(in crate::fs) struct SourcedFile {
    source: Arc<dyn ErasedSource>,
    path: String,
    pub(in crate::fs) metadata: FileMetadata,
}

impl SourcedFile {
    pub(in crate::fs) fn new(
        source: Arc<dyn ErasedSource>,
        path: String,
        metadata: FileMetadata,
    ) -> SourcedFile {
        SourcedFile { source, path, metadata }
    }

    /// Reads a range, which is within the length that was found.
    ///
    /// # Errors
    ///
    /// Fails as the source does, or if it returns content of another length.
    pub(in crate::fs) async fn read(&self, range: Range<u64>) -> io::Result<Body> {
        debug_assert!(range.start <= range.end && range.end <= self.metadata.len, "the range is satisfiable");
        if range.is_empty() {
            let mut empty = Body::new();
            empty.set_bytes([]);
            return Ok(empty);
        }
        let len = range.end - range.start;
        with_len(self.source.read(&self.path, &self.metadata, range).await?, len)
    }

    /// A range among others, which is read when its turn has come: no more than one is open at a time.
    pub(in crate::fs) fn link(self: Arc<SourcedFile>, range: Range<u64>) -> ChainLink {
        let left = Some(range.end - range.start);
        let opening = async move { self.read(range).await };
        ChainLink::Stream { source: Box::pin(RangeReader::Opening(Box::pin(opening))), left }
    }
}

impl fmt::Debug for SourcedFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let SourcedFile { path, metadata, .. } = self;
        f.debug_struct("SourcedFile").field("path", path).field("metadata", metadata).finish_non_exhaustive()
    }
}

/// The content as one of `len` bytes: bytes that are as many, or a stream that fails if it has more or less.
fn with_len(mut body: Body, len: u64) -> io::Result<Body> {
    match body.known_len() {
        Some(known) if known == len => {}
        Some(known) => {
            let text = format!("the source returned {known} bytes of a range of {len}");
            return Err(io::Error::new(io::ErrorKind::InvalidData, text));
        }
        None => {
            let source = body.take_source();
            let unread =
                || io::Error::new(io::ErrorKind::InvalidData, "the stream of the source was read before");
            body.set_stream(source.ok_or_else(unread)?, Some(len));
        }
    }
    Ok(body)
}

/// Reads a range of a file that is still to be opened.
enum RangeReader {
    Opening(Pin<Box<dyn Future<Output = io::Result<Body>> + Send>>),
    Open(BodyChain),
}

impl AsyncRead for RangeReader {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        out: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        loop {
            match &mut *self {
                RangeReader::Open(content) => return Pin::new(content).poll_read(cx, out),
                RangeReader::Opening(opening) => {
                    let opened = ready!(opening.as_mut().poll(cx));
                    // After an error there is nothing to read, and the future is not polled again.
                    *self = RangeReader::Open(BodyChain::new(Vec::new()));
                    *self = RangeReader::Open(BodyChain::new(vec![ChainLink::from(opened?)]));
                }
            }
        }
    }
}
