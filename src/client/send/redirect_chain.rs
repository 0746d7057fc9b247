//! [`RedirectChain`]: the requests that redirects lead to, and how they differ from the caller's (RFC 9110 §15.4).

use std::borrow::Cow;
use std::mem;

use crate::client::error::{ClientCause, ClientError, ClientPhase};
use crate::client::exchange::{CREDENTIALS, OutgoingRequest, RedirectTaint};
use crate::client::pool::PooledConn;
use crate::client::redirects::{NextRequest, RedirectAction, RedirectCheck, Redirects, is_redirect};
use crate::client::route::{Origin, origin};
use crate::message::{
    CONTENT_FIELDS, FieldName, Headers, Method, Redirect, Request, Response, Scheme, Status, Target,
};

/// The requests that redirects lead to, one after another.
pub(super) struct RedirectChain<'r> {
    redirects: Redirects,
    check: Option<&'r RedirectCheck>,
    followed: Vec<Redirect>,
    /// The request that was sent last.
    request: Cow<'r, Request>,
    taint: RedirectTaint,
}

impl<'r> RedirectChain<'r> {
    /// The chain that begins with the request of a caller.
    pub(super) fn new(
        redirects: Redirects,
        check: Option<&'r RedirectCheck>,
        request: &'r Request,
    ) -> RedirectChain<'r> {
        let (followed, request) = (Vec::new(), Cow::Borrowed(request));
        RedirectChain { redirects, check, followed, request, taint: RedirectTaint::SameOrigin }
    }

    /// Returns the next request of the chain, if `response`, which came over `pooled`, is a redirect. Otherwise the
    /// chain has ended, and the response gets the redirects and the URL that was reached. `resends` is the number of
    /// requests before, with retries.
    ///
    /// # Errors
    ///
    /// As [`next_request`], or if the function that decides about redirects fails.
    pub(super) fn follow(
        &mut self,
        pooled: &PooledConn,
        response: &mut Response,
        resends: u32,
    ) -> Result<Option<OutgoingRequest<'_>>, ClientError> {
        let next = self.next(&pooled.permit.pool.origin, response).map_err(|error| {
            error.on_connection(pooled.is_reused(), true).with_url(self.request.target().as_str())
        })?;
        let Some(next) = next else {
            if !self.followed.is_empty() {
                response.url = Some(self.request.target().as_str().into());
                response.set_redirects(mem::take(&mut self.followed));
            }
            return Ok(None);
        };
        self.request = Cow::Owned(next);
        let outgoing = OutgoingRequest::new(&self.request).with_resends(resends);
        Ok(Some(OutgoingRequest { taint: self.taint, ..outgoing }))
    }

    /// The next request, if `response`, which came from `origin`, is a redirect that is followed. It is noted then.
    fn next(&mut self, origin: &Origin, response: &Response) -> Result<Option<Request>, ClientError> {
        let next = next_request(self.redirects, self.followed.len(), &self.request, origin, response)?;
        let Some((request, taint)) = next else { return Ok(None) };
        let taint = if taint == RedirectTaint::CrossOrigin { taint } else { self.taint };
        let left = origin.absolute(self.request.target());
        self.followed.push(Redirect::new(response.status, left.as_str()));
        if let Some(check) = self.check {
            let is_cross_origin = taint == RedirectTaint::CrossOrigin;
            let next = NextRequest::new(&request, &self.followed, is_cross_origin);
            match check(&next).map_err(|refused| error(ClientCause::Other(refused)))? {
                RedirectAction::Follow => {}
                RedirectAction::Return => {
                    self.followed.pop();
                    return Ok(None);
                }
            }
        }
        self.taint = taint;
        Ok(Some(request))
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
    followed: usize,
    request: &Request,
    origin: &Origin,
    response: &Response,
) -> Result<Option<(Request, RedirectTaint)>, ClientError> {
    let (Redirects::Follow(most), true) = (redirects, is_redirect(response.status)) else { return Ok(None) };
    let Some(location) = location(response)? else { return Ok(None) };
    if followed >= most as usize {
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
    if next.method() != request.method() {
        next.headers.remove_each(&CONDITIONAL_FIELDS);
    }
    match retrieval {
        Some(_) => next.headers.remove_each(&CONTENT_FIELDS),
        None if !request.body.rewind() => return Err(error(ClientCause::BodyConsumed)),
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

/// The fields that make a request depend on the state of its target (RFC 9110 §13.1). With another method, they would be about
/// the state of another resource: a `PUT` with `if-none-match: *` would become a GET that is answered with 304.
const CONDITIONAL_FIELDS: [FieldName<'static>; 6] = [
    FieldName::new("if-match"),
    FieldName::new("if-modified-since"),
    FieldName::new("if-none-match"),
    FieldName::new("if-range"),
    FieldName::new("if-unmodified-since"),
    FieldName::new("range"),
];

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
