//! [`Relay`]: moves the content of a response from the server behind to the peer.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::AsyncWrite;

use crate::client::{CallExchange, ClientError};
use crate::message::Headers;
use crate::runtime::MemoryShare;
use crate::server::{BodyWriter, Error, Result};
use crate::wire::Limits;

/// Moves the content of a response, piece by piece. A part that the peer does not take is kept within a bound, so that the server
/// behind need not wait for it.
pub(super) struct Relay<'a> {
    out: BodyWriter<'a>,
    kept: Kept,
    /// The length of the call's current piece, and how much of it was written or kept.
    piece_len: usize,
    passed: usize,
}

impl<'a> Relay<'a> {
    /// Creates a relay that keeps no more for the peer than these limits allow.
    pub(super) fn new(out: BodyWriter<'a>, limits: &Limits) -> Relay<'a> {
        Relay { out, kept: Kept::new(limits), piece_len: 0, passed: 0 }
    }

    /// Receives the whole content, of which the peer gets as much as it takes meanwhile. Returns the error of the server
    /// behind, if that fails.
    ///
    /// # Errors
    ///
    /// Fails if the peer does.
    pub(super) async fn receive(&mut self, call: &RefCell<CallExchange>) -> Result<Result> {
        poll_fn(|cx| self.poll_receive(cx, call)).await
    }

    /// Writes the rest of the content, if all of it was received, and ends the response with these trailers.
    ///
    /// # Errors
    ///
    /// Fails if the peer does, or with the error of the server behind. Content that came before goes to the peer, and the
    /// response has no end.
    pub(super) async fn finish(mut self, received: Result<Headers>) -> Result {
        let written = poll_fn(|cx| self.poll_write_kept(cx)).await;
        match received {
            Ok(trailers) => {
                written?;
                Ok(self.out.finish_with_trailers(&trailers).await?)
            }
            Err(error) => {
                // The fault behind is the reason, whatever becomes of the peer.
                let _ = self.out.flush().await;
                Err(error)
            }
        }
    }

    fn poll_receive(&mut self, cx: &mut Context<'_>, call: &RefCell<CallExchange>) -> Poll<Result<Result>> {
        loop {
            let written = self.poll_write(cx, &call.borrow())?;
            // A write that merely yields goes on at the next poll, so there is nothing to keep.
            if written.is_pending() && (self.out.waits_for_turn() || !self.keep(&call.borrow())) {
                return Poll::Pending;
            }
            (self.piece_len, self.passed) = (0, 0);
            match call.borrow_mut().poll_piece(cx) {
                Poll::Ready(Ok(0)) => return Poll::Ready(Ok(Ok(()))),
                Poll::Ready(Ok(len)) => self.piece_len = len,
                Poll::Ready(Err(error)) => return Poll::Ready(Ok(Err(gateway_error(error)))),
                Poll::Pending if written.is_pending() => return Poll::Pending,
                // A server that pauses may have sent all that its client waits for, so nothing is held back.
                Poll::Pending => {
                    let _: Poll<()> = Pin::new(&mut self.out).poll_flush(cx)?;
                    return Poll::Pending;
                }
            }
        }
    }

    /// Writes what is kept, and then the rest of the piece.
    fn poll_write(&mut self, cx: &mut Context<'_>, call: &CallExchange) -> Poll<Result> {
        ready!(self.poll_write_kept(cx))?;
        while self.passed < self.piece_len {
            self.passed += ready!(Pin::new(&mut self.out).poll_write(cx, &call.piece()[self.passed..]))?;
            debug_assert!(self.passed <= self.piece_len, "no more is written than the piece has");
        }
        Poll::Ready(Ok(()))
    }

    fn poll_write_kept(&mut self, cx: &mut Context<'_>) -> Poll<Result> {
        while !self.kept.bytes.is_empty() {
            let written = Pin::new(&mut self.out).poll_write(cx, self.kept.bytes.as_slices().0);
            self.kept.remove(ready!(written)?);
        }
        Poll::Ready(Ok(()))
    }

    /// Keeps as much of the rest of the piece as may be kept. Returns whether that is all of it.
    fn keep(&mut self, call: &CallExchange) -> bool {
        let rest = &call.piece()[self.passed..self.piece_len];
        let count = self.kept.make_room(rest.len(), &self.out);
        self.kept.bytes.extend(&rest[..count]);
        self.passed += count;
        self.passed == self.piece_len
    }
}

/// Content that waits for the peer, with its share of the memory.
struct Kept {
    bytes: VecDeque<u8>,
    most: usize,
    /// The bytes, counted for their core.
    core_buffers: CoreBuffers,
    memory: MemoryShare,
}

impl Kept {
    fn new(limits: &Limits) -> Kept {
        Kept {
            bytes: VecDeque::new(),
            most: limits.forward_buffer_max,
            core_buffers: CoreBuffers { bytes: 0, of_core_max: limits.forward_buffers_per_core_max },
            memory: MemoryShare::default(),
        }
    }

    /// Removes so many bytes from the front, which were written. Memory is given back once all are: a stream may last for
    /// days.
    fn remove(&mut self, count: usize) {
        self.bytes.drain(..count);
        if self.bytes.is_empty() {
            self.bytes = VecDeque::new();
            self.core_buffers.shrink_to(0);
            self.memory.clear();
        }
    }

    /// Makes room for so many bytes more, or for as many as may be kept. Returns for how many there is room.
    fn make_room(&mut self, count: usize, out: &BodyWriter<'_>) -> usize {
        let len = self.bytes.len().saturating_add(count).min(self.most);
        let capacity = self.bytes.capacity();
        if len > capacity {
            let grown = len.max(2 * capacity).min(self.most);
            if !self.core_buffers.try_grow_to(grown) {
                return capacity - self.bytes.len();
            }
            if !out.try_grow(&mut self.memory, grown) {
                self.core_buffers.shrink_to(capacity);
                return capacity - self.bytes.len();
            }
            self.bytes.reserve_exact(grown - self.bytes.len());
        }
        len - self.bytes.len()
    }
}

/// The part of one relay in what its core keeps ([`Limits::forward_buffers_per_core_max`]). It is subtracted when it is
/// dropped.
struct CoreBuffers {
    bytes: usize,
    /// How much the core may keep.
    of_core_max: usize,
}

impl CoreBuffers {
    /// Grows to so many bytes, unless the core keeps too much. Returns whether it did.
    fn try_grow_to(&mut self, bytes: usize) -> bool {
        let kept = KEPT.get() - self.bytes + bytes;
        let fits = kept <= self.of_core_max;
        if fits {
            KEPT.set(kept);
            self.bytes = bytes;
        }
        fits
    }

    /// Gives back all beyond so many bytes.
    fn shrink_to(&mut self, bytes: usize) {
        KEPT.set(KEPT.get() - self.bytes + bytes);
        self.bytes = bytes;
    }
}

impl Drop for CoreBuffers {
    fn drop(&mut self) {
        self.shrink_to(0);
    }
}

thread_local! {
    /// How many bytes this core keeps. A relay stays on the thread of its connection.
    static KEPT: Cell<usize> = const { Cell::new(0) };
}

/// The error of a handler whose server behind fails: the client's, with the status of a gateway.
pub(super) fn gateway_error(error: ClientError) -> Error {
    Error::new(error.status(), error)
}
