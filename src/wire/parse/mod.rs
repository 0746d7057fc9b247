//! Parses the heads of messages, and trailer sections (RFC 9112 §2 to §5, §7.1.2).
//!
//! httparse checks the grammar. The rules beyond the grammar are here: every line ends with CRLF, every limit holds, and
//! all readers agree on the host. Most heads are parsed by the fast path, and never reach httparse.

mod fast_path;
mod fields;

mod request;
mod response;

pub(super) use fields::is_forbidden_in_trailers;
pub(crate) use fields::{ForbiddenTrailers, trailers};
pub(crate) use request::{begins_with, check_fields, refused_line, request, request_front};
pub(crate) use response::response;
