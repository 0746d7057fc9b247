//! [`CookieStore`]: keeps the cookies that servers set (RFC 6265bis §5).

use crate::message::{Headers, Target};

/// Keeps the cookies that servers set, and returns them with later requests. `jar::Jar`, of the feature `jar`, does so
/// by the rules of browsers.
pub trait CookieStore: Send + Sync + 'static {
    /// Returns the value of the `cookie` field of a request for `target`, which is a URL. A value that is not valid in
    /// a field is not sent.
    fn cookie_field(&self, target: &Target) -> Option<String>;

    /// Stores the cookies that the answer to a request for `target`, which is a URL, sets in `headers`.
    fn store(&self, target: &Target, headers: &Headers);
}
