//! The exchange of a [`Context`], for the rooms above: its memory, and its report.

use super::Context;
use crate::exchange::ExchangeError;
use crate::memory::Reset;
use crate::message::Body;
use crate::runtime::{MemoryBudget, MemoryShare};
use crate::server::core_state::CoreState;
use crate::server::report::{ExchangeReport, ForwardReport};

impl Context {
    /// The memory that the peers of the server share.
    pub(crate) fn memory_budget(&self) -> MemoryBudget {
        self.exchange.conn.bounds(|bounds| bounds.memory.clone())
    }

    /// Whether requests have waited for their core, so that some of them are refused.
    #[inline]
    pub(crate) fn is_core_behind(&self) -> bool {
        let core = self.exchange.conn.core();
        core.backlog.look(core.clock.now())
    }

    /// Makes `body` the content of the request, in place of one that was received. It has this `memory`.
    pub(crate) fn replace_body(&mut self, body: Body, memory: MemoryShare) {
        self.request.body = body;
        self.exchange.incoming.get_mut().memory = memory;
        self.request.announce_length();
    }

    /// Reserves memory for content of the response that takes so many bytes, beside the content of the request. If both do not
    /// fit, the request's, of no use any more, is freed to make room.
    ///
    /// # Errors
    ///
    /// Fails if there is none. Content that waited for memory would hold what it waits for.
    pub(crate) fn reserve_response(&mut self, bytes: usize) -> Result<(), ExchangeError> {
        let Context { request, exchange, .. } = self;
        let memory = &mut exchange.incoming.get_mut().memory;
        let of_request = request.body.memory_held();
        let is_reserved = exchange.conn.bounds(|bounds| {
            // Content that can never fit takes all that there is.
            let bytes = bytes.min(bounds.memory.share_max());
            if bytes <= UNRESERVED_MAX || memory.try_grow_to(&bounds.memory, of_request.saturating_add(bytes))
            {
                return true;
            }
            request.body.free_buffer();
            memory.shrink_to(bytes);
            memory.try_grow_to(&bounds.memory, bytes)
        });
        if is_reserved { Ok(()) } else { Err(ExchangeError::NoMemory) }
    }

    /// Frees the buffers of large messages, with their share of the memory. Later messages may be small, and last for long.
    #[inline]
    pub(in crate::server) fn give_back_large(&mut self, may_keep: impl FnOnce(&CoreState) -> bool) {
        match self.exchange.incoming.get_mut().memory.len() {
            0 => {}
            _ if !may_keep(self.exchange.conn.core()) => _ = self.shrink(),
            _ => self.give_back_unused(),
        }
    }

    /// Gives back the memory that no content has.
    pub(crate) fn give_back_unused(&mut self) {
        let held = self.request.body.memory_held() + self.response.body.memory_held();
        self.exchange.incoming.get_mut().memory.shrink_to(held);
    }

    /// Frees the room of buffers that no content fills, with its share of the memory: a large message before may have left it.
    pub(crate) fn free_spare(&mut self) {
        if self.exchange.incoming.get_mut().memory.len() > 0 {
            self.request.body.free_spare();
            self.response.body.free_spare();
            self.give_back_unused();
        }
    }

    /// Calls `on_end` with the report of this exchange, when it is over. Responses to pipelined requests then leave one by
    /// one.
    #[allow(dead_code, reason = "unused without the feature `tracing`")]
    pub(crate) fn on_exchange_end(&mut self, on_end: impl FnOnce(&ExchangeReport<'_>) + 'static) {
        self.exchange.on_end(&self.request, Box::new(on_end));
    }

    /// Notes in the report of this exchange what the server behind did, if exchanges are reported.
    pub(crate) fn note_forward(&mut self, note: impl FnOnce(&mut ForwardReport)) {
        self.exchange.observe(|observation| note(observation.forward.get_or_insert_default()));
    }
}

/// A response up to this length reserves no memory: the system takes most of it from a server whose peer reads nothing.
pub(in crate::server) const UNRESERVED_MAX: usize = 64 << 10;
