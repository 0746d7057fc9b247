//! [`HttpBody`]: the content and the trailers of a message, as a body of the crate `http-body` (RFC 9110 §6.4, §6.5).

use std::fmt;
use std::io;
use std::mem;
use std::pin::{Pin, pin};
use std::sync::Mutex;
use std::task::{Context, Poll, ready};

use bytes::{Bytes, BytesMut};
use http::HeaderMap;
use http_body::{Frame, SizeHint};
use tokio::io::AsyncReadExt;

use crate::message::{Body, BodySource};

/// The content and the trailers of a message, as a [body](http_body::Body) of the crate `http-body`.
///
/// Made of a [`Body`](crate::Body), and by the conversions of [`Request`](crate::Request) and [`Response`](crate::Response).
/// Bytes are one frame, which is not copied. A stream is read piece by piece, as the body is polled. Converted back without a
/// poll, it is the original [`Body`](crate::Body), even a file.
///
/// # Errors
///
/// A frame is an error if the source of a stream fails, or yields more or less than its length. Nothing follows it.
///
/// # Examples
///
/// ```
/// use corehttp::Body;
/// use corehttp::http_types::HttpBody;
/// use http_body_util::BodyExt;
///
/// let text = HttpBody::from(Body::from("hello"));
/// # corehttp::block_on(async {
/// assert_eq!(text.collect().await?.to_bytes(), "hello");
/// # Ok::<(), std::io::Error>(())
/// # })??;
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Default)]
pub struct HttpBody {
    content: Content,
    trailers: Option<HeaderMap>,
}

/// The content that is still to come.
enum Content {
    /// All of it: nothing was polled.
    Whole(Body),
    /// The rest of a stream.
    Stream {
        /// Never locked. The mutex makes the body `Sync` without a `Sync` source.
        source: Mutex<BodySource>,
        /// Memory for the next piece.
        memory: BytesMut,
        /// The bytes left in the source, if known.
        left: Option<u64>,
    },
    End,
}

impl HttpBody {
    /// Makes a body of `content`, with `trailers` after it.
    pub(super) fn with_trailers(content: Body, trailers: HeaderMap) -> HttpBody {
        HttpBody { content: Content::Whole(content), trailers: Some(trailers).filter(|map| !map.is_empty()) }
    }

    /// Returns the content that is still to come, and the trailers.
    pub(crate) fn into_parts(self) -> (Body, Option<HeaderMap>) {
        let content = match self.content {
            Content::Whole(body) => body,
            Content::Stream { source, left, .. } => {
                let mut body = Body::new();
                body.set_stream(source.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner()), left);
                body
            }
            Content::End => Body::new(),
        };
        (content, self.trailers)
    }

    /// Takes the next piece of the content, or `None` at its end.
    fn poll_data(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Option<Bytes>>> {
        if let Content::Whole(body) = &mut self.content {
            match begin(mem::take(body))? {
                Begun::Bytes(bytes) => {
                    self.content = Content::End;
                    return Poll::Ready(Ok(Some(bytes).filter(|bytes| !bytes.is_empty())));
                }
                Begun::Stream(stream) => self.content = stream,
            }
        }
        let Content::Stream { source, memory, left } = &mut self.content else {
            return Poll::Ready(Ok(None));
        };
        let source = source.get_mut().unwrap_or_else(|poisoned| poisoned.into_inner());
        if memory.capacity() < PIECE_MIN {
            memory.reserve(PIECE);
        }
        let count = ready!(pin!(source.read_buf(memory)).poll(cx))? as u64;
        *left = match (*left, count) {
            (Some(1..), 0) => return Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into())),
            (Some(left), count) if count > left => {
                return Poll::Ready(Err(io::Error::other("the source yields more than its length")));
            }
            (left, count) => left.map(|left| left - count),
        };
        Poll::Ready(Ok(Some(memory.split().freeze()).filter(|bytes| !bytes.is_empty())))
    }
}

/// How much of a source is read at once.
const PIECE: usize = 16 << 10;

/// The least room for a piece. Less than that is left unused.
const PIECE_MIN: usize = 2 << 10;

/// The content of a body when its first frame is polled for.
enum Begun {
    Bytes(Bytes),
    Stream(Content),
}

/// Takes the bytes of a body, or the stream that it is read from.
///
/// # Errors
///
/// Fails if the body is a stream that was taken before.
fn begin(body: Body) -> io::Result<Begun> {
    let body = match body.into_bytes() {
        Ok(bytes) => return Ok(Begun::Bytes(bytes)),
        Err(body) => body,
    };
    let taken = || io::Error::other("the body was a stream, which can be sent only once");
    let source = Mutex::new(body.take_source().ok_or_else(taken)?);
    Ok(Begun::Stream(Content::Stream { source, memory: BytesMut::new(), left: body.known_len() }))
}

impl http_body::Body for HttpBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        match ready!(self.poll_data(cx)) {
            Ok(Some(data)) => Poll::Ready(Some(Ok(Frame::data(data)))),
            Ok(None) => {
                self.content = Content::End;
                Poll::Ready(self.trailers.take().map(|trailers| Ok(Frame::trailers(trailers))))
            }
            Err(error) => {
                *self = HttpBody { content: Content::End, trailers: None };
                Poll::Ready(Some(Err(error)))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        let is_over = match &self.content {
            Content::Whole(body) => body.is_empty(),
            Content::Stream { .. } => false,
            Content::End => true,
        };
        is_over && self.trailers.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        let left = match &self.content {
            Content::Whole(body) => body.known_len(),
            Content::Stream { left, .. } => *left,
            Content::End => Some(0),
        };
        left.map_or_else(SizeHint::default, SizeHint::with_exact)
    }
}

impl Default for Content {
    fn default() -> Content {
        Content::Whole(Body::new())
    }
}

impl From<Body> for HttpBody {
    fn from(content: Body) -> HttpBody {
        HttpBody { content: Content::Whole(content), trailers: None }
    }
}

impl From<HttpBody> for Body {
    /// Returns the content that has not been polled, without the trailers.
    fn from(body: HttpBody) -> Body {
        body.into_parts().0
    }
}

impl fmt::Debug for HttpBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let left = http_body::Body::size_hint(self).exact();
        f.debug_struct("HttpBody").field("left", &left).finish_non_exhaustive()
    }
}
