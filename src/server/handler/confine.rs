//! [`confined`]: a handler whose panics and time limit are errors for the middleware around it.

use std::any::Any;
use std::cell::Cell;
use std::error::Error as StdError;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Mutex;
use std::task::{self, Poll, ready};
use std::time::Duration;

use pin_project_lite::pin_project;

use crate::exchange::{ExchangeError, Phase};
use crate::memory::lock;
use crate::message::Status;
use crate::net::{ConnEntry, Peer, Timer, TimerSlot};
use crate::server::error::{Error, Result};
use crate::server::exchange::SharedConn;

thread_local! {
    /// The time limit of the handler that is being polled, if that is over, until the innermost [`confined`] takes it.
    static TIME_OVER: Cell<Option<Duration>> = const { Cell::new(None) };
}

/// Runs what `begin` begins. If it panics, or waits although its time is over, the error is the outcome.
#[inline]
pub(crate) fn confined<T, F: Future<Output = Result<T>>>(begin: impl FnOnce() -> F) -> Confined<F> {
    match caught(begin) {
        Ok(handling) => Confined::Running { handling },
        Err(panicked) => Confined::Over { panicked: Some(panicked) },
    }
}

pin_project! {
    /// A handler, or middleware, as what is around it awaits it: see [`confined`].
    ///
    /// A type of its own, since a future of an `async` function would have several types more for each layer, and the compiler
    /// gives up at some depth.
    #[project = ConfinedState]
    pub(crate) enum Confined<F> {
        Running {
            #[pin]
            handling: F,
        },
        /// It was dropped at the end of its time, or panicked as it began.
        Over {
            panicked: Option<Error>,
        },
    }
}

impl<T, F: Future<Output = Result<T>>> Future for Confined<F> {
    type Output = Result<T>;

    #[inline]
    fn poll(mut self: Pin<&mut Self>, cx: &mut task::Context<'_>) -> Poll<Result<T>> {
        let handling = match self.as_mut().project() {
            ConfinedState::Running { handling } => handling,
            ConfinedState::Over { panicked } => {
                return panicked.take().map_or(Poll::Pending, |panicked| Poll::Ready(Err(panicked)));
            }
        };
        match catch_unwind(AssertUnwindSafe(|| handling.poll(cx))) {
            Ok(Poll::Pending) => match TIME_OVER.take() {
                Some(limit) => Poll::Ready(Err(self.give_up(limit))),
                None => Poll::Pending,
            },
            Ok(ready) => ready,
            Err(panic) => Poll::Ready(Err(HandlerPanicked::error(panic))),
        }
    }
}

impl<F> Confined<F> {
    /// Drops a handler whose time is over. It may panic then, which is the error in place of that of the time.
    #[cold]
    fn give_up(mut self: Pin<&mut Self>, limit: Duration) -> Error {
        match catch_unwind(AssertUnwindSafe(|| self.set(Confined::Over { panicked: None }))) {
            Ok(()) => time_over(limit),
            Err(panic) => HandlerPanicked::error(panic),
        }
    }
}

/// Runs what answers at once.
///
/// # Errors
///
/// Fails if it panics.
#[inline]
pub(crate) fn caught<T>(run: impl FnOnce() -> T) -> Result<T> {
    catch_unwind(AssertUnwindSafe(run)).map_err(HandlerPanicked::error)
}

/// The time limit of a handler, and of the middleware around it.
#[derive(Default)]
pub(crate) struct HandlerTime {
    /// The entry of the handler in the table of connections, once it waits.
    timer: Option<ConnEntry>,
    phase: HandlerPhase,
}

/// Whose time passes.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum HandlerPhase {
    /// That of the handler.
    #[default]
    Handler,
    /// That of the handler is over: in the next poll the innermost [`confined`] drops what it runs.
    TimeOver,
    /// That of the middleware around the handler, as long again.
    Middleware,
}

impl HandlerTime {
    /// Called after each poll of the handler. Returns the limit if the handler's time was over before that poll, and no
    /// [`confined`] within it has taken the limit: without middleware there is none.
    #[inline]
    pub(crate) fn take_ended(&mut self) -> Option<Duration> {
        if self.phase == HandlerPhase::TimeOver { self.begin_middleware() } else { None }
    }

    #[cold]
    fn begin_middleware(&mut self) -> Option<Duration> {
        self.phase = HandlerPhase::Middleware;
        TIME_OVER.take()
    }

    /// Waits until the time is over. The handler is to be polled once more then, and at once.
    ///
    /// # Errors
    ///
    /// Fails if the middleware around the handler was late as well.
    pub(crate) fn poll_time_over(&mut self, cx: &mut task::Context<'_>, conn: &SharedConn) -> Poll<Result> {
        let Some(limit) = conn.bounds(|bounds| bounds.timeouts.handler) else { return Poll::Pending };
        let timer = self.timer.get_or_insert_with(|| conn.core().connections.add(Peer::default()));
        ready!(timer.poll_timeout(cx, TimerSlot::Other, limit));
        self.timer = None;
        if self.phase == HandlerPhase::Middleware {
            return Poll::Ready(Err(time_over(limit)));
        }
        self.phase = HandlerPhase::TimeOver;
        TIME_OVER.set(Some(limit));
        Poll::Ready(Ok(()))
    }
}

/// The error of a handler that took longer than `limit`.
pub(crate) fn time_over(limit: Duration) -> Error {
    ExchangeError::TimedOut(Phase::Handler, limit.into()).into()
}

/// The cause of the error with which a panic passes through middleware.
struct HandlerPanicked(Mutex<Option<Box<dyn Any + Send>>>);

impl HandlerPanicked {
    #[cold]
    fn error(panic: Box<dyn Any + Send>) -> Error {
        Error::new(Status::INTERNAL_SERVER_ERROR, HandlerPanicked(Mutex::new(Some(panic))))
    }
}

impl fmt::Display for HandlerPanicked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the handler panicked")
    }
}

impl fmt::Debug for HandlerPanicked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl StdError for HandlerPanicked {}

/// Whether this error is that of a handler which took too long.
pub(crate) fn is_time_over(error: &Error) -> bool {
    let cause = error.cause().and_then(|cause| cause.downcast_ref());
    matches!(cause, Some(ExchangeError::TimedOut(Phase::Handler, _)))
}

/// Whether a panic has become this error.
pub(crate) fn is_panic(error: &Error) -> bool {
    error.downcast_cause::<HandlerPanicked>().is_some()
}

/// Takes out the panic that has become this error, to be resumed.
#[allow(dead_code, reason = "unused without the feature `tower`")]
pub(crate) fn take_panic(error: &Error) -> Option<Box<dyn Any + Send>> {
    let HandlerPanicked(panic) = error.downcast_cause()?;
    lock(panic).take()
}
