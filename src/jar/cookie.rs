//! [`Cookie`]: a cookie in the jar, and the rules for it (RFC 6265bis §5.7); hosts and paths that share cookies (§5.1.3,
//! §5.1.4).

use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::time::{Duration, SystemTime};

use crate::SameSite;
use crate::SetCookie;
use crate::Target;
use crate::message::RawSetCookie;

/// A cookie in the jar, with the attributes of §5.7 by their names there.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Cookie {
    /// Octets, like the value.
    pub(super) name: Vec<u8>,
    pub(super) value: Vec<u8>,
    /// In lower case.
    pub(super) domain: String,
    /// Whether the cookie is for the domain itself only, and not for hosts below it.
    pub(super) host_only: bool,
    pub(super) path: String,
    /// `None` if the cookie ends with the session.
    pub(super) expires: Option<SystemTime>,
    pub(super) secure: bool,
    pub(super) http_only: bool,
    pub(super) same_site: Option<SameSite>,
    pub(super) partitioned: bool,
    /// The number of the cookie in its jar. Earlier ones have smaller numbers.
    pub(super) created: u64,
    /// When the cookie was last set or sent, as a number like `created`.
    pub(super) used: u64,
}

impl Cookie {
    /// Makes the cookie that a response from `uri` sets, if that is allowed regardless of other cookies.
    pub(super) fn new(
        uri: &RequestUri<'_>,
        raw: &RawSetCookie<'_>,
        now: SystemTime,
    ) -> Result<Cookie, Error> {
        let RawSetCookie { name, value, attributes: set } = *raw;
        if !raw.has_valid_prefix() {
            return Err(Error::Prefix);
        }
        if set.secure && !uri.is_secure {
            return Err(Error::Insecure);
        }
        let path = set.path.unwrap_or_else(|| default_path(uri.path));
        // Programs are held to the same rule as servers: nothing may be in the jar that could not have come off the
        // wire.
        if !fits_set_cookie(name, value, path) {
            return Err(Error::Value);
        }
        let (domain, host_only) = domain(uri, set.domain)?;
        let after = |age: Duration| now + age.min(LIFE_MAX);
        Ok(Cookie {
            name: name.to_owned(),
            value: value.to_owned(),
            domain,
            host_only,
            path: path.to_owned(),
            expires: set.max_age.map(after).or(set.expires),
            secure: set.secure,
            http_only: set.http_only,
            same_site: set.same_site,
            partitioned: set.partitioned,
            created: 0,
            used: 0,
        })
    }

    /// Whether the cookie has not expired yet.
    pub(super) fn is_alive(&self, now: SystemTime) -> bool {
        self.expires.is_none_or(|expires| expires > now)
    }

    /// Whether the cookie is sent with a request for `uri` (§5.8.3).
    pub(super) fn matches(&self, uri: &RequestUri<'_>) -> bool {
        let is_for_host = match self.host_only {
            true => uri.host == self.domain,
            false => domain_matches(&uri.host, &self.domain),
        };
        is_for_host && path_matches(uri.path, &self.path) && (uri.is_secure || !self.secure)
    }

    /// Whether the cookie takes the place of the other.
    pub(super) fn replaces(&self, other: &Cookie) -> bool {
        (&self.name, &self.domain, self.host_only, &self.path)
            == (&other.name, &other.domain, other.host_only, &other.path)
    }

    /// Whether the other is secure and this one could pass for it, as an attacker on the network would like (§5.7,
    /// "leave secure cookies alone").
    pub(super) fn shadows(&self, other: &Cookie) -> bool {
        let is_near =
            domain_matches(&self.domain, &other.domain) || domain_matches(&other.domain, &self.domain);
        other.secure && self.name == other.name && is_near && path_matches(&self.path, &other.path)
    }
}

/// The origin of a request, as far as it matters to cookies.
#[derive(Debug)]
pub(super) struct RequestUri<'a> {
    /// In lower case, and without the port, since cookies ignore ports.
    pub(super) host: String,
    pub(super) path: &'a str,
    /// Whether the connection cannot be intercepted.
    pub(super) is_secure: bool,
}

impl<'a> RequestUri<'a> {
    /// Returns `None` if the target is not in absolute-form.
    pub(super) fn new(target: &'a Target) -> Option<RequestUri<'a>> {
        let scheme = target.scheme()?;
        let host = target.host()?.to_ascii_lowercase();
        let is_secure = scheme == "https" || is_loopback(&host);
        Some(RequestUri { host, path: target.path(), is_secure })
    }
}

/// The longest that a cookie lives: 400 days (§5.6.1).
pub(super) const LIFE_MAX: Duration = Duration::from_secs(400 * 86_400);

/// The domain of a cookie, and whether it is host-only (§5.7).
fn domain(uri: &RequestUri<'_>, attribute: Option<&str>) -> Result<(String, bool), Error> {
    let Some(domain) = attribute.map(str::to_ascii_lowercase) else { return Ok((uri.host.clone(), true)) };
    if is_public_suffix(&domain) {
        return match domain == uri.host {
            true => Ok((domain, true)),
            false => Err(Error::PublicSuffix),
        };
    }
    match domain_matches(&uri.host, &domain) && site(&uri.host) == site(&domain) {
        true => Ok((domain, false)),
        false => Err(Error::Domain),
    }
}

/// Whether a `Set-Cookie` field could have contained this name, value and path. A path that is taken from the request
/// is checked, too, since a server may redirect its client to a path of any length.
pub(super) fn fits_set_cookie(name: &[u8], value: &[u8], path: &str) -> bool {
    // In a path of a request, `;` is a character like any other (RFC 3986 §3.3).
    let path = &*path.replace(';', ",");
    let field = [name, b"=", value, b"; Path=", path.as_bytes()].concat();
    let attributes = SetCookie { path: Some(path), ..SetCookie::default() };
    RawSetCookie::parse(&field) == Some(RawSetCookie { name, value, attributes })
}

/// Why a jar does not accept a cookie, or a file of cookies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Error {
    /// The target has no scheme and host.
    Target,
    /// The cookie is for a domain that the host is not in.
    Domain,
    /// The cookie is for a public suffix, whose hosts have different owners.
    PublicSuffix,
    /// The cookie is secure, or could pass for a secure one, and came over `http` from another machine.
    Insecure,
    /// The cookie does not keep what the prefix of its name promises.
    Prefix,
    /// The name, value or path is not valid in a field, or is too long. Without a path, the folder of the request
    /// counts, which must not be longer than 1,024 bytes.
    Value,
    /// The line with this number, counted from 1, is not a cookie that a jar has written.
    Line(usize),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Error::Target => "the target names no host",
            Error::Domain => "the cookie is for a domain that the host is not in",
            Error::PublicSuffix => "the cookie is for a public suffix",
            Error::Insecure => "the cookie is secure, or would pass for one that is, and came by http",
            Error::Prefix => "the cookie does not keep what its prefix promises",
            Error::Value => "the name, the value or the path is not valid in a field",
            Error::Line(line) => return write!(f, "line {line} is not a cookie"),
        })
    }
}

impl std::error::Error for Error {}

/// Whether `host` is `domain` or below it. Both are in lower case.
fn domain_matches(host: &str, domain: &str) -> bool {
    let below = host.strip_suffix(domain).is_some_and(|rest| rest.ends_with('.'));
    host == domain || (below && !is_address(host))
}

/// Whether a domain is a public suffix, such as `co.uk`: the hosts below it have different owners, so no cookie may be
/// set for it.
pub(super) fn is_public_suffix(domain: &str) -> bool {
    let domain = domain.trim_end_matches('.');
    // A domain that the list cannot parse is treated like a public suffix.
    psl::suffix_str(domain).is_none_or(|suffix| suffix == domain)
}

/// The site of a host, which hosts of one owner share: the label below the public suffix, and all after it.
///
/// A cookie never leaves its site, as in browsers. That is stricter than the standard where a public suffix is below a
/// domain of another owner, as `s3.amazonaws.com` is.
pub(super) fn site(host: &str) -> &str {
    match is_address(host) {
        true => host,
        false => psl::domain_str(host).unwrap_or(host),
    }
}

/// Whether a host is an IP address in any spelling. No top-level domain begins with a digit.
fn is_address(host: &str) -> bool {
    let last = host.trim_end_matches('.').rsplit('.').next().unwrap_or_default();
    host.starts_with('[') || last.starts_with(|first: char| first.is_ascii_digit())
}

/// Whether a host is this machine, so that connections to it cannot be intercepted. Names below `localhost` do not
/// count, since a resolver may have other addresses for them (Secure Contexts §3.1).
fn is_loopback(host: &str) -> bool {
    let ipv6 = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    match ipv6 {
        Some(ipv6) => ipv6.parse().is_ok_and(|address: Ipv6Addr| address.is_loopback()),
        None => host == "localhost" || host.parse().is_ok_and(|address: Ipv4Addr| address.is_loopback()),
    }
}

/// Whether `path` is `folder` or below it (§5.1.4).
fn path_matches(path: &str, folder: &str) -> bool {
    path.strip_prefix(folder)
        .is_some_and(|rest| rest.is_empty() || folder.ends_with('/') || rest.starts_with('/'))
}

/// The path of a cookie without one: that of the request, up to its last `/`.
fn default_path(path: &str) -> &str {
    match path.rsplit_once('/') {
        None | Some(("", _)) => "/",
        Some((folder, _)) => folder,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_within_domains_rfc6265bis_5_1_3() {
        for (host, domain) in
            [("a.com", "a.com"), ("b.a.com", "a.com"), ("c.b.a.com", "a.com"), ("[::1]", "[::1]")]
        {
            assert!(domain_matches(host, domain), "{host} {domain}");
        }
        for (host, domain) in [
            ("a.com", "b.a.com"),
            ("ba.com", "a.com"),
            ("a.com.evil.com", "a.com"),
            ("a.com.", "a.com"),
            ("a.com", ""),
            ("127.0.0.1", "0.0.1"),
            ("127.0.0.1", "1"),
            ("0x7f.0x1", "0x1"),
            ("127.0.0.1.", "1."),
            ("a.127.0.0.1", "127.0.0.1"),
        ] {
            assert!(!domain_matches(host, domain), "{host} {domain}");
        }
    }

    #[test]
    fn public_suffixes_are_known_and_sites_are_below_them() {
        for suffix in [
            "com",
            "co.uk",
            "github.io",
            "s3.amazonaws.com",
            "com.",
            "local",
            "",
            ".",
            "xn--p1ai",
            "xn--55qx5d.cn",
            "anything.ck",
        ] {
            assert!(is_public_suffix(suffix), "{suffix}");
        }
        for domain in ["a.com", "a.co.uk", "a.github.io", "amazonaws.com", "a.local", "www.ck", "a.com."] {
            assert!(!is_public_suffix(domain), "{domain}");
        }
        for (host, expected) in [
            ("a.b.com", "b.com"),
            ("b.com", "b.com"),
            ("a.b.co.uk", "b.co.uk"),
            ("a.b.github.io", "b.github.io"),
            ("github.io", "github.io"),
            ("localhost", "localhost"),
            ("127.0.0.1", "127.0.0.1"),
            ("[::1]", "[::1]"),
        ] {
            assert_eq!(site(host), expected);
        }
    }

    #[test]
    fn only_the_usual_spellings_of_loopback_are_this_machine() {
        for host in ["localhost", "127.0.0.1", "127.255.255.254", "[::1]", "[0:0:0:0:0:0:0:1]"] {
            assert!(is_loopback(host), "{host}");
        }
        for host in [
            "",
            "a.localhost",
            "localhost.",
            "localhost.com",
            "127.0.0.1.com",
            "127.1",
            "0x7f.0.0.1",
            "127.0.0.1.",
            "127.0.0.256",
            "128.0.0.1",
            "0.0.0.0",
            "10.0.0.1",
            "::1",
            "[::]",
            "[::2]",
            "[::ffff:127.0.0.1]",
            "[v1.localhost]",
        ] {
            assert!(!is_loopback(host), "{host}");
        }
    }

    #[test]
    fn paths_are_within_folders_rfc6265bis_5_1_4() {
        for (path, folder) in
            [("/", "/"), ("/a", "/"), ("/a", "/a"), ("/a/", "/a"), ("/a/b", "/a/"), ("/a/b/c", "/a")]
        {
            assert!(path_matches(path, folder), "{path} {folder}");
        }
        for (path, folder) in
            [("/", "/a"), ("/ab", "/a"), ("/a", "/a/"), ("/A", "/a"), ("/b/a", "/a"), ("/a?b", "/a")]
        {
            assert!(!path_matches(path, folder), "{path} {folder}");
        }
        for (path, expected) in
            [("/", "/"), ("/a", "/"), ("/a/", "/a"), ("/a/b", "/a"), ("/a//b", "/a/"), ("*", "/")]
        {
            assert_eq!(default_path(path), expected, "{path}");
        }
    }
}
