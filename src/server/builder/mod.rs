//! [`Server`] with its settings, and [`Service`], a server without sockets.
//!
//! A file here adds the settings of one feature to [`Server`]; what a setting does stands in another folder.

mod server;

mod error_status;
mod observe;

#[cfg(all(feature = "handover", unix))]
mod handed_over;
#[cfg(all(feature = "systemd", unix))]
mod managed;
#[cfg(feature = "proxy-protocol")]
mod proxied;
#[cfg(feature = "tls")]
mod tls;

mod service;

pub use server::Server;
pub use service::Service;
