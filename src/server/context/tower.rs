//! The facts of an exchange that services and layers of tower need.

use std::sync::Arc;

use crate::net::tls;
use crate::server::Context;

impl Context {
    /// Returns how many bytes of the request's body have not been read, if that is known.
    pub(crate) fn unread_len(&mut self) -> Option<u64> {
        let buffered = self.request.body.len() as u64;
        self.exchange.incoming.get_mut().length_left().map(|left| buffered + left)
    }

    /// Whether the peer has asked for the head of the response alone.
    pub(crate) fn is_head_request(&self) -> bool {
        self.exchange.info.request_info.is_head
    }

    /// The session of the connection, if that is secure.
    pub(crate) fn tls_session(&self) -> Option<Arc<tls::Session>> {
        self.exchange.conn.tls_session()
    }
}
