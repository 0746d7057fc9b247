//! [`Error`], which a handler returns: its report, and its response.

mod error;
mod respond_error;

mod error_report;
mod error_response;

pub use error::{Error, IntoError, Result};
pub(crate) use error_report::Failure;
pub use error_report::{ErrorCause, ErrorReport, ProxyHeaderFault};
pub(crate) use error_response::ErrorResponses;
pub use error_response::{error_page, problem_details};
pub use respond_error::RespondError;
