//! [`Router`]: calls the handler whose route a request matches.

use std::fmt;
use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering};

use super::handler_set::{FromHandler, HandlerSet};
use super::outcome::{Outcome, respond, with_other_end};
use super::pattern::RouteError;
use super::route_info::RouteInfo;
use super::routes::{ListedRoute, RouteList};
use super::spelling::{Spelling, normal_form};
use super::table::{Endpoint, Found, Methods, RouteIndex, RouteTable};
use crate::message::{Method, NO_PATTERN, Request};
use crate::runtime::boxed;
use crate::server::{
    BodyPlan, BoxHandler, BoxedFuture, Context, Handler, IntoHandler, Refusal, Result, Wrap,
};

/// A handler that calls the handler of the matching route.
///
/// There are two ways to a router. Both match alike:
///
/// - [`routes!`](crate::routes), for routes that are known at compile time. Each handler keeps its type. A request allocates
///   nothing, and a malformed pattern does not compile.
/// - [`Router::new`], for routes that are added at run time. The handlers are in boxes. An `async` one costs an allocation per
///   request, a plain one none.
///
/// ```
/// use corehttp::{Context, Router, Server, Status};
///
/// async fn show(ctx: &mut Context) -> corehttp::Result {
///     let id: u64 = ctx.request.params().get_as("id")?; // other paths are answered with 404
///     ctx.response.set_text(format!("user {id}"));
///     Ok(())
/// }
///
/// let users = Router::new()
///     .get("/{id}", show)?
///     .post("/", |ctx: &mut Context| ctx.response.status = Status::CREATED)?;
/// let router = Router::new()
///     .get("/", |ctx: &mut Context| ctx.response.set_text("Hello, World!"))?
///     .nest("/users", users)?;
/// assert_eq!(router.to_string(), "GET /\nGET /users/{id}\nPOST /users\n");
/// let service = Server::new().service(router); // or `Server::run`
/// # let respond = |method, path| {
/// #     corehttp::block_on(service.respond(corehttp::Request::new(method, path).unwrap())).unwrap()
/// # };
/// # assert_eq!(respond("GET", "/users/7").text(), Ok("user 7"));
/// # assert_eq!(respond("GET", "/users/x").status, Status::NOT_FOUND);
/// # assert_eq!(respond("POST", "/users").status, Status::CREATED);
/// # assert_eq!(respond("PUT", "/users").headers.get("allow"), Some("POST, OPTIONS"));
/// # Ok::<(), corehttp::error::RouteError>(())
/// ```
///
/// # Patterns
///
/// A pattern is a path in its sent form, with all necessary escapes. A segment `{name}` stands for one that is not empty. A
/// catch-all `{*name}` at the end stands for the rest of the path, which may be empty. So `/files/{*path}` matches `/files/`,
/// but not `/files`. A host before the path restricts the route to it. Its case, a port and a dot at its end do not matter.
/// Examples are `api.example.com/users`, and `{tenant}.example.com/` with a parameter for one label. [`Request::params`] reads
/// the parameters.
///
/// Where several patterns match, the order of preference is an equal text, a parameter, the rest of a path. This is decided for
/// each label of the host and then for each segment, from the left. Routes with a host are tried before those without. The path
/// decides before the method. Thousands of hosts and routes take no longer than a few.
///
/// The pattern `*` takes all requests whose path matches no other pattern. Without it they are answered with 404. A path
/// without a route for the method is answered with 405 and `allow`, even beside `*`. Without routes of their own, HEAD is
/// answered by the route for GET, and OPTIONS by the router, with 204 and `allow`. (RFC 9110 §9.3.2, §9.3.7, §15.5.5, §15.5.6)
///
/// # Other spellings
///
/// `/admin` can also be spelled `/%61dmin`, `//admin` or `/x/../admin`. The text of a pattern matches one spelling alone, the
/// normal form (RFC 3986 §6.2.2). It has all necessary escapes, also those of `|` and `[`, which user agents leave out. It has
/// no needless escapes, no empty segments, no `.` and `..`.
///
/// If the normal form matches a route, a path in another form is redirected (308) to it. There is no redirect if both forms
/// match the same route. So `/files/a//b` and `/files/%7Ejoe` reach the handler of `/files/{*path}` unchanged. Either way,
/// middleware around a route sees all requests for it. Middleware in front of the router may compare [`Request::path`] with the
/// text of a pattern, and misses none. An escaped `/` is part of its segment. A trailing slash makes another path, unless
/// [`Router::redirect_slashes`] is on.
///
/// # Middleware, plans, limits
///
/// A route takes any handler: a closure, a function [with state](crate::with_state), a `Files`, a `Tower`, another router, and
/// each of them with [middleware](crate::middleware) around it. Plans and limits are middleware, too. It can also be around a
/// whole router, around the routes of one ([`Router::wrap`]), and around a group of [`routes!`](crate::routes). Routers can be
/// called one after the other, as by middleware that tries a second one after a 404, but not inside themselves.
#[doc(alias("ServeMux", "route"))]
pub struct Router<S = Vec<BoxHandler>> {
    /// Identifies this router in the [`MatchedRoute`](crate::message::MatchedRoute) of a request.
    id: u32,
    table: RouteTable,
    handlers: S,
    redirects_slashes: bool,
}

impl<S> Router<S> {
    /// Creates a router with these routes, whose handlers are `handlers`, in the same order. [`routes!`](crate::routes) calls
    /// this function.
    ///
    /// # Panics
    ///
    /// Panics if a method has more than 23 bytes. Panics if a `mount` and an `any` route match the same paths, such as
    /// `mount "/a"` and `any "/a/{*rest}"`. Neither is checked at compile time.
    pub fn from_list(list: RouteList, handlers: S) -> Router<S> {
        let mut router = Router::with_handlers(handlers);
        for ListedRoute { method, pattern, .. } in list.routes() {
            let added = match *method {
                "any" => router.table.add(Methods::Any, pattern),
                "mount" => router.table.add_mount(pattern),
                method => {
                    let method = Method::parse(method.as_bytes()).expect("a method has at most 23 bytes");
                    router.table.add(Methods::One(method), pattern)
                }
            };
            added.unwrap_or_else(|invalid| panic!("{invalid}"));
        }
        router
    }

    fn with_handlers(handlers: S) -> Router<S> {
        static LAST_ID: AtomicU32 = AtomicU32::new(0);
        let id = LAST_ID.fetch_add(1, Ordering::Relaxed);
        Router { id, table: RouteTable::default(), handlers, redirects_slashes: false }
    }

    /// Redirects (308) a path without a route to its form with or without a trailing slash, if this form has a route.
    ///
    /// Default: off, the two are different paths. Of routers inside each other, the setting of the one that does not find the
    /// path counts.
    pub fn redirect_slashes(mut self, on: bool) -> Router<S> {
        self.redirects_slashes = on;
        self
    }

    /// Returns the routes in the order of their addition, for documents and tests. A mounted handler counts as one route, even
    /// a router.
    ///
    /// # Examples
    ///
    /// ```
    /// use corehttp::{Context, Method, routes};
    ///
    /// # let (show, files) = (|_: &mut Context| {}, |_: &mut Context| {});
    /// let router = routes! {
    ///     GET "/users/{id}" => show,
    ///     mount "/files" => files,
    /// };
    /// let mut routes = router.routes();
    /// let users = routes.next().expect("the first one");
    /// assert_eq!((users.method(), users.pattern()), (Some(Method::Get), "/users/{id}"));
    /// assert!(users.params().eq(["id"]));
    /// let files = routes.next().expect("the second one");
    /// assert!(files.is_mount() && files.method().is_none() && files.pattern() == "/files/{*rest}");
    /// ```
    #[doc(alias("openapi", "url_for"))]
    pub fn routes(&self) -> impl Iterator<Item = RouteInfo<'_>> {
        self.table.routes()
    }

    /// The routes of another path.
    fn look_up(&self, request: &Request, path: &str) -> Option<&Endpoint> {
        self.table.find(|| request.host(), path, &mut Vec::new()).map(|found| found.endpoint)
    }

    /// The outcome for a path that may not be in normal form, and has led to `endpoint`.
    #[inline(never)]
    fn outcome_by_spelling<'r>(
        &'r self,
        request: &Request,
        path: &str,
        endpoint: Option<&'r Endpoint>,
    ) -> Outcome<'r> {
        let spelling = Spelling::from_path(path);
        let normal = match (spelling, endpoint) {
            (Spelling::Normal, Some(endpoint)) => return Outcome::new(endpoint, &request.method()),
            (Spelling::Normal, None) => None,
            (Spelling::Other | Spelling::DotSegments, _) => self.look_up(request, &normal_form(path)),
        };
        match (normal, endpoint) {
            (None, _) => self.unmatched(request, path),
            // Both spellings lead to one route, by a parameter or a catch-all: its handler gets the path as it was sent.
            (Some(normal), Some(endpoint)) if spelling == Spelling::Other && ptr::eq(endpoint, normal) => {
                Outcome::new(endpoint, &request.method())
            }
            // The route matches the normal form alone.
            (Some(_), _) => Outcome::OtherSpelling,
        }
    }

    /// The outcome for a path that has no route.
    #[cold]
    fn unmatched(&self, request: &Request, path: &str) -> Outcome<'_> {
        let is_redirected = || self.look_up(request, &with_other_end(path)).is_some();
        if self.redirects_slashes && path.starts_with('/') && is_redirected() {
            return Outcome::OtherEnd;
        }
        match (self.table.fallback(), request.method(), path) {
            (Some(route), ..) => Outcome::Route(route),
            (None, Method::Options, "*") => Outcome::ServerOptions,
            (None, ..) => Outcome::NotFound,
        }
    }
}

impl Router {
    /// Creates a router without routes, for handlers that cores can share.
    pub fn new() -> Router {
        Router::default()
    }
}

impl Router<Vec<Box<dyn Handler>>> {
    /// Creates a router without routes, for handlers that need not be [`Send`]. They are those of one core, as
    /// [`Server::run_per_core`](crate::Server::run_per_core) makes them.
    pub fn new_local() -> Router<Vec<Box<dyn Handler>>> {
        Router::default()
    }
}

impl<B> Default for Router<Vec<B>> {
    fn default() -> Router<Vec<B>> {
        Router::with_handlers(Vec::new())
    }
}

macro_rules! methods {
    ($($name:ident $method:ident,)*) => {$(
        #[doc = concat!("Adds a route for ", stringify!($method), ": see [`Router::route`].")]
        ///
        /// # Errors
        ///
        /// As [`Router::route`].
        pub fn $name<Kind, H>(self, pattern: &str, handler: H) -> Result<Router<Vec<B>>, RouteError>
        where
            H: IntoHandler<Kind>,
            B: FromHandler<H::Handler>,
        {
            self.route(Method::$method, pattern, handler)
        }
    )*};
}

impl<B> Router<Vec<B>> {
    /// Adds a route. Its `handler` answers requests with this method and a path that matches the [pattern](Router#patterns).
    ///
    /// # Errors
    ///
    /// Fails for a malformed pattern, or if another route matches the same requests. The error names both.
    ///
    /// # Examples
    ///
    /// ```
    /// use corehttp::{Context, Router};
    ///
    /// let hello = |ctx: &mut Context| ctx.response.set_text("hello");
    /// let error = Router::new().get("/users/{id}", hello)?.get("/users/{name}", hello).unwrap_err();
    /// assert_eq!(
    ///     error.to_string(),
    ///     "the route `GET /users/{name}` conflicts with `GET /users/{id}`: they match the same requests"
    /// );
    /// # Ok::<(), corehttp::error::RouteError>(())
    /// ```
    pub fn route<Kind, H>(
        mut self,
        method: Method,
        pattern: &str,
        handler: H,
    ) -> Result<Router<Vec<B>>, RouteError>
    where
        H: IntoHandler<Kind>,
        B: FromHandler<H::Handler>,
    {
        self.table.add(Methods::One(method), pattern)?;
        self.handlers.push(B::from_handler(handler.into_handler()));
        Ok(self)
    }

    methods! {
        get Get,
        post Post,
        put Put,
        patch Patch,
        delete Delete,
        query Query,
    }

    /// Adds a route for all methods that have no route with the same pattern. The pattern `*` takes all requests whose path
    /// matches no other pattern.
    ///
    /// # Errors
    ///
    /// As [`Router::route`].
    pub fn any<Kind, H>(mut self, pattern: &str, handler: H) -> Result<Router<Vec<B>>, RouteError>
    where
        H: IntoHandler<Kind>,
        B: FromHandler<H::Handler>,
    {
        self.table.add(Methods::Any, pattern)?;
        self.handlers.push(B::from_handler(handler.into_handler()));
        Ok(self)
    }

    /// Mounts a handler for all requests for `prefix` and for all paths below it.
    ///
    /// A router in it, even inside of middleware, and a `Files` see the part of the path [below the
    /// prefix](crate::Request::mounted_path). The prefix may have parameters and a host. An empty one stands for all paths.
    ///
    /// # Errors
    ///
    /// As [`Router::route`]. Also fails if the prefix ends with a slash.
    ///
    /// # Examples
    ///
    /// ```
    /// use corehttp::middleware::{guard, wrap};
    /// use corehttp::{Context, Router, Status, routes};
    ///
    /// fn check(ctx: &mut Context) -> corehttp::Result {
    ///     match ctx.request.bearer_auth() {
    ///         Some("secret") => Ok(()),
    ///         _ => Err(Status::UNAUTHORIZED.into()),
    ///     }
    /// }
    ///
    /// let admin = routes! { GET "/stats" => |ctx: &mut Context| ctx.response.set_text("good") };
    /// let router = Router::new().mount("/admin", wrap(guard(check), admin))?;
    /// # let service = corehttp::Server::new().service(router);
    /// # for (path, token, status) in [("/stats", "x", 401), ("/stats", "secret", 200), ("/x", "secret", 404)] {
    /// #     let mut request = corehttp::Request::get(&format!("/admin{path}")).unwrap();
    /// #     request.set_bearer_auth(token).unwrap();
    /// #     let response = corehttp::block_on(service.respond(request)).unwrap();
    /// #     assert_eq!(response.status.as_u16(), status);
    /// # }
    /// # Ok::<(), corehttp::error::RouteError>(())
    /// ```
    #[doc(alias = "nest_service")]
    pub fn mount<Kind, H>(mut self, prefix: &str, handler: H) -> Result<Router<Vec<B>>, RouteError>
    where
        H: IntoHandler<Kind>,
        B: FromHandler<H::Handler>,
    {
        self.table.add_mount(prefix)?;
        self.handlers.push(B::from_handler(handler.into_handler()));
        Ok(self)
    }

    /// Adds all routes of another router below a prefix, which may have parameters, or be a host alone.
    ///
    /// The inner `/` is the prefix itself, with a slash and without. The inner `*` takes the rest below the prefix.
    ///
    /// # Errors
    ///
    /// As [`Router::mount`].
    pub fn nest(mut self, prefix: &str, router: Router<Vec<B>>) -> Result<Router<Vec<B>>, RouteError> {
        self.table.nest(prefix, router.table)?;
        self.handlers.extend(router.handlers);
        Ok(self)
    }

    /// Adds all routes of another router.
    ///
    /// # Errors
    ///
    /// Fails if two routes match the same requests.
    pub fn merge(self, router: Router<Vec<B>>) -> Result<Router<Vec<B>>, RouteError> {
        self.nest("", router)
    }

    /// Puts middleware around each route that has been added so far.
    ///
    /// `middleware` is one, or a tuple of several, in the order in which requests pass through them. Later routes and requests
    /// without a route are not concerned. For those, use [`wrap`](crate::middleware::wrap) around the router. Each route has a
    /// copy of its own. The call is one more allocation for each request.
    ///
    /// # Examples
    ///
    /// ```
    /// use corehttp::middleware::Next;
    /// use corehttp::{Context, Router};
    ///
    /// async fn count(ctx: &mut Context, next: Next<'_>) -> corehttp::Result {
    ///     ctx.response.headers.set("x-route", ctx.request.matched_pattern().unwrap_or_default())?;
    ///     next.handle(ctx).await
    /// }
    ///
    /// let hello = |ctx: &mut Context| ctx.response.set_text("hello");
    /// let counted = Router::new().get("/hello/{name}", hello)?.wrap(count);
    /// let router = Router::new().get("/", hello)?.merge(counted)?;
    /// # let service = corehttp::Server::new().service(router);
    /// # for (path, pattern) in [("/", None), ("/hello/Ada", Some("/hello/{name}"))] {
    /// #     let response = corehttp::block_on(service.respond(corehttp::Request::get(path).unwrap())).unwrap();
    /// #     assert_eq!(response.headers.get("x-route"), pattern);
    /// # }
    /// # Ok::<(), corehttp::error::RouteError>(())
    /// ```
    #[doc(alias("layer", "route_layer", "middleware", "around"))]
    pub fn wrap<W, Kind>(mut self, middleware: W) -> Router<Vec<B>>
    where
        W: Wrap<B, Kind> + Clone,
        B: FromHandler<W::Wrapped>,
    {
        let handlers = self.handlers.into_iter();
        self.handlers = handlers.map(|handler| B::from_handler(middleware.clone().wrap(handler))).collect();
        self
    }
}

impl<S: HandlerSet> Router<S> {
    /// Returns the depth at which the router is called, and the route that `on_head` has recorded there. If there is such
    /// a route, the request enters it, so its handler is called one level deeper. There is none if target or method were
    /// replaced since, or if middleware did not call `on_head`.
    #[inline]
    fn enter_recorded(&self, request: &mut Request) -> (usize, Option<RouteIndex>) {
        let (depth, route) = request.matched_route_mut().enter(self.id);
        (depth, route.map(|route| route as RouteIndex))
    }

    /// Finds out where a request leads, and enters its route, if it leads to one.
    #[inline]
    fn enter_found(&self, request: &mut Request) -> Outcome<'_> {
        let mut steps = request.matched_route_mut().take();
        let path = path_below(request.path(), steps.rest_at());
        let noted = steps.values.len();
        let found = self.table.find(|| request.host(), path, &mut steps.values);
        let is_normal = |found: &Found<'_>| found.is_exact && request.target().has_plain_path();
        let route = found.filter(is_normal).and_then(|found| found.endpoint.route(request.method_ref()));
        let outcome = match route {
            Some(route) => Outcome::Route(route),
            None => self.outcome_by_spelling(request, path, found.map(|found| found.endpoint)),
        };
        match outcome {
            Outcome::Route(route) => {
                let pattern = self.table.pattern(route).unwrap_or(&NO_PATTERN);
                steps.note((self.id, route as u32), pattern, noted, path.len());
            }
            _ => steps.values.truncate(noted),
        }
        request.matched_route_mut().give(steps);
        outcome
    }

    /// Enters the route that is recorded, or else the one that is found.
    #[inline]
    fn enter<'c>(&self, ctx: &'c mut Context) -> (Outcome<'_>, Entered<'c>) {
        let (depth, recorded) = self.enter_recorded(&mut ctx.request);
        let outcome = recorded.map_or_else(|| self.enter_found(&mut ctx.request), Outcome::Route);
        (outcome, Entered { ctx, depth })
    }

    /// Handles a request by a route that only `handle` has found: `on_head` was called for another route, or for none.
    /// Without a plan the request would pass by a guard in the handler, or lack the body that the handler expects.
    #[cold]
    async fn handle_unplanned(&self, route: RouteIndex, ctx: &mut Context) -> Result {
        let plan = ctx.plan_late(|ctx| self.handlers.on_head(route, ctx));
        match ctx.follow(plan).await {
            Ok(()) => self.handlers.handle(route, ctx).await,
            Err(refusal) => self.handlers.refuse(route, ctx, refusal).await,
        }
    }
}

impl<S: HandlerSet> Handler for Router<S> {
    #[inline]
    fn on_head(&self, ctx: &mut Context) -> BodyPlan {
        match self.enter(ctx) {
            (Outcome::Route(route), entered) => self.handlers.on_head(route, entered.ctx),
            // The body of a request that is refused is not received.
            _ => BodyPlan::Stream,
        }
    }

    #[inline]
    async fn handle(&self, ctx: &mut Context) -> Result {
        let (depth, recorded) = self.enter_recorded(&mut ctx.request);
        let Entered { ctx, .. } = &mut Entered { ctx, depth };
        let route = match recorded {
            Some(route) => route,
            None => {
                let route = match self.enter_found(&mut ctx.request) {
                    Outcome::Route(route) => route,
                    outcome => return respond(ctx, outcome),
                };
                return boxed(|| self.handle_unplanned(route, ctx)).await;
            }
        };
        match self.handlers.handle_now(route, ctx) {
            Some(result) => result,
            None => self.handlers.handle(route, ctx).await,
        }
    }

    #[inline]
    fn handle_now(&self, ctx: &mut Context) -> Option<Result> {
        let (depth, recorded) = self.enter_recorded(&mut ctx.request);
        // Without a route of `on_head`, there may be a body to wait for.
        let route = recorded?;
        let entered = Entered { ctx, depth };
        self.handlers.handle_now(route, entered.ctx)
    }

    fn note_route(&self, ctx: &mut Context) {
        if let (Outcome::Route(route), entered) = self.enter(ctx) {
            self.handlers.note_route(route, entered.ctx);
        }
    }

    fn refuse<'a>(&'a self, ctx: &'a mut Context, refusal: Refusal) -> BoxedFuture<'a> {
        Box::pin(async move {
            let (depth, recorded) = self.enter_recorded(&mut ctx.request);
            let Entered { ctx, .. } = &mut Entered { ctx, depth };
            match recorded {
                Some(route) => self.handlers.refuse(route, ctx, refusal).await,
                None => Err(refusal.into_error()),
            }
        })
    }
}

/// A guard of a context whose request has entered a router at `depth`. Its drop returns the request to that depth, even
/// if the future of the handler is dropped or panics, since middleware may call another router afterwards.
struct Entered<'a> {
    ctx: &'a mut Context,
    depth: usize,
}

impl Drop for Entered<'_> {
    #[inline]
    fn drop(&mut self) {
        self.ctx.request.matched_route_mut().leave(self.depth);
    }
}

/// The part of a path that a router matches: all of it, or what is below the prefix of a mount, where `rest_at` is.
/// Exactly the prefix counts as `/`.
#[inline]
fn path_below(path: &str, rest_at: usize) -> &str {
    match rest_at {
        0 => path,
        _ => path.get(rest_at..).filter(|below| !below.is_empty()).unwrap_or("/"),
    }
}

/// The table of routes: a line for each, in the order in which they were added. A mounted handler has one line, even if it is a
/// router.
impl<S> fmt::Display for Router<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.table.fmt(f)
    }
}

impl<S> fmt::Debug for Router<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Router").field("table", &self.table).finish_non_exhaustive()
    }
}
