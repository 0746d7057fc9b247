//! Handlers and what surrounds them: routes, middleware, bodies of all kinds.

mod body_filters;
mod cancel;
#[cfg(feature = "compress")]
pub mod compress;
mod cors;
mod cors_in_browsers;
mod departures;
mod error_responses;
mod events;
mod forms;
mod guards;
mod handlers;
#[cfg(feature = "http")]
mod http_types;
mod idempotency;
#[cfg(feature = "json")]
mod json;
#[cfg(all(feature = "compress", feature = "fs", feature = "tower"))]
mod layers;
mod middleware;
#[cfg(feature = "multipart")]
mod multipart;
#[cfg(all(feature = "compress", feature = "fs", feature = "multipart"))]
mod own_work;
mod plans;
mod problems;
mod promised_statuses;
mod queue;
mod refusals;
mod route_histories;
pub mod router;
mod service;
#[cfg(feature = "session")]
mod sessions;
mod setters;
mod shared_rates;
mod streaming;
#[cfg(feature = "tower")]
mod tower;
#[cfg(feature = "form")]
mod typed_forms;
