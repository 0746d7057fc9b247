//! A cookie jar for clients: keeps the cookies that servers set, and sends them back by the rules of browsers (RFC
//! 6265bis §5).
//!
//! A [`Jar`] can be shared by any number of requests, on any threads. It accepts only what a server may set: nothing
//! for a domain that the server's host is not in, nothing for a public suffix such as `co.uk` (by [the
//! list](https://publicsuffix.org) in the crate `psl`), nothing `Secure` from `http`, and nothing that breaks the
//! promise of its prefix. It holds a bounded number of cookies, and none with an expiry time for more than 400 days.
//!
//! As in browsers, `http` to `localhost`, `127.0.0.0/8` or `[::1]` counts as secure, so that what is tested on one
//! machine works as it will elsewhere. A client that uses a proxy for these hosts sends their cookies there.
//!
//! `SameSite`, `HttpOnly` and `Partitioned` concern browsers, which run scripts and embed sites in others. They are
//! kept, and have no effect here.
//!
//! # Examples
//!
//! ```
//! use corehttp::jar::Jar;
//! use corehttp::{Request, Response, SetCookie};
//!
//! let jar = Jar::new();
//! let sign_in = Request::post("https://www.example.com/sign-in")?;
//! let mut response = Response::new();
//! response.set_cookie(&SetCookie { domain: Some("example.com"), ..SetCookie::session("sid", "8f14e45f") })?;
//! jar.store(sign_in.target(), &response.headers);
//!
//! let mut next = Request::get("https://shop.example.com/basket")?;
//! if let Some(cookies) = jar.cookie_field(next.target()) {
//!     next.headers.set("cookie", cookies)?;
//! }
//! assert_eq!(next.cookies().get("sid"), Some("8f14e45f"));
//! assert_eq!(jar.cookie_field(Request::get("http://shop.example.com/")?.target()), None);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A client with [`ClientBuilder::cookies`](crate::ClientBuilder::cookies) uses its jar automatically, before each
//! request and after each answer.
//!
//! Cookies that outlive a session can be saved to a file, as one line of JSON each:
//!
//! ```no_run
//! use std::fs::File;
//! use std::io::{BufReader, BufWriter};
//! use corehttp::jar::Jar;
//!
//! let jar = Jar::new();
//! jar.load(BufReader::new(File::open("cookies.jsonl")?))?;
//! // ...
//! jar.save(BufWriter::new(File::create("cookies.jsonl")?))?;
//! # Ok::<(), std::io::Error>(())
//! ```

mod cookie;
mod host;
mod record;
mod store;

use std::fmt;
use std::io::{self, BufRead, Write};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

pub use cookie::Rejected;
pub use record::InvalidRecord;

use self::cookie::{Cookie, RequestUri};
use self::store::Store;
use crate::CookieStore;
use crate::Headers;
use crate::RawSetCookie;
use crate::SetCookie;
use crate::Target;

/// The cookies of a client, shared by its requests.
pub struct Jar {
    store: Mutex<Store>,
}

impl Jar {
    /// How many cookies a site may have, over all its hosts: 180. Beyond that, the least recently sent one is dropped,
    /// and those that are not `Secure` first.
    pub const PER_SITE_MAX: usize = 180;

    /// How many cookies there may be in total: 3,300. Beyond that, the least recently sent one is dropped.
    pub const COOKIES_MAX: usize = 3300;

    /// Creates an empty jar with the usual bounds.
    pub fn new() -> Jar {
        Jar::bounded(Jar::PER_SITE_MAX, Jar::COOKIES_MAX)
    }

    /// Creates an empty jar for at most `per_site_max` cookies of one site, and `cookies_max` in total.
    pub fn bounded(per_site_max: usize, cookies_max: usize) -> Jar {
        Jar { store: Mutex::new(Store::bounded(per_site_max, cookies_max)) }
    }

    /// Stores the cookies that the response to a request for `target` sets. Those that may not be set are ignored;
    /// [`Jar::set`] says why.
    ///
    /// The target must be in absolute-form, like that of a [`Request`](crate::Request) that was made from a URL.
    pub fn store(&self, target: &Target, headers: &Headers) {
        for cookie in headers.all("set-cookie").filter_map(RawSetCookie::parse) {
            let _passed_over = self.set_raw(target, &cookie);
        }
    }

    /// Stores one cookie, as if the response to a request for `target` had set it. An expired one removes the cookie
    /// with the same name, domain and path.
    ///
    /// # Errors
    ///
    /// Fails if the cookie may not be set.
    pub fn set(&self, target: &Target, cookie: &SetCookie<'_>) -> Result<(), Rejected> {
        self.set_raw(target, &RawSetCookie::from(*cookie))
    }

    fn set_raw(&self, target: &Target, cookie: &RawSetCookie<'_>) -> Result<(), Rejected> {
        let (now, uri) = (SystemTime::now(), RequestUri::new(target).ok_or(Rejected::Target)?);
        let cookie = Cookie::new(&uri, cookie, now)?;
        self.lock().insert(&uri, cookie, now)
    }

    /// Returns the value of the `Cookie` field of a request for `target`, if there are cookies for it: longer paths
    /// first, then older ones. It is not UTF-8 if a cookie is not (RFC 6265bis §5.8.3).
    pub fn cookie_field(&self, target: &Target) -> Option<Vec<u8>> {
        self.lock().cookie_field(&RequestUri::new(target)?, SystemTime::now())
    }

    /// Removes the cookies that end with a session: all that have no expiry time.
    pub fn end_session(&self) {
        self.lock().retain(|cookie| cookie.expires.is_some());
    }

    /// Removes all cookies.
    pub fn clear(&self) {
        self.lock().retain(|_| false);
    }

    /// Returns how many cookies have not expired.
    pub fn len(&self) -> usize {
        let (now, store) = (SystemTime::now(), self.lock());
        store.iter().filter(|cookie| cookie.is_alive(now)).count()
    }

    /// Returns whether there are no cookies.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Writes the cookies that outlive the session, oldest first, as one line of JSON each.
    ///
    /// They are secrets, so protect the file.
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

    /// Adds the cookies that [`Jar::save`] wrote, except those that have expired.
    ///
    /// # Errors
    ///
    /// Fails if `from` does, and with [`InvalidRecord`] inside [`io::ErrorKind::InvalidData`] for a line that no jar
    /// has written. The cookies before it are then in the jar.
    pub fn load(&self, mut from: impl BufRead) -> io::Result<()> {
        let now = SystemTime::now();
        record::read(&mut from, |cookie| {
            // It would remove its like, which may have come later.
            if cookie.is_alive(now) {
                self.lock().restore(cookie, now);
            }
        })
    }

    /// The cookies that outlive the session, as lines of JSON.
    fn lines(&self) -> Vec<String> {
        let (now, store) = (SystemTime::now(), self.lock());
        let mut kept: Vec<&Cookie> = store.iter().filter(|cookie| cookie.is_alive(now)).collect();
        kept.sort_by_key(|cookie| cookie.created);
        kept.into_iter().filter_map(record::line).collect()
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
    fn cookie_field(&self, target: &Target) -> Option<Vec<u8>> {
        Jar::cookie_field(self, target)
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

#[cfg(test)]
mod tests;
