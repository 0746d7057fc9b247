//! [`ClientError`]: how far an exchange came, and why no further.

mod cause;
mod error;

pub(super) use cause::ProxyRefusal;
pub use cause::{ClientCause, ClientPhase};
pub use error::ClientError;
