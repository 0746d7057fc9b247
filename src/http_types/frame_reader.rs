//! [`FrameReader`]: a body of the crate `http-body` as the source of a [`Body`], and [`Body::set_http_body`].

use std::any::Any;
use std::error::Error;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, Waker, ready};

use bytes::Buf;
use tokio::io::{AsyncRead, ReadBuf};

use super::body::HttpBody;
use crate::message::Body;

impl Body {
    /// Sets the content to that of `body`, a [body](http_body::Body) of the crate `http-body`.
    ///
    /// If `body` has an exact length, this method polls it a single time. A body that is whole then, like most, is not
    /// copied. Any other becomes a [stream](Body::is_stream), of the length that it states, if any. Trailers are left
    /// out, because they come after the content.
    ///
    /// # Examples
    ///
    /// ```
    /// use bytes::Bytes;
    /// use corehttp::Body;
    /// use http_body_util::Full;
    ///
    /// let (text, mut body) = (Bytes::from("hello"), Body::new());
    /// body.set_http_body(Full::new(text.clone()));
    /// assert_eq!(body.bytes().as_ptr(), text.as_ptr());
    /// ```
    pub fn set_http_body<B>(&mut self, body: B)
    where
        B: http_body::Body<Data: Send, Error: Into<Box<dyn Error + Send + Sync>>> + Send + 'static,
    {
        let body = match downcast::<B, HttpBody>(body) {
            Ok(own) => return *self = own.into(),
            Err(body) => body,
        };
        if body.is_end_stream() {
            return self.clear();
        }
        let len = body.size_hint().exact();
        let mut reader = FrameReader { body: Box::pin(body), data: None, failure: None };
        if len.is_some() {
            reader.begin();
        }
        match reader.data.take_if(|data| reader.body.is_end_stream() && len == Some(data.remaining() as u64))
        {
            Some(mut data) => self.set_shared_bytes(data.copy_to_bytes(data.remaining())),
            None => self.set_stream(reader, len),
        }
    }
}

/// Returns `value` as a `U`, if it is one.
pub(crate) fn downcast<T: 'static, U: 'static>(value: T) -> Result<U, T> {
    let mut value = Some(value);
    match (&mut value as &mut dyn Any).downcast_mut::<Option<U>>() {
        Some(same) => Ok(same.take().expect("it is there")),
        None => Err(value.expect("it is there")),
    }
}

/// Reads the data of a body, and leaves its trailers out.
struct FrameReader<B: http_body::Body> {
    body: Pin<Box<B>>,
    /// The rest of the current frame.
    data: Option<B::Data>,
    /// The failure of the first frame, until it is read.
    failure: Option<io::Error>,
}

impl<B> FrameReader<B>
where
    B: http_body::Body<Error: Into<Box<dyn Error + Send + Sync>>>,
{
    /// Makes the first frame the current one, if it is already there.
    fn begin(&mut self) {
        match self.poll_data(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(Ok(data)) => self.data = data,
            Poll::Ready(Err(error)) => self.failure = Some(error),
            // A body wakes the task that has polled it last, and that will be another one.
            Poll::Pending => {}
        }
    }

    /// Returns the next frame of data that is not empty.
    fn poll_data(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Option<B::Data>>> {
        loop {
            let Some(frame) = ready!(self.body.as_mut().poll_frame(cx)) else { return Poll::Ready(Ok(None)) };
            match frame.map_err(io::Error::other)?.into_data() {
                Ok(data) if data.has_remaining() => return Poll::Ready(Ok(Some(data))),
                Ok(_) | Err(_) => {}
            }
        }
    }
}

/// The body is pinned by its box, and its data is never pinned.
impl<B: http_body::Body> Unpin for FrameReader<B> {}

impl<B> AsyncRead for FrameReader<B>
where
    B: http_body::Body<Error: Into<Box<dyn Error + Send + Sync>>>,
{
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        out: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if let Some(failure) = self.failure.take() {
            return Poll::Ready(Err(failure));
        }
        if self.data.as_ref().is_none_or(|data| !data.has_remaining()) {
            self.data = None;
            self.data = ready!(self.poll_data(cx))?;
        }
        if let Some(data) = &mut self.data {
            let count = data.chunk().len().min(out.remaining());
            out.put_slice(&data.chunk()[..count]);
            data.advance(count);
        }
        Poll::Ready(Ok(()))
    }
}
