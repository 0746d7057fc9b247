//! How [`Headers`] take over the lines of others.

use super::field::FieldLine;
use super::{FieldName, Headers};

impl Headers {
    /// Appends all lines of `other`, in order.
    pub fn append_all(&mut self, other: &Headers) {
        let Some(lines) = other.as_wire() else { return self.append_all_but(&[], other) };
        let start = self.text.len();
        self.text.extend(lines);
        self.fields.extend(other.fields.iter().map(|field| field.shifted(start)));
        self.present |= other.present;
    }

    /// Appends the lines of `other` that have none of these names, in order.
    pub(crate) fn append_all_but(&mut self, names: &[FieldName<'_>], other: &Headers) {
        self.text.spare(other.text.len());
        self.fields.reserve(other.fields.len());
        let is_wanted = |field: &&FieldLine| !names.iter().any(|name| field.is(*name, &other.text));
        for FieldLine { hash, name, value } in other.fields.iter().filter(is_wanted) {
            self.push_line(*hash, &other.text[*name], &other.text[*value]);
        }
    }
}
