//! [`CookieStore`]: what a client remembers of servers that set cookies (RFC 6265bis §5).

use std::borrow::Cow;

use super::origin::Origin;
use crate::message::{Headers, Request, Response, Target};

/// Keeps the cookies that servers set, and gives them back. The `Jar` of the feature `jar` does so by the rules of
/// browsers.
pub trait CookieStore: Send + Sync + 'static {
    /// What a request for `target`, a URL, is to say in its `cookie` field.
    fn cookie_field(&self, target: &Target) -> Option<String>;

    /// Takes what the answer to a request for `target`, a URL, has set.
    fn store(&self, target: &Target, headers: &Headers);
}

/// A store, and the URL that it is asked about.
pub(super) struct Visit<'a> {
    store: &'a dyn CookieStore,
    target: Cow<'a, Target>,
}

impl<'a> Visit<'a> {
    pub(super) fn new(store: &'a dyn CookieStore, origin: &Origin, request: &'a Request) -> Visit<'a> {
        Visit { store, target: origin.absolute(request.target()) }
    }

    /// What the request is to say, if it says nothing itself.
    pub(super) fn cookie(&self, request: &Request) -> Option<String> {
        if request.headers.contains("cookie") {
            return None;
        }
        self.store.cookie_field(&self.target)
    }

    pub(super) fn end(&self, response: &Response) {
        if response.headers.contains("set-cookie") {
            self.store.store(&self.target, &response.headers);
        }
    }
}
