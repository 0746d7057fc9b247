//! [`Headers`]: the field lines of one message, in order (RFC 9110 §5).

use std::fmt;
use std::slice;
use std::time::SystemTime;

use super::name::{FRAMING_FIELDS, FieldLine, FieldName, HOP_BY_HOP, NameHash, NameSet, is_token};
use super::value::{
    FieldValue, Repeated, contains_token, invalid_name, is_field_value, members, valid_value,
};
use crate::memory::{Arena, Reset, Span, free_beyond};
use crate::message::{HttpDate, MessageError, decimal};

/// The fields of a message, in order, with their names in the case in which they were received or set.
///
/// Names are looked up without regard to case, and may have several lines. When the message is reset, the memory is
/// kept and reused.
///
/// # Examples
///
/// ```
/// use corehttp::Headers;
///
/// let mut headers = Headers::new();
/// headers.set("X-Size", 42)?;
/// headers.append("vary", "accept")?;
/// headers.append("vary", "origin")?;
/// assert_eq!(headers.get("x-size"), Some("42"));
/// assert_eq!(headers.all("Vary").count(), 2);
/// assert!(headers.contains_token("vary", "origin"));
/// assert!(headers.set("x-size", "1\r\nx-evil: 1").is_err());
/// # Ok::<(), corehttp::error::MessageError>(())
/// ```
#[doc(alias = "HeaderMap")]
#[derive(Clone, Default)]
pub struct Headers {
    /// The bytes of all names and values, as they are on the wire. A received head is stored as it came.
    pub(super) text: Arena,
    pub(super) fields: Vec<FieldLine>,
    /// A Bloom filter: the [`NameHash::bit`]s of all names that were added since the lines were last cleared. Most
    /// look-ups are for names that are absent.
    pub(super) present: u64,
    /// Whether the text is anything other than the lines in order.
    pub(super) is_patched: bool,
}

impl Headers {
    /// Creates an empty list of fields. Allocates nothing.
    pub fn new() -> Headers {
        Headers::default()
    }

    /// Sets the field `name` to `value`, a text, bytes or a number, in place of the first line with this name, or at the end.
    /// Other lines with this name are removed. Spaces and tabs around the value are not part of it (RFC 9110 §5.5).
    ///
    /// # Errors
    ///
    /// Fails for a name that is not a token (RFC 9110 §5.1), or for a value with a control character other than HTAB,
    /// such as CR, LF or NUL (§5.5).
    #[inline]
    pub fn set(&mut self, name: &str, value: impl FieldValue) -> Result<(), MessageError> {
        self.store(name, value, Headers::put)
    }

    /// Appends a line, even if there are others with this name.
    ///
    /// # Errors
    ///
    /// As [`Headers::set`].
    #[inline]
    pub fn append(&mut self, name: &str, value: impl FieldValue) -> Result<(), MessageError> {
        self.store(name, value, Headers::push)
    }

    /// Appends all lines of `other`, in order.
    pub fn append_all(&mut self, other: &Headers) {
        if other.is_empty() {
            return;
        }
        let Some(lines) = other.as_wire() else {
            for line in &other.fields {
                self.push_line(line.hash, line.name_in(&other.text), line.value_in(&other.text));
            }
            return;
        };
        let start = self.text.len();
        self.text.extend(lines);
        self.fields.extend(other.fields.iter().map(|field| field.shifted(start)));
        self.present |= other.present;
    }

    /// Sets a date field, such as `last-modified` (RFC 9110 §5.6.7), to the second.
    ///
    /// # Errors
    ///
    /// Fails if the name is not a token.
    pub fn set_date(&mut self, name: &str, time: SystemTime) -> Result<(), MessageError> {
        self.set(name, HttpDate::new(time).as_str())
    }

    /// Removes all lines with this name. Returns whether there was one.
    pub fn remove(&mut self, name: &str) -> bool {
        let name = FieldName::new(name);
        self.may_have(name) && self.retain_fields(|field, text| !field.is(name, text))
    }

    /// Removes all fields.
    pub fn clear(&mut self) {
        self.text.clear();
        self.fields.clear();
        self.present = 0;
        self.is_patched = false;
    }

    /// Returns the value of the first line with this name, if it is UTF-8. [`Headers::get_bytes`] returns any.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.get_bytes(name).and_then(|value| std::str::from_utf8(value).ok())
    }

    /// Returns the value of the first line with this name, in bytes.
    #[inline]
    pub fn get_bytes(&self, name: &str) -> Option<&[u8]> {
        self.first(FieldName::new(name))
    }

    /// Returns the values of all lines with this name, in order.
    #[inline]
    pub fn all<'a>(&'a self, name: &str) -> impl Iterator<Item = &'a [u8]> {
        self.named(FieldName::new(name))
    }

    /// Returns whether there is a line with this name.
    #[inline]
    pub fn contains(&self, name: &str) -> bool {
        self.get_bytes(name).is_some()
    }

    /// Returns whether the comma-separated list in this field, over all its lines, has the member `token`, in any case
    /// (RFC 9110 §5.6.1).
    pub fn contains_token(&self, name: &str, token: &str) -> bool {
        self.all(name).any(|value| contains_token(value, token.as_bytes()))
    }

    /// Returns all lines, in order.
    #[inline]
    pub fn iter(&self) -> HeadersIter<'_> {
        HeadersIter::new(&self.text, &self.fields)
    }

    /// Returns how many lines there are.
    pub fn len(&self) -> usize {
        self.fields.len()
    }

    /// Returns whether there are no lines.
    pub fn is_empty(&self) -> bool {
        self.fields.is_empty()
    }

    /// Returns `content-type` with its parameters, such as `text/html; charset=utf-8` (RFC 9110 §8.3).
    pub fn content_type(&self) -> Option<&str> {
        self.get("content-type")
    }

    /// Returns `content-length`, if it is a decimal number (RFC 9110 §8.6).
    pub fn content_length(&self) -> Option<u64> {
        self.named(FieldName::CONTENT_LENGTH).next().and_then(decimal)
    }

    /// Returns `host` (RFC 9110 §7.2), which in a received request is that of an absolute target (RFC 9112 §3.2.2).
    pub fn host(&self) -> Option<&str> {
        self.get("host")
    }

    /// Returns a date field, such as `if-modified-since`, in any of the three formats of RFC 9110 §5.6.7.
    pub fn date(&self, name: &str) -> Option<SystemTime> {
        self.get(name).and_then(HttpDate::parse)
    }

    // A call by itself costs a short exchange 5% of its instructions, and a literal name is checked at compile time.
    #[inline(always)]
    fn store(
        &mut self,
        name: &str,
        value: impl FieldValue,
        store: impl FnOnce(&mut Headers, FieldName<'_>, &[u8]),
    ) -> Result<(), MessageError> {
        if !is_token(name.as_bytes()) {
            return Err(invalid_name(name));
        }
        let field = FieldName::new(name);
        value.with_bytes(|value| {
            store(self, field, valid_value(name, value)?);
            Ok(())
        })
    }
}

/// Methods for the crate itself, whose callers have checked the fields.
impl Headers {
    /// Sets a field whose name is known to be valid.
    ///
    /// # Errors
    ///
    /// Fails if the value is not.
    pub(in crate::message) fn put_value(
        &mut self,
        name: FieldName<'_>,
        value: &str,
    ) -> Result<(), MessageError> {
        self.put(name, valid_value(name.as_str(), value.as_bytes())?);
        Ok(())
    }

    /// Sets a field that is known to be valid.
    #[inline]
    pub(crate) fn put(&mut self, name: FieldName<'_>, value: &[u8]) {
        self.put_line(name.hash(), name.as_str(), value);
    }

    /// Adds to `vary` that the response depends on a field of the request (RFC 9110 §12.5.5), unless it is there.
    pub(crate) fn vary_by(&mut self, field: &'static str) {
        let has_member = |member| self.contains_token("vary", member);
        if !has_member(field) && !has_member("*") {
            self.push(FieldName::VARY, field.as_bytes());
        }
    }

    /// Sets a field as [`Headers::put`] does, with a name in parts, which are passed in registers.
    fn put_line(&mut self, hash: NameHash, name: &str, value: &[u8]) {
        debug_assert!(is_token(name.as_bytes()) && is_field_value(value), "the caller has checked the field");
        match self.present & hash.bit() != 0 {
            true => self.replace(FieldName::new(name), value),
            false => self.push_line(hash, name.as_bytes(), value),
        }
    }

    /// Sets a field that may be there already, which few are.
    #[inline(never)]
    fn replace(&mut self, name: FieldName<'_>, value: &[u8]) {
        let Some(first) = self.position(name) else { return self.push(name, value) };
        let old = self.fields[first].value;
        self.fields[first].value = match old.len() < value.len() {
            true => self.text.push(value),
            false => self.text.overwrite(old, value),
        };
        let text = &self.text;
        let mut index = 0;
        let before = self.fields.len();
        self.fields.retain(|field| {
            index += 1;
            index <= first + 1 || !field.is(name, text)
        });
        self.is_patched |= old.len() != value.len() || self.fields.len() < before;
        self.compact();
    }

    /// Writes the lines anew, once they are less than half of a large text: fields of one message may be set again and
    /// again, for many sends.
    #[inline]
    fn compact(&mut self) {
        if self.is_patched && self.text.len() > TEXT_KEPT_MAX {
            self.compact_large();
        }
    }

    #[cold]
    fn compact_large(&mut self) {
        if 2 * self.wire_len() < self.text.len() {
            let lines = std::mem::take(self);
            self.append_all(&lines);
        }
    }

    /// How many bytes the lines have on the wire.
    fn wire_len(&self) -> usize {
        self.lines().map(|(name, value)| name.len() + value.len() + ": \r\n".len()).sum()
    }

    /// Removes all lines but those whose name `is_kept`.
    pub(crate) fn retain(&mut self, is_kept: impl Fn(&[u8]) -> bool) {
        self.retain_fields(|field, text| is_kept(field.name_in(text)));
    }

    /// Removes all lines but those of which `is_kept` is true. Returns whether there were others.
    fn retain_fields(&mut self, is_kept: impl Fn(&FieldLine, &Arena) -> bool) -> bool {
        let Headers { text, fields, is_patched, .. } = self;
        let before = fields.len();
        fields.retain(|field| is_kept(field, text));
        let is_less = fields.len() < before;
        *is_patched |= is_less;
        self.compact();
        is_less
    }

    /// Removes all lines of each of these names.
    pub(crate) fn remove_each(&mut self, names: &[FieldName<'_>]) {
        if names.iter().any(|name| self.may_have(*name)) {
            self.retain_fields(|field, text| !names.iter().any(|name| field.is(*name, text)));
        }
    }

    /// Appends a field that is known to be valid.
    #[inline]
    pub(crate) fn push(&mut self, name: FieldName<'_>, value: &[u8]) {
        let hash = name.hash();
        let name = name.as_str().as_bytes();
        debug_assert!(is_token(name) && is_field_value(value), "the caller has checked the field");
        self.push_line(hash, name, value);
    }

    #[inline]
    fn push_line(&mut self, hash: NameHash, name: &[u8], value: &[u8]) {
        let line = self.text.push_all([name, b": ", value, b"\r\n"]);
        let value = line.part(name.len() + ": ".len(), value.len());
        self.push_spans(hash, line.part(0, name.len()), value);
    }

    /// Appends a field that is known to be valid, with its value in pieces.
    pub(in crate::message) fn push_joined(&mut self, name: FieldName<'_>, pieces: &[&str]) {
        let front = self.text.push_all([name.as_str().as_bytes(), b": "]);
        let value_start = self.text.len();
        debug_assert!(
            pieces.iter().all(|piece| is_field_value(piece.as_bytes())),
            "the caller has checked them"
        );
        pieces.iter().for_each(|piece| self.text.extend(piece.as_bytes()));
        let value = Span::new(value_start, self.text.len() - value_start);
        self.text.extend(b"\r\n");
        self.push_spans(name.hash(), front.part(0, name.as_str().len()), value);
    }

    /// `false` if no line has this name. `true` may also be due to another name, or to one that was removed.
    #[inline]
    pub(crate) fn may_have(&self, name: FieldName<'_>) -> bool {
        self.present & name.hash().bit() != 0
    }

    /// `false` if no line has any of these names, as [`Headers::may_have`].
    #[inline]
    pub(crate) fn may_have_any(&self, names: &NameSet) -> bool {
        self.present & names.bits() != 0
    }

    /// The value of the first line with a name.
    #[inline]
    pub(crate) fn first(&self, name: FieldName<'_>) -> Option<&[u8]> {
        self.position(name).map(|first| self.fields[first].value_in(&self.text))
    }

    #[inline]
    fn position(&self, name: FieldName<'_>) -> Option<usize> {
        debug_assert!(
            self.may_have(name) || self.search(name).is_none(),
            "each line has its bit in the filter"
        );
        if self.may_have(name) { self.search(name) } else { None }
    }

    /// Separate from [`Headers::position`], so that its most frequent result, nothing, is inlined.
    #[inline(never)]
    fn search(&self, name: FieldName<'_>) -> Option<usize> {
        self.fields.iter().position(|field| field.is(name, &self.text))
    }

    /// The values of all lines with a name. Inlined: a constant name takes a third of the instructions of `first`.
    #[inline]
    pub(crate) fn named(&self, name: FieldName<'_>) -> impl DoubleEndedIterator<Item = &[u8]> {
        let fields: &[FieldLine] = if self.may_have(name) { &self.fields } else { &[] };
        fields.iter().filter(move |field| field.is(name, &self.text)).map(|field| field.value_in(&self.text))
    }

    /// The value of the only line with a name, if there is one.
    // Always inlined, because the host of each request is looked up here, and the compiler does not inline a function
    // of this size that has several callers.
    #[inline(always)]
    pub(crate) fn single(&self, name: FieldName<'_>) -> Result<Option<&[u8]>, Repeated> {
        let mut single = None;
        for field in self.fields.iter().filter(|field| field.is(name, &self.text)) {
            match single {
                None => single = Some(field.value_in(&self.text)),
                Some(_) => return Err(Repeated),
            }
        }
        Ok(single)
    }

    /// The codings of the content, in the order in which they were applied (RFC 9110 §8.4), without `identity`, which
    /// should not be there but is harmless.
    pub(crate) fn codings(&self) -> impl Iterator<Item = &[u8]> {
        let named = self.named(FieldName::CONTENT_ENCODING).flat_map(members);
        named.filter(|name| !name.eq_ignore_ascii_case(b"identity"))
    }

    /// All lines, names and values, in order.
    #[inline]
    pub(crate) fn lines(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.fields.iter().map(|field| (field.name_in(&self.text), field.value_in(&self.text)))
    }

    /// All lines as they go on the wire, if they are stored that way.
    #[inline]
    pub(crate) fn as_wire(&self) -> Option<&[u8]> {
        debug_assert!(
            self.is_patched || self.text.len() == self.wire_len(),
            "the text is the lines in order"
        );
        (!self.is_patched).then(|| self.text.as_slice())
    }

    /// Calls `write` with all lines that have none of these names, in order, as they go on the wire. Lines that are
    /// adjacent in the text, as those of a received head are, come in one piece.
    #[inline]
    pub(crate) fn write_all_but(&self, names: &NameSet, mut write: impl FnMut(&[u8])) {
        let text = self.text.as_slice();
        let mut piece = 0..0;
        for field in &self.fields {
            if field.is_any(names, &self.text) {
                continue;
            }
            match field.wire_range(text) {
                Some(line) if line.start == piece.end => piece.end = line.end,
                Some(line) => write(&text[std::mem::replace(&mut piece, line)]),
                None => {
                    write(&text[std::mem::take(&mut piece)]);
                    let (name, value) = (field.name_in(&self.text), field.value_in(&self.text));
                    [name, b": ", value, b"\r\n"].into_iter().for_each(&mut write);
                }
            }
        }
        write(&text[piece]);
    }

    /// Adds a line by its place in the text, whose bytes are there, or are those of a draft.
    #[inline]
    pub(super) fn push_spans(&mut self, hash: NameHash, name: Span, value: Span) {
        self.fields.push(FieldLine { hash, name, value });
        self.present |= hash.bit();
    }

    /// The text that the lines are in. That of received lines is the head that they came in.
    pub(crate) fn text_received(&self) -> &[u8] {
        self.text.as_slice()
    }

    /// Replaces line ends in values, and the blanks around them, with spaces (RFC 9112 §5.2).
    pub(crate) fn unfold(&mut self) {
        for field in &mut self.fields {
            let mut unfolded = field.value_in(&self.text).to_vec();
            let is_blank = u8::is_ascii_whitespace;
            let runs = unfolded.chunk_by_mut(|one, next| is_blank(one) == is_blank(next));
            runs.filter(|run| run.contains(&b'\n')).for_each(|fold| fold.fill(b' '));
            field.value = self.text.overwrite(field.value, &unfolded);
        }
    }

    /// The headers of a message that may go to the next hop. Fields that frame the body are kept, since the same
    /// body follows.
    pub(crate) fn forwarded(&self) -> Headers {
        self.without_hop_by_hop(self)
    }

    /// The trailers of a message that may go to the next hop, without those that the `connection` of its `headers`
    /// lists.
    pub(crate) fn forwarded_trailers(&self, headers: &Headers) -> Headers {
        // Few messages have trailers.
        if self.is_empty() { Headers::new() } else { self.without_hop_by_hop(headers) }
    }

    /// A copy without the fields of one hop, and those that the `connection` of these `headers` lists.
    fn without_hop_by_hop(&self, headers: &Headers) -> Headers {
        let mut forwarded = Headers {
            text: Arena::with_content(self.text.as_slice(), GATEWAY_FIELDS * GATEWAY_FIELD_LEN),
            fields: Vec::with_capacity(self.fields.len() + GATEWAY_FIELDS),
            ..Headers::default()
        };
        for field in &self.fields {
            if !field.is_any(&HOP_BY_HOP, &self.text) {
                forwarded.push_spans(field.hash, field.name, field.value);
            }
        }
        forwarded.is_patched = self.is_patched || forwarded.len() < self.len();
        forwarded.remove_listed(headers);
        forwarded
    }

    /// Removes the fields that may not go to the next hop. Returns the lines of `connection`, which are also needed to
    /// forward the trailers.
    pub(crate) fn forward(&mut self) -> Headers {
        let mut connection = Headers::new();
        if !self.may_have_any(&HOP_BY_HOP) {
            return connection;
        }
        for line in self.named(FieldName::CONNECTION) {
            connection.push(FieldName::CONNECTION, line);
        }
        self.retain_fields(|field, text| !field.is_any(&HOP_BY_HOP, text));
        self.remove_listed(&connection);
        connection
    }

    /// Removes the fields that the `connection` of these `headers` lists.
    fn remove_listed(&mut self, headers: &Headers) {
        if !headers.may_have(FieldName::CONNECTION) {
            return;
        }
        // One pass over the options, instead of one for each field: a peer can list tens of thousands of options.
        for option in headers.named(FieldName::CONNECTION).flat_map(members) {
            if let Ok(option) = str::from_utf8(option)
                && !FRAMING_FIELDS.iter().any(|framing| framing.is(option.as_bytes()))
            {
                self.remove(option);
            }
        }
    }
}

/// Room for what a gateway adds, such as `via` and `forwarded`.
const GATEWAY_FIELDS: usize = 2;
const GATEWAY_FIELD_LEN: usize = 64;

impl Reset for Headers {
    fn reset(&mut self) {
        self.clear();
    }

    fn shrink(&mut self) -> usize {
        free_beyond(&mut self.fields, FIELDS_KEPT_MAX);
        self.text.shrink(TEXT_KEPT_MAX) + self.fields.capacity() * size_of::<FieldLine>()
    }
}

/// How much memory is kept. The heads that browsers send fit many times over.
const TEXT_KEPT_MAX: usize = 16 << 10;
const FIELDS_KEPT_MAX: usize = 128;

impl PartialEq for Headers {
    /// Compares the lines in order, ignoring the case of names.
    fn eq(&self, other: &Headers) -> bool {
        self.len() == other.len()
            && self.iter().zip(other).all(|(a, b)| a.0.eq_ignore_ascii_case(b.0) && a.1 == b.1)
    }
}

impl Eq for Headers {}

impl fmt::Debug for Headers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map()
            .entries(self.iter().map(|(name, value)| (name, value.escape_ascii().to_string())))
            .finish()
    }
}

impl<'a> IntoIterator for &'a Headers {
    type Item = (&'a str, &'a [u8]);
    type IntoIter = HeadersIter<'a>;

    fn into_iter(self) -> HeadersIter<'a> {
        self.iter()
    }
}

/// Iterates over the names and values of all lines of [`Headers`], in order.
#[derive(Clone)]
pub struct HeadersIter<'a> {
    text: &'a Arena,
    fields: slice::Iter<'a, FieldLine>,
}

impl<'a> HeadersIter<'a> {
    #[inline]
    fn new(text: &'a Arena, fields: &'a [FieldLine]) -> HeadersIter<'a> {
        HeadersIter { text, fields: fields.iter() }
    }
}

impl<'a> Iterator for HeadersIter<'a> {
    type Item = (&'a str, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let field = self.fields.next()?;
        let name = str::from_utf8(field.name_in(self.text));
        debug_assert!(name.is_ok(), "a field name is a token");
        Some((name.unwrap_or_default(), field.value_in(self.text)))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.fields.size_hint()
    }
}

impl ExactSizeIterator for HeadersIter<'_> {}

impl fmt::Debug for HeadersIter<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.clone().map(|(name, _)| name)).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(lines: &[(&str, &str)]) -> Headers {
        let mut headers = Headers::new();
        lines.iter().for_each(|(name, value)| headers.append(name, *value).unwrap());
        headers
    }

    #[test]
    fn names_are_found_in_any_case_and_keep_theirs_rfc9110_5_1() {
        let headers = headers(&[("Content-TYPE", "a/b"), ("X-Own", "1")]);
        assert_eq!(headers.get_bytes("content-type"), Some(&b"a/b"[..]));
        assert_eq!(headers.get_bytes("x-OWN"), Some(&b"1"[..]));
        assert_eq!(headers.get_bytes("x-ow"), None);
        assert_eq!(headers.iter().map(|(name, _)| name).collect::<Vec<_>>(), ["Content-TYPE", "X-Own"]);
    }

    #[test]
    fn setting_replaces_the_first_line_and_drops_the_others() {
        let mut fields = headers(&[("a", "1"), ("vary", "x"), ("b", "2"), ("Vary", "y")]);
        fields.set("VARY", "origin").unwrap();
        assert_eq!(fields, headers(&[("a", "1"), ("vary", "origin"), ("b", "2")]));
        fields.set("vary", "*").unwrap();
        assert_eq!(fields, headers(&[("a", "1"), ("vary", "*"), ("b", "2")]));
    }

    /// The text still has the lines that were dropped, so it is not what is sent.
    #[test]
    fn lines_that_were_dropped_are_not_on_the_wire() {
        let mut fields = headers(&[("a", "1"), ("b", "2"), ("A", "3")]);
        fields.set("a", "4").unwrap();
        assert_eq!(fields.as_wire(), None);
        let mut fields = headers(&[("a", "1"), ("b", "2")]);
        fields.set("a", "4").unwrap();
        assert_eq!(fields.as_wire(), Some(&b"a: 4\r\nb: 2\r\n"[..]));
    }

    /// The fields `names` go out as `expected`, however the text was left by what was set and removed before.
    #[test]
    fn lines_that_were_patched_are_written_as_they_are_now() {
        const NAMES: NameSet = NameSet::new(&[FieldName::HOST, FieldName::TE]);
        let lines = [("a", "1"), ("Host", "x"), ("b", "22"), ("host", "y"), ("c", "3"), ("te", "z")];
        for (set, expected) in [
            (&[][..], "a: 1\r\nb: 22\r\nc: 3\r\n"),
            (&[("b", "4")], "a: 1\r\nb: 4\r\nc: 3\r\n"),
            (&[("b", "")], "a: 1\r\nb: \r\nc: 3\r\n"),
            (&[("b", "444"), ("d", "5")], "a: 1\r\nb: 444\r\nc: 3\r\nd: 5\r\n"),
            (&[("c", "4444"), ("c", "33"), ("b", "1")], "a: 1\r\nb: 1\r\nc: 33\r\n"),
            (&[("host", "z"), ("a", "2")], "a: 2\r\nb: 22\r\nc: 3\r\n"),
        ] {
            let mut fields = headers(&lines);
            set.iter().for_each(|(name, value)| fields.set(name, *value).unwrap());
            let mut written = Vec::new();
            fields.write_all_but(&NAMES, |piece| written.extend_from_slice(piece));
            assert_eq!(written.escape_ascii().to_string(), expected.escape_default().to_string(), "{set:?}");
            let forwarded = fields.forwarded();
            assert!(forwarded.iter().eq(fields.iter().filter(|(name, _)| !NAMES.contains(name.as_bytes()))));
        }
    }

    /// A value that does not fit in place of the old one takes new memory, which must not add up until the message is
    /// reset.
    #[test]
    fn setting_again_and_again_does_not_grow_the_text() {
        let long = "x".repeat(TEXT_KEPT_MAX);
        for values in [["8", "9"], ["9", "10"], ["9", &long]] {
            let mut headers = headers(&[("a", "1"), ("vary", "b"), ("x-count", ""), ("c", "2")]);
            for value in values.iter().cycle().take(10_000) {
                headers.set("x-count", *value).unwrap();
                assert!(headers.remove("vary"));
                headers.append("vary", "b").unwrap();
                assert!(headers.text.len() <= 3 * TEXT_KEPT_MAX, "{} bytes", headers.text.len());
            }
            assert_eq!(headers.len(), 4);
            assert_eq!(
                ["a", "x-count", "c", "vary"].map(|name| headers.get(name)),
                [Some("1"), Some(values[1]), Some("2"), Some("b"),]
            );
            assert!(headers.iter().map(|(name, _)| name).eq(["a", "x-count", "c", "vary"]));
        }
    }

    #[test]
    fn a_name_or_value_that_would_break_a_line_is_an_error_rfc9110_5_5() {
        let mut headers = Headers::new();
        for name in ["", "a b", "a:", "a\r\n", "ä", "a\0"] {
            assert!(matches!(headers.set(name, "x"), Err(MessageError::FieldName(_))), "{name:?}");
        }
        for value in ["a\r\nInjected: 1", "a\nb", "a\rb", "\0", "\x7f", "\x01"] {
            assert_eq!(headers.set("a", value), Err(MessageError::FieldValue("a".into())), "{value:?}");
            assert_eq!(headers.append("a", value), Err(MessageError::FieldValue("a".into())), "{value:?}");
        }
        assert!(headers.is_empty());
        headers.set("a", " \tkept\u{e9} ").unwrap();
        assert_eq!(headers.get("a"), Some("kept\u{e9}"));
    }

    /// Lines are added as they are to a head that was received or patched, and to one that is built.
    #[test]
    fn the_lines_of_other_headers_are_appended() {
        let built = headers(&[("A", "1"), ("vary", "x")]);
        let mut patched = headers(&[("b", "22"), ("c", "3")]);
        patched.set("b", "2").unwrap();
        for (first, second) in
            [(&built, &patched), (&patched, &built), (&patched, &patched), (&built, &built)]
        {
            let mut both = first.clone();
            both.append_all(second);
            let lines = first.iter().chain(second);
            assert!(both.iter().eq(lines.clone()) && lines.clone().all(|(name, _)| both.contains(name)));
            both.set("d", "4").unwrap();
            assert!(both.remove("b") != (!first.contains("b") && !second.contains("b")));
            assert!(both.iter().eq(lines.filter(|(name, _)| *name != "b").chain([("d", &b"4"[..])])));
        }
    }

    #[test]
    fn removing_takes_all_lines_of_the_name() {
        let mut headers = headers(&[("a", "1"), ("host", "x"), ("A", "2")]);
        assert!(headers.remove("a") && !headers.remove("a") && headers.remove("Host"));
        assert!(headers.is_empty() && headers.host().is_none());
    }
}
