//! [`SetCookie`]: a cookie as a server sets it (RFC 6265bis §4.1, §5.6).

use std::fmt;
use std::time::{Duration, SystemTime};

use super::date;
use crate::message::headers::is_field_value;
use crate::message::{Class, Headers, ImfDate, Name, is_token, saturating_decimal};

/// A `Set-Cookie` field: a name, a value, and attributes that tell user agents how to treat the cookie.
///
/// It is checked when it is set with [`Response::set_cookie`](crate::Response::set_cookie). The cookies of a response
/// that a client received are in [`Response::cookies`](crate::Response::cookies).
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use corehttp::{Response, SetCookie};
///
/// let mut response = Response::new();
/// let session = SetCookie::session("__Host-sid", "8f14e45f");
/// response.set_cookie(&SetCookie { max_age: Some(Duration::from_secs(3600)), ..session })?;
/// assert_eq!(
///     response.headers.text("set-cookie"),
///     Some("__Host-sid=8f14e45f; Max-Age=3600; Path=/; Secure; HttpOnly; SameSite=Lax")
/// );
/// assert!(response.set_cookie(&SetCookie::new("sid", "a; Domain=evil")).is_err());
///
/// response.set_cookie(&session.removal())?;
/// # Ok::<(), corehttp::InvalidCookie>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SetCookie<'a> {
    /// The name, which must be a token. Names that begin with `__Secure-` or `__Host-`, in any case, make a promise:
    /// see [`SetCookie::keeps_prefix`].
    pub name: &'a str,
    /// The value: visible ASCII without quotes, commas, semicolons and backslashes, optionally in quotes. Anything else
    /// has to be encoded first.
    pub value: &'a str,
    /// How long the cookie lives, in whole seconds; 0 removes it. Takes precedence over `expires`. Default: none, so
    /// that the cookie ends with the session of the user agent.
    pub max_age: Option<Duration>,
    /// When the cookie ends, to the second. Default: none.
    pub expires: Option<SystemTime>,
    /// The domain whose hosts all get the cookie. Default: none, so that only the host that sets it does.
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
    /// Whether each site that embeds this one has a separate cookie. Default: no.
    pub partitioned: bool,
}

/// Whether a cookie is sent with requests that other sites cause (RFC 6265bis §4.1.2.7).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
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
    pub const LEN_MAX: usize = 4096;

    /// Creates a cookie without attributes.
    pub fn new(name: &'a str, value: &'a str) -> SetCookie<'a> {
        SetCookie { name, value, ..SetCookie::default() }
    }

    /// Creates a cookie with the attributes that a session should have: for all paths, over `https` only, hidden from
    /// scripts, and [`SameSite::Lax`].
    pub fn session(name: &'a str, value: &'a str) -> SetCookie<'a> {
        SetCookie {
            path: Some("/"),
            secure: true,
            http_only: true,
            same_site: Some(SameSite::Lax),
            ..SetCookie::new(name, value)
        }
    }

    /// Parses a `Set-Cookie` field as browsers do: unknown attributes are ignored, and of a repeated one the last
    /// counts (RFC 6265bis §5.6).
    ///
    /// Returns `None` if the whole field must be ignored: if it contains a control character other than HTAB, is not
    /// UTF-8, has neither name nor value, or if these are longer than [`SetCookie::LEN_MAX`] together.
    pub fn parse(field: &'a [u8]) -> Option<SetCookie<'a>> {
        let field = str::from_utf8(field).ok().filter(|field| is_field_value(field.as_bytes()))?;
        let mut pieces = field.split(';');
        let pair = pieces.next().unwrap_or_default();
        let (name, value) = pair.split_once('=').unwrap_or(("", pair));
        let (name, value) = (name.trim_matches(WSP), value.trim_matches(WSP));
        if !(1..=SetCookie::LEN_MAX).contains(&(name.len() + value.len())) {
            return None;
        }
        let mut cookie = SetCookie::new(name, value);
        pieces.for_each(|attribute| cookie.parse_attribute(attribute));
        Some(cookie)
    }

    /// Returns the cookie that removes this one, which user agents find by name, domain and path.
    #[must_use]
    pub fn removal(self) -> SetCookie<'a> {
        SetCookie {
            value: "",
            max_age: Some(Duration::ZERO),
            // For the few user agents that do not know Max-Age.
            expires: Some(SystemTime::UNIX_EPOCH),
            ..self
        }
    }

    /// Checks that the cookie may be set.
    ///
    /// # Errors
    ///
    /// Fails if the name, value, domain or path could break out of its place, or would be dropped by user agents; if
    /// the cookie does not keep the promise of its prefix, such as `__Host-`; and if it has `SameSite=None` or
    /// `Partitioned` without `Secure`.
    pub fn check(&self) -> Result<(), InvalidCookie> {
        let is_fit = |text: Option<&str>, rule: fn(&[u8]) -> bool| text.is_none_or(|it| rule(it.as_bytes()));
        if !is_token(self.name.as_bytes()) {
            Err(InvalidCookie::Name)
        } else if !is_value(self.value.as_bytes()) {
            Err(InvalidCookie::Value)
        } else if self.name.len() + self.value.len() > SetCookie::LEN_MAX {
            Err(InvalidCookie::TooLong)
        } else if !is_fit(self.domain, is_domain) {
            Err(InvalidCookie::Domain)
        } else if !is_fit(self.path, is_path) {
            Err(InvalidCookie::Path)
        } else if !self.keeps_prefix() {
            Err(InvalidCookie::Prefix)
        } else if !self.secure && (self.partitioned || self.same_site == Some(SameSite::None)) {
            Err(InvalidCookie::Insecure)
        } else {
            Ok(())
        }
    }

    /// Returns whether the cookie keeps what the prefix of its name promises (RFC 6265bis §4.1.3): with `__Secure-`,
    /// that it is `secure`; with `__Host-`, that it is `secure`, and has no domain and the path `/`.
    ///
    /// A cookie without a name whose value begins with a prefix never does: it would be sent back as if the value were
    /// its name.
    pub fn keeps_prefix(&self) -> bool {
        let begins = |text: &str, prefix: &str| {
            text.get(..prefix.len()).is_some_and(|start| start.eq_ignore_ascii_case(prefix))
        };
        match self.name {
            "" => !begins(self.value, "__Secure-") && !begins(self.value, "__Host-"),
            name if begins(name, "__Secure-") => self.secure,
            name if begins(name, "__Host-") => self.secure && self.domain.is_none() && self.path == Some("/"),
            _ => true,
        }
    }

    /// Reads one attribute, if it is known (§5.6.1 to §5.6.7).
    fn parse_attribute(&mut self, text: &'a str) {
        let (name, value) = text.split_once('=').unwrap_or((text, ""));
        let (name, value) = (name.trim_matches(WSP), value.trim_matches(WSP));
        if value.len() > ATTRIBUTE_MAX {
            return;
        }
        let is = |known: &str| name.eq_ignore_ascii_case(known);
        if is("Expires") {
            self.expires = date::parse(value.as_bytes()).or(self.expires);
        } else if is("Max-Age") {
            self.max_age = parse_age(value).or(self.max_age);
        } else if is("Domain") {
            let domain = value.strip_prefix('.').unwrap_or(value);
            self.domain = Some(domain).filter(|domain| !domain.is_empty());
        } else if is("Path") {
            self.path = Some(value).filter(|path| path.starts_with('/'));
        } else if is("Secure") {
            self.secure = true;
        } else if is("HttpOnly") {
            self.http_only = true;
        } else if is("SameSite") {
            self.same_site =
                SameSite::ALL.into_iter().find(|known| known.as_str().eq_ignore_ascii_case(value));
        } else if is("Partitioned") {
            self.partitioned = true;
        }
    }

    /// Appends the field, which was checked.
    pub(in crate::message) fn append_to(&self, headers: &mut Headers) {
        let mut digits = itoa::Buffer::new();
        let max_age = self.max_age.map(|age| digits.format(age.as_secs()));
        let expires = self.expires.map(ImfDate::new);
        let attribute = |text, value| Option::map_or(value, ["", ""], |value| [text, value]);
        let flag = |text, is_set: bool| attribute(text, is_set.then_some(""));
        let pieces = [
            [self.name, "="],
            [self.value, ""],
            attribute("; Max-Age=", max_age),
            attribute("; Expires=", expires.as_ref().map(ImfDate::as_str)),
            attribute("; Domain=", self.domain),
            attribute("; Path=", self.path),
            flag("; Secure", self.secure),
            flag("; HttpOnly", self.http_only),
            attribute("; SameSite=", self.same_site.map(SameSite::as_str)),
            flag("; Partitioned", self.partitioned),
        ];
        headers.push_pieces(Name::SET_COOKIE, pieces.as_flattened());
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

/// Whitespace around names and values, which is not part of them.
const WSP: [char; 2] = [' ', '\t'];

/// Attributes with longer values are ignored (RFC 6265bis §5.6).
const ATTRIBUTE_MAX: usize = 1024;

/// `["-"] 1*DIGIT`. Negative means expired, and too large a number means for ever.
fn parse_age(text: &str) -> Option<Duration> {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let seconds = saturating_decimal(digits.as_bytes())?;
    Some(Duration::from_secs(if digits.len() < text.len() { 0 } else { seconds }))
}

/// `*cookie-octet / ( DQUOTE *cookie-octet DQUOTE )`
pub(in crate::message) fn is_value(text: &[u8]) -> bool {
    static OCTET: Class = Class::ALPHANUMERIC.with(b"!#$%&'()*+-./:<=>?@[]^_`{|}~");
    match text {
        [b'"', inner @ .., b'"'] => OCTET.covers(inner),
        plain => OCTET.covers(plain),
    }
}

/// Labels of letters, digits and hyphens, separated by dots (RFC 1034 §3.5).
fn is_domain(text: &[u8]) -> bool {
    static LABEL: Class = Class::ALPHANUMERIC.with(b"-");
    let is_label = |label: &[u8]| (1..=63).contains(&label.len()) && LABEL.covers(label);
    text.len() <= 253 && text.split(|&octet| octet == b'.').all(is_label)
}

/// Visible octets without `;`. User agents would replace a path that does not begin with `/`.
fn is_path(text: &[u8]) -> bool {
    let is_fit = |octet: &u8| octet.is_ascii_graphic() && *octet != b';';
    text.first() == Some(&b'/') && text.len() <= ATTRIBUTE_MAX && text.iter().all(is_fit)
}

/// Why a cookie cannot be set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum InvalidCookie {
    /// The name is not a token.
    Name,
    /// The value contains a byte that must be encoded.
    Value,
    /// Name and value together are longer than [`SetCookie::LEN_MAX`].
    TooLong,
    /// The domain is malformed.
    Domain,
    /// The path does not begin with `/`, is too long, or contains a byte that must be escaped.
    Path,
    /// The cookie does not keep what the prefix of its name promises.
    Prefix,
    /// The cookie is for other sites, or partitioned, but not `secure`.
    Insecure,
}

impl fmt::Display for InvalidCookie {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            InvalidCookie::Name => "the name of the cookie is not a token",
            InvalidCookie::Value => "the value of the cookie contains a byte that must be encoded",
            InvalidCookie::TooLong => "the cookie is too long",
            InvalidCookie::Domain => "the domain of the cookie is malformed",
            InvalidCookie::Path => "the path of the cookie is malformed",
            InvalidCookie::Prefix => "the cookie does not keep what its prefix promises",
            InvalidCookie::Insecure => "the cookie is for other sites, but not secure",
        })
    }
}

impl std::error::Error for InvalidCookie {}
