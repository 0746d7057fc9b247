//! [`HeadersDraft`]: the lines of a section that is being parsed (RFC 9112 §5, §7.1.2).

use std::mem;

use super::headers::Headers;
use super::name::{FieldLine, NameHash};
use crate::memory::Span;

/// The lines of a head, or of trailers, as long as they are being parsed: where each of them is in the input.
///
/// Lines and their text are stored in one step, [`HeadersDraft::commit`]. Headers whose draft is dropped are empty. So no
/// reader of headers finds a line without its text, whatever was wrong with the input.
pub(crate) struct HeadersDraft<'h> {
    /// Their text is empty until the draft is committed.
    headers: &'h mut Headers,
}

impl Headers {
    /// Removes all lines, and begins a draft of others, in the same memory.
    #[inline]
    pub(crate) fn draft(&mut self) -> HeadersDraft<'_> {
        let Headers { text, fields, present, is_patched } = self;
        text.clear();
        fields.clear();
        *present = 0;
        // A received line may have other blanks than one that was set, and there is more in its text.
        *is_patched = true;
        HeadersDraft { headers: self }
    }
}

impl HeadersDraft<'_> {
    /// Makes these lines those of the headers. `text` is the section that they were found in.
    #[inline]
    pub(crate) fn commit(self, text: &[u8]) {
        debug_assert!(
            self.headers.fields.iter().all(|line| line.name.end().max(line.value.end()) <= text.len()),
            "each line is in the text"
        );
        // A copy: the memory in which a head was read has room for many, and the next one is read there.
        self.headers.text.extend(text);
        mem::forget(self);
    }

    /// Makes these the lines: names and values, which are parts of `section`.
    #[inline]
    pub(crate) fn set_lines<'s>(
        &mut self,
        section: &[u8],
        lines: impl Iterator<Item = (&'s [u8], &'s [u8])>,
    ) {
        let Headers { fields, present, .. } = &mut *self.headers;
        fields.clear();
        *present = 0;
        fields.extend(lines.map(|(name, value)| {
            let hash = NameHash::new(name);
            *present |= hash.bit();
            FieldLine {
                hash,
                name: Span::from_slices(name, section),
                value: Span::from_slices(value, section),
            }
        }));
    }

    /// Removes the lines of whose value `is_bad` is true.
    pub(crate) fn remove(&mut self, is_bad: impl Fn(Span) -> bool) {
        self.headers.fields.retain(|line| !is_bad(line.value));
    }
}

impl Drop for HeadersDraft<'_> {
    #[cold]
    fn drop(&mut self) {
        self.headers.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::FieldName;

    // One text in memory, which a constant need not be.
    static SECTION: &[u8] = b"Host:a\r\nVary: b\r\n\r\n";

    fn draft(headers: &mut Headers) -> HeadersDraft<'_> {
        let mut draft = headers.draft();
        let lines = [(0..4, 5..6), (8..12, 14..15)];
        draft.set_lines(SECTION, lines.into_iter().map(|(name, value)| (&SECTION[name], &SECTION[value])));
        draft
    }

    #[test]
    fn lines_are_stored_with_their_text_or_not_at_all() {
        let mut headers = Headers::new();
        headers.set("host", "an earlier one").unwrap();
        drop(draft(&mut headers));
        assert_eq!(headers, Headers::new());
        assert!(!headers.may_have(FieldName::VARY) && headers.as_wire() == Some(b""));
        draft(&mut headers).commit(SECTION);
        assert_eq!(headers.iter().collect::<Vec<_>>(), [("Host", &b"a"[..]), ("Vary", b"b")]);
        let mut again = draft(&mut headers);
        again.set_lines(SECTION, [].into_iter());
        again.commit(SECTION);
        assert!(headers.is_empty() && !headers.may_have(FieldName::HOST));
    }

    /// Only a fault of the crate leaves headers like these.
    #[test]
    #[cfg(not(debug_assertions))]
    fn a_line_without_its_text_is_empty() {
        let mut headers = Headers::new();
        draft(&mut headers).commit(b"Host");
        assert_eq!(headers.iter().collect::<Vec<_>>(), [("Host", &b""[..]), ("", b"")]);
        assert_eq!((headers.get_bytes("host"), headers.get_bytes("vary")), (Some(&b""[..]), None));
    }
}
