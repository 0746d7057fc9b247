//! Messages and their parts as types of the crates `http` and `http-body`, and back.
//!
//! ```
//! let request = corehttp::Request::get("http://example.com/")?;
//! let request: http::Request<corehttp::http_types::HttpBody> = request.try_into()?;
//! assert_eq!(request.uri().host(), Some("example.com"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! [`Body::set_http_body`](crate::Body::set_http_body) sends a body of `http-body`.

// Floor 2: messages and their parts as types of the crates `http` and `http-body`, and back.

mod message;

mod header_map;
mod start_line;

mod body;
mod frame_reader;

mod conversion_error;

pub use body::HttpBody;
pub use conversion_error::ConversionError;
#[cfg(feature = "tower")]
pub(crate) use frame_reader::downcast;
#[cfg(feature = "tower")]
pub(crate) use header_map::append_header_map;
#[cfg(feature = "tower")]
pub(crate) use message::{take_http_response, to_http_request, to_http_response};
