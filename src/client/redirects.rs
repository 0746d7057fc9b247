//! [`Redirects`]: whether a client follows redirects; [`NextRequest`]: one of them, of which a function decides.

use std::error::Error;
use std::sync::Arc;

use crate::message::{Redirect, Request, Status};

/// Whether a client follows redirects.
///
/// A redirect that is followed changes the request as follows:
///
/// - 301 and 302 turn POST into GET, and 303 turns everything but HEAD into GET. The body is then dropped, along with
///   the fields that describe it. With another method, `range` and conditions such as `if-none-match` are dropped too. 307
///   and 308 change nothing.
/// - `authorization`, `cookie` and `proxy-authorization` are dropped for another origin than that of the request, also
///   those from [`ClientBuilder::default_header`]. Once dropped, they do not come back. A user and a password in the
///   `location` are sent where it leads.
/// - For another origin, a `referer` is reduced to its own origin. An `origin` that is not the redirecting one becomes
///   `null`, as in browsers.
///
/// A redirect from https to http is an error, and so is one to another scheme than these. The `location` is read as browsers
/// read it (see [`Target::join`](crate::Target::join)). A response without `location` is not a redirect. The URL that was
/// reached is in [`Response::url`](crate::Response::url).
///
/// [`ClientBuilder::default_header`]: crate::ClientBuilder::default_header
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Redirects {
    /// Follow at most this many redirects in a row. One more is an error. The default is 10.
    Follow(u32),
    /// Return redirects as responses like any other.
    Return,
}

impl Default for Redirects {
    fn default() -> Redirects {
        Redirects::Follow(10)
    }
}

/// The request of a redirect, for a decision by [`ClientBuilder::check_redirects`].
///
/// [`ClientBuilder::check_redirects`]: crate::ClientBuilder::check_redirects
#[derive(Debug)]
pub struct NextRequest<'a> {
    request: &'a Request,
    history: &'a [Redirect],
    is_cross_origin: bool,
}

impl<'a> NextRequest<'a> {
    pub(super) fn new(
        request: &'a Request,
        history: &'a [Redirect],
        is_cross_origin: bool,
    ) -> NextRequest<'a> {
        NextRequest { request, history, is_cross_origin }
    }

    /// Returns the request, with the method, the URL and the fields that it would be sent with.
    pub fn request(&self) -> &Request {
        self.request
    }

    /// Returns the redirects so far, the first one first. The last one led here.
    pub fn history(&self) -> &[Redirect] {
        self.history
    }

    /// Returns whether this redirect or an earlier one led to another origin. The request then carries no credentials.
    pub fn is_cross_origin(&self) -> bool {
        self.is_cross_origin
    }
}

/// The fate of a redirect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RedirectAction {
    /// The next request is sent.
    Follow,
    /// The redirect is the response.
    Return,
}

/// A function that decides which redirects are followed.
pub(super) type RedirectCheck =
    Arc<dyn Fn(&NextRequest<'_>) -> Result<RedirectAction, Box<dyn Error + Send + Sync>> + Send + Sync>;

impl Redirects {
    /// Whether a response with this status is a redirect that is followed, if it has a location.
    pub(super) fn applies_to(self, status: Status) -> bool {
        self != Redirects::Return && is_redirect(status)
    }
}

/// Whether a response with this status is a redirect, if it has a location (RFC 9110 §15.4).
pub(super) fn is_redirect(status: Status) -> bool {
    matches!(
        status,
        Status::MOVED_PERMANENTLY
            | Status::FOUND
            | Status::SEE_OTHER
            | Status::TEMPORARY_REDIRECT
            | Status::PERMANENT_REDIRECT
    )
}
