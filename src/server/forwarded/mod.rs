//! The client that a request comes from, and the URL that it used, where proxies stand between (RFC 7239).

mod forwarded;
mod trusted_proxies;

pub use forwarded::Forwarded;
pub(super) use forwarded::client_ip;
pub(crate) use forwarded::{FORWARDED, X_FORWARDED_FOR, X_FORWARDED_HOST, X_FORWARDED_PROTO};
pub use trusted_proxies::{ForwardedField, InvalidNetwork, TrustedProxies};
