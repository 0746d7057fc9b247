//! [`Stamp`]: the `server` and `date` lines of an answer (RFC 9110 §6.6.1, §10.2.4).

use crate::message::{Headers, Name};

/// The lines that a server adds to each answer, ready to be copied.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stamp<'a> {
    both: &'a [u8],
    /// How long the first of them is, the server's.
    server_len: usize,
}

impl<'a> Stamp<'a> {
    /// `both` lines, of which the first is the server's and so long.
    pub(crate) fn new(both: &'a [u8], server_len: usize) -> Stamp<'a> {
        Stamp { both, server_len }
    }

    /// What the handler has set is not ours to say again: it may speak for an origin behind it.
    #[inline]
    pub(super) fn beside(self, headers: &Headers) -> &'a [u8] {
        match headers.may_have(Name::SERVER) || headers.may_have(Name::DATE) {
            false => self.both,
            true => self.unsaid(headers),
        }
    }

    /// The lines of names that `headers` do not have.
    #[inline(never)]
    fn unsaid(self, headers: &Headers) -> &'a [u8] {
        match (headers.first(Name::SERVER).is_some(), headers.first(Name::DATE).is_some()) {
            (false, false) => self.both,
            (false, true) => &self.both[..self.server_len],
            (true, false) => &self.both[self.server_len..],
            (true, true) => &[],
        }
    }
}
