//! The parts of a start-line (RFC 9112 §3, §4), but for the target.

mod method;
mod status;
mod version;

mod invalid_request;

pub use invalid_request::{InvalidRequest, InvalidTarget};
pub use method::{ExtensionMethod, InvalidMethod, Method};
pub(crate) use status::Explained;
pub use status::{InvalidStatus, Status};
pub use version::Version;
