//! An HTTP/1.1 server and client that allocate nothing per request.
//!
//! # A server
//!
//! A handler is a function or a closure, plain or `async`. It reads `ctx.request` and writes `ctx.response`. An error is a
//! status.
//!
//! ```no_run
//! use corehttp::{Context, Handler, Result, Server, Status, routes};
//!
//! async fn add(ctx: &mut Context) -> Result {
//!     let left: i64 = ctx.params().get_as("left")?; // `/add/x/1` is answered with 404
//!     let right: i64 = ctx.params().get_as("right")?;
//!     let sum = left.checked_add(right).ok_or(Status::UNPROCESSABLE_CONTENT)?;
//!     # #[cfg(feature = "json")]
//!     ctx.response.set_json(&[left, right, sum])?;
//!     Ok(())
//! }
//!
//! fn app() -> impl Handler + Send + Sync {
//!     routes! {
//!         GET "/" => |ctx: &mut Context| ctx.response.set_text("Hello, World!"),
//!         GET "/add/{left}/{right}" => add,
//!     }
//! }
//!
//! fn main() -> Result {
//!     Server::bind("127.0.0.1:8080").run(app())
//! }
//! ```
//!
//! Its test opens no socket:
//!
//! ```
//! # use corehttp::{Context, Handler, Result, routes};
//! use corehttp::{Request, Server};
//!
//! # fn add(ctx: &mut Context) { ctx.response.set_text("[1,2,3]") }
//! # fn app() -> impl Handler + Send + Sync { routes! { GET "/add/{left}/{right}" => add } }
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result {
//! let service = Server::new().service(app());
//! let response = service.respond(Request::get("/add/1/2")?).await;
//! assert_eq!(response.text()?, "[1,2,3]");
//! # Ok(())
//! # }
//! ```
//!
//! # A client
//!
//! ```no_run
//! use corehttp::Client;
//!
//! #[tokio::main]
//! async fn main() -> corehttp::Result {
//!     let client = Client::new(); // keeps its connections; clones share them
//!     let response = client.get("http://127.0.0.1:8080/add/1/2").await?.error_for_status()?;
//!     println!("{}: {}", response.status, response.text()?);
//!     Ok(())
//! }
//! ```
//!
//! # Handlers
//!
//! Each core of a server has its own thread, runtime and listener, and a connection never leaves its core. A request is read
//! into memory that the next request reuses. Its method, target and fields are views of that memory. A handler cannot keep
//! them: code that tries to does not compile.
//!
//! - Write out the type of a closure's parameter: `|ctx: &mut Context|`, or `async |ctx: &mut Context|`. A plain closure that
//!   returns an `async` block does not compile, because the block cannot borrow `ctx`.
//! - To use the request and the response at the same time, take the context apart:
//!   `let Context { request, response, .. } = ctx;`.
//! - On messages, a bare noun reads and `set_` writes: [`Request::text`], [`Response::set_text`].
//! - A body has been received whole before the handler runs, up to [`Limits::body_max`]. A [`BodyPlan`] has it streamed.
//! - State is captured by a closure, or shared by [`with_state`]. [`Server::run_per_core`] makes state for each core, which
//!   needs no lock.
//! - A handler runs inside a tokio runtime that the server makes, so `main` needs none. A handler may spawn tasks with
//!   `tokio::task::spawn_local`; they need not be `Send`, and end when the server stops. No task can have `ctx` or a view
//!   of it, but copies of what it needs. `tokio::spawn` takes nothing that borrows `ctx`, and nothing that is not
//!   `Send`.
//! - While a handler blocks or computes, its core serves no other connection. Long work belongs in
//!   `tokio::task::spawn_blocking`. `block_in_place` panics there, because a core is a runtime of one thread.
//!
//! # Modules
//!
//! The root has what a first program uses. Each module's page begins with a program. The [`guide`] shows a whole service, and
//! how programs for axum, actix, fasthttp and reqwest are written here.
//!
//! | module | for | feature |
//! |---|---|---|
//! | [`server`] | reports, counters, error pages, transforms | |
//! | [`middleware`] | what surrounds handlers: logs, guards, limits, compression | |
//! | [`routing`] | links to routes, and lists of them | |
//! | [`health`] | probes of load balancers | |
//! | [`idempotency`] | requests that are sent again, and handled once | |
//! | [`client`] | redirects, proxies, retries, middleware, pipelines, several hosts | |
//! | [`blocking`] | a client for programs without a runtime | |
//! | [`message`] | parts of messages, values, credentials, escapes | |
//! | [`error`] | errors that both sides share | |
//! | [`net`] | socket options, resolvers, connections in memory | |
//! | [`tls`] | certificates, also to reload; keys, authorities | `tls` |
//! | [`acme`] | certificates of an authority, obtained and renewed by the server | `acme` |
//! | [`sse`] | server-sent events | |
//! | [`json`] | JSON as structs, and as a stream of lines | `json` |
//! | [`coding`] | gzip, br, zstd, deflate | `compress`, `zstd` |
//! | [`access_log`] | a line for each exchange | `access-log` |
//! | [`metrics`] | histograms of times and sizes, for Prometheus and as a page | `metrics` |
//! | [`tracing`] | spans, and traces through several programs | `tracing` |
//! | [`fs`] | files as responses | `fs` |
//! | [`multipart`] | uploads | `multipart` |
//! | [`session`] | sessions | `session` |
//! | [`cookies`] | signed and encrypted cookies | `cookies` |
//! | [`jar`] | cookies of a client | `jar` |
//! | [`websocket`] | WebSocket, broadcasts | `websocket` |
//! | [`proxy_protocol`] | PROXY headers | `proxy-protocol` |
//! | [`testing`] | tests: servers that remember their calls, peers that follow a script, recordings | `testing` |
//! | [`tower`] | apps of axum, layers of tower | `tower` |
//! | [`http_types`] | types of the crate `http` | `http` |
//! | [`guide`] | a whole service, the internet, operation, databases, defaults, and the idioms of axum, actix, fasthttp and reqwest | |
//!
//! The features `access-log`, `compress`, `form`, `fs`, `json`, `multipart` and `tls` are on by default. These
//! features have no module: `form` (forms as structs), `charset` (text beyond UTF-8), `idna` (hosts
//! beyond ASCII), `aws-lc-rs` (other cryptography), `platform-verifier` (authorities of the system), `handover` and
//! `systemd` (sockets of other processes). For most methods of a feature that is not
//! enabled, the error of the compiler names the feature.
//!
//! # Where to look
//!
//! | for servers | see |
//! |---|---|
//! | where to listen, on how many cores | [`Server`] |
//! | a graceful shutdown | [`Server::stop_on`], [`shutdown_signal`], [`ServerHandle`] |
//! | access logs, error logs | [`access_log`], [`ErrorLog`](server::ErrorLog), [`Server::on_error`] |
//! | ids of requests | [`RequestId`](middleware::RequestId) |
//! | clients that disconnect | [`Server::half_close`], [`middleware::uncancelled`], [`Context::peer_closed`] |
//! | how much peers may send, and how long all may take | [`Limits`], [`Timeouts`] |
//! | the same for one route | [`middleware::limits`], [`middleware::timeouts`] |
//! | rate limits | [`RateLimit`](middleware::RateLimit), [`ConcurrencyLimit`](middleware::ConcurrencyLimit) |
//! | pages of other origins (CORS) | [`Cors`](middleware::Cors) |
//! | forged requests (CSRF) | [`CrossOriginProtection`](middleware::CrossOriginProtection) |
//! | routes, and parameters of paths | [`routes!`], [`Router`], [`Context::params`] |
//! | who the client is | [`Context::client_ip`], [`Server::trusted_proxies`] |
//! | bodies read or written piece by piece (streams) | [`Context::body_reader`], [`Context::body_writer`], [`Context::duplex`] |
//! | a bound for a streamed body | [`BodyReader::decoded_up_to`], [`BodyPlan::Stream`] |
//! | the status of an error, and its response | [`Error`], [`Server::error_status`], [`Server::error_response`], [`Problem`] |
//! | forms, queries and cookies | [`Request::form`], [`Request::query`], [`Request::cookies`], [`SetCookie`] |
//! | preconditions, ranges | [`Response::check_preconditions`], [`Response::check_range`] |
//! | redirects, downloads | [`Response::set_redirect`], [`Response::set_attachment`] |
//! | gateways | [`Context::forward`], [`Request::forwarded_to`], [`ForwardAuth`](middleware::ForwardAuth) |
//! | other protocols | [`Context::upgrade`], [`Context::accept_tunnel`], [`Context::take_over`] |
//! | connections that you accept yourself | [`Service::serve_connection`] |
//!
//! | for clients | see |
//! |---|---|
//! | a request in one expression, with JSON or a form | [`Client::get`], [`RequestBuilder`] |
//! | connections, limits, time limits, cookies, proxies | [`ClientBuilder`] |
//! | failed statuses, failed exchanges | [`Response::error_for_status`], [`ClientError`] |
//! | requests that are sent again | [`client::Retry`] |
//! | tokens, signatures and ids of all requests | [`client::ClientMiddleware`] |
//! | redirects that a function decides about | [`ClientBuilder::check_redirects`] |
//! | programs without a runtime | [`blocking::Client`] |
//! | events over many connections | [`sse::EventSource`] |
//! | large bodies | [`Client::open_response`], [`Client::open_call`], [`Client::download`] |
//! | no allocation at all | [`Client::send`] |
//!
//! The folder `examples` has programs for most of this. `api` is a service with a database.
//!
//! Names follow [RFC 9110](https://www.rfc-editor.org/rfc/rfc9110), which defines what messages mean, and [RFC
//! 9112](https://www.rfc-editor.org/rfc/rfc9112), which defines how HTTP/1.1 writes them.
//!
#![cfg_attr(feature = "access-log", doc = "[`access_log`]: mod@access_log")]
#![cfg_attr(not(feature = "access-log"), doc = "[`access_log`]: #modules")]
#![cfg_attr(feature = "json", doc = "[`json`]: mod@json")]
#![cfg_attr(not(feature = "json"), doc = "[`json`]: #modules")]
#![cfg_attr(feature = "metrics", doc = "[`metrics`]: mod@metrics")]
#![cfg_attr(not(feature = "metrics"), doc = "[`metrics`]: #modules")]
#![cfg_attr(feature = "tracing", doc = "[`tracing`]: mod@tracing")]
#![cfg_attr(not(feature = "tracing"), doc = "[`tracing`]: #modules")]
#![cfg_attr(feature = "fs", doc = "[`fs`]: mod@fs")]
#![cfg_attr(not(feature = "fs"), doc = "[`fs`]: #modules")]
#![cfg_attr(feature = "multipart", doc = "[`multipart`]: mod@multipart")]
#![cfg_attr(not(feature = "multipart"), doc = "[`multipart`]: #modules")]
#![cfg_attr(feature = "session", doc = "[`session`]: mod@session")]
#![cfg_attr(not(feature = "session"), doc = "[`session`]: #modules")]
#![cfg_attr(feature = "cookies", doc = "[`cookies`]: mod@cookies")]
#![cfg_attr(not(feature = "cookies"), doc = "[`cookies`]: #modules")]
#![cfg_attr(feature = "jar", doc = "[`jar`]: mod@jar")]
#![cfg_attr(not(feature = "jar"), doc = "[`jar`]: #modules")]
#![cfg_attr(feature = "websocket", doc = "[`websocket`]: mod@websocket")]
#![cfg_attr(not(feature = "websocket"), doc = "[`websocket`]: #modules")]
#![cfg_attr(feature = "proxy-protocol", doc = "[`proxy_protocol`]: mod@proxy_protocol")]
#![cfg_attr(not(feature = "proxy-protocol"), doc = "[`proxy_protocol`]: #modules")]
#![cfg_attr(feature = "acme", doc = "[`acme`]: mod@acme")]
#![cfg_attr(not(feature = "acme"), doc = "[`acme`]: #modules")]
#![cfg_attr(feature = "testing", doc = "[`testing`]: mod@testing")]
#![cfg_attr(not(feature = "testing"), doc = "[`testing`]: #modules")]
#![cfg_attr(feature = "tower", doc = "[`tower`]: mod@tower")]
#![cfg_attr(not(feature = "tower"), doc = "[`tower`]: #modules")]
#![cfg_attr(feature = "http", doc = "[`http_types`]: mod@http_types")]
#![cfg_attr(not(feature = "http"), doc = "[`http_types`]: #modules")]
#![forbid(unsafe_code)]
// docs.rs uses a nightly compiler, which can show for each item the feature that it needs.
#![cfg_attr(docsrs, feature(doc_cfg))]

// In the order of their floors, from the lowest up: see ARCHITECTURE.md.

mod error_text;
mod lines;
mod memory;

pub mod message;
pub mod net;
mod runtime;

pub mod coding;
mod wire;

mod exchange;

pub mod blocking;
pub mod client;
pub mod server;

#[cfg(feature = "compress")]
mod compress;
mod cors;
#[cfg(feature = "form")]
mod form;
mod gateway;
mod guard;
mod router;

#[cfg(feature = "access-log")]
pub mod access_log;
#[cfg(feature = "acme")]
pub mod acme;
#[cfg(feature = "cookies")]
pub mod cookies;
#[cfg(feature = "fs")]
pub mod fs;
pub mod health;
#[cfg(feature = "http")]
pub mod http_types;
pub mod idempotency;
#[cfg(feature = "jar")]
pub mod jar;
#[cfg(feature = "json")]
pub mod json;
#[cfg(feature = "metrics")]
pub mod metrics;
#[cfg(feature = "multipart")]
pub mod multipart;
#[cfg(feature = "session")]
pub mod session;
pub mod sse;
#[cfg(feature = "testing")]
pub mod testing;
#[cfg(feature = "tower")]
pub mod tower;
#[cfg(feature = "tracing")]
pub mod tracing;
#[cfg(feature = "websocket")]
pub mod websocket;

// Pages that show items of the modules above.

pub mod error;
pub mod guide;
pub mod middleware;
#[cfg(feature = "proxy-protocol")]
pub mod proxy_protocol;
pub mod tls;

mod disabled_features;

pub use client::builder::ClientBuilder;
pub use client::client::Client;
pub use client::error::ClientError;
pub use client::request_builder::RequestBuilder;
pub use exchange::Timeouts;
pub use message::content::Body;
pub use message::content::Problem;
pub use message::content::{Form, FormBuf};
pub use message::cookie::{Cookies, SameSite, SetCookie};
pub use message::fields::Headers;
pub use message::request::PathParams;
pub use message::request::Request;
pub use message::response::Response;
pub use message::start_line::Method;
pub use message::start_line::Status;
pub use message::start_line::Version;
pub use message::text::HttpDate;
pub use message::uri::Target;
pub use net::address::{Address, PeerAddr};
pub use router::Router;
pub use runtime::{block_on, shutdown_signal};
pub use server::builder::Server;
pub use server::builder::Service;
pub use server::context::{BodyReader, BodyWriter, Context, Extensions};
pub use server::error::{Error, Result};
pub use server::forwarded::TrustedProxies;
pub use server::handler::BodyPlan;
pub use server::handler::with_state;
pub use server::handler::{BoxHandler, Handler, IntoHandler};
pub use server::run::ServerHandle;
pub use wire::Limits;

/// Links to routes, and lists of them.
///
/// ```
/// use corehttp::routing::Link;
///
/// const USER: Link = Link::new("/users/{id}");
/// assert_eq!(USER.with("id", "Ada L.").path()?, "/users/Ada%20L.");
/// # Ok::<(), corehttp::routing::LinkError>(())
/// ```
///
/// The routes themselves are those of a [`Router`], which [`routes!`] makes.
pub mod routing {
    pub use crate::router::{Link, LinkError, LinkValues, RouteInfo};
    // The parts of which `routes!` makes a router.
    #[doc(hidden)]
    pub use crate::router::{Chain, FromHandler, HandlerSet, RouteList};
}

/// Compiles the programs in the README.
#[doc = include_str!("../README.md")]
#[cfg(all(doctest, feature = "json"))]
mod readme {}

/// Checks at compile time that messages and running servers can be sent and shared between threads.
const _: () = {
    const fn is_send_and_sync<T: Send + Sync>() {}
    is_send_and_sync::<Request>();
    is_send_and_sync::<Response>();
    is_send_and_sync::<ServerHandle>();
};
