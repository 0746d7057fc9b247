//! Floor 5: JSON, by serde (RFC 8259).
//!
//! A handler calls [`Request::json`](crate::Request::json) and [`Response::set_json`](crate::Response::set_json); a
//! client calls [`Request::set_json`](crate::Request::set_json) and [`Response::json`](crate::Response::json).

mod codec;

pub use codec::{InvalidJson, JsonError};
