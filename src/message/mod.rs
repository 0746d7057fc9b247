//! Floor 1: what a message means (RFC 9110). Values only: nothing here reads a socket or a clock.
//!
//! In reading order: the messages, their start-lines, fields, what else they have, what is read from them and made of them,
//! and how texts are spelled.

mod invalid_request;
mod request;
mod response;

mod authority;
mod method;
mod reference;
mod scheme;
mod status;
mod target;
mod version;

mod field;
mod headers;
mod headers_iter;
mod list;
mod name;
mod value;

mod body;
mod timings;

mod cookie;
mod form;
mod form_buf;
mod forward;

mod class;
mod date;
mod decimal;
mod from_text;
pub(crate) mod percent;
mod text;

pub(crate) use authority::{Authority, split_port};
pub use body::Body;
pub(crate) use body::{FileRange, Length, Source};
pub(crate) use class::Class;
pub use cookie::{Cookies, InvalidCookie, SameSite, SetCookie};
pub(crate) use date::{ImfDate, month_number};
pub(crate) use decimal::{decimal, saturating_decimal};
pub use field::InvalidField;
pub use form::{Form, FormPairs, InvalidForm};
pub use form_buf::FormBuf;
pub use from_text::FromText;
pub use headers::Headers;
pub(crate) use headers::Several;
pub use headers_iter::HeadersIter;
pub use invalid_request::InvalidRequest;
pub(crate) use list::members;
#[cfg(any(feature = "compress", feature = "fs", feature = "multipart"))]
pub(crate) use list::trim;
pub use method::{ExtensionMethod, InvalidMethod, Method};
pub(crate) use name::{Name, Tag, is_tchar, is_token, token_len};
pub use request::Request;
pub use response::Response;
pub(crate) use scheme::Scheme;
pub use status::{InvalidStatus, Status};
pub use target::{InvalidTarget, Target, TargetForm};
pub use text::InvalidText;
pub use timings::Timings;
pub use value::FieldValue;
pub use version::Version;
