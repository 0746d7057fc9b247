//! [`HeadersDraft`]: the lines of a section that is being parsed (RFC 9112 §5, §7.1.2).

use std::mem;

use super::headers::Headers;
use super::name::NameHash;
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

    /// Adds a line, by its place in the section.
    #[inline]
    pub(crate) fn push(&mut self, hash: NameHash, name: Span, value: Span) {
        self.headers.push_spans(hash, name, value);
    }

    /// Removes all lines, since the section is parsed anew.
    #[inline]
    pub(crate) fn restart(&mut self) {
        self.headers.fields.clear();
        self.headers.present = 0;
    }

    /// Removes the lines of whose value `is_bad` is true.
    pub(crate) fn remove(&mut self, is_bad: impl Fn(Span) -> bool) {
        self.headers.fields.retain(|line| !is_bad(line.value));
    }

    /// How many lines there are.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.headers.fields.len()
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

    const SECTION: &[u8] = b"Host:a\r\nVary: b\r\n\r\n";

    fn draft(headers: &mut Headers) -> HeadersDraft<'_> {
        let mut draft = headers.draft();
        for (name, value) in [(0..4, 5..6), (8..12, 14..15)] {
            let name_span = Span::new(name.start, name.len());
            draft.push(NameHash::new(&SECTION[name]), name_span, Span::new(value.start, value.len()));
        }
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
        again.restart();
        assert_eq!(again.len(), 0);
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
