//! [`SetCookie`]: a cookie as a server sets it (RFC 6265bis §4.1, §5.6).

use std::fmt;
use std::time::{Duration, SystemTime};

use super::date;
use crate::message::headers::is_field_value;
use crate::message::{Class, Headers, ImfDate, Name, is_token, saturating_decimal};

/// One `Set-Cookie` field: a name, a value, and what a user agent shall do with them.
///
/// It is checked when it is set by [`Response::set_cookie`](crate::Response::set_cookie); what the client received is
/// in [`Response::cookies`](crate::Response::cookies).
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
    /// A token. Those that begin with `__Secure-` or `__Host-` promise something, in whatever case:
    /// [`SetCookie::keeps_prefix`].
    pub name: &'a str,
    /// Visible ASCII without quotes, commas, semicolons and backslashes; quotes may stand around all of it. Whatever
    /// is more than that has to be encoded before.
    pub value: &'a str,
    /// How long it lives, in whole seconds; 0 ends it. It counts more than `expires`. Default: none, so that it ends
    /// with the user agent's session.
    pub max_age: Option<Duration>,
    /// When it ends, to the second. Default: none.
    pub expires: Option<SystemTime>,
    /// The domain below which all hosts get it. Default: none, so that only the host which sets it does.
    pub domain: Option<&'a str>,
    /// The path below which it is sent. Default: none, which means the folder of the request.
    pub path: Option<&'a str>,
    /// Whether it is for `https` alone. Default: no.
    pub secure: bool,
    /// Whether it is hidden from scripts. Default: no.
    pub http_only: bool,
    /// Whether other sites may have it sent. Default: none, which browsers take for [`SameSite::Lax`] or nearly so.
    pub same_site: Option<SameSite>,
    /// Whether each site that embeds this one gets a cookie of its own. Default: no.
    pub partitioned: bool,
}

/// Whether requests that other sites cause carry the cookie (RFC 6265bis §4.1.2.7).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SameSite {
    /// Never.
    Strict,
    /// When a person follows a link.
    Lax,
    /// Always. Only for a cookie that is [`secure`](SetCookie::secure).
    None,
}

impl<'a> SetCookie<'a> {
    /// How many bytes the name and the value may have together: 4,096. User agents drop more.
    pub const LEN_MAX: usize = 4096;

    /// A cookie without attributes.
    pub fn new(name: &'a str, value: &'a str) -> SetCookie<'a> {
        SetCookie { name, value, ..SetCookie::default() }
    }

    /// A cookie as a session's should be: for all paths, for `https` alone, hidden from scripts, and
    /// [`SameSite::Lax`].
    pub fn session(name: &'a str, value: &'a str) -> SetCookie<'a> {
        SetCookie {
            path: Some("/"),
            secure: true,
            http_only: true,
            same_site: Some(SameSite::Lax),
            ..SetCookie::new(name, value)
        }
    }

    /// Reads a `Set-Cookie` field as browsers do: what is not understood is passed over, and of an attribute that is
    /// given twice the last counts (RFC 6265bis §5.6).
    ///
    /// `None` if it is to be ignored as a whole: it holds a control, is longer than [`SetCookie::LEN_MAX`], has neither
    /// name nor value, or is no UTF-8.
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

    /// The cookie that removes this one: a user agent finds it by name, domain and path.
    #[must_use]
    pub fn removal(self) -> SetCookie<'a> {
        SetCookie {
            value: "",
            max_age: Some(Duration::ZERO),
            // For the few that do not know Max-Age.
            expires: Some(SystemTime::UNIX_EPOCH),
            ..self
        }
    }

    /// Whether it is a cookie that may be set.
    ///
    /// # Errors
    ///
    /// A name, value, domain or path that could break out of its place, or that user agents drop; a prefix such as
    /// `__Host-` whose promise it does not keep; `SameSite=None` or `Partitioned` without `Secure`.
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

    /// Whether it keeps what the prefix of its name promises (RFC 6265bis §4.1.3): `__Secure-` that it is `secure`,
    /// `__Host-` that it is so, has no domain, and the path `/`.
    ///
    /// One without a name whose value begins so keeps nothing: it would be sent back as if the value were its name.
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

    /// Takes what stands between two `;`s, if it is understood (§5.6.1 to §5.6.7).
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

    /// Adds the field, which was checked.
    pub(in crate::message) fn append_to(&self, headers: &mut Headers) {
        let mut digits = itoa::Buffer::new();
        let max_age = self.max_age.map(|age| digits.format(age.as_secs()));
        let expires = self.expires.map(ImfDate::new);
        let attribute = |text, value: Option<&'a str>| value.map_or(["", ""], |value| [text, value]);
        let flag = |text, is_set| if is_set { [text, ""] } else { ["", ""] };
        let pieces = [
            [self.name, "="],
            [self.value, ""],
            max_age.map_or(["", ""], |age| ["; Max-Age=", age]),
            expires.as_ref().map_or(["", ""], |date| ["; Expires=", date.as_str()]),
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

    /// As it is spelled.
    pub fn as_str(self) -> &'static str {
        match self {
            SameSite::Strict => "Strict",
            SameSite::Lax => "Lax",
            SameSite::None => "None",
        }
    }
}

/// What stands around names and values and is no part of them.
const WSP: [char; 2] = [' ', '\t'];

/// Attributes with longer values are passed over (RFC 6265bis §5.6).
const ATTRIBUTE_MAX: usize = 1024;

/// `["-"] 1*DIGIT`. Below zero is over, and beyond counting is for ever.
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

/// Names of letters, digits and hyphens between dots, and nothing before or behind them (RFC 1034 §3.5).
fn is_domain(text: &[u8]) -> bool {
    static LABEL: Class = Class::ALPHANUMERIC.with(b"-");
    let is_label = |label: &[u8]| (1..=63).contains(&label.len()) && LABEL.covers(label);
    text.len() <= 253 && text.split(|&octet| octet == b'.').all(is_label)
}

/// Visible octets without `;`. One that does not begin with `/` would mean another path than it says.
fn is_path(text: &[u8]) -> bool {
    let is_fit = |octet: &u8| octet.is_ascii_graphic() && *octet != b';';
    text.first() == Some(&b'/') && text.len() <= ATTRIBUTE_MAX && text.iter().all(is_fit)
}

/// Why a cookie cannot be set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum InvalidCookie {
    /// The name is no token.
    Name,
    /// The value holds a byte that must be encoded.
    Value,
    /// The name and the value are longer than [`SetCookie::LEN_MAX`].
    TooLong,
    /// The domain is malformed.
    Domain,
    /// The path does not begin with `/`, is too long, or holds a byte that must be escaped.
    Path,
    /// It does not keep what the prefix of its name promises.
    Prefix,
    /// It is for other sites, or partitioned, and not `secure`.
    Insecure,
}

impl fmt::Display for InvalidCookie {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            InvalidCookie::Name => "the name of the cookie is not a token",
            InvalidCookie::Value => "the value of the cookie holds a byte that must be encoded",
            InvalidCookie::TooLong => "the cookie is too long",
            InvalidCookie::Domain => "the domain of the cookie is malformed",
            InvalidCookie::Path => "the path of the cookie is malformed",
            InvalidCookie::Prefix => "the cookie does not keep what its prefix promises",
            InvalidCookie::Insecure => "the cookie is for other sites and not secure",
        })
    }
}

impl std::error::Error for InvalidCookie {}
