//! [`Part`]: one part of a body, whose content is read as it arrives (RFC 7578 §4).

use std::fmt;
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::task::{self, Poll, ready};

use tokio::io::{AsyncRead, ReadBuf};

use super::{Multipart, MultipartError};
use crate::message::Headers;
use crate::wire::WireDetail;

/// One part of a body: a field of a form, or a file. Its content is read as it arrives.
///
/// Made by [`Multipart::part`]. Content that is not read is skipped.
pub struct Part<'a, R> {
    body: &'a mut Multipart<R>,
}

impl<'a, R: AsyncRead + Unpin> Part<'a, R> {
    pub(super) fn new(body: &'a mut Multipart<R>) -> Part<'a, R> {
        Part { body }
    }

    /// Returns the next piece of the content, as large as it arrived; `None` at its end.
    ///
    /// # Errors
    ///
    /// Fails if the body cannot be read, is cut short, or exceeds a limit. The end is then never reached.
    pub async fn chunk(&mut self) -> io::Result<Option<&[u8]>> {
        match poll_fn(|cx| self.body.poll_data(cx)).await? {
            0 => Ok(None),
            count => Ok(Some(self.body.take(count))),
        }
    }

    /// Reads the rest of the content, up to [`MultipartLimits::memory_max`](super::MultipartLimits::memory_max).
    ///
    /// # Errors
    ///
    /// As [`Part::chunk`], or if there is more than that.
    pub async fn bytes(&mut self) -> io::Result<Vec<u8>> {
        let (mut bytes, memory_max) = (Vec::new(), self.body.limits.memory_max);
        while let Some(chunk) = self.chunk().await? {
            if chunk.len() > memory_max - bytes.len() {
                let limit = WireDetail::limit("memory_max", "bytes", memory_max as u64);
                let error = self.body.part_too_large(limit);
                return self.body.record_failure(Err(error.into()));
            }
            bytes.extend_from_slice(chunk);
        }
        Ok(bytes)
    }

    /// Reads the rest of the content, as text.
    ///
    /// # Errors
    ///
    /// As [`Part::bytes`], or if the text is not UTF-8.
    pub async fn text(&mut self) -> io::Result<String> {
        String::from_utf8(self.bytes().await?).map_err(|_| MultipartError::Text(self.body.part_name()).into())
    }
}

impl<R> Part<'_, R> {
    /// Returns the name of the field, as the peer chose it (RFC 7578 §4.2). Several parts may have the same name.
    pub fn name(&self) -> &str {
        &self.body.head.disposition.name
    }

    /// Returns the peer's name for the file, if this is one. It can be any text, `../../etc/passwd` for example: it is
    /// meant for people, not for a file system. See [`Part::save`].
    pub fn file_name(&self) -> Option<&str> {
        self.body.head.disposition.file_name.as_deref()
    }

    /// Returns the fields of the head.
    pub fn headers(&self) -> &Headers {
        &self.body.head.headers
    }

    /// Returns the content type that the peer states, or else `text/plain` (RFC 7578 §4.4).
    pub fn content_type(&self) -> &str {
        self.body.head.headers.content_type().unwrap_or("text/plain")
    }
}

impl<R: AsyncRead + Unpin> AsyncRead for Part<'_, R> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut task::Context<'_>,
        out: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let count = ready!(self.body.poll_data(cx))?.min(out.remaining());
        out.put_slice(self.body.take(count));
        Poll::Ready(Ok(()))
    }
}

impl<R> fmt::Debug for Part<'_, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Part")
            .field("name", &self.name())
            .field("file_name", &self.file_name())
            .finish_non_exhaustive()
    }
}
