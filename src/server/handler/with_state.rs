//! [`WithState`]: a function that handles requests with state that it shares with others.

use std::ops::Deref;

use super::handler::{AsyncHandler, Handler, IntoHandler, IntoResult, PlainHandler, outcome};
use crate::server::context::Context;
use crate::server::error::Result;

/// Makes a handler of a function or method of the state that several handlers share, such as those of a router.
///
/// The function, plain or `async`, has two parameters: a reference to the state, and the context. `state` is cloned. It is
/// one of these:
///
/// - a smart pointer, and the function takes a reference to what that points to: an [`Arc`](std::sync::Arc) of what all
///   cores share, or an [`Rc`](std::rc::Rc) of what belongs to [one core](crate::Server::run_per_core);
/// - any other handle that is cheap to clone, such as a [`Client`](crate::Client) or a pool of connections to a database,
///   and the function takes a reference to it: `&Client`, `&PgPool`;
/// - an `Arc<dyn Trait>`, and the function takes `&Arc<dyn Trait>` or `&(dyn Trait + 'static)`. A bare `&dyn Trait` is
///   short for `&'a (dyn Trait + 'a)`, which is another type.
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
/// A store that tests replace by another one, and a handle:
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
    #[derive(Debug)]
    pub enum PlainWithHandle {}
    #[derive(Debug)]
    pub enum AsyncWithHandle {}
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

impl<S, F, R> IntoHandler<(kind::PlainWithHandle, R)> for WithState<S, F>
where
    S: 'static,
    F: Fn(&S, &mut Context) -> R + 'static,
    R: IntoResult,
{
    type Handler = WithState<Handle<S>, PlainHandler<F>>;

    fn into_handler(self) -> Self::Handler {
        WithState { state: Handle(self.state), function: PlainHandler(self.function) }
    }
}

impl<S, F, R> IntoHandler<(kind::AsyncWithHandle, R)> for WithState<S, F>
where
    S: 'static,
    F: AsyncFn(&S, &mut Context) -> R + 'static,
    R: IntoResult,
{
    type Handler = WithState<Handle<S>, AsyncHandler<F>>;

    fn into_handler(self) -> Self::Handler {
        WithState { state: Handle(self.state), function: AsyncHandler(self.function) }
    }
}

/// State that a function takes as it is, and not what it points to.
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
