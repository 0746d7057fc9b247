//! [`Problem`]: the details of an error, for programs and for people (RFC 9457).

use std::borrow::Cow;
use std::error::Error;
use std::fmt;
use std::io::{self, Write};

use crate::message::Status;
use crate::message::text::{escape_html, write_json_string};

/// The details of an error as a response explains them: problem details (RFC 9457), in JSON.
///
/// A handler fails with one, as in the example, or writes one with
/// [`Response::set_problem`](crate::Response::set_problem). As an error, a problem is sent in the form that the client
/// prefers: `application/problem+json`, a page or text. With [`problem_details`](crate::server::problem_details), all
/// error responses are problems.
///
/// All of a problem is sent to the peer. Put nothing into it that the peer must not see.
///
/// # Examples
///
/// ```
/// use corehttp::{Context, Problem, Request, Server, Status};
///
/// fn pay(_: &mut Context) -> corehttp::Result {
///     let problem = Problem::new(Status::FORBIDDEN)
///         .with_type("https://example.com/probs/out-of-credit")
///         .with_title("You do not have enough credit.")
///         .with_detail("Your current balance is 30, but that costs 50.");
///     Err(problem.into())
/// }
///
/// let service = Server::new().service(pay);
/// let response = corehttp::block_on(service.respond(Request::post("/pay")?))?;
/// assert_eq!(response.status, Status::FORBIDDEN);
/// assert_eq!(response.headers.content_type(), Some("application/problem+json"));
/// assert!(response.text()?.contains(r#""detail":"Your current balance is 30, but that costs 50.""#));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[doc(alias("rfc7807", "rfc9457", "application/problem+json"))]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    status: Status,
    type_uri: Option<Text>,
    title: Option<Text>,
    detail: Option<Text>,
    instance: Option<Text>,
    /// The extension members, each with its value in JSON.
    pub(crate) members: Vec<(Box<str>, String)>,
}

type Text = Cow<'static, str>;

impl Problem {
    /// Creates the problem that a status stands for by itself, with the [reason](Status::reason) of the status as the title
    /// (RFC 9457 §4.2.1).
    pub const fn new(status: Status) -> Problem {
        Problem { status, type_uri: None, title: None, detail: None, instance: None, members: Vec::new() }
    }

    /// Sets the type, a URI for the kind of problem. The URI should lead to a description (RFC 9457 §3.1.1).
    pub fn with_type(mut self, type_uri: impl Into<Cow<'static, str>>) -> Problem {
        self.type_uri = Some(type_uri.into());
        self
    }

    /// Sets the title: a summary for people, the same for all problems of the type (RFC 9457 §3.1.3).
    pub fn with_title(mut self, title: impl Into<Cow<'static, str>>) -> Problem {
        self.title = Some(title.into());
        self
    }

    /// Sets the detail: an explanation of this problem for people (RFC 9457 §3.1.4).
    pub fn with_detail(mut self, detail: impl Into<Cow<'static, str>>) -> Problem {
        self.detail = Some(detail.into());
        self
    }

    /// Sets the instance: a URI that identifies this problem among all, for a log or for support (RFC 9457 §3.1.5).
    pub fn with_instance(mut self, instance: impl Into<Cow<'static, str>>) -> Problem {
        self.instance = Some(instance.into());
        self
    }

    /// Sets the status, and keeps the rest.
    pub(crate) fn with_status(mut self, status: Status) -> Problem {
        self.status = status;
        self
    }

    /// Returns the status.
    pub fn status(&self) -> Status {
        self.status
    }

    /// Returns the type. Default: `about:blank` (RFC 9457 §4.2.1).
    pub fn type_uri(&self) -> &str {
        self.type_uri.as_deref().unwrap_or("about:blank")
    }

    /// Returns the title. Default: the [reason](Status::reason) of the status.
    pub fn title(&self) -> &str {
        self.title.as_deref().unwrap_or(self.status.reason())
    }

    /// Returns the detail, if it was set.
    pub fn detail(&self) -> Option<&str> {
        self.detail.as_deref()
    }

    /// Returns the instance, if it was set.
    pub fn instance(&self) -> Option<&str> {
        self.instance.as_deref()
    }

    /// Writes the problem as JSON (RFC 9457 §3).
    pub(crate) fn write_json(&self, out: &mut impl Write) -> io::Result<()> {
        out.write_all(b"{")?;
        let texts = [
            ("type", self.type_uri.as_deref()),
            ("title", Some(self.title()).filter(|title| !title.is_empty())),
            ("detail", self.detail()),
            ("instance", self.instance()),
        ];
        for (name, text) in texts.iter().filter_map(|(name, text)| Some((name, (*text)?))) {
            write!(out, "\"{name}\":")?;
            write_json_string(out, text)?;
            out.write_all(b",")?;
        }
        write!(out, "\"status\":{}", self.status.as_u16())?;
        for (name, value) in &self.members {
            out.write_all(b",")?;
            write_json_string(out, name)?;
            write!(out, ":{value}")?;
        }
        out.write_all(b"}")
    }

    /// Writes the problem as a page.
    pub(crate) fn write_html(&self, out: &mut impl Write) -> io::Result<()> {
        let status = self.status.as_u16();
        let title = escape_html(self.title());
        let space = if title.is_empty() { "" } else { " " };
        write!(
            out,
            "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n<title>{status}{space}{title}</title>\n\
             <h1>{status}{space}{title}</h1>\n"
        )?;
        match self.detail() {
            Some(detail) => writeln!(out, "<p>{}</p>", escape_html(detail)),
            None => Ok(()),
        }
    }
}

impl From<Status> for Problem {
    fn from(status: Status) -> Problem {
        Problem::new(status)
    }
}

/// The detail, or else the title.
impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.detail().unwrap_or(self.title()))
    }
}

impl Error for Problem {
    /// The status, which makes `?` in a handler answer with it.
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&self.status)
    }
}
