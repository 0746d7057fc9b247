//! [`write_error_response`]: the content of error responses, the crate's and the application's (RFC 9110 §15.5, §15.6).

use std::io::Write;
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use super::error_report::{ErrorCause, ErrorReport};
use crate::memory::Reset;
use crate::message::{FRAMING_FIELDS, Response, Status};
use crate::net::TlsError;

/// The function of [`Server::error_response`](super::Server::error_response).
pub(super) type ErrorResponseFn = Arc<dyn Fn(&ErrorReport<'_>, &mut Response) + Send + Sync>;

/// Makes `response` the response to the reported failure. Fields that describe no content stay, as those that
/// middleware has set.
///
/// # Errors
///
/// Fails if the application's function has panicked. The response is then the one without the function.
pub(super) fn write_error_response(
    function: Option<&ErrorResponseFn>,
    report: &ErrorReport<'_>,
    response: &mut Response,
) -> Result<(), Panicked> {
    let status = report.status.unwrap_or(Status::INTERNAL_SERVER_ERROR);
    set_default(response, status, &report.cause);
    let Some(function) = function else { return Ok(()) };
    let call = AssertUnwindSafe(|| {
        function(report, response);
        // A shared body may run code of the application when it is dropped, and a stream when it is read. The content
        // is copied instead, as far as it can be appended to: a stream cannot.
        response.body.write_all(b"")
    });
    let called = catch_unwind(call);
    let mut has_panicked = called.is_err();
    if !matches!(called, Ok(Ok(()))) {
        let rejected = mem::take(&mut response.body);
        has_panicked |= catch_unwind(AssertUnwindSafe(|| drop(rejected))).is_err();
        set_default(response, status, &report.cause);
    }
    // The status decides whether a response has content, and whether a CONNECT opens a tunnel (RFC 9112 §6.3).
    response.status = status;
    response.trailers.reset();
    response.headers.remove_each(&FRAMING_FIELDS);
    if has_panicked { Err(Panicked) } else { Ok(()) }
}

/// The application's function has panicked.
#[derive(Debug)]
pub(super) struct Panicked;

/// Sets a text that explains the status alone: nothing that the peer sent is reflected.
fn set_default(response: &mut Response, status: Status, cause: &ErrorCause) {
    response.remove_content();
    response.status = status;
    response.set_text(explanation(cause).unwrap_or(status.reason()));
}

/// A sentence for a person, where the reason of the status is not enough.
fn explanation(cause: &ErrorCause) -> Option<&'static str> {
    match cause {
        // Most such peers are browsers, whose users have typed `http` for `https`.
        ErrorCause::Tls(TlsError::PlainText) => {
            Some("This port speaks HTTPS, and the request came in plain HTTP.")
        }
        _ => None,
    }
}
