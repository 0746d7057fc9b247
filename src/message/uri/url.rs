//! [`Url`]: a URL that people or pages wrote, on its way to a [`Target`](super::Target) (WHATWG URL §3.5, §4.4).

use std::fmt::{self, Write};
use std::net::{Ipv4Addr, Ipv6Addr};

use super::components::{Components, Scheme, TargetForm, port_number, split_port};
use super::idna;
use crate::memory::Span;
use crate::message::text::percent;
use crate::message::{OctetSet, TargetError, basic_credentials};

/// A URL, read as browsers read it, and spelled as RFC 3986 requires.
///
/// So each reader of the result finds the same host in it, which need not be so for what was written: `http:\\a@b/` and
/// `http://0x7f.1/` lead some to another host than others.
pub(super) struct Url {
    pub(super) text: String,
    pub(super) components: Components,
    /// The value of `authorization` that stands for the userinfo (RFC 7617), which is not in the text.
    pub(super) authorization: Option<Box<str>>,
}

impl Url {
    /// Reads an absolute URL, or a path with an optional query.
    pub(super) fn parse(url: &[u8]) -> Result<Url, TargetError> {
        let url = without_blanks(url);
        match (split_scheme(&url)?, url.first()) {
            (Some((scheme, rest)), _) => Url::absolute(scheme, rest),
            (None, Some(first)) if is_slash(first) => {
                let mut path =
                    Url { text: String::new(), components: Components::default(), authorization: None };
                path.append(&url);
                Ok(path)
            }
            (None, _) => Err(TargetError::Form),
        }
    }

    /// Resolves a reference that was found at a URL with this scheme, this authority, and this path and query.
    pub(super) fn join(
        base_scheme: Scheme,
        authority: &str,
        path_and_query: &str,
        reference: &[u8],
    ) -> Result<Url, TargetError> {
        let reference = without_blanks(reference);
        let (scheme, rest) = match split_scheme(&reference)? {
            None => (base_scheme, &*reference),
            // Not an absolute URL: `http:a` is `a`, if the base has that scheme, too.
            Some((scheme, rest)) if scheme == base_scheme => (scheme, rest),
            Some((scheme, rest)) => return Url::absolute(scheme, rest).map(Url::with_path),
        };
        let (path, query) = split_query(path_and_query.as_bytes());
        let folder = path.iter().rposition(is_slash).map_or(&b"/"[..], |slash| &path[..=slash]);
        let resource = match rest {
            [first, second, ..] if is_slash(first) && is_slash(second) => {
                return Url::absolute(scheme, rest).map(Url::with_path);
            }
            [first, ..] if is_slash(first) => rest.to_vec(),
            [] => [path, query].concat(),
            [b'?', ..] => [path, rest].concat(),
            relative => [folder, relative].concat(),
        };
        Url::absolute(scheme, &[authority.as_bytes(), &resource].concat()).map(Url::with_path)
    }

    /// Reads the part of a URL behind the colon of its scheme.
    fn absolute(scheme: Scheme, rest: &[u8]) -> Result<Url, TargetError> {
        // Any number of slashes leads to the authority.
        let slashes = rest.iter().take_while(|octet| is_slash(octet)).count();
        let rest = &rest[slashes..];
        let end = rest.iter().position(|octet| is_slash(octet) || *octet == b'?').unwrap_or(rest.len());
        let (authority, resource) = rest.split_at(end);
        let authority = str::from_utf8(authority).map_err(|_| TargetError::Authority)?;
        let (userinfo, authority) = authority.rsplit_once('@').unwrap_or(("", authority));
        let (host, port) = split_port(authority);
        let mut text = format!("{}://", scheme.as_str());
        let start = text.len();
        text.push_str(&uri_host(host)?);
        if let Some(port) = non_default_port(port.unwrap_or_default(), scheme)? {
            text.push_str(&format!(":{port}"));
        }
        let authority = Span::new(start, text.len() - start);
        let components = Components {
            form: TargetForm::Absolute,
            scheme: Some(scheme),
            authority,
            path: Span::new(text.len(), 0),
            query: Span::new(text.len(), 0),
            ..Components::default()
        };
        let mut url = Url { text, components, authorization: authorization(userinfo)? };
        if !resource.is_empty() {
            url.append(resource);
        }
        Ok(url)
    }

    /// Appends a path and an optional query.
    fn append(&mut self, resource: &[u8]) {
        let (path, query) = split_query(resource);
        let start = self.text.len();
        append_path(path, &mut self.text);
        self.components.path = Span::new(start, self.text.len() - start);
        if let [b'?', query @ ..] = query {
            self.text.push('?');
            let start = self.text.len();
            percent::encode_once(query, &QUERY, &mut self.text);
            self.components.query = Span::new(start, self.text.len() - start);
        } else {
            self.components.query = Span::new(self.text.len(), 0);
        }
    }

    /// Adds the path `/` if there is none. A URL without a path can stand for a server as a whole (RFC 9112 §3.2.4),
    /// which no reference does.
    fn with_path(mut self) -> Url {
        if self.components.path.len() == 0 {
            self.append(b"/");
        }
        self
    }
}

/// The components, up to its fragment, of a URL that is spelled already as a [`Url`] is. Allocates nothing.
pub(super) fn parse_normalized(url: &str) -> Option<Components> {
    let (scheme, rest) = match (url.strip_prefix("http://"), url.strip_prefix("https://")) {
        (Some(rest), _) => (Some(Scheme::Http), rest),
        (None, Some(rest)) => (Some(Scheme::Https), rest),
        (None, None) => (None, url),
    };
    let mut components = Components::default();
    if let Some(scheme) = scheme {
        let host_len = normalized_host_len(rest)?;
        let len = host_len + normalized_port_len(&rest[host_len..], scheme)?;
        let authority = Span::new(url.len() - rest.len(), len);
        components = Components { form: TargetForm::Absolute, scheme: Some(scheme), authority, ..components };
    }
    let start = components.authority.end();
    let resource = &url.as_bytes()[start..];
    let (path, behind) = resource.split_at(NORMALIZED_PATH.prefix_len(resource));
    let (query_at, query_len) = match behind {
        [b'?', query @ ..] => (path.len() + 1, NORMALIZED_QUERY.prefix_len(query)),
        _ => (path.len(), 0),
    };
    let end = query_at + query_len;
    let is_ended = matches!(resource.get(end), None | Some(b'#'));
    let is_rooted = path.first() == Some(&b'/') || (scheme.is_some() && end == 0);
    let is_exact = memchr::memchr2_iter(b'.', b'%', &resource[..end]).all(|at| {
        let is_first = at > 0 && at < path.len() && path[at - 1] == b'/';
        let is_escape = || percent::decode_escape(&resource[at..end]).is_some();
        (resource[at] == b'.' || is_escape()) && !(is_first && is_dot_segment(&path[at..]))
    });
    components.path = Span::new(start, path.len());
    components.query = Span::new(start + query_at, query_len);
    (is_ended && is_rooted && is_exact).then_some(components)
}

/// The length of the port at the front of `text` with its colon, if it has only one spelling, and is not the default.
fn normalized_port_len(text: &str, scheme: Scheme) -> Option<usize> {
    let Some(text) = text.strip_prefix(':') else { return Some(0) };
    let digits = &text[..text.bytes().take_while(u8::is_ascii_digit).count()];
    match non_default_port(digits, scheme) {
        Ok(Some(_)) if digits == "0" || !digits.starts_with('0') => Some(":".len() + digits.len()),
        _ => None,
    }
}

/// The port, if it is not the default.
fn non_default_port(digits: &str, scheme: Scheme) -> Result<Option<u16>, TargetError> {
    let port = port_number(digits.as_bytes()).ok_or(TargetError::Authority)?;
    Ok(port.filter(|port| *port != scheme.port()))
}

/// The value of `authorization` for the user and the password in a URL, if there are any.
fn authorization(userinfo: &str) -> Result<Option<Box<str>>, TargetError> {
    match userinfo.split_once(':').unwrap_or((userinfo, "")) {
        ("", "") => Ok(None),
        (user, password) => {
            let basic = basic_credentials(&percent::decode_octets(user), &percent::decode_octets(password));
            Ok(Some(basic.map_err(|_| TargetError::Userinfo)?.into()))
        }
    }
}

/// The URL without its fragment, and without the octets that browsers drop: controls and spaces at both ends, tabs and
/// ends of lines anywhere.
fn without_blanks(url: &[u8]) -> Vec<u8> {
    let is_dropped = |octet: &u8| *octet <= b' ';
    let start = url.iter().take_while(|octet| is_dropped(octet)).count();
    let end = url.iter().rposition(|octet| !is_dropped(octet)).map_or(start, |last| last + 1);
    let before_fragment = url[start..end].iter().take_while(|octet| **octet != b'#');
    before_fragment.filter(|octet| !matches!(octet, b'\t' | b'\n' | b'\r')).copied().collect()
}

/// Splits a URL behind the colon of its scheme, if it has one.
fn split_scheme(url: &[u8]) -> Result<Option<(Scheme, &[u8])>, TargetError> {
    static OCTET: OctetSet = OctetSet::ALPHANUMERIC.with(b"+-.");
    let Some(colon) = memchr::memchr(b':', url) else { return Ok(None) };
    let (name, rest) = (&url[..colon], &url[colon + 1..]);
    let is_name = name.first().is_some_and(u8::is_ascii_alphabetic) && OCTET.contains_all(name);
    match is_name {
        true => Ok(Some((Scheme::parse(name).ok_or(TargetError::Scheme)?, rest))),
        false => Ok(None),
    }
}

/// Splits a resource into its path, and its query with the `?`.
fn split_query(resource: &[u8]) -> (&[u8], &[u8]) {
    resource.split_at(memchr::memchr(b'?', resource).unwrap_or(resource.len()))
}

/// Whether an octet separates segments: browsers take `\` for `/`.
fn is_slash(octet: &u8) -> bool {
    matches!(octet, b'/' | b'\\')
}

/// Appends a path, without its segments `.` and `..` and those that the latter remove (RFC 3986 §5.2.4).
fn append_path(path: &[u8], text: &mut String) {
    let start = text.len();
    let path = path.split_first().map_or(path, |(_slash, path)| path);
    let mut segments = path.split(is_slash).peekable();
    while let Some(segment) = segments.next() {
        let dots = dot_count(segment);
        if dots == 2 {
            let parent = text[start..].rfind('/').map_or(start, |slash| start + slash);
            text.truncate(parent);
        }
        let is_dropped = matches!(dots, 1 | 2);
        if !is_dropped || segments.peek().is_none() {
            text.push('/');
        }
        if !is_dropped {
            percent::encode_once(segment, &SEGMENT, text);
        }
    }
}

/// How many dots a segment consists of, escaped or not; 0 if there is anything else.
fn dot_count(segment: &[u8]) -> usize {
    let mut rest = segment;
    let mut dots = 0;
    while let [b'.', behind @ ..] | [b'%', b'2', b'e' | b'E', behind @ ..] = rest {
        rest = behind;
        dots += 1;
    }
    if rest.is_empty() { dots } else { 0 }
}

/// Whether `path` begins with a segment `.` or `..`.
fn is_dot_segment(path: &[u8]) -> bool {
    let segment = path.split(|octet| *octet == b'/').next().unwrap_or_default();
    matches!(dot_count(segment), 1 | 2)
}

/// The only spelling of `host`: a name in lower case and in ASCII, an IPv4 address as four decimal numbers (`127.1`,
/// `0x7f000001` and `2130706433` are the loopback address to browsers, to curl and to most resolvers), an IPv6 address
/// as in RFC 5952.
///
/// # Errors
///
/// Fails if it is neither a name nor an address.
pub(crate) fn uri_host(host: &str) -> Result<String, TargetError> {
    if let Some(literal) = host.strip_prefix('[') {
        let address = literal.strip_suffix(']').and_then(|address| address.parse::<Ipv6Addr>().ok());
        return Ok(format!("[{}]", address.ok_or(TargetError::Authority)?));
    }
    let name = idna::to_ascii(percent::decode_octets(host))?;
    if name.is_empty() || !NORMALIZED_HOST.contains_all(name.as_bytes()) {
        return Err(TargetError::Authority);
    }
    match ends_in_number(&name) {
        true => Ok(ipv4(&name).ok_or(TargetError::Authority)?.to_string()),
        false => Ok(name),
    }
}

/// The length of the host at the front of `text`, if it is there in its only spelling.
fn normalized_host_len(text: &str) -> Option<usize> {
    if let Some(literal) = text.strip_prefix('[') {
        let (literal, _) = literal.split_once(']')?;
        let address = literal.parse::<Ipv6Addr>().ok()?;
        return is_displayed_as(address, literal).then_some(literal.len() + "[]".len());
    }
    let host = &text[..NORMALIZED_HOST.prefix_len(text.as_bytes())];
    let may_be_number = matches!(host.as_bytes().last(), Some(b'0'..=b'9' | b'a'..=b'f' | b'x' | b'.'));
    let is_normalized = match may_be_number && ends_in_number(host) {
        // Without leading zeros, and with four numbers.
        true => host.parse::<Ipv4Addr>().is_ok(),
        // A label in Punycode may stand for nothing.
        false => memchr::memchr(b'-', host.as_bytes()).is_none() || !host.contains("xn--"),
    };
    (is_normalized && !host.is_empty()).then_some(host.len())
}

/// The octets of a `reg-name` (RFC 3986 §3.2.2), in lower case and without escapes. Browsers take `"`, `` ` ``, `{` and
/// `}` as well; no resolver finds such a name.
static NORMALIZED_HOST: OctetSet = OctetSet::URI_PLAIN.without(b"ABCDEFGHIJKLMNOPQRSTUVWXYZ");

/// Whether a name is meant as an IPv4 address (WHATWG URL §3.5): its last label is a number, as in no name of DNS (RFC
/// 1123 §2.1).
fn ends_in_number(name: &str) -> bool {
    let name = name.strip_suffix('.').unwrap_or(name);
    let label = name.rsplit('.').next().unwrap_or_default().as_bytes();
    match label {
        [b'0', b'x', digits @ ..] => digits.iter().all(u8::is_ascii_hexdigit),
        digits => !digits.is_empty() && digits.iter().all(u8::is_ascii_digit),
    }
}

/// One to four numbers, each in decimal, octal or hexadecimal, of which the last fills what is left of the address.
fn ipv4(name: &str) -> Option<Ipv4Addr> {
    let name = name.strip_suffix('.').unwrap_or(name);
    let numbers = name.split('.').map(number).collect::<Option<Vec<u32>>>()?;
    let (last, front) = numbers.split_last()?;
    let free_bits = u32::BITS.checked_sub(8 * u32::try_from(front.len()).ok()?)?;
    let is_valid = front.iter().all(|number| *number <= 255) && last.checked_shr(free_bits).unwrap_or(0) == 0;
    let high = front.iter().fold(0, |high, number| high << 8 | number);
    is_valid.then(|| Ipv4Addr::from(high.checked_shl(free_bits).unwrap_or(0) | last))
}

fn number(label: &str) -> Option<u32> {
    let (digits, radix) = match label.as_bytes() {
        [] => return None,
        [b'0', b'x', digits @ ..] => (digits, 16),
        [b'0', digits @ ..] => (digits, 8),
        digits => (digits, 10),
    };
    digits.iter().try_fold(0_u32, |number, digit| {
        number.checked_mul(radix)?.checked_add(char::from(*digit).to_digit(radix)?)
    })
}

/// Whether `value` is displayed as `text`. Nothing is allocated.
fn is_displayed_as(value: impl fmt::Display, text: &str) -> bool {
    struct Unmatched<'a>(&'a str);
    impl Write for Unmatched<'_> {
        fn write_str(&mut self, shown: &str) -> fmt::Result {
            self.0 = self.0.strip_prefix(shown).ok_or(fmt::Error)?;
            Ok(())
        }
    }
    let mut rest = Unmatched(text);
    write!(rest, "{value}").is_ok() && rest.0.is_empty()
}

static SEGMENT: OctetSet = OctetSet::PCHAR;

/// The octets of a query besides escapes (§3.4), except for `'`, which browsers escape.
pub(super) static QUERY: OctetSet = OctetSet::PCHAR.with(b"/?").without(b"'");

static NORMALIZED_PATH: OctetSet = OctetSet::PCHAR.with(b"/%");
static NORMALIZED_QUERY: OctetSet = OctetSet::PCHAR.with(b"/?%").without(b"'");
