//! [`CookieStore`]: what a client remembers of servers that set cookies (RFC 6265bis §5).

use std::borrow::Cow;
use std::sync::Arc;

use super::pool::Pool;
use crate::message::{Headers, Request, Response, Target};

/// Keeps the cookies that servers set, and gives them back. The `Jar` of the feature `jar` does so by the rules of
/// browsers.
pub trait CookieStore: Send + Sync + 'static {
    /// What a request for `target`, a URL, is to say in its `cookie` field.
    fn cookie_field(&self, target: &Target) -> Option<String>;

    /// Takes what the answer to a request for `target`, a URL, has set.
    fn store(&self, target: &Target, headers: &Headers);
}

/// What one request and its answer have to do with cookies.
pub(super) struct Visit<'a> {
    /// Who keeps them, if anybody does, and the URL that it is asked about.
    store: Option<(Arc<dyn CookieStore>, Cow<'a, Target>)>,
    cookie: Option<String>,
}

impl<'a> Visit<'a> {
    /// Asks the client's store, if it has one, what `request` is to say. It is to say nothing if the request does so by
    /// itself, or all requests do: there is one such field at most (RFC 6265bis §5.8.1).
    pub(super) fn begin(pool: &Pool, request: &'a Request) -> Visit<'a> {
        let Some(store) = &pool.settings.cookies else { return Visit { store: None, cookie: None } };
        let target = pool.origin.absolute(request.target());
        let is_said = [&request.headers, &pool.settings.fields].iter().any(|set| set.contains("cookie"));
        let cookie = if is_said { None } else { store.cookie_field(&target) };
        Visit { store: Some((store.clone(), target)), cookie }
    }

    /// What the request is to say.
    pub(super) fn cookie(&self) -> Option<&str> {
        self.cookie.as_deref()
    }

    /// Has the store take what the answer has set.
    pub(super) fn end(&self, response: &Response) {
        if let Some((store, target)) = &self.store
            && response.headers.contains("set-cookie")
        {
            store.store(target, &response.headers);
        }
    }

    /// This visit, for longer than its request.
    pub(super) fn into_owned(self) -> Visit<'static> {
        let store = self.store.map(|(store, target)| (store, Cow::Owned(target.into_owned())));
        Visit { store, cookie: self.cookie }
    }
}
