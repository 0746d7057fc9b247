//! Content (RFC 9110 §6.4): bodies, and the types of content without a feature of their own.

mod body;
#[cfg(any(feature = "fs", feature = "multipart"))]
mod body_chain;

mod charset;
mod content;
mod form;
mod problem;

mod content_error;
mod value_error;

pub use body::Body;
pub(crate) use body::{BodyLength, BodySource, FileRange};
#[cfg(any(feature = "fs", feature = "multipart"))]
pub(crate) use body_chain::{BodyChain, ChainLink, multipart};
pub(crate) use content::{decode_text, essence, is_event_stream};
pub(crate) use content_error::CharsetError;
pub use content_error::ContentError;
pub(crate) use content_error::ContentFault;
#[cfg(any(feature = "form", feature = "json"))]
pub(crate) use content_error::ValueFault;
pub(crate) use form::FORM_TYPE;
pub use form::{Form, FormBuf, FormPairs};
pub use problem::Problem;
pub use value_error::ValueError;
