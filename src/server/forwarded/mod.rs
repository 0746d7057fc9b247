//! The client and the URL of a request, behind proxies (RFC 7239).

mod forwarded;
mod source;
mod trusted_proxies;

pub use forwarded::Forwarded;
pub(crate) use forwarded::client_ip;
pub(crate) use forwarded::{FORWARDED, X_FORWARDED_FOR, X_FORWARDED_HOST, X_FORWARDED_PROTO};
pub(crate) use source::Source;
pub use trusted_proxies::{ForwardedHeader, NetworkParseError, TrustedProxies};
