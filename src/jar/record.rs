//! [`line()`] and [`read`]: cookies as lines of JSON.

use std::fmt;
use std::io::{self, BufRead, Read};
use std::time::{Duration, SystemTime};

use serde_json::{Value, json};

use super::cookie::{self, Cookie};
use super::host;
use crate::RawSetCookie;
use crate::SameSite;
use crate::SetCookie;

/// Formats a cookie that outlives the session as a JSON object in one line.
pub(super) fn line(cookie: &Cookie) -> Option<String> {
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

/// Text as a string, and what is not UTF-8 as an array of octets.
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
pub(super) fn read(from: &mut impl BufRead, mut take: impl FnMut(Cookie)) -> io::Result<()> {
    let mut line = Vec::new();
    for number in 1.. {
        line.clear();
        if from.by_ref().take(LINE_MAX).read_until(b'\n', &mut line)? == 0 {
            break;
        }
        if !line.trim_ascii().is_empty() {
            let invalid = || io::Error::new(io::ErrorKind::InvalidData, InvalidRecord { line: number });
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
    let is_own = cookie.host_only || !host::is_public_suffix(&cookie.domain);
    is_lower_case
        && is_own
        && as_set.keeps_prefix()
        && cookie::fits_set_cookie(&cookie.name, &cookie.value, &cookie.path)
}

/// A line of a file is not a cookie that a jar has written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct InvalidRecord {
    /// The number of the line, from 1.
    pub line: usize,
}

impl fmt::Display for InvalidRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {} is not a cookie", self.line)
    }
}

impl std::error::Error for InvalidRecord {}
