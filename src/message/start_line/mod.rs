//! The parts of a start-line (RFC 9112 §3, §4), but for the target.

mod method;
mod status;
mod version;

pub use method::{ExtensionMethod, Method};
pub use status::Status;
pub(crate) use status::{Explained, PeerFault};
pub use version::Version;
