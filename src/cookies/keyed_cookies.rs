//! [`SignedCookies`] and [`PrivateCookies`]: views of cookies with a key.

use std::fmt;

use super::key_pair::{ENCRYPTED_LEN_MIN, KeyPair, SIGNATURE_LEN};
use crate::message::{Cookies, SetCookie};

/// A view of the signed cookies of a request. Made by [`Key::signed`](super::Key::signed).
///
/// Nothing is allocated. A changed cookie is absent, as is a cookie without a signature of the key.
#[derive(Clone, Copy)]
pub struct SignedCookies<'a> {
    pairs: &'a [KeyPair],
    cookies: Cookies<'a>,
}

impl<'a> SignedCookies<'a> {
    pub(super) fn new(pairs: &'a [KeyPair], cookies: Cookies<'a>) -> SignedCookies<'a> {
        SignedCookies { pairs, cookies }
    }

    /// Returns the value of the first cookie with this name that is signed, without its signature.
    ///
    /// Other hosts of a domain may set cookies with the same name. Cookies without a signature are skipped. Of the cookies with
    /// one name that are neither too short nor too long, only the first 8 are looked at.
    pub fn get(self, name: &str) -> Option<&'a str> {
        candidates(self.cookies, name, SIGNATURE_LEN)
            .find_map(|value| self.pairs.iter().find_map(|pair| pair.verify(name, value)))
    }
}

impl fmt::Debug for SignedCookies<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SignedCookies").finish_non_exhaustive()
    }
}

/// A view of the private cookies of a request. Made by [`Key::private`](super::Key::private).
///
/// A changed cookie is absent. So is a cookie that was not encrypted with the key.
#[derive(Clone, Copy)]
pub struct PrivateCookies<'a> {
    pairs: &'a [KeyPair],
    cookies: Cookies<'a>,
}

impl<'a> PrivateCookies<'a> {
    pub(super) fn new(pairs: &'a [KeyPair], cookies: Cookies<'a>) -> PrivateCookies<'a> {
        PrivateCookies { pairs, cookies }
    }

    /// Returns the decrypted value of the first cookie with this name that was encrypted with the key. As with
    /// [`SignedCookies::get`], others are skipped.
    pub fn get(self, name: &str) -> Option<String> {
        candidates(self.cookies, name, ENCRYPTED_LEN_MIN)
            .find_map(|value| self.pairs.iter().find_map(|pair| pair.decrypt(name, value)))
    }
}

impl fmt::Debug for PrivateCookies<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PrivateCookies").finish_non_exhaustive()
    }
}

/// The values with this name that are tried, of those with a possible length. More cookies than that could keep a core
/// busy.
fn candidates<'a>(cookies: Cookies<'a>, name: &str, len_min: usize) -> impl Iterator<Item = &'a str> {
    let is_possible = move |value: &&str| (len_min..=SetCookie::LEN_MAX).contains(&value.len());
    cookies.all(name).filter(is_possible).take(CANDIDATES_MAX)
}

const CANDIDATES_MAX: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cookies::Key;
    use crate::message::{CookieFault, MessageError, Request, Response};

    const SECRET: [u8; 64] = [7; 64];
    const OTHER: [u8; 64] = [8; 64];

    fn key() -> Key {
        Key::from_secret(&SECRET).unwrap()
    }

    /// The signed and the private value of a cookie.
    fn values(key: &Key, name: &str, value: &str) -> [String; 2] {
        let cookie = SetCookie::new(name, value);
        let mut response = Response::new();
        key.set_signed(&mut response, &cookie).unwrap();
        key.set_private(&mut response, &cookie).unwrap();
        let mut cookies = response.cookies().map(|cookie| cookie.value.to_owned());
        [cookies.next().unwrap(), cookies.next().unwrap()]
    }

    /// A request with these cookies has this signed and this private value of `a`.
    #[track_caller]
    fn check(key: &Key, cookies: &str, expected: [Option<&str>; 2]) {
        let mut request = Request::get("/").unwrap();
        request.headers.set("cookie", cookies).unwrap();
        let signed = key.signed(request.cookies()).get("a");
        let private = key.private(request.cookies()).get("a");
        assert_eq!([signed, private.as_deref()], expected, "{cookies}");
    }

    #[test]
    fn a_value_comes_back_under_its_name_alone() {
        for value in ["", "b", "8f14e45f=/+", &"x".repeat(1000)] {
            let [signed, private] = values(&key(), "a", value);
            assert_eq!(signed.len(), value.len() + 43);
            assert_eq!(private.len(), ((value.len() + 28) * 4).div_ceil(3));
            check(&key(), &format!("a={signed}"), [Some(value), None]);
            check(&key(), &format!("a={private}"), [None, Some(value)]);
            for cookies in [
                format!("b={signed}; b={private}"),
                format!("A={signed}; A={private}"),
                format!("a={signed}x; a={private}x"),
                format!("a=x{signed}; a=x{private}"),
                format!("a={signed}=; a={private}="),
                format!("a=\"{signed}\"; a=\"{private}\""),
                format!("a={value}; a"),
            ] {
                check(&key(), &cookies, [None, None]);
            }
        }
        // A name and a value that are the same when one follows the other.
        let [signed, private] = values(&key(), "aa", "b");
        check(&key(), &format!("a={signed}; a={private}"), [None, None]);
        let [signed, private] = values(&key(), "b", "ab");
        check(&key(), &format!("a={signed}; a={private}"), [None, None]);
    }

    #[test]
    fn a_value_that_was_changed_anywhere_is_absent() {
        for made in values(&key(), "a", "value") {
            for at in 0..made.len() {
                check(&key(), &format!("a={}", &made[..at]), [None, None]);
                for other in ["A", "B", "-", "+", "=", "é"] {
                    let changed = format!("{}{other}{}", &made[..at], &made[at + 1..]);
                    let is_same = changed == made;
                    if !is_same {
                        check(&key(), &format!("a={changed}"), [None, None]);
                    }
                }
            }
        }
    }

    #[test]
    fn the_keys_that_read_are_the_current_one_and_previous_ones() {
        let old = Key::from_secret(&OTHER).unwrap();
        let [signed, private] = values(&old, "a", "b");
        let cookies = format!("a={signed}; a={private}");
        check(&key(), &cookies, [None, None]);
        check(&key().previous(&OTHER).unwrap(), &cookies, [Some("b"), Some("b")]);
        check(&key().previous(&[9; 64]).unwrap().previous(&OTHER).unwrap(), &cookies, [Some("b"), Some("b")]);
        let [signed, private] = values(&key().previous(&OTHER).unwrap(), "a", "b");
        check(&old, &format!("a={signed}; a={private}"), [None, None]);
        check(&key(), &format!("a={signed}; a={private}"), [Some("b"), Some("b")]);
    }

    /// The values were made by Python's hmac and cryptography, by the description in the docs.
    #[test]
    fn each_release_reads_what_others_have_made() {
        check(&key(), "a=kFedml_c7euN9C8qCgwMR414RaQuju1GkzTPv3W4tkob", [Some("b"), None]);
        check(&key(), "a=AAECAwQFBgcICQoLxij8fsNGZsW3o9A_qgsQsUo", [None, Some("b")]);
    }

    #[test]
    fn the_first_valid_one_of_eight_counts() {
        let [signed, private] = values(&key(), "a", "b");
        let [later, _] = values(&key(), "a", "c");
        let forged = |len, count| format!("a={}; ", "x".repeat(len)).repeat(count);
        let own = format!("a={signed}; a={private}; a={later}");
        check(&key(), &format!("{}{own}", forged(43, 6)), [Some("b"), Some("b")]);
        check(&key(), &format!("{}{own}", forged(43, 8)), [None, None]);
        // Lengths that no value has do not count: another host of the domain could hide all values by them.
        for len in [0, 1, 37, SetCookie::LEN_MAX + 1] {
            check(&key(), &format!("{}{own}", forged(len, 12)), [Some("b"), Some("b")]);
        }
        check(&key(), &format!("{}{own}", forged(42, 8)), [Some("b"), None]);
    }

    #[test]
    fn a_cookie_that_cannot_be_set_is_an_error() {
        let mut response = Response::new();
        let mut set_signed = |value: &str| key().set_signed(&mut response, &SetCookie::new("a", value));
        assert_eq!(set_signed("\"b\""), Err(MessageError::Cookie(CookieFault::Value, "`a`".into())));
        assert_eq!(set_signed("b c"), Err(MessageError::Cookie(CookieFault::Value, "`a`".into())));
        assert_eq!(
            set_signed(&"x".repeat(4096 - 43)),
            Err(MessageError::Cookie(CookieFault::TooLong, "`a`".into()))
        );
        set_signed(&"x".repeat(4095 - 43)).unwrap();
        let error = key().set_private(&mut response, &SetCookie::new("a", &"x".repeat(3044))).unwrap_err();
        assert!(error.get_ref().unwrap().is::<MessageError>());
        key().set_private(&mut response, &SetCookie::new("a", &"x".repeat(3043))).unwrap();
        Key::from_secret(&[7; 63]).unwrap_err();
        key().previous(b"").unwrap_err();
    }

    #[test]
    fn keys_are_random_and_not_shown() {
        let [one, other] = [(); 2].map(|()| Key::generate().unwrap());
        let [signed, private] = values(&one, "a", "b");
        assert_ne!(private, values(&one, "a", "b")[1], "each nonce is random");
        check(&other, &format!("a={signed}; a={private}"), [None, None]);
        let request = Request::get("/").unwrap();
        let views = (one.signed(request.cookies()), one.private(request.cookies()));
        assert_eq!(
            format!("{one:?} {views:?}"),
            "CookieKey { .. } (SignedCookies { .. }, PrivateCookies { .. })"
        );
    }
}
