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
//! | redirects | [`Redirects`] |
//! | bodies that are read or written piece by piece | [`Client::open_response`](crate::Client::open_response), [`Call`] |
//! | many requests to one host | [`Client::host`](crate::Client::host), [`Pipeline`] |
//! | one of several hosts | [`Balancer`] |
//! | requests that are sent again | [`ClientError`], and "Retries" in the chapter `coming_from` |
//! | proxies | [`Proxies`] |
//! | other resolvers and other ways to a host | [`net`](crate::net) |
//! | failures: the phase, and how much of the request was sent | [`ClientError`], [`ClientCause`] |
//! | counts and times of each host | [`Client::counts`](crate::Client::counts) |
//! | each dial and each exchange, for logs and alarms | [`ClientObserver`] |

// Floor 4: the client. A pool holds the connections to one origin, and a pooled connection is one of them with
// one exchange on it.
//
// In reading order: the client; how it sends a request; connections, and the way to an origin; one exchange; what
// callers get; several hosts, and many requests at once; counts, errors and settings.

pub(crate) mod client;
#[cfg(feature = "proxy-protocol")]
pub(crate) mod proxied;
#[cfg(feature = "tls")]
mod tls;
#[cfg(feature = "tower")]
mod tower;
#[cfg(feature = "tracing")]
mod tracing;
#[cfg(feature = "websocket")]
mod websocket;

mod cookies;
mod redirect;
pub(crate) mod request_builder;
mod request_sender;

mod origin;
mod pool;
mod route;

mod exchange;
mod response;

mod call;
mod host;
mod outcome_recorder;
mod response_reader;
mod upgraded;

mod balance;
mod pipeline;

mod counts;
mod observer;
mod trace;

mod cause;
pub(crate) mod error;
mod settings;

pub use balance::{Balancer, BalancerBuilder, BalancerChoice, BalancerCounts};
pub(crate) use call::CallExchange;
pub use call::{Call, CallReader, CallWriter};
pub use cause::{ClientCause, ClientPhase};
pub use cookies::CookieStore;
pub use counts::{ClientCounts, HostCounts, PhaseCounts};
pub(crate) use error::ClientError;
pub use host::Host;
pub use observer::{
    ClientCounters, ClientExchangeReport, ClientObserver, DialReport, ExchangeEnd, HostEvents, QueueReport,
};
pub use pipeline::{Pipeline, PipelineBuilder};
pub use redirect::Redirects;
pub use response::ClientConnection;
pub use response_reader::ResponseReader;
pub use route::{InvalidProxy, Proxies, Proxy, SocksError, SocksReply};
pub use settings::{ClientLimits, ClientTimeouts};
pub use upgraded::ClientUpgraded;
#[cfg(feature = "websocket")]
pub(crate) use websocket::{not_prepared, switch_protocols};
