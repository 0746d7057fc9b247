//! Floor 5: gateways, which answer with the response of another server (RFC 9110 §3.7, §7.6).

mod forward;
mod forward_auth;
mod forwarded_fields;
mod relay;
mod tunnel;

pub use forward_auth::ForwardAuth;
