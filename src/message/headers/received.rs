//! How [`Headers`] take over a head that was received: its bytes as they came, and where the lines are among them.

use super::field::FieldLine;
use super::{Headers, NameHash};
use crate::memory::{Arena, Span};

impl Headers {
    /// Forgets all lines, before those of a received head are noted, whose bytes will be put into
    /// [`Headers::text_mut`].
    #[inline]
    pub(crate) fn begin_received(&mut self) {
        let Headers { text: _, fields, present, is_patched } = self;
        fields.clear();
        *present = 0;
        *is_patched = true;
    }

    /// Notes where a line is.
    #[inline]
    pub(crate) fn push_received(&mut self, hash: NameHash, name: Span, value: Span) {
        self.fields.push(FieldLine { hash, name, value });
        self.present |= hash.bit();
    }

    /// Forgets the noted lines with such a value.
    pub(crate) fn remove_received(&mut self, is_bad: impl Fn(Span) -> bool) {
        self.fields.retain(|field| !is_bad(field.value));
    }

    /// The arena that the spans of [`Headers::push_received`] point into.
    #[inline]
    pub(crate) fn text_mut(&mut self) -> &mut Arena {
        &mut self.text
    }

    /// Replaces line ends in values, and the blanks around them, with spaces (RFC 9112 §5.2).
    pub(crate) fn unfold(&mut self) {
        for field in &mut self.fields {
            let mut unfolded = self.text[field.value].to_vec();
            let is_blank = u8::is_ascii_whitespace;
            let runs = unfolded.chunk_by_mut(|one, next| is_blank(one) == is_blank(next));
            runs.filter(|run| run.contains(&b'\n')).for_each(|fold| fold.fill(b' '));
            field.value = self.text.overwrite(field.value, &unfolded);
        }
    }
}
