//! [`CookieStore`]: keeps the cookies that servers set; [`RequestCookies`]: those of one request and its response (RFC
//! 6265bis §5).

use std::borrow::Cow;
use std::sync::Arc;

use crate::message::{Headers, Method, Request, Response, Target, is_field_value};

/// Keeps the cookies of servers, and returns them with later requests. `jar::Jar`, of the feature `jar`, does so by the rules
/// of browsers.
pub trait CookieStore: Send + Sync + 'static {
    /// Returns the value of the `cookie` field of a request for the URL `target`. The value need not be UTF-8 (RFC 6265bis
    /// §5.8.3). A value that is not valid in a field is not sent.
    fn cookie_header(&self, target: &Target) -> Option<Vec<u8>>;

    /// Stores the cookies that `headers` sets, the fields of the response to a request for the URL `target`.
    fn store(&self, target: &Target, headers: &Headers);
}

/// The cookies of one request and its response, if the client keeps any.
pub(super) struct RequestCookies<'a>(Option<Box<CookieState<'a>>>);

/// The store, the URL of the request, and its cookies. Boxed, since every exchange has room for this state, and few
/// clients have a store.
struct CookieState<'a> {
    store: Arc<dyn CookieStore>,
    target: Cow<'a, Target>,
    cookie: Option<Vec<u8>>,
}

impl<'a> RequestCookies<'a> {
    /// The exchange of a client that keeps no cookies.
    pub(super) fn none() -> RequestCookies<'a> {
        RequestCookies(None)
    }

    /// Reads the cookies of `request` from `store`, by the URL `target`. A request that has such a field itself, or by
    /// default, is sent without them: there is at most one such field (RFC 6265bis §5.8.1). So is a TRACE, since its
    /// content is sent back (RFC 9110 §9.3.8).
    pub(super) fn begin(
        store: &Arc<dyn CookieStore>,
        target: Cow<'a, Target>,
        request: &Request,
        has_default: bool,
    ) -> RequestCookies<'a> {
        let has_field = has_default || request.headers.contains("cookie");
        let goes_without = has_field || request.method() == Method::Trace;
        let cookie = if goes_without { None } else { store.cookie_header(&target) };
        // A store may have loaded its cookies from anywhere, and a line break in one would begin another field.
        let cookie = cookie.filter(|cookie| is_field_value(cookie));
        RequestCookies(Some(Box::new(CookieState { store: store.clone(), target, cookie })))
    }

    /// The value of the request's `cookie` field, if the store has cookies for it.
    pub(super) fn cookie(&self) -> Option<&[u8]> {
        self.0.as_ref()?.cookie.as_deref()
    }

    /// Passes the cookies that the response sets to the store.
    pub(super) fn end(&self, response: &Response) {
        if let Some(state) = &self.0
            && response.headers.contains("set-cookie")
        {
            state.store.store(&state.target, &response.headers);
        }
    }

    /// Copies the URL, so that the exchange may outlive the request.
    pub(super) fn into_owned(self) -> RequestCookies<'static> {
        RequestCookies(self.0.map(|state| {
            let CookieState { store, target, cookie } = *state;
            Box::new(CookieState { store, target: Cow::Owned(target.into_owned()), cookie })
        }))
    }
}
