//! Parts of messages: methods, fields, forms, credentials (RFC 9110).
//!
//! [`Request`] and [`Response`] are the messages themselves. On both, a bare noun reads and
//! `set_` writes:
//!
//! ```
//! use corehttp::message::escape_html;
//! use corehttp::{Request, Response};
//!
//! let request = Request::get("http://example.com/search?q=%3Cb%3E")?;
//! let query = request.query();
//! let term = query.get("q").unwrap_or_default();
//!
//! let mut response = Response::new();
//! response.set_html(format!("<p>{}</p>", escape_html(&term)));
//! assert_eq!(response.text()?, "<p>&lt;b&gt;</p>");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A type of your own becomes a parameter of a path, a form or a cookie by [`FromText`], and the value of a field by
//! [`FieldValue`].

// Floor 1: what a message means (RFC 9110). Values only: nothing here reads a socket or a clock.
//
// In reading order: messages; their parts, from the first line to the last; and how texts are spelled.

pub(crate) mod request;
pub(crate) mod response;

pub(crate) mod start_line;
pub(crate) mod uri;

pub(crate) mod cookie;
pub(crate) mod fields;

pub(crate) mod content;

pub(crate) mod message_error;

pub(crate) mod text;

pub use content::FormPairs;
pub(crate) use content::{
    Body, BodyLength, BodySource, ContentError, FileRange, Form, FormBuf, Problem, ValueError,
};
#[cfg(any(feature = "fs", feature = "multipart"))]
pub(crate) use content::{BodyChain, ChainLink, multipart};
pub use cookie::RawSetCookie;
pub(crate) use cookie::{Cookies, SetCookie};
pub use fields::{BasicAuth, FieldValue, HeadersIter, Parameters, ParametersError};
pub(crate) use fields::{
    CONTENT_FIELDS, FRAMING_FIELDS, FieldName, Headers, HeadersDraft, NameSet, Repeated, SINGLE_FIELDS,
    basic_credentials, describes_client, is_field_value, is_tchar, is_token, members, remove_freshness,
    token_len, trim,
};
pub(crate) use message_error::{CookieFault, MessageError, TargetError};
pub(crate) use request::{NO_PATTERN, PathParams, Request, RequestDraft, RequestLineDraft, RoutePattern};
#[cfg(feature = "fs")]
pub(crate) use request::{
    PreconditionResult, RangeSelection, Validators, evaluate_preconditions, may_send_range,
};
pub(crate) use response::Response;
pub use response::{ClientInfo, Redirect, Timings};
pub use start_line::ExtensionMethod;
pub(crate) use start_line::{Explained, Method, PeerFault, Status, Version};
#[cfg(any(feature = "multipart", all(windows, feature = "fs")))]
pub(crate) use text::is_file_name;
#[cfg(feature = "fs")]
pub(crate) use text::month_number;
pub use text::{FromText, escape_html, escape_json, escape_log};
pub(crate) use text::{
    HttpDate, OctetSet, decimal, delta_seconds, find_octet, first_in_eight, saturating_decimal,
};
#[cfg(feature = "access-log")]
pub(crate) use text::{write_json_string, write_log_text};
pub use uri::TargetForm;
pub(crate) use uri::{
    Authority, HostMap, Scheme, Target, TargetBase, is_origin_of, port_number, split_port, uri_host,
    without_end_dot,
};
