//! [`Redirects`]: whether a client goes where it is sent, and what it takes along (RFC 9110 §15.4).

use super::origin::{self, Origin};
use super::{ClientCause, ClientError, ClientPhase};
use crate::message::{Method, Name, Request, Response, Scheme, Status};

/// Whether a client follows redirects.
///
/// 301 and 302 turn POST into GET, 303 everything but HEAD; then the body stays behind, with the fields that describe
/// it. 307 and 308 change nothing. `authorization`, `cookie` and `proxy-authorization` are sent only to the origin they
/// were given for, and once they are gone they do not come back; those of [`ClientBuilder::field`] neither. From https to
/// http nothing is followed.
///
/// [`ClientBuilder::field`]: super::ClientBuilder::field
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Redirects {
    /// So many at most, one after the other; one more is an error.
    Follow(u32),
    /// Redirects are answers like any other.
    Return,
}

impl Default for Redirects {
    fn default() -> Redirects {
        Redirects::Follow(10)
    }
}

/// Whether a request goes to the origin that it was made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Goal {
    Own,
    /// It was led elsewhere, and is told no secrets.
    Other,
}

/// The fields that tell an origin who asks.
pub(super) const CREDENTIALS: [&str; 3] = ["authorization", "cookie", "proxy-authorization"];

/// The request that `response` leads to, if it leads anywhere. `followed` is how many were followed before it, and
/// `origin` is whom the request was sent to.
///
/// # Errors
///
/// One redirect too many, one that leads nowhere or into the open, or one that wants a body that is gone.
pub(super) fn next(
    redirects: Redirects,
    followed: u32,
    request: &Request,
    origin: &Origin,
    response: &Response,
) -> Result<Option<(Request, Goal)>, ClientError> {
    let (Redirects::Follow(most), true) = (redirects, is_redirect(response.status)) else { return Ok(None) };
    if followed == most {
        return Err(error(ClientCause::TooManyRedirects));
    }
    let target = origin.absolute(request.target()).join(location(response)?);
    let target = target.map_err(|invalid| error(ClientCause::Location(Some(invalid))))?;
    if (origin.scheme, target.scheme_kind()) == (Scheme::Https, Some(Scheme::Http)) {
        return Err(error(ClientCause::Downgrade));
    }
    let mut next = Request::for_target(method(request.method(), response.status), target);
    next.headers = request.headers.clone();
    match next.method() == request.method() {
        true if request.body.is_stream() => return Err(error(ClientCause::Spent)),
        true => (next.body, next.trailers) = (request.body.clone(), request.trailers.clone()),
        false => next.headers.remove_each(&OF_CONTENT),
    }
    if origin.key() == origin::key(next.target())? {
        return Ok(Some((next, Goal::Own)));
    }
    next.headers.remove_each(&CREDENTIALS);
    next.headers.remove("host");
    Ok(Some((next, Goal::Other)))
}

/// Where `response` leads to. Whoever says so twice has said it once; but if it leads to two places, others on the way
/// may see the other one.
fn location(response: &Response) -> Result<&str, ClientError> {
    let mut lines = response.headers.named(Name::new("location"));
    let first = lines.next().unwrap_or_default();
    if lines.any(|line| line != first) {
        return Err(error(ClientCause::Locations));
    }
    match str::from_utf8(first) {
        Ok("") | Err(_) => Err(error(ClientCause::Location(None))),
        Ok(location) => Ok(location),
    }
}

fn is_redirect(status: Status) -> bool {
    matches!(
        status,
        Status::MOVED_PERMANENTLY
            | Status::FOUND
            | Status::SEE_OTHER
            | Status::TEMPORARY_REDIRECT
            | Status::PERMANENT_REDIRECT
    )
}

fn method(method: Method, status: Status) -> Method {
    match (status, method) {
        (Status::MOVED_PERMANENTLY | Status::FOUND, Method::Post) => Method::Get,
        (Status::SEE_OTHER, Method::Head) => Method::Head,
        (Status::SEE_OTHER, _) => Method::Get,
        (_, method) => method,
    }
}

/// What described a body that is not sent again.
const OF_CONTENT: [&str; 13] = [
    "content-type",
    "content-length",
    "content-encoding",
    "content-language",
    "content-location",
    "content-range",
    "digest",
    "content-digest",
    "expect",
    "last-modified",
    "te",
    "trailer",
    "transfer-encoding",
];

fn error(cause: ClientCause) -> ClientError {
    ClientError::new(ClientPhase::Redirect, cause)
}
