//! Reports, logs and metrics.

#[cfg(feature = "access-log")]
mod access_log;
mod error_log;
mod exchange_reports;
#[cfg(feature = "metrics")]
mod metrics;
mod observers;
#[cfg(all(feature = "access-log", feature = "websocket"))]
mod trusted_proxies;
