//! What the framing of an exchange tells before its bodies are there, for a service of tower.

use super::Context;

impl Context {
    /// Returns how many bytes of the request's body have not been read, if that is known.
    pub(crate) fn unread_len(&mut self) -> Option<u64> {
        let buffered = self.request.body.len() as u64;
        self.incoming.get_mut().length_left().map(|left| buffered + left)
    }

    /// Whether the peer asked for the head of the answer alone.
    pub(crate) fn is_head_request(&self) -> bool {
        self.info.request_info.is_head
    }
}
