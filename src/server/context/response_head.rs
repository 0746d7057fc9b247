//! How a [`Context`] writes the head of its answer, and decides whether another request may follow (RFC 9112 §9.3).

use super::{CloseMode, Context, NextStep};
use crate::exchange::Expectation;
use crate::message::{BodyLength, Version};
use crate::wire::{ConnectionOption, Framing, OutgoingFraming, encode};

/// What becomes of the part of the request's body that is still unread when the answer begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::server) enum UnreadBody {
    Discard,
    /// The handler is about to read it.
    Keep,
}

impl Context {
    /// Writes the head of the answer to the output, and begins its body.
    pub(in crate::server) fn write_head(&mut self, content: BodyLength, unread: UnreadBody) {
        let request_info = self.info.request_info;
        let framing = OutgoingFraming::from_response(request_info, &self.response, content);
        self.info.persists &= self.may_persist(unread) && framing.body() != Framing::UntilClose;
        let incoming = self.incoming.get_mut();
        if incoming.expectation == Expectation::Continue {
            incoming.expectation = Expectation::Poisoned;
        }
        self.outgoing.begin(framing);
        let mut conn = self.conn.borrow_mut();
        let Some(conn) = conn.as_mut() else { return };
        self.info.persists &= !conn.is_stopping();
        if self.info.detached {
            return self.outgoing.begin_raw();
        }
        let persist = match (self.info.persists, request_info.version) {
            (false, _) => ConnectionOption::Close,
            (true, Version::Http10) => ConnectionOption::KeepAlive,
            // HTTP/1.1 connections persist by default.
            (true, Version::Http11) => ConnectionOption::Absent,
        };
        let (out, response) = (conn.write_buffer().bytes(), &self.response);
        self.shared
            .clock
            .with_common_fields(|common| encode::response(out, response, framing, persist, common));
    }

    /// Whether the handler's answer, and what is unread of the request, allow another request.
    fn may_persist(&mut self, unread: UnreadBody) -> bool {
        let incoming = self.incoming.get_mut();
        let may_follow = match incoming.expectation {
            // Without 100, the peer may send the body or leave it out.
            Expectation::Continue | Expectation::Poisoned => incoming.is_read(),
            Expectation::None if unread == UnreadBody::Keep => true,
            Expectation::None => {
                incoming.length_left().is_none_or(|left| left <= self.shared.bounds.limits.drain_max as u64)
            }
        };
        may_follow && ConnectionOption::from_headers(&self.response.headers) != ConnectionOption::Close
    }

    /// Whether another request may follow on the connection.
    #[inline]
    pub(in crate::server) fn persists(&self) -> bool {
        self.info.persists
    }

    /// Decides what becomes of the connection, once the answer is written.
    #[inline]
    pub(in crate::server) fn next_step(&mut self) -> NextStep {
        let incoming = self.incoming.get_mut();
        let may_receive_more = !self.info.is_last || !incoming.is_read() || !incoming.input.is_empty();
        match (self.info.persists, may_receive_more) {
            (true, _) => NextStep::KeepAlive,
            (false, true) => NextStep::Close(CloseMode::Linger),
            (false, false) => NextStep::Close(CloseMode::Graceful),
        }
    }

    /// Makes this answer the last one of its connection.
    pub(in crate::server) fn stop_persisting(&mut self) {
        self.info.persists = false;
    }
}
