//! The parts of a server: reports of what it does, counters, error pages, transforms of bodies.
//!
//! A [`Server`](crate::Server) has one thread, one runtime and one listener for each core. An [`Observer`] watches it:
//!
//! ```no_run
//! use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
//!
//! use corehttp::server::ErrorLog;
//! use corehttp::{Context, Server};
//!
//! static SLOW: AtomicU64 = AtomicU64::new(0);
//!
//! fn main() -> corehttp::Result {
//!     Server::bind("[::]:8080")
//!         .observe(ErrorLog::stderr())
//!         .on_exchange(|report| drop(SLOW.fetch_add((report.duration.as_secs() > 0).into(), Relaxed)))
//!         .run(|ctx: &mut Context| ctx.response.set_text("Hello, World!"))
//! }
//! ```
//!
//! | for | see |
//! |---|---|
//! | each exchange, each connection, each failure | [`Observer`], [`ExchangeReport`], [`ConnectionReport`], [`ErrorReport`] |
//! | counters of each core | [`ServerHandle::counts`](crate::ServerHandle::counts), [`ServerCounts`] |
//! | the content of error responses | [`Server::error_response`](crate::Server::error_response), [`problem_details`], [`error_page`] |
//! | bodies that middleware changes on their way out, and on their way in | [`Transform`], [`BodyFilter`] |
//! | connections that change their protocol | [`Context::upgrade`](crate::Context::upgrade), [`Upgraded`] |
//! | the client and the URL that a proxy saw | [`TrustedProxies`], [`Forwarded`] |
//! | state of each core | [`Server::run_per_core`](crate::Server::run_per_core), [`ServerCore`] |

// Floor 4: the server. A connection is one short loop, and a handler gets a `Context` and nothing else.
//
// In reading order: the server and its threads; what a core's connections share; one connection; one exchange, as its
// handler sees it; handlers, and what wraps them; and what is told of all.

pub(crate) mod builder;
pub(crate) mod run;

mod backlog;
mod connection_ages;
mod core_state;
mod counts;

mod connection;
pub(crate) mod opening;

pub(crate) mod context;
pub(crate) mod exchange;
pub(crate) mod forwarded;

pub(crate) mod handler;
pub(crate) mod middleware;

pub(crate) mod error;
mod report;

#[cfg(feature = "session")]
pub(crate) use context::StateSaver;
pub use context::{BodyFilter, Transform, TransformAction};
pub(crate) use context::{BodyReader, BodyWriter, Context, HeadFields};
#[cfg(feature = "tower")]
pub(crate) use context::{HeadFilter, SentKind};
#[cfg(feature = "websocket")]
pub(crate) use context::{PendingCounts, WebSocketConn, WebSocketCounter};
#[cfg(feature = "metrics")]
pub(crate) use counts::ERROR_KINDS;
pub(crate) use counts::GuardKind;
pub use counts::{CoreCounts, ErrorCounts, ServerCounts};
pub(crate) use error::{Error, Result};
pub use error::{
    ErrorCause, ErrorReport, IntoError, ProxyHeaderFault, RespondError, error_page, problem_details,
};
pub(crate) use exchange::BodyPlan;
pub use exchange::Upgraded;
#[cfg(feature = "websocket")]
pub(crate) use exchange::UpgradedGuard;
pub(crate) use forwarded::{FORWARDED, TrustedProxies, X_FORWARDED_FOR, X_FORWARDED_HOST, X_FORWARDED_PROTO};
pub use forwarded::{Forwarded, ForwardedHeader, NetworkParseError};
#[cfg(feature = "tracing")]
pub(crate) use handler::is_panic;
#[cfg(feature = "tower")]
pub(crate) use handler::take_panic;
pub use handler::{AsyncHandler, IntoResult, PlainHandler, StateFn, WithState};
pub(crate) use handler::{BoxHandler, BoxedFuture, Handler, IntoHandler, Refusal};
pub(crate) use middleware::{
    Middleware, SharedGuard, Wrap, defer_body, handle_deferred, plan_guarded, timeouts, wrap,
};
pub use opening::OpenedConnection;
pub use report::{
    ConnectionEnd, ConnectionReport, CoreCounters, CoreEvents, CutBy, ErrorLog, ExchangeReport,
    ForwardReport, Observer, PollReport, Unopened, WebSocketReport,
};
pub use run::{IntoIoResult, ServerCore};

pub use crate::memory::PoolCounts;
pub(crate) use crate::net::subscriber;
pub use crate::runtime::MemoryCounts;
