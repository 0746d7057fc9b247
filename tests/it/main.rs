//! How the server behaves, seen from outside: over sockets, byte for byte.

#![allow(
    clippy::unwrap_used,
    unreachable_pub,
    reason = "a test that cannot go on has failed, and nobody imports it"
)]

#[cfg(all(feature = "access-log", feature = "tls"))]
#[path = "../support/everything.rs"]
mod everything;
#[path = "../oracle/mod.rs"]
mod oracle;
mod support;

#[cfg(feature = "access-log")]
mod access_log;
#[cfg(feature = "aws-lc-rs")]
mod aws_lc;
#[cfg(feature = "compress")]
mod compress;
mod connection;
mod connection_life;
#[cfg(all(feature = "compress", feature = "fs"))]
mod copies;
mod delivery;
mod error_responses;
mod errors;
mod events;
mod exchange_reports;
#[cfg(feature = "fs")]
mod files;
mod floods;
mod forms;
mod framing;
mod guards;
mod handlers;
#[cfg(all(feature = "handover", unix))]
mod handover;
mod health;
mod histories;
mod hostile;
mod hostile_paths;
#[cfg(feature = "http")]
mod http_types;
#[cfg(feature = "json")]
mod json;
mod kinds;
#[cfg(all(feature = "compress", feature = "fs", feature = "tower"))]
mod layers;
mod limits;
#[cfg(feature = "metrics")]
mod metrics;
mod middleware;
#[cfg(feature = "multipart")]
mod multipart;
mod observers;
mod problems;
#[cfg(feature = "proxy-protocol")]
mod proxy_protocol;
mod refusals;
#[cfg(all(feature = "access-log", feature = "tls"))]
mod refused_heads;
mod request_head;
mod route_histories;
mod router;
mod runtime;
mod service;
#[cfg(feature = "session")]
mod sessions;
mod setters;
mod stop;
mod streaming;
#[cfg(all(feature = "systemd", unix))]
mod systemd;
mod targets;
mod timeouts;
#[cfg(feature = "tls")]
mod tls;
#[cfg(feature = "tls")]
mod tls_config;
#[cfg(feature = "tower")]
mod tower;
mod traffic;
#[cfg(all(feature = "access-log", feature = "websocket"))]
mod trusted_proxies;
mod turns;
#[cfg(feature = "form")]
mod typed_forms;
#[cfg(feature = "websocket")]
mod websocket;
