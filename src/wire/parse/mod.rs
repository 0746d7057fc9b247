//! Parses the heads of messages, and trailer sections (RFC 9112 §2 to §5, §7.1.2).
//!
//! httparse reads the grammar of every head, and nothing here reads it again. The rules beyond the grammar are here: every
//! line ends with CRLF, every limit holds, and all readers agree on the host.

mod end_search;
mod fields;
mod leniency;

mod request;
mod response;

pub(crate) use end_search::EndSearch;
pub(super) use fields::is_forbidden_in_trailers;
pub(crate) use fields::{ForbiddenTrailers, mended_trailers, trailers};
pub(crate) use leniency::Leniency;
pub(crate) use request::{begins_with, check_fields, is_proxy_header, refused_line, request, request_front};
pub(crate) use response::{ResponseHead, mended_response, response};
