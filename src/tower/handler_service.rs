//! [`HandlerService`]: a handler, as the layers around it see it; and [`HandlerCall`], by which they call it.

use std::any::Any;
use std::convert::Infallible;
use std::error::Error as StdError;
use std::fmt;
use std::future::poll_fn;
use std::mem;
use std::panic::resume_unwind;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{self, Poll, Waker};

use http::StatusCode;
use http::request::Parts;
use tower_service::Service;

use super::tower_body::TowerBody;
use crate::http_types::{HttpBody, downcast};
use crate::memory::lock;
use crate::message::Body;

/// A handler of this crate as a service of tower: the innermost one, which the layers of [`layer`](super::layer) wrap.
///
/// Each call reaches the handler through the extensions of its request, so a layer keeps them. A request without these
/// extensions is answered with 500. So is a second call for one request, or a call for an abandoned handler.
#[derive(Clone, Copy)]
pub struct HandlerService {
    _private: (),
}

impl HandlerService {
    pub(super) fn new() -> HandlerService {
        HandlerService { _private: () }
    }
}

impl<B> Service<http::Request<B>> for HandlerService
where
    B: http_body::Body<Data: Send, Error: Into<Box<dyn StdError + Send + Sync>>> + Send + 'static,
{
    type Response = http::Response<HttpBody>;
    type Error = Infallible;
    type Future = HandlerFuture;

    fn poll_ready(&mut self, _: &mut task::Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<B>) -> HandlerFuture {
        let (mut head, body) = request.into_parts();
        let call = head.extensions.remove::<HandlerCall>();
        let body = match downcast::<B, TowerBody>(body) {
            Ok(_) => RequestBody::Same,
            Err(other) => {
                let mut body = Body::new();
                body.set_http_body(other);
                RequestBody::Other(body)
            }
        };
        HandlerFuture(call.filter(|call| call.begin(head, body)))
    }
}

impl fmt::Debug for HandlerService {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HandlerService").finish_non_exhaustive()
    }
}

/// The response of a handler to one request.
pub struct HandlerFuture(Option<HandlerCall>);

impl Future for HandlerFuture {
    type Output = Result<http::Response<HttpBody>, Infallible>;

    fn poll(self: Pin<&mut Self>, cx: &mut task::Context<'_>) -> Poll<Self::Output> {
        match self.0.as_ref().map_or(Poll::Ready(None), |call| call.poll_outcome(cx)) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(Some(Ok(response))) => Poll::Ready(Ok(response)),
            // A layer may catch it, as it would catch a panic of a service.
            Poll::Ready(Some(Err(panic))) => resume_unwind(panic),
            Poll::Ready(None) => {
                let mut response = http::Response::new(HttpBody::default());
                *response.status_mut() = StatusCode::INTERNAL_SERVER_ERROR;
                Poll::Ready(Ok(response))
            }
        }
    }
}

impl fmt::Debug for HandlerFuture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HandlerFuture").finish_non_exhaustive()
    }
}

/// The body of the request that layers pass on to the handler.
pub(super) enum RequestBody {
    /// That of the context, which no layer has wrapped.
    Same,
    Other(Body),
}

/// A response of the handler, or the panic that it ended with.
pub(super) type CallOutcome = Result<http::Response<HttpBody>, Box<dyn Any + Send>>;

/// One call of a handler through its layers. A value among the extensions of a request is shared between threads and
/// outlives the handler, so the context stays with the handler: the request and the response are handed over.
#[derive(Clone, Default)]
pub(super) struct HandlerCall(Arc<Mutex<CallState>>);

#[derive(Default)]
struct CallState {
    stage: CallStage,
    /// The handler's task, while it awaits the request.
    handler: Option<Waker>,
    /// The task of the layers, while they await the response: another one, if a layer spawns its calls.
    layers: Option<Waker>,
}

#[derive(Default)]
enum CallStage {
    /// The layers have not called the handler.
    #[default]
    Layers,
    Requested(Parts, RequestBody),
    /// The handler runs.
    Handler,
    Responded(CallOutcome),
    /// The layers have the response.
    Over,
    /// There will be no response: the exchange is over, or its handler was given up.
    GivenUp,
}

impl HandlerCall {
    /// Calls the handler. Returns false if it was called before.
    fn begin(&self, head: Parts, body: RequestBody) -> bool {
        let mut state = lock(&self.0);
        if !matches!(state.stage, CallStage::Layers) {
            return false;
        }
        state.stage = CallStage::Requested(head, body);
        let handler = state.handler.take();
        drop(state);
        if let Some(handler) = handler {
            handler.wake();
        }
        true
    }

    /// Ready with the request, once the layers call the handler.
    pub(super) fn poll_request(&self, cx: &mut task::Context<'_>) -> Poll<(Parts, RequestBody)> {
        let mut state = lock(&self.0);
        match mem::replace(&mut state.stage, CallStage::Handler) {
            CallStage::Requested(head, body) => Poll::Ready((head, body)),
            stage => {
                state.stage = stage;
                state.handler = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }

    /// Hands the outcome of the handler to the layers, which the task of `cx` polls next.
    pub(super) fn respond(&self, cx: &mut task::Context<'_>, outcome: CallOutcome) {
        let mut state = lock(&self.0);
        debug_assert!(matches!(state.stage, CallStage::Handler), "a call has one outcome");
        state.stage = CallStage::Responded(outcome);
        let layers = state.layers.take();
        drop(state);
        if let Some(layers) = layers.filter(|layers| !layers.will_wake(cx.waker())) {
            layers.wake();
        }
    }

    /// Hands the outcome of the handler to the layers, which the caller awaits next.
    pub(super) async fn hand_over(&self, outcome: CallOutcome) {
        let mut outcome = Some(outcome);
        poll_fn(|cx| {
            if let Some(outcome) = outcome.take() {
                self.respond(cx, outcome);
            }
            Poll::Ready(())
        })
        .await;
    }

    /// Ready with the outcome of the handler; with `None` if it was given up.
    fn poll_outcome(&self, cx: &mut task::Context<'_>) -> Poll<Option<CallOutcome>> {
        let mut state = lock(&self.0);
        match mem::replace(&mut state.stage, CallStage::Over) {
            CallStage::Responded(outcome) => Poll::Ready(Some(outcome)),
            CallStage::GivenUp => Poll::Ready(None),
            stage => {
                state.stage = stage;
                state.layers = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }
}

/// The handler's end of a call. A task of its own that awaits the response, as that of a layer which spawns its calls,
/// does not wait for ever when the handler is given up.
pub(super) struct CallGuard<'a>(pub(super) &'a HandlerCall);

impl Drop for CallGuard<'_> {
    fn drop(&mut self) {
        let HandlerCall(shared) = self.0;
        // The layers have dropped theirs, unless they have a task of their own.
        if Arc::strong_count(shared) == 1 {
            return;
        }
        let mut state = lock(shared);
        let is_open = !matches!(state.stage, CallStage::Responded(_) | CallStage::Over);
        let given_up = is_open.then(|| mem::replace(&mut state.stage, CallStage::GivenUp));
        let layers = state.layers.take();
        drop(state);
        // The body of a request runs code of a layer when it is dropped.
        drop(given_up);
        if let Some(layers) = layers {
            layers.wake();
        }
    }
}
