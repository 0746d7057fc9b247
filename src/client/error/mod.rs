//! [`ClientError`]: how far an exchange came, and why no further.

mod cause;
mod error;
mod retry_report;

pub(crate) use cause::ProxyRefusal;
pub use cause::{ClientCause, ClientPhase};
pub use error::ClientError;
pub(super) use retry_report::RetryLog;
pub use retry_report::{RetryCause, RetryReport, RetryStop};
