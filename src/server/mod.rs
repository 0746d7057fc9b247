//! The parts of a server: reports of what it does, counters, error pages, transforms of bodies.
//!
//! A [`Server`](crate::Server) has one thread, one runtime and one listener for each core. An [`Observer`] watches it:
//!
//! ```no_run
//! use corehttp::{Context, Server};
//!
//! fn main() -> corehttp::Result {
//!     Server::bind("[::]:8080")
//!         .on_exchange(|report| println!("{} {:?}", report.request.path(), report.duration))
//!         .on_error(|report| eprintln!("{report}"))
//!         .run(|ctx: &mut Context| ctx.response.set_text("Hello, World!"))
//! }
//! ```
//!
//! | for | see |
//! |---|---|
//! | each exchange, each connection, each failure | [`Observer`], [`ExchangeReport`], [`ConnectionReport`], [`ErrorReport`] |
//! | counters of each core | [`ServerHandle::counts`](crate::ServerHandle::counts), [`ServerCounts`] |
//! | the content of error responses | [`Server::error_response`](crate::Server::error_response), [`problem_details`], [`error_page`] |
//! | bodies that middleware changes on their way out | [`Transform`] |
//! | connections that change their protocol | [`Context::upgrade`](crate::Context::upgrade), [`Upgraded`] |
//! | the client and the URL that a proxy saw | [`TrustedProxies`], [`Forwarded`] |
//! | state of each core | [`Server::run_per_core`](crate::Server::run_per_core), [`ServerCore`] |

// Floor 4: the server. A connection is one short loop, and a handler gets a `Context` and nothing else.
//
// In reading order: the server and what its cores share; one core; one connection; one exchange, as its handler sees
// it; handlers; and errors.

pub(crate) mod server;
#[cfg(feature = "tls")]
mod tls;

#[cfg(all(feature = "handover", unix))]
mod handed_over;
mod handover;
mod launch;
#[cfg(all(feature = "systemd", unix))]
mod managed;
pub(crate) mod server_handle;
pub(crate) mod service;
mod stop;
mod systemd;

mod core_state;
mod counts;
mod observer;
mod per_core;

mod accept_loop;
mod connection_limiter;
mod connection_report;
mod opening;
#[cfg(feature = "proxy-protocol")]
mod proxied;
pub(crate) mod proxy_protocol;

mod connection;

mod exchange;
mod exchange_info;
mod shared_conn;
mod upgraded;

pub(crate) mod context;
mod forwarded;
#[cfg(feature = "tower")]
mod tower;
#[cfg(feature = "tracing")]
mod tracing;
pub(crate) mod trusted_proxies;

pub(crate) mod body_plan;
mod confine;
mod refusal;

pub(crate) mod handler;
pub(crate) mod middleware;
pub(crate) mod with_state;

pub(crate) mod error;
mod error_report;
mod error_response;
mod error_status;
mod exchange_report;
mod invalid_response;
mod observe;
mod report_limiter;

pub(crate) use body_plan::BodyPlan;
#[cfg(feature = "tracing")]
pub(crate) use confine::is_panic;
#[cfg(feature = "tower")]
pub(crate) use confine::{confined, take_panic};
pub use connection_report::{ConnectionEnd, ConnectionReport};
#[cfg(feature = "session")]
pub(crate) use context::StateSaver;
pub(crate) use context::{BodyReader, BodyWriter, Context};
#[cfg(feature = "tower")]
pub(crate) use context::{HeadFilter, SentKind};
#[cfg(feature = "websocket")]
pub(crate) use context::{SocketObserver, SwitchedConn};
pub use context::{Transform, TransformAction};
#[cfg(feature = "metrics")]
pub(crate) use counts::ERROR_KINDS;
pub use counts::{CoreCounts, ErrorCounts, ServerCounts};
pub use error::IntoError;
pub(crate) use error::{Error, Result};
pub use error_report::{ErrorCause, ErrorReport, InvalidProxyHeader};
pub use error_response::{error_page, problem_details};
pub use exchange_report::{CutBy, ExchangeReport};
pub use forwarded::Forwarded;
pub(crate) use forwarded::{FORWARDED, X_FORWARDED_FOR, X_FORWARDED_HOST, X_FORWARDED_PROTO};
pub(crate) use handler::BoxedFuture;
pub use handler::{AsyncHandler, IntoResult, PlainHandler};
pub(crate) use handler::{BoxHandler, Handler, IntoHandler};
pub use invalid_response::InvalidResponse;
pub use launch::ServerCore;
pub(crate) use middleware::plan_guarded;
pub(crate) use middleware::{Middleware, Wrap};
pub use observer::{CoreCounters, CoreEvents, Observer, PollReport};
pub use opening::OpenedConnection;
pub(crate) use refusal::Refusal;
pub use stop::IntoIoResult;
pub(crate) use trusted_proxies::TrustedProxies;
pub use trusted_proxies::{ForwardedHeader, InvalidNetwork};
pub use upgraded::Upgraded;
#[cfg(feature = "websocket")]
pub(crate) use upgraded::UpgradedGuard;
pub use with_state::WithState;

pub use crate::memory::PoolCounts;
pub(crate) use crate::net::subscriber;
