//! [`Reader`]: receives messages.

use std::fmt;
use std::future::poll_fn;
use std::io;
use std::sync::atomic::Ordering::Relaxed;
use std::task::{self, Poll, ready};
use std::time::Duration;

use crate::exchange::ExchangeError;
use crate::memory::Reset;
use crate::runtime::{Budget, CancelMemoryWaitOnDrop, MemoryBudget, MemoryError, MemoryShare};
use crate::websocket::codec::{Decoder, Input, Reading, Step};
use crate::websocket::frame::{CloseReason, Error, Message, MessageKind, MessagePart};
use crate::websocket::link::{Half, Link, Role, ServerRole, Shared};

/// The half of a [`WebSocket`](crate::websocket::WebSocket) that receives messages. During a receive, it also answers
/// pings, sends pings to a silent peer, and takes part in the close.
pub struct Reader<R: Role = ServerRole> {
    half: Half<R>,
    input: Input,
    decoder: Decoder,
    /// The memory of a message that is not small.
    memory: MemoryShare,
    /// The memory that the peers of a server share; without a bound at a client.
    memory_budget: MemoryBudget,
    controls: ControlRate,
    /// Messages that are here need no socket, so tokio's budget does not count them.
    budget: Budget,
    reason: Option<Box<CloseReason>>,
    ending: Option<Box<Ending>>,
    /// Whether the server was found to stop.
    is_stopping: bool,
    /// Whether the close frame of a stop was sent, after which messages are discarded.
    is_away: bool,
}

/// The end of a WebSocket that is being closed.
struct Ending {
    step: EndStep,
    /// The error that it ends with, which is returned once.
    error: Option<Error>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum EndStep {
    /// After an error, what the peer is sending is discarded until it pauses.
    Pause,
    /// The last frames are sent, and the sending half is closed.
    Finish,
    /// Bytes that the peer still sends are discarded.
    Linger,
    Over,
}

impl<R: Role> Reader<R> {
    pub(super) fn new(
        half: Half<R>,
        early: &[u8],
        decoder: Decoder,
        memory_budget: MemoryBudget,
        control_rate_max: u32,
    ) -> Reader<R> {
        Reader {
            half,
            input: Input::from_bytes(early),
            decoder,
            memory: MemoryShare::default(),
            memory_budget,
            controls: ControlRate::new(control_rate_max),
            budget: Budget::default(),
            reason: None,
            ending: None,
            is_stopping: false,
            is_away: false,
        }
    }

    /// Waits for the next message. The message stays until the next call. `None` once the WebSocket is closed, by
    /// either end: see [`Reader::close_reason`]. If the future is dropped, nothing is lost.
    ///
    /// Before a wait, this method sends all messages still to be sent. While it waits, it answers pings and sends some.
    ///
    /// At a stop of the server, an incomplete message is received to its end, and may be answered.
    /// [`Options::close_timeout`](crate::websocket::Options::close_timeout) limits the time for that. Then all messages
    /// that wait are sent, with a close frame of code 1001 after them. Later messages of the peer are discarded until
    /// it has closed, too. This method then returns `None`. A slow peer has the grace of the stop to take all that.
    ///
    /// The rest of a message from [`Reader::receive_part`] is skipped, even if the future is dropped.
    ///
    /// # Errors
    ///
    /// Fails if the connection does. Also fails if the peer is silent or takes nothing for too long.
    ///
    /// Fails with [`ExchangeError::NoCloseFrame`](crate::error::ExchangeError::NoCloseFrame) if the connection ends
    /// without a close frame. That is code 1006 (RFC 6455 §7.1.5). Errors of a client's connection are the
    /// [`ClientCause::Exchange`](crate::client::ClientCause::Exchange) of a [`ClientError`](crate::ClientError).
    ///
    /// Fails with an [`Error`] if the peer breaks RFC 6455 or exceeds a bound. The peer gets a close frame, and the
    /// connection is closed. Later calls return `None`.
    pub async fn receive(&mut self) -> io::Result<Option<Message<'_>>> {
        let wait = CancelMemoryWaitOnDrop(self);
        let received = poll_fn(|cx| {
            wait.0.decoder.skip_rest();
            wait.0.poll_next(cx, Reading::Whole)
        });
        let kind = received.await?.map(|(kind, _)| kind);
        drop(wait);
        let Reader { half, input, decoder, ending, .. } = self;
        let content = decoder.content(input);
        match kind {
            None => Ok(None),
            Some(MessageKind::Binary) => Ok(Some(Message::Binary(content))),
            Some(MessageKind::Text) => match std::str::from_utf8(content) {
                Ok(text) => Ok(Some(Message::Text(text))),
                Err(_) => {
                    begin_end(half, ending, Error::Text);
                    poll_fn(|cx| poll_end(half, ending, cx)).await?;
                    Ok(None)
                }
            },
        }
    }

    /// Waits for the next part of a message, as much as is here. The part stays until the next call. So a message of
    /// any size is received in constant memory. `None` once the WebSocket is closed. If the future is dropped, nothing
    /// is lost.
    ///
    /// # Errors
    ///
    /// As [`Reader::receive`].
    ///
    /// # Examples
    ///
    /// ```
    /// use corehttp::Context;
    /// use corehttp::websocket::{self, WebSocket};
    ///
    /// async fn measure(ctx: &mut Context) -> corehttp::Result {
    ///     let mut socket = ctx.websocket(&websocket::Options::default()).await?;
    ///     let WebSocket { reader, writer, .. } = &mut socket;
    ///     let mut len = 0;
    ///     while let Some(part) = reader.receive_part().await? {
    ///         len += part.bytes.len();
    ///         if part.is_last {
    ///             writer.send(&format!("{len} bytes")).await?;
    ///             len = 0;
    ///         }
    ///     }
    ///     Ok(())
    /// }
    /// # let _ = corehttp::Server::new().service(measure);
    /// ```
    pub async fn receive_part(&mut self) -> io::Result<Option<MessagePart<'_>>> {
        Ok(match poll_fn(|cx| self.poll_next(cx, Reading::Parts)).await? {
            Some((kind, is_last)) => {
                Some(MessagePart { kind, bytes: self.decoder.content(&self.input), is_last })
            }
            None => None,
        })
    }

    /// Returns the content of the peer's close frame. `None` if there is none.
    pub fn close_reason(&self) -> Option<&CloseReason> {
        self.reason.as_deref()
    }

    /// Ready with the kind of the next message or part, which is then in the decoder, and whether it is the last one.
    fn poll_next(
        &mut self,
        cx: &mut task::Context<'_>,
        reading: Reading,
    ) -> Poll<io::Result<Option<(MessageKind, bool)>>> {
        loop {
            self.decoder.clear_content(&mut self.input);
            if self.memory.len() > 0 && !self.decoder.is_within_message() {
                self.input.give_back_room();
                self.memory.clear();
            }
            if self.is_stopping {
                self.go_away(cx)?;
            }
            let is_unwanted = self.decoder.is_skipping() || self.is_away;
            let reading = if is_unwanted { Reading::Parts } else { reading };
            let received = ready!(self.poll_step(cx, reading))?;
            // `poll_step` may itself have sent the stop's close frame.
            if received.is_none() || !is_unwanted && !self.is_away {
                return Poll::Ready(Ok(received));
            }
        }
    }

    /// Closes because the server stops, as soon as no message is under way.
    fn go_away(&mut self, cx: &mut task::Context<'_>) -> io::Result<()> {
        let is_within = self.decoder.is_within_message();
        self.is_away |= self.half.with(|link| link.try_go_away(cx, is_within))?;
        Ok(())
    }

    /// Ready with the next message or part, or a piece of what is skipped.
    fn poll_step(
        &mut self,
        cx: &mut task::Context<'_>,
        reading: Reading,
    ) -> Poll<io::Result<Option<(MessageKind, bool)>>> {
        while self.ending.is_none() {
            // A little input may decompress to a lot.
            ready!(self.budget.poll_proceed(cx));
            let step = self.decoder.step(&mut self.input, reading);
            self.budget.spend(self.decoder.take_inflated());
            let processed = match step {
                Ok(Step::Message(kind)) => return self.hand_out(kind, true),
                Ok(Step::Part { kind, is_last }) => return self.hand_out(kind, is_last),
                Ok(more @ (Step::More | Step::Inflated)) => match self.poll_memory(cx) {
                    Poll::Pending => return self.poll_lost(cx).map(Err),
                    Poll::Ready(Ok(())) if more == Step::More => Ok(ready!(self.poll_fill(cx))?),
                    Poll::Ready(taken) => taken,
                },
                Ok(control) => self.process_control(control)?,
                Err(error) => Err(error),
            };
            if let Err(error) = processed {
                begin_end(&self.half, &mut self.ending, error);
            }
        }
        self.free_content();
        ready!(poll_end(&self.half, &mut self.ending, cx))?;
        Poll::Ready(Ok(None))
    }

    fn hand_out(&self, kind: MessageKind, is_last: bool) -> Poll<io::Result<Option<(MessageKind, bool)>>> {
        self.half.has_unread.store(self.input.has_raw(), Relaxed);
        if let Some(counter) = self.half.counter.as_ref().filter(|_| is_last) {
            counter.count_received();
        }
        Poll::Ready(Ok(Some((kind, is_last))))
    }

    /// Waits for memory for more of a message of which much is here.
    fn poll_memory(&mut self, cx: &mut task::Context<'_>) -> Poll<Result<(), Error>> {
        let len = self.input.len() + self.decoder.inflated_len();
        if len <= MESSAGE_UNRESERVED_MAX {
            return Poll::Ready(Ok(()));
        }
        let budget = &self.memory_budget;
        if self.memory.is_overdue(budget, MEMORY_WAIT) {
            return Poll::Ready(Err(Error::Memory));
        }
        if len <= self.memory.len() {
            return Poll::Ready(Ok(()));
        }
        // The buffer of a message doubles as it fills.
        let most = self.decoder.message_max().saturating_mul(2);
        let grown = self.memory.poll_grow_to(cx, budget, budget.growth_target(len, most), MEMORY_WAIT);
        grown.map_err(|error| match error {
            MemoryError::NeverFits(max) => Error::MessageTooLarge(usize::try_from(max).unwrap_or(usize::MAX)),
            MemoryError::TimedOut(_) | MemoryError::NoneLeft => Error::Memory,
        })
    }

    /// Ready with the error of a peer that is gone while its message waits for memory, when nothing is read.
    fn poll_lost(&mut self, cx: &mut task::Context<'_>) -> Poll<io::Error> {
        let error = ready!(self.half.with(|link| link.poll_lost(cx)));
        self.ending = Some(Box::new(Ending::OVER));
        Poll::Ready(error)
    }

    fn poll_fill(&mut self, cx: &mut task::Context<'_>) -> Poll<io::Result<()>> {
        self.half.has_unread.store(false, Relaxed);
        // A message of which nothing more comes is looked at again, so that it does not keep memory for which others wait.
        let read_limit = if self.memory.len() > 0 { MEMORY_WAIT } else { Duration::MAX };
        self.input.borrow_memory();
        let polled = self.half.with(|link| {
            if link.is_stopping() {
                self.is_stopping = true;
                self.is_away |= link.try_go_away(cx, self.decoder.is_within_message())?;
            }
            link.poll_fill(cx, &mut self.input, read_limit)
        });
        self.input.return_memory();
        let count = ready!(polled).inspect_err(|_| self.ending = Some(Box::new(Ending::OVER)))?;
        if count == Some(0) {
            self.half.with(Link::close_now);
            self.ending = Some(Box::new(Ending::OVER));
            return Poll::Ready(Err(R::failed(ExchangeError::NoCloseFrame)));
        }
        Poll::Ready(Ok(()))
    }

    /// Frees all of a message that nobody will have. Bytes that the peer still sends are discarded.
    fn free_content(&mut self) {
        self.decoder.free_content();
        self.input.reset();
        self.input.return_memory();
        self.memory.clear();
    }

    /// Processes a control frame.
    fn process_control(&mut self, step: Step) -> io::Result<Result<(), Error>> {
        let Reader { half, input, controls, reason, ending, .. } = self;
        half.with(|link| {
            let is_solicited = step == Step::Pong && link.heartbeat.admit_pong();
            if !is_solicited && let Err(error) = controls.admit(link.now()) {
                return Ok(Err(error));
            }
            match step {
                Step::Ping(len) => {
                    link.write_pong(&input.raw()[..len])?;
                    input.skip(len);
                }
                Step::Close(sent) => {
                    link.write_close(sent.code, "")?;
                    *reason = Some(Box::new(sent));
                    *ending = Some(Box::new(Ending { step: EndStep::Finish, error: None }));
                }
                Step::Pong | Step::More | Step::Inflated | Step::Message(_) | Step::Part { .. } => {}
            }
            Ok(Ok(()))
        })
    }
}

impl<R: Role> AsMut<MemoryShare> for Reader<R> {
    fn as_mut(&mut self) -> &mut MemoryShare {
        &mut self.memory
    }
}

impl Ending {
    const OVER: Ending = Ending { step: EndStep::Over, error: None };
}

/// Begins the end of a WebSocket with `error`, of which the peer is told.
fn begin_end<R: Role>(shared: &Shared<R>, ending: &mut Option<Box<Ending>>, error: Error) {
    if let Some(code) = error.close_code() {
        // If no mask can be made, the connection just ends.
        let _ = shared.with(|link| link.write_close(code, ""));
    }
    *ending = Some(Box::new(Ending { step: EndStep::Pause, error: Some(error) }));
}

/// Ready once the WebSocket is over, with the error that it ended with, which is returned once.
fn poll_end<R: Role>(
    shared: &Shared<R>,
    ending: &mut Option<Box<Ending>>,
    cx: &mut task::Context<'_>,
) -> Poll<io::Result<()>> {
    let Some(ending) = ending else { return Poll::Ready(Ok(())) };
    shared.with(|link| {
        if ending.step == EndStep::Pause {
            let has_paused = ready!(link.poll_pause(cx)).is_ok();
            ending.step = if has_paused { EndStep::Finish } else { EndStep::Over };
        }
        if ending.step == EndStep::Finish {
            let is_finished = ready!(link.poll_finish(cx)).is_ok();
            // After a close frame, a peer sends nothing more; after an error, it may still be sending.
            let may_receive = is_finished && ending.error.is_some();
            ending.step = if may_receive { EndStep::Linger } else { EndStep::Over };
        }
        if ending.step == EndStep::Linger {
            ready!(link.poll_linger(cx));
            ending.step = EndStep::Over;
        }
        link.close_now();
        Poll::Ready(ending.error.take().map_or(Ok(()), |error| Err(error.into())))
    })
}

/// Messages up to this length reserve no memory: as much is read at once.
const MESSAGE_UNRESERVED_MAX: usize = 64 << 10;

/// How long a message waits for memory that other peers hold, and how long it holds some for which others wait.
const MEMORY_WAIT: Duration = Duration::from_secs(30);

/// How many control frames come. Each of them costs a little, and an answer.
struct ControlRate {
    rate_max: u32,
    /// How many may still come, in thousandths.
    allowance: u64,
    /// When that was computed, in milliseconds.
    at: u64,
}

impl ControlRate {
    fn new(rate_max: u32) -> ControlRate {
        ControlRate { rate_max, allowance: ControlRate::burst(rate_max), at: 0 }
    }

    fn burst(rate_max: u32) -> u64 {
        u64::from(rate_max) * 10 * 1000
    }

    fn admit(&mut self, now: u64) -> Result<(), Error> {
        let gained = now.saturating_sub(self.at).saturating_mul(self.rate_max.into());
        self.allowance = self.allowance.saturating_add(gained).min(ControlRate::burst(self.rate_max));
        self.at = now;
        match self.allowance.checked_sub(1000) {
            Some(left) => self.allowance = left,
            None => return Err(Error::TooManyControls(self.rate_max)),
        }
        Ok(())
    }
}

impl<R: Role> Drop for Reader<R> {
    fn drop(&mut self) {
        self.half.has_unread.store(false, Relaxed);
        self.input.clear_message();
        self.input.return_memory();
    }
}

impl<R: Role> fmt::Debug for Reader<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WebSocketReader").field("reason", &self.reason).finish_non_exhaustive()
    }
}
