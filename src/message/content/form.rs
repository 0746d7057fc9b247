//! [`Form`] and [`FormBuf`]: names and values of a query or a form, read and built (RFC 3986 §3.4, WHATWG URL §5).

use std::borrow::Cow;
use std::fmt;
use std::iter;
use std::mem;

use super::value_error::ValueError;
use crate::message::text::{Plus, percent};
use crate::message::{FieldValue, FromText, OctetSet};

/// A view of `application/x-www-form-urlencoded` text: `name=value` pairs separated by `&`, as in a query or in the
/// content of a form.
///
/// Pairs are decoded at look-up, and only text with escapes is copied. The text is read as browsers read it:
///
/// - `+` is a space.
/// - A malformed escape stands for itself.
/// - Octets that are not UTF-8 become U+FFFD.
/// - `name` means `name=`.
/// - Empty pairs are skipped.
///
/// [`Form::strict`] refuses malformed escapes and octets that are not UTF-8.
///
/// [`Limits::request_line_max`](crate::Limits::request_line_max) limits the length of a query. [`Form::PAIRS_MAX`]
/// limits the number of pairs that [`Request::form`](crate::Request::form) accepts.
///
/// # Examples
///
/// ```
/// use corehttp::Form;
///
/// let form = Form::new("q=rust+lang&tag=fast&tag=safe&debug&page=2");
/// assert_eq!(form.get("q").as_deref(), Some("rust lang"));
/// assert!(form.all("tag").eq(["fast", "safe"]));
/// assert_eq!(form.get("debug").as_deref(), Some(""));
/// assert_eq!(form.get_as::<u32>("page")?, Some(2));
/// assert_eq!(form.get_as::<u32>("size")?, None);
/// assert!(form.get_as::<u32>("q").is_err());
/// # Ok::<(), corehttp::error::ValueError>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Form<'a> {
    raw: &'a str,
}

impl<'a> Form<'a> {
    /// How many pairs [`Request::form`](crate::Request::form) accepts: 1,024.
    pub const PAIRS_MAX: usize = 1024;

    /// Creates a view of `raw`, which does not start with a `?`.
    pub fn new(raw: &'a str) -> Form<'a> {
        Form { raw }
    }

    /// Returns this form, if it has at most `pairs_max` pairs.
    ///
    /// # Errors
    ///
    /// Fails if it has more. In a handler, `?` turns that into 400.
    pub fn up_to(self, pairs_max: usize) -> Result<Form<'a>, ValueError> {
        match self.raw_pairs().nth(pairs_max) {
            None => Ok(self),
            Some(_) => Err(ValueError::too_many_pairs(pairs_max)),
        }
    }

    /// Returns this form if it is unambiguous.
    ///
    /// # Errors
    ///
    /// Fails for a `%` without two hexadecimal digits, and for octets that are not UTF-8. The error names the pair. In
    /// a handler, `?` turns that into 400.
    pub fn strict(self) -> Result<Form<'a>, ValueError> {
        let is_strict = |raw| percent::is_well_formed(raw) && percent::decode(raw, Plus::Space).is_ok();
        match self.raw_pairs().find(|(name, value)| !(is_strict(name) && is_strict(value))) {
            None => Ok(self),
            Some((name, _)) => Err(ValueError::escape(name)),
        }
    }

    /// Returns the text as it was sent. `Request::query_as` and `Request::form_as` turn it into a
    /// struct, with the feature `form`.
    pub fn as_str(self) -> &'a str {
        self.raw
    }

    /// Returns how many pairs there are.
    pub fn len(self) -> usize {
        self.raw_pairs().count()
    }

    /// Returns whether there are no pairs.
    pub fn is_empty(self) -> bool {
        self.raw_pairs().next().is_none()
    }

    /// Returns whether there is a pair with this name.
    pub fn contains(self, name: &str) -> bool {
        self.raw_values(name).next().is_some()
    }

    /// Returns the first value of `name`.
    pub fn get(self, name: &str) -> Option<Cow<'a, str>> {
        self.all(name).next()
    }

    /// Returns all values of `name`, in order.
    pub fn all(self, name: &str) -> impl Iterator<Item = Cow<'a, str>> {
        self.raw_values(name).map(decode)
    }

    /// Returns the first value of `name` as a number, a `bool` or another type that is [`FromText`]. `None` if there is
    /// no such pair.
    ///
    /// # Errors
    ///
    /// Fails if the value is not a `T`. An empty value usually is not. In a handler, `?` turns that into 400.
    pub fn get_as<T: FromText>(self, name: &str) -> Result<Option<T>, ValueError> {
        self.all_as(name).next().transpose()
    }

    /// Returns all values of `name`, in order, read as [`Form::get_as`] reads the first.
    pub fn all_as<T: FromText>(self, name: &str) -> impl Iterator<Item = Result<T, ValueError>> {
        self.all(name).map(move |value| T::from_text(&value).ok_or_else(|| ValueError::value_type::<T>(name)))
    }

    /// Returns all pairs, decoded, in order.
    pub fn iter(self) -> FormPairs<'a> {
        FormPairs { rest: self.raw }
    }

    fn raw_values(self, name: &str) -> impl Iterator<Item = &'a str> {
        // Octets that are not UTF-8 are U+FFFD, as in `iter`.
        let is_lossy = name.contains(char::REPLACEMENT_CHARACTER);
        let matches_name = move |raw: &str| {
            percent::octets(raw, Plus::Space).eq(name.bytes()) || (is_lossy && decode(raw) == name)
        };
        self.raw_pairs().filter(move |(raw, _)| matches_name(raw)).map(|(_, value)| value)
    }

    /// All pairs as they were sent, without empty ones.
    fn raw_pairs(self) -> impl Iterator<Item = (&'a str, &'a str)> {
        let mut pairs = self.iter();
        iter::from_fn(move || pairs.next_raw())
    }
}

impl<'a> IntoIterator for Form<'a> {
    type Item = (Cow<'a, str>, Cow<'a, str>);
    type IntoIter = FormPairs<'a>;

    fn into_iter(self) -> FormPairs<'a> {
        self.iter()
    }
}

/// The decoded names and values of a [`Form`].
#[derive(Clone, Debug)]
pub struct FormPairs<'a> {
    rest: &'a str,
}

impl<'a> FormPairs<'a> {
    fn next_raw(&mut self) -> Option<(&'a str, &'a str)> {
        while !self.rest.is_empty() {
            let (pair, rest) = split_once(self.rest, b'&');
            self.rest = rest;
            if !pair.is_empty() {
                return Some(split_once(pair, b'='));
            }
        }
        None
    }
}

impl<'a> Iterator for FormPairs<'a> {
    type Item = (Cow<'a, str>, Cow<'a, str>);

    fn next(&mut self) -> Option<Self::Item> {
        self.next_raw().map(|(name, value)| (decode(name), decode(value)))
    }
}

/// Builds `application/x-www-form-urlencoded` text from names and values, in order. [`FormBuf::as_form`] is a view
/// of the pairs.
///
/// All names and values are escaped, so the text is always valid in a query and as the content of a form.
///
/// # Examples
///
/// ```
/// use corehttp::{FormBuf, Request};
///
/// let mut form = FormBuf::new();
/// form.append("q", "tea & biscuits");
/// form.append("page", 2);
/// form.append("q", "€");
/// assert_eq!(form.as_str(), "q=tea+%26+biscuits&page=2&q=%E2%82%AC");
/// form.set("q", "milk");
/// form.sort();
/// assert_eq!(form.as_str(), "page=2&q=milk");
///
/// let mut request = Request::get("http://example.com/search")?;
/// request.set_query(&form)?;
/// assert_eq!(request.target().as_str(), "http://example.com/search?page=2&q=milk");
///
/// let mut request = Request::post("http://example.com/search")?;
/// request.set_form(&FormBuf::from([("q", "milk"), ("page", "2")]));
/// assert_eq!(request.form()?.get_as("page")?, Some(2));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct FormBuf {
    /// Pairs as [`FormBuf::append`] spells them, and nothing else.
    text: String,
}

impl FormBuf {
    /// Creates an empty form. Allocates nothing.
    pub fn new() -> FormBuf {
        FormBuf::default()
    }

    /// Appends a pair, even if there are others with this name.
    pub fn append(&mut self, name: &str, value: impl FieldValue) {
        self.begin_pair();
        encode(name.as_bytes(), &mut self.text);
        self.text.push('=');
        value.with_bytes(|value| encode(value, &mut self.text));
    }

    /// Sets the only value of `name`, in place of its first pair, or else at the end. Other pairs with this name are
    /// removed.
    pub fn set(&mut self, name: &str, value: impl FieldValue) {
        let old = mem::take(self);
        let mut value = Some(value);
        for (raw_name, raw_value) in old.as_form().raw_pairs() {
            if decode(raw_name) != name {
                self.append_raw(raw_name, raw_value);
            } else if let Some(value) = value.take() {
                self.append(name, value);
            }
        }
        if let Some(value) = value {
            self.append(name, value);
        }
    }

    /// Removes all pairs with this name. Returns whether there was one.
    pub fn remove(&mut self, name: &str) -> bool {
        let old = mem::take(self);
        let others = old.as_form().raw_pairs().filter(|(raw_name, _)| decode(raw_name) != name);
        others.for_each(|(raw_name, raw_value)| self.append_raw(raw_name, raw_value));
        self.text.len() < old.text.len()
    }

    /// Sorts the pairs by name, in the order of UTF-8. Pairs with the same name keep their order.
    ///
    /// Equal forms then have equal text, which can be signed or used as a key.
    pub fn sort(&mut self) {
        let old = mem::take(self);
        let mut pairs: Vec<_> = old.as_form().raw_pairs().collect();
        pairs.sort_by_cached_key(|(raw_name, _)| decode(raw_name));
        pairs.into_iter().for_each(|(raw_name, raw_value)| self.append_raw(raw_name, raw_value));
    }

    /// Removes all pairs, and keeps the memory.
    pub fn clear(&mut self) {
        self.text.clear();
    }

    /// Returns the text, as it is sent.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Returns a view of the pairs.
    pub fn as_form(&self) -> Form<'_> {
        Form::new(&self.text)
    }

    /// Returns how many pairs there are.
    pub fn len(&self) -> usize {
        self.as_form().len()
    }

    /// Returns whether there are no pairs.
    pub fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    /// Appends a pair that is already escaped.
    fn append_raw(&mut self, raw_name: &str, raw_value: &str) {
        debug_assert!(
            percent::is_well_formed(raw_name) && percent::is_well_formed(raw_value),
            "pairs are escaped"
        );
        self.begin_pair();
        self.text.extend([raw_name, "=", raw_value]);
    }

    fn begin_pair(&mut self) {
        if !self.text.is_empty() {
            self.text.push('&');
        }
    }
}

impl AsRef<str> for FormBuf {
    fn as_ref(&self) -> &str {
        &self.text
    }
}

impl fmt::Display for FormBuf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.text)
    }
}

impl From<Form<'_>> for FormBuf {
    /// Copies the pairs, in normal spelling.
    fn from(form: Form<'_>) -> FormBuf {
        form.into_iter().collect()
    }
}

impl<N: AsRef<str>, V: FieldValue, const LEN: usize> From<[(N, V); LEN]> for FormBuf {
    fn from(pairs: [(N, V); LEN]) -> FormBuf {
        pairs.into_iter().collect()
    }
}

impl<N: AsRef<str>, V: FieldValue> Extend<(N, V)> for FormBuf {
    fn extend<I: IntoIterator<Item = (N, V)>>(&mut self, pairs: I) {
        pairs.into_iter().for_each(|(name, value)| self.append(name.as_ref(), value));
    }
}

impl<N: AsRef<str>, V: FieldValue> FromIterator<(N, V)> for FormBuf {
    fn from_iter<I: IntoIterator<Item = (N, V)>>(pairs: I) -> FormBuf {
        let mut form = FormBuf::new();
        form.extend(pairs);
        form
    }
}

/// The media type of a form. The type has no parameters: some clients send a charset, which means nothing, since a form
/// is always UTF-8.
pub(crate) const FORM_TYPE: &str = "application/x-www-form-urlencoded";

/// The text before the first `octet`, which is ASCII, and the text after it.
fn split_once(text: &str, octet: u8) -> (&str, &str) {
    match memchr::memchr(octet, text.as_bytes()) {
        Some(at) => (&text[..at], &text[at + 1..]),
        None => (text, ""),
    }
}

/// Decodes `raw` as browsers do, which never fails.
fn decode(raw: &str) -> Cow<'_, str> {
    percent::decode(raw, Plus::Space)
        .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned().into())
}

/// Appends `octets`, escaped for `application/x-www-form-urlencoded` (the URL Standard, §5.2).
fn encode(octets: &[u8], text: &mut String) {
    static PLAIN: OctetSet = OctetSet::ALPHANUMERIC.with(b"*-._");
    for (before, word) in octets.split(|&octet| octet == b' ').enumerate() {
        if before > 0 {
            text.push('+');
        }
        percent::encode(word, &PLAIN, text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(raw: &str, expected: &[(&str, &str)]) {
        let form = Form::new(raw);
        let found: Vec<_> = form.into_iter().collect();
        let expected: Vec<(Cow<str>, Cow<str>)> =
            expected.iter().map(|&(name, value)| (name.into(), value.into())).collect();
        assert_eq!(found, expected, "{raw:?}");
        assert_eq!((form.len(), form.is_empty()), (expected.len(), expected.is_empty()), "{raw:?}");
        assert_eq!(form.up_to(expected.len()), Ok(form), "{raw:?}");
        let fewer = expected.len().checked_sub(1).map(|pairs_max| form.up_to(pairs_max));
        assert!(fewer.is_none_or(|found| found.is_err()), "{raw:?}");
    }

    #[test]
    fn pairs_are_split_before_they_are_decoded() {
        check("a=1&b=2", &[("a", "1"), ("b", "2")]);
        check("a=1=2", &[("a", "1=2")]);
        check("a&b=", &[("a", ""), ("b", "")]);
        check("=1", &[("", "1")]);
        check("=", &[("", "")]);
        check("a%26b%3D=%26%3d", &[("a&b=", "&=")]);
        check("a=1;b=2", &[("a", "1;b=2")]);
        check("a=?&b=/", &[("a", "?"), ("b", "/")]);
    }

    #[test]
    fn empty_pairs_are_skipped() {
        check("", &[]);
        check("&", &[]);
        check("&&&", &[]);
        check("&&a=1&&&b=2&", &[("a", "1"), ("b", "2")]);
    }

    #[test]
    fn escapes_are_decoded_once_and_malformed_ones_kept() {
        check("a+b=c%20d", &[("a b", "c d")]);
        check("a=%2B%2b", &[("a", "++")]);
        check("a=%2541", &[("a", "%41")]);
        check("a=100%&b=%zz&c=%4", &[("a", "100%"), ("b", "%zz"), ("c", "%4")]);
        check("a=%e2%82%ac", &[("a", "€")]);
        check("a=%ff%fe&%c3=x", &[("a", "\u{fffd}\u{fffd}"), ("\u{fffd}", "x")]);
    }

    #[test]
    fn a_strict_form_has_no_malformed_escapes() {
        for raw in ["", "a", "a=%41&&b+c=%e2%82%ac", "a=%2541", "é=é"] {
            assert!(Form::new(raw).strict().is_ok(), "{raw:?}");
        }
        for raw in ["%", "a=%", "a=%4", "a=%zz", "%%41", "a&%4&b", "a=%ff", "%c3=%a9", "%c3&%a9", "a=%+1"] {
            assert!(Form::new(raw).strict().is_err(), "{raw:?}");
        }
    }

    #[test]
    fn names_are_found_however_they_are_spelled() {
        let form = Form::new("ab=1&a%62=2&%61%62=3&abc=4&a=5&AB=6&a+b=7");
        assert!(form.all("ab").eq(["1", "2", "3"]));
        assert!(form.all_as::<u8>("ab").eq([Ok(1), Ok(2), Ok(3)]));
        assert_eq!(form.get("a b").as_deref(), Some("7"));
        for absent in ["", "b", "a%62", "aB", "abcd", "1", "a+b"] {
            assert_eq!((form.get(absent), form.contains(absent)), (None, false), "{absent}");
        }
    }

    /// A caller that takes a name from `iter` must not miss it with `get` and `contains`.
    #[test]
    fn each_name_that_is_listed_is_found() {
        for raw in [
            "%82=x",
            "a%ffb=1&a%feb=2",
            "%ff%fe=1&\u{fffd}=2&%ef%bf%bd=3",
            "%c3=1&%c3%a9=2&a=3&=4",
            "%f0%9f=1",
        ] {
            let form = Form::new(raw);
            for (name, _) in form.iter() {
                let values = form.iter().filter(|(other, _)| *other == name).map(|(_, value)| value);
                assert!(form.contains(&name) && form.all(&name).eq(values.clone()), "{raw:?} {name:?}");
                assert!(values.take(1).eq(form.get(&name)), "{raw:?} {name:?}");
            }
        }
        let form = Form::new("a%ffb=1&a%feb=2");
        assert!(form.all("a\u{fffd}b").eq(["1", "2"]));
        assert!(!form.contains("ab") && !form.contains("\u{fffd}") && !form.contains("a\u{fffd}\u{fffd}b"));
    }

    #[test]
    fn an_absent_value_is_none_and_a_malformed_one_an_error() {
        let form = Form::new("page=12&size=&sort=up&far=%2B5&spaced=+5&twice=1&twice=x&escaped=%31%32");
        for (name, expected) in [("page", 12), ("twice", 1), ("escaped", 12)] {
            assert_eq!(form.get_as::<u32>(name), Ok(Some(expected)), "{name}");
        }
        assert_eq!(form.get_as::<u32>("Page"), Ok(None));
        for name in ["size", "sort", "far", "spaced"] {
            let error = form.get_as::<u32>(name).unwrap_err();
            assert_eq!(
                error.to_string(),
                format!("the value of `{name}` is not a whole number from 0 to 4294967295")
            );
        }
    }

    #[test]
    fn an_error_names_the_pair_and_not_its_value() {
        #[derive(Debug)]
        struct Order;
        impl FromText for Order {
            fn from_text(_: &str) -> Option<Order> {
                None
            }
        }
        let form = Form::new("per_page=secret&a%0a=%zz");
        let error = |error: ValueError| format!("{error:#}");
        assert_eq!(
            error(form.get_as::<i64>("per_page").unwrap_err()),
            "the value of `per_page` is not a whole number from -2^63 to 2^63 - 1"
        );
        assert_eq!(
            error(form.get_as::<Order>("per_page").unwrap_err()),
            "the value of `per_page` is not valid"
        );
        assert_eq!(error(form.strict().unwrap_err()), "an escape in `a%0a` is malformed, or not UTF-8");
        assert_eq!(error(form.up_to(1).unwrap_err()), "the form has more than 1 pairs");
    }

    #[test]
    fn nothing_is_allocated_where_nothing_is_escaped() {
        assert!(matches!(Form::new("a=b%20c&q=rust").get("q"), Some(Cow::Borrowed("rust"))));
        assert!(Form::new("q=%72ust").iter().all(|(name, _)| matches!(name, Cow::Borrowed("q"))));
    }

    fn form(pairs: &[(&str, &str)]) -> FormBuf {
        pairs.iter().copied().collect()
    }

    #[track_caller]
    fn check_built(pairs: &[(&str, &str)], expected: &str) {
        let built = form(pairs);
        assert_eq!(built.as_str(), expected);
        assert!(built.as_form().strict().is_ok());
        let read: Vec<_> = built.as_form().iter().collect();
        assert!(read.iter().map(|(name, value)| (&**name, &**value)).eq(pairs.iter().copied()), "{pairs:?}");
        assert_eq!(FormBuf::from(built.as_form()), built);
    }

    #[test]
    fn a_form_that_is_built_reads_as_it_was_meant() {
        check_built(&[], "");
        check_built(&[("", "")], "=");
        check_built(&[("a", ""), ("", "b")], "a=&=b");
        check_built(&[("a b", "c+d"), ("a&b=c", "%41")], "a+b=c%2Bd&a%26b%3Dc=%2541");
        check_built(&[("é", "€\0\r\n")], "%C3%A9=%E2%82%AC%00%0D%0A");
        check_built(&[("*-._aZ09", "~!'()/?#\"")], "*-._aZ09=%7E%21%27%28%29%2F%3F%23%22");
        assert_eq!(FormBuf::from([("a", 1), ("b", 2)]).as_str(), "a=1&b=2");
        let mut used = form(&[("a", "b")]);
        assert!(!used.is_empty());
        used.clear();
        assert!(used.is_empty());
        assert_eq!(FormBuf::from(Form::new("&&a=%zz&b&%4a=ü")).as_str(), "a=%25zz&b=&J=%C3%BC");
    }

    #[test]
    fn setting_replaces_the_first_pair_and_drops_the_others() {
        let mut form = form(&[("a", "1"), ("b c", "2"), ("a", "3"), ("d", "4")]);
        form.set("a", 5);
        assert_eq!(form.as_str(), "a=5&b+c=2&d=4");
        form.set("b c", "&");
        form.set("A", b"\xff");
        assert_eq!(form.as_str(), "a=5&b+c=%26&d=4&A=%FF");
        assert!(form.remove("b c") && !form.remove("b c") && !form.remove("b+c"));
        assert!(form.remove("a") && form.remove("d") && form.remove("A") && form.is_empty());
        form.set("a", "");
        assert_eq!((form.to_string(), form.len()), ("a=".into(), 1));
    }

    #[test]
    fn sorting_compares_decoded_names_and_keeps_the_order_of_values() {
        let mut form =
            form(&[("z", "1"), ("a b", "2"), ("é", "3"), ("a", "4"), ("z", "0"), ("a-", "5"), ("", "6")]);
        form.sort();
        assert_eq!(form.as_str(), "=6&a=4&a+b=2&a-=5&z=1&z=0&%C3%A9=3");
    }
}
