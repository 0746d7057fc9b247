//! [`CommonFields`]: the `server` and `date` lines of an answer (RFC 9110 §6.6.1, §10.2.4).

use crate::message::{FieldName, Headers};

/// The lines that a server adds to each answer, ready to be copied.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CommonFields<'a> {
    both: &'a [u8],
    /// The length of the first line, which is `server`.
    server_len: usize,
}

impl<'a> CommonFields<'a> {
    /// Both lines: `server`, which is `server_len` bytes long, and `date`.
    pub(crate) fn new(both: &'a [u8], server_len: usize) -> CommonFields<'a> {
        CommonFields { both, server_len }
    }

    /// The lines for fields that the handler has not set: what it has set may be about an origin behind it.
    #[inline]
    pub(super) fn missing_from(self, headers: &Headers) -> &'a [u8] {
        match headers.may_have(FieldName::SERVER) || headers.may_have(FieldName::DATE) {
            false => self.both,
            true => self.missing(headers),
        }
    }

    /// The lines whose names are not in `headers`.
    #[inline(never)]
    fn missing(self, headers: &Headers) -> &'a [u8] {
        match (headers.first(FieldName::SERVER).is_some(), headers.first(FieldName::DATE).is_some()) {
            (false, false) => self.both,
            (false, true) => &self.both[..self.server_len],
            (true, false) => &self.both[self.server_len..],
            (true, true) => &[],
        }
    }
}
