//! How the client behaves, with servers that answer as they are told, byte for byte.

#![allow(
    clippy::unwrap_used,
    unreachable_pub,
    reason = "a test that cannot go on has failed, and nobody imports it"
)]

mod balance;
mod balanced_badly;
mod balanced_names;
mod balanced_services;
mod blocking;
mod buffering;
mod builder;
#[cfg(feature = "compress")]
mod content;
#[cfg(feature = "jar")]
mod cookies;
mod counts;
mod deadlines;
mod dialing;
mod downloads;
mod duplex;
mod ends;
mod errors;
mod events;
#[path = "../support/everything.rs"]
mod everything;
mod filtered;
mod forward_auth;
#[cfg(feature = "access-log")]
mod forward_reports;
mod gateway;
mod hedges;
mod histories;
mod hostile;
mod hundred_hosts;
#[cfg(feature = "fs")]
mod instead;
mod interim;
mod kinds;
mod lenient;
#[cfg(feature = "metrics")]
mod metrics;
mod middleware;
mod observers;
mod pipeline;
mod policies;
mod pool;
mod proxies;
mod reach;
#[cfg(feature = "testing")]
mod recordings;
mod redirects;
mod refused_heads;
mod requests;
mod responses;
mod retries;
#[cfg(feature = "tls")]
mod secure;
mod servers;
mod settings;
mod smuggling;
mod storm;
mod streams;
mod thousand_hosts;
mod time;
#[cfg(feature = "tower")]
mod tower;

#[path = "../it/support/alone.rs"]
mod alone;
#[cfg(feature = "tls")]
#[allow(dead_code, reason = "the server's tests need more of it")]
#[path = "../it/support/certificates.rs"]
mod certificates;
#[path = "../it/support/chance.rs"]
mod chance;
#[path = "../it/support/chunks.rs"]
mod chunks;
#[path = "../it/support/connection_option.rs"]
mod connection_option;
#[path = "../oracle/mod.rs"]
mod oracle;
mod support;
