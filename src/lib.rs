//! An arena-backed HTTP/1.1 server on a per-core runtime, and its client: nothing is allocated per request.
//!
//! A server:
//!
//! ```no_run
//! use corehttp::{Context, Server};
//!
//! fn main() -> corehttp::Result {
//!     Server::bind("127.0.0.1:8080").run(|ctx: &mut Context| ctx.response.text("Hello, World!"))
//! }
//! ```
//!
//! A client:
//!
//! ```no_run
//! use corehttp::Client;
//!
//! fn main() -> corehttp::Result {
//!     let client = Client::new();
//!     let response = corehttp::block_on(client.get("http://127.0.0.1:8080/"))??;
//!     println!("{}: {}", response.status, response.body.text()?);
//!     Ok(())
//! }
//! ```
//!
//! Each core of a server has a thread, a runtime and a listener of its own, and nothing that one core owns is ever seen
//! by another. A request is read into memory that is used again and again; its method, target and fields are views of
//! it, so a handler cannot keep them, and the compiler says so.
//!
//! # Handlers
//!
//! A handler is a closure or a function of [`&mut Context`](Context), plain or `async`, that returns nothing or a
//! [`Result`]; or a type that implements [`Handler`]. Write the parameter's type out, and `async |ctx: &mut Context|`
//! rather than a closure that returns an `async` block: only the former can lend what it is lent.
//!
//! ```no_run
//! use corehttp::{Context, Method, Server, Status};
//!
//! async fn save(ctx: &mut Context) -> corehttp::Result {
//!     let size = ctx.request.body.len(); // the body is here before the handler runs, up to `Limits::body_max`
//!     ctx.response.status = Status::CREATED;
//!     ctx.response.headers.set("x-size", size)?;
//!     Ok(())
//! }
//!
//! fn main() -> corehttp::Result {
//!     Server::bind("[::]:8080").run(async |ctx: &mut Context| {
//!         match (ctx.request.method(), ctx.request.path()) {
//!             (Method::Get | Method::Head, "/") => ctx.response.html("<h1>hi</h1>"),
//!             (Method::Post, "/save") => save(ctx).await?,
//!             (Method::Get | Method::Head, "/search") => {
//!                 let term = ctx.request.query().get("q").unwrap_or_default();
//!                 ctx.response.text(format!("you asked for {term}"));
//!             }
//!             _ => return Err(Status::NOT_FOUND.into()),
//!         }
//!         Ok(())
//!     })
//! }
//! ```
//!
//! A helper that needs the request and the response at once takes them apart:
//! `let Context { request, response, .. } = ctx;`.
//!
//! State is what a closure captures: `async move |ctx: &mut Context| answer(&state, ctx).await`. What all cores share is
//! [`Send`] and [`Sync`]; what each has for itself, and needs no lock, is made by [`Server::run_per_core`].
//!
//! A handler runs on the thread of its core, in a runtime of tokio's: it may await whatever needs one, and its tasks,
//! begun by `tokio::task::spawn_local`, need no `Send`. The core serves nobody else while a handler blocks or computes,
//! so what takes long goes to `tokio::task::spawn_blocking`.
//!
//! # Forms and cookies
//!
//! A query and the content of a form are the same kind of text, and both are a [`Form`]: [`Request::query`] and
//! [`Request::form`] give it. Cookies come by [`Request::cookies`] and go by [`Response::set_cookie`]. All of it is
//! read where it stands, and nothing is allocated where nothing is escaped.
//!
//! ```
//! use corehttp::{Context, SetCookie, Status};
//!
//! fn sign_in(ctx: &mut Context) -> corehttp::Result {
//!     let Context { request, response, .. } = ctx;
//!     let form = request.form()?; // what is no form owes 415
//!     let name = form.get("name").ok_or(Status::BAD_REQUEST)?;
//!     let page: u32 = form.get_as("page")?.unwrap_or(1); // none is 1, and `page=x` owes 400
//!     let visits = request.cookies().get("visits").unwrap_or("no");
//!     response.text(format!("Hello, {name}! {visits} visits, page {page}"));
//!     // What could break out of the field is an error here; so is what a browser would drop.
//!     response.set_cookie(&SetCookie::session("__Host-sid", "8f14e45f"))?;
//!     Ok(())
//! }
//! # let service = corehttp::Server::new().service(sign_in);
//! # let mut request = corehttp::Request::post("/")?;
//! # request.set_form(&[("name", "Ada")].into_iter().collect());
//! # let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
//! # let response = runtime.block_on(service.respond(request));
//! # assert_eq!(response.body.text()?, "Hello, Ada! no visits, page 1");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Forms to send are built by [`FormBuf`], for [`Request::set_query`] and [`Request::set_form`]; a client's cookies
//! are kept in a `jar::Jar`, with the feature `jar`. The example `forms` is a page to sign in at, `jar` a client that
//! remembers.
//!
//! # Clients
//!
//! A [`Client`] keeps connections to those it asks. It works in any runtime of tokio's; where there is none,
//! [`block_on`] makes one. A [`Request`] that the server received can be sent on, and a [`Response`] that the client
//! received can be the server's answer: they are the same types. What was meant for one connection only stays behind by
//! [`Request::target_to`] and [`Response::forwarded`].
//!
//! ```
//! # use corehttp::{Context, Server, MemoryListener};
//! use corehttp::{Client, Request, Response, Status};
//!
//! # let listener = MemoryListener::new();
//! # let connector = listener.connector();
//! # let server = Server::bind(listener).cores(1).start(|ctx: &mut Context| ctx.response.text("Hello"))?;
//! # corehttp::block_on(async {
//! let client = Client::new();
//! # let client = Client::builder().memory(connector).build();
//! let response = client.get("http://example.com/").await?;
//! assert_eq!(response.status, Status::OK);
//! println!("{}", response.body.text()?);
//!
//! // The loop that allocates nothing: both are reset and used again.
//! let request = Request::get("http://example.com/items?page=2")?;
//! let mut response = Response::new();
//! for _ in 0..1000 {
//!     client.send(&request, &mut response).await?;
//! }
//! # assert_eq!(response.body.bytes(), b"Hello");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # })??;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A body that is too large to be held is read from [`Client::stream`] and written to [`Client::open`]. A
//! [`ClientError`] says in which phase an exchange has failed, and whether any of the request was sent.
//!
//! # Where to look
//!
//! | for servers | see |
//! |---|---|
//! | where to listen, on how many cores, how to stop | [`Server`], [`Running`] |
//! | state of a core's own, without locks | [`Server::run_per_core`] |
//! | bodies that are too large to be buffered | [`BodyPlan`], [`Context::body_reader`], [`Context::stream`], [`Context::duplex`] |
//! | what peers may do, and for how long | [`Limits`], [`Timeouts`] |
//! | what went wrong, and how often | [`Server::on_error`], [`Running::stats`] |
//! | middleware, and handlers in a map | [`Handler`], [`Extensions`], [`Transform`], [`BoxHandler`] |
//! | secure connections, with feature `tls` | `Server::tls`, `ServerTls`, `TlsIdentity`, `TlsSession` |
//! | other protocols | [`Context::upgrade`], [`Context::tunnel`] |
//! | tests of a handler | [`Service::respond`] |
//! | connections from elsewhere | [`Service::serve_connection`], [`Service::stop`], [`MemoryListener`] |
//!
//! | for clients | see |
//! |---|---|
//! | connections, redirects, names, fields of all requests | [`Client`], [`ClientBuilder`] |
//! | one host asked often, one of several hosts, many requests at once | [`Client::host`], [`Balancer`], [`Pipeline`] |
//! | bodies that are read or written as they go, or both at once | [`Client::stream`], [`Client::open`], [`Call::split`] |
//! | how long it may take, and how long it took | [`ClientTimeouts`], [`Response::timings`] |
//! | what went wrong, and what the server may have seen | [`ClientError`] |
//! | secure connections, with feature `tls` | `ClientBuilder::tls`, `ClientTls`, `TlsRoots` |
//! | proxies, and other ways to a host | [`Proxies`], [`Dialer`], [`Resolver`] |
//! | other protocols | [`Client::upgrade`] |
//!
//! | for content | see | example |
//! |---|---|---|
//! | forms, queries and cookies | [`Form`], [`FormBuf`], [`Cookies`], [`SetCookie`] | `forms` |
//! | cookies that a client keeps, with feature `jar` | [`ClientBuilder::cookies`], `jar::Jar` | `jar` |
//! | JSON, by serde | [`Body::bytes`], and [`Body`] as an [`io::Write`](std::io::Write) | `json` |
//! | files that browsers send, with feature `multipart` | `multipart::Multipart`, `multipart::Form` | `upload` |
//! | files of a directory or of the program, with feature `fs` | `Files`, `Context::send_file` | `files` |
//! | compressed answers, with feature `compress` | `Compress`, [`Coding`] | `compress` |
//! | compressed requests | [`Context::decode_body`], [`Reader::decoded`] | `compress` |
//! | compressed answers that a client receives | [`ClientBuilder::decode`] | |
//! | events that a page hears as they happen | [`Context::events`], [`Events`], [`Event`] | `events` |
//! | WebSocket, by a crate for it | [`Context::upgrade`] | `websocket` |
//!
//! The features `compress`, `fs`, `multipart` and `tls` are on by default; `jar`, and `zstd` beside the other codings, are
//! not.
//!
//! Names are those of [RFC 9110](https://www.rfc-editor.org/rfc/rfc9110), which says what messages mean, and of
//! [RFC 9112](https://www.rfc-editor.org/rfc/rfc9112), which says how they are spelled.

#![forbid(unsafe_code)]
// docs.rs builds with a compiler that can say beside each item which feature it needs.
#![cfg_attr(docsrs, feature(doc_cfg))]

mod memory;

mod message;
mod net;
mod runtime;

mod coding;
mod wire;

mod exchange;

mod client;
mod server;

#[cfg(feature = "compress")]
mod compress;
#[cfg(feature = "fs")]
mod fs;
#[cfg(feature = "jar")]
pub mod jar;
#[cfg(feature = "multipart")]
pub mod multipart;
mod sse;

pub use client::{
    Answer, Balancer, BalancerBuilder, Call, CallReader, CallWriter, Client, ClientBuilder, ClientCause,
    ClientError, ClientPhase, ClientTimeouts, CookieStore, Host, HostChoice, HostCounts, InvalidProxy,
    Pipeline, PipelineBuilder, Proxies, Proxy, Redirects, SocksError, SocksReply, Tunnel,
};
pub use coding::{Coding, CodingError, Flush};
#[cfg(feature = "compress")]
pub use compress::Compress;
pub use exchange::{ExchangeError, Phase, Timeouts};
#[cfg(feature = "fs")]
pub use fs::{FileCache, Files, FilesNotFound};
pub use message::{
    Body, Cookies, ExtensionMethod, FieldValue, Form, FormBuf, FormPairs, FromText, Headers, HeadersIter,
    InvalidCookie, InvalidField, InvalidForm, InvalidMethod, InvalidRequest, InvalidStatus, InvalidTarget,
    InvalidText, Method, Request, Response, SameSite, SetCookie, Status, Target, TargetForm, Timings,
    Version,
};
#[cfg(feature = "tls")]
pub use net::tls::enabled::{
    ClientTls, DangerousClientTls, ServerTls, TlsConfigError, TlsIdentity, TlsRoots, TlsSession, TlsVersion,
};
pub use net::{
    Address, Dialer, MemoryConnector, MemoryListener, MemoryStream, PeerAddr, Resolver, SystemResolver,
    TlsError,
};
pub use runtime::block_on;
pub use server::{
    AsyncHandler, BodyPlan, BoxHandler, Context, Course, Error, ErrorCounts, Extensions, Handler,
    IntoHandler, InvalidAnswer, Outcome, PlainHandler, Reader, Refusal, RefusalCause, Result, Running,
    Server, ServerCore, ServerCounts, ServerStats, Service, Transform, Upgraded, WithPlan, Writer, with_plan,
};
pub use sse::{Event, Events, InvalidEvent};
pub use wire::{Limits, WireError};

/// The programs of the README, for the compiler to check.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

/// What messages and a server at work promise about threads: said once, for the compiler to check.
const _: () = {
    const fn is_send_and_sync<T: Send + Sync>() {}
    is_send_and_sync::<Request>();
    is_send_and_sync::<Response>();
    is_send_and_sync::<Running>();
};
