//! [`CookieStore`]: keeps the cookies that servers set (RFC 6265bis §5).

use crate::message::{Headers, Target};

/// Keeps the cookies that servers set, and returns them with later requests. `jar::Jar`, of the feature `jar`, does so
/// by the rules of browsers.
pub trait CookieStore: Send + Sync + 'static {
    /// Returns the value of the `cookie` field of a request for `target`, which is a URL: octets, since servers set
    /// cookies that are not UTF-8 (RFC 6265bis §5.8.3). A value that is not valid in a field is not sent.
    fn cookie_field(&self, target: &Target) -> Option<Vec<u8>>;

    /// Stores the cookies that the answer to a request for `target`, which is a URL, sets in `headers`.
    fn store(&self, target: &Target, headers: &Headers);
}
