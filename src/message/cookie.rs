//! [`Cookies`] and [`SetCookie`]: the state of a user agent for a server (RFC 6265bis).

use std::fmt;
use std::time::{Duration, SystemTime};

use super::message_error::COOKIE_LEN_MAX;
use super::{
    CookieFault, FieldName, FromText, Headers, HttpDate, MessageError, OctetSet, ValueError, is_field_value,
    is_token, saturating_decimal, trim,
};
use crate::message::text::{date, delta_seconds};

/// A view of the cookies of a request.
///
/// All that browsers send is accepted, even beyond the standard for servers. A value ends at the next `;`, and may
/// contain spaces, commas and quotes. Quotes around a value are part of it, as they are for browsers. Nothing is
/// decoded. A piece without `=` is a value without a name. Pieces that are not UTF-8 are skipped, except by
/// [`Cookies::get_bytes`] and [`Cookies::iter_bytes`]. [`SetCookie`](crate::SetCookie) cannot set such a cookie.
///
/// Only the first [`Cookies::PAIRS_MAX`] pieces are read. Browsers send back fewer than 200.
///
/// # Examples
///
/// ```
/// use corehttp::Request;
///
/// let mut request = Request::get("/")?;
/// request.headers.set("cookie", "sid=8f14e45f; theme=dark; theme=light")?;
/// assert_eq!(request.cookies().get("sid"), Some("8f14e45f"));
/// assert_eq!(request.cookies().get("SID"), None);
/// assert_eq!(request.cookies().get_as::<u32>("visits")?, None);
/// assert!(request.cookies().all("theme").eq(["dark", "light"]));
/// assert_eq!(request.cookies().iter().count(), 3);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy)]
pub struct Cookies<'a> {
    headers: &'a Headers,
}

impl<'a> Cookies<'a> {
    /// How many pieces are looked at: 1,024.
    pub const PAIRS_MAX: usize = 1024;

    pub(super) fn new(headers: &'a Headers) -> Cookies<'a> {
        Cookies { headers }
    }

    /// Returns whether there is a cookie with this name.
    pub fn contains(self, name: &str) -> bool {
        self.get(name).is_some()
    }

    /// Returns the value of the first cookie with this name, which is case-sensitive.
    ///
    /// Of several with one name, browsers send those with longer paths first.
    pub fn get(self, name: &str) -> Option<&'a str> {
        self.all(name).next()
    }

    /// Returns the value of the first cookie with this name as a number, a `bool` or another type that is [`FromText`].
    /// `None` if there is no such cookie.
    ///
    /// # Errors
    ///
    /// Fails if the value is not a `T`. An empty value usually is not. In a handler, `?` turns that into 400. A browser
    /// sends a bad cookie again each time. If the value is not essential, `.unwrap_or_default()` is kinder.
    pub fn get_as<T: FromText>(self, name: &str) -> Result<Option<T>, ValueError> {
        self.get(name)
            .map(|value| T::from_text(value).ok_or_else(|| ValueError::value_type::<T>(name)))
            .transpose()
    }

    /// Returns the values of all cookies with this name, in order.
    pub fn all(self, name: &str) -> impl Iterator<Item = &'a str> {
        self.iter().filter(move |(found, _)| *found == name).map(|(_, value)| value)
    }

    /// Returns all names and values, in order.
    pub fn iter(self) -> impl Iterator<Item = (&'a str, &'a str)> {
        self.iter_bytes()
            .filter_map(|(name, value)| Some((str::from_utf8(name).ok()?, str::from_utf8(value).ok()?)))
    }

    /// Returns the octets of the first cookie with this name, whose value need not be UTF-8 (RFC 6265bis §5.6).
    ///
    /// # Examples
    ///
    /// ```
    /// use corehttp::Request;
    ///
    /// let mut request = Request::get("/")?;
    /// request.headers.set("cookie", b"name=caf\xe9")?;
    /// assert_eq!(request.cookies().get_bytes("name"), Some(&b"caf\xe9"[..]));
    /// assert_eq!(request.cookies().get("name"), None);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn get_bytes(self, name: &str) -> Option<&'a [u8]> {
        self.iter_bytes().find(|(found, _)| *found == name.as_bytes()).map(|(_, value)| value)
    }

    /// Returns the octets of all names and values, in order, whether they are UTF-8 or not.
    pub fn iter_bytes(self) -> impl Iterator<Item = (&'a [u8], &'a [u8])> {
        // A browser sends one line, but a proxy that speaks HTTP/2 may have split it (RFC 9113 §8.2.3).
        self.headers
            .named(FieldName::COOKIE)
            .flat_map(cookie_pairs)
            .take(Cookies::PAIRS_MAX)
            .filter_map(parse_pair)
    }

    /// Returns whether no cookie is text.
    pub fn is_empty(self) -> bool {
        self.iter().next().is_none()
    }
}

impl fmt::Debug for Cookies<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

/// The pieces between semicolons.
fn cookie_pairs(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut start = 0;
    memchr::memchr_iter(b';', line).chain([line.len()]).map(move |end| {
        let piece = &line[start..end];
        start = end + 1;
        piece
    })
}

fn parse_pair(pair: &[u8]) -> Option<(&[u8], &[u8])> {
    let pair = trim(pair);
    match memchr::memchr(b'=', pair) {
        _ if pair.is_empty() => None,
        Some(equals) => Some((&pair[..equals], &pair[equals + 1..])),
        None => Some((b"", pair)),
    }
}

/// A `Set-Cookie` field: a name, a value, and attributes for user agents.
///
/// A cookie is checked when it is set with [`Response::set_cookie`](crate::Response::set_cookie). The cookies of a
/// response that a client received are in [`Response::cookies`](crate::Response::cookies). Some servers set cookies
/// that are not UTF-8 ([`RawSetCookie`]).
///
/// All fields are public and stay so. As a later release may add some, end literals in `..SetCookie::new(name, value)`,
/// and patterns in `..`.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use corehttp::{Response, SetCookie};
///
/// let mut response = Response::new();
/// let session = SetCookie::new_session("__Host-sid", "8f14e45f");
/// response.set_cookie(&SetCookie { max_age: Some(Duration::from_secs(3600)), ..session })?;
/// assert_eq!(
///     response.headers.get("set-cookie"),
///     Some("__Host-sid=8f14e45f; Max-Age=3600; Path=/; Secure; HttpOnly; SameSite=Lax")
/// );
/// assert!(response.set_cookie(&SetCookie::new("sid", "a; Domain=evil")).is_err());
///
/// response.set_cookie(&session.removal())?;
/// # Ok::<(), corehttp::error::MessageError>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SetCookie<'a> {
    /// The name, which must be a token. Names that begin with `__Secure-` or `__Host-`, in any case, make a promise
    /// ([`SetCookie::has_valid_prefix`]).
    pub name: &'a str,
    /// The value: visible ASCII without quotes, commas, semicolons and backslashes, optionally in quotes. Anything else
    /// has to be encoded first.
    pub value: &'a str,
    /// The lifetime of the cookie in seconds, rounded up. 0 removes it. Takes precedence over `expires`. Default: none, which
    /// ends the cookie with the session of the user agent.
    pub max_age: Option<Duration>,
    /// When the cookie ends, to the second. Default: none.
    pub expires: Option<SystemTime>,
    /// The domain whose hosts all get the cookie. Default: none, for only the host that sets the cookie.
    pub domain: Option<&'a str>,
    /// The path below which the cookie is sent. Default: none, which means the folder of the request.
    pub path: Option<&'a str>,
    /// Whether the cookie is sent over `https` only. Default: no.
    pub secure: bool,
    /// Whether the cookie is hidden from scripts. Default: no.
    pub http_only: bool,
    /// Whether the cookie is sent with requests from other sites. Default: none, which browsers treat more or less as
    /// [`SameSite::Lax`].
    pub same_site: Option<SameSite>,
    /// Whether each embedding site has a separate cookie. Default: no.
    pub partitioned: bool,
}

/// Whether a cookie is sent with requests from other sites (RFC 6265bis §4.1.2.7).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum SameSite {
    /// Never.
    Strict,
    /// When the user follows a link.
    Lax,
    /// Always. Only for a cookie that is [`secure`](SetCookie::secure).
    None,
}

impl<'a> SetCookie<'a> {
    /// How many bytes name and value may have together: 4,096. User agents drop longer cookies.
    pub const LEN_MAX: usize = COOKIE_LEN_MAX;

    /// Creates a cookie without attributes.
    pub fn new(name: &'a str, value: &'a str) -> SetCookie<'a> {
        SetCookie { name, value, ..SetCookie::default() }
    }

    /// Creates a cookie with the attributes that a session should have: for all paths, over `https` only, hidden from
    /// scripts, and [`SameSite::Lax`].
    pub fn new_session(name: &'a str, value: &'a str) -> SetCookie<'a> {
        SetCookie {
            path: Some("/"),
            secure: true,
            http_only: true,
            same_site: Some(SameSite::Lax),
            ..SetCookie::new(name, value)
        }
    }

    /// Parses a `Set-Cookie` field as browsers do (RFC 6265bis §5.6). Unknown attributes are ignored, and of a repeated
    /// one the last counts.
    ///
    /// Returns `None` like [`RawSetCookie::parse`], and for a name or a value that is not UTF-8.
    pub fn parse(field: &'a [u8]) -> Option<SetCookie<'a>> {
        let RawSetCookie { name, value, attributes } = RawSetCookie::parse(field)?;
        Some(SetCookie { name: str::from_utf8(name).ok()?, value: str::from_utf8(value).ok()?, ..attributes })
    }

    /// Returns the cookie that removes this one. User agents find it by name, domain and path.
    #[must_use]
    pub fn removal(self) -> SetCookie<'a> {
        SetCookie {
            value: "",
            max_age: Some(Duration::ZERO),
            // For the few user agents that do not support Max-Age.
            expires: Some(SystemTime::UNIX_EPOCH),
            ..self
        }
    }

    /// Checks that the cookie may be set.
    ///
    /// # Errors
    ///
    /// Fails if:
    ///
    /// - The name, value, domain or path could break out of its place, or makes user agents drop the cookie.
    /// - The cookie breaks the promise of its prefix, such as `__Host-`.
    /// - The cookie has `SameSite=None` or `Partitioned` without `Secure`.
    pub fn check(&self) -> Result<(), MessageError> {
        let is_valid =
            |text: Option<&str>, rule: fn(&[u8]) -> bool| text.is_none_or(|it| rule(it.as_bytes()));
        let fault = if !is_token(self.name.as_bytes()) {
            CookieFault::Name
        } else if !is_value(self.value.as_bytes()) {
            CookieFault::Value
        } else if self.name.len() + self.value.len() > SetCookie::LEN_MAX {
            CookieFault::TooLong
        } else if !is_valid(self.domain, is_domain) {
            CookieFault::Domain
        } else if !is_valid(self.path, is_path) {
            CookieFault::Path
        } else if !self.has_valid_prefix() {
            CookieFault::Prefix
        } else if !self.secure && (self.partitioned || self.same_site == Some(SameSite::None)) {
            CookieFault::Insecure
        } else {
            return Ok(());
        };
        Err(MessageError::from_cookie(fault, self.name))
    }

    /// Returns whether the cookie keeps the promise of the prefix of its name (RFC 6265bis §4.1.3). With `__Secure-`,
    /// it must be `secure`. With `__Host-`, it must be `secure`, without a domain, and with the path `/`.
    ///
    /// A cookie without a name never does if its value begins with a prefix. User agents would send that value back
    /// like a name.
    pub fn has_valid_prefix(&self) -> bool {
        RawSetCookie::from(*self).has_valid_prefix()
    }

    /// Appends the field. The caller has [checked](SetCookie::check) the cookie.
    pub(super) fn append_to(&self, headers: &mut Headers) {
        debug_assert_eq!(self.check(), Ok(()), "the caller has checked the cookie");
        let mut digits = itoa::Buffer::new();
        let max_age = self.max_age.map(|age| digits.format(delta_seconds(age)));
        let expires = self.expires.map(HttpDate::new);
        let attribute = |text, value| Option::map_or(value, ["", ""], |value| [text, value]);
        let flag = |text, is_set: bool| attribute(text, is_set.then_some(""));
        let pieces = [
            [self.name, "="],
            [self.value, ""],
            attribute("; Max-Age=", max_age),
            attribute("; Expires=", expires.as_ref().map(HttpDate::as_str)),
            attribute("; Domain=", self.domain),
            attribute("; Path=", self.path),
            flag("; Secure", self.secure),
            flag("; HttpOnly", self.http_only),
            attribute("; SameSite=", self.same_site.map(SameSite::as_str)),
            flag("; Partitioned", self.partitioned),
        ];
        headers.push_joined(FieldName::SET_COOKIE, pieces.as_flattened());
    }

    /// Reads one attribute, if it is known (§5.6.1 to §5.6.7). Returns `None` if the cookie must be ignored because of
    /// it.
    fn parse_attribute(&mut self, attribute: &'a [u8]) -> Option<()> {
        let (name, value) = split_at_equals(attribute).unwrap_or((trim(attribute), b""));
        if value.len() > ATTRIBUTE_MAX {
            return Some(());
        }
        let is = |known: &str| name.eq_ignore_ascii_case(known.as_bytes());
        let text = str::from_utf8(value);
        if is("Expires") {
            self.expires = date::parse_cookie_date(value).or(self.expires);
        } else if is("Max-Age") {
            self.max_age = text.ok().and_then(parse_age).or(self.max_age);
        } else if is("Domain") {
            let domain = text.ok()?;
            self.domain =
                Some(domain.strip_prefix('.').unwrap_or(domain)).filter(|domain| !domain.is_empty());
        } else if is("Path") {
            self.path = if value.starts_with(b"/") { Some(text.ok()?) } else { None };
        } else if is("Secure") {
            self.secure = true;
        } else if is("HttpOnly") {
            self.http_only = true;
        } else if is("SameSite") {
            let is_known = |known: &SameSite| value.eq_ignore_ascii_case(known.as_str().as_bytes());
            self.same_site = SameSite::ALL.into_iter().find(is_known);
        } else if is("Partitioned") {
            self.partitioned = true;
        }
        Some(())
    }
}

/// A `Set-Cookie` field of any server. Its name and its value are octets, not always UTF-8 (RFC 6265bis §5.6).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RawSetCookie<'a> {
    /// The name.
    pub name: &'a [u8],
    /// The value.
    pub value: &'a [u8],
    /// Everything else. The name and the value in it have no meaning.
    pub attributes: SetCookie<'a>,
}

impl<'a> RawSetCookie<'a> {
    /// Parses a field as [`SetCookie::parse`] does.
    ///
    /// Returns `None` for a field that must be ignored:
    ///
    /// - It contains a control character other than HTAB.
    /// - It has neither name nor value, or both are longer than [`SetCookie::LEN_MAX`] together.
    /// - Its domain or path is not UTF-8, which no URL matches.
    pub fn parse(field: &'a [u8]) -> Option<RawSetCookie<'a>> {
        if !is_field_value(field) {
            return None;
        }
        let mut pieces = field.split(|&octet| octet == b';');
        let pair = pieces.next().unwrap_or_default();
        let (name, value) = split_at_equals(pair).unwrap_or((b"", trim(pair)));
        if !(1..=SetCookie::LEN_MAX).contains(&(name.len() + value.len())) {
            return None;
        }
        let mut attributes = SetCookie::default();
        pieces.try_for_each(|attribute| attributes.parse_attribute(attribute))?;
        Some(RawSetCookie { name, value, attributes })
    }

    /// Returns whether the cookie keeps the promise of the prefix of its name, like [`SetCookie::has_valid_prefix`].
    pub fn has_valid_prefix(&self) -> bool {
        let begins = |octets: &[u8], prefix: &str| {
            octets.get(..prefix.len()).is_some_and(|start| start.eq_ignore_ascii_case(prefix.as_bytes()))
        };
        match (self.name, self.value) {
            (b"", value) => !begins(value, "__Secure-") && !begins(value, "__Host-"),
            (name, _) if begins(name, "__Secure-") => self.attributes.secure,
            (name, _) if begins(name, "__Host-") => {
                self.attributes.secure
                    && self.attributes.domain.is_none()
                    && self.attributes.path == Some("/")
            }
            _ => true,
        }
    }
}

impl<'a> From<SetCookie<'a>> for RawSetCookie<'a> {
    fn from(cookie: SetCookie<'a>) -> RawSetCookie<'a> {
        RawSetCookie { name: cookie.name.as_bytes(), value: cookie.value.as_bytes(), attributes: cookie }
    }
}

impl SameSite {
    const ALL: [SameSite; 3] = [SameSite::Strict, SameSite::Lax, SameSite::None];

    /// Returns the value as it is written in the attribute.
    pub fn as_str(self) -> &'static str {
        match self {
            SameSite::Strict => "Strict",
            SameSite::Lax => "Lax",
            SameSite::None => "None",
        }
    }
}

/// Splits `text` at its first `=`, and trims both halves, whose surrounding whitespace is not part of them.
fn split_at_equals(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let equals = memchr::memchr(b'=', text)?;
    Some((trim(&text[..equals]), trim(&text[equals + 1..])))
}

/// Attributes with longer values are ignored (RFC 6265bis §5.6).
const ATTRIBUTE_MAX: usize = 1024;

/// `["-"] 1*DIGIT`. Negative means expired, and too large a number means for ever.
fn parse_age(text: &str) -> Option<Duration> {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let seconds = saturating_decimal(digits.as_bytes())?;
    Some(Duration::from_secs(if digits.len() < text.len() { 0 } else { seconds }))
}

/// `*cookie-octet / ( DQUOTE *cookie-octet DQUOTE )`
pub(super) fn is_value(text: &[u8]) -> bool {
    static OCTET: OctetSet = OctetSet::ALPHANUMERIC.with(b"!#$%&'()*+-./:<=>?@[]^_`{|}~");
    match text {
        [b'"', inner @ .., b'"'] => OCTET.contains_all(inner),
        plain => OCTET.contains_all(plain),
    }
}

/// Labels of letters, digits and hyphens, separated by dots (RFC 1034 §3.5).
fn is_domain(text: &[u8]) -> bool {
    static LABEL: OctetSet = OctetSet::ALPHANUMERIC.with(b"-");
    let is_label = |label: &[u8]| (1..=63).contains(&label.len()) && LABEL.contains_all(label);
    text.len() <= 253 && text.split(|&octet| octet == b'.').all(is_label)
}

/// Visible octets without `;`. User agents would replace a path that does not begin with `/`.
fn is_path(text: &[u8]) -> bool {
    let is_valid = |octet: &u8| octet.is_ascii_graphic() && *octet != b';';
    text.first() == Some(&b'/') && text.len() <= ATTRIBUTE_MAX && text.iter().all(is_valid)
}

#[cfg(test)]
mod tests;
