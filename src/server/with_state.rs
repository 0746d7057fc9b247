//! [`WithState`]: a function that handles requests with state that it shares with others.

use std::ops::Deref;

use super::context::Context;
use super::error::Result;
use super::handler::{AsyncHandler, Handler, IntoHandler, IntoResult, PlainHandler, outcome};

/// Makes a handler of a function or method of the state that several handlers share, such as those of a router.
///
/// The function, plain or `async`, has two parameters: a reference to what `state` points to, and the context. `state`
/// is a smart pointer, which is cloned: an [`Arc`](std::sync::Arc)
/// of what all cores share, or an [`Rc`](std::rc::Rc) of what belongs to [one core](crate::Server::run_per_core).
///
/// # Examples
///
/// ```
/// use std::sync::Arc;
/// use std::sync::atomic::{AtomicU64, Ordering};
/// use corehttp::{Context, Server, routes, with_state};
///
/// #[derive(Default)]
/// struct Visits(AtomicU64);
///
/// impl Visits {
///     fn show(&self, ctx: &mut Context) {
///         ctx.response.set_text(self.0.load(Ordering::Relaxed).to_string());
///     }
///
///     async fn count(&self, _: &mut Context) -> corehttp::Result {
///         self.0.fetch_add(1, Ordering::Relaxed);
///         Ok(())
///     }
/// }
///
/// let visits = Arc::new(Visits::default());
/// let router = routes! {
///     GET "/" => with_state(&visits, Visits::show),
///     POST "/" => with_state(&visits, Visits::count),
/// };
/// let service = Server::new().service(router); // or `Server::run`
/// # let respond = |method| {
/// #     corehttp::block_on(service.respond(corehttp::Request::new(method, "/").unwrap())).unwrap()
/// # };
/// # assert_eq!(respond("POST").bytes(), b"");
/// # assert_eq!(respond("GET").bytes(), b"1");
/// ```
#[doc(alias = "State")]
pub fn with_state<S: Clone, F>(state: &S, function: F) -> WithState<S, F> {
    WithState { state: state.clone(), function }
}

/// A function with state, made by [`with_state`]. It becomes a handler wherever a function does.
#[derive(Clone, Copy, Debug)]
pub struct WithState<S, F> {
    state: S,
    function: F,
}

/// The kinds of functions: see [`IntoHandler`].
mod kind {
    #[derive(Debug)]
    pub enum PlainWithState {}
    #[derive(Debug)]
    pub enum AsyncWithState {}
}

impl<S, F, R> IntoHandler<(kind::PlainWithState, R)> for WithState<S, F>
where
    S: Deref + 'static,
    F: Fn(&S::Target, &mut Context) -> R + 'static,
    R: IntoResult,
{
    type Handler = WithState<S, PlainHandler<F>>;

    fn into_handler(self) -> Self::Handler {
        WithState { state: self.state, function: PlainHandler(self.function) }
    }
}

impl<S, F, R> IntoHandler<(kind::AsyncWithState, R)> for WithState<S, F>
where
    S: Deref + 'static,
    F: AsyncFn(&S::Target, &mut Context) -> R + 'static,
    R: IntoResult,
{
    type Handler = WithState<S, AsyncHandler<F>>;

    fn into_handler(self) -> Self::Handler {
        WithState { state: self.state, function: AsyncHandler(self.function) }
    }
}

impl<S, F, R> Handler for WithState<S, PlainHandler<F>>
where
    S: Deref + 'static,
    F: Fn(&S::Target, &mut Context) -> R + 'static,
    R: IntoResult,
{
    #[inline]
    async fn handle(&self, ctx: &mut Context) -> Result {
        outcome((self.function.0)(&self.state, ctx), ctx)
    }

    #[inline]
    fn handle_now(&self, ctx: &mut Context) -> Option<Result> {
        Some(outcome((self.function.0)(&self.state, ctx), ctx))
    }
}

impl<S, F, R> Handler for WithState<S, AsyncHandler<F>>
where
    S: Deref + 'static,
    F: AsyncFn(&S::Target, &mut Context) -> R + 'static,
    R: IntoResult,
{
    #[inline]
    async fn handle(&self, ctx: &mut Context) -> Result {
        outcome((self.function.0)(&self.state, ctx).await, ctx)
    }
}
