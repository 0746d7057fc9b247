//! [`OriginSet`] and [`OriginPattern`]: allowed origins (Fetch, "CORS check").

use std::collections::HashMap;
use std::fmt;
use std::iter;
use std::sync::Arc;

use crate::message::{MessageError, Request, Target, TargetError, split_port};

/// Origins: some that are written out or match a pattern, and some for which a function decides.
#[derive(Clone, Debug, Default)]
pub(super) struct OriginSet {
    /// By their hosts, or by the hosts above those that they are for.
    patterns: HashMap<Box<str>, Vec<OriginPattern>>,
    /// The length of the longest of these hosts.
    host_len_max: usize,
    checks: Vec<OriginCheck>,
}

impl OriginSet {
    /// Adds the origins of a pattern.
    pub(super) fn add(&mut self, pattern: &str) -> Result<(), MessageError> {
        let pattern = OriginPattern::parse(pattern)?;
        let host: Box<str> = OriginParts::split(&pattern.origin).map_or("", |parts| parts.host).into();
        self.host_len_max = self.host_len_max.max(host.len());
        self.patterns.entry(host).or_default().push(pattern);
        Ok(())
    }

    /// Adds the origins of which `check` is true.
    pub(super) fn add_check(&mut self, check: impl Fn(&str, &Request) -> bool + Send + Sync + 'static) {
        self.checks.push(OriginCheck(Arc::new(check)));
    }

    pub(super) fn is_empty(&self) -> bool {
        self.patterns.is_empty() && self.checks.is_empty()
    }

    /// Whether `origin`, which is that of `request`, is one of these.
    pub(super) fn contains(&self, origin: &str, request: &Request) -> bool {
        self.has_pattern_of(origin) || self.checks.iter().any(|check| (check.0)(origin, request))
    }

    /// Whether a pattern matches that has the host of this origin, or one above it.
    fn has_pattern_of(&self, origin: &str) -> bool {
        let Some(OriginParts { host, .. }) = OriginParts::split(origin) else { return false };
        let above = host.match_indices('.').map(|(at, _)| at + 1);
        let mut hosts = iter::once(0).chain(above).map(|at| &host[at..]);
        hosts.any(|host| {
            // Of a long host with many dots, only the end is looked up.
            let patterns = if host.len() > self.host_len_max { None } else { self.patterns.get(host) };
            patterns.is_some_and(|patterns| patterns.iter().any(|pattern| pattern.matches(origin)))
        })
    }
}

/// A function that decides about origins.
#[derive(Clone)]
struct OriginCheck(Arc<CheckFn>);

type CheckFn = dyn Fn(&str, &Request) -> bool + Send + Sync;

impl fmt::Debug for OriginCheck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OriginCheck").finish_non_exhaustive()
    }
}

/// One origin, the hosts below one, or all ports of a host.
#[derive(Clone, Debug, PartialEq, Eq)]
struct OriginPattern {
    /// As browsers write it, without the parts for which a `*` stands.
    origin: Box<str>,
    /// Whether the hosts below that of the origin are meant, and not the host itself.
    is_above: bool,
    has_any_port: bool,
}

impl OriginPattern {
    /// Parses an origin, in which `*.` may stand for labels at the front of the host, and `:*` for any port.
    fn parse(pattern: &str) -> Result<OriginPattern, MessageError> {
        let invalid = || MessageError::from_origin(TargetError::Form, pattern);
        let (scheme, rest) = pattern.split_once("://").ok_or_else(invalid)?;
        let below = rest.strip_prefix("*.");
        let rest = below.unwrap_or(rest);
        let of_any_port = rest.strip_suffix(":*");
        let rest = of_any_port.unwrap_or(rest);
        if rest.contains('*') {
            return Err(invalid());
        }
        let written = format!("{scheme}://{rest}");
        let origin = match scheme.eq_ignore_ascii_case("http") || scheme.eq_ignore_ascii_case("https") {
            true => {
                let origin = Target::from_origin(&written);
                origin.map_err(|invalid| MessageError::from_origin(invalid, pattern))?.as_str().into()
            }
            // Of an app, such as `tauri://localhost`.
            false if is_scheme(scheme) && is_opaque_host(rest) => written.into(),
            false => return Err(invalid()),
        };
        let pattern =
            OriginPattern { origin, is_above: below.is_some(), has_any_port: of_any_port.is_some() };
        // `http://a:80:*` has a port and any other.
        match pattern.has_any_port && pattern.parts().is_some_and(|parts| parts.port.is_some()) {
            true => Err(invalid()),
            false => Ok(pattern),
        }
    }

    /// Whether a browser's `origin` is meant. Both are normalized, so they are compared octet by octet.
    fn matches(&self, origin: &str) -> bool {
        if !self.is_above && !self.has_any_port {
            return *self.origin == *origin;
        }
        let (Some(own), Some(other)) = (self.parts(), OriginParts::split(origin)) else { return false };
        own.scheme == other.scheme
            && match self.is_above {
                true => is_below(other.host, own.host),
                false => other.host == own.host,
            }
            && match self.has_any_port {
                true => other.port.is_none_or(is_port),
                false => other.port == own.port,
            }
    }

    fn parts(&self) -> Option<OriginParts<'_>> {
        OriginParts::split(&self.origin)
    }
}

/// The parts of an origin (RFC 6454 §6.2).
#[derive(Clone, Copy)]
struct OriginParts<'a> {
    scheme: &'a str,
    host: &'a str,
    port: Option<&'a str>,
}

impl<'a> OriginParts<'a> {
    fn split(origin: &'a str) -> Option<OriginParts<'a>> {
        let (scheme, rest) = origin.split_once("://")?;
        let (host, port) = split_port(rest);
        Some(OriginParts { scheme, host, port })
    }
}

/// Whether `host` has further labels in front of `parent`. Of anything that no label has, such as the `@` of
/// `a@evil.example`, the front could be another host.
fn is_below(host: &str, parent: &str) -> bool {
    let front = host.strip_suffix(parent).and_then(|front| front.strip_suffix('.'));
    let is_label = |label: &str| {
        let is_of_label = |octet: u8| octet.is_ascii_alphanumeric() || matches!(octet, b'-' | b'_');
        !label.is_empty() && label.bytes().all(is_of_label)
    };
    front.is_some_and(|front| front.split('.').all(is_label))
}

fn is_port(text: &str) -> bool {
    matches!(text.len(), 1..=5) && text.bytes().all(|octet| octet.is_ascii_digit())
}

/// Whether `text` is a scheme as browsers write it (RFC 3986 §3.1).
fn is_scheme(text: &str) -> bool {
    let is_further = |octet: u8| {
        octet.is_ascii_lowercase() || octet.is_ascii_digit() || matches!(octet, b'+' | b'-' | b'.')
    };
    text.starts_with(|first: char| first.is_ascii_lowercase()) && text.bytes().all(is_further)
}

/// Whether `text` can be the host and the port of an app's origin.
fn is_opaque_host(text: &str) -> bool {
    let is_further = |octet: u8| octet.is_ascii_graphic() && !b"/?#@\\,;\"'<>".contains(&octet);
    !text.is_empty() && text.bytes().all(is_further)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of these origins, a pattern has exactly those.
    #[track_caller]
    fn check(pattern: &str, matching: &[&str], others: &[&str]) {
        let mut set = OriginSet::default();
        set.add(pattern).unwrap();
        for (origins, expected) in [(matching, true), (others, false)] {
            for origin in origins {
                assert_eq!(set.contains(origin, &Request::default()), expected, "{pattern} and {origin}");
            }
        }
    }

    #[test]
    fn an_origin_is_compared_octet_by_octet_fetch_cors_check() {
        check(
            "HTTPS://App.Example:443",
            &["https://app.example"],
            &[
                "",
                "null",
                "*",
                "http://app.example",
                "https://app.example:8443",
                "https://app.example/",
                "https://app.example.",
                "https://APP.example",
                "HTTPS://app.example",
                "https://xapp.example",
                "https://app.example.evil.example",
                "https://app.example@evil.example",
                "https://app.example https://evil.example",
                "https://app.example, https://evil.example",
            ],
        );
        check("http://[0::1]:3000", &["http://[::1]:3000"], &["http://[::1]", "http://[0::1]:3000"]);
        check("tauri://localhost", &["tauri://localhost"], &["http://localhost", "tauri://localhost/"]);
    }

    #[test]
    fn a_pattern_has_the_hosts_below_and_no_other() {
        check(
            "https://*.example.com",
            &["https://a.example.com", "https://a.b.example.com", "https://x-1_2.example.com"],
            &[
                "https://example.com",
                "https://.example.com",
                "https://a..example.com",
                "https://xexample.com",
                "http://a.example.com",
                "https://a.example.com:8443",
                "https://a.example.com:",
                "https://a.example.com/",
                "https://a.example.com.evil.example",
                "https://evil.example/.example.com",
                "https://evil.example/a.example.com",
                "https://evil.example\\a.example.com",
                "https://evil.example#.example.com",
                "https://evil.example?a.example.com",
                "https://evil@a.example.com",
                "https://evil.example:443@a.example.com",
                "https://evil.example%2f.example.com",
                "https://evil.example https://a.example.com",
                "https://\u{e9}.example.com",
            ],
        );
        check("https://*.Example.com:443", &["https://a.example.com"], &["https://a.example.com:443"]);
        check(
            "http://*.a.example:81",
            &["http://b.a.example:81"],
            &["http://b.a.example", "http://a.example:81"],
        );
    }

    #[test]
    fn a_pattern_has_any_port_that_is_a_number() {
        let ports = ["http://localhost", "http://localhost:1", "http://localhost:65535"];
        let others = [
            "http://localhost:",
            "http://localhost:x",
            "http://localhost:123456",
            "http://localhost:1/",
            "http://localhost:1@evil.example:1",
            "http://localhost@evil.example:1",
            "http://a.localhost:1",
            "https://localhost:1",
        ];
        check("http://localhost:*", &ports, &others);
        check(
            "http://*.a.example:*",
            &["http://b.a.example", "http://b.a.example:1"],
            &["http://a.example:1"],
        );
        check("http://[::1]:*", &["http://[::1]", "http://[::1]:1"], &["http://[::2]:1"]);
    }

    #[test]
    fn no_pattern_has_more_than_an_origin() {
        for pattern in [
            "",
            "*",
            "null",
            "a.example",
            "//a.example",
            "https://",
            "https://*",
            "https://*.",
            "https://*:*",
            "https://a.*.example",
            "https://*a.example",
            "https://a.example:80*",
            "https://a.example:1:*",
            "*://a.example",
            "https://a.example/",
            "https://a.example/*",
            "https://a.example?b",
            "https://b:c@a.example",
            "https://a.example, https://b.example",
            "Tauri://localhost",
            "tauri://",
            "tauri://a/b",
            "1a://b",
        ] {
            OriginPattern::parse(pattern).expect_err(pattern);
        }
    }
}
