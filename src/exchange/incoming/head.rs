//! How [`Incoming`] receives a head (RFC 9112 §2.2).

use std::task::{Context, Poll, ready};
use std::time::Duration;

use memchr::{memchr_iter, memmem};

use super::Incoming;
use crate::exchange::body_decoder::BodyDecoder;
use crate::exchange::message_head::{HeadOutcome, MessageHead};
use crate::exchange::outgoing::poll_flush;
use crate::exchange::{Bounds, ExchangeError, Phase};
use crate::net::{Conn, ConnError, Locality, TimerSlot};

impl Incoming {
    /// Receives a head. Before it waits, everything in the output is sent.
    #[inline]
    pub(crate) fn poll_head<L: Locality>(
        &mut self,
        cx: &mut Context<'_>,
        conn: &mut Conn<L>,
        message: &mut impl MessageHead,
        bounds: &Bounds,
        on_read: impl Fn(),
    ) -> Poll<Result<HeadOutcome, ExchangeError>> {
        while !self.try_head(message, bounds)? {
            ready!(poll_flush(cx, conn, bounds))?;
            match ready!(self.poll_head_bytes(cx, conn, bounds.timeouts.head)) {
                Ok(None) => on_read(),
                Ok(Some(none)) => return Poll::Ready(Ok(none)),
                Err(error) => return Poll::Ready(Err(self.unfinished_head_error(error, message, bounds))),
            }
        }
        conn.disarm(TimerSlot::Read);
        Poll::Ready(Ok(HeadOutcome::Complete))
    }

    /// Reads once for a head. Returns the reason if no head will come.
    pub(crate) fn poll_head_bytes<L: Locality>(
        &mut self,
        cx: &mut Context<'_>,
        conn: &mut Conn<L>,
        limit: Duration,
    ) -> Poll<Result<Option<HeadOutcome>, ExchangeError>> {
        Poll::Ready(match ready!(conn.poll_fill(cx, &mut self.input, limit)) {
            Ok(1..) => Ok(None),
            Ok(0) if self.has_begun() => Err(ExchangeError::Incomplete),
            Ok(0) => Ok(Some(HeadOutcome::Closed)),
            Err(ConnError::TimedOut) if !self.has_begun() => Ok(Some(HeadOutcome::Idle)),
            Err(fault) => Err(ExchangeError::during(Phase::Head, limit)(fault)),
        })
    }

    /// The error if no more of a head comes: a fault in what was not parsed yet, or else `error`.
    pub(crate) fn unfinished_head_error(
        &self,
        error: ExchangeError,
        message: &mut impl MessageHead,
        bounds: &Bounds,
    ) -> ExchangeError {
        match error {
            ExchangeError::Incomplete | ExchangeError::TimedOut(..) => {
                let (text, limits) = (self.input.unread(), &bounds.limits);
                let fault = message.parse(text, limits).err();
                fault.map_or(error, |fault| ExchangeError::with_detail(fault, text, limits))
            }
            error => error,
        }
    }

    /// Whether a part of a head has arrived. The empty line that some clients send after a body does not count (§2.2),
    /// and the peer need not be told that nothing has followed it.
    fn has_begun(&self) -> bool {
        !self.input.unread().iter().all(|byte| matches!(byte, b'\r' | b'\n'))
    }

    /// Takes the head out of the input, if it is complete.
    pub(crate) fn try_head<M: MessageHead>(
        &mut self,
        message: &mut M,
        bounds: &Bounds,
    ) -> Result<bool, ExchangeError> {
        if !self.may_be_complete(bounds) {
            return Ok(false);
        }
        let (text, limits) = (self.input.unread(), &bounds.limits);
        let Some(len) =
            message.parse(text, limits).map_err(|error| ExchangeError::with_detail(error, text, limits))?
        else {
            self.parsed_len = text.len();
            return Ok(false);
        };
        self.parsed_len = 0;
        self.input.move_to(message.text_mut(), len);
        self.rate.begin(self.input.unread().len());
        match message.framing() {
            Ok(framing) => self.body = BodyDecoder::new(framing, M::FORBIDDEN_TRAILERS),
            Err(error) => {
                return Err(ExchangeError::with_detail(error, message.text_mut().as_slice(), limits));
            }
        }
        Ok(true)
    }

    /// A large head that drips in is not parsed again for every drop, or the cost would be quadratic. What is skipped
    /// that way is parsed in the end.
    #[inline]
    fn may_be_complete(&self, bounds: &Bounds) -> bool {
        match self.input.unread().len() {
            0 => false,
            PARSED_EAGERLY_MAX.. if self.parsed_len > 0 => self.may_have_ended(bounds),
            1.. => true,
        }
    }

    /// Whether what has arrived since the last attempt may have completed the head, or made it invalid. Separate, since
    /// the search takes up much of a stack.
    #[inline(never)]
    fn may_have_ended(&self, bounds: &Bounds) -> bool {
        let input = self.input.unread();
        let ends_badly = |lf: usize| !input[..self.parsed_len + lf].ends_with(b"\r");
        input.len() >= 2 * self.parsed_len
            || input.len() > bounds.limits.head_max
            || memchr_iter(b'\n', &input[self.parsed_len..]).any(ends_badly)
            || memmem::find(&input[self.parsed_len.saturating_sub(3)..], b"\r\n\r\n").is_some()
    }
}

/// Up to this length a head is parsed whenever more of it arrives, so that a bad one is refused at once.
const PARSED_EAGERLY_MAX: usize = 4 << 10;
