//! The target of a request (RFC 9112 §3.2), and its URLs and references (RFC 3986, WHATWG URL).

mod components;
mod host_map;
mod target;
mod url;

mod idna;

pub use components::TargetForm;
pub(crate) use components::{Authority, Scheme, is_origin_of, port_number, split_port};
pub(crate) use host_map::{HostMap, without_end_dot};
pub use target::Target;
pub(crate) use target::TargetBase;
pub(super) use target::decode_path;
pub(crate) use url::uri_host;

#[cfg(test)]
mod tests;
