//! [`Redirects`]: whether a client follows redirects, and how they change the request (RFC 9110 §15.4);
//! [`RedirectChain`]: the requests that they lead to.

use std::borrow::Cow;

use crate::client::error::{ClientCause, ClientError, ClientPhase};
use crate::client::exchange::{CREDENTIALS, OutgoingRequest, RedirectTaint};
use crate::client::pool::PooledConn;
use crate::client::route::{Origin, origin};
use crate::message::{CONTENT_FIELDS, FieldName, Headers, Method, Request, Response, Scheme, Status, Target};

/// Whether a client follows redirects.
///
/// A redirect that is followed changes the request as follows:
///
/// - 301 and 302 turn POST into GET, and 303 turns everything but HEAD into GET. The body is then dropped, along with
///   the fields that describe it. 307 and 308 change nothing.
/// - `authorization`, `cookie` and `proxy-authorization` are sent only to the origin they were meant for, whether they
///   are the request's, of its URL, or from [`ClientBuilder::default_header`]. Once dropped, they do not come back. A
///   user and a password in the `location` are sent where it leads.
/// - For another origin, a `referer` is reduced to its own origin. An `origin` that is not the redirecting one becomes
///   `null`, as in browsers.
///
/// A redirect from https to http is an error, and so is one to a URL with another scheme. The `location` is read as
/// browsers read it: see [`Target::join`](crate::Target::join). A response without `location` is not a redirect. The
/// URL that was reached is in [`Response::url`](crate::Response::url).
///
/// [`ClientBuilder::default_header`]: crate::ClientBuilder::default_header
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Redirects {
    /// Follow at most this many redirects in a row; one more is an error. The default is 10.
    Follow(u32),
    /// Return redirects as responses like any other.
    Return,
}

impl Default for Redirects {
    fn default() -> Redirects {
        Redirects::Follow(10)
    }
}

impl Redirects {
    /// Whether a response with this status is a redirect that is followed, if it has a location.
    pub(super) fn applies_to(self, status: Status) -> bool {
        self != Redirects::Return && is_redirect(status)
    }
}

/// The requests that redirects lead to, one after another.
pub(super) struct RedirectChain<'r> {
    redirects: Redirects,
    /// How many redirects have been followed.
    followed: u32,
    /// The request that was sent last.
    request: Cow<'r, Request>,
    taint: RedirectTaint,
}

impl<'r> RedirectChain<'r> {
    /// The chain that begins with the request of a caller.
    pub(super) fn new(redirects: Redirects, request: &'r Request) -> RedirectChain<'r> {
        RedirectChain {
            redirects,
            followed: 0,
            request: Cow::Borrowed(request),
            taint: RedirectTaint::SameOrigin,
        }
    }

    /// Returns the next request of the chain, if `response`, which came over `pooled`, is a redirect. Otherwise the
    /// chain has ended, and the response gets the URL that was reached.
    ///
    /// # Errors
    ///
    /// As [`next_request`].
    pub(super) fn follow(
        &mut self,
        pooled: &PooledConn,
        response: &mut Response,
    ) -> Result<Option<OutgoingRequest<'_>>, ClientError> {
        let origin = &pooled.permit.pool.origin;
        let next = next_request(self.redirects, self.followed, &self.request, origin, response).map_err(
            |error| error.on_connection(pooled.is_reused(), true).with_url(self.request.target().as_str()),
        )?;
        let Some((request, taint)) = next else {
            if self.followed > 0 {
                response.url = Some(self.request.target().as_str().into());
            }
            return Ok(None);
        };
        self.followed += 1;
        self.request = Cow::Owned(request);
        if taint == RedirectTaint::CrossOrigin {
            self.taint = taint;
        }
        Ok(Some(OutgoingRequest { taint: self.taint, ..OutgoingRequest::new(&self.request) }))
    }
}

/// The request that `response` redirects to, if it does. `followed` is the number of redirects before it, and `origin`
/// is where the request was sent.
///
/// # Errors
///
/// Fails for one redirect too many, one without a usable location, one that leads from https to http, and one that
/// requires a body that is gone.
fn next_request(
    redirects: Redirects,
    followed: u32,
    request: &Request,
    origin: &Origin,
    response: &Response,
) -> Result<Option<(Request, RedirectTaint)>, ClientError> {
    let (Redirects::Follow(most), true) = (redirects, is_redirect(response.status)) else { return Ok(None) };
    let Some(location) = location(response)? else { return Ok(None) };
    if followed == most {
        return Err(error(ClientCause::TooManyRedirects).with_detail(format!("at most {most} are followed")));
    }
    let target = origin.absolute(request.target()).resolve(location);
    let mut target = target.map_err(|invalid| error(ClientCause::Location(Some(invalid))))?;
    if (origin.scheme, target.scheme_kind()) == (Scheme::Https, Some(Scheme::Http)) {
        return Err(error(ClientCause::Downgrade));
    }
    let target_origin = origin::key(&target)?.into_owned();
    if origin.key() == target_origin {
        target.inherit_authorization(request.target());
    }
    let retrieval = retrieval_method(response.status, request.method());
    let mut next = Request::with_target(retrieval.unwrap_or(request.method()), target);
    next.headers = request.headers.clone();
    match retrieval {
        Some(_) => next.headers.remove_each(&CONTENT_FIELDS),
        None if request.body.is_stream() => return Err(error(ClientCause::BodyConsumed)),
        None => (next.body, next.trailers) = (request.body.clone(), request.trailers.clone()),
    }
    if origin.key() == target_origin {
        return Ok(Some((next, RedirectTaint::SameOrigin)));
    }
    next.headers.remove_each(&CREDENTIALS);
    next.headers.remove("host");
    hide_origins(&mut next.headers, origin.key(), &target_origin);
    Ok(Some((next, RedirectTaint::CrossOrigin)))
}

/// The location of `response`, if it has one. Repeating the same one is harmless; if there are two
/// different ones, another reader of the response might follow the other.
fn location(response: &Response) -> Result<Option<&[u8]>, ClientError> {
    let mut lines = response.headers.named(FieldName::new("location"));
    let Some(first) = lines.next() else { return Ok(None) };
    if lines.any(|line| line != first) {
        return Err(error(ClientCause::AmbiguousLocation));
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

/// The method of the next request, if it only retrieves the result. `None`: the same request is sent again elsewhere.
fn retrieval_method(status: Status, method: Method) -> Option<Method> {
    match (status, method) {
        (Status::MOVED_PERMANENTLY | Status::FOUND, Method::Post) => Some(Method::Get),
        (Status::SEE_OTHER, Method::Head) => Some(Method::Head),
        (Status::SEE_OTHER, _) => Some(Method::Get),
        (_, _) => None,
    }
}

/// Removes the URL of the redirecting page, when the origin `left` redirects to the origin `target_origin`. `referer`
/// is reduced to its origin, unless that is `target_origin`. `origin` becomes `null`, unless it is `left`; otherwise
/// `left` could redirect a request back to the site that it came from, where it would pass for one of that site's own
/// (Referrer Policy §3.5, Fetch §4.4).
fn hide_origins(headers: &mut Headers, left: &str, target_origin: &str) {
    if headers.contains("referer") {
        match headers.get("referer").and_then(origin_of) {
            Some(origin) if origin == target_origin => {}
            Some(origin) => headers.put(FieldName::new("referer"), format!("{origin}/").as_bytes()),
            None => {
                headers.remove("referer");
            }
        }
    }
    if headers.get_bytes("origin").is_some_and(|origin| origin != left.as_bytes()) {
        headers.put(FieldName::new("origin"), b"null");
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
