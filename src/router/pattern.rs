//! How a pattern is written, and [`RouteError`]: the fault of one.
//!
//! The checks are `const`, for `routes!` to make them at compile time.

use std::error::Error;
use std::fmt;

use crate::message::OctetSet;

/// The pattern of all requests whose path matches no other pattern, even if it is no path.
pub(super) const FALLBACK: &str = "*";

/// The first fault of a pattern.
///
/// A pattern is an optional host and a path, both as they are sent. A `{name}` stands for one label of the host, or for
/// one segment of the path that is not empty; a `{*name}` at the end for the rest of the path, even an empty one.
pub(super) const fn fault(pattern: &str) -> Option<Fault> {
    let text = pattern.as_bytes();
    if has_scheme(text) {
        return Some(Fault::Scheme);
    }
    let mut part_at = 0;
    let mut at = 0;
    let mut in_host = true;
    while at <= text.len() {
        let is_end = at == text.len();
        if is_end || text[at] == b'/' || (in_host && text[at] == b'.') {
            if is_end && in_host {
                return Some(Fault::Path);
            }
            let is_no_host = at == 0 && !is_end && text[at] == b'/';
            if !is_no_host && let Some(fault) = part_fault(text, part_at, at, in_host, is_end) {
                return Some(fault);
            }
            part_at = at + 1;
            in_host = in_host && text[at] != b'/';
        }
        at += 1;
    }
    None
}

/// Whether a pattern begins as a URL does, as in `http://a/b`.
const fn has_scheme(text: &[u8]) -> bool {
    let mut at = 0;
    while at < text.len() && text[at].is_ascii_alphabetic() {
        at += 1;
    }
    at > 0 && at + 2 < text.len() && text[at] == b':' && text[at + 1] == b'/' && text[at + 2] == b'/'
}

/// The fault of the label or the segment from `start` to `end`.
const fn part_fault(text: &[u8], start: usize, end: usize, in_host: bool, is_last: bool) -> Option<Fault> {
    if start == end {
        // The last segment of `/a/` is empty.
        return if is_last { None } else { Some(Fault::EmptyPart) };
    }
    match text[start] {
        _ if has_query(text, start, end) => Some(Fault::Query),
        b'{' => name_fault(text, start, end, in_host, is_last),
        b':' | b'*' => Some(Fault::OtherSyntax),
        b'<' | b'[' if !in_host => Some(Fault::OtherSyntax),
        b'.' if !in_host && (end - start == 1 || (end - start == 2 && text[start + 1] == b'.')) => {
            Some(Fault::DotSegment)
        }
        _ if in_host => host_fault(text, start, end),
        _ => segment_fault(text, start, end),
    }
}

/// Whether a query begins in a part. Other routers write a `?` within braces.
const fn has_query(text: &[u8], start: usize, end: usize) -> bool {
    let mut at = start;
    let mut in_braces = false;
    while at < end {
        match text[at] {
            b'{' => in_braces = true,
            b'}' => in_braces = false,
            b'?' if !in_braces => return true,
            _ => {}
        }
        at += 1;
    }
    false
}

/// The fault of a parameter.
const fn name_fault(text: &[u8], start: usize, end: usize, in_host: bool, is_last: bool) -> Option<Fault> {
    if text[end - 1] != b'}' {
        return Some(Fault::Parameter);
    }
    let is_rest = text[start + 1] == b'*';
    let name_at = if is_rest { start + 2 } else { start + 1 };
    if is_rest && (in_host || !is_last) {
        return Some(Fault::RestNotLast);
    }
    if name_at >= end - 1 {
        return Some(Fault::Name);
    }
    let mut at = name_at;
    while at < end - 1 {
        match text[at] {
            b'A'..=b'Z' | b'a'..=b'z' | b'_' => {}
            b'0'..=b'9' if at > name_at => {}
            _ => return Some(Fault::Name),
        }
        at += 1;
    }
    if is_name_used(text, name_at, end) { Some(Fault::NameTwice) } else { None }
}

/// Whether an earlier parameter has the name that begins at `name_at` and ends with the brace before `end`.
const fn is_name_used(text: &[u8], name_at: usize, end: usize) -> bool {
    let mut before = 0;
    while before < name_at {
        if text[before] == b'{' && before + 1 < name_at - 1 {
            let mut at = if text[before + 1] == b'*' { before + 2 } else { before + 1 };
            let mut own = name_at;
            while own < end && text[at] == text[own] {
                (at, own) = (at + 1, own + 1);
            }
            if own == end {
                return true;
            }
        }
        before += 1;
    }
    false
}

const fn host_fault(text: &[u8], start: usize, end: usize) -> Option<Fault> {
    let mut at = start;
    while at < end {
        match text[at] {
            b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' => {}
            // An IPv6 address in brackets has colons, and no dots.
            b'[' | b']' | b':' => {}
            _ => return Some(Fault::Host),
        }
        at += 1;
    }
    None
}

/// The fault of a segment that is matched as it stands: an octet that is never sent so, or another spelling of one.
const fn segment_fault(text: &[u8], start: usize, end: usize) -> Option<Fault> {
    let mut at = start;
    while at < end {
        match text[at] {
            octet if OctetSet::PCHAR.contains(octet) => {}
            b'%' if at + 2 < end && is_needed_escape(text[at + 1], text[at + 2]) => at += 2,
            b'{' | b'}' => return Some(Fault::Parameter),
            _ => return Some(Fault::Octet),
        }
        at += 1;
    }
    None
}

/// Whether two digits are the escape of an octet that must be escaped, in upper case (RFC 3986 §6.2.2).
const fn is_needed_escape(high: u8, low: u8) -> bool {
    match (upper_hex(high), upper_hex(low)) {
        (Some(high), Some(low)) => !OctetSet::UNRESERVED.contains(high << 4 | low),
        _ => false,
    }
}

const fn upper_hex(digit: u8) -> Option<u8> {
    match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'A'..=b'F' => Some(digit - b'A' + 10),
        _ => None,
    }
}

/// Whether two patterns without faults match the same paths.
pub(super) const fn have_one_shape(one: &str, other: &str) -> bool {
    let (one, other) = (one.as_bytes(), other.as_bytes());
    let (mut at, mut other_at) = (0, 0);
    while at < one.len() && other_at < other.len() {
        if one[at] != other[other_at] {
            return false;
        }
        if one[at] == b'{' {
            if (one[at + 1] == b'*') != (other[other_at + 1] == b'*') {
                return false;
            }
            (at, other_at) = (closing_brace(one, at), closing_brace(other, other_at));
        }
        (at, other_at) = (at + 1, other_at + 1);
    }
    at == one.len() && other_at == other.len()
}

/// A hash of a method and a pattern without faults: equal for two patterns that [`have_one_shape`].
pub(super) const fn shape_hash(method: &str, pattern: &str) -> u64 {
    let (method, text) = (method.as_bytes(), pattern.as_bytes());
    let mut hash = 0;
    let mut at = 0;
    while at < method.len() {
        hash = hash_with(hash, method[at]);
        at += 1;
    }
    at = 0;
    while at < text.len() {
        hash = hash_with(hash, text[at]);
        if text[at] == b'{' {
            hash = hash_with(hash, if text[at + 1] == b'*' { b'*' } else { b'}' });
            at = closing_brace(text, at);
        }
        at += 1;
    }
    // The high bits depend on all octets.
    hash >> 32
}

const fn hash_with(hash: u64, octet: u8) -> u64 {
    (hash.rotate_left(5) ^ octet as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

const fn closing_brace(text: &[u8], mut at: usize) -> usize {
    while text[at] != b'}' {
        at += 1;
    }
    at
}

/// The names of the parameters of a pattern without faults.
pub(super) fn params(pattern: &str) -> impl Iterator<Item = &str> {
    pattern.split(['/', '.']).filter_map(param)
}

/// The name of the parameter that a label or a segment is, if it is one.
pub(super) fn param(part: &str) -> Option<&str> {
    let name = part.strip_prefix('{')?.strip_suffix('}')?;
    Some(name.strip_prefix('*').unwrap_or(name))
}

/// A fault of a pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    Path,
    Scheme,
    Query,
    EmptyPart,
    DotSegment,
    OtherSyntax,
    Parameter,
    Name,
    NameTwice,
    RestNotLast,
    Host,
    Octet,
    Prefix,
    Hosts,
    Fallback,
}

impl Fault {
    pub(super) const fn text(self) -> &'static str {
        match self {
            Fault::Path => {
                "a pattern is a path that begins with `/`, perhaps behind a host, as in `a.example/users`"
            }
            Fault::Scheme => "a pattern has no scheme, as in `a.example/users`",
            Fault::Query => "a pattern has no query, which `ctx.request.query()` reads",
            Fault::EmptyPart => "an empty segment matches no path but at its end",
            Fault::DotSegment => "the segments `.` and `..` match no path",
            Fault::OtherSyntax => "a parameter is written `{name}`, and the rest of a path `{*name}`",
            Fault::Parameter => "a parameter is a whole segment, such as `{name}`",
            Fault::Name => {
                "a parameter has a name of letters, digits and `_`, which does not begin with a digit"
            }
            Fault::NameTwice => "two parameters have the same name",
            Fault::RestNotLast => "the rest of a path, `{*name}`, can only be last",
            Fault::Host => "a host is written in lower case, without a port",
            Fault::Octet => {
                "a segment is written as it is sent, with `%XX` in upper case, and only where it is needed"
            }
            Fault::Prefix => "a prefix ends without a `/`",
            Fault::Hosts => "a route has one host, and its prefix has another",
            Fault::Fallback => "`*` takes the requests that match no route, with any method",
        }
    }
}

/// A route that cannot be added to a [`Router`](crate::Router). `Display` names the pattern, and what it conflicts with.
#[derive(Clone, PartialEq, Eq)]
pub struct RouteError(Box<Kind>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Kind {
    Fault { pattern: String, fault: Fault },
    Conflict { route: String, other: String },
}

impl RouteError {
    #[cold]
    pub(super) fn from_fault(pattern: &str, fault: Fault) -> RouteError {
        RouteError(Box::new(Kind::Fault { pattern: pattern.to_owned(), fault }))
    }

    #[cold]
    pub(super) fn from_conflict(route: String, other: String) -> RouteError {
        RouteError(Box::new(Kind::Conflict { route, other }))
    }
}

impl fmt::Display for RouteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.0 {
            Kind::Fault { pattern, fault } => write!(f, "the pattern `{pattern}`: {}", fault.text()),
            Kind::Conflict { route, other } => {
                write!(f, "the route `{route}` conflicts with `{other}`: they match the same requests")
            }
        }
    }
}

impl fmt::Debug for RouteError {
    /// The same as `{}`, since `unwrap` and a `main` function print an error by `{:?}`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Error for RouteError {}
