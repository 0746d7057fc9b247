//! [`Cookie`]: one that is kept, and what decides whether it may be (RFC 6265bis §5.7).

use std::fmt;
use std::time::{Duration, SystemTime};

use super::host;
use crate::SameSite;
use crate::SetCookie;
use crate::Target;

/// A cookie in the jar: the attributes of §5.7, by their names there.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Cookie {
    pub(super) name: String,
    pub(super) value: String,
    /// In lower case.
    pub(super) domain: String,
    /// Whether it is for the domain itself and for no host below it.
    pub(super) host_only: bool,
    pub(super) path: String,
    /// None if it ends with the session.
    pub(super) expires: Option<SystemTime>,
    pub(super) secure: bool,
    pub(super) http_only: bool,
    pub(super) same_site: Option<SameSite>,
    pub(super) partitioned: bool,
    /// Which cookie of its jar it is: of two the earlier one has the smaller number.
    pub(super) created: u64,
    /// When it was last set or sent, counted as `created` is.
    pub(super) used: u64,
}

impl Cookie {
    /// The cookie that a response from `origin` may set, as far as it can be told without the others.
    pub(super) fn new(origin: &Origin<'_>, set: &SetCookie<'_>, now: SystemTime) -> Result<Cookie, Rejected> {
        if !set.keeps_prefix() {
            return Err(Rejected::Prefix);
        }
        if set.secure && !origin.is_secure {
            return Err(Rejected::Insecure);
        }
        let path = set.path.unwrap_or_else(|| host::folder(origin.path));
        // A copy, so that nothing a program puts in says more than what could have come off the wire.
        if !is_sayable(set.name, set.value, path) {
            return Err(Rejected::Value);
        }
        let (domain, host_only) = domain(origin, set.domain)?;
        let after = |age: Duration| now + age.min(LIFE_MAX);
        Ok(Cookie {
            name: set.name.to_owned(),
            value: set.value.to_owned(),
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

    /// Has it not expired yet?
    pub(super) fn is_alive(&self, now: SystemTime) -> bool {
        self.expires.is_none_or(|expires| expires > now)
    }

    /// Is it sent with a request for `origin`? (§5.8.3)
    pub(super) fn goes_to(&self, origin: &Origin<'_>) -> bool {
        let is_for_host = match self.host_only {
            true => origin.host == self.domain,
            false => host::is_within(&origin.host, &self.domain),
        };
        is_for_host && host::path_is_within(origin.path, &self.path) && (origin.is_secure || !self.secure)
    }

    /// Would it take the other's place?
    pub(super) fn replaces(&self, other: &Cookie) -> bool {
        (&self.name, &self.domain, self.host_only, &self.path)
            == (&other.name, &other.domain, other.host_only, &other.path)
    }

    /// Would it, set by whoever listens on the way, pass for the other, which is secure? (§5.7, "leave secure cookies
    /// alone")
    pub(super) fn shadows(&self, other: &Cookie) -> bool {
        let is_near =
            host::is_within(&self.domain, &other.domain) || host::is_within(&other.domain, &self.domain);
        other.secure && self.name == other.name && is_near && host::path_is_within(&self.path, &other.path)
    }
}

/// What a request goes to, as far as cookies care.
#[derive(Debug)]
pub(super) struct Origin<'a> {
    /// In lower case, without the port: cookies do not know of ports.
    pub(super) host: String,
    pub(super) path: &'a str,
    /// Whether nobody listens on the way.
    pub(super) is_secure: bool,
}

impl<'a> Origin<'a> {
    /// None if the target is not in absolute-form.
    pub(super) fn of(target: &'a Target) -> Option<Origin<'a>> {
        let (scheme, host) = (target.scheme()?, target.host()?.to_ascii_lowercase());
        let is_secure = scheme == "https" || host::is_loopback(&host);
        Some(Origin { host, path: target.path(), is_secure })
    }
}

/// The longest that a cookie lives: 400 days (§5.6.1).
pub(super) const LIFE_MAX: Duration = Duration::from_secs(400 * 86_400);

/// The domain of a cookie, and whether it is for that host only (§5.7).
fn domain(origin: &Origin<'_>, asked: Option<&str>) -> Result<(String, bool), Rejected> {
    let Some(domain) = asked.map(str::to_ascii_lowercase) else { return Ok((origin.host.clone(), true)) };
    if host::is_public_suffix(&domain) {
        return match domain == origin.host {
            true => Ok((domain, true)),
            false => Err(Rejected::PublicSuffix),
        };
    }
    match host::is_within(&origin.host, &domain) && host::site(&origin.host) == host::site(&domain) {
        true => Ok((domain, false)),
        false => Err(Rejected::Domain),
    }
}

/// Whether one `Set-Cookie` field could have brought this name, value and path. A path that was taken from the request is
/// held to this too, for a server may lead its client to one of any length.
pub(super) fn is_sayable(name: &str, value: &str, path: &str) -> bool {
    let field = format!("{name}={value}; Path={path}");
    let set = SetCookie { path: Some(path), ..SetCookie::new(name, value) };
    SetCookie::parse(field.as_bytes()) == Some(set)
}

/// Why a jar does not take a cookie.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Rejected {
    /// The target has no scheme and host to set it for.
    Target,
    /// It is for a domain that the host is not in.
    Domain,
    /// It is for a public suffix, so for hosts of strangers.
    PublicSuffix,
    /// It is secure, or would pass for one that is, and came by `http` from another machine.
    Insecure,
    /// It does not keep what the prefix of its name promises.
    Prefix,
    /// Its name, value or path could not have come in a field, or is too long. The folder of the request, which counts
    /// where the cookie names no path, may be no longer than 1,024 bytes either.
    Value,
}

impl fmt::Display for Rejected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Rejected::Target => "the target names no host",
            Rejected::Domain => "the cookie is for a domain that the host is not in",
            Rejected::PublicSuffix => "the cookie is for a public suffix",
            Rejected::Insecure => "the cookie is secure, or would pass for one that is, and came by http",
            Rejected::Prefix => "the cookie does not keep what its prefix promises",
            Rejected::Value => "the name, the value or the path could not stand in a field",
        })
    }
}

impl std::error::Error for Rejected {}
