//! [`Body`]: the content of one message (RFC 9110 §6.4).

use std::fmt;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::pin::Pin;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use tokio::io::AsyncRead;

use super::content_error::{ContentError, ContentFault};
use crate::memory::{Arena, Reset, clear_cold, lock};

/// The content of a message: nothing, bytes, or a stream.
///
/// A clone copies bytes, unless they were [shared](Body::set_shared_bytes).
///
/// # Examples
///
/// ```
/// use std::io::Write;
/// use corehttp::Body;
///
/// let mut body = Body::new();
/// body.set_bytes("copied");                          // into memory that is reused
/// body.set_shared_bytes("static, or a `Bytes`, or a Vec"); // not copied
/// body.set_bytes("");
/// write!(body, "{} + {} = {}", 1, 2, 3)?;
/// assert_eq!(body.text().unwrap(), "1 + 2 = 3");
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Default)]
pub struct Body {
    /// The content, if it is not in `buffer`.
    pub(super) unbuffered: Option<Unbuffered>,
    buffered: Buffered,
    /// Copied or received content. The memory is kept for the next message.
    buffer: Arena,
}

/// How much of the content is in the buffer of the body.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Buffered {
    /// The content is elsewhere, and the buffer is empty.
    #[default]
    Nothing,
    /// A part of it, and the rest is still to be received.
    Part,
    Whole,
}

/// Content that is not in the buffer of the body. Dropping it may run code of the application.
#[derive(Clone)]
pub(super) enum Unbuffered {
    Shared(Bytes),
    Stream { source: Arc<Mutex<Option<BodySource>>>, len: Option<u64>, origin: StreamOrigin },
}

/// The origin of the source of a stream.
#[derive(Clone)]
pub(super) enum StreamOrigin {
    /// The application. There is no other source like it.
    Given,
    /// A function of the application, which makes any number of sources.
    Made(Arc<dyn Fn() -> BodySource + Send + Sync>),
    /// A range of a file, which the system can send by itself.
    File(FileRange),
    /// Several bodies, one after the other: at a server, bytes and ranges of files.
    #[allow(dead_code, reason = "unused without the features `fs` and `multipart`")]
    Chain,
}

/// A range of an open file.
#[derive(Clone)]
pub(crate) struct FileRange {
    pub(crate) file: Arc<File>,
    pub(crate) range: Range<u64>,
}

/// Where a streamed body comes from.
pub(crate) type BodySource = Pin<Box<dyn AsyncRead + Send>>;

impl Body {
    /// Creates a body without content. Allocates nothing.
    pub fn new() -> Body {
        Body::default()
    }

    /// Sets the content to a copy of `bytes`, in memory that is reused. [`Body::set_shared_bytes`] does not copy.
    pub fn set_bytes(&mut self, bytes: impl AsRef<[u8]>) {
        let buffer = self.receive();
        buffer.clear();
        buffer.extend(bytes.as_ref());
    }

    /// Sets the content to `bytes` without copying them: static data, a [`Bytes`], a `Vec<u8>` or a `String`.
    /// [`Body::set_bytes`] copies, and therefore takes borrowed bytes.
    pub fn set_shared_bytes(&mut self, bytes: impl Into<Bytes>) {
        self.set_unbuffered(Unbuffered::Shared(bytes.into()));
    }

    /// Sets the content to what `source` yields.
    ///
    /// With a length, the content is sent with `content-length`. A source of another length aborts the connection.
    /// Without a length, the content is sent in chunks (RFC 9112 §7.1), or to an HTTP/1.0 peer until the connection
    /// closes. The exchange waits for the end of the source. Limit an endless source, such as a socket, with
    /// `AsyncReadExt::take`. A server drops a waiting source once the peer has closed
    /// ([`Server::half_close`](crate::Server::half_close)).
    ///
    /// The first send takes the source, which clones of this body share. [`Body::set_stream_with`] makes a source for
    /// each.
    ///
    /// `tokio_util::io::StreamReader` makes a source of whatever yields chunks, such as a channel. A handler can also
    /// write the chunks itself, with [`Context::body_writer`](crate::Context::body_writer).
    pub fn set_stream(&mut self, source: impl AsyncRead + Send + 'static, len: Option<u64>) {
        self.set_source(Box::pin(source), len, StreamOrigin::Given);
    }

    /// Sets the content to what a source from `make` yields, like [`Body::set_stream`]. Each time that the content is
    /// sent, `make` is called.
    ///
    /// So a client can send such a body again, after a redirect, after a stale connection, and by a
    /// [`Retry`](crate::client::Retry).
    ///
    /// # Examples
    ///
    /// ```
    /// # use corehttp::{Client, Context, Server};
    /// # use corehttp::net::MemoryListener;
    /// use corehttp::{Request, Response};
    ///
    /// # let listener = MemoryListener::new();
    /// # let client = Client::builder().connect_to(&listener).build();
    /// # let server = Server::bind(listener).cores(1).start(|ctx: &mut Context| {
    /// #     std::mem::swap(&mut ctx.response.body, &mut ctx.request.body);
    /// # })?;
    /// # corehttp::block_on(async {
    /// let mut request = Request::put("http://example.com/notes")?;
    /// request.body.set_stream_with(|| &b"milk"[..], Some(4));
    /// let mut response = Response::new();
    /// for _ in 0..2 {
    ///     client.send(&request, &mut response).await?;
    ///     assert_eq!(response.text()?, "milk");
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })??;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[doc(alias = "GetBody")]
    pub fn set_stream_with<S: AsyncRead + Send + 'static>(
        &mut self,
        make: impl Fn() -> S + Send + Sync + 'static,
        len: Option<u64>,
    ) {
        let make = move || Box::pin(make()) as BodySource;
        self.set_unbuffered(Unbuffered::Stream {
            source: Arc::default(),
            len,
            origin: StreamOrigin::Made(Arc::new(make)),
        });
    }

    /// Sets the content to what `source` yields, which is a range of a file.
    pub(crate) fn stream_file(&mut self, source: BodySource, file: FileRange) {
        debug_assert!(file.range.start <= file.range.end, "a range of a file does not run backwards");
        let len = Some(file.range.end - file.range.start);
        self.set_source(source, len, StreamOrigin::File(file));
    }

    pub(super) fn set_source(&mut self, source: BodySource, len: Option<u64>, origin: StreamOrigin) {
        let source = Arc::new(Mutex::new(Some(source)));
        self.set_unbuffered(Unbuffered::Stream { source, len, origin });
    }

    /// How many bytes of memory this body holds, spare capacity included, beside what it shares with others.
    pub(crate) fn memory_held(&self) -> usize {
        let unbuffered = match &self.unbuffered {
            Some(Unbuffered::Shared(bytes)) if bytes.is_unique() => bytes.len(),
            Some(Unbuffered::Shared(_) | Unbuffered::Stream { .. }) | None => 0,
        };
        self.buffer.capacity().saturating_add(unbuffered)
    }

    /// Frees the buffer, with the content that is in it.
    pub(crate) fn free_buffer(&mut self) {
        self.buffered = Buffered::Nothing;
        self.buffer = Arena::default();
    }

    /// Frees the room of the buffer that no content fills.
    pub(crate) fn free_spare(&mut self) {
        self.buffer.shrink(self.buffer.len());
    }

    /// Removes the content.
    pub fn clear(&mut self) {
        clear_cold(&mut self.unbuffered);
        self.buffered = Buffered::Nothing;
        self.buffer.clear();
    }

    fn set_unbuffered(&mut self, content: Unbuffered) {
        self.clear();
        debug_assert!(self.buffered == Buffered::Nothing && self.buffer.is_empty(), "there is one content");
        self.unbuffered = Some(content);
    }

    /// Returns the content as bytes. Empty for a stream, which [`Body::text`] refuses.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        match &self.unbuffered {
            None => self.buffer.as_slice(),
            Some(Unbuffered::Shared(bytes)) => bytes,
            Some(Unbuffered::Stream { .. }) => &[],
        }
    }

    /// Returns the content as text.
    ///
    /// # Errors
    ///
    /// Fails if the content is a stream or not UTF-8. In a handler, `?` turns that into 500, because the body may be
    /// another server's. For the content of a request, use [`Request::text`](crate::Request::text), whose error becomes
    /// 400.
    pub fn text(&self) -> Result<&str, ContentError> {
        match self.is_stream() {
            true => Err(ContentFault::Unread.into()),
            false => std::str::from_utf8(self.bytes()).map_err(|_| ContentFault::Text(None).into()),
        }
    }

    /// Returns the content without copying it.
    ///
    /// # Errors
    ///
    /// Fails with this body if it is a stream.
    ///
    /// # Examples
    ///
    /// ```
    /// use corehttp::{Body, Response};
    ///
    /// let mut response = Response::new();
    /// response.set_text("a page that a cache keeps");
    /// let page = std::mem::take(&mut response.body).into_bytes().expect("a text is no stream");
    /// response.body.set_shared_bytes(page.clone());
    /// assert_eq!(response.body.bytes(), page);
    /// ```
    pub fn into_bytes(self) -> Result<Bytes, Body> {
        match self.unbuffered {
            None => Ok(self.buffer.into_bytes()),
            Some(Unbuffered::Shared(bytes)) => Ok(bytes),
            Some(Unbuffered::Stream { .. }) => Err(self),
        }
    }

    /// Returns the length of [`Body::bytes`]. 0 for a stream.
    pub fn len(&self) -> usize {
        self.bytes().len()
    }

    /// Returns the length of the content, even of a stream. `None` for a stream of unknown length.
    ///
    /// # Examples
    ///
    /// ```
    /// use corehttp::Body;
    ///
    /// let mut body = Body::from("bytes");
    /// assert_eq!(body.known_len(), Some(5));
    /// body.set_stream(tokio::io::empty(), Some(0));
    /// assert_eq!(body.known_len(), Some(0));
    /// body.set_stream(tokio::io::empty(), None);
    /// assert_eq!(body.known_len(), None);
    /// ```
    pub fn known_len(&self) -> Option<u64> {
        match self.declared_length() {
            BodyLength::NoContent => Some(0),
            BodyLength::Known(length) => Some(length),
            BodyLength::Unknown => None,
        }
    }

    /// Returns whether there is no content: neither bytes nor a stream.
    pub fn is_empty(&self) -> bool {
        self.len() == 0 && !self.is_stream()
    }

    /// Returns whether the content is a stream.
    pub fn is_stream(&self) -> bool {
        matches!(self.unbuffered, Some(Unbuffered::Stream { .. }))
    }

    /// Returns whether a stream of [`Body::set_stream`] has been taken, at least its beginning. Such content cannot be
    /// sent again. Clones share that stream.
    ///
    /// So [middleware of a client](crate::client::ClientMiddleware) learns whether it may send a request once more.
    ///
    /// # Examples
    ///
    /// ```
    /// # use corehttp::{Client, Context, Server};
    /// # use corehttp::net::MemoryListener;
    /// use corehttp::{Request, Response};
    ///
    /// # let listener = MemoryListener::new();
    /// # let client = Client::builder().connect_to(&listener).build();
    /// # let server = Server::bind(listener).cores(1).start(|_: &mut Context| ())?;
    /// # corehttp::block_on(async {
    /// let mut request = Request::put("http://example.com/notes")?;
    /// request.body.set_stream(&b"milk"[..], Some(4));
    /// assert!(!request.body.is_consumed());
    /// client.send(&request, &mut Response::new()).await?;
    /// assert!(request.body.is_consumed());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })??;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[doc(alias = "is_repeatable")]
    pub fn is_consumed(&self) -> bool {
        self.is_source_taken() && self.file_range().is_none()
    }

    /// Whether dropping the content may run code of the application.
    #[inline]
    pub(crate) fn is_unbuffered(&self) -> bool {
        self.unbuffered.is_some()
    }

    /// Whether the content was a stream, which has been taken.
    pub(crate) fn is_source_taken(&self) -> bool {
        match &self.unbuffered {
            Some(Unbuffered::Stream { origin: StreamOrigin::Made(_), .. }) => false,
            Some(Unbuffered::Stream { source, .. }) => lock(source).is_none(),
            Some(Unbuffered::Shared(_)) | None => false,
        }
    }

    /// Gives the content, which is a range of a file, the source back that was taken.
    pub(crate) fn put_source(&self, put: BodySource) {
        if let Some(Unbuffered::Stream { source, .. }) = &self.unbuffered {
            *lock(source) = Some(put);
        }
    }

    /// The length of the content, if it is known before it is sent. A message without content has no length.
    #[inline]
    pub(crate) fn declared_length(&self) -> BodyLength {
        debug_assert!(
            self.buffered != Buffered::Nothing || self.buffer.is_empty(),
            "content in the buffer is the content"
        );
        match &self.unbuffered {
            None if self.buffered == Buffered::Nothing => BodyLength::NoContent,
            None => BodyLength::Known(self.buffer.len() as u64),
            Some(Unbuffered::Shared(bytes)) => BodyLength::Known(bytes.len() as u64),
            Some(Unbuffered::Stream { len: Some(len), .. }) => BodyLength::Known(*len),
            Some(Unbuffered::Stream { len: None, .. }) => BodyLength::Unknown,
        }
    }

    /// Takes the stream, if there is one that has not been taken yet, or that can be made.
    pub(crate) fn take_source(&self) -> Option<BodySource> {
        match &self.unbuffered {
            Some(Unbuffered::Stream { origin: StreamOrigin::Made(make), .. }) => Some(make()),
            Some(Unbuffered::Stream { source, .. }) => lock(source).take(),
            Some(Unbuffered::Shared(_)) | None => None,
        }
    }

    /// Whether the application makes the content while it is sent.
    pub(crate) fn is_in_progress(&self) -> bool {
        match &self.unbuffered {
            Some(Unbuffered::Stream { origin, .. }) => match origin {
                StreamOrigin::Given | StreamOrigin::Made(_) => true,
                StreamOrigin::File(_) | StreamOrigin::Chain => false,
            },
            Some(Unbuffered::Shared(_)) | None => false,
        }
    }

    /// The range of a file, if that is the content.
    pub(crate) fn file_range(&self) -> Option<&FileRange> {
        match &self.unbuffered {
            Some(Unbuffered::Stream { origin: StreamOrigin::File(file), .. }) => Some(file),
            Some(Unbuffered::Stream { .. } | Unbuffered::Shared(_)) | None => None,
        }
    }

    /// Makes the buffer the content, to receive into it.
    #[inline]
    pub(crate) fn receive(&mut self) -> &mut Arena {
        clear_cold(&mut self.unbuffered);
        self.buffered = Buffered::Whole;
        &mut self.buffer
    }

    /// Makes the buffer the content as [`Body::receive`] does, to receive a part of it. Once the rest is here,
    /// [`Body::receive`] is due.
    pub(crate) fn receive_part(&mut self) -> &mut Arena {
        clear_cold(&mut self.unbuffered);
        self.buffered = Buffered::Part;
        &mut self.buffer
    }

    /// Whether only a part of the content has been received.
    pub(crate) fn is_partial(&self) -> bool {
        self.buffered == Buffered::Part
    }

    /// The buffer to append to, which holds the content so far.
    #[inline]
    fn append(&mut self) -> io::Result<&mut Arena> {
        if self.buffered == Buffered::Nothing {
            self.begin_buffer()?;
        }
        debug_assert!(self.unbuffered.is_none(), "there is one content");
        Ok(&mut self.buffer)
    }

    /// Makes the buffer the content, with a copy of content from outside of it, so that more can be appended.
    #[cold]
    fn begin_buffer(&mut self) -> io::Result<()> {
        if self.is_stream() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "the body is a stream already"));
        }
        self.buffered = Buffered::Whole;
        if let Some(Unbuffered::Shared(bytes)) = self.unbuffered.take() {
            self.buffer.extend(&bytes);
        }
        Ok(())
    }
}

/// The length of content, as far as it is known before it is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BodyLength {
    NoContent,
    Known(u64),
    Unknown,
}

impl Reset for Body {
    fn reset(&mut self) {
        self.clear();
    }

    fn shrink(&mut self) -> usize {
        self.buffer.shrink(BUFFER_KEPT_MAX)
    }
}

/// How much memory is kept.
const BUFFER_KEPT_MAX: usize = 16 << 10;

macro_rules! bytes_are_bodies {
    ($($type:ty),*) => {$(
        impl From<$type> for Body {
            /// Makes a body of the bytes without copying them: see [`Body::set_shared_bytes`].
            fn from(bytes: $type) -> Body {
                Body { unbuffered: Some(Unbuffered::Shared(bytes.into())), ..Body::default() }
            }
        }
    )*};
}

bytes_are_bodies!(&'static str, &'static [u8], String, Vec<u8>, Bytes);

/// Appends to the content, so that serializers can write directly into the body.
impl io::Write for Body {
    #[inline]
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.write_all(bytes)?;
        Ok(bytes.len())
    }

    // The provided method checks after each write whether all of it was taken, and serializers write a token at a time.
    #[inline]
    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.append()?.extend(bytes);
        Ok(())
    }

    #[inline]
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl fmt::Write for Body {
    #[inline]
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.append().map_err(|_| fmt::Error)?.extend(text.as_bytes());
        Ok(())
    }
}

impl PartialEq for Body {
    /// Compares the bytes. A stream equals nothing.
    fn eq(&self, other: &Body) -> bool {
        !self.is_stream() && !other.is_stream() && self.bytes() == other.bytes()
    }
}

impl fmt::Debug for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.declared_length(), self.is_stream()) {
            (BodyLength::NoContent, _) => f.write_str("none"),
            (BodyLength::Known(_), false) => write!(f, "{} bytes", self.len()),
            (BodyLength::Known(len), true) => write!(f, "a stream of {len} bytes"),
            (BodyLength::Unknown, _) => f.write_str("a stream"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn writing_appends_to_the_content() {
        let mut body = Body::new();
        body.set_shared_bytes("shared");
        body.write_all(b", then written").unwrap();
        assert_eq!(body.text(), Ok("shared, then written"));
        body.clear();
        body.write_all(b"fresh").unwrap();
        fmt::Write::write_str(&mut body, ", and formatted").unwrap();
        assert_eq!(body.text(), Ok("fresh, and formatted"));
    }

    #[test]
    fn a_body_made_of_bytes_does_not_copy_them() {
        #[track_caller]
        fn check(bytes: impl Into<Body>, expected: &str) {
            let body = bytes.into();
            assert_eq!(
                (body.text(), body.declared_length()),
                (Ok(expected), BodyLength::Known(expected.len() as u64))
            );
            assert!(matches!(body.unbuffered, Some(Unbuffered::Shared(_))));
        }
        check("", "");
        check("static", "static");
        check(&b"bytes"[..], "bytes");
        check(String::from("string"), "string");
        check(vec![b'v'; 3], "vvv");
        check(Bytes::from_static(b"shared"), "shared");
    }

    #[test]
    fn a_stream_is_taken_once_and_cannot_be_written_to() {
        let mut body = Body::new();
        body.set_stream(&b"source"[..], Some(6));
        let twin = body.clone();
        assert!(body.write_all(b"x").is_err() && fmt::Write::write_str(&mut body, "x").is_err());
        assert_eq!((body.declared_length(), body.is_empty()), (BodyLength::Known(6), false));
        assert!(!body.is_consumed() && twin.take_source().is_some() && body.take_source().is_none());
        assert!(body.is_consumed() && twin.is_consumed());
    }

    #[test]
    fn a_reset_body_equals_a_new_one_and_keeps_little_memory() {
        let mut body = Body::new();
        body.set_bytes(vec![0; 1 << 20]);
        body.reset();
        body.shrink();
        assert_eq!((&body, body.declared_length()), (&Body::new(), BodyLength::NoContent));
        assert!(body.buffer.spare(0).len() <= BUFFER_KEPT_MAX);
    }
}
