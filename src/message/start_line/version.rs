//! [`Version`]: the version of HTTP that a peer speaks (RFC 9112 §2.3).

use std::fmt;

/// A version of HTTP that this crate speaks.
///
/// # Examples
///
/// ```
/// use corehttp::Version;
///
/// assert!(Version::Http10 < Version::Http11);
/// assert_eq!(Version::default().to_string(), "HTTP/1.1");
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Version {
    /// `HTTP/1.0`
    Http10,
    /// `HTTP/1.1`
    #[default]
    Http11,
}

impl Version {
    /// Returns the version as it is written in a start-line.
    #[inline]
    pub fn as_str(self) -> &'static str {
        match self {
            Version::Http10 => "HTTP/1.0",
            Version::Http11 => "HTTP/1.1",
        }
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}
