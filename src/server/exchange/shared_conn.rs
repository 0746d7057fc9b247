//! [`SharedConn`]: the connection of an exchange, shared by its loop, its handler, and the reader and the writer.

use std::cell::{Cell, Ref, RefCell};
use std::io;
use std::mem;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{self, Poll};
use std::time::Duration;

use crate::exchange::{Bounds, Cancel, ExchangeError, Phase};
use crate::net::{Conn, tls};
use crate::runtime::MemoryShare;
use crate::server::core_state::CoreState;

/// The connection of an exchange.
///
/// While a handler runs, the loop that polls it sends earlier responses, and the handler's reader and writer use the
/// same connection. So each of them holds a `SharedConn`, and borrows the connection during a poll only.
#[derive(Clone)]
pub(crate) struct SharedConn(Rc<SharedInner>);

struct SharedInner {
    lent: RefCell<Lent>,
    core: Rc<CoreState>,
    on_handler_wait: RefCell<Option<FlushFn>>,
    on_pending: Cell<OnPending>,
    /// Whether the handler has waited since it was made uncancelled.
    has_waited: Cell<bool>,
}

/// The fate of a handler whose future is pending.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum OnPending {
    /// The handler is cancelled if its peer is gone.
    #[default]
    CancelIfGone,
    /// The handler is cancelled. The response is over with its head.
    Cancel,
    /// The handler goes on. All of the response is sent, and the rest of its work is not for the peer.
    GoOn,
}

/// Sends what the handler of an upgraded connection has written, and is still held back. Called when the handler waits.
pub(super) type FlushFn = Box<dyn Fn(&mut task::Context<'_>)>;

/// The parts that are lent for a poll.
struct Lent {
    /// `None` while the context waits to be used again, or once the connection was upgraded.
    conn: Option<Conn>,
    /// The bounds of the exchange: a copy, so that reading them costs the same whether they were changed or not.
    bounds: Bounds,
}

impl SharedConn {
    pub(super) fn new(core: Rc<CoreState>) -> SharedConn {
        let lent = Lent { conn: None, bounds: core.bounds.clone() };
        let lent = RefCell::new(lent);
        let on_handler_wait = RefCell::default();
        let on_pending = Cell::default();
        let has_waited = Cell::default();
        SharedConn(Rc::new(SharedInner { lent, core, on_handler_wait, on_pending, has_waited }))
    }

    /// Lends the connection to `step` for one poll, with the bounds of the exchange, and counts its traffic before a
    /// wait. Fails if the connection was upgraded.
    #[inline]
    pub(crate) fn poll<T, E: From<ExchangeError>>(
        &self,
        step: impl FnOnce(&mut Conn, &Bounds) -> Poll<Result<T, E>>,
    ) -> Poll<Result<T, E>> {
        self.poll_uncounted(|conn, bounds, core| {
            let polled = step(conn, bounds);
            if polled.is_pending() {
                core.count_traffic(conn);
            }
            polled
        })
    }

    /// Lends the connection as [`SharedConn::poll`] does, while the handler runs. Futures within the handler and the loop
    /// may have different wakers; the step uses the `cx` that it is given.
    #[inline]
    pub(crate) fn poll_shared<T, E: From<ExchangeError>>(
        &self,
        cx: &mut task::Context<'_>,
        step: impl FnOnce(&mut task::Context<'_>, &mut Conn, &Bounds) -> Poll<Result<T, E>>,
    ) -> Poll<Result<T, E>> {
        self.poll(|conn, bounds| {
            let shared = conn.shared_waker(cx.waker());
            step(&mut task::Context::from_waker(shared.as_ref().unwrap_or(cx.waker())), conn, bounds)
        })
    }

    /// Lends the connection as [`SharedConn::poll`] does, to a step that decides itself when its traffic is counted.
    #[inline]
    pub(super) fn poll_uncounted<T, E: From<ExchangeError>>(
        &self,
        step: impl FnOnce(&mut Conn, &Bounds, &CoreState) -> Poll<Result<T, E>>,
    ) -> Poll<Result<T, E>> {
        let SharedInner { lent, core, .. } = &*self.0;
        let Lent { conn, bounds } = &mut *lent.borrow_mut();
        match conn {
            Some(conn) => step(conn, bounds, core),
            None => Poll::Ready(Err(not_connected().into())),
        }
    }

    /// Lends the connection to `step`, which does not wait. `None` if the connection was upgraded.
    #[inline]
    pub(crate) fn with<T>(&self, step: impl FnOnce(&mut Conn) -> T) -> Option<T> {
        self.with_bounds(|conn, _| step(conn))
    }

    /// Lends the connection as [`SharedConn::with`] does, with the bounds of the exchange.
    #[inline]
    pub(super) fn with_bounds<T>(&self, step: impl FnOnce(&mut Conn, &Bounds) -> T) -> Option<T> {
        let Lent { conn, bounds } = &mut *self.0.lent.borrow_mut();
        conn.as_mut().map(|conn| step(conn, bounds))
    }

    /// Flushes the write buffer while the handler waits: it may hold earlier responses of a pipeline. Counts the traffic
    /// as well, since a response may be streamed for days. An error is left to the next write.
    pub(crate) fn flush_while_handler_waits(&self, cx: &mut task::Context<'_>) {
        if self.is_taken() {
            return self.run_on_handler_wait(cx);
        }
        let _: Poll<Result<(), ExchangeError>> = self.poll_shared(cx, |cx, conn, bounds| {
            if !conn.has_sent_all() {
                drop(conn.poll_flush(cx, bounds.timeouts.write));
            }
            Poll::Pending
        });
    }

    /// Notes that the handler waits.
    #[inline]
    pub(crate) fn note_waiting(&self) {
        self.0.has_waited.set(true);
        if self.core().events.observes_polls() {
            self.core().waiting_id.set(self.with(|conn| conn.peer().id));
        }
    }

    #[cold]
    fn run_on_handler_wait(&self, cx: &mut task::Context<'_>) {
        if let Some(flush) = &*self.on_handler_wait().borrow() {
            flush(cx);
        }
    }

    /// Called when the handler of an upgraded connection waits.
    pub(crate) fn on_handler_wait(&self) -> &RefCell<Option<FlushFn>> {
        &self.0.on_handler_wait
    }

    /// Sets the fate of the handler when it is pending.
    pub(crate) fn set_on_pending(&self, on_pending: OnPending) {
        self.0.on_pending.set(on_pending);
    }

    /// The fate of the handler when it is pending.
    pub(crate) fn on_pending(&self) -> OnPending {
        self.0.on_pending.get()
    }

    /// Ready when the peer has closed the connection, or its sending half.
    pub(crate) fn poll_peer_closed(&self, cx: &mut task::Context<'_>) -> Poll<()> {
        let polled = self.poll_shared(cx, |cx, conn, _| conn.poll_peer_end(cx).map(Ok::<_, ExchangeError>));
        polled.map(drop)
    }

    /// Watches the peer while the handler waits. Ready with the error of a peer that does not wait for its response any
    /// more. An upgraded connection is watched by its protocol.
    pub(crate) fn poll_gone(&self, cx: &mut task::Context<'_>) -> Poll<ExchangeError> {
        self.poll_gone_by(cx, |bounds| bounds.cancel)
    }

    /// Watches the peer while its handler waits only for this crate: a peer that has closed its sending half may wait, too.
    pub(crate) fn poll_reset(&self, cx: &mut task::Context<'_>) -> Poll<ExchangeError> {
        self.poll_gone_by(cx, |bounds| bounds.cancel.only_on_reset())
    }

    /// Forgets earlier waits, in which the peer was watched, since it is not from here on.
    pub(crate) fn forget_waits(&self) {
        self.0.has_waited.set(false);
    }

    /// Whether the handler has waited since then.
    pub(crate) fn has_waited(&self) -> bool {
        self.0.has_waited.get()
    }

    /// Watches the peer of an uncancelled exchange whose handler has not begun: nothing is lost yet, so the exchange ends as
    /// the server's bounds have it. For other exchanges this is never ready, since they are watched anyway.
    pub(crate) fn poll_gone_before_handler(&self, cx: &mut task::Context<'_>) -> Poll<ExchangeError> {
        let cancel = self.core().bounds.cancel;
        self.poll_gone_by(cx, |bounds| if bounds.cancel == Cancel::Never { cancel } else { Cancel::Never })
    }

    fn poll_gone_by(
        &self,
        cx: &mut task::Context<'_>,
        cancel: impl FnOnce(&Bounds) -> Cancel,
    ) -> Poll<ExchangeError> {
        if self.is_taken() {
            return Poll::Pending;
        }
        let gone: Poll<Result<(), _>> =
            self.poll_shared(cx, |cx, conn, bounds| cancel(bounds).poll_gone(cx, conn).map(Err));
        gone.map(|gone| gone.err().unwrap_or(ExchangeError::PeerClosed))
    }

    /// The outcome of a step, or the error of a peer that has left while the step waits for `memory`: nothing is read
    /// meanwhile, so no read finds that out.
    #[inline]
    pub(super) fn or_gone<T>(
        &self,
        cx: &mut task::Context<'_>,
        polled: Poll<Result<T, ExchangeError>>,
        memory: &MemoryShare,
    ) -> Poll<Result<T, ExchangeError>> {
        match polled {
            Poll::Pending if memory.is_waiting() => self.poll_gone(cx).map(Err),
            polled => polled,
        }
    }

    /// Whether the peer has left before its handler is called. Checked only on a core that is behind, where requests have
    /// waited. Elsewhere the handler is called at once: it may answer, and a peer that has closed its sending half can
    /// still read that.
    #[inline]
    pub(crate) fn left_before_handler(&self) -> bool {
        self.core().backlog.is_behind() && self.has_ended()
    }

    /// A separate function, since few cores are behind.
    #[cold]
    fn has_ended(&self) -> bool {
        self.with_bounds(|conn, bounds| {
            // A core that is behind has not asked the kernel for long.
            let end = conn.transport.end().or_else(|| conn.transport.end_in_kernel());
            end.is_some_and(|end| bounds.cancel.applies_to(end))
        })
        .unwrap_or_default()
    }

    /// The error of a request that has waited for a core that is behind for longer than
    /// [`Timeouts::queue`](crate::Timeouts::queue).
    #[cold]
    pub(crate) fn check_delay(&self) -> Result<(), ExchangeError> {
        // A request without a limit has its turn as well.
        let limit = self.bounds(|bounds| bounds.timeouts.queue).unwrap_or(Duration::MAX);
        let has_waited = self.core().backlog.has_delayed(limit);
        if has_waited { Err(ExchangeError::TimedOut(Phase::Queue, limit.into())) } else { Ok(()) }
    }

    /// Takes the connection out of its slot, to share it.
    #[inline]
    pub(super) fn attach(&self, slot: &mut Option<Conn>) {
        let Lent { conn, .. } = &mut *self.0.lent.borrow_mut();
        debug_assert!(conn.is_none() && slot.is_some(), "an exchange has one connection");
        mem::swap(conn, slot);
        if let Some(conn) = conn {
            conn.share();
        }
    }

    /// Puts the connection back into its slot.
    #[inline]
    pub(super) fn release(&self, slot: &mut Option<Conn>) {
        let Lent { conn, .. } = &mut *self.0.lent.borrow_mut();
        debug_assert!(conn.is_some() && slot.is_none(), "a connection has one slot");
        mem::swap(conn, slot);
    }

    /// Takes the connection out, to upgrade or to close it.
    pub(super) fn take(&self) -> Option<Conn> {
        self.0.lent.borrow_mut().conn.take()
    }

    /// The connection, unless it was upgraded.
    pub(super) fn borrow(&self) -> Ref<'_, Option<Conn>> {
        Ref::map(self.0.lent.borrow(), |lent| &lent.conn)
    }

    /// The session of the connection, if that is secure and was not upgraded.
    #[allow(dead_code, reason = "unused without the features `tls` and `tower`")]
    pub(crate) fn tls_session(&self) -> Option<Arc<tls::Session>> {
        self.borrow().as_ref()?.transport.tls_session()
    }

    /// Waits until `share` has at least so many bytes of memory, while the handler runs.
    pub(crate) fn poll_memory(
        &self,
        cx: &mut task::Context<'_>,
        share: &mut MemoryShare,
        bytes: usize,
    ) -> Poll<Result<(), ExchangeError>> {
        self.bounds(|bounds| bounds.poll_memory(cx, share, bytes))
    }

    /// Whether the connection was taken out, as an upgrade does.
    #[inline]
    pub(crate) fn is_taken(&self) -> bool {
        self.0.lent.borrow().conn.is_none()
    }

    #[inline]
    pub(crate) fn core(&self) -> &CoreState {
        &self.0.core
    }

    /// Reads the bounds of the exchange.
    #[inline]
    pub(crate) fn bounds<T>(&self, read: impl FnOnce(&Bounds) -> T) -> T {
        read(&self.0.lent.borrow().bounds)
    }

    /// Changes the bounds of the exchange, which begin as those of the server.
    pub(super) fn change_bounds(&self, change: impl FnOnce(&mut Bounds)) {
        change(&mut self.0.lent.borrow_mut().bounds);
    }

    /// Gives the exchange the bounds of the server again.
    #[cold]
    pub(super) fn reset_bounds(&self) {
        self.0.lent.borrow_mut().bounds.clone_from(&self.0.core.bounds);
    }
}

#[cold]
fn not_connected() -> ExchangeError {
    ExchangeError::Io(io::ErrorKind::NotConnected.into())
}
