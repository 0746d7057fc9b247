//! [`ConnTable`]: the connections of a core, with their deadlines and their peers; [`ConnEntry`]: one of them.
//!
//! A tokio timer costs a queue operation for each request, and a wake-up of the core when it is the next to fire. A
//! deadline in this table is one number, and a task of the core scans the table four times a second. A stop and the
//! eviction of idle connections reach all of them through the same table.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use super::Ticker;
use super::timer::{Deadline, Deadlines, LazySleep, SLOTS, Timer, TimerSlot, millis};
use crate::net::{Life, Peer, PeerAddr, Traffic};

/// The connections of one core, each of which has an entry until it is closed. So has a handler with a time limit.
pub(crate) struct ConnTable {
    /// The clock in milliseconds. Only [`ConnTable::sweep`] advances it, so that a core which was held up does not
    /// time out its connections for that.
    now: Cell<u64>,
    entries: RefCell<Entries>,
    /// Whether a stop has been ordered, so that each response is the last one of its connection.
    stop_ordered: Cell<bool>,
    /// Whether the server stops: its delay is over, and idle connections are closed.
    stopping: Cell<bool>,
    /// Rare states of connections, by the numbers of their entries. Empty, and without memory, until there is one: an entry
    /// has no room for what few connections have.
    rare_states: RefCell<Vec<Option<Rc<dyn Any>>>>,
    /// The idle connections that are to close.
    eviction: Cell<Eviction>,
    /// Notified when a connection comes.
    on_occupied: Notify,
    /// Notified when the last connection goes.
    on_emptied: Notify,
    /// Notified when the server stops.
    on_stopping: Notify,
    mode: Cell<Mode>,
}

/// A table in pages that never move. A table that grows by doubling would be up to half unused, and every connection
/// has an entry.
#[derive(Default)]
struct Entries {
    pages: Vec<Page>,
    free: Vec<u32>,
}

struct Page {
    /// A lower bound of all deadlines in this page. With it a sweep can skip the page; looking at every entry would
    /// hold up a core that has many connections.
    earliest: Deadline,
    entries: Box<[EntryState; PAGE]>,
    /// The life of each connection, once one of them is noted.
    lives: Option<Box<[Life; PAGE]>>,
}

const PAGE: usize = 64;

#[derive(Default)]
struct EntryState {
    /// Rarely needed, so the peer is in the table, which is packed, and not in the connection's task, whose size is
    /// rounded up.
    peer: Peer,
    deadlines: Deadlines,
    waker: Option<Waker>,
    /// Used only in [`Mode::Sleeps`].
    sleep: LazySleep,
}

/// Idle connections that are to close for others: `count` of those whose reads time out by `until`.
#[derive(Clone, Copy, Default)]
struct Eviction {
    until: Deadline,
    count: usize,
}

/// How expired deadlines are found.
#[derive(Clone, Copy)]
enum Mode {
    /// A task of the core calls [`ConnTable::tick`] in an endless loop.
    Swept,
    /// Each connection has a tokio timer, as on runtimes that this crate did not start, and from a stop on.
    Sleeps { epoch: Instant },
}

impl ConnTable {
    /// A table for a core on which a task calls [`ConnTable::tick`] in an endless loop.
    pub(crate) fn with_sweep() -> Rc<ConnTable> {
        ConnTable::new(Mode::Swept)
    }

    /// A table for any other runtime.
    pub(crate) fn with_sleeps() -> Rc<ConnTable> {
        ConnTable::new(Mode::Sleeps { epoch: Instant::now() })
    }

    fn new(mode: Mode) -> Rc<ConnTable> {
        Rc::new(ConnTable {
            now: Cell::new(0),
            entries: RefCell::default(),
            stop_ordered: Cell::new(false),
            stopping: Cell::new(false),
            rare_states: RefCell::default(),
            eviction: Cell::default(),
            on_occupied: Notify::new(),
            on_emptied: Notify::new(),
            on_stopping: Notify::new(),
            mode: Cell::new(mode),
        })
    }

    /// Adds a connection or a handler to the table, until the entry is dropped.
    pub(crate) fn add(self: &Rc<ConnTable>, peer: Peer) -> ConnEntry {
        let mut entries = self.entries.borrow_mut();
        let entry = entries.take();
        entries.at(entry).peer = peer;
        drop(entries);
        self.on_occupied.notify_one();
        ConnEntry { table: self.clone(), entry, armed: [false; SLOTS] }
    }

    /// How many connections are in the table.
    fn len(&self) -> usize {
        self.entries.borrow().len()
    }

    /// Waits until there is a connection.
    pub(crate) async fn occupied(&self) {
        while self.len() == 0 {
            self.on_occupied.notified().await;
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
            self.on_emptied.notified().await;
        }
    }

    /// Makes each response the last one of its connection from here on.
    pub(crate) fn order_stop(&self) {
        self.stop_ordered.set(true);
    }

    /// Stops, since the delay of the stop is over: wakes all connections, which then check [`ConnTable::is_stopping`]. Waits
    /// end in time from here on, since the graces of a stop are shorter than a tick.
    pub(crate) fn stop(&self) {
        self.order_stop();
        self.stopping.set(true);
        if let Mode::Swept = self.mode.get() {
            let now = Instant::now();
            let age = Duration::from_millis(self.now.get());
            self.mode.set(Mode::Sleeps { epoch: now.checked_sub(age).unwrap_or(now) });
        }
        self.on_stopping.notify_waiters();
        let all = waiting_wakers(self.entries.borrow().iter());
        all.into_iter().for_each(Waker::wake);
    }

    pub(crate) fn is_stop_ordered(&self) -> bool {
        self.stop_ordered.get()
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.get()
    }

    /// Waits until [`ConnTable::stop`] is called.
    pub(crate) async fn stopping(&self) {
        while !self.is_stopping() {
            self.on_stopping.notified().await;
        }
    }

    /// Wakes the `count` connections whose reads time out next, which have been silent for longest. They then find by
    /// [`ConnEntry::take_eviction`] that they are to close, and those that are busy do not look.
    pub(crate) fn evict_idle(&self, count: usize) {
        let mut entries = self.entries.borrow_mut();
        let reads = (0..).zip(entries.iter()).map(|(at, entry)| (entry.deadlines.get(TimerSlot::Read), at));
        let mut reads = Vec::from_iter(reads.filter(|(deadline, _)| *deadline != Deadline::default()));
        let count = count.min(reads.len());
        let Some(last) = count.checked_sub(1) else { return };
        let (_, (until, _), _) = reads.select_nth_unstable(last);
        self.eviction.set(Eviction { until: *until, count });
        let wakers = reads[..count].iter().filter_map(|(_, at)| entries.at(*at).waker.clone());
        let wakers = Vec::from_iter(wakers);
        drop(entries);
        wakers.into_iter().for_each(Waker::wake);
    }

    fn sweep(&self) {
        let last = self.now.get();
        self.now.set(last + millis(TICK));
        let due = waiting_wakers(self.entries.borrow_mut().due(Deadline(last), Deadline(self.now.get())));
        due.into_iter().for_each(Waker::wake);
    }

    fn now(&self) -> u64 {
        match self.mode.get() {
            Mode::Swept => self.now.get(),
            Mode::Sleeps { epoch } => millis(epoch.elapsed()),
        }
    }

    /// The deadline of a wait that begins `now`. A wait never expires early, and up to two ticks late if the table is
    /// swept.
    fn deadline(&self, now: Deadline, limit: Duration) -> Deadline {
        let slack = match self.mode.get() {
            Mode::Swept => millis(TICK),
            Mode::Sleeps { .. } => 0,
        };
        Deadline(now.0.saturating_add(slack).saturating_add(millis(limit)))
    }
}

/// The wakers in `entries`. The caller wakes them once the table is no longer borrowed: a waker of another runtime may
/// do anything, such as poll a connection at once, or drop one.
fn waiting_wakers<'a>(entries: impl Iterator<Item = &'a EntryState>) -> Vec<Waker> {
    entries.filter_map(|entry| entry.waker.clone()).collect()
}

/// How often the table is swept.
pub(crate) const TICK: Duration = Duration::from_millis(250);

impl Entries {
    fn take(&mut self) -> u32 {
        if self.free.is_empty() {
            let first = self.pages.len() * PAGE;
            let page = first..first + PAGE;
            self.free
                .extend(page.rev().map(|entry| u32::try_from(entry).expect("a core has fewer connections")));
            let entries = Box::new(std::array::from_fn(|_| EntryState::default()));
            self.pages.push(Page { earliest: Deadline::default(), entries, lives: None });
        }
        let entry = self.free.pop().expect("a page was added");
        debug_assert!(
            (entry as usize) < self.pages.len() * PAGE && self.at(entry).waker.is_none(),
            "a free entry is reset"
        );
        entry
    }

    #[inline]
    fn at(&mut self, entry: u32) -> &mut EntryState {
        &mut self.pages[entry as usize / PAGE].entries[entry as usize % PAGE]
    }

    /// The life of this entry's connection, if lives of its page are noted.
    fn life(&mut self, entry: u32) -> Option<&mut Life> {
        let lives = self.pages[entry as usize / PAGE].lives.as_mut()?;
        Some(&mut lives[entry as usize % PAGE])
    }

    /// Begins the wait in this slot, unless it has begun. Returns its deadline.
    #[inline]
    fn arm(&mut self, entry: u32, slot: TimerSlot, deadline: impl FnOnce() -> Deadline) -> Deadline {
        let page = &mut self.pages[entry as usize / PAGE];
        let deadline = page.entries[entry as usize % PAGE].deadlines.arm(slot, deadline);
        page.earliest = page.earliest.min(deadline);
        deadline
    }

    fn iter(&self) -> impl Iterator<Item = &EntryState> {
        self.pages.iter().flat_map(|page| page.entries.iter())
    }

    /// The entries in which a wait has expired since `last`. A task may no longer wait for a deadline that expired
    /// before.
    fn due(&mut self, last: Deadline, now: Deadline) -> impl Iterator<Item = &EntryState> {
        let pages = self.pages.iter_mut().filter(move |page| page.earliest <= now);
        let entries = pages.flat_map(move |page| page.scanned(now));
        entries.filter(move |entry| entry.deadlines.next(last) <= now)
    }

    /// How many entries are taken.
    fn len(&self) -> usize {
        self.pages.len() * PAGE - self.free.len()
    }
}

impl Page {
    /// Computes the earliest deadline after `now` again, since waits may have ended, and returns the entries.
    fn scanned(&mut self, now: Deadline) -> impl Iterator<Item = &EntryState> {
        self.earliest = self.entries.iter().map(|entry| entry.deadlines.next(now)).min().unwrap_or_default();
        self.entries.iter()
    }
}

/// The entry of one connection: the [`Timer`] for its waits, and its peer, its life and its rare state. Frees its place in
/// the table when it is dropped.
pub(crate) struct ConnEntry {
    table: Rc<ConnTable>,
    entry: u32,
    /// The slots in which a wait may have begun. Most waits never begin, and then the table need not be touched.
    armed: [bool; SLOTS],
}

impl Timer for ConnEntry {
    /// The task is also woken by [`ConnTable::stop`].
    // Not inlined, since many places may have to wait, and few do.
    #[inline(never)]
    fn poll_timeout(&mut self, cx: &mut Context<'_>, slot: TimerSlot, limit: Duration) -> Poll<()> {
        self.armed[slot as usize] = true;
        let now = Deadline(self.table.now());
        let mut entries = self.table.entries.borrow_mut();
        if entries.arm(self.entry, slot, || self.table.deadline(now, limit)) <= now {
            return Poll::Ready(());
        }
        let entry = entries.at(self.entry);
        let is_known = entry.waker.as_ref().is_some_and(|waker| waker.will_wake(cx.waker()));
        let replaced = if is_known { None } else { entry.waker.replace(cx.waker().clone()) };
        let sleep = match self.table.mode.get() {
            Mode::Swept => None,
            Mode::Sleeps { epoch } => {
                let next = entry.deadlines.next(now);
                (!is_known || !entry.sleep.is_set(next)).then_some((epoch, next))
            }
        };
        // The drop of a task's last waker drops the task, and with it perhaps another connection, which borrows the
        // table.
        drop(entries);
        drop(replaced);
        if let Some((epoch, next)) = sleep {
            self.set_sleep(cx, epoch, next);
        }
        Poll::Pending
    }

    #[inline(never)]
    fn other_waker(&self, waker: &Waker) -> Option<Waker> {
        let mut entries = self.table.entries.borrow_mut();
        entries.at(self.entry).waker.as_ref().filter(|known| !known.will_wake(waker)).cloned()
    }

    #[inline]
    fn disarm(&mut self, slot: TimerSlot) {
        if std::mem::take(&mut self.armed[slot as usize]) {
            self.end_wait(slot);
        }
    }

    /// The clock of a swept table stands still while the core is held up.
    fn now(&self) -> u64 {
        self.table.now()
    }
}

impl ConnEntry {
    /// Ends a wait that has begun. A separate function, since most waits have not.
    #[inline(never)]
    fn end_wait(&self, slot: TimerSlot) {
        self.table.entries.borrow_mut().at(self.entry).deadlines.disarm(slot);
    }

    /// Sets the tokio timer while it is out of the table, since its old waker is dropped, which may do anything.
    #[inline(never)]
    fn set_sleep(&self, cx: &mut Context<'_>, epoch: Instant, next: Deadline) {
        let mut sleep = std::mem::take(&mut self.table.entries.borrow_mut().at(self.entry).sleep);
        sleep.set(cx, epoch, next);
        self.table.entries.borrow_mut().at(self.entry).sleep = sleep;
    }

    /// Whether there is a wait in this slot.
    #[inline]
    pub(in crate::net) fn is_armed(&self, slot: TimerSlot) -> bool {
        self.armed[slot as usize]
    }

    /// How long the wait in this slot, which may take `limit`, has lasted at least. It has lasted up to two ticks longer
    /// if the table was swept when the wait began.
    pub(crate) fn waited(&self, slot: TimerSlot, limit: Duration) -> Duration {
        let deadline = self.table.entries.borrow_mut().at(self.entry).deadlines.get(slot);
        let began_now = self.table.now().saturating_add(millis(limit));
        Duration::from_millis(began_now.saturating_sub(deadline.0))
    }

    /// Whether connections that are idle are to close for others. Looked at after each exchange, unlike the rest.
    #[inline]
    pub(crate) fn needs_room(&self) -> bool {
        self.table.eviction.get().count > 0
    }

    /// Whether the connection, which is idle, is to close for another one, as [`ConnTable::evict_idle`] has it.
    pub(crate) fn take_eviction(&self) -> bool {
        let Eviction { until, count } = self.table.eviction.get();
        let is_old =
            || self.table.entries.borrow_mut().at(self.entry).deadlines.get(TimerSlot::Read) <= until;
        let is_evicted = count > 0 && is_old();
        self.table.eviction.set(Eviction { until, count: count - usize::from(is_evicted) });
        is_evicted
    }

    pub(crate) fn set_peer_addr(&self, addr: PeerAddr) {
        self.table.entries.borrow_mut().at(self.entry).peer.addr = addr;
    }

    /// The values that were set last, until the entry is dropped.
    pub(crate) fn rare_state(&self) -> Option<Rc<dyn Any>> {
        self.table.rare_states.borrow().get(self.entry as usize)?.clone()
    }

    pub(crate) fn set_rare_state(&self, rare_state: Rc<dyn Any>) {
        let mut all = self.table.rare_states.borrow_mut();
        let index = self.entry as usize;
        if all.len() <= index {
            all.resize(index + 1, None);
        }
        let replaced = all[index].replace(rare_state);
        drop(all);
        // The drop of a value may do anything, as that of a waker.
        drop(replaced);
    }

    /// Notes the life of the connection until the entry is dropped.
    pub(crate) fn set_life(&self, life: Life) {
        let mut entries = self.table.entries.borrow_mut();
        let lives = &mut entries.pages[self.entry as usize / PAGE].lives;
        lives.get_or_insert_with(|| Box::new([Life::default(); PAGE]))[self.entry as usize % PAGE] = life;
    }

    /// Adds to the bytes of a life that is noted.
    pub(crate) fn add_traffic(&self, more: Traffic) {
        if let Some(life) = self.table.entries.borrow_mut().life(self.entry) {
            life.add(more);
        }
    }

    pub(crate) fn life(&self) -> Life {
        self.table.entries.borrow_mut().life(self.entry).copied().unwrap_or_default()
    }

    #[inline]
    pub(crate) fn peer(&self) -> Peer {
        self.table.entries.borrow_mut().at(self.entry).peer
    }

    pub(crate) fn is_stop_ordered(&self) -> bool {
        self.table.is_stop_ordered()
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.table.is_stopping()
    }
}

impl Drop for ConnEntry {
    fn drop(&mut self) {
        let mut entries = self.table.entries.borrow_mut();
        let left = std::mem::take(entries.at(self.entry));
        debug_assert!(entries.len() > 0, "an entry is freed once");
        if let Some(life) = entries.life(self.entry) {
            *life = Life::default();
        }
        entries.free.push(self.entry);
        let is_last = entries.len() == 0;
        drop(entries);
        let rare_state =
            self.table.rare_states.borrow_mut().get_mut(self.entry as usize).and_then(Option::take);
        if is_last {
            self.table.on_emptied.notify_one();
        }
        drop(left);
        // The application's state may panic when it is dropped, and this may be during another panic.
        let _ = catch_unwind(AssertUnwindSafe(|| drop(rare_state)));
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
        static SHARED: RefCell<Option<Rc<ConnTable>>> = const { RefCell::new(None) };
        /// How often the table was borrowed when a waker was woken or dropped.
        static LOCKED_OUT: Cell<usize> = const { Cell::new(0) };
    }

    /// A waker of another runtime, which may use the table at once by polling or dropping a connection.
    struct Foreign;

    impl Foreign {
        fn come_back() {
            let table = SHARED.with_borrow(Option::clone).expect("the test shares it");
            // A panic would be lost, as tokio catches panics of wakers that its timers drop.
            LOCKED_OUT.set(LOCKED_OUT.get() + usize::from(table.entries.try_borrow_mut().is_err()));
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
        for table in [ConnTable::with_sweep(), ConnTable::with_sleeps()] {
            SHARED.set(Some(table.clone()));
            let mut timer = table.add(Peer::default());
            // Only the table has this waker, so that the next one drops it.
            let mut poll = || {
                let waker = Waker::from(Arc::new(Foreign));
                timer.poll_timeout(&mut Context::from_waker(&waker), TimerSlot::Read, limit)
            };
            assert!(poll().is_pending() && poll().is_pending());
            table.stop();
            tokio::time::advance(2 * limit).await;
            (0..2 * limit.as_millis() / TICK.as_millis()).for_each(|_| table.sweep());
            assert!(poll().is_ready());
            drop(timer);
            assert_eq!((table.len(), LOCKED_OUT.get()), (0, 0));
        }
    }

    /// A waker that notes its wake.
    #[derive(Default)]
    struct Bell(AtomicBool);

    impl Wake for Bell {
        fn wake(self: Arc<Bell>) {
            self.0.store(true, Relaxed);
        }
    }

    /// A deadline that has expired must not wake its handler again at every tick.
    #[test]
    fn a_sweep_wakes_all_that_are_due_once_and_no_others() {
        let table = ConnTable::with_sweep();
        let wait = |_| (table.add(Peer::default()), Arc::new(Bell::default()), usize::MAX);
        let mut waits: Vec<_> = (0..3 * PAGE).map(wait).collect();
        for tick in 0..200 {
            for (at, (timer, bell, due)) in waits.iter_mut().enumerate() {
                if (at + tick * tick) % 37 == 0 {
                    let ticks = at * tick % 50;
                    timer.disarm(TimerSlot::Read);
                    let waker = Waker::from(bell.clone());
                    let limit = TICK * ticks as u32;
                    let polled = timer.poll_timeout(&mut Context::from_waker(&waker), TimerSlot::Read, limit);
                    assert!(polled.is_pending());
                    *due = tick + ticks;
                }
            }
            table.sweep();
            for (at, (_, bell, due)) in waits.iter().enumerate() {
                assert_eq!(bell.0.swap(false, Relaxed), *due == tick, "{at}, {tick}");
            }
        }
    }

    async fn expired_after(table: &Rc<ConnTable>, slot: TimerSlot, limit: Duration) -> Duration {
        let mut timer = table.add(Peer::default());
        let start = Instant::now();
        poll_fn(|cx| timer.poll_timeout(cx, slot, limit)).await;
        start.elapsed()
    }

    #[tokio::test(start_paused = true)]
    async fn a_swept_deadline_is_never_early_and_at_most_two_ticks_late() {
        let table = ConnTable::with_sweep();
        for limit in [1, 100, 250, 900, 60_000].map(Duration::from_millis) {
            let mut ticker = Ticker::default();
            let waited = tokio::select! {
                waited = expired_after(&table, TimerSlot::Read, limit) => waited,
                () = async { loop { _ = table.tick(&mut ticker).await } } => unreachable!("it ticks for ever"),
            };
            assert!(waited >= limit && waited <= limit + 2 * TICK, "{limit:?} took {waited:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_sleep_ends_when_it_should() {
        let table = ConnTable::with_sleeps();
        for limit in [1, 100, 250, 900, 60_000].map(Duration::from_millis) {
            let waited = expired_after(&table, TimerSlot::Write, limit).await;
            assert!(
                waited >= limit && waited <= limit + Duration::from_millis(3),
                "{limit:?} took {waited:?}"
            );
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_disarmed_wait_begins_anew_and_slots_are_independent() {
        let table = ConnTable::with_sleeps();
        let mut timer = table.add(Peer::default());
        let start = Instant::now();
        let limit = Duration::from_secs(1);
        for _ in 0..5 {
            poll_fn(|cx| {
                assert!(timer.poll_timeout(cx, TimerSlot::Read, limit).is_pending());
                assert!(timer.poll_timeout(cx, TimerSlot::Write, Duration::MAX).is_pending());
                Poll::Ready(())
            })
            .await;
            tokio::time::sleep(limit * 9 / 10).await;
            timer.disarm(TimerSlot::Read);
        }
        poll_fn(|cx| timer.poll_timeout(cx, TimerSlot::Read, limit)).await;
        assert!(start.elapsed() >= limit * 55 / 10);
    }

    #[tokio::test]
    async fn stopping_wakes_the_waiting_and_entries_are_reused() {
        let table = ConnTable::with_sweep();
        let mut timer = table.add(Peer::default());
        let wait = poll_fn(|cx| match timer.is_stopping() {
            true => Poll::Ready(()),
            false => timer.poll_timeout(cx, TimerSlot::Read, Duration::MAX),
        });
        tokio::join!(wait, async { table.stop() });
        drop(timer);
        assert_eq!(table.len(), 0);
        drop((table.add(Peer::default()), table.add(Peer::default())));
        assert_eq!(table.entries.borrow().pages.len(), 1);
    }
}
