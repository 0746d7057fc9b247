//! An HTTP/1.1 server that allocates nothing per request, and its client.
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
//! # Where to look
//!
//! Each module begins with an example. The folder `examples` has more. The [`guide`] has chapters, among them
//! [all features](guide::features).
//!
//! Servers:
//!
//! - Handlers, their state, routes, links: [`Handler`], [`Context`], [`with_state`], [`routes!`], [`Router`], [`routing`]
//! - Where to listen, on how many cores, certificates: [`Server`], [`net`], [`tls`], [`acme`]
//! - Middleware, guards, rate limits, CORS, forged requests, compression, request ids: [`middleware`]
//! - Logs, metrics, histograms, spans: [`Server::observe`], [`access_log`], [`server::ErrorLog`], [`metrics`], [`tracing`]
//! - JSON, parameters, queries, forms, uploads: [`json`], [`Context::params`], [`Request::query`], [`Request::form`],
//!   [`multipart`]
//! - Cookies, sessions, repeated requests: [`Request::cookies`], [`SetCookie`], [`cookies`], [`session`], [`idempotency`]
//! - Files, redirects, ranges: [`fs`], [`Context::send_file`], [`Response::set_redirect`], [`Response::check_preconditions`]
//! - Errors and their responses: [`Error`], [`Problem`], [`Server::error_status`], [`Server::error_response`]
//! - Limits, also of one route: [`Limits`], [`Timeouts`], [`middleware::limits`], [`middleware::timeouts`]
//! - Streams: [`BodyPlan::Stream`], [`Context::body_reader`], [`Context::body_writer`], [`Context::duplex`]
//! - Events, WebSocket, other protocols: [`sse`], [`websocket`], [`Context::upgrade`], [`Context::accept_tunnel`]
//! - The client's address behind proxies: [`Context::client_ip`], [`Server::trusted_proxies`], [`proxy_protocol`]
//! - Clients that leave: [`Server::half_close`], [`Context::peer_closed`], [`middleware::uncancelled`]
//! - A graceful stop, probes: [`Server::stop_on`], [`shutdown_signal`], [`ServerHandle`], [`health`]
//! - Gateways, health checks: [`Context::forward`], [`client::Balancer`], [`client::HealthCheck`]
//! - Apps of axum, layers of tower, types of `http`: [`tower`], [`http_types`]
//! - Tests, connections of your own: [`Service::respond`], [`testing`], [`Service::serve_connection`]
//!
//! Clients, and both:
//!
//! - Requests, uploads, failures: [`Client::get`], [`RequestBuilder`], [`Response::error_for_status`], [`ClientError`]
//! - Connections, time limits, TLS, proxies, redirects, cookies: [`ClientBuilder`], [`client`], [`tls`], [`jar`]
//! - Retries, tokens and signatures of all requests: [`client::Retry`], [`client::ClientMiddleware`]
//! - Large bodies, events: [`Client::open_response`], [`Client::open_call`], [`Client::download`], [`sse::EventSource`]
//! - Without a runtime: [`blocking`]. Without an allocation: [`Client::send`]. Both sides: [`message`], [`coding`], [`error`]
//!
#![cfg_attr(feature = "access-log", doc = "[`access_log`]: mod@access_log")]
#![cfg_attr(not(feature = "access-log"), doc = "[`access_log`]: #where-to-look")]
#![cfg_attr(feature = "json", doc = "[`json`]: mod@json")]
#![cfg_attr(not(feature = "json"), doc = "[`json`]: #where-to-look")]
#![cfg_attr(feature = "metrics", doc = "[`metrics`]: mod@metrics")]
#![cfg_attr(not(feature = "metrics"), doc = "[`metrics`]: #where-to-look")]
#![cfg_attr(feature = "tracing", doc = "[`tracing`]: mod@tracing")]
#![cfg_attr(not(feature = "tracing"), doc = "[`tracing`]: #where-to-look")]
#![cfg_attr(feature = "fs", doc = "[`fs`]: mod@fs")]
#![cfg_attr(feature = "fs", doc = "[`Context::send_file`]: Context::send_file")]
#![cfg_attr(not(feature = "fs"), doc = "[`fs`]: #where-to-look")]
#![cfg_attr(not(feature = "fs"), doc = "[`Context::send_file`]: #where-to-look")]
#![cfg_attr(feature = "multipart", doc = "[`multipart`]: mod@multipart")]
#![cfg_attr(not(feature = "multipart"), doc = "[`multipart`]: #where-to-look")]
#![cfg_attr(feature = "session", doc = "[`session`]: mod@session")]
#![cfg_attr(not(feature = "session"), doc = "[`session`]: #where-to-look")]
#![cfg_attr(feature = "cookies", doc = "[`cookies`]: mod@cookies")]
#![cfg_attr(not(feature = "cookies"), doc = "[`cookies`]: #where-to-look")]
#![cfg_attr(feature = "jar", doc = "[`jar`]: mod@jar")]
#![cfg_attr(not(feature = "jar"), doc = "[`jar`]: #where-to-look")]
#![cfg_attr(feature = "websocket", doc = "[`websocket`]: mod@websocket")]
#![cfg_attr(not(feature = "websocket"), doc = "[`websocket`]: #where-to-look")]
#![cfg_attr(feature = "proxy-protocol", doc = "[`proxy_protocol`]: mod@proxy_protocol")]
#![cfg_attr(not(feature = "proxy-protocol"), doc = "[`proxy_protocol`]: #where-to-look")]
#![cfg_attr(feature = "acme", doc = "[`acme`]: mod@acme")]
#![cfg_attr(not(feature = "acme"), doc = "[`acme`]: #where-to-look")]
#![cfg_attr(feature = "testing", doc = "[`testing`]: mod@testing")]
#![cfg_attr(not(feature = "testing"), doc = "[`testing`]: #where-to-look")]
#![cfg_attr(feature = "tower", doc = "[`tower`]: mod@tower")]
#![cfg_attr(not(feature = "tower"), doc = "[`tower`]: #where-to-look")]
#![cfg_attr(feature = "http", doc = "[`http_types`]: mod@http_types")]
#![cfg_attr(not(feature = "http"), doc = "[`http_types`]: #where-to-look")]
#![forbid(unsafe_code)]
// docs.rs uses a nightly compiler, which can show for each item the feature that it needs.
#![cfg_attr(docsrs, feature(doc_cfg))]

// In the order of their floors, from the lowest up: see ARCHITECTURE.md.

mod descriptors;
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
pub use server::exchange::BodyPlan;
pub use server::forwarded::TrustedProxies;
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
    pub use crate::router::{Chain, FromHandler, HandlerSet, ListedRoute, RouteList};
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
