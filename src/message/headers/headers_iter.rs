//! [`HeadersIter`]: iterates over the field lines of a message (RFC 9110 §5).

use std::fmt;
use std::slice;

use super::field::FieldLine;
use crate::memory::Arena;

/// Iterates over the names and values of all lines of [`Headers`](super::Headers), in order.
#[derive(Clone)]
pub struct HeadersIter<'a> {
    text: &'a Arena,
    fields: slice::Iter<'a, FieldLine>,
}

impl<'a> HeadersIter<'a> {
    #[inline]
    pub(super) fn new(text: &'a Arena, fields: &'a [FieldLine]) -> HeadersIter<'a> {
        HeadersIter { text, fields: fields.iter() }
    }
}

impl<'a> Iterator for HeadersIter<'a> {
    type Item = (&'a str, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let field = self.fields.next()?;
        let name = str::from_utf8(&self.text[field.name]).expect("a field name is a token");
        Some((name, &self.text[field.value]))
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
