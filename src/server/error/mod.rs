//! [`Error`], which a handler returns: its report, and its response.

mod error;
mod invalid_response;

mod error_report;
mod error_response;

pub(super) use error::ErrorStatuses;
pub use error::{Error, IntoError, Result};
pub(super) use error_report::Refused;
pub use error_report::{ErrorCause, ErrorReport, InvalidProxyHeader};
pub(super) use error_response::{ErrorResponseFn, write_error_response};
pub use error_response::{error_page, problem_details};
pub use invalid_response::InvalidResponse;
