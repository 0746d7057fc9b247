//! [`Authority`]: `uri-host [ ":" port ]` (RFC 9110 §4.2, §7.2; RFC 3986 §3.2).

use std::net::Ipv6Addr;
use std::str;

use crate::message::{OctetSet, decimal};

/// A host and an optional port.
///
/// Userinfo is refused, since it can make one host look like another (RFC 9110 §4.2.4), and so are escapes: `%61` is the
/// same host as `a` (§4.2.3), but not to all who look it up or compare it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Authority<'a> {
    /// The host as it was sent, with an IP-literal in brackets. May be empty, as in `Host:` (RFC 9112 §3.2).
    pub(crate) host: &'a str,
    /// `None` if it is absent or empty.
    pub(crate) port: Option<u16>,
}

impl<'a> Authority<'a> {
    pub(crate) fn parse(text: &'a [u8]) -> Option<Authority<'a>> {
        let host_len = host_len(text)?;
        let (host, port) = text.split_at(host_len);
        Some(Authority { host: str::from_utf8(host).ok()?, port: parse_port(port)? })
    }

    /// Whether `text` is an authority that names a host, as that of a URL must (RFC 9110 §4.2.1).
    pub(crate) fn names_host(text: &[u8]) -> bool {
        host_len(text).is_some_and(|host_len| host_len > 0 && parse_port(&text[host_len..]).is_some())
    }
}

/// Splits an authority into host and port, as they were sent. The port may be empty.
pub(crate) fn split_port(authority: &str) -> (&str, Option<&str>) {
    match authority.rsplit_once(':') {
        // The colons of an IPv6 address are in brackets.
        Some((host, port)) if !port.ends_with(']') => (host, Some(port)),
        _ => (authority, None),
    }
}

/// The number that these digits of an authority are; `Some(None)` if there are none (RFC 3986 §3.2.3).
pub(crate) fn port_number(digits: &[u8]) -> Option<Option<u16>> {
    match digits {
        [] => Some(None),
        digits => u16::try_from(decimal(digits)?).ok().map(Some),
    }
}

#[inline]
fn host_len(text: &[u8]) -> Option<usize> {
    match text {
        [b'[', ..] => ip_literal_len(text),
        _ => Some(REG_NAME.prefix_len(text)),
    }
}

/// What a reg-name may contain, apart from escapes. An IPv4 address is a reg-name, too (RFC 3986 §3.2.2).
static REG_NAME: OctetSet = OctetSet::URI_PLAIN;

/// The length of the IP-literal at the front of `text`, including both brackets.
fn ip_literal_len(text: &[u8]) -> Option<usize> {
    let end = memchr::memchr(b']', text)?;
    let address = &text[1..end];
    (is_ipv6(address) || is_ip_future(address)).then_some(end + 1)
}

fn is_ipv6(address: &[u8]) -> bool {
    str::from_utf8(address).is_ok_and(|address| address.parse::<Ipv6Addr>().is_ok())
}

/// `"v" 1*HEXDIG "." 1*( unreserved / sub-delims / ":" )`
fn is_ip_future(address: &[u8]) -> bool {
    static ADDRESS: OctetSet = OctetSet::URI_PLAIN.with(b":");
    let [b'v' | b'V', rest @ ..] = address else { return false };
    let version_len = rest.iter().take_while(|octet| octet.is_ascii_hexdigit()).count();
    match &rest[version_len..] {
        [b'.', address @ ..] => version_len > 0 && !address.is_empty() && ADDRESS.contains_all(address),
        _ => false,
    }
}

fn parse_port(text: &[u8]) -> Option<Option<u16>> {
    match text {
        [] => Some(None),
        [b':', digits @ ..] => port_number(digits),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: Option<(&str, Option<u16>)>) {
        let found = Authority::parse(text.as_bytes()).map(|authority| (authority.host, authority.port));
        assert_eq!(found, expected, "{text:?}");
    }

    #[test]
    fn hosts_are_names_and_addresses_rfc3986_3_2_2() {
        check("example.com", Some(("example.com", None)));
        check("EXAMPLE.com:80", Some(("EXAMPLE.com", Some(80))));
        check("127.0.0.1:8080", Some(("127.0.0.1", Some(8080))));
        check("a_b-c~d!$&'()*+,;=", Some(("a_b-c~d!$&'()*+,;=", None)));
        check("[::1]", Some(("[::1]", None)));
        check("[2001:db8::7]:443", Some(("[2001:db8::7]", Some(443))));
        check("[::ffff:192.0.2.1]:", Some(("[::ffff:192.0.2.1]", None)));
        check("[v1F.a:b~]:80", Some(("[v1F.a:b~]", Some(80))));
        check("", Some(("", None)));
    }

    #[test]
    fn other_hosts_are_refused_rfc9112_3_2() {
        let bad = [
            "a b",
            " a",
            "a ",
            "a, b",
            "a/b",
            "a/",
            "a?b",
            "a#b",
            "a\\b",
            "a\tb",
            "a\0b",
            "a\r",
            "é",
            "a\"b",
            "<a>",
            "a|b",
            "{a}",
            "a^b",
            "a`b",
            "user@a",
            "user:pw@a",
            "@a",
            "%",
            "%4",
            "%4g",
            "a%zz",
            "a%2",
            "a%41",
            "%61",
            "caf%C3%A9.fr:1",
            "[",
            "]",
            "[]",
            "[::1",
            "::1",
            "::1]",
            "[::1]x",
            "[::1]]",
            "[[::1]]",
            "x[::1]",
            "127.0.0.1[x]",
            "[127.0.0.1]",
            "[::g]",
            "[::1%25eth0]",
            "[fe80::1%eth0]",
            "[:::1]",
            "[1:2:3:4:5:6:7]",
            "[v.a]",
            "[v1.]",
            "[v1a]",
            "[vg.a]",
            "[v1.a/b]",
            "[v1.a%41]",
            "[ ::1]",
        ];
        bad.iter().for_each(|text| check(text, None));
        assert_eq!(Authority::parse(b"a\xff"), None);
        assert_eq!(Authority::parse(b"[\xff]"), None);
    }

    #[test]
    fn a_port_alone_names_no_host_rfc9110_4_2_1() {
        for (text, expected) in
            [("a", true), ("a:", true), ("[::1]:80", true), (":80", false), (":", false), ("", false)]
        {
            assert_eq!(Authority::names_host(text.as_bytes()), expected, "{text:?}");
        }
    }

    #[test]
    fn a_port_follows_the_last_colon_outside_of_brackets_rfc3986_3_2() {
        for (authority, expected) in [
            ("a", ("a", None)),
            ("a:80", ("a", Some("80"))),
            ("a:", ("a", Some(""))),
            (":80", ("", Some("80"))),
            ("", ("", None)),
            ("[::1]", ("[::1]", None)),
            ("[::1]:", ("[::1]", Some(""))),
            ("[::1]:80", ("[::1]", Some("80"))),
            ("[v1.a:b]", ("[v1.a:b]", None)),
        ] {
            assert_eq!(split_port(authority), expected, "{authority}");
            let parsed = Authority::parse(authority.as_bytes()).map(|authority| authority.host);
            assert_eq!(parsed, Some(expected.0), "the host is the same to all");
        }
    }

    #[test]
    fn ports_are_digits_and_fit_sixteen_bits_rfc3986_3_2_3() {
        check("a:", Some(("a", None)));
        check("a:0", Some(("a", Some(0))));
        check("a:00080", Some(("a", Some(80))));
        check(":80", Some(("", Some(80))));
        check("a:65535", Some(("a", Some(65535))));
        let bad = [
            "a:65536",
            "a:99999999999999999999",
            "a:+80",
            "a:-1",
            "a: 80",
            "a:80 ",
            "a:8_0",
            "a:0x50",
            "a:80a",
            "a::80",
            "a:1:2",
            "a:80:",
            "a:80/",
            "a:٣",
            "[::1]:+1",
            "[::1]80",
            "[::1]::1",
        ];
        bad.iter().for_each(|text| check(text, None));
    }
}
