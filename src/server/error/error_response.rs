//! [`ErrorResponses`]: the content of error responses, the crate's and the application's (RFC 9110 §15.5, §15.6,
//! RFC 9457).

use std::io::Write;
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use super::error::ErrorStatuses;
use super::error_report::ErrorReport;
use crate::memory::Reset;
use crate::message::{FRAMING_FIELDS, FieldName, Problem, Response, Status, remove_freshness};

/// How failures are answered, as far as the application has chosen.
#[derive(Clone, Default)]
pub(crate) struct ErrorResponses {
    pub(crate) statuses: ErrorStatuses,
    /// Sets the content, in place of the crate's.
    pub(crate) function: Option<ErrorResponseFn>,
}

/// The function of [`Server::error_response`](crate::Server::error_response).
type ErrorResponseFn = Arc<dyn Fn(&ErrorReport<'_>, &mut Response) + Send + Sync>;

impl ErrorResponses {
    /// Makes `response` the response to the reported failure. Fields that describe no content stay, as those that
    /// middleware has set, except for the time for which the content might have been stored.
    ///
    /// # Errors
    ///
    /// Fails if the application's function has panicked. The response is then the one without the function.
    pub(crate) fn write(&self, report: &ErrorReport<'_>, response: &mut Response) -> Result<(), Panicked> {
        let status = report.status.unwrap_or(Status::INTERNAL_SERVER_ERROR);
        set_default(response, status, report);
        let Some(function) = &self.function else { return Ok(()) };
        let call = AssertUnwindSafe(|| {
            function(report, response);
            // A shared body may run code of the application when it is dropped, and a stream when it is read. The content
            // is copied instead, as far as it can be appended to: a stream cannot.
            response.body.write_all(b"")
        });
        let called = catch_unwind(call);
        let mut has_panicked = called.is_err();
        if !matches!(called, Ok(Ok(()))) {
            let discarded = mem::take(&mut response.body);
            has_panicked |= catch_unwind(AssertUnwindSafe(|| drop(discarded))).is_err();
            set_default(response, status, report);
        }
        // The status decides whether a response has content, and whether a CONNECT opens a tunnel (RFC 9112 §6.3).
        response.status = status;
        response.trailers.reset();
        response.headers.remove_each(&FRAMING_FIELDS);
        if has_panicked { Err(Panicked) } else { Ok(()) }
    }
}

/// The application's function has panicked.
#[derive(Debug)]
pub(crate) struct Panicked;

/// Sets the content that the peer gets without a function.
fn set_default(response: &mut Response, status: Status, report: &ErrorReport<'_>) {
    response.remove_content();
    if status.is_client_error() || status.is_server_error() {
        remove_freshness(&mut response.headers);
    }
    response.status = status;
    match report.cause.problem() {
        Some(_) => problem_details(report, response),
        None => set_problem_text(response, &report.problem()),
    }
}

/// Makes problem details (RFC 9457) the content of an error response, in JSON for programs and as a page for browsers.
/// A function for [`Server::error_response`](crate::Server::error_response).
///
/// A client that prefers `text/plain` or `text/html`, by its `accept`, gets these. So a person who opens a link of an
/// API reads a page. All others, such as curl and the `fetch` of a script, get `application/problem+json`. The details
/// are those of [`ErrorReport::problem`], with all members of the [`Problem`](crate::Problem). The response has
/// `vary: accept`. A redirect, such as that of [`HttpsRedirect`](crate::middleware::HttpsRedirect), keeps its reason.
///
/// # Examples
///
/// ```
/// use corehttp::{Context, Request, Server, Status};
/// use corehttp::server::problem_details;
///
/// let server = Server::new().error_response(problem_details);
/// let service = server.service(|_: &mut Context| Err(Status::NOT_FOUND.into()));
/// let response = corehttp::block_on(service.respond(Request::get("/none")?))?;
/// assert_eq!(response.headers.content_type(), Some("application/problem+json"));
/// assert_eq!(response.text()?, r#"{"title":"Not Found","status":404}"#);
/// let mut from_browser = Request::get("/none")?;
/// from_browser.headers.set("accept", "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8")?;
/// let response = corehttp::block_on(service.respond(from_browser.clone()))?;
/// assert_eq!(response.headers.content_type(), Some("text/html; charset=utf-8"));
///
/// // JSON, whatever a client prefers:
/// let server = Server::new().error_response(|report, response| response.set_problem(&report.problem()));
/// # let service = server.service(|_: &mut Context| Err(Status::NOT_FOUND.into()));
/// # let response = corehttp::block_on(service.respond(from_browser))?;
/// # assert_eq!(response.headers.content_type(), Some("application/problem+json"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn problem_details(report: &ErrorReport<'_>, response: &mut Response) {
    write_preferred(report, response, [JSON, "application/json", TEXT, HTML]);
}

/// Makes a page the content of an error response, with the details of [`ErrorReport::problem`]. A function for
/// [`Server::error_response`](crate::Server::error_response).
///
/// A client that prefers `text/plain` or `application/problem+json`, by its `accept`, gets these. All others get the
/// page. The response has `vary: accept`. A redirect keeps its reason.
///
/// # Examples
///
/// ```
/// use corehttp::{Context, Request, Server, Status};
/// use corehttp::server::error_page;
///
/// let server = Server::new().error_response(error_page);
/// let service = server.service(|_: &mut Context| Err(Status::NOT_FOUND.into()));
/// let response = corehttp::block_on(service.respond(Request::get("/none")?))?;
/// assert!(response.text()?.contains("<h1>404 Not Found</h1>"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn error_page(report: &ErrorReport<'_>, response: &mut Response) {
    write_preferred(report, response, [HTML, TEXT, JSON, "application/json"]);
}

const HTML: &str = "text/html";
const JSON: &str = "application/problem+json";
const TEXT: &str = "text/plain";

/// Writes the details of a report in the form that the client prefers of those `offered`. If it accepts none, the first
/// one is better than nothing (RFC 9110 §12.5.1).
fn write_preferred(report: &ErrorReport<'_>, response: &mut Response, offered: [&'static str; 4]) {
    // A redirect is no problem (RFC 9457 §1), and neither is a handler that fails with one to end a request early.
    if response.status.is_redirection() && report.cause.problem().is_none() {
        return;
    }
    let preferred = report.request.and_then(|request| request.preferred_type(offered));
    let problem = report.problem();
    match preferred.unwrap_or(offered[0]) {
        HTML => response.set_problem_page(&problem),
        TEXT => set_problem_text(response, &problem),
        _ => response.set_problem(&problem),
    }
    response.headers.vary_by("accept");
}

/// Writes a problem as text. Its detail may quote a name that the peer sent, so a browser must not take it for a page.
fn set_problem_text(response: &mut Response, problem: &Problem) {
    if problem.detail().is_some() {
        response.headers.put(FieldName::new("x-content-type-options"), b"nosniff");
    }
    response.set_text(problem.detail().unwrap_or(problem.title()));
}
