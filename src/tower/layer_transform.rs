//! [`LayerTransform`]: passes what a handler streams through the body that a layer has made of its marker.

use std::cell::RefCell;
use std::error::Error as StdError;
use std::io;
use std::mem;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::task::{self, Poll, Waker};

use bytes::{Buf, BytesMut};
use http_body::Body;
use tokio::io::{AsyncRead, ReadBuf};

use crate::coding::Flush;
use crate::http_types::{HttpBody, append_header_map};
use crate::memory::lock;
use crate::message::{self, Headers, Response};
use crate::server::{Transform, TransformAction};

/// The transform of middleware around the layers, which gets it back when the handler returns.
pub(super) type OuterTransform = Rc<RefCell<Option<Box<dyn Transform>>>>;

/// Passes content from the transform of middleware inside of the layers, if there is one, to the body of the layers, if
/// they have wrapped it, and to the transform of middleware around them.
pub(super) struct LayerTransform {
    inner: Option<Box<dyn Transform>>,
    body: Option<Box<dyn Transform>>,
    outer: OuterTransform,
    outer_action: TransformAction,
    /// The output of `inner` and of `body`, for the next one.
    pieces: [Vec<u8>; 2],
}

impl LayerTransform {
    /// Joins the transforms that apply. There is none if nothing changes the content.
    pub(super) fn join(
        inner: Option<Box<dyn Transform>>,
        body: Option<Box<dyn Transform>>,
        outer: &OuterTransform,
    ) -> Option<Box<dyn Transform>> {
        if inner.is_none() && body.is_none() && outer.borrow().is_none() {
            return None;
        }
        Some(Box::new(LayerTransform {
            inner,
            body,
            outer: outer.clone(),
            outer_action: TransformAction::Bypass,
            pieces: Default::default(),
        }))
    }
}

impl Transform for LayerTransform {
    fn begin(&mut self, response: &mut Response) -> TransformAction {
        let mut outer = self.outer.borrow_mut();
        self.outer_action = outer.as_mut().map_or(TransformAction::Bypass, |outer| outer.begin(response));
        match self.inner.is_some() || self.body.is_some() {
            true => TransformAction::Apply,
            false => self.outer_action,
        }
    }

    fn apply(&mut self, data: &[u8], flush: Flush, out: &mut Vec<u8>) -> io::Result<()> {
        let mut data = data;
        for (transform, piece) in [&mut self.inner, &mut self.body].into_iter().zip(&mut self.pieces) {
            if let Some(transform) = transform {
                piece.clear();
                transform.apply(data, flush, piece)?;
                data = piece;
            }
        }
        match (&mut *self.outer.borrow_mut(), self.outer_action) {
            (Some(outer), TransformAction::Apply) => outer.apply(data, flush, out)?,
            (_, _) => out.extend_from_slice(data),
        }
        Ok(())
    }

    fn end(&mut self, trailers: &mut Headers) {
        self.inner.iter_mut().chain(&mut self.body).for_each(|transform| transform.end(trailers));
        if let (Some(outer), TransformAction::Apply) = (&mut *self.outer.borrow_mut(), self.outer_action) {
            outer.end(trailers);
        }
    }
}

/// A body that layers have made of the marker that `feed` fills.
pub(super) struct BodyTransform<B> {
    body: Pin<Box<B>>,
    feed: Feed,
    /// The trailers that the layers have added.
    trailers: Headers,
    is_over: bool,
}

impl<B> BodyTransform<B> {
    pub(super) fn new(body: B, feed: Feed) -> BodyTransform<B> {
        BodyTransform { body: Box::pin(body), feed, trailers: Headers::new(), is_over: false }
    }
}

impl<B> Transform for BodyTransform<B>
where
    B: Body<Error: Into<Box<dyn StdError + Send + Sync>>> + 'static,
{
    fn begin(&mut self, _: &mut Response) -> TransformAction {
        TransformAction::Apply
    }

    fn apply(&mut self, data: &[u8], flush: Flush, out: &mut Vec<u8>) -> io::Result<()> {
        self.feed.push(data, flush == Flush::End);
        // A transform is not polled, so no task can be woken for it.
        let mut cx = task::Context::from_waker(Waker::noop());
        while !self.is_over
            && let Poll::Ready(frame) = self.body.as_mut().poll_frame(&mut cx)
        {
            let Some(frame) = frame.transpose().map_err(io::Error::other)? else {
                self.is_over = true;
                break;
            };
            match frame.into_data() {
                Ok(data) => append(out, data),
                Err(frame) => {
                    let map = frame.into_trailers().unwrap_or_default();
                    append_header_map(&mut self.trailers, &map).map_err(io::Error::other)?;
                }
            }
        }
        match flush == Flush::End && !self.is_over {
            true => Err(io::Error::other("the body of a layer waits for more than the content")),
            false => Ok(()),
        }
    }

    fn end(&mut self, trailers: &mut Headers) {
        trailers.append_all(&mem::take(&mut self.trailers));
    }
}

fn append(out: &mut Vec<u8>, mut data: impl Buf) {
    while data.has_remaining() {
        out.extend_from_slice(data.chunk());
        let count = data.chunk().len();
        data.advance(count);
    }
}

/// Content on its way from the handler to the marker that the layers have got for it.
#[derive(Clone, Default)]
pub(super) struct Feed(Arc<Mutex<FeedState>>);

#[derive(Default)]
struct FeedState {
    data: BytesMut,
    is_ended: bool,
    reader: Option<Waker>,
}

impl Feed {
    /// Makes the marker: a body that yields the content.
    pub(super) fn marker(&self) -> HttpBody {
        let mut body = message::Body::new();
        body.set_stream(self.clone(), None);
        body.into()
    }

    /// Whether the layers hold the marker, and so the content.
    pub(super) fn is_held(&self) -> bool {
        Arc::strong_count(&self.0) > 1
    }

    fn push(&self, data: &[u8], is_last: bool) {
        let mut state = lock(&self.0);
        state.data.extend_from_slice(data);
        state.is_ended |= is_last;
        let reader = state.reader.take();
        drop(state);
        if let Some(reader) = reader {
            reader.wake();
        }
    }
}

impl AsyncRead for Feed {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut task::Context<'_>,
        out: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let mut state = lock(&self.0);
        let count = state.data.len().min(out.remaining());
        if count == 0 && !state.is_ended {
            state.reader = Some(cx.waker().clone());
            return Poll::Pending;
        }
        out.put_slice(&state.data.split_to(count));
        Poll::Ready(Ok(()))
    }
}
