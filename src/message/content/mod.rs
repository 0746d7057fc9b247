//! Content (RFC 9110 §6.4): bodies, and the types of content that need no feature.

mod body;
#[cfg(any(feature = "fs", feature = "multipart"))]
mod body_chain;

mod charset;
mod content;
mod form;
mod problem;

pub use body::Body;
pub(crate) use body::{BodyLength, BodySource, FileRange};
#[cfg(any(feature = "fs", feature = "multipart"))]
pub(crate) use body_chain::{BodyChain, ChainLink, multipart};
pub use charset::{InvalidCharset, InvalidText};
pub(crate) use content::ContentError;
pub(super) use content::{decode_text, essence};
pub(super) use form::FORM_TYPE;
pub use form::{Form, FormBuf, FormPairs, InvalidForm, InvalidPairs, InvalidValue};
pub use problem::Problem;
