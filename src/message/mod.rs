//! Floor 1: what a message means (RFC 9110). Values only: nothing here reads a socket or a clock.
//!
//! In reading order: messages; their start-lines; fields; other parts; what is read from messages and made of them; and
//! how texts are spelled.

mod invalid_request;
mod request;
mod response;

mod method;
mod status;
mod target;
mod version;

mod fields;

mod body;
#[cfg(any(feature = "fs", feature = "multipart"))]
mod body_chain;
mod timings;

mod charset;
mod content;
mod cookie;
mod credentials;
mod form;
mod forward;
mod precondition;

mod text;

pub use body::Body;
pub(crate) use body::{BodyLength, BodySource, FileRange};
#[cfg(any(feature = "fs", feature = "multipart"))]
pub(crate) use body_chain::{BodyChain, ChainLink, multipart};
pub use charset::InvalidCharset;
#[cfg(feature = "json")]
pub(crate) use content::ContentError;
pub use cookie::{Cookies, InvalidCookie, RawSetCookie, SameSite, SetCookie};
pub use credentials::BasicAuth;
pub(crate) use fields::{
    CONTENT_FIELDS, FRAMING_FIELDS, FieldName, NameHash, Repeated, is_field_value, is_tchar, is_token,
    members, token_len, trim,
};
pub use fields::{FieldValue, Headers, HeadersIter, InvalidField};
pub use form::{Form, FormBuf, FormPairs, InvalidForm, InvalidValue};
pub use invalid_request::InvalidRequest;
pub use method::{ExtensionMethod, InvalidMethod, Method};
#[cfg(feature = "fs")]
pub(crate) use precondition::{PreconditionResult, Validators, evaluate_preconditions};
pub use request::Request;
pub use response::Response;
pub use status::{InvalidStatus, Status};
#[cfg(any(feature = "fs", feature = "tower"))]
pub(crate) use target::escape_resource;
pub(crate) use target::{Authority, Scheme, port_number, split_port, uri_host};
pub use target::{InvalidTarget, Target, TargetForm};
#[cfg(any(feature = "multipart", all(windows, feature = "fs")))]
pub(crate) use text::is_file_name;
pub use text::{FromText, InvalidCredentials, InvalidText};
pub(crate) use text::{
    ImfDate, OctetSet, basic_credentials, decimal, month_number, percent, saturating_decimal,
};
pub use timings::Timings;
pub use version::Version;
