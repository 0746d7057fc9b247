//! [`CookieExchange`]: the cookies of one request and its answer (RFC 6265bis §5).

use std::borrow::Cow;
use std::sync::Arc;

use super::CookieStore;
use super::pool::Pool;
use super::redirect::RedirectTaint;
use crate::message::{Method, Request, Response, Target, is_field_value};

/// The cookies of one request and its answer, if the client keeps any.
pub(super) struct CookieExchange<'a>(Option<Box<CookieState<'a>>>);

/// The store, the URL that it is asked about, and what it said. Boxed, since every exchange has room for it, and few
/// clients have a store.
struct CookieState<'a> {
    store: Arc<dyn CookieStore>,
    target: Cow<'a, Target>,
    cookie: Option<Vec<u8>>,
}

impl<'a> CookieExchange<'a> {
    /// Asks the client's store, if there is one, for the cookies of `request`. If the request has a `cookie` field
    /// itself, or by default, it is sent without them: there is at most one such field (RFC 6265bis §5.8.1). So is a
    /// TRACE, since whatever it carries is sent back (RFC 9110 §9.3.8).
    pub(super) fn begin(pool: &Pool, (request, taint): (&'a Request, RedirectTaint)) -> CookieExchange<'a> {
        let Some(store) = &pool.settings.cookies else { return CookieExchange(None) };
        let target = pool.origin.absolute(request.target());
        // The default one does not go where a redirect leads.
        let is_default = taint == RedirectTaint::SameOrigin && pool.settings.fields.contains("cookie");
        let has_field = is_default || request.headers.contains("cookie");
        let goes_without = has_field || request.method() == Method::Trace;
        let cookie = if goes_without { None } else { store.cookie_field(&target) };
        // A store may have loaded its cookies from anywhere, and a line break in one would begin another field.
        let cookie = cookie.filter(|cookie| is_field_value(cookie));
        CookieExchange(Some(Box::new(CookieState { store: store.clone(), target, cookie })))
    }

    /// The value of the request's `cookie` field, if it is to have one.
    pub(super) fn cookie(&self) -> Option<&[u8]> {
        self.0.as_ref()?.cookie.as_deref()
    }

    /// Passes the cookies that the answer sets to the store.
    pub(super) fn end(&self, response: &Response) {
        if let Some(state) = &self.0
            && response.headers.contains("set-cookie")
        {
            state.store.store(&state.target, &response.headers);
        }
    }

    /// Makes this independent of the request.
    pub(super) fn into_owned(self) -> CookieExchange<'static> {
        CookieExchange(self.0.map(|state| {
            let CookieState { store, target, cookie } = *state;
            Box::new(CookieState { store, target: Cow::Owned(target.into_owned()), cookie })
        }))
    }
}
