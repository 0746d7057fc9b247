//! Floor 1: what a message means (RFC 9110). Values only: nothing here reads a socket or a clock.

mod authority;
mod body;
mod class;
mod date;
mod headers;
mod list;
mod method;
mod name;
mod percent;
mod query;
mod request;
mod response;
mod scheme;
mod status;
mod target;
mod timings;
mod value;
mod version;

pub(crate) use authority::Authority;
pub(crate) use body::Length;
pub use body::{Body, Source};
pub(crate) use date::ImfDate;
pub(crate) use headers::decimal;
pub use headers::{Headers, InvalidField, Iter};
pub(crate) use list::members;
pub use method::{ExtensionMethod, InvalidMethod, Method};
pub(crate) use name::{Name, Tag, is_tchar, is_token};
pub use query::{Pairs, Query};
pub use request::{InvalidRequest, Request};
pub use response::Response;
pub(crate) use scheme::Scheme;
pub use status::{InvalidStatus, Status};
pub use target::{InvalidTarget, Target, TargetForm};
pub use timings::Timings;
pub use value::FieldValue;
pub use version::Version;
