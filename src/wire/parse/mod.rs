//! Parses the heads of messages, and trailer sections (RFC 9112 §2 to §5, §7.1.2).
//!
//! httparse knows the grammar. The rules beyond it are here: every line ends with CRLF, every limit holds, and all
//! readers agree on the host. Heads that are written as nearly all are never reach httparse.

mod fast_path;
mod fields;

mod request;
mod response;

pub(super) use fields::is_no_trailer;
pub(crate) use fields::{ForbiddenTrailers, trailers};
pub(crate) use request::{check_fields, request};
pub(crate) use response::response;
