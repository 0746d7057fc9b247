//! [`Components`]: the scheme, authority, path and query of a target, and what they may contain (RFC 3986 §3).

use std::net::Ipv6Addr;
use std::str;

use crate::memory::Span;
use crate::message::{OctetSet, TargetError, decimal};

/// Where the components of a target are in its text. Components that a form does not have are empty.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Components {
    pub(super) form: TargetForm,
    pub(super) scheme: Option<Scheme>,
    pub(super) authority: Span,
    pub(super) path: Span,
    pub(super) query: Span,
    /// Whether the path is known to consist of octets that are never escaped.
    pub(super) is_path_plain: bool,
}

impl Components {
    /// The components of an absolute `http` or `https` URL, or of an origin-form.
    pub(super) fn from_url(url: &[u8]) -> Result<Components, TargetError> {
        match url {
            [b'/', ..] => Components::origin_form(url),
            _ => Components::absolute_form(url),
        }
    }

    /// Where the last component ends, and with it the text.
    pub(super) fn end(&self) -> usize {
        self.authority.end().max(self.path.end()).max(self.query.end())
    }

    #[inline]
    pub(super) fn origin_form(target: &[u8]) -> Result<Components, TargetError> {
        let plain_len = PLAIN_PATH.prefix_len(target);
        let is_path_plain = matches!(target.get(plain_len), None | Some(b'?'));
        let path = match is_path_plain {
            true => Span::new(0, plain_len),
            false => path_from(target, 0),
        };
        Ok(Components { path, query: query_after(path, target)?, is_path_plain, ..Components::default() })
    }

    pub(super) fn authority_form(target: &[u8]) -> Result<Components, TargetError> {
        match parse_authority(target)?.port {
            // A tunnel needs a port, and zero is not one (RFC 9110 §9.3.6).
            None | Some(0) => Err(TargetError::Authority),
            Some(_) => Ok(Components {
                form: TargetForm::Authority,
                authority: Span::new(0, target.len()),
                ..Components::default()
            }),
        }
    }

    pub(super) fn asterisk_form() -> Components {
        Components { form: TargetForm::Asterisk, path: Span::new(0, "*".len()), ..Components::default() }
    }

    pub(super) fn absolute_form(target: &[u8]) -> Result<Components, TargetError> {
        let scheme_len = memchr::memchr(b':', target).ok_or(TargetError::Form)?;
        let scheme = Scheme::parse(&target[..scheme_len]).ok_or(TargetError::Scheme)?;
        let rest = target[scheme_len..].strip_prefix(b"://").ok_or(TargetError::Form)?;
        let authority = &rest[..memchr::memchr2(b'/', b'?', rest).unwrap_or(rest.len())];
        parse_authority(authority)?;
        let authority = Span::from_slices(authority, target);
        let path = path_from(target, authority.end());
        Ok(Components {
            form: TargetForm::Absolute,
            scheme: Some(scheme),
            authority,
            path,
            query: query_after(path, target)?,
            ..Components::default()
        })
    }
}

/// The four forms of RFC 9112 §3.2.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum TargetForm {
    /// `/path?query`: the usual one (§3.2.1).
    #[default]
    Origin,
    /// `http://host/path?query`: used in requests to a proxy (§3.2.2).
    Absolute,
    /// `host:port`: used with CONNECT (§3.2.3).
    Authority,
    /// `*`: used with OPTIONS for the server as a whole (§3.2.4).
    Asterisk,
}

/// The scheme of an origin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Scheme {
    Http,
    Https,
}

impl Scheme {
    /// Parses a scheme, in any case (RFC 9110 §4.2.3).
    pub(crate) fn parse(text: &[u8]) -> Option<Scheme> {
        match text {
            http if http.eq_ignore_ascii_case(b"http") => Some(Scheme::Http),
            https if https.eq_ignore_ascii_case(b"https") => Some(Scheme::Https),
            _ => None,
        }
    }

    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Scheme::Http => "http",
            Scheme::Https => "https",
        }
    }

    /// The default port.
    pub(crate) fn port(self) -> u16 {
        match self {
            Scheme::Http => 80,
            Scheme::Https => 443,
        }
    }

    pub(crate) fn port_text(self) -> &'static str {
        match self {
            Scheme::Http => "80",
            Scheme::Https => "443",
        }
    }
}

/// A host and an optional port.
///
/// Userinfo is refused, since it can make one host look like another (RFC 9110 §4.2.4), and so are escapes: `%61` is
/// the same host as `a` (§4.2.3), but not to all who look it up or compare it.
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

/// The octets of a reg-name, apart from escapes. An IPv4 address is a reg-name, too (RFC 3986 §3.2.2).
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

/// Whether `origin`, as browsers write it (RFC 6454 §6.2), is `http` or `https` to the host and port of `authority`.
///
/// The scheme of the request does not count: it is that of a proxy, if one is in front. The default port may stand in the
/// authority, where some clients and proxies write it, but not in the origin.
pub(crate) fn is_origin_of(origin: &[u8], authority: &str) -> bool {
    let https = origin.strip_prefix(b"https://").map(|rest| (Scheme::Https, rest));
    let http = || origin.strip_prefix(b"http://").map(|rest| (Scheme::Http, rest));
    let Some((scheme, of_origin)) = https.or_else(http) else { return false };
    let (host, port) = split_port(authority);
    let is_default =
        port.is_none_or(|port| port.is_empty() || port_number(port.as_bytes()) == Some(Some(scheme.port())));
    let own = if is_default { host } else { authority };
    !host.is_empty() && of_origin.eq_ignore_ascii_case(own.as_bytes())
}

fn parse_port(text: &[u8]) -> Option<Option<u16>> {
    match text {
        [] => Some(None),
        [b':', digits @ ..] => port_number(digits),
        _ => None,
    }
}

/// Parses an authority that names a host, as a URL must (RFC 9110 §4.2.1).
fn parse_authority(text: &[u8]) -> Result<Authority<'_>, TargetError> {
    Authority::parse(text).filter(|authority| !authority.host.is_empty()).ok_or(TargetError::Authority)
}

/// The path of `target`, which begins at `start`.
fn path_from(target: &[u8], start: usize) -> Span {
    Span::new(start, PATH.prefix_len(&target[start..]))
}

/// The query of `target`, which is all that follows the path.
#[inline]
fn query_after(path: Span, target: &[u8]) -> Result<Span, TargetError> {
    match &target[path.end()..] {
        [] => Ok(Span::new(path.end(), 0)),
        [b'?', query @ ..] if QUERY.contains_all(query) => Ok(Span::new(path.end() + "?".len(), query.len())),
        _ => Err(TargetError::Byte),
    }
}

/// `pchar` and `/` (RFC 3986 §3.3), and what user agents do not escape in a path, though RFC 3986 requires it. These
/// are the octets that are not in the percent-encode set of WHATWG's URLs (§1.3), and those that curl sends as they
/// were typed: quotation marks, angle brackets, and UTF-8.
///
/// No reader ends a target at one of these. The octets at which some do are not here: a control, SP, DEL, and `#`.
/// Neither is a `\`, which WHATWG's URLs and some servers take for a `/`.
///
/// A `%` is allowed without its digits; [`percent::decode`](crate::message::text::decode) then reads it as itself.
static PATH: OctetSet = ASCII.with_obs_text();

/// The same for a query, in which `\` is an octet like any other, and so is `?`.
static QUERY: OctetSet = ASCII.with(b"?\\").with_obs_text();

/// The octets of [`PATH`] that are never escaped (RFC 3986 §3.3).
static PLAIN_PATH: OctetSet = OctetSet::PCHAR.with(b"/");

const ASCII: OctetSet = OctetSet::PATH_AND_QUERY.without(b"?").with(b"\"<>^`{|}");

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
    fn an_origin_is_of_the_host_and_the_port_rfc6454_4() {
        for (origin, authority, expected) in [
            ("https://a.example", "a.example", true),
            ("http://a.example", "a.example", true),
            ("https://A.example", "a.Example", true),
            ("https://a.example", "a.example:443", true),
            ("https://a.example", "a.example:", true),
            ("http://a.example", "a.example:80", true),
            ("http://[::1]", "[::1]:80", true),
            ("https://[::1]:8443", "[::1]:8443", true),
            ("https://a.example:80", "a.example:80", true),
            ("https://a.example", "a.example:80", false),
            ("http://a.example", "a.example:443", false),
            ("https://a.example", "a.example:8443", false),
            ("https://a.example:8443", "a.example", false),
            ("https://a.example:443", "a.example", false),
            ("https://a.example:443", "a.example:443", false),
            ("https://a.example", "a.example.", false),
            ("https://a.example/", "a.example", false),
            ("https://a.example@b.example", "b.example", false),
            ("HTTPS://a.example", "a.example", false),
            ("ftp://a.example", "a.example", false),
            ("null", "a.example", false),
            ("https://", "", false),
            ("https://", ":443", false),
            ("https://:8443", ":8443", false),
        ] {
            assert_eq!(is_origin_of(origin.as_bytes(), authority), expected, "{origin} {authority}");
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
