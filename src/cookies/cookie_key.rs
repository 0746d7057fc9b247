//! [`Key`]: signs and encrypts the values of cookies.

use std::error::Error;
use std::fmt;
use std::io;

use super::key_pair::{KeyPair, fill_random};
use super::keyed_cookies::{PrivateCookies, SignedCookies};
use crate::message::{Cookies, MessageError, Response, SetCookie};

/// Signs and encrypts the values of cookies.
///
/// - A **signed** cookie can be read by its user, and by anyone who sees it, but not changed.
/// - A **private** cookie can be neither changed nor read.
///
/// A value is bound to the name of its cookie. Read with the wrong key or under another name, or changed in any way, it
/// is absent, as if there were no such cookie.
///
/// A value has no end. Beyond its `Max-Age`, a cookie stays valid while the server has the key. So a value that must expire
/// contains a date. State that must be revoked is kept on the server.
///
/// Values are signed with HMAC-SHA256, and encrypted with AES-256-GCM and random nonces, which is safe for 2^32 values
/// with one key. Both keys are derived from one secret with HKDF-SHA256 (RFC 5869).
///
/// # Examples
///
/// ```
/// use corehttp::{Context, cookies, Server, SetCookie};
///
/// // `openssl rand -hex 32` makes a secret. All servers of a site have the same.
/// let secret = std::env::var("COOKIE_SECRET");
/// # let secret = Ok::<_, std::env::VarError>("0".repeat(64));
/// let key = cookies::Key::from_secret(secret?.as_bytes())?;
///
/// let service = Server::new().service(move |ctx: &mut Context| -> corehttp::Result {
///     let Context { request, response, .. } = ctx;
///     let user = key.signed(request.cookies()).get("__Host-user").unwrap_or("stranger");
///     response.set_text(format!("Hello, {user}!"));
///     Ok(key.set_signed(response, &SetCookie::new_session("__Host-user", "Ada"))?)
/// });
/// # corehttp::block_on(async {
/// # let mut request = corehttp::Request::get("/")?;
/// # for expected in ["Hello, stranger!", "Hello, Ada!"] {
/// #     let response = service.respond(request.clone()).await;
/// #     assert_eq!(response.text()?, expected);
/// #     let value = response.cookies().next().unwrap().value;
/// #     request.headers.set("cookie", format!("__Host-user={value}"))?;
/// # }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })??;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[doc(alias("signed cookies", "encrypted cookies", "PrivateCookieJar", "SignedCookieJar"))]
#[derive(Clone)]
pub struct Key {
    /// All of them read, and the first one also signs and encrypts.
    pairs: Vec<KeyPair>,
}

impl Key {
    /// How many bytes a secret must have at least: 64.
    pub const SECRET_LEN_MIN: usize = 64;

    /// Creates a key of a secret that nobody can guess, such as 32 random bytes as hexadecimal digits.
    ///
    /// # Errors
    ///
    /// Fails if `secret` is shorter than [`Key::SECRET_LEN_MIN`].
    pub fn from_secret(secret: &[u8]) -> Result<Key, KeyError> {
        Ok(Key { pairs: vec![key_pair(secret)?] })
    }

    /// Creates a random key, for tests and for cookies that need not outlive the process.
    ///
    /// # Errors
    ///
    /// Fails if the system provides no randomness.
    pub fn generate() -> io::Result<Key> {
        let mut secret = [0; Key::SECRET_LEN_MIN];
        fill_random(&mut secret)?;
        Ok(Key { pairs: vec![KeyPair::from_secret(&secret)] })
    }

    /// Also reads values of a previous secret, which makes no new ones.
    ///
    /// A secret is changed in three steps, each on all servers:
    ///
    /// 1. Add the new one here.
    /// 2. Let the two change places.
    /// 3. Leave the old one out after its cookies have expired.
    ///
    /// # Errors
    ///
    /// As [`Key::from_secret`].
    pub fn previous(mut self, secret: &[u8]) -> Result<Key, KeyError> {
        self.pairs.push(key_pair(secret)?);
        Ok(self)
    }

    /// Returns a view of the signed ones among `cookies`.
    pub fn signed<'a>(&'a self, cookies: Cookies<'a>) -> SignedCookies<'a> {
        SignedCookies::new(&self.pairs, cookies)
    }

    /// Returns a view of the private ones among `cookies`.
    pub fn private<'a>(&'a self, cookies: Cookies<'a>) -> PrivateCookies<'a> {
        PrivateCookies::new(&self.pairs, cookies)
    }

    /// Sets `cookie` with its value signed, which is 43 bytes longer.
    ///
    /// # Errors
    ///
    /// As [`Response::set_cookie`], and for a value in quotes.
    pub fn set_signed(&self, response: &mut Response, cookie: &SetCookie<'_>) -> Result<(), MessageError> {
        let value = self.current().sign(cookie.name, cookie.value);
        response.set_cookie(&SetCookie { value: &value, ..*cookie })
    }

    /// Sets `cookie` with its value encrypted, which is 38 bytes and a third longer. The value may be any text.
    ///
    /// # Errors
    ///
    /// Fails with the [`MessageError`] of [`Response::set_cookie`], or if the system provides no randomness.
    ///
    /// # Examples
    ///
    /// ```
    /// use corehttp::{Context, cookies, Server, SetCookie};
    ///
    /// let key = cookies::Key::generate()?;
    /// let service = Server::new().service(move |ctx: &mut Context| -> corehttp::Result {
    ///     let Context { request, response, .. } = ctx;
    ///     let note = key.private(request.cookies()).get("note").unwrap_or_default();
    ///     response.set_text(format!("Your note: {note}"));
    ///     Ok(key.set_private(response, &SetCookie::new_session("note", "bread; \"milk\""))?)
    /// });
    /// # corehttp::block_on(async {
    /// # let mut request = corehttp::Request::get("/")?;
    /// # for expected in ["Your note: ", "Your note: bread; \"milk\""] {
    /// #     let response = service.respond(request.clone()).await;
    /// #     assert_eq!(response.text()?, expected);
    /// #     let value = response.cookies().next().unwrap().value;
    /// #     request.headers.set("cookie", format!("note={value}"))?;
    /// # }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })??;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn set_private(&self, response: &mut Response, cookie: &SetCookie<'_>) -> io::Result<()> {
        let value = self.current().encrypt(cookie.name, cookie.value)?;
        response.set_cookie(&SetCookie { value: &value, ..*cookie }).map_err(io::Error::other)
    }

    fn current(&self) -> &KeyPair {
        self.pairs.first().expect("each constructor adds a pair")
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CookieKey").finish_non_exhaustive()
    }
}

/// Why a [`Key`] cannot be made: its secret is too short.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct KeyError {
    len: usize,
}

impl fmt::Display for KeyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let len = self.len;
        let least = Key::SECRET_LEN_MIN;
        write!(f, "the secret of a cookie key has {len} bytes, and needs {least} at least")
    }
}

impl Error for KeyError {}

fn key_pair(secret: &[u8]) -> Result<KeyPair, KeyError> {
    match secret.len() {
        Key::SECRET_LEN_MIN.. => Ok(KeyPair::from_secret(secret)),
        len => Err(KeyError { len }),
    }
}
