//! [`CookieStore`]: what a client remembers of servers that set cookies (RFC 6265bis §5).

use crate::message::{Headers, Target};

/// Keeps the cookies that servers set, and gives them back. The `Jar` of the feature `jar` does so by the rules of
/// browsers.
pub trait CookieStore: Send + Sync + 'static {
    /// What a request for `target`, a URL, is to say in its `cookie` field. What could not stand in a field is not said.
    fn cookie_field(&self, target: &Target) -> Option<String>;

    /// Takes what the answer to a request for `target`, a URL, has set.
    fn store(&self, target: &Target, headers: &Headers);
}
