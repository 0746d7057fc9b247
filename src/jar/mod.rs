//! A cookie jar for clients, by the rules of browsers (RFC 6265bis §5).
//!
//! A [`Jar`] can be shared by any number of requests, on any threads. A jar holds a bounded number of cookies, and none with an
//! expiry time for more than 400 days. It refuses a cookie:
//!
//! - for a domain that the host of the server is not in
//! - for a public suffix such as `co.uk`, by [the list](https://publicsuffix.org) in the crate `psl`
//! - that is `Secure`, over `http`
//! - that breaks the promise of its prefix
//!
//! As in browsers, `http` to `localhost`, `127.0.0.0/8` or `[::1]` counts as secure. A client that uses a proxy for these hosts
//! sends their cookies there.
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
//! response.set_cookie(&SetCookie { domain: Some("example.com"), ..SetCookie::new_session("sid", "8f14e45f") })?;
//! jar.store(sign_in.target(), &response.headers);
//!
//! let mut next = Request::get("https://shop.example.com/basket")?;
//! if let Some(cookies) = jar.cookie_header(next.target()) {
//!     next.headers.set("cookie", cookies)?;
//! }
//! assert_eq!(next.cookies().get("sid"), Some("8f14e45f"));
//! assert_eq!(jar.cookie_header(Request::get("http://shop.example.com/")?.target()), None);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A client with [`ClientBuilder::cookie_store`](crate::ClientBuilder::cookie_store) uses its jar automatically, before
//! each request and after each response.
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
mod cookie_jar;

pub use cookie::Error;
pub use cookie_jar::Jar;

#[cfg(test)]
mod tests;
