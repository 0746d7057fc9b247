//! [`CookieVisit`]: what one request and its answer have to do with cookies (RFC 6265bis §5).

use std::borrow::Cow;
use std::sync::Arc;

use super::CookieStore;
use super::pool::Pool;
use crate::message::{Request, Response, Target, is_field_value};

/// What one request and its answer have to do with cookies: nothing, if nobody keeps them.
pub(super) struct CookieVisit<'a>(Option<Box<Kept<'a>>>);

/// Who keeps them, the URL that it is asked about, and what it has said. In a box, for each exchange has room for it, and
/// few clients have a store.
struct Kept<'a> {
    store: Arc<dyn CookieStore>,
    target: Cow<'a, Target>,
    cookie: Option<String>,
}

impl<'a> CookieVisit<'a> {
    /// Asks the client's store, if it has one, what `request` is to say. It is to say nothing if the request does so by
    /// itself, or all requests do: there is one such field at most (RFC 6265bis §5.8.1).
    pub(super) fn begin(pool: &Pool, request: &'a Request) -> CookieVisit<'a> {
        let Some(store) = &pool.settings.cookies else { return CookieVisit(None) };
        let target = pool.origin.absolute(request.target());
        let is_said = [&request.headers, &pool.settings.fields].iter().any(|set| set.contains("cookie"));
        let cookie = if is_said { None } else { store.cookie_field(&target) };
        // A store may have read it anywhere, and behind the end of a line it would be another field.
        let cookie = cookie.filter(|cookie| is_field_value(cookie.as_bytes()));
        CookieVisit(Some(Box::new(Kept { store: store.clone(), target, cookie })))
    }

    /// What the request is to say.
    pub(super) fn cookie(&self) -> Option<&str> {
        self.0.as_ref()?.cookie.as_deref()
    }

    /// Has the store take what the answer has set.
    pub(super) fn end(&self, response: &Response) {
        if let Some(kept) = &self.0
            && response.headers.contains("set-cookie")
        {
            kept.store.store(&kept.target, &response.headers);
        }
    }

    /// This visit, for longer than its request.
    pub(super) fn into_owned(self) -> CookieVisit<'static> {
        CookieVisit(self.0.map(|kept| {
            let Kept { store, target, cookie } = *kept;
            Box::new(Kept { store, target: Cow::Owned(target.into_owned()), cookie })
        }))
    }
}
