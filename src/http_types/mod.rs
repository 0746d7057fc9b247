//! Floor 2: messages and their parts as types of the crates `http` and `http-body`, and back.

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
