//! Floor 4: the client.

mod origin;

mod error;
mod timeouts;

pub use error::{ClientCause, ClientError, ClientPhase};
pub use timeouts::ClientTimeouts;
