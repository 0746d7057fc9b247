//! Parts of messages: methods, fields, forms, credentials, and the errors of values that are not valid (RFC 9110).
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
// In reading order: messages; their start-lines; fields; other parts; what is read from messages and made of them; and
// how texts are spelled.

mod invalid_request;
pub(crate) mod request;
pub(crate) mod response;

pub(crate) mod method;
pub(crate) mod status;
pub(crate) mod uri;
pub(crate) mod version;

pub(crate) mod fields;

pub(crate) mod body;
#[cfg(any(feature = "fs", feature = "multipart"))]
mod body_chain;

mod authorization;
mod charset;
mod content;
pub(crate) mod cookie;
mod credentials;
pub(crate) mod form;
mod forward;
mod negotiation;
mod precondition;
pub(crate) mod problem;
mod range;

mod matched_route;
pub(crate) mod path_params;

pub(crate) mod date;
mod escape;
#[cfg(any(feature = "multipart", all(windows, feature = "fs")))]
mod file_name;
mod from_text;
mod head_display;
mod octet_set;
pub(crate) mod percent;

pub(crate) use body::Body;
pub(crate) use body::{BodyLength, BodySource, FileRange};
#[cfg(any(feature = "fs", feature = "multipart"))]
pub(crate) use body_chain::{BodyChain, ChainLink, multipart};
pub use charset::{InvalidCharset, InvalidText};
pub(crate) use content::ContentError;
pub(crate) use cookie::{Cookies, SetCookie};
pub use cookie::{InvalidCookie, RawSetCookie};
pub(crate) use credentials::basic_credentials;
use credentials::is_token68;
pub use credentials::{BasicAuth, InvalidCredentials};
pub(crate) use date::HttpDate;
#[cfg(feature = "fs")]
pub(crate) use date::month_number;
pub use escape::{escape_html, escape_json, escape_log};
#[cfg(feature = "access-log")]
pub(crate) use escape::{write_json_string, write_log_text};
pub(crate) use fields::Headers;
pub(crate) use fields::{
    CONTENT_FIELDS, FRAMING_FIELDS, FieldName, HeadersDraft, NameSet, Repeated, is_field_value, is_tchar,
    is_token, members, token_len, trim,
};
pub use fields::{FieldValue, HeadersIter, InvalidField, InvalidParameters, Parameters};
#[cfg(any(feature = "multipart", all(windows, feature = "fs")))]
pub(crate) use file_name::is_file_name;
pub(crate) use form::{Form, FormBuf};
pub use form::{FormPairs, InvalidForm, InvalidPairs, InvalidValue};
pub use from_text::FromText;
pub(crate) use from_text::{decimal, saturating_decimal};
pub use invalid_request::{InvalidRequest, InvalidTarget};
pub(crate) use matched_route::{MatchedRoute, NO_PATTERN, RoutePattern};
pub(crate) use method::Method;
pub use method::{ExtensionMethod, InvalidMethod};
pub(crate) use octet_set::{OctetSet, find_octet, first_in_eight};
pub use path_params::InvalidPathParam;
pub(crate) use path_params::PathParams;
#[cfg(feature = "fs")]
pub(crate) use precondition::{PreconditionResult, Validators, evaluate_preconditions};
pub(crate) use problem::Problem;
#[cfg(feature = "fs")]
pub(crate) use range::{RangeSelection, may_send_range};
pub(crate) use request::Request;
pub(crate) use request::{RequestDraft, RequestLineDraft};
pub(crate) use response::Response;
pub use response::{ClientInfo, Timings};
pub use status::InvalidStatus;
pub(crate) use status::Status;
pub(crate) use uri::Target;
pub use uri::TargetForm;
pub(crate) use uri::{Authority, Scheme, TargetBase, is_origin_of, port_number, split_port, uri_host};
pub(crate) use version::Version;
