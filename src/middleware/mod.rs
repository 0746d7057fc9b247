//! Middleware surrounds handlers: logs, guards, limits, compression, sessions.
//!
//! ```
//! use std::sync::mpsc::{SyncSender, sync_channel};
//!
//! use corehttp::middleware::{Middleware, guard, limits, wrap};
//! use corehttp::{Context, Handler, Result, Server, Status, routes};
//!
//! /// Sends a line to a thread of the application, which writes it: no core waits for a terminal.
//! #[derive(Clone)]
//! struct Log(SyncSender<String>);
//!
//! impl Middleware for Log {
//!     async fn call(&self, ctx: &mut Context, next: &impl Handler) -> Result {
//!         let request = format!("{} {}", ctx.request.method(), ctx.request.target()); // a handler may change them
//!         let outcome = next.handle(ctx).await;
//!         let (status, note) = match &outcome {
//!             Ok(()) => (ctx.response.status, ""),
//!             Err(_) if ctx.has_responded() => (ctx.response.status, "cut off"),
//!             Err(error) => (error.status(), ""),
//!         };
//!         let took = ctx.arrived_at().elapsed();
//!         let _ = self.0.try_send(format!("{} {request} {} {took:?} {note}", ctx.peer_addr(), status.as_u16()));
//!         outcome
//!     }
//! }
//!
//! fn is_admin(ctx: &mut Context) -> Result {
//!     let token = ctx.request.bearer_auth().ok_or(Status::UNAUTHORIZED)?;
//!     if token == "8f14e45f" { Ok(()) } else { Err(Status::FORBIDDEN.into()) }
//! }
//!
//! fn save(ctx: &mut Context) {
//!     ctx.response.set_text("saved");
//! }
//!
//! let router = routes! {
//!     GET "/" => |ctx: &mut Context| ctx.response.set_text("hi"),
//!     wrap (guard(is_admin), limits(|limits| limits.body_max = 64 << 20)) => {
//!         POST "/admin/pages" => save,
//!         POST "/admin/images" => save,
//!     },
//! };
//! let (lines, taken) = sync_channel(1_000);
//! let app = wrap(Log(lines), router);
//! # let service = Server::new().service(app);
//! # let respond = |request| corehttp::block_on(service.respond(request)).unwrap();
//! # assert_eq!(respond(corehttp::Request::get("/")?).text(), Ok("hi"));
//! # assert_eq!(respond(corehttp::Request::post("/admin/pages")?).status, Status::UNAUTHORIZED);
//! # let _ = || -> Result {
//! # drop(taken);
//! # let app = |_: &mut Context| ();
//! Server::bind("[::]:8080").run(app)
//! # };
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Where it goes
//!
//! Requests pass through middleware in the order of the list. The first is outermost. Responses come back in the opposite
//! order. A `ServiceBuilder` of tower has the same order. Calls of axum's `.layer(..)` have the opposite one.
//!
//! | around | is written |
//! |---|---|
//! | a handler, a router, or all of a server, also requests without a route | [`wrap((log, guard), handler)`](wrap) |
//! | a group of routes | `wrap (log, guard) => { .. }` in [`routes!`](crate::routes) |
//! | the routes that a router has so far | [`Router::wrap`](crate::Router::wrap) |
//!
//! The usual order is `wrap((RequestId::new(), Tracing::new(), cors, CrossOriginProtection::new(), sessions), router)`,
//! with guards in groups. Access logs, error logs and metrics are no middleware: they observe the server
//! ([`Server::observe`](crate::Server::observe)), and see each exchange, also without a handler. Their own order does not
//! matter. The [guide](crate::guide) shows a whole service.
//!
//! # What there is
//!
//! | for | is |
//! |---|---|
//! | bodies that are read as streams | [`BodyPlan::Stream`](crate::BodyPlan::Stream), [`plan`] |
//! | sizes of requests, and times of peers and handlers | [`limits`], [`timeouts`] |
//! | handlers that must end even without their clients | [`uncancelled`] |
//! | how often and how many at once | [`RateLimit`], [`ConcurrencyLimit`] |
//! | how often, counted by several processes together | [`SharedRateLimit`], on a [`RateStore`] |
//! | forged requests, those for foreign hosts, and those without TLS | [`CrossOriginProtection`], [`HttpsRedirect`], [`Hsts`] |
//! | other requests to refuse | [`guard`] |
//! | decisions of another server | [`ForwardAuth`] |
//! | requests that are sent again | [`Idempotency`](crate::idempotency::Idempotency) |
//! | ids of requests, for logs, spans and clients | [`RequestId`] |
//! | content to change or to check on its way | [`BodyFilter`](crate::server::BodyFilter), [`Transform`](crate::server::Transform) |
//! | compression, sessions, spans | [`Compress`], [`session::Sessions`], [`tracing::Tracing`] |
//! | pages of other origins (CORS) | [`Cors`] |
//! | layers of tower | [`tower::layer`] |
//! | anything else | a type with `impl` [`Middleware`], or an `async` function with [`Next`] |
//!
//! # Writing one
//!
//! A type with [`Middleware::call`] costs no allocation. Twenty of them take hardly longer to compile than one. Its fields are
//! its settings and its state. A function is shorter, and costs an allocation for each request with an `async` handler. A
//! closure has the types of both parameters written out: `async |ctx: &mut Context, next: Next<'_>| ..`. A closure of `ctx`
//! alone becomes middleware by [`guard`]. Without `guard`, the compiler expects two arguments (E0593). For other errors, see
//! [`Handler`](crate::Handler#when-it-does-not-compile).
//!
//! Fields that middleware sets in `ctx.response.headers` are on errors as well. They can be set before or after `next`, unless
//! the response has begun ([`Context::has_responded`](crate::Context::has_responded)):
//!
//! ```
//! use std::time::Instant;
//! use corehttp::middleware::{Next, wrap};
//! use corehttp::{Context, Result, Server, Status};
//!
//! async fn time(ctx: &mut Context, next: Next<'_>) -> Result {
//!     let start = Instant::now();
//!     let outcome = next.handle(ctx).await;
//!     let duration = format!("app;dur={:.1}", start.elapsed().as_secs_f64() * 1e3); // in milliseconds
//!     ctx.response.headers.set("server-timing", duration)?;
//!     outcome
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result {
//! let fails = |_: &mut Context| -> Result { Err(Status::NOT_FOUND)? };
//! let response = Server::new().service(wrap(time, fails)).respond(corehttp::Request::get("/")?).await;
//! assert_eq!(response.status, Status::NOT_FOUND);
//! assert!(response.headers.contains("server-timing"));
//! # Ok(())
//! # }
//! ```
//!
//! When `next` returns, its outcome is not yet a response. After an error, `ctx.response.status` is unchanged. The error itself
//! has the status to answer with. If the response has begun, its status is sent already. The error then cuts the response off,
//! as when a peer leaves a stream of events. So the log above looks at all three. (For a log of all exchanges, there is
//! [`Server::on_exchange`](crate::Server::on_exchange).)
//!
//! [`Body::known_len`](crate::Body::known_len) returns how large a response is. If the handler streams it, a
//! [`Transform`](crate::server::Transform) can count its bytes. After an error, `ctx.response.body` is not the body of the
//! response. The body is made later, by [`Server::error_response`](crate::Server::error_response) or else of the
//! [reason](crate::Status::reason) of the status.
//!
//! # Refusals
//!
//! Middleware also gets the refusals of what is beneath it, as the error of `next`. Fields such as those of CORS, logs and
//! sessions hold for them as well. Only a panic undoes the additions of tower's layers:
//!
//! | refused is | its status | its [cause](crate::server::ErrorCause) |
//! |---|---|---|
//! | a request, by [`Context::refuse`](crate::Context::refuse) | that of the error | `Handler` |
//! | a request, by [`BodyPlan::Refuse`](crate::BodyPlan::Refuse) | that of the plan | `Refused` |
//! | a body to be buffered that is too large, too slow or malformed | 413, 408, 400 | `Exchange` |
//! | a handler that panics, or other middleware | 500 | `Panic` |
//! | one of these that exceeds [`Timeouts::handler`](crate::Timeouts::handler) | 503 | `Exchange` |
//!
//! The handler is not called for a request whose head or body is refused. Neither is middleware beneath the one that has
//! refused the head. The body of such a request is empty. After its time limit a handler is dropped, and the middleware around
//! it has as long again to finish. If middleware answers in place of the error, [`Server::on_error`](crate::Server::on_error)
//! is not called, not even for a panic.
//!
//! Middleware does not see:
//!
//! - a request that never reaches a handler, such as one with a malformed head or an unknown expectation (417)
//! - a peer that leaves before the end of its request
//! - the arrival of a response that is not streamed
//!
//! [`Server::on_exchange`](crate::Server::on_exchange) sees all of them.
//! [`Server::error_response`](crate::Server::error_response) makes the responses to the first kind.
//!
//! # Guards that wait
//!
//! A guard that decides at once does so by the head, like [`guard`]. A guard that has to wait leaves the body for later, and
//! receives none in vain. [`guard`] makes such a guard of an `async` function. A type does the same with [`defer_body`] and
//! [`handle_deferred`]. The handler beneath then makes its plan once more, which may depend on results of the guard.
//!
//! A [`ConcurrencyLimit`], a [`RateLimit::by`](crate::middleware::RateLimit::by) a key of the content, and an
//! [`Idempotency`](crate::idempotency::Idempotency) around the guard need the body before, so it is received by the first
//! plan and its limits. A guard whose results raise limits, such as for a known user, stands around them.
//!
//! ```
//! use corehttp::middleware::{Middleware, defer_body, handle_deferred, wrap};
//! use corehttp::{BodyPlan, Context, Handler, Request, Result, Status};
//! # async fn may_ask(_: corehttp::PeerAddr) -> bool { true }
//!
//! #[derive(Clone)]
//! struct Known;
//!
//! impl Middleware for Known {
//!     fn on_head(&self, ctx: &mut Context, next: &impl Handler) -> BodyPlan {
//!         defer_body(ctx, next)
//!     }
//!
//!     async fn call(&self, ctx: &mut Context, next: &impl Handler) -> Result {
//!         if !may_ask(ctx.peer_addr()).await {
//!             return Err(Status::TOO_MANY_REQUESTS.into());
//!         }
//!         handle_deferred(ctx, next).await
//!     }
//! }
//! # let echo = |ctx: &mut Context| std::mem::swap(&mut ctx.response.body, &mut ctx.request.body);
//! # let service = corehttp::Server::new().service(wrap(Known, echo));
//! # let mut request = Request::post("/")?;
//! # request.body.set_bytes("body");
//! # assert_eq!(corehttp::block_on(service.respond(request))?.body.bytes(), b"body");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! [`ConcurrencyLimit`]: crate::middleware::ConcurrencyLimit
//! [`Cors`]: crate::middleware::Cors
//! [`ForwardAuth`]: crate::middleware::ForwardAuth
//! [`CrossOriginProtection`]: crate::middleware::CrossOriginProtection
//! [`Hsts`]: crate::middleware::Hsts
//! [`HttpsRedirect`]: crate::middleware::HttpsRedirect
//! [`RateLimit`]: crate::middleware::RateLimit
//! [`RateStore`]: crate::middleware::RateStore
//! [`RequestId`]: crate::middleware::RequestId
//! [`SharedRateLimit`]: crate::middleware::SharedRateLimit
#![cfg_attr(feature = "compress", doc = "[`Compress`]: crate::middleware::Compress")]
#![cfg_attr(not(feature = "compress"), doc = "[`Compress`]: #what-there-is")]
#![cfg_attr(feature = "session", doc = "[`session::Sessions`]: super::session::Sessions")]
#![cfg_attr(not(feature = "session"), doc = "[`session::Sessions`]: #what-there-is")]
#![cfg_attr(feature = "tracing", doc = "[`tracing::Tracing`]: super::tracing::Tracing")]
#![cfg_attr(not(feature = "tracing"), doc = "[`tracing::Tracing`]: #what-there-is")]
#![cfg_attr(feature = "tower", doc = "[`tower::layer`]: super::tower::layer")]
#![cfg_attr(not(feature = "tower"), doc = "[`tower::layer`]: #what-there-is")]

#[cfg(feature = "compress")]
pub use crate::compress::Compress;
pub use crate::cors::Cors;
pub use crate::gateway::ForwardAuth;
pub use crate::guard::{ConcurrencyLimit, CrossOriginProtection, Hsts, HttpsRedirect, RateLimit};
pub use crate::guard::{OnStoreFailure, RateDecision, RateQuota, RateStore, RequestId, SharedRateLimit};
#[doc(hidden)]
pub use crate::server::middleware::{AsyncGuard, Group, Guard, IntoGuard, Wrap};
pub use crate::server::middleware::{
    Middleware, Next, defer_body, guard, handle_deferred, limits, plan, timeouts, uncancelled, wrap,
};
