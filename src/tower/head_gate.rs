//! [`HeadGate`]: where a handler that sends its response itself waits until its layers have seen the head.

use std::cell::{OnceCell, RefCell};
use std::error::Error as StdError;
use std::io;
use std::mem;
use std::rc::Rc;
use std::task::{self, Poll};

use http::HeaderMap;
use http_body::Body;

use super::handler_service::HandlerCall;
use super::layer_transform::{BodyTransform, Feed, LayerTransform, OuterTransform};
use super::tower::returned_status;
use crate::http_types::{HttpBody, append_header_map, downcast, to_http_response};
use crate::message::{Headers, MessageError, Response};
use crate::server::{Context, HeadFilter, SentKind, Transform, TransformAction};

/// Stands between a handler that streams, or upgrades, and the head of its response. The handler waits in
/// `body_writer`, while the layers get the head with a marker for the content. The head that they return is sent; if
/// they have dropped the marker, their response takes the place of the handler's, which is cancelled.
pub(super) struct HeadGate<B> {
    stage: RefCell<GateStage<B>>,
    /// The filter and the transform of middleware around the layers.
    outer_filter: RefCell<Option<Box<dyn HeadFilter>>>,
    outer_transform: RefCell<Option<Box<dyn Transform>>>,
    /// The place of that transform while content passes through it.
    lent_transform: OnceCell<OuterTransform>,
}

enum GateStage<B> {
    /// The handler has not begun its response.
    Open,
    /// The layers have the head.
    Waiting(Waiting),
    Returned(Waiting, http::Response<B>),
    /// The layers have replaced the response.
    Replaced(http::Response<B>),
    Passed,
}

/// A handler that waits for its head.
struct Waiting {
    /// The content, unless the connection is upgraded.
    feed: Option<Feed>,
    /// The transform of middleware inside of the layers, which applies.
    inner: Option<Box<dyn Transform>>,
}

impl<B> HeadGate<B> {
    /// Puts a gate into `ctx`, in the place of what middleware around the layers has put there.
    pub(super) fn put(ctx: &mut Context, call: &HandlerCall) -> Rc<HeadGate<B>>
    where
        B: Body<Error: Into<Box<dyn StdError + Send + Sync>>> + 'static,
    {
        let gate = Rc::new(HeadGate {
            stage: RefCell::new(GateStage::Open),
            outer_filter: RefCell::new(ctx.head_filters.first.take()),
            outer_transform: RefCell::new(ctx.transform.take()),
            lent_transform: OnceCell::new(),
        });
        ctx.head_filters.first = Some(Box::new(GateFilter { gate: gate.clone(), call: call.clone() }));
        gate
    }

    /// Puts back what middleware around the layers had put there.
    pub(super) fn restore(&self, ctx: &mut Context) {
        ctx.head_filters.first = self.outer_filter.take();
        ctx.transform = self.take_transform();
    }

    /// Takes the transform of middleware around the layers.
    fn take_transform(&self) -> Option<Box<dyn Transform>> {
        self.lent_transform.get().map_or_else(|| self.outer_transform.take(), |lent| lent.take())
    }

    /// Lends the transform of middleware around the layers.
    fn lend_transform(&self) -> &OuterTransform {
        self.lent_transform.get_or_init(|| Rc::new(RefCell::new(self.outer_transform.take())))
    }

    /// Hands over the response of the layers, if the handler waits for it.
    pub(super) fn pass(&self, response: http::Response<B>) -> Result<(), http::Response<B>> {
        let mut stage = self.stage.borrow_mut();
        match mem::replace(&mut *stage, GateStage::Open) {
            GateStage::Waiting(waiting) => {
                *stage = GateStage::Returned(waiting, response);
                Ok(())
            }
            other => {
                *stage = other;
                Err(response)
            }
        }
    }

    /// Takes the response of the layers, if that is to be sent in place of the handler's.
    pub(super) fn take_replaced(&self) -> Option<http::Response<B>> {
        let mut stage = self.stage.borrow_mut();
        match mem::replace(&mut *stage, GateStage::Passed) {
            GateStage::Replaced(response) => Some(response),
            other => {
                *stage = other;
                None
            }
        }
    }

    /// Whether the handler has begun no response of its own.
    pub(super) fn is_open(&self) -> bool {
        matches!(*self.stage.borrow(), GateStage::Open)
    }
}

/// The filter that holds a handler at its [`HeadGate`].
struct GateFilter<B> {
    gate: Rc<HeadGate<B>>,
    call: HandlerCall,
}

impl<B> GateFilter<B>
where
    B: Body<Error: Into<Box<dyn StdError + Send + Sync>>> + 'static,
{
    /// Passes the head to the layers.
    fn pass_head(
        &self,
        cx: &mut task::Context<'_>,
        response: &mut Response,
        transform: &mut Option<Box<dyn Transform>>,
        kind: SentKind,
    ) -> io::Result<Waiting> {
        let inner = transform.take_if(|_| kind == SentKind::Stream);
        let inner =
            inner.and_then(|mut inner| (inner.begin(response) == TransformAction::Apply).then_some(inner));
        let (feed, marker) = match kind {
            SentKind::Stream => {
                let feed = Feed::default();
                let marker = feed.marker();
                (Some(feed), marker)
            }
            SentKind::Upgrade(_) => (None, HttpBody::default()),
        };
        let mut head = to_http_response(response, marker).map_err(io::Error::other)?;
        if let SentKind::Upgrade(status) = kind {
            *head.status_mut() = status.into();
        }
        self.call.respond(cx, Ok(head));
        Ok(Waiting { feed, inner })
    }

    /// Applies the head that the layers have returned. Returns the transform of the content.
    fn apply(
        &self,
        response: &mut Response,
        waiting: Waiting,
        returned: http::Response<B>,
        kind: SentKind,
    ) -> io::Result<Option<Box<dyn Transform>>> {
        let (head, body) = returned.into_parts();
        if let SentKind::Stream = kind {
            response.status = returned_status(head.status, response.status).map_err(io::Error::other)?;
        }
        replace_fields(&mut response.headers, &head.headers).map_err(io::Error::other)?;
        let body = match (waiting.feed, downcast::<B, HttpBody>(body)) {
            (Some(feed), Err(body)) => Some(Box::new(BodyTransform::new(body, feed)) as Box<dyn Transform>),
            (_, _) => None,
        };
        Ok(LayerTransform::join(waiting.inner, body, self.gate.lend_transform()))
    }
}

/// Whether the layers have replaced the response of a handler that waits.
fn is_replaced<B>(waiting: &Waiting, returned: &http::Response<B>, kind: SentKind) -> bool {
    match kind {
        SentKind::Upgrade(status) => returned.status() != status.as_u16(),
        SentKind::Stream => waiting.feed.as_ref().is_none_or(|feed| !feed.is_held()),
    }
}

impl<B> HeadFilter for GateFilter<B>
where
    B: Body<Error: Into<Box<dyn StdError + Send + Sync>>> + 'static,
{
    fn poll_head(
        &mut self,
        cx: &mut task::Context<'_>,
        response: &mut Response,
        transform: &mut Option<Box<dyn Transform>>,
        kind: SentKind,
    ) -> Poll<io::Result<()>> {
        if Rc::strong_count(&self.gate) == 1 {
            // Middleware has dropped the layers with their handler, and sends a response of its own.
            *transform = self.gate.take_transform();
            return Poll::Ready(Ok(()));
        }
        let stage = self.gate.stage.replace(GateStage::Passed);
        let next = match stage {
            GateStage::Open => GateStage::Waiting(self.pass_head(cx, response, transform, kind)?),
            GateStage::Returned(waiting, returned) => match is_replaced(&waiting, &returned, kind) {
                true => GateStage::Replaced(returned),
                false => {
                    *transform = self.apply(response, waiting, returned, kind)?;
                    return Poll::Ready(Ok(()));
                }
            },
            other => other,
        };
        self.gate.stage.replace(next);
        Poll::Pending
    }

    fn into_outer(self: Box<Self>) -> Option<Box<dyn HeadFilter>> {
        self.gate.outer_filter.take()
    }
}

/// Replaces the fields by those of `map`, unless they are the same already, in which case they keep their spelling.
pub(super) fn replace_fields(headers: &mut Headers, map: &HeaderMap) -> Result<(), MessageError> {
    let is_same = headers.len() == map.len()
        && headers.lines().zip(map).all(|((own_name, own_value), (name, value))| {
            own_value == value.as_bytes() && own_name.eq_ignore_ascii_case(name.as_str().as_bytes())
        });
    if is_same {
        return Ok(());
    }
    headers.clear();
    append_header_map(headers, map)
}
