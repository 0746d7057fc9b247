//! [`Timetable`]: the time limits of all connections of a core; and [`Deadline`]: those of one of them.
//!
//! A tokio timer costs a queue operation for each request, and a wake-up when it is the next to fire. A deadline here
//! is one number in a table, which a task of the core scans four times a second.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use super::alarm::Alarm;
use super::expiries::{Expiries, Expiry, LANES, millis};
use super::{Lane, Ticker, Timer};
use crate::net::Peer;

/// The deadlines of one core's connections.
pub(crate) struct Timetable {
    /// In milliseconds. Only [`Timetable::sweep`] advances it, so a core that was held up does not time out its
    /// connections for that.
    now: Cell<u64>,
    slots: RefCell<Slots>,
    stopping: Cell<bool>,
    /// Notified when the first connection comes, when the last one goes, and when the server stops.
    first: Notify,
    last: Notify,
    stopped: Notify,
    mode: Mode,
}

/// A table in pages that never move. If it grew by doubling, up to half of it would be unused, and every connection has
/// a slot.
#[derive(Default)]
struct Slots {
    pages: Vec<Page>,
    free: Vec<u32>,
}

struct Page {
    /// No wait in this page will expire before this. So a sweep need not look at every slot, which would hold up a core
    /// that has many connections.
    earliest: Expiry,
    slots: Box<[Slot; PAGE]>,
}

const PAGE: usize = 64;

#[derive(Default)]
struct Slot {
    /// Rarely needed, so it is in the table, which is packed, and not in the connection's task, whose size is rounded
    /// up.
    peer: Peer,
    expiries: Expiries,
    waker: Option<Waker>,
    /// Used only in [`Mode::Alarms`].
    alarm: Alarm,
}

/// How expired deadlines are found.
enum Mode {
    /// A task of the core calls [`Timetable::tick`] for ever.
    Swept,
    /// Each connection sets an alarm. This is for runtimes that are not ours.
    Alarms { epoch: Instant },
}

impl Timetable {
    /// For a core on which a task calls [`Timetable::tick`] for ever.
    pub(crate) fn swept() -> Rc<Timetable> {
        Timetable::new(Mode::Swept)
    }

    /// For any other runtime.
    pub(crate) fn with_alarms() -> Rc<Timetable> {
        Timetable::new(Mode::Alarms { epoch: Instant::now() })
    }

    fn new(mode: Mode) -> Rc<Timetable> {
        Rc::new(Timetable {
            now: Cell::new(0),
            slots: RefCell::default(),
            stopping: Cell::new(false),
            first: Notify::new(),
            last: Notify::new(),
            stopped: Notify::new(),
            mode,
        })
    }

    /// Adds a connection or handler to the table.
    pub(crate) fn deadline(self: &Rc<Timetable>, peer: Peer) -> Deadline {
        let mut slots = self.slots.borrow_mut();
        let slot = slots.take();
        slots.at(slot).peer = peer;
        drop(slots);
        self.first.notify_one();
        Deadline { timetable: self.clone(), slot, armed: [false; LANES] }
    }

    /// How many connections are in the table.
    fn len(&self) -> usize {
        self.slots.borrow().len()
    }

    /// Waits until there is a connection.
    pub(crate) async fn occupied(&self) {
        while self.len() == 0 {
            self.first.notified().await;
        }
    }

    /// Waits for the next tick, then wakes the tasks whose deadlines have expired.
    pub(crate) async fn tick(&self, ticker: &mut Ticker) {
        ticker.wait(TICK).await;
        self.sweep();
    }

    /// Waits until no connection is left.
    pub(crate) async fn emptied(&self) {
        while self.len() > 0 {
            self.last.notified().await;
        }
    }

    /// Wakes all connections, which learn the reason from [`Timetable::is_stopping`].
    pub(crate) fn stop(&self) {
        self.stopping.set(true);
        self.stopped.notify_waiters();
        let all = wakers(self.slots.borrow().iter());
        all.into_iter().for_each(Waker::wake);
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.get()
    }

    /// Waits until [`Timetable::stop`] is called.
    pub(crate) async fn stopping(&self) {
        while !self.is_stopping() {
            self.stopped.notified().await;
        }
    }

    fn sweep(&self) {
        let last = self.now.get();
        self.now.set(last + millis(TICK));
        let due = wakers(self.slots.borrow_mut().due(Expiry(last), Expiry(self.now.get())));
        due.into_iter().for_each(Waker::wake);
    }

    fn now(&self) -> u64 {
        match self.mode {
            Mode::Swept => self.now.get(),
            Mode::Alarms { epoch } => millis(epoch.elapsed()),
        }
    }

    /// When a wait that begins `now` expires. Never early, and up to two ticks late if the table is swept.
    fn expiry(&self, now: Expiry, limit: Duration) -> Expiry {
        let slack = match self.mode {
            Mode::Swept => millis(TICK),
            Mode::Alarms { .. } => 0,
        };
        Expiry(now.0.saturating_add(slack).saturating_add(millis(limit)))
    }
}

/// The tasks that wait in `slots`. They are woken once the table is no longer locked: a waker of another runtime may do
/// anything, such as to poll a connection at once, or to drop one.
fn wakers<'a>(slots: impl Iterator<Item = &'a Slot>) -> Vec<Waker> {
    slots.filter_map(|slot| slot.waker.clone()).collect()
}

/// How often the table is swept.
const TICK: Duration = Duration::from_millis(250);

impl Slots {
    fn take(&mut self) -> u32 {
        if self.free.is_empty() {
            let first = self.pages.len() * PAGE;
            let page = first..first + PAGE;
            self.free
                .extend(page.rev().map(|slot| u32::try_from(slot).expect("a core has fewer connections")));
            let slots = Box::new(std::array::from_fn(|_| Slot::default()));
            self.pages.push(Page { earliest: Expiry::default(), slots });
        }
        self.free.pop().expect("a page was added")
    }

    #[inline]
    fn at(&mut self, slot: u32) -> &mut Slot {
        &mut self.pages[slot as usize / PAGE].slots[slot as usize % PAGE]
    }

    /// Begins the wait in this lane, unless it has begun. Returns when it expires.
    #[inline]
    fn arm(&mut self, slot: u32, lane: Lane, expiry: impl FnOnce() -> Expiry) -> Expiry {
        let page = &mut self.pages[slot as usize / PAGE];
        let expiry = page.slots[slot as usize % PAGE].expiries.arm(lane, expiry);
        page.earliest = page.earliest.min(expiry);
        expiry
    }

    fn iter(&self) -> impl Iterator<Item = &Slot> {
        self.pages.iter().flat_map(|page| page.slots.iter())
    }

    /// The slots in which a wait has expired since `last`. One that has expired before may have no waiter any more.
    fn due(&mut self, last: Expiry, now: Expiry) -> impl Iterator<Item = &Slot> {
        let pages = self.pages.iter_mut().filter(move |page| page.earliest <= now);
        let slots = pages.flat_map(move |page| page.looked_through(now));
        slots.filter(move |slot| slot.expiries.next(last) <= now)
    }

    /// How many are taken.
    fn len(&self) -> usize {
        self.pages.len() * PAGE - self.free.len()
    }
}

impl Page {
    /// Finds out anew when the first wait will expire, since others may have ended, and returns the slots.
    fn looked_through(&mut self, now: Expiry) -> impl Iterator<Item = &Slot> {
        self.earliest = self.slots.iter().map(|slot| slot.expiries.next(now)).min().unwrap_or_default();
        self.slots.iter()
    }
}

/// The time limits of one connection. Frees its place in the table when it is dropped.
pub(crate) struct Deadline {
    timetable: Rc<Timetable>,
    slot: u32,
    /// The lanes in which there may be a wait. Most waits never begin, and then the table need not be touched.
    armed: [bool; LANES],
}

impl Timer for Deadline {
    // Not inlined: many places may have to wait, and few do.
    /// The task is also woken by [`Timetable::stop`].
    #[inline(never)]
    fn poll_expired(&mut self, cx: &mut Context<'_>, lane: Lane, limit: Duration) -> Poll<()> {
        self.armed[lane as usize] = true;
        let now = Expiry(self.timetable.now());
        let mut slots = self.timetable.slots.borrow_mut();
        if slots.arm(self.slot, lane, || self.timetable.expiry(now, limit)) <= now {
            return Poll::Ready(());
        }
        let slot = slots.at(self.slot);
        let is_known = slot.waker.as_ref().is_some_and(|waker| waker.will_wake(cx.waker()));
        let replaced = if is_known { None } else { slot.waker.replace(cx.waker().clone()) };
        let alarm = match self.timetable.mode {
            Mode::Swept => None,
            Mode::Alarms { epoch } => {
                let next = slot.expiries.next(now);
                (!is_known || !slot.alarm.is_set(next)).then_some((epoch, next))
            }
        };
        // The last waker of a task may take along what the task holds, and another connection may be among it.
        drop(slots);
        drop(replaced);
        if let Some((epoch, next)) = alarm {
            self.set_alarm(cx, epoch, next);
        }
        Poll::Pending
    }

    #[inline(never)]
    fn waker_but(&self, waker: &Waker) -> Option<Waker> {
        let mut slots = self.timetable.slots.borrow_mut();
        slots.at(self.slot).waker.as_ref().filter(|known| !known.will_wake(waker)).cloned()
    }

    #[inline]
    fn disarm(&mut self, lane: Lane) {
        if std::mem::take(&mut self.armed[lane as usize]) {
            self.end_wait(lane);
        }
    }

    /// The clock stands still while the core is held up.
    fn now(&self) -> u64 {
        self.timetable.now()
    }
}

impl Deadline {
    /// Ends a wait that has begun. Separate, since most have not.
    #[inline(never)]
    fn end_wait(&self, lane: Lane) {
        self.timetable.slots.borrow_mut().at(self.slot).expiries.disarm(lane);
    }

    /// Takes the alarm out of the table meanwhile, since setting the timer drops its old waker, which may do anything.
    #[inline(never)]
    fn set_alarm(&self, cx: &mut Context<'_>, epoch: Instant, next: Expiry) {
        let mut alarm = std::mem::take(&mut self.timetable.slots.borrow_mut().at(self.slot).alarm);
        alarm.set(cx, epoch, next);
        self.timetable.slots.borrow_mut().at(self.slot).alarm = alarm;
    }

    /// Whether there is a wait in this lane.
    #[inline]
    pub(in crate::net) fn is_armed(&self, lane: Lane) -> bool {
        self.armed[lane as usize]
    }

    /// For how long the wait in this lane, which may take `limit`, has gone on: two ticks more or less, if the table is
    /// swept.
    pub(crate) fn waited(&self, lane: Lane, limit: Duration) -> Duration {
        let began_now = self.timetable.expiry(Expiry(self.timetable.now()), limit);
        let expiry = self.timetable.slots.borrow_mut().at(self.slot).expiries.of(lane);
        Duration::from_millis(began_now.0.saturating_sub(expiry.0))
    }

    pub(crate) fn peer(&self) -> Peer {
        self.timetable.slots.borrow_mut().at(self.slot).peer
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.timetable.is_stopping()
    }
}

impl Drop for Deadline {
    fn drop(&mut self) {
        let mut slots = self.timetable.slots.borrow_mut();
        let left = std::mem::take(slots.at(self.slot));
        slots.free.push(self.slot);
        let is_last = slots.len() == 0;
        drop(slots);
        drop(left);
        if is_last {
            self.timetable.last.notify_one();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
    use std::task::Wake;

    use super::*;

    thread_local! {
        static SHARED: RefCell<Option<Rc<Timetable>>> = const { RefCell::new(None) };
        /// How often the table was locked when a waker was woken or dropped.
        static LOCKED_OUT: Cell<usize> = const { Cell::new(0) };
    }

    /// A waker of another runtime, which may use the table at once by polling or dropping a connection.
    struct Foreign;

    impl Foreign {
        fn come_back() {
            let timetable = SHARED.with_borrow(Option::clone).expect("the test shares it");
            // A panic would be lost, as tokio catches those of wakers that its timers drop.
            LOCKED_OUT.set(LOCKED_OUT.get() + usize::from(timetable.slots.try_borrow_mut().is_err()));
        }
    }

    impl Wake for Foreign {
        fn wake(self: Arc<Foreign>) {
            Foreign::come_back();
        }
    }

    impl Drop for Foreign {
        fn drop(&mut self) {
            Foreign::come_back();
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_waker_may_use_the_table_when_woken_or_dropped() {
        let limit = Duration::from_secs(5);
        for timetable in [Timetable::swept(), Timetable::with_alarms()] {
            SHARED.set(Some(timetable.clone()));
            let mut deadline = timetable.deadline(Peer::default());
            // Only the table has this waker, so that the next one drops it.
            let mut poll = || {
                let waker = Waker::from(Arc::new(Foreign));
                deadline.poll_expired(&mut Context::from_waker(&waker), Lane::Read, limit)
            };
            assert!(poll().is_pending() && poll().is_pending());
            timetable.stop();
            tokio::time::advance(2 * limit).await;
            (0..2 * limit.as_millis() / TICK.as_millis()).for_each(|_| timetable.sweep());
            assert!(poll().is_ready());
            drop(deadline);
            assert_eq!((timetable.len(), LOCKED_OUT.get()), (0, 0));
        }
    }

    /// Notes that it was woken.
    #[derive(Default)]
    struct Bell(AtomicBool);

    impl Wake for Bell {
        fn wake(self: Arc<Bell>) {
            self.0.store(true, Relaxed);
        }
    }

    /// One that had expired with nobody waiting any more once woke its handler four times a second.
    #[test]
    fn a_sweep_wakes_all_that_are_due_once_and_no_others() {
        let timetable = Timetable::swept();
        let wait = |_| (timetable.deadline(Peer::default()), Arc::new(Bell::default()), usize::MAX);
        let mut waits: Vec<_> = (0..3 * PAGE).map(wait).collect();
        for tick in 0..200 {
            for (at, (deadline, bell, due)) in waits.iter_mut().enumerate() {
                if (at + tick * tick) % 37 == 0 {
                    let ticks = at * tick % 50;
                    deadline.disarm(Lane::Read);
                    let waker = Waker::from(bell.clone());
                    let limit = TICK * ticks as u32;
                    let polled = deadline.poll_expired(&mut Context::from_waker(&waker), Lane::Read, limit);
                    assert!(polled.is_pending());
                    *due = tick + ticks;
                }
            }
            timetable.sweep();
            for (at, (_, bell, due)) in waits.iter().enumerate() {
                assert_eq!(bell.0.swap(false, Relaxed), *due == tick, "{at}, {tick}");
            }
        }
    }

    async fn expired_after(timetable: &Rc<Timetable>, lane: Lane, limit: Duration) -> Duration {
        let (mut deadline, start) = (timetable.deadline(Peer::default()), Instant::now());
        poll_fn(|cx| deadline.poll_expired(cx, lane, limit)).await;
        start.elapsed()
    }

    #[tokio::test(start_paused = true)]
    async fn a_swept_deadline_is_never_early_and_at_most_two_ticks_late() {
        let timetable = Timetable::swept();
        for limit in [1, 100, 250, 900, 60_000].map(Duration::from_millis) {
            let mut ticker = Ticker::default();
            let waited = tokio::select! {
                waited = expired_after(&timetable, Lane::Read, limit) => waited,
                _ = async { loop { timetable.tick(&mut ticker).await } } => unreachable!("it ticks for ever"),
            };
            assert!(waited >= limit && waited <= limit + 2 * TICK, "{limit:?} took {waited:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_alarm_rings_when_it_should() {
        let timetable = Timetable::with_alarms();
        for limit in [1, 100, 250, 900, 60_000].map(Duration::from_millis) {
            let waited = expired_after(&timetable, Lane::Write, limit).await;
            assert!(
                waited >= limit && waited <= limit + Duration::from_millis(3),
                "{limit:?} took {waited:?}"
            );
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_disarmed_wait_begins_anew_and_lanes_are_independent() {
        let timetable = Timetable::with_alarms();
        let (mut deadline, start, limit) =
            (timetable.deadline(Peer::default()), Instant::now(), Duration::from_secs(1));
        for _ in 0..5 {
            poll_fn(|cx| {
                assert!(deadline.poll_expired(cx, Lane::Read, limit).is_pending());
                assert!(deadline.poll_expired(cx, Lane::Write, Duration::MAX).is_pending());
                Poll::Ready(())
            })
            .await;
            tokio::time::sleep(limit * 9 / 10).await;
            deadline.disarm(Lane::Read);
        }
        poll_fn(|cx| deadline.poll_expired(cx, Lane::Read, limit)).await;
        assert!(start.elapsed() >= limit * 55 / 10);
    }

    #[tokio::test]
    async fn stopping_wakes_the_waiting_and_slots_are_reused() {
        let timetable = Timetable::swept();
        let mut deadline = timetable.deadline(Peer::default());
        let wait = poll_fn(|cx| match deadline.is_stopping() {
            true => Poll::Ready(()),
            false => deadline.poll_expired(cx, Lane::Read, Duration::MAX),
        });
        tokio::join!(wait, async { timetable.stop() });
        drop(deadline);
        assert_eq!(timetable.len(), 0);
        drop((timetable.deadline(Peer::default()), timetable.deadline(Peer::default())));
        assert_eq!(timetable.slots.borrow().pages.len(), 1);
    }
}
