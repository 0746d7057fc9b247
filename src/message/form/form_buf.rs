//! [`FormBuf`]: builds a form to send (the URL Standard, §5.2).

use std::fmt;
use std::mem;

use super::{Form, decode};
use crate::message::{FieldValue, OctetSet, percent};

/// Builds `application/x-www-form-urlencoded` text from names and values, in order. It can be read as a [`Form`].
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
    /// This gives equal forms equal text, to be signed or used as a key.
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

    fn form(pairs: &[(&str, &str)]) -> FormBuf {
        pairs.iter().copied().collect()
    }

    #[track_caller]
    fn check(pairs: &[(&str, &str)], expected: &str) {
        let built = form(pairs);
        assert_eq!(built.as_str(), expected);
        assert!(built.as_form().strict().is_ok());
        let read: Vec<_> = built.as_form().iter().collect();
        assert!(read.iter().map(|(name, value)| (&**name, &**value)).eq(pairs.iter().copied()), "{pairs:?}");
        assert_eq!(FormBuf::from(built.as_form()), built);
    }

    #[test]
    fn a_form_that_is_built_reads_as_it_was_meant() {
        check(&[], "");
        check(&[("", "")], "=");
        check(&[("a", ""), ("", "b")], "a=&=b");
        check(&[("a b", "c+d"), ("a&b=c", "%41")], "a+b=c%2Bd&a%26b%3Dc=%2541");
        check(&[("é", "€\0\r\n")], "%C3%A9=%E2%82%AC%00%0D%0A");
        check(&[("*-._aZ09", "~!'()/?#\"")], "*-._aZ09=%7E%21%27%28%29%2F%3F%23%22");
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
