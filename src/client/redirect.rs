//! [`Redirects`]: whether a client goes where it is sent, and what it takes along (RFC 9110 §15.4).

use std::borrow::Cow;

use super::origin::{self, Origin};
use super::{ClientCause, ClientError, ClientPhase};
use crate::message::{Headers, Method, Name, Request, Response, Scheme, Status, Target};

/// Whether a client follows redirects.
///
/// 301 and 302 turn POST into GET, 303 everything but HEAD; then the body stays behind, with the fields that describe
/// it, and so it does with any 303. 307 and 308 change nothing. `authorization`, `cookie` and `proxy-authorization` are
/// sent only to the origin they were given for, and once they are gone they do not come back; those of
/// [`ClientBuilder::field`] neither. A `referer` tells another origin only its own, and an `origin` that is not the one
/// it leaves becomes `null`, as with browsers. From https to http nothing is followed, and neither is a URL with a user
/// in it or of another scheme: these are errors. An answer without `location` is one like any other. Where redirects
/// have led is in [`Response::url`](crate::Response::url).
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
    let Some(location) = location(response)? else { return Ok(None) };
    if followed == most {
        return Err(error(ClientCause::TooManyRedirects));
    }
    let target = origin.absolute(request.target()).join(location);
    let target = target.map_err(|invalid| error(ClientCause::Location(Some(invalid))))?;
    if (origin.scheme, target.scheme_kind()) == (Scheme::Https, Some(Scheme::Http)) {
        return Err(error(ClientCause::Downgrade));
    }
    let retrieval = retrieval(response.status, request.method());
    let mut next = Request::for_target(retrieval.unwrap_or(request.method()), target);
    next.headers = request.headers.clone();
    match retrieval {
        Some(_) => next.headers.remove_each(&OF_CONTENT),
        None if request.body.is_stream() => return Err(error(ClientCause::Spent)),
        None => (next.body, next.trailers) = (request.body.clone(), request.trailers.clone()),
    }
    let goal = origin::key(next.target())?.into_owned();
    if origin.key() == goal {
        return Ok(Some((next, Goal::Own)));
    }
    next.headers.remove_each(&CREDENTIALS);
    next.headers.remove("host");
    disguise(&mut next.headers, origin.key(), &goal);
    Ok(Some((next, Goal::Other)))
}

/// Where `response` leads to, if it says so, which it need not. To say it twice is as good as once; but of two different
/// places somebody on the way may see the other one.
fn location(response: &Response) -> Result<Option<&[u8]>, ClientError> {
    let mut lines = response.headers.named(Name::new("location"));
    let Some(first) = lines.next() else { return Ok(None) };
    if lines.any(|line| line != first) {
        return Err(error(ClientCause::Locations));
    }
    match first {
        [] => Err(error(ClientCause::Location(None))),
        location => Ok(Some(location)),
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

/// The method of a request that only retrieves what the first one has led to. None: the same request goes elsewhere.
fn retrieval(status: Status, method: Method) -> Option<Method> {
    match (status, method) {
        (Status::MOVED_PERMANENTLY | Status::FOUND, Method::Post) => Some(Method::Get),
        (Status::SEE_OTHER, Method::Head) => Some(Method::Head),
        (Status::SEE_OTHER, _) => Some(Method::Get),
        (_, _) => None,
    }
}

/// What described a body that is not sent again.
const OF_CONTENT: [&str; 15] = [
    "content-type",
    "content-length",
    "content-encoding",
    "content-language",
    "content-location",
    "content-range",
    "content-disposition",
    "content-md5",
    "digest",
    "content-digest",
    "repr-digest",
    "expect",
    "last-modified",
    "trailer",
    "transfer-encoding",
];

/// Hides what another origin need not know, where the origin `left` redirects to the origin `goal`. `referer` is cut down
/// to its origin, unless that is `goal`. `origin` becomes `null`, unless it is `left`: else `left` could redirect a request
/// back to the site that it came from, where it would pass for one of that site's own (Referrer Policy §3.5, Fetch §4.4).
fn disguise(headers: &mut Headers, left: &str, goal: &str) {
    if headers.contains("referer") {
        match headers.text("referer").and_then(origin_of) {
            Some(origin) if origin == goal => {}
            Some(origin) => headers.put(Name::new("referer"), format!("{origin}/").as_bytes()),
            None => {
                headers.remove("referer");
            }
        }
    }
    if headers.get("origin").is_some_and(|origin| origin != left.as_bytes()) {
        headers.put(Name::new("origin"), b"null");
    }
}

fn origin_of(url: &str) -> Option<String> {
    let mut target = Target::default();
    target.set_url(url).ok()?;
    origin::key(&target).ok().map(Cow::into_owned)
}

fn error(cause: ClientCause) -> ClientError {
    ClientError::new(ClientPhase::Redirect, cause)
}
