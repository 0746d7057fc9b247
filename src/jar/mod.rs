//! A cookie jar for clients: what servers set is kept and given back by the rules of browsers (RFC 6265bis §5).
//!
//! A [`Jar`] is shared by as many requests as one likes, on whatever threads. It takes what a server may set and no
//! more: nothing for a host that the server's is not below, nothing for a public suffix such as `co.uk` (by
//! [the list](https://publicsuffix.org) that the crate `psl` carries), nothing `Secure` from `http`, nothing that does
//! not keep the promise of its prefix. It holds a bounded number of cookies, and none for longer than 400 days.
//!
//! `http` to `localhost`, `127.0.0.0/8` or `[::1]` is as good as `https`, as with browsers: what is tried out on one
//! machine works as it will elsewhere. A client that is told to ask a proxy for these sends their cookies there.
//!
//! `SameSite`, `HttpOnly` and `Partitioned` are for those who run scripts and show one site within another. They are
//! kept, and change nothing.
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
//! A client with [`ClientBuilder::cookies`](crate::ClientBuilder::cookies) asks its jar by itself, before each request
//! and after each answer.
//!
//! Cookies that outlive a session can be kept in a file, a line of JSON each:
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

use self::cookie::{Cookie, Origin};
use self::store::Store;
use crate::CookieStore;
use crate::Headers;
use crate::SetCookie;
use crate::Target;

/// Cookies of a client, to be shared by its requests.
pub struct Jar {
    store: Mutex<Store>,
}

impl Jar {
    /// How many cookies a site may have, with all its hosts: 180. Beyond: the one that was sent longest ago goes,
    /// those that are not `Secure` first.
    pub const PER_SITE_MAX: usize = 180;

    /// How many cookies there may be in all: 3,300. Beyond: the one that was sent longest ago goes.
    pub const COOKIES_MAX: usize = 3300;

    /// An empty jar with the usual bounds.
    pub fn new() -> Jar {
        Jar::bounded(Jar::PER_SITE_MAX, Jar::COOKIES_MAX)
    }

    /// An empty jar for at most so many cookies of one site, and in all.
    pub fn bounded(per_site_max: usize, cookies_max: usize) -> Jar {
        Jar { store: Mutex::new(Store::bounded(per_site_max, cookies_max)) }
    }

    /// Takes the cookies that the response to a request for `target` sets. Those that may not be set are passed over;
    /// [`Jar::set`] says why.
    ///
    /// The target must be in absolute-form, as that of a [`Request`](crate::Request) which was made from a URL.
    pub fn store(&self, target: &Target, headers: &Headers) {
        for cookie in headers.all("set-cookie").filter_map(SetCookie::parse) {
            let _passed_over = self.set(target, &cookie);
        }
    }

    /// Takes one cookie as if the response to a request for `target` had set it. One that has expired removes the
    /// cookie of the same name, domain and path.
    ///
    /// # Errors
    ///
    /// Why it was not taken.
    pub fn set(&self, target: &Target, cookie: &SetCookie<'_>) -> Result<(), Rejected> {
        let (now, origin) = (SystemTime::now(), Origin::of(target).ok_or(Rejected::Target)?);
        let cookie = Cookie::new(&origin, cookie, now)?;
        self.lock().insert(&origin, cookie, now)
    }

    /// What a request for `target` says in its `Cookie` field, if it has one: longer paths first, older ones first.
    pub fn cookie_field(&self, target: &Target) -> Option<String> {
        self.lock().cookie_field(&Origin::of(target)?, SystemTime::now())
    }

    /// Forgets the cookies that end with a session: all that have no expiry time.
    pub fn end_session(&self) {
        self.lock().retain(|cookie| cookie.expires.is_some());
    }

    /// Forgets all cookies.
    pub fn clear(&self) {
        self.lock().retain(|_| false);
    }

    /// How many cookies there are that have not expired.
    pub fn len(&self) -> usize {
        let (now, store) = (SystemTime::now(), self.lock());
        store.iter().filter(|cookie| cookie.is_alive(now)).count()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Writes the cookies that outlive the session, oldest first, a line of JSON each.
    ///
    /// They are secrets: keep the file to yourself.
    ///
    /// # Errors
    ///
    /// Those of `out`.
    pub fn save(&self, mut out: impl Write) -> io::Result<()> {
        // Requests are not to wait until they are written.
        for line in self.lines() {
            writeln!(out, "{line}")?;
        }
        out.flush()
    }

    /// Adds the cookies that [`Jar::save`] wrote, except those that have expired.
    ///
    /// # Errors
    ///
    /// Those of `from`, and [`InvalidRecord`] within [`io::ErrorKind::InvalidData`] for a line that no jar has written.
    /// Cookies before it are in the jar then.
    pub fn load(&self, mut from: impl BufRead) -> io::Result<()> {
        let now = SystemTime::now();
        record::read(&mut from, |cookie| self.lock().restore(cookie, now))
    }

    /// The cookies that outlive the session, as lines of JSON.
    fn lines(&self) -> Vec<String> {
        let (now, store) = (SystemTime::now(), self.lock());
        let mut kept: Vec<&Cookie> = store.iter().filter(|cookie| cookie.is_alive(now)).collect();
        kept.sort_by_key(|cookie| cookie.created);
        kept.into_iter().filter_map(record::line).collect()
    }

    fn lock(&self) -> MutexGuard<'_, Store> {
        // No panic leaves the store half changed in a way that matters: a cookie may be missing.
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
    fn cookie_field(&self, target: &Target) -> Option<String> {
        Jar::cookie_field(self, target)
    }

    fn store(&self, target: &Target, headers: &Headers) {
        Jar::store(self, target, headers);
    }
}

impl fmt::Debug for Jar {
    /// Values are secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a jar of {} cookies", self.len())
    }
}

#[cfg(test)]
mod tests;
