//! The client: pools of connections, redirects, proxies, many hosts and many requests at once.
//!
//! A [`Client`](crate::Client) is made once and shared. Its clones share its connections.
//!
//! ```no_run
//! use std::time::Duration;
//!
//! use corehttp::Client;
//!
//! #[tokio::main]
//! async fn main() -> corehttp::Result {
//!     let client = Client::builder().timeout(Duration::from_secs(10)).build();
//!     let response = client.get("http://example.com/items").header("accept", "text/plain").await?.error_for_status()?;
//!     println!("{}", response.text()?);
//!     Ok(())
//! }
//! ```
//!
//! | for | see |
//! |---|---|
//! | a request in one expression | [the builder of requests](crate::RequestBuilder) |
//! | connections, time limits, default fields, cookies | [`ClientBuilder`](crate::ClientBuilder), [`ClientLimits`], [`ClientTimeouts`] |
//! | redirects | [`Redirects`], [`NextRequest`] |
//! | bodies that are read or written piece by piece | [`Client::open_response`](crate::Client::open_response), [`Call`] |
//! | many requests to one host | [`Client::host`](crate::Client::host), [`Pipeline`] |
//! | one of several hosts | [`Balancer`] |
//! | requests that are sent again | [`Retry`], [`RetryBudget`] |
//! | tokens, signatures and ids of all requests | [`ClientMiddleware`] |
//! | addresses that a client may reach | [`ClientBuilder::allow_addresses`](crate::ClientBuilder::allow_addresses) |
//! | files that arrive over several connections | [`Client::download`](crate::Client::download) |
//! | proxies | [`Proxies`] |
//! | other resolvers and other ways to a host | [`net`](crate::net) |
//! | failures: the phase, and how much of the request was sent | [`ClientError`], [`ClientCause`] |
//! | counts and times of each host | [`Client::counts`](crate::Client::counts) |
//! | each dial and each exchange, for logs and alarms | [`ClientObserver`] |

// Floor 4: the client. A pool holds the connections to one origin, and a pooled connection is one of them with
// one exchange on it.
//
// In reading order: the client and its settings; how it sends a request; connections, and the way to an origin; one
// exchange; what callers get; several hosts, and many requests at once; reports and errors.

pub(crate) mod builder;
pub(crate) mod client;
mod cookies;
mod download;
#[cfg(feature = "proxy-protocol")]
pub(crate) mod proxy_protocol;
mod redirects;
mod settings;
#[cfg(feature = "tls")]
mod tls;
#[cfg(feature = "tower")]
mod tower;
#[cfg(feature = "websocket")]
mod websocket;

pub(crate) mod request_builder;
mod send;

mod middleware;
mod retry;

mod pool;
mod route;

mod exchange;

mod call;

mod balance;
mod host;
mod pipeline;

pub(crate) mod error;
mod observe;

pub use balance::{
    Balancer, BalancerBuilder, BalancerChoice, BalancerCounts, CheckFailure, Ejection, EjectionCause,
    HealthCheck, HostChange, HostReport, PanicChange, PanicReport,
};
#[cfg(feature = "metrics")]
pub(crate) use balance::{BalancerCounters, PanicCounts};
pub(crate) use call::CallExchange;
pub use call::{Call, CallReader, CallWriter, ResponseReader};
pub use cookies::CookieStore;
pub(crate) use error::ClientError;
pub use error::{ClientCause, ClientPhase, RetryCause, RetryReport, RetryStop};
pub use exchange::ClientConnection;
pub use host::Host;
pub use middleware::{Attempt, ClientMiddleware, ClientNext};
#[cfg(feature = "tracing")]
pub(crate) use observe::{BeginSpan, RequestSpan};
pub use observe::{
    ClientCounters, ClientCounts, ClientExchangeReport, ClientObserver, DialReport, ExchangeEnd, HostCounts,
    HostEvents, PhaseCounts, QueueReport,
};
pub use pipeline::{Pipeline, PipelineBuilder};
pub use redirects::{NextRequest, RedirectAction, Redirects};
pub use request_builder::Awaited;
pub(crate) use retry::Backoff;
pub use retry::{Retry, RetryBudget};
#[cfg(feature = "acme")]
pub(crate) use retry::{random_share, retry_after};
#[cfg(feature = "tracing")]
pub(crate) use route::Origin;
pub use route::{Proxies, Proxy, ProxyError, SocksError, SocksReply};
pub use send::ClientUpgraded;
pub use settings::{ClientLimits, ClientTimeouts};
#[cfg(feature = "websocket")]
pub(crate) use websocket::{not_prepared, switch_protocols};
