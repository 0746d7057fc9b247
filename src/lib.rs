//! An HTTP/1.1 server and client that allocate nothing per request.
//!
//! A server:
//!
//! ```no_run
//! use corehttp::{Context, Server};
//!
//! fn main() -> corehttp::Result {
//!     Server::bind("127.0.0.1:8080").run(|ctx: &mut Context| ctx.response.set_text("Hello, World!"))
//! }
//! ```
//!
//! A client. [`block_on`] is for programs without a runtime, and fails if it cannot make one, hence the second `?`:
//!
//! ```no_run
//! use corehttp::Client;
//!
//! fn main() -> corehttp::Result {
//!     let client = Client::new();
//!     let response = corehttp::block_on(client.get("http://127.0.0.1:8080/"))??;
//!     println!("{}: {}", response.status, response.text()?);
//!     Ok(())
//! }
//! ```
//!
//! Each core of a server has its own thread, runtime and listener, and a connection never leaves its core. A request is
//! read into memory that the next request reuses. Its method, target and fields are views of that memory, so a handler
//! cannot keep them: code that tries to does not compile.
//!
//! # Handlers
//!
//! A handler is a closure or a function, plain or `async`, that takes [`&mut Context`](Context) and returns nothing or
//! a [`Result`]; or it is a type that implements [`Handler`]. Write out the parameter's type, as in
//! `|ctx: &mut Context|`. An async closure is `async |ctx: &mut Context|`; a plain closure that returns an `async`
//! block does not compile, because the block cannot borrow `ctx`.
//!
//! ```no_run
//! use corehttp::{Context, Method, Server, Status};
//!
//! async fn save(ctx: &mut Context) -> corehttp::Result {
//!     let size = ctx.request.body.len(); // received before the handler runs, up to `Limits::body_max`
//!     ctx.response.status = Status::CREATED;
//!     ctx.response.headers.set("x-size", size)?;
//!     Ok(())
//! }
//!
//! fn main() -> corehttp::Result {
//!     Server::bind("[::]:8080").run(async |ctx: &mut Context| {
//!         match (ctx.request.method(), ctx.request.path()) {
//!             (Method::Get | Method::Head, "/") => ctx.response.set_html("<h1>hi</h1>"),
//!             (Method::Post, "/save") => save(ctx).await?,
//!             (Method::Get | Method::Head, "/search") => {
//!                 let term = ctx.request.query().get("q").unwrap_or_default();
//!                 ctx.response.set_text(format!("you asked for {term}"));
//!             }
//!             _ => return Err(Status::NOT_FOUND.into()),
//!         }
//!         Ok(())
//!     })
//! }
//! ```
//!
//! A function that needs the request and the response at the same time destructures the context:
//! `let Context { request, response, .. } = ctx;`.
//!
//! A closure captures its state: `async move |ctx: &mut Context| answer(&state, ctx).await`. Several handlers share it by
//! [`with_state`]. State that all cores share must be [`Send`] and [`Sync`]. For state of each core, which needs no lock,
//! use [`Server::run_per_core`]. A pool of database connections is such state, because connections belong to the runtime
//! that opened them.
//!
//! A handler runs on the thread of its core, inside a tokio runtime that the server makes: `main` needs none, and the
//! handler may await anything that needs one. Tasks that a handler starts with `tokio::task::spawn_local` need not be
//! `Send`, but they end when the server stops, finished or not (see [`ServerHandle::stop`]). While a handler blocks
//! or computes, its core serves no other connection, so long work belongs in `tokio::task::spawn_blocking`.
//! `block_in_place` panics there: a core is a runtime of one thread, which has no other to hand its tasks to.
//!
//! # Forms and cookies
//!
//! A query and the content of a form have the same format, so both are read as a [`Form`]: see [`Request::query`] and
//! [`Request::form`]. Cookies are read with [`Request::cookies`] and set with [`Response::set_cookie`]. Forms and
//! cookies are views of the request; only text with escapes is copied, because it must be decoded. With the feature
//! `form`, `Request::query_as` and `Request::form_as` read all pairs as a struct.
//!
//! ```
//! use corehttp::{Context, SetCookie, Status};
//!
//! fn sign_in(ctx: &mut Context) -> corehttp::Result {
//!     let Context { request, response, .. } = ctx;
//!     let form = request.form()?; // other content is answered with 415
//!     let name = form.get("name").ok_or(Status::BAD_REQUEST)?;
//!     let page: u32 = form.get_as("page")?.unwrap_or(1); // `page=x` is answered with 400
//!     let visits = request.cookies().get("visits").unwrap_or("no");
//!     response.set_text(format!("Hello, {name}! {visits} visits, page {page}"));
//!     // Fails if the cookie could break out of its field, or if a browser would drop it.
//!     response.set_cookie(&SetCookie::new_session("__Host-sid", "8f14e45f"))?;
//!     Ok(())
//! }
//! # let service = corehttp::Server::new().service(sign_in);
//! # let mut request = corehttp::Request::post("/")?;
//! # request.set_form(&corehttp::FormBuf::from([("name", "Ada")]));
//! # let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
//! # let response = runtime.block_on(service.respond(request));
//! # assert_eq!(response.text()?, "Hello, Ada! no visits, page 1");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! [`FormBuf`] builds forms to send, with [`Request::set_query`] or [`Request::set_form`]. With the feature `jar`, a
//! client keeps its cookies in a `jar::Jar`. The example `forms` is a sign-in page, and `jar` is a client that keeps
//! cookies in a file.
//!
//! # Clients
//!
//! A [`Client`] keeps its connections open, reuses them, and works in any tokio runtime; a program without one uses
//! [`block_on`]. A status such as 404 is a response like any other, and no error unless
//! [`Response::error_for_status`] makes it one. Servers and clients share the types [`Request`] and [`Response`], so a
//! request that the server received can be sent on, and a response that the client received can be the server's
//! response. [`Request::forwarded_to`] and [`Response::forwarded`] leave out the fields that are meant for one
//! connection only.
//!
//! On messages and bodies, a bare noun reads and `set_` writes: [`Response::text`], [`Response::bytes`] and
//! `Response::json` read what arrived, [`Response::set_text`] and [`Response::set_bytes`] write. None of them waits,
//! because a body that is not a stream has been received whole.
//!
//! ```
//! # use corehttp::{Context, Server, MemoryListener};
//! use corehttp::{Client, Request, Response, Status};
//!
//! # let listener = MemoryListener::new();
//! # let connector = listener.connector();
//! # let server = Server::bind(listener).cores(1).start(|ctx: &mut Context| ctx.response.set_text("Hello"))?;
//! # corehttp::block_on(async {
//! let client = Client::new();
//! # let client = Client::builder().memory(connector).build();
//! let response = client.get("http://example.com/").field("accept", "text/plain").await?;
//! assert_eq!(response.status, Status::OK);
//! println!("{}", response.text()?);
//!
//! // A status of a failure is no error, unless that is asked for.
//! client.post("http://example.com/notes").bearer_auth("t0k3n").text("milk").await?.error_for_status()?;
//!
//! // This loop allocates nothing: the request is sent again, and the response is reset and reused.
//! let request = Request::get("http://example.com/items?page=2")?;
//! let mut response = Response::new();
//! for _ in 0..1000 {
//!     client.send(&request, &mut response).await?;
//! }
//! # assert_eq!(response.bytes(), b"Hello");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # })??;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A body that is too large for memory is read piece by piece with [`Client::open_response`], and written piece by
//! piece with [`Client::open`]. A [`ClientError`] holds the phase in which an exchange failed, and whether any of the
//! request was sent.
//!
//! # On the open internet
//!
//! The defaults are meant for it: [`Limits`] and [`Timeouts`] bound all that a peer can make grow or last. Some
//! things only the program can decide:
//!
//! - **Memory.** All connections may send bodies of up to [`Limits::body_max`] at the same time, so that bound and
//!   [`Limits::connections_max`] belong together. Large bodies are better read as streams: see [`BodyPlan`]. The
//!   memory of a burst is freed within seconds, but the allocator of glibc keeps it for the next burst: after 800 heads of
//!   50 kB, 67 to 100 MB. `MALLOC_MMAP_THRESHOLD_=32768` in the environment, or mimalloc as the global allocator, leave 8 MB;
//!   jemalloc leaves 11 MB, if `background_thread:true` is set.
//! - **Time.** A handler may take as long as it likes, unless [`Timeouts::handler`] is set. A connection that was
//!   [upgraded](Context::upgrade) is the handler's, and has no time limit but [`Server::tcp_keepalive`].
//! - **Fairness.** A single peer may hold all connections, unless [`Limits::connections_per_peer_max`] is set. Behind a
//!   proxy it should not be, because the proxy is a single peer.
//! - **Load.** A client may send requests as fast as they are answered, and all clients together as many as there are
//!   connections, unless a [`RateLimit`], a [`ConcurrencyLimit`] or a [`LoadShed`] is around the handlers.
//! - **Forgery.** Other sites may have browsers send requests with the cookies of this one, unless a
//!   [`CrossOriginProtection`] is around the handlers.
//! - **Descriptors.** Each connection takes one, and a process often starts with 1,024 (`ulimit -n`, or `LimitNOFILE=` of
//!   systemd). When they run out, new peers wait, and [`ErrorCounts::accept`] counts.
//! - **Signals.** SIGTERM and SIGINT stop a server that has [`shutdown_signal`]. All others do what the system has them
//!   do, so SIGHUP ends the process: see [there](shutdown_signal#other-signals) how a program reopens its logs instead.
//! - **Restarts.** Stop on SIGTERM, by [`shutdown_signal`]. On Linux, the next process can listen on the same port
//!   before this one stops: see [`Server::reuse_port`], also for the setting without which a few peers are reset, or
//!   the feature `handover`, which needs none.
//! - **Observing.** [`Server::on_exchange`] gets a report of each exchange when it is over, for access logs and metrics, and
//!   [`Server::on_error`] of failed exchanges and, once a second, of refused peers. [`ServerHandle::stats`] returns
//!   counters, which `{}` formats as text for Prometheus.
//! - **Proxies.** Behind one, [`Context::peer_addr`] is the proxy's address, and [`Context::client_ip`] the client's;
//!   [`Context::forwarded`] has the scheme and host that the client saw.
//!
//! # Databases
//!
//! Each core is a thread with a current-thread runtime of its own, and a connection to a database belongs to the
//! runtime that opened it. There are two ways to a pool:
//!
//! - **A pool for each core**, made by [`Server::run_per_core`]. A query stays on its thread, without locks across
//!   cores. With tokio-postgres that is one pipelined connection or a few, with deadpool or bb8 a pool, with sqlx a
//!   `PgPool`. A database sees the size of the pool times the number of cores: ten for each of 16 cores are 160
//!   connections, more than the 100 that PostgreSQL admits by default, so divide by [`ServerCore::count`].
//! - **One pool for all cores**, made before the server starts and moved into its handler. Each query may use a
//!   connection whose task runs on another core, and waits for a wake-up there, twice. A connection that a core opened
//!   lives as long as that core; at a stop, no core ends before all have drained.
//!
//! A shared pool must be made in a runtime that goes on running, such as a multi-thread runtime that the program keeps.
//! The runtime of `#[tokio::main(flavor = "current_thread")]` does not run while its thread blocks in [`Server::run`]:
//! the connections of a pool that was made there make no progress, and the first query waits until the pool's own
//! timeout, if it has one. `PgPool::connect_lazy` avoids that, because it opens a connection where the first query is
//! made.
//!
//! An embedded SQLite has a thread of its own, to which all cores send their queries: `spawn_blocking` would wake one of
//! many threads for each.
//!
//! The example `api` is a service with a connection to PostgreSQL for each core, or else with an embedded SQLite.
//!
//! # Where to look
//!
//! | for servers | see |
//! |---|---|
//! | where to listen, on how many cores, how to stop | [`Server`], [`ServerHandle`] |
//! | options of the sockets | [`SocketOptions`], `Server::on_listen` |
//! | sockets that pass to the next process, with feature `handover` | `Server::handover` |
//! | a service of systemd, with feature `systemd` | `Server::systemd` |
//! | probes of load balancers, and a stop that they see in time | [`Health`], [`Server::stop_delay`] |
//! | state of each core, without locks | [`Server::run_per_core`] |
//! | bodies that are too large for memory | [`BodyPlan`], [`Context::body_reader`], [`Context::body_writer`], [`Context::duplex`] |
//! | how much peers may send, and how long they and handlers may take | [`Limits`], [`Timeouts`] |
//! | who the peer is, and who the client behind a proxy is | [`Context::peer_addr`], [`Context::client_ip`], [`TrustedProxies`] |
//! | the user and the process at the other end of a Unix socket | [`Context::peer_credentials`] |
//! | the scheme and host that a client behind a proxy saw | [`Context::forwarded`], [`Context::set_forwarded`] |
//! | the client behind a proxy that passes bytes on, with feature `proxy-protocol` | `Server::proxy_protocol`, `ProxyHeader` |
//! | a connection when it opens, and state of its own | [`Server::on_connect`], [`Context::connection_state`] |
//! | a connection when it is over | [`Server::on_disconnect`] |
//! | how long a connection may stay open | [`Timeouts::connection_age`] |
//! | how a handler fails, and the status that the peer gets | [`Error`], [`Server::error_status`] |
//! | the content of error responses | [`Server::error_response`], [`problem_details`], [`error_page`] |
//! | problem details (RFC 9457) | [`Problem`], [`Response::set_problem`] |
//! | each exchange, as it ended: logs and metrics | [`Server::on_exchange`], with feature `access-log` `AccessLog` |
//! | how long exchanges take, by route and status, with feature `metrics` | `Metrics`, `MetricsText`, `MetricsPage` |
//! | counters and histograms of the application, with feature `metrics` | `Metrics::add_collector`, `Histogram` |
//! | which methods the exchanges of a route had, with feature `metrics` | `RouteCounts::methods` |
//! | hits and size of the buffers and codecs that each core keeps | [`ServerCounts::pools`] |
//! | hits, misses and size of the cache of files, with feature `fs` | `Files::stats`, with feature `metrics` `Metrics::add_files` |
//! | spans of exchanges, and traces through several programs, with feature `tracing` | `Tracing`, `TraceContext` |
//! | what went wrong, and how often | [`Server::on_error`], [`ServerHandle::stats`] |
//! | routes, and paths with parameters | [`routes!`], [`Router`], [`Request::params`] |
//! | an id of each request, in responses and logs | the module `coming_from`, "Ids of requests" |
//! | middleware: logs, guards, limits, and how to write one | [`middleware`], [`Extensions`], [`Transform`] |
//! | state that several handlers share | [`with_state`] |
//! | bounds of a single route | [`middleware::limits`], [`middleware::timeouts`], [`BodyPlan`] |
//! | sessions by cookie, with feature `session` | `session::Sessions`, `session::Session` |
//! | requests that pages of other origins forge (CSRF) | [`CrossOriginProtection`] |
//! | how many requests a handler gets at once, and how many a client may send | [`ConcurrencyLimit`], [`RateLimit`] |
//! | requests that have waited too long for a busy core are refused | [`LoadShed`] |
//! | apps of axum, and other services of tower, with feature `tower` | `Tower`, `TowerBody` |
//! | layers of tower-http around any handler, with feature `tower` | `layer` |
//! | gateways: responses that come from another server | [`Request::forwarded_to`], [`Context::forward`], [`ClientError::status`] |
//! | gateways that leave a prefix of the path out | [`Request::forwarded_below`] |
//! | secure connections, with feature `tls` | `Server::tls`, `ServerTls`, `TlsIdentity` |
//! | the session of a secure connection, for handlers and logs | `TlsSession`, `Context::tls`, `ExchangeReport::tls` |
//! | a configuration or a provider of `rustls`, on both sides | `ServerTls::from_config`, `ClientTls::from_config`, `ServerTls::provider` |
//! | a configuration for each ClientHello, such as that of a tenant in a database | `ServerTls::config_resolver` |
//! | ports with TLS and ports without, and a redirect to https | `Server::and_bind_tls`, [`HttpsRedirect`] |
//! | redirects | [`Response::set_redirect`] |
//! | preconditions: 304 and 412 for clients that stored an earlier response | [`Response::check_preconditions`] |
//! | ranges of content: 206 and 416 | [`Response::check_range`] |
//! | content that user agents save under a name | [`Response::set_attachment`] |
//! | other protocols | [`Context::upgrade`], [`Context::accept_tunnel`] |
//! | a connection without a response, also to close it in silence | [`Context::take_over`] |
//! | testing a handler | [`Service::respond`] |
//! | connections that you accept yourself, or in memory | [`Service::serve_connection`], [`Service::stop`], [`MemoryListener`] |
//!
//! | for clients | see |
//! |---|---|
//! | a request in one expression, with fields, content, credentials and a time limit | [`RequestBuilder`] |
//! | a status that is to be an error | [`Response::error_for_status`] |
//! | connections, redirects, name look-ups, default fields | [`Client`], [`ClientBuilder`] |
//! | a single host, one of several hosts, many requests at once | [`Client::host`], [`Balancer`], [`Pipeline`] |
//! | bodies read or written piece by piece, or both at once | [`Client::open_response`], [`Client::open`], [`Call::split`] |
//! | interim responses, such as 103 | [`CallReader::informational`] |
//! | links in a response, and other references | [`Target::join`] |
//! | how long an exchange may take, and how long it took | [`ClientTimeouts`], [`Response::timings`] |
//! | who has answered: address, version, certificates | [`Response::connection`], [`Response::version`] |
//! | dials, failures, times and bytes of each host | [`Client::stats`], with feature `metrics` `Metrics::add_client` |
//! | what went wrong, and what the server may have seen | [`ClientError`] |
//! | secure connections, with feature `tls` | `ClientBuilder::tls`, `ClientTls`, `TlsRoots` |
//! | hosts that the operating system verifies, with feature `platform-verifier` | `ClientTls::from_platform_verifier` |
//! | proxies, and other ways to a host | [`Proxies`], [`Dialer`], [`Resolver`] |
//! | PROXY headers of a gateway or a client, with feature `proxy-protocol` | `Client::on_behalf_of`, `ClientBuilder::proxy_protocol` |
//! | other protocols | [`Client::upgrade`] |
//! | requests of the crate `http`, and layers of tower around a client, with feature `tower` | [`Client`], a `tower::Service` |
//!
//! | for content | see | example |
//! |---|---|---|
//! | the type and the language that a client prefers | [`Request::preferred_type`], [`Request::preferred_language`] | |
//! | the coding that a client prefers | [`Request::preferred_coding`] | |
//! | lists, weights and parameters in fields | [`Headers::members`], [`Headers::weighted`], [`Headers::parameter`], [`Parameters`] | |
//! | forms and queries as structs, with feature `form` | `Request::query_as`, `Request::form_as`, `FormBuf::from_value` | |
//! | dates, segments of a path | [`HttpDate`], [`Target::escape_segment`] | |
//! | text in HTML, in JSON, in lines of logs | [`escape_html`], [`escape_json`], [`escape_log`] | |
//! | forms, queries and cookies | [`Form`], [`FormBuf`], [`Cookies`], [`SetCookie`] | `forms` |
//! | cookies that nobody else can make or read, with feature `cookies` | `CookieKey` | |
//! | cookies that a client keeps, with feature `jar` | [`ClientBuilder::cookie_store`], `jar::Jar` | `jar` |
//! | JSON, with feature `json` | `Request::json`, `Response::json`, `set_json` of both, `RequestBuilder::json` | `json` |
//! | uploads, with feature `multipart` | `multipart::Multipart`, `multipart::Form` | `upload` |
//! | files of a directory or inside the program, with feature `fs` | `Files`, `Context::send_file` | `files` |
//! | text in its charset, in others than UTF-8 with feature `charset` | [`Request::text_decoded`], [`Response::text_decoded`] | |
//! | compressed responses of a server, with feature `compress` | `Compress`, [`Coding`] | `compress` |
//! | compressed requests | [`Context::decode_body`], [`BodyReader::decoded`] | `compress` |
//! | Basic credentials and bearer tokens | [`Request::basic_auth`], [`Request::bearer_token`] | |
//! | compressed responses that a client receives | [`ClientBuilder::decode`] | |
//! | server-sent events of a server | [`Context::events`], [`Events`], [`Event`] | `events` |
//! | server-sent events that a client receives | [`EventReader`] | |
//! | WebSocket, with feature `websocket` | `Context::websocket`, `Client::websocket`, `WebSocket`, `WebSocketSettings` | `websocket` |
//! | one message for many WebSockets, on all cores | `Broadcast` | `websocket` |
//! | types of the crates `http` and `http-body`, with feature `http` | `HttpBody`, `Body::set_http_body`, `ConversionError` | |
//!
//! The features `access-log`, `compress`, `form`, `fs`, `json`, `multipart` and `tls` are on by default. The others are
//! off: `aws-lc-rs` (other cryptography, with post-quantum key exchange), `charset` (text beyond UTF-8), `cookies`
//! (signed and private ones), `handover`, `http` (types of the crate `http`), `idna` (URLs with hosts beyond ASCII), `jar`,
//! `metrics`, `platform-verifier` (hosts are verified by the operating system), `proxy-protocol`, `session`, `systemd`,
//! `tower`, `tracing`, `websocket`, and `zstd` (one more coding).
//!
//! The module `coming_from`, which the documentation has with all features, shows the idioms of axum, actix, fasthttp and
//! reqwest beside those of this crate.
//!
//! Names follow [RFC 9110](https://www.rfc-editor.org/rfc/rfc9110), which defines what messages mean, and [RFC
//! 9112](https://www.rfc-editor.org/rfc/rfc9112), which defines how HTTP/1.1 writes them.

#![forbid(unsafe_code)]
// docs.rs uses a nightly compiler, which can show for each item the feature that it needs.
#![cfg_attr(docsrs, feature(doc_cfg))]

mod error_text;
mod memory;

pub mod message;
pub mod net;
mod runtime;

pub mod coding;
mod wire;

mod exchange;

#[cfg(feature = "tracing")]
mod trace;

pub mod client;
pub mod server;

#[cfg(feature = "compress")]
mod compress;
#[cfg(feature = "form")]
mod form;
mod gateway;
mod guard;
mod router;
#[cfg(feature = "tracing")]
mod traced;

#[cfg(feature = "access-log")]
pub mod access_log;
#[cfg(feature = "cookies")]
pub mod cookies;
#[cfg(feature = "fs")]
pub mod fs;
pub mod health;
#[cfg(feature = "http")]
pub mod http_types;
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
#[cfg(feature = "tower")]
pub mod tower;
#[cfg(feature = "websocket")]
pub mod websocket;

pub mod error;
pub mod middleware;
#[cfg(feature = "proxy-protocol")]
pub mod proxy_protocol;
pub mod tls;
#[cfg(feature = "tracing")]
pub mod tracing;

pub use client::client::{Client, ClientBuilder};
pub use client::error::ClientError;
pub use client::request_builder::RequestBuilder;
pub use exchange::Timeouts;
pub use message::body::Body;
pub use message::cookie::{Cookies, SameSite, SetCookie};
pub use message::date::HttpDate;
pub use message::fields::Headers;
pub use message::form::{Form, FormBuf};
pub use message::method::Method;
pub use message::path_params::PathParams;
pub use message::problem::Problem;
pub use message::request::Request;
pub use message::response::Response;
pub use message::status::Status;
pub use message::uri::Target;
pub use message::version::Version;
pub use net::address::{Address, PeerAddr};
pub use router::Router;
pub use runtime::{block_on, shutdown_signal};
pub use server::body_plan::BodyPlan;
pub use server::context::{BodyReader, BodyWriter, Context, Extensions};
pub use server::error::{Error, Result};
pub use server::handler::{BoxHandler, Handler, IntoHandler};
pub use server::server::Server;
pub use server::server_handle::ServerHandle;
pub use server::service::Service;
pub use server::trusted_proxies::TrustedProxies;
pub use server::with_state::with_state;
pub use wire::Limits;

/// The parts of which [`routes!`] makes a router.
#[doc(hidden)]
pub mod routing {
    pub use crate::router::{Chain, FromHandler, HandlerSet, RouteList};
}

#[doc = include_str!("coming_from.md")]
#[cfg(all(
    feature = "form",
    feature = "fs",
    feature = "json",
    feature = "session",
    feature = "tower",
    feature = "websocket"
))]
pub mod coming_from {}

/// Compiles the programs in the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

/// Checks at compile time that messages and running servers can be sent and shared between threads.
const _: () = {
    const fn is_send_and_sync<T: Send + Sync>() {}
    is_send_and_sync::<Request>();
    is_send_and_sync::<Response>();
    is_send_and_sync::<ServerHandle>();
};
