//! [`IoState`]: the state that a connection needs only while it is busy: its write buffer, counts of bytes, the
//! progress of its writes ([`WriteProgress`]), and the wakers of its tasks ([`TaskWakers`], [`WakerSet`]).
//!
//! A runtime reports space in a socket's buffer once a third of it is free. For that, a slow peer has to read
//! megabytes. The kernel itself takes more once the peer has acknowledged anything. So the wait for space has slices,
//! and each slice ends with another write.

use std::mem;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex};
use std::task::{Wake, Waker};
use std::time::Duration;

use super::WriteBuffer;
use crate::memory::{Reset, clear_cold, lock};

/// The state that a connection needs only while it is busy.
#[derive(Default)]
pub(crate) struct IoState {
    pub(super) write_buffer: WriteBuffer,
    pub(super) traffic: Traffic,
    /// Whether a write failed because the peer reset the connection.
    pub(super) is_reset: bool,
    /// Whether a flush of the transport is pending.
    pub(super) is_flushing: bool,
    pub(super) wakers: TaskWakers,
    /// How many bytes were received and sent before those of `traffic`.
    pub(super) before: Traffic,
    /// Whether the peer takes the bytes that are written.
    pub(super) progress: WriteProgress,
    /// The totals that this state adds its traffic to when it is dropped. A server has none.
    totals: Option<Arc<TrafficTotals>>,
}

impl IoState {
    /// Creates the state of a connection whose traffic is added to `totals` if the connection is dropped while it is busy.
    pub(crate) fn with_totals(totals: Arc<TrafficTotals>) -> IoState {
        let mut io_state = IoState::default();
        io_state.totals = Some(totals);
        io_state
    }

    /// The bytes received and sent since the last reset.
    pub(crate) fn total_traffic(&self) -> Traffic {
        let IoState { traffic, before, .. } = self;
        Traffic { received: before.received + traffic.received, sent: before.sent + traffic.sent }
    }
}

impl Drop for IoState {
    fn drop(&mut self) {
        if let Some(totals) = &self.totals {
            totals.add(self.total_traffic());
        }
    }
}

/// How many bytes went through a connection.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Traffic {
    pub(crate) received: u64,
    pub(crate) sent: u64,
}

/// The life of a connection so far, in 16 bytes, since there may be many connections: when it opened, in tenths of a
/// millisecond, and how many bytes it has received and sent, up to 16 TiB each.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Life(u128);

impl Life {
    /// The life of a connection that opens at this time.
    pub(crate) fn new(opened_at: u64) -> Life {
        Life((u128::from(opened_at) + 1).min(OPENED_AT_MAX) << (2 * COUNT_BITS))
    }

    /// When the connection opened; `None` if it has not, or if its life is not noted.
    pub(crate) fn opened_at(self) -> Option<u64> {
        ((self.0 >> (2 * COUNT_BITS)) as u64).checked_sub(1)
    }

    pub(crate) fn traffic(self) -> Traffic {
        let count = |shift: u32| ((self.0 >> shift) & COUNT_MAX) as u64;
        Traffic { received: count(COUNT_BITS), sent: count(0) }
    }

    pub(super) fn add(&mut self, more: Traffic) {
        let Traffic { received, sent } = self.traffic();
        let sum = |one: u64, other: u64| (u128::from(one) + u128::from(other)).min(COUNT_MAX);
        let opened_at = self.0 >> (2 * COUNT_BITS) << (2 * COUNT_BITS);
        self.0 = opened_at | sum(received, more.received) << COUNT_BITS | sum(sent, more.sent);
    }
}

const COUNT_BITS: u32 = 44;
const COUNT_MAX: u128 = (1 << COUNT_BITS) - 1;
const OPENED_AT_MAX: u128 = (1 << (u128::BITS - 2 * COUNT_BITS)) - 1;

/// How many bytes went through several connections.
#[derive(Debug, Default)]
pub(crate) struct TrafficTotals {
    received: AtomicU64,
    sent: AtomicU64,
}

impl TrafficTotals {
    fn add(&self, traffic: Traffic) {
        self.received.fetch_add(traffic.received, Relaxed);
        self.sent.fetch_add(traffic.sent, Relaxed);
    }

    pub(crate) fn get(&self) -> Traffic {
        Traffic { received: self.received.load(Relaxed), sent: self.sent.load(Relaxed) }
    }
}

impl Reset for IoState {
    fn reset(&mut self) {
        let IoState { write_buffer, traffic, is_reset, is_flushing, wakers, before, progress, totals: _ } =
            self;
        (*is_reset, *is_flushing) = (false, false);
        wakers.reset();
        write_buffer.reset();
        (*before, *traffic) = Default::default();
        *progress = WriteProgress::default();
    }

    fn shrink(&mut self) -> usize {
        size_of::<IoState>() + self.write_buffer.shrink()
    }
}

/// The wakers of the tasks that wait for a connection.
#[derive(Default)]
pub(super) struct TaskWakers {
    /// Whether a handler may use the connection, whose parts may wait with different wakers.
    pub(super) is_shared: bool,
    /// All of them, if there are several.
    pub(super) all: Option<Arc<WakerSet>>,
    /// The one of the last wait for the end of the peer.
    end: Option<Waker>,
}

impl TaskWakers {
    /// Notes a wait for the end of the peer.
    pub(super) fn note_end(&mut self, waker: &Waker) {
        match &mut self.end {
            Some(end) => end.clone_from(waker),
            None => self.end = Some(waker.clone()),
        }
    }

    /// The waker of the last wait for the end of the peer, if it is not `waker`.
    pub(super) fn other_end(&self, waker: &Waker) -> Option<Waker> {
        self.end.as_ref().filter(|known| !known.will_wake(waker)).cloned()
    }

    fn reset(&mut self) {
        self.is_shared = false;
        clear_cold(&mut self.all);
        clear_cold(&mut self.end);
    }
}

/// Whether the peer has taken bytes while a write has waited for long.
#[derive(Default)]
pub(super) struct WriteProgress {
    wait: Option<WriteWait>,
    /// How many bytes the peer had taken when a wait last reached its limit.
    taken: u64,
    /// Whether the kernel has taken bytes before the runtime noticed space, and may take more at once. If each piece
    /// waited for a slice of its own, a peer that takes nothing would be given a slice for each piece that the send buffer
    /// still holds, and one that reads slowly would be sent a piece for each slice.
    pub(super) fills_kernel: bool,
}

/// A wait for space in the send buffer.
struct WriteWait {
    /// The start of the wait, in milliseconds on the clock of the connection.
    since: u64,
    /// Whether the limit is reached at the end of the current slice.
    is_last_slice: bool,
}

impl WriteProgress {
    /// Ends the wait, because the peer has taken something.
    #[inline]
    pub(super) fn end_wait(&mut self) {
        self.wait = None;
    }

    /// Begins the next slice of the wait, `now`. Returns how long the slice may take, of `limit` in all.
    pub(super) fn begin_slice(&mut self, now: u64, limit: Duration) -> Duration {
        let wait = self.wait.get_or_insert(WriteWait { since: now, is_last_slice: false });
        let left = limit.saturating_sub(Duration::from_millis(now.saturating_sub(wait.since)));
        let slice = left.min(limit / SLICES);
        wait.is_last_slice = left == slice;
        slice
    }

    /// Whether a slice of a wait has begun.
    pub(super) fn is_waiting(&self) -> bool {
        self.wait.is_some()
    }

    /// Whether the wait goes on after a slice in which the peer, which has taken `taken` bytes in all, took nothing. A
    /// peer that has taken much since a limit was last reached has the limit once more: some peers read a lot at once
    /// and then pause, such as `curl --limit-rate` for up to 100 s.
    pub(super) fn goes_on(&mut self, taken: u64) -> bool {
        if self.wait.as_ref().is_some_and(|wait| !wait.is_last_slice) {
            return true;
        }
        let has_taken_much = taken.saturating_sub(self.taken) >= BURST;
        if has_taken_much {
            self.wait = None;
            self.taken = taken;
        }
        has_taken_much
    }
}

/// A peer that stops taking bytes is given up at the end of the limit if it has taken nothing since the wait began, and
/// up to a slice later otherwise.
const SLICES: u32 = 4;

/// More than a peer that has never read holds in its buffer.
const BURST: u64 = 256 << 10;

/// Wakes all tasks that wait for one connection.
///
/// A socket and a timer keep one waker each, that of the last poll, and as a rule all polls are of one task. But a handler
/// may poll its parts with wakers of their own, as `FuturesUnordered` does, while the server sends the bytes that it has
/// written; and the halves of a WebSocket or of a call may be in two tasks. Then all but the last to poll would wait for
/// ever.
#[derive(Default)]
pub(crate) struct WakerSet(Mutex<Vec<Waker>>);

impl WakerSet {
    /// Adds `waker`, and returns the waker of the set, to wait with instead; `None` if `waker` is that one.
    #[cold]
    pub(crate) fn register(self: &Arc<WakerSet>, waker: &Waker) -> Option<Waker> {
        let all = Waker::from(self.clone());
        // `will_wake` compares vtables as well, and a program may contain several for one type.
        if waker.data() == all.data() {
            return None;
        }
        self.add(waker);
        Some(all)
    }

    fn add(&self, waker: &Waker) {
        let mut waiting = lock(&self.0);
        if waiting.iter().any(|known| known.will_wake(waker)) {
            return;
        }
        // The handler seems to make a waker for each poll. All are woken, so that no task waits in vain.
        let stale = if waiting.len() < WAKERS_MAX { Vec::new() } else { mem::take(&mut *waiting) };
        waiting.push(waker.clone());
        drop(waiting);
        stale.into_iter().for_each(Waker::wake);
    }
}

impl Wake for WakerSet {
    fn wake(self: Arc<WakerSet>) {
        let mut waiting = mem::take(&mut *lock(&self.0));
        waiting.drain(..).for_each(Waker::wake);
        // The memory is kept, unless a task has registered again meanwhile.
        let mut again = lock(&self.0);
        if again.is_empty() {
            *again = waiting;
        }
    }
}

/// More than a handler has parts. If more tasks wait, such as for the peer to leave, they wake each other all the time.
const WAKERS_MAX: usize = 1024;

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    /// The slices of a wait with this `limit`, in milliseconds, if each is noticed so `late`, and `taken` bytes in all.
    #[track_caller]
    fn check_slices(limit: u64, late: u64, taken: u64, expected: &[u64]) {
        let mut progress = WriteProgress::default();
        let mut now = 7;
        let mut slices = Vec::new();
        loop {
            let slice = progress.begin_slice(now, Duration::from_millis(limit)).as_millis() as u64;
            slices.push(slice);
            now += slice + late;
            if !progress.goes_on(taken) {
                break;
            }
        }
        assert_eq!(slices, expected);
    }

    #[test]
    fn a_wait_ends_with_its_last_slice() {
        check_slices(60_000, 0, 0, &[15_000; 4]);
        check_slices(60_000, 500, 0, &[15_000, 15_000, 15_000, 13_500]);
        check_slices(1_000, 300, 0, &[250, 250, 0]);
        check_slices(0, 0, 0, &[0]);
        assert_eq!(WriteProgress::default().begin_slice(0, Duration::MAX), Duration::MAX / SLICES);
    }

    #[test]
    fn a_peer_that_has_taken_much_is_granted_the_limit_once_more() {
        check_slices(4_000, 0, BURST - 1, &[1_000; 4]);
        check_slices(4_000, 0, BURST, &[1_000; 8]);
        check_slices(4_000, 0, u64::MAX, &[1_000; 8]);
    }

    #[derive(Default)]
    struct Count(AtomicUsize);

    impl Wake for Count {
        fn wake(self: Arc<Count>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    #[test]
    fn all_registered_wakers_are_woken_once() {
        let set = Arc::new(WakerSet::default());
        let counts = [(); 3].map(|()| Arc::new(Count::default()));
        let woken = || counts.each_ref().map(|count| count.0.load(Ordering::SeqCst));
        let wakers = counts.clone().map(Waker::from);
        let all = set.register(&wakers[0]).expect("the waker of all");
        set.register(&wakers[1]);
        set.register(&wakers[1]);
        // The waker of the set itself is not added.
        assert!(set.register(&all).is_none());
        all.wake_by_ref();
        assert_eq!(woken(), [1, 1, 0]);
        set.register(&wakers[2]);
        all.wake_by_ref();
        assert_eq!(woken(), [1, 1, 1]);
    }

    /// Many tasks may wait at once, and none of them is taken for a waker of an earlier poll.
    #[test]
    fn many_wakers_do_not_wake_each_other() {
        let set = Arc::new(WakerSet::default());
        let counts = [(); 500].map(|()| Arc::new(Count::default()));
        for count in counts.iter().chain(&counts) {
            set.register(&count.clone().into());
        }
        assert!(counts.iter().all(|count| count.0.load(Ordering::SeqCst) == 0));
        set.wake();
        assert!(counts.iter().all(|count| count.0.load(Ordering::SeqCst) == 1));
    }

    #[test]
    fn a_waker_for_each_poll_does_not_fill_the_memory() {
        let set = Arc::new(WakerSet::default());
        let first = Arc::new(Count::default());
        set.register(&first.clone().into());
        for _ in 0..WAKERS_MAX + 9 {
            set.register(&Waker::from(Arc::new(Count::default())));
        }
        assert!(lock(&set.0).len() <= WAKERS_MAX);
        assert_eq!(first.0.load(Ordering::SeqCst), 1);
    }

    #[test]
    fn a_life_fits_in_16_bytes() {
        const MAX: u64 = (1 << COUNT_BITS) - 1;
        assert_eq!((size_of::<Life>(), Life::default().opened_at()), (16, None));
        for opened_at in [0, 1, 1 << 38] {
            let mut life = Life::new(opened_at);
            for (received, sent, expected) in
                [(3, 0, (3, 0)), (MAX - 4, 5, (MAX - 1, 5)), (u64::MAX, MAX, (MAX, MAX))]
            {
                life.add(Traffic { received, sent });
                let Traffic { received, sent } = life.traffic();
                assert_eq!((life.opened_at(), (received, sent)), (Some(opened_at), expected));
            }
        }
    }
}
