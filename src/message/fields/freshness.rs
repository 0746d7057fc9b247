//! [`remove_freshness`]: how long caches would store content, which holds for no failure in its place (RFC 9111 §5, RFC
//! 9213).

use std::time::{Duration, UNIX_EPOCH};

use super::headers::Headers;
use super::name::FieldName;
use super::value::members;
use crate::message::text::HttpDate;

/// Removes the time for which content would be stored: a cache would store a failure in its place for as long (RFC 9111
/// §3). Only directives that keep caches from using it stay, such as `no-store` and `max-age=0`.
///
/// Others might prolong that time in the cache of some vendor, by a name that is not known here.
pub(crate) fn remove_freshness(headers: &mut Headers) {
    if !headers.lines().any(|(name, _)| is_cache_field(name)) {
        return;
    }
    let mut limits = Headers::new();
    for (name, value) in headers.iter().filter(|(name, _)| is_cache_field(name.as_bytes())) {
        if let Some(limit) = limit(name, value) {
            limits.push(FieldName::new(name), &limit);
        }
    }
    headers.retain(|name| !is_cache_field(name));
    headers.append_all(&limits);
}

/// Whether caches store content for a time by this field: those of RFC 9111, those for the caches of one vendor (RFC 9213
/// §2), and their predecessors (Edge Architecture Specification §2; Akamai, nginx).
fn is_cache_field(name: &[u8]) -> bool {
    let target_len = name.len().saturating_sub("cache-control".len());
    name[target_len..].eq_ignore_ascii_case(b"cache-control")
        || ["edge-control", "expires", "surrogate-control", "x-accel-expires"]
            .iter()
            .any(|field| name.eq_ignore_ascii_case(field.as_bytes()))
}

/// Returns what is left of a value without the time that it grants.
fn limit(name: &str, value: &[u8]) -> Option<Vec<u8>> {
    let is_limit = if name.eq_ignore_ascii_case("expires") {
        // A malformed date is one in the past (RFC 9111 §5.3).
        HttpDate::parse(value).is_none_or(|time| time < UNIX_EPOCH + LONG_PAST)
    } else if name.eq_ignore_ascii_case("x-accel-expires") {
        is_no_time(value)
    } else {
        let limits: Vec<&[u8]> = members(value).filter(|directive| is_limiting(directive)).collect();
        return (!limits.is_empty()).then(|| limits.join(&b", "[..]));
    };
    is_limit.then(|| value.to_vec())
}

/// Whether a directive keeps caches from storing content, or from using it.
fn is_limiting(directive: &[u8]) -> bool {
    // A parameter names the caches that are meant.
    let mut parts = directive.splitn(2, |octet| matches!(octet, b'=' | b';'));
    let name = parts.next().unwrap_or_default();
    LIMITING.iter().any(|limiting| name.eq_ignore_ascii_case(limiting.as_bytes()))
        || parts.next().is_some_and(is_no_time)
}

/// Whether a number of seconds grants no time, such as `0`, `"0"` and `-1`.
fn is_no_time(seconds: &[u8]) -> bool {
    let digits = seconds.strip_prefix(b"\"").unwrap_or(seconds);
    match digits.first() {
        Some(b'-') => true,
        Some(b'0') => !digits.iter().any(|octet| matches!(octet, b'1'..=b'9')),
        _ => false,
    }
}

/// The year 2026, in seconds since 1970. Dates before it, such as that of a zero, are past on every clock: none is read here.
const LONG_PAST: Duration = Duration::from_secs(1_767_225_600);

const LIMITING: [&str; 5] = ["bypass-cache", "no-cache", "no-store", "no-store-remote", "private"];

#[cfg(test)]
mod tests {
    use super::*;

    /// Of a field, this value is left.
    #[track_caller]
    fn check(name: &str, value: &str, expected: Option<&str>) {
        let mut headers = Headers::new();
        headers.set("x-before", "1").unwrap();
        headers.set(name, value).unwrap();
        headers.set("x-after", "2").unwrap();
        remove_freshness(&mut headers);
        let left: Vec<&str> = headers.all(name).map(|left| str::from_utf8(left).unwrap()).collect();
        assert_eq!(left, Vec::from_iter(expected), "{name}: {value}");
        assert_eq!([headers.get("x-before"), headers.get("x-after")], [Some("1"), Some("2")]);
    }

    #[test]
    fn directives_that_limit_stay_and_others_go_rfc9111_5_2_2() {
        for (value, expected) in [
            ("max-age=600", None),
            ("Public, Max-Age=31536000, immutable", None),
            ("s-maxage=9, stale-while-revalidate=60, stale-if-error=60", None),
            ("max-age=600, must-revalidate, no-transform", None),
            ("no-store", Some("no-store")),
            ("No-Store, max-age=600", Some("No-Store")),
            ("private, max-age=600", Some("private")),
            ("max-age=600,no-cache", Some("no-cache")),
            ("no-cache=\"set-cookie, x\", max-age=9", Some("no-cache=\"set-cookie, x\"")),
            ("private=\"max-age=9\", public", Some("private=\"max-age=9\"")),
            ("public, max-age=0, must-revalidate", Some("max-age=0")),
            ("s-maxage=0, max-age=600", Some("s-maxage=0")),
            ("private, max-age=0", Some("private, max-age=0")),
            ("max-age=\"0\"", Some("max-age=\"0\"")),
            ("max-age=00", Some("max-age=00")),
            ("max-age=-1", Some("max-age=-1")),
            ("max-age=0600", None),
            ("max-age=\"600\"", None),
            ("max-age", None),
            // A cache that knows the status may store it all the same (RFC 9111 §5.2.2.3).
            ("must-understand, no-store", Some("no-store")),
            ("", None),
        ] {
            check("cache-control", value, expected);
            for name in ["CDN-Cache-Control", "cloudflare-cdn-cache-control", "netlify-cdn-cache-control"] {
                check(name, value, expected);
            }
            for name in ["vercel-cdn-cache-control", "edge-control", "Surrogate-Control"] {
                check(name, value, expected);
            }
        }
        // Durations with units, negations, and times after which stale content is still used.
        for value in ["cache-maxage=1d", "downstream-ttl=1h", "!no-store, !bypass-cache", "max-age=0+60"] {
            check("edge-control", value, None);
        }
        check("edge-control", "max-age=0s, bypass-cache", Some("max-age=0s, bypass-cache"));
        check("surrogate-control", "max-age=60;a, no-store;b", Some("no-store;b"));
        check("surrogate-control", "content=\"ESI/1.0\", no-store-remote", Some("no-store-remote"));
    }

    #[test]
    fn a_time_in_the_past_stays_rfc9111_5_3() {
        for (value, expected) in [
            ("0", Some("0")),
            ("-1", Some("-1")),
            ("Thu, 01 Jan 1970 00:00:00 GMT", Some("Thu, 01 Jan 1970 00:00:00 GMT")),
            ("Fri, 31 Dec 9999 23:59:59 GMT", None),
        ] {
            check("expires", value, expected);
        }
        for (value, expected) in [("0", Some("0")), ("600", None), ("@2000000000", None), ("off", None)] {
            check("x-accel-expires", value, expected);
        }
    }

    #[test]
    fn other_fields_and_each_line_stay() {
        for name in ["x-dns-prefetch-control", "access-control-max-age", "control", "pragma", "expires-in"] {
            check(name, "max-age=600", Some("max-age=600"));
        }
        let mut headers = Headers::new();
        for value in ["no-store", "max-age=9", "private, public"] {
            headers.append("cache-control", value).unwrap();
        }
        remove_freshness(&mut headers);
        assert_eq!(Vec::from_iter(headers.all("cache-control")), [&b"no-store"[..], b"private"]);
    }
}
