//! [`Jar`]: the cookies of a client, which of them are dropped if there are too many, and the file that they are saved to
//! (RFC 6265bis §5.7, §5.8.3).

use std::cmp::Reverse;
use std::collections::HashMap;
use std::fmt;
use std::io::{self, BufRead, Read, Write};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use serde_json::{Value, json};

use super::cookie::{Cookie, Error, LIFE_MAX, RequestUri, fits_set_cookie, is_public_suffix, site};
use crate::Headers;
use crate::SameSite;
use crate::SetCookie;
use crate::Target;
use crate::client::CookieStore;
use crate::message::RawSetCookie;

/// The cookies of a client, shared by its requests.
pub struct Jar {
    store: Mutex<Store>,
}

impl Jar {
    /// How many cookies a site may have, over all its hosts: 180. Beyond that, the least recently sent one is dropped. Cookies
    /// that are not `Secure` go first.
    pub const PER_SITE_MAX: usize = 180;

    /// How many cookies there may be in total: 3,300. Beyond that, the least recently sent one is dropped.
    pub const COOKIES_MAX: usize = 3300;

    /// Creates an empty jar with the usual bounds.
    pub fn new() -> Jar {
        Jar::with_bounds(Jar::PER_SITE_MAX, Jar::COOKIES_MAX)
    }

    /// Creates an empty jar for at most `per_site_max` cookies of one site, and `cookies_max` in total.
    pub fn with_bounds(per_site_max: usize, cookies_max: usize) -> Jar {
        Jar { store: Mutex::new(Store::with_limits(per_site_max, cookies_max)) }
    }

    /// Stores the cookies that the response to a request for `target` sets. Cookies that may not be set are ignored.
    /// [`Jar::set`] returns the reason.
    ///
    /// The target must be in absolute-form, like that of a [`Request`](crate::Request) that was made from a URL.
    pub fn store(&self, target: &Target, headers: &Headers) {
        for cookie in headers.all("set-cookie").filter_map(RawSetCookie::parse) {
            let _refused = self.set_raw(target, &cookie);
        }
    }

    /// Stores one cookie, as if the response to a request for `target` had set it. An expired one removes the cookie
    /// with the same name, domain and path.
    ///
    /// # Errors
    ///
    /// Fails if the cookie may not be set.
    pub fn set(&self, target: &Target, cookie: &SetCookie<'_>) -> Result<(), Error> {
        self.set_raw(target, &RawSetCookie::from(*cookie))
    }

    fn set_raw(&self, target: &Target, cookie: &RawSetCookie<'_>) -> Result<(), Error> {
        let now = SystemTime::now();
        let uri = RequestUri::new(target).ok_or(Error::Target)?;
        let cookie = Cookie::new(&uri, cookie, now)?;
        self.lock().insert(&uri, cookie, now)
    }

    /// Returns the value of the `Cookie` field of a request for `target`, if there are cookies for it: longer paths
    /// first, then older ones. The value is not UTF-8 if a cookie is not (RFC 6265bis §5.8.3).
    pub fn cookie_header(&self, target: &Target) -> Option<Vec<u8>> {
        self.lock().cookie_header(&RequestUri::new(target)?, SystemTime::now())
    }

    /// Removes the cookies without an expiry time, which end with a session.
    pub fn end_session(&self) {
        self.lock().retain(|cookie| cookie.expires.is_some());
    }

    /// Removes all cookies.
    pub fn clear(&self) {
        self.lock().retain(|_| false);
    }

    /// Returns how many cookies have not expired.
    pub fn len(&self) -> usize {
        let now = SystemTime::now();
        let store = self.lock();
        store.iter().filter(|cookie| cookie.is_alive(now)).count()
    }

    /// Returns whether there are no cookies.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Writes the cookies that outlive the session, oldest first, as one line of JSON each.
    ///
    /// Cookies are secrets, so protect the file.
    ///
    /// # Errors
    ///
    /// Fails if `out` does.
    pub fn save(&self, mut out: impl Write) -> io::Result<()> {
        // Collected first, so that requests need not wait for the writing.
        for line in self.lines() {
            writeln!(out, "{line}")?;
        }
        out.flush()
    }

    /// Adds the cookies that [`Jar::save`] wrote, except expired ones.
    ///
    /// # Errors
    ///
    /// Fails if `from` fails. A line that no jar has written is an [`Error::Line`] inside [`io::ErrorKind::InvalidData`]. The
    /// cookies before it are then in the jar.
    pub fn load(&self, mut from: impl BufRead) -> io::Result<()> {
        let now = SystemTime::now();
        read_lines(&mut from, |cookie| {
            // An expired cookie would remove the one that it replaces, which may have been set later.
            if cookie.is_alive(now) {
                self.lock().restore(cookie, now);
            }
        })
    }

    /// The cookies that outlive the session, as lines of JSON.
    fn lines(&self) -> Vec<String> {
        let now = SystemTime::now();
        let store = self.lock();
        let mut kept: Vec<&Cookie> = store.iter().filter(|cookie| cookie.is_alive(now)).collect();
        kept.sort_by_key(|cookie| cookie.created);
        kept.into_iter().filter_map(line).collect()
    }

    fn lock(&self) -> MutexGuard<'_, Store> {
        // A panic can leave the store with a cookie missing, which does no harm.
        self.store.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

const _: () = {
    const fn is_shared<T: Send + Sync>() {}
    is_shared::<Jar>();
};

impl Default for Jar {
    fn default() -> Jar {
        Jar::new()
    }
}

impl CookieStore for Jar {
    fn cookie_header(&self, target: &Target) -> Option<Vec<u8>> {
        Jar::cookie_header(self, target)
    }

    fn store(&self, target: &Target, headers: &Headers) {
        Jar::store(self, target, headers);
    }
}

impl fmt::Debug for Jar {
    /// Shows no values, which are secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a jar of {} cookies", self.len())
    }
}

/// All cookies. Callers pass the current time.
pub(super) struct Store {
    /// By site. No list is empty.
    sites: HashMap<String, Vec<Cookie>>,
    /// Counts cookies set and sent, to order them in time. No two cookies have the same number.
    serial: u64,
    per_site_max: usize,
    cookies_max: usize,
}

impl Store {
    pub(super) fn with_limits(per_site_max: usize, cookies_max: usize) -> Store {
        Store { sites: HashMap::new(), serial: 0, per_site_max, cookies_max }
    }

    /// Stores a cookie that a response from `uri` set.
    pub(super) fn insert(
        &mut self,
        uri: &RequestUri<'_>,
        cookie: Cookie,
        now: SystemTime,
    ) -> Result<(), Error> {
        let mut known = self.sites.get(site(&cookie.domain)).into_iter().flatten();
        if !uri.is_secure && known.any(|other| other.is_alive(now) && cookie.shadows(other)) {
            return Err(Error::Insecure);
        }
        self.restore(cookie, now);
        Ok(())
    }

    /// Stores a cookie that has already been checked. An expired one removes the one that it replaces.
    pub(super) fn restore(&mut self, mut cookie: Cookie, now: SystemTime) {
        let is_lower_case = !cookie.domain.bytes().any(|octet| octet.is_ascii_uppercase());
        debug_assert!(is_lower_case, "domains are compared in lower case");
        self.serial += 1;
        (cookie.created, cookie.used) = (self.serial, self.serial);
        cookie.expires = cookie.expires.map(|expires| expires.min(now + LIFE_MAX));
        let site = site(&cookie.domain).to_owned();
        let mut cookies = self.sites.remove(&site).unwrap_or_default();
        if let Some(old) = cookies.iter().position(|other| cookie.replaces(other)) {
            cookie.created = cookies.swap_remove(old).created;
        }
        if cookie.is_alive(now) {
            cookies.push(cookie);
        }
        if cookies.len() > self.per_site_max {
            cookies.retain(|cookie| cookie.is_alive(now));
        }
        if cookies.len() > self.per_site_max {
            let least = cookies.iter().map(|cookie| (cookie.secure, cookie.used)).min();
            cookies.retain(|cookie| Some((cookie.secure, cookie.used)) != least);
        }
        debug_assert!(cookies.len() <= self.per_site_max, "one cookie was added, and one dropped");
        if !cookies.is_empty() {
            self.sites.insert(site, cookies);
        }
        self.evict_excess(now);
    }

    fn evict_excess(&mut self, now: SystemTime) {
        if self.len() > self.cookies_max {
            self.retain(|cookie| cookie.is_alive(now));
        }
        if self.len() > self.cookies_max {
            let least = self.iter().map(|cookie| cookie.used).min();
            self.retain(|cookie| Some(cookie.used) != least);
        }
        debug_assert!(self.len() <= self.cookies_max, "one cookie was added, and one dropped");
        debug_assert!(self.sites.values().all(|cookies| !cookies.is_empty()), "an empty site is removed");
    }

    fn len(&self) -> usize {
        self.sites.values().map(Vec::len).sum()
    }

    /// The value of the `Cookie` field of a request for `uri`.
    pub(super) fn cookie_header(&mut self, uri: &RequestUri<'_>, now: SystemTime) -> Option<Vec<u8>> {
        let cookies = self.sites.get_mut(site(&uri.host))?;
        let mut sent: Vec<&mut Cookie> =
            cookies.iter_mut().filter(|cookie| cookie.is_alive(now) && cookie.matches(uri)).collect();
        sent.sort_by_key(|cookie| (Reverse(cookie.path.len()), cookie.created));
        let mut field = Vec::new();
        for cookie in sent {
            self.serial += 1;
            cookie.used = self.serial;
            let between: &[u8] = if field.is_empty() { b"" } else { b"; " };
            let equals: &[u8] = if cookie.name.is_empty() { b"" } else { b"=" };
            field.extend([between, &cookie.name, equals, &cookie.value].concat());
        }
        Some(field).filter(|field| !field.is_empty())
    }

    /// Keeps the cookies that `is_kept` chooses.
    pub(super) fn retain(&mut self, mut is_kept: impl FnMut(&Cookie) -> bool) {
        self.sites.retain(|_, cookies| {
            cookies.retain(|cookie| is_kept(cookie));
            !cookies.is_empty()
        });
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Cookie> {
        self.sites.values().flatten()
    }
}

/// Formats a cookie that outlives the session as a JSON object in one line.
fn line(cookie: &Cookie) -> Option<String> {
    let expires = cookie.expires?.duration_since(SystemTime::UNIX_EPOCH).ok()?;
    let record = json!({
        "name": text(&cookie.name),
        "value": text(&cookie.value),
        "domain": cookie.domain,
        "host_only": cookie.host_only,
        "path": cookie.path,
        "expires": expires.as_secs(),
        "secure": cookie.secure,
        "http_only": cookie.http_only,
        "same_site": cookie.same_site.map(SameSite::as_str),
        "partitioned": cookie.partitioned,
    });
    Some(record.to_string())
}

/// Octets as a string, or as an array of numbers if they are not UTF-8.
fn text(octets: &[u8]) -> Value {
    str::from_utf8(octets).map_or_else(|_| octets.into(), Value::from)
}

/// The octets that [`text`] has written.
fn octets(text: &Value) -> Option<Vec<u8>> {
    match text {
        Value::String(text) => Some(text.clone().into_bytes()),
        Value::Array(octets) => octets.iter().map(|octet| u8::try_from(octet.as_u64()?).ok()).collect(),
        _ => None,
    }
}

/// Passes the cookie in each line to `take`, until the end or the first invalid line.
fn read_lines(from: &mut impl BufRead, mut take: impl FnMut(Cookie)) -> io::Result<()> {
    let mut line = Vec::new();
    for number in 1.. {
        line.clear();
        if from.by_ref().take(LINE_MAX).read_until(b'\n', &mut line)? == 0 {
            break;
        }
        if !line.trim_ascii().is_empty() {
            let invalid = || io::Error::new(io::ErrorKind::InvalidData, Error::Line(number));
            take(parse(&line).ok_or_else(invalid)?);
        }
    }
    Ok(())
}

/// The limit of a line, in bytes. The longest cookie fits, even fully escaped. A longer line is cut, and is then not
/// JSON.
const LINE_MAX: u64 = 64 << 10;

/// Parses the cookie in a line, by the same rules as for servers, since the file may have been tampered with.
fn parse(line: &[u8]) -> Option<Cookie> {
    let record: Value = serde_json::from_slice(line).ok()?;
    let text = |key: &str| record.get(key)?.as_str().map(str::to_owned);
    let flag = |key: &str| record.get(key)?.as_bool();
    let same_site = match record.get("same_site")? {
        Value::Null => None,
        name => Some(
            [SameSite::Strict, SameSite::Lax, SameSite::None].into_iter().find(|it| name == it.as_str())?,
        ),
    };
    let cookie = Cookie {
        name: octets(record.get("name")?)?,
        value: octets(record.get("value")?)?,
        domain: text("domain")?,
        host_only: flag("host_only")?,
        path: text("path")?,
        expires: Some(
            SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(record.get("expires")?.as_u64()?))?,
        ),
        secure: flag("secure")?,
        http_only: flag("http_only")?,
        same_site,
        partitioned: flag("partitioned")?,
        created: 0,
        used: 0,
    };
    is_valid(&cookie).then_some(cookie)
}

fn is_valid(cookie: &Cookie) -> bool {
    let attributes = SetCookie {
        domain: (!cookie.host_only).then_some(&*cookie.domain),
        path: Some(&cookie.path),
        secure: cookie.secure,
        ..SetCookie::default()
    };
    let as_set = RawSetCookie { name: &cookie.name, value: &cookie.value, attributes };
    let is_lower_case = !cookie.domain.bytes().any(|octet| octet.is_ascii_uppercase());
    let is_own = cookie.host_only || !is_public_suffix(&cookie.domain);
    is_lower_case
        && is_own
        && as_set.has_valid_prefix()
        && fits_set_cookie(&cookie.name, &cookie.value, &cookie.path)
}
