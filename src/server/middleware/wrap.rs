//! [`wrap`]: puts middleware around a handler.

use super::middleware::Middleware;
use super::wrapped::Wrapped;
use crate::server::{Handler, IntoHandler};

/// Puts middleware around a handler: one, or several in a tuple, in the order in which requests pass through them.
///
/// The handler may be a closure, a function, a router, `Files`, or one already wrapped. The result is a handler for a route
/// or for a server as a whole. [`Router::wrap`](crate::Router::wrap) puts middleware around the routes of a router, and a
/// group of [`routes!`](crate::routes) around some of them.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use corehttp::middleware::{Next, limits, wrap};
/// use corehttp::{Context, Result, routes, Server};
/// use corehttp::middleware::{HttpsRedirect, RateLimit};
///
/// async fn timed(ctx: &mut Context, next: Next<'_>) -> Result {
///     let outcome = next.handle(ctx).await;
///     let took = ctx.arrived_at().elapsed();
///     ctx.response.headers.set("server-timing", format!("app;dur={}", took.as_millis()))?;
///     outcome
/// }
///
/// fn save(ctx: &mut Context) {
///     ctx.response.set_text("saved");
/// }
///
/// let router = routes! {
///     POST "/notes" => save,
///     POST "/upload" => wrap(limits(|limits| limits.body_max = 1 << 30), save),
/// };
/// let app = wrap((timed, RateLimit::new(60, Duration::from_secs(60)), HttpsRedirect::new()), router);
/// # let _ = || -> Result {
/// Server::bind("[::]:8080").run(app)
/// # };
/// ```
#[doc(alias("layer", "around", "with", "from_fn", "middleware"))]
pub fn wrap<W, Kind, H, HandlerKind>(middleware: W, handler: H) -> W::Wrapped
where
    W: Wrap<H::Handler, Kind>,
    H: IntoHandler<HandlerKind>,
{
    middleware.wrap(handler.into_handler())
}

/// Middleware, or a list of it: a tuple with up to 12 members. The compiler infers `Kind`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not middleware",
    note = "middleware is a type with `impl Middleware`, a `BodyPlan`, or an `async` function or closure of \
            `ctx: &mut Context` and `next: Next<'_>` that returns `corehttp::Result`; write out the types of its parameters",
    note = "a function that only checks requests, with the parameter `ctx` alone, becomes middleware by `guard(..)`",
    note = "a list of middleware is a tuple of up to 12, and `layer(..)` makes middleware of a layer of tower",
    note = "a call that may fail is followed by `?`, as in `Cors::new().allow_origin(origin)?`"
)]
pub trait Wrap<H, Kind> {
    /// The handler with the middleware around it.
    type Wrapped: Handler + 'static;

    /// Puts the middleware around `handler`.
    fn wrap(self, handler: H) -> Self::Wrapped;
}

/// The kind of a single middleware. That of a list is a tuple of kinds.
#[derive(Debug)]
pub enum One {}

#[diagnostic::do_not_recommend]
impl<M: Middleware, H: Handler + 'static> Wrap<H, One> for M {
    type Wrapped = Wrapped<M, H>;

    fn wrap(self, handler: H) -> Wrapped<M, H> {
        Wrapped::new(self, handler)
    }
}

// A list is the first of it around the list of the others.
macro_rules! lists {
    () => {};
    ($M:ident $Kind:ident $(, $Rest:ident $RestKind:ident)*) => {
        #[diagnostic::do_not_recommend]
        impl<H, $M, $Kind $(, $Rest, $RestKind)*> Wrap<H, ($Kind, $($RestKind,)*)> for ($M, $($Rest,)*)
        where
            H: Handler + 'static,
            ($($Rest,)*): Wrap<H, ($($RestKind,)*)>,
            $M: Wrap<<($($Rest,)*) as Wrap<H, ($($RestKind,)*)>>::Wrapped, $Kind>,
        {
            type Wrapped = $M::Wrapped;

            #[allow(non_snake_case, reason = "the names of types are also those of values")]
            fn wrap(self, handler: H) -> $M::Wrapped {
                let ($M, $($Rest,)*) = self;
                $M.wrap(($($Rest,)*).wrap(handler))
            }
        }

        lists!($($Rest $RestKind),*);
    };
}

/// The end of a list.
#[diagnostic::do_not_recommend]
impl<H: Handler + 'static> Wrap<H, ()> for () {
    type Wrapped = H;

    fn wrap(self, handler: H) -> H {
        handler
    }
}

lists!(A KindA, B KindB, C KindC, D KindD, E KindE, F KindF, G KindG, I KindI, J KindJ, K KindK, L KindL, M KindM);

/// The middleware of a group of routes, which is cloned for each of them.
///
/// A group keeps the function that clones the middleware. A type without `Clone` is thus a single error, in the making of the
/// group, and not one for each route.
#[derive(Debug)]
pub struct Group<M> {
    middleware: M,
    clone: fn(&M) -> M,
}

impl<M> Group<M> {
    /// Makes a group.
    pub fn new(middleware: M) -> Group<M>
    where
        M: GroupMiddleware,
    {
        Group { middleware, clone: M::clone_for_route }
    }

    /// Returns the middleware of one more route.
    pub fn for_route(&self) -> M {
        (self.clone)(&self.middleware)
    }
}

/// Middleware that a [`Group`] can clone.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not `Clone`, as the middleware of a group of routes is",
    label = "this middleware cannot be cloned for each route of its group",
    note = "write `#[derive(Clone)]` above the type, with an `Arc` around what cannot be cloned or is to be shared",
    note = "middleware around a single handler, or around a whole router, need not be `Clone`: `wrap(middleware, handler)`"
)]
pub trait GroupMiddleware {
    /// Clones the middleware.
    fn clone_for_route(&self) -> Self;
}

#[diagnostic::do_not_recommend]
impl<M: Clone> GroupMiddleware for M {
    fn clone_for_route(&self) -> M {
        self.clone()
    }
}
