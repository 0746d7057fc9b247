//! The rules of the grammar that stand within one line (RFC 9110 §5, RFC 9112 §3, §7.1.1, RFC 3986).

use std::net::Ipv6Addr;
use std::str::from_utf8;

/// `token` (RFC 9110 §5.6.2).
pub fn is_token(text: &[u8]) -> bool {
    !text.is_empty() && text.iter().all(|octet| is_tchar(*octet))
}

fn is_tchar(octet: u8) -> bool {
    octet.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&octet)
}

/// `field-value` (RFC 9110 §5.5), once the blanks around it are gone; also `reason-phrase` (RFC 9112 §4).
pub fn is_field_value(text: &[u8]) -> bool {
    text.iter().all(|octet| matches!(octet, b'\t' | b' '..=b'~' | 0x80..))
}

/// `OWS` and `BWS` (RFC 9110 §5.6.3).
fn is_blank(octet: &u8) -> bool {
    matches!(octet, b' ' | b'\t')
}

/// `text` without the blanks before it.
pub fn trim_start(text: &[u8]) -> &[u8] {
    &text[text.iter().take_while(|octet| is_blank(octet)).count()..]
}

/// `text` without the blanks around it.
pub fn trim(text: &[u8]) -> &[u8] {
    let blank = text.iter().rev().take_while(|octet| is_blank(octet)).count();
    trim_start(&text[..text.len() - blank])
}

/// The elements of a list, of which empty ones are ignored (RFC 9110 §5.6.1.2). No list that is read here has strings.
pub fn elements(list: &[u8]) -> impl Iterator<Item = &[u8]> {
    list.split(|octet| *octet == b',').map(trim).filter(|element| !element.is_empty())
}

/// `1*DIGIT`, where a number that is too large is as large as can be.
pub fn decimal(text: &[u8]) -> Option<u64> {
    number(text, 10)
}

/// `1*HEXDIG`, likewise.
pub fn hexadecimal(text: &[u8]) -> Option<u64> {
    number(text, 16)
}

fn number(text: &[u8], radix: u32) -> Option<u64> {
    let digit = |octet: &u8| char::from(*octet).to_digit(radix).map(u64::from);
    let all = text.iter().map(digit).collect::<Option<Vec<u64>>>()?;
    let more = |value: u64, digit: u64| value.saturating_mul(radix.into()).saturating_add(digit);
    (!all.is_empty()).then(|| all.into_iter().fold(0, more))
}

/// `chunk-ext` (RFC 9112 §7.1.1).
pub fn is_chunk_extension(mut rest: &[u8]) -> bool {
    while !rest.is_empty() {
        let Some(name) = trim_start(rest).strip_prefix(b";").map(trim_start) else { return false };
        let Some(behind) = behind_token(name) else { return false };
        rest = behind;
        if let Some(value) = trim_start(behind).strip_prefix(b"=").map(trim_start) {
            let Some(behind) = behind_token(value).or_else(|| behind_string(value)) else { return false };
            rest = behind;
        }
    }
    true
}

/// The text behind the token that `text` begins with.
fn behind_token(text: &[u8]) -> Option<&[u8]> {
    let len = text.iter().take_while(|octet| is_tchar(**octet)).count();
    (len > 0).then(|| &text[len..])
}

/// The text behind the `quoted-string` that `text` begins with (RFC 9110 §5.6.4).
fn behind_string(text: &[u8]) -> Option<&[u8]> {
    let mut rest = text.strip_prefix(b"\"")?;
    loop {
        rest = match rest {
            [b'"', behind @ ..] => return Some(behind),
            [b'\\', b'\t' | b' '..=b'~' | 0x80.., behind @ ..] => behind,
            [b'\\', ..] => return None,
            [b'\t' | b' '..=b'~' | 0x80.., behind @ ..] => behind,
            _ => return None,
        };
    }
}

/// Which of the four forms a request-target has (RFC 9112 §3.2).
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Form {
    Origin,
    Absolute,
    Authority,
    Asterisk,
}

/// The form of `target`, if it is one that `method` may have. With `is_raw`, paths and queries also have what user agents
/// send without escaping it.
pub fn form(method: &[u8], target: &[u8], is_raw: bool) -> Option<Form> {
    match (method, target) {
        (b"CONNECT", _) => is_authority_form(target).then_some(Form::Authority),
        (b"OPTIONS", b"*") => Some(Form::Asterisk),
        (_, [b'/', ..]) => is_path_and_query(target, is_raw).then_some(Form::Origin),
        _ => {
            let (authority, rest) = split_absolute(target)?;
            let is_path = rest.is_empty() || is_path_and_query(rest, is_raw);
            (is_authority(authority) && !authority.starts_with(b":") && !authority.is_empty() && is_path)
                .then_some(Form::Absolute)
        }
    }
}

/// The authority, and what follows it, of a URI whose scheme is http or https (RFC 9110 §4.2).
pub fn split_absolute(target: &[u8]) -> Option<(&[u8], &[u8])> {
    let colon = target.iter().position(|octet| *octet == b':')?;
    let (scheme, rest) = target.split_at(colon);
    let is_http = scheme.eq_ignore_ascii_case(b"http") || scheme.eq_ignore_ascii_case(b"https");
    let rest = rest.strip_prefix(b"://").filter(|_| is_http)?;
    Some(rest.split_at(rest.iter().position(|octet| b"/?".contains(octet)).unwrap_or(rest.len())))
}

/// `absolute-path [ "?" query ]`, or `"?" query`, which is an absolute URI's whose path is empty.
fn is_path_and_query(text: &[u8], is_raw: bool) -> bool {
    if is_raw {
        return text.iter().all(|octet| !matches!(octet, 0..=b' ' | b'#' | 0x7f));
    }
    let octets = text.iter().filter(|octet| **octet != b'%');
    let is_path = |octet: &u8| is_pchar(*octet) || matches!(octet, b'/' | b'?');
    octets.clone().all(is_path) && has_good_escapes(text)
}

/// `pchar`, apart from escapes (RFC 3986 §3.3).
fn is_pchar(octet: u8) -> bool {
    is_name_octet(octet) || matches!(octet, b':' | b'@')
}

/// `unreserved / sub-delims` (RFC 3986 §2).
fn is_name_octet(octet: u8) -> bool {
    octet.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=".contains(&octet)
}

fn has_good_escapes(text: &[u8]) -> bool {
    let is_good = |escape: &[u8]| escape.len() >= 2 && escape[..2].iter().all(u8::is_ascii_hexdigit);
    text.split(|octet| *octet == b'%').skip(1).all(is_good)
}

/// `uri-host ":" port`, where the port is one (RFC 9112 §3.2.3, RFC 9110 §9.3.6).
fn is_authority_form(target: &[u8]) -> bool {
    let (host, port) = split_port(target);
    let is_port = port.and_then(decimal).is_some_and(|port| (1..=65535).contains(&port));
    is_host(host) && !host.is_empty() && is_port
}

/// `uri-host [ ":" port ]` (RFC 9110 §7.2).
pub fn is_authority(text: &[u8]) -> bool {
    let (host, port) = split_port(text);
    is_host(host) && port.is_none_or(|port| port.iter().all(u8::is_ascii_digit))
}

/// The host, and the port if there is one. Colons within brackets are no port's.
pub fn split_port(authority: &[u8]) -> (&[u8], Option<&[u8]>) {
    let bracket = authority.iter().rposition(|octet| *octet == b']').unwrap_or(0);
    match authority[bracket..].iter().position(|octet| *octet == b':') {
        Some(colon) => (&authority[..bracket + colon], Some(&authority[bracket + colon + 1..])),
        None => (authority, None),
    }
}

/// `host` (RFC 3986 §3.2.2).
fn is_host(host: &[u8]) -> bool {
    match host.strip_prefix(b"[").and_then(|rest| rest.strip_suffix(b"]")) {
        Some(literal) => is_ip_literal(literal),
        None => has_good_escapes(host) && host.iter().all(|octet| is_name_octet(*octet) || *octet == b'%'),
    }
}

/// `IPv6address / IPvFuture`.
fn is_ip_literal(literal: &[u8]) -> bool {
    let is_v6 = from_utf8(literal).is_ok_and(|text| text.parse::<Ipv6Addr>().is_ok());
    is_v6 || is_ip_future(literal)
}

fn is_ip_future(literal: &[u8]) -> bool {
    let [b'v' | b'V', rest @ ..] = literal else { return false };
    let Some(dot) = rest.iter().position(|octet| *octet == b'.') else { return false };
    let (version, address) = (&rest[..dot], &rest[dot + 1..]);
    let is_address = |octet: &u8| is_name_octet(*octet) || *octet == b':';
    hexadecimal(version).is_some() && !address.is_empty() && address.iter().all(is_address)
}
