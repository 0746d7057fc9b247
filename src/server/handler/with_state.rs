//! [`WithState`]: a function that handles requests with state that it shares with others.

use std::ops::Deref;

use super::handler::{AsyncHandler, Handler, IntoResult, PlainHandler, outcome};
use crate::server::context::Context;
use crate::server::error::Result;

/// Makes a handler of a function or method of the state that several handlers share, such as those of a router.
///
/// The function, plain or `async`, has two parameters: a reference to the state, and the context. `state` is cloned. It is
/// one of these:
///
/// - a smart pointer, and the function takes a reference to its target: an [`Arc`](std::sync::Arc) for all cores, or an
///   [`Rc`](std::rc::Rc) for [one core](crate::Server::run_per_core);
/// - any other handle with cheap clones, such as a [`Client`](crate::Client) or a pool of connections to a database, and
///   the function takes a reference to it: `&Client`, `&PgPool`;
/// - an `Arc<dyn Trait>`, and the function takes `&Arc<dyn Trait>` or `&(dyn Trait + 'static)`. A bare `&dyn Trait` is
///   short for `&'a (dyn Trait + 'a)`, which is another type.
///
/// The chapter on [databases](crate::guide::databases) says where their connections belong.
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
///
/// A trait object, as for a store that tests replace by another one, and a handle:
///
/// ```
/// use std::sync::Arc;
/// use corehttp::{Client, Context, Server, routes, with_state};
///
/// trait Users: Send + Sync {
///     fn name(&self, id: u64) -> String;
/// }
///
/// async fn show(users: &Arc<dyn Users>, ctx: &mut Context) -> corehttp::Result {
///     let name = users.name(ctx.params().get_as("id")?);
///     ctx.response.set_text(name);
///     Ok(())
/// }
///
/// async fn relay(client: &Client, ctx: &mut Context) -> corehttp::Result {
///     ctx.response = client.get("http://example.com/").await?;
///     Ok(())
/// }
///
/// # struct InMemory;
/// # impl Users for InMemory {
/// #     fn name(&self, id: u64) -> String { format!("user {id}") }
/// # }
/// let users: Arc<dyn Users> = Arc::new(InMemory);
/// let router = routes! {
///     GET "/users/{id}" => with_state(&users, show),
///     GET "/relay" => with_state(&Client::new(), relay),
/// };
/// # let service = Server::new().service(router);
/// # let response = corehttp::block_on(service.respond(corehttp::Request::get("/users/7")?))?;
/// # assert_eq!(response.text()?, "user 7");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[doc(alias("State", "Data", "Extension"))]
pub fn with_state<S: Clone, F: StateFn<S, Kind>, Kind>(state: &S, function: F) -> F::Handler {
    function.with_state(state.clone())
}

/// A function or method that has state and the context as its parameters, for [`with_state`]. The compiler infers `Kind`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no function of the state `{S}` and the context",
    label = "is to take a reference to `{S}`, or to what that points to, and then `&mut Context`",
    note = "it is a `fn` or `async fn`, whose state is a reference and comes first: of an `Arc<Store>`, `&Store` or `&Arc<Store>`; \
            of an `Arc<dyn Trait>`, `&Arc<dyn Trait>` or `&(dyn Trait + 'static)`",
    note = "it answers by `ctx.response`, and returns `()` or `corehttp::Result`"
)]
pub trait StateFn<S, Kind> {
    /// The handler that the function becomes.
    type Handler: Handler + 'static;

    /// Makes a handler of the function and its state.
    fn with_state(self, state: S) -> Self::Handler;
}

/// The handler that a function with state becomes.
#[derive(Clone, Copy, Debug)]
pub struct WithState<S, F> {
    state: S,
    function: F,
}

/// The kinds of functions: see [`StateFn`].
mod kind {
    #[derive(Debug)]
    pub enum Plain {}
    #[derive(Debug)]
    pub enum Async {}
    #[derive(Debug)]
    pub enum PlainOfHandle {}
    #[derive(Debug)]
    pub enum AsyncOfHandle {}
}

#[diagnostic::do_not_recommend]
impl<S, F, R> StateFn<S, (kind::Plain, R)> for F
where
    S: Deref + 'static,
    F: Fn(&S::Target, &mut Context) -> R + 'static,
    R: IntoResult,
{
    type Handler = WithState<S, PlainHandler<F>>;

    fn with_state(self, state: S) -> Self::Handler {
        WithState { state, function: PlainHandler(self) }
    }
}

#[diagnostic::do_not_recommend]
impl<S, F, R> StateFn<S, (kind::Async, R)> for F
where
    S: Deref + 'static,
    F: AsyncFn(&S::Target, &mut Context) -> R + 'static,
    R: IntoResult,
{
    type Handler = WithState<S, AsyncHandler<F>>;

    fn with_state(self, state: S) -> Self::Handler {
        WithState { state, function: AsyncHandler(self) }
    }
}

#[diagnostic::do_not_recommend]
impl<S, F, R> StateFn<S, (kind::PlainOfHandle, R)> for F
where
    S: 'static,
    F: Fn(&S, &mut Context) -> R + 'static,
    R: IntoResult,
{
    type Handler = WithState<Handle<S>, PlainHandler<F>>;

    fn with_state(self, state: S) -> Self::Handler {
        WithState { state: Handle(state), function: PlainHandler(self) }
    }
}

#[diagnostic::do_not_recommend]
impl<S, F, R> StateFn<S, (kind::AsyncOfHandle, R)> for F
where
    S: 'static,
    F: AsyncFn(&S, &mut Context) -> R + 'static,
    R: IntoResult,
{
    type Handler = WithState<Handle<S>, AsyncHandler<F>>;

    fn with_state(self, state: S) -> Self::Handler {
        WithState { state: Handle(state), function: AsyncHandler(self) }
    }
}

/// State that a function takes itself, not its target.
#[derive(Clone, Copy, Debug)]
pub struct Handle<S>(S);

impl<S> Deref for Handle<S> {
    type Target = S;

    fn deref(&self) -> &S {
        &self.0
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
