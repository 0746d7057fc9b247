//! Fields (RFC 9110 §5): the lines of a message, their names and their values.

mod headers;

mod draft;
mod freshness;
mod list;
mod name;
mod parameters;
mod value;

mod client_fields;
mod credentials;

pub(crate) use client_fields::describes_client;
pub use credentials::BasicAuth;
pub(crate) use credentials::basic_credentials;
pub(crate) use credentials::is_token68;
pub(crate) use draft::HeadersDraft;
pub(crate) use freshness::remove_freshness;
pub use headers::{Headers, HeadersIter};
pub(crate) use name::{
    CONTENT_FIELDS, FRAMING_FIELDS, FieldName, NameSet, SINGLE_FIELDS, is_tchar, is_token, token_len,
};
pub use parameters::{Parameters, ParametersError};
pub use value::FieldValue;
pub(crate) use value::{Repeated, is_field_value, members, trim};
