//! [`Timer`]: the waits of a connection; [`TokioTimer`]: those of a connection that is not tied to a core, by a
//! [`LazySleep`], a tokio timer that is rarely reset.

use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::runtime::{Handle, Id};
use tokio::task::unconstrained;
use tokio::time::{Instant, Sleep};

/// The waits of one connection, each with a deadline.
pub(crate) trait Timer {
    /// Arms the slot, unless it is armed since an earlier call. Ready when the wait that began so has taken longer than
    /// `limit`. The task is woken at that time.
    fn poll_timeout(&mut self, cx: &mut Context<'_>, slot: TimerSlot, limit: Duration) -> Poll<()>;

    /// The waker of the last poll, if it is not `waker`.
    fn other_waker(&self, waker: &Waker) -> Option<Waker>;

    /// Ends the wait in this slot, so that the next call of [`Timer::poll_timeout`] begins another.
    fn disarm(&mut self, slot: TimerSlot);

    /// Milliseconds since some fixed moment.
    fn now(&self) -> u64;
}

/// The waits that a connection can have at the same time. Waits that exclude each other share a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TimerSlot {
    /// A read, and in a client the wait for a response.
    Read,
    /// A write. Without one: in a client the wait for `100 Continue`, in a stopping server the silence of a lingering
    /// peer.
    Write,
    /// The handler of a request, a whole exchange, a drained body, a lingering peer, or in a stopping server the grace
    /// of an idle connection.
    Other,
}

pub(super) const SLOTS: usize = 3;

/// The deadline of each wait of a connection.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Deadlines([Deadline; SLOTS]);

impl Deadlines {
    /// The deadline of the wait in this slot, set to `deadline` if the wait begins now.
    pub(super) fn arm(&mut self, slot: TimerSlot, deadline: impl FnOnce() -> Deadline) -> Deadline {
        let armed = &mut self.0[slot as usize];
        if *armed == UNARMED {
            *armed = deadline();
        }
        *armed
    }

    pub(super) fn disarm(&mut self, slot: TimerSlot) {
        self.0[slot as usize] = UNARMED;
    }

    pub(super) fn get(&self, slot: TimerSlot) -> Deadline {
        self.0[slot as usize]
    }

    /// Returns the earliest deadline after `now`. Earlier ones have expired, and a task may no longer wait for them.
    pub(super) fn next(&self, now: Deadline) -> Deadline {
        self.0.into_iter().filter(|deadline| *deadline > now).min().unwrap_or(UNARMED)
    }
}

/// A moment in milliseconds on the clock of its owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Deadline(pub(super) u64);

impl Deadline {
    /// The same moment as an instant, on a clock that was zero at `epoch`. `None` means never.
    pub(super) fn to_instant(self, epoch: Instant) -> Option<Instant> {
        epoch.checked_add(Duration::from_millis(self.0)).filter(|_| self < FAR)
    }
}

impl Default for Deadline {
    fn default() -> Deadline {
        UNARMED
    }
}

const UNARMED: Deadline = Deadline(u64::MAX);

/// A century, which is as good as never.
const FAR: Deadline = Deadline(100 * 365 * 24 * 60 * 60 * 1000);

/// A duration in the unit of [`Deadline`], and of the clocks of connections.
pub(crate) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// The deadlines of one connection, with a single tokio timer that is reused from message to message.
pub(crate) struct TokioTimer {
    epoch: Instant,
    deadlines: Deadlines,
    sleep: LazySleep,
    /// The task that the timer wakes.
    waker: Option<Waker>,
    /// The runtime of the tokio timer. Once that runtime has ended, a poll of the timer panics.
    runtime: Option<Id>,
}

impl TokioTimer {
    pub(crate) fn new() -> TokioTimer {
        let (deadlines, sleep) = Default::default();
        TokioTimer { epoch: Instant::now(), deadlines, sleep, waker: None, runtime: None }
    }

    /// Begins a wait in this slot that expires at `until`, unless one has begun.
    pub(crate) fn arm(&mut self, slot: TimerSlot, until: Instant) {
        let TokioTimer { epoch, deadlines, .. } = self;
        deadlines.arm(slot, || Deadline(millis(until.saturating_duration_since(*epoch))));
    }

    /// Ready once `deadline` has come. While a timer for it is set, the clock need not be read.
    fn poll(&mut self, cx: &mut Context<'_>, deadline: Deadline) -> Poll<()> {
        let is_known = self.waker.as_ref().is_some_and(|waker| waker.will_wake(cx.waker()));
        let is_set = self.sleep.is_set(deadline);
        if is_known && is_set {
            return Poll::Pending;
        }
        let here = Handle::try_current().ok().map(|here| here.id());
        // A connection of a pool is used by one task after the other.
        if is_set && self.runtime == here && self.sleep.set_waker(cx) {
            self.waker = Some(cx.waker().clone());
            return Poll::Pending;
        }
        let now = Deadline(self.now());
        if deadline <= now {
            return Poll::Ready(());
        }
        if !is_known {
            self.waker = Some(cx.waker().clone());
        }
        if self.runtime != here {
            self.runtime = here;
            self.sleep = LazySleep::default();
        }
        self.sleep.set(cx, self.epoch, self.deadlines.next(now));
        Poll::Pending
    }
}

impl Timer for TokioTimer {
    fn poll_timeout(&mut self, cx: &mut Context<'_>, slot: TimerSlot, limit: Duration) -> Poll<()> {
        let TokioTimer { epoch, deadlines, .. } = self;
        let deadline =
            deadlines.arm(slot, || Deadline(millis(epoch.elapsed()).saturating_add(millis(limit))));
        self.poll(cx, deadline)
    }

    /// Always `None`: the halves of a call wake each other, and a client's connection is used by one task after the
    /// other.
    fn other_waker(&self, _: &Waker) -> Option<Waker> {
        None
    }

    fn disarm(&mut self, slot: TimerSlot) {
        self.deadlines.disarm(slot);
    }

    fn now(&self) -> u64 {
        millis(self.epoch.elapsed())
    }
}

/// A tokio timer that wakes a task at a deadline, or a little earlier. If the deadline moves to a later time, the timer
/// is left as it is until it fires: a busy connection moves its deadline with each message, usually before the timer
/// would have fired.
#[derive(Default)]
pub(super) struct LazySleep {
    sleep: Option<Pin<Box<Sleep>>>,
    /// When the timer fires, or less than a millisecond before. A copy of the timer's own deadline, which is elsewhere
    /// in memory.
    fires_at: Deadline,
}

impl LazySleep {
    /// Whether the timer will fire by `deadline`, for the task that set it last.
    pub(super) fn is_set(&self, deadline: Deadline) -> bool {
        self.fires_at <= deadline && self.sleep.as_ref().is_some_and(|sleep| !sleep.is_elapsed())
    }

    /// Has the timer wake this task from now on. Returns `false` if it has fired.
    fn set_waker(&mut self, cx: &mut Context<'_>) -> bool {
        self.sleep.as_mut().is_some_and(|sleep| poll(sleep, cx).is_pending())
    }

    /// Wakes the task at `next`, on a clock that was zero at `epoch`.
    pub(super) fn set(&mut self, cx: &mut Context<'_>, epoch: Instant, next: Deadline) {
        debug_assert!(
            self.sleep.is_some() || self.fires_at == Deadline::default(),
            "without a timer none is set"
        );
        let Some(fires_at) = next.to_instant(epoch) else {
            // A timer that is still set for an earlier wait wakes this task from now on.
            if let Some(sleep) = &mut self.sleep {
                let _ = poll(sleep, cx);
            }
            return;
        };
        let sleep = self.sleep.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(fires_at)));
        if self.fires_at > next || sleep.is_elapsed() {
            sleep.as_mut().reset(fires_at);
            self.fires_at = next;
        }
        while poll(sleep, cx).is_ready() {
            // The caller has checked that the deadline is not reached, but clocks are read in whole milliseconds.
            let later = fires_at.max(Instant::now() + Duration::from_millis(1));
            sleep.as_mut().reset(later);
            self.fires_at = Deadline(millis(later.saturating_duration_since(epoch)));
        }
    }
}

/// Polls a timer outside of tokio's budget: a timer that is set but not polled wakes no task.
fn poll(sleep: &mut Pin<Box<Sleep>>, cx: &mut Context<'_>) -> Poll<()> {
    Pin::new(&mut unconstrained(sleep.as_mut())).poll(cx)
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::pin::pin;

    use tokio::runtime::Builder;
    use tokio::task::coop::{consume_budget, has_budget_remaining};
    use tokio::time::timeout;

    use super::*;
    use crate::net::{ConnTable, Peer};

    /// A timer that belongs to a runtime panics in another one when the first has ended.
    #[test]
    fn a_timer_goes_on_in_another_runtime() {
        let mut timer = TokioTimer::new();
        let hour = Duration::from_secs(3600);
        for mut builder in [Builder::new_current_thread(), Builder::new_multi_thread()] {
            for _ in 0..3 {
                let runtime = builder.worker_threads(1).enable_time().build().unwrap();
                let limit = Duration::from_millis(20);
                runtime.block_on(async {
                    let start = Instant::now();
                    assert!(
                        poll_fn(|cx| Poll::Ready(timer.poll_timeout(cx, TimerSlot::Other, hour)))
                            .await
                            .is_pending()
                    );
                    poll_fn(|cx| timer.poll_timeout(cx, TimerSlot::Read, limit)).await;
                    assert!((limit..hour).contains(&start.elapsed()));
                });
                timer.disarm(TimerSlot::Read);
                timer.disarm(TimerSlot::Other);
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn each_slot_has_its_time_and_the_earliest_expires() {
        let mut timer = TokioTimer::new();
        let start = Instant::now();
        let second = Duration::from_secs(1);
        for whole in [5, 3] {
            poll_fn(|cx| {
                assert!(timer.poll_timeout(cx, TimerSlot::Other, whole * second).is_pending());
                timer.poll_timeout(cx, TimerSlot::Read, second)
            })
            .await;
            timer.disarm(TimerSlot::Read);
        }
        poll_fn(|cx| timer.poll_timeout(cx, TimerSlot::Other, second)).await;
        let waited = start.elapsed();
        assert!(waited >= 5 * second && waited < 5 * second + Duration::from_millis(5), "{waited:?}");
        assert!(
            poll_fn(|cx| Poll::Ready(timer.poll_timeout(cx, TimerSlot::Read, Duration::MAX)))
                .await
                .is_pending()
        );
    }

    /// A task that waits after another one is woken in time, whatever each of them had waited for before.
    async fn check(mut timer: impl Timer, first: Duration, second: Duration) {
        let start = Instant::now();
        let limit = Duration::from_secs(5);
        let mut another = Context::from_waker(Waker::noop());
        assert!(timer.poll_timeout(&mut another, TimerSlot::Read, first).is_pending());
        timer.disarm(TimerSlot::Read);
        assert!(
            poll_fn(|cx| Poll::Ready(timer.poll_timeout(cx, TimerSlot::Write, second))).await.is_pending()
        );
        timer.disarm(TimerSlot::Write);
        let waits = poll_fn(|cx| timer.poll_timeout(cx, TimerSlot::Read, limit));
        let waited = timeout(2 * limit, waits).await.map(|()| start.elapsed());
        let soon = limit..limit + Duration::from_millis(5);
        assert!(
            waited.as_ref().is_ok_and(|waited| soon.contains(waited)),
            "{first:?} {second:?}: {waited:?}"
        );
    }

    /// A handler that gives up a read and then writes must not be woken again and again by the deadline of the read.
    async fn check_given_up(mut timer: impl Timer) {
        let second = Duration::from_secs(1);
        let mut polls = 0;
        poll_fn(|cx| {
            polls += 1;
            if polls == 1 {
                assert!(timer.poll_timeout(cx, TimerSlot::Read, second).is_pending());
            }
            timer.poll_timeout(cx, TimerSlot::Write, 3 * second)
        })
        .await;
        assert!(polls <= 4, "{polls} polls");
    }

    #[tokio::test(start_paused = true)]
    async fn a_sleep_that_no_task_waits_for_fires_only_once() {
        check_given_up(TokioTimer::new()).await;
        check_given_up(ConnTable::with_sleeps().add(Peer::default())).await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_task_that_begins_to_wait_without_budget_is_woken() {
        let mut timer = TokioTimer::new();
        let limit = Duration::from_secs(5);
        let waits = poll_fn(|cx| {
            while has_budget_remaining() {
                let _ = pin!(consume_budget()).poll(cx);
            }
            timer.poll_timeout(cx, TimerSlot::Read, limit)
        });
        assert_eq!(timeout(2 * limit, waits).await, Ok(()));
    }

    #[tokio::test(start_paused = true)]
    async fn the_task_that_waits_now_is_woken_whichever_task_set_the_sleep() {
        let limits = [1, 4, 5, 6].map(Duration::from_secs);
        for first in limits.into_iter().chain([Duration::MAX]) {
            for second in limits.into_iter().chain([Duration::MAX]) {
                check(TokioTimer::new(), first, second).await;
                check(ConnTable::with_sleeps().add(Peer::default()), first, second).await;
            }
        }
    }
}
