//! [`Server`] with its settings, and [`Service`], a server without sockets.
//!
//! A file here adds the settings of one feature to [`Server`]. Their effect stands in another folder.

mod server;

mod error_status;
mod observe;

#[cfg(all(feature = "handover", unix))]
mod handover;
#[cfg(feature = "proxy-protocol")]
mod proxy_protocol;
#[cfg(all(feature = "systemd", unix))]
mod systemd;
#[cfg(feature = "tls")]
mod tls;

mod service;

pub use server::Server;
pub use service::Service;
