//! Parses the heads of messages, and trailer sections (RFC 9112 §2 to §5, §7.1.2).
//!
//! httparse brings the grammar. The policy is here: every line ends with CRLF, every bound holds, and the host
//! is one that all readers agree on. What is spelled as nearly all heads are does not even come to httparse.

mod lines;
mod plain;

mod request;
mod response;
mod trailers;

pub(crate) use request::{check_fields, request};
pub(crate) use response::response;
pub(crate) use trailers::trailers;
