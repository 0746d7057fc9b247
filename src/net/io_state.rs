//! [`IoState`]: what a connection needs only while it is busy: its write buffer, counts of bytes, whether its peer takes what
//! is written ([`WriteProgress`]), and who waits for it ([`WakerSet`]).
//!
//! A runtime reports room in a socket's buffer once a third of it is free, for which a slow peer has to read megabytes.
//! The system itself takes more as soon as the peer has acknowledged anything. So the wait has parts, and each of them
//! ends with another write.

use std::mem;
use std::sync::{Arc, Mutex};
use std::task::{Wake, Waker};
use std::time::Duration;

use super::WriteBuffer;
use crate::memory::{Reset, clear_cold, lock};

/// What a connection needs only while it is busy.
#[derive(Default)]
pub(crate) struct IoState {
    pub(super) write_buffer: WriteBuffer,
    pub(super) traffic: Traffic,
    /// Whether a write failed because the peer reset the connection.
    pub(super) is_reset: bool,
    /// Whether a flush of the transport is waited for.
    pub(super) is_flushing: bool,
    /// Whether a handler may have the connection, and parts of it wait with different wakers.
    pub(super) is_shared: bool,
    /// Those who wait, if they have different wakers.
    pub(super) wakers: Option<Arc<WakerSet>>,
    /// How many bytes were sent before those of `traffic`.
    pub(super) sent_before: u64,
    /// Whether the peer takes what is written.
    pub(super) progress: WriteProgress,
}

/// How many bytes went through a connection.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Traffic {
    pub(crate) received: u64,
    pub(crate) sent: u64,
}

impl Reset for IoState {
    fn reset(&mut self) {
        let IoState {
            write_buffer,
            traffic,
            is_reset,
            is_flushing,
            is_shared,
            wakers,
            sent_before,
            progress,
        } = self;
        (*is_reset, *is_flushing, *is_shared) = (false, false, false);
        clear_cold(wakers);
        write_buffer.reset();
        *sent_before = 0;
        *traffic = Traffic::default();
        *progress = WriteProgress::default();
    }

    fn shrink(&mut self) {
        self.write_buffer.shrink();
    }
}

/// Whether the peer takes what is written, as far as that is known when a write has waited for long.
#[derive(Default)]
pub(super) struct WriteProgress {
    wait: Option<Wait>,
    /// How many bytes the peer had taken when the time of a wait was over last.
    taken: u64,
}

/// A wait for the peer to take more.
struct Wait {
    /// When it began, in milliseconds on the clock of the connection.
    since: u64,
    /// Whether its time is over with the part that has begun.
    is_last: bool,
}

impl WriteProgress {
    /// Ends the wait, because the peer has taken something.
    #[inline]
    pub(super) fn end_wait(&mut self) {
        self.wait = None;
    }

    /// Begins the next part of the wait, `now`. Returns how long it may take, of `limit` in all.
    pub(super) fn begin_part(&mut self, now: u64, limit: Duration) -> Duration {
        let wait = self.wait.get_or_insert(Wait { since: now, is_last: false });
        let left = limit.saturating_sub(Duration::from_millis(now.saturating_sub(wait.since)));
        let part = left.min(limit / PARTS);
        wait.is_last = left == part;
        part
    }

    /// Whether a part of a wait has begun.
    pub(super) fn is_waiting(&self) -> bool {
        self.wait.is_some()
    }

    /// Whether the wait goes on behind a part in which the peer, which has taken `taken` bytes in all, took nothing. A
    /// peer that has taken much since a limit was reached last has the limit once more: some read a lot at once and pause
    /// then, such as `curl --limit-rate` for up to 100 s.
    pub(super) fn goes_on(&mut self, taken: u64) -> bool {
        if self.wait.as_ref().is_some_and(|wait| !wait.is_last) {
            return true;
        }
        let has_taken_much = taken.saturating_sub(self.taken) >= BURST;
        if has_taken_much {
            (self.wait, self.taken) = (None, taken);
        }
        has_taken_much
    }
}

/// A peer that takes nothing any more is given up at the end of the limit if it has taken nothing since the wait began,
/// and up to a part later otherwise. With more parts, that would be sooner.
const PARTS: u32 = 4;

/// More than a peer that has never read holds in its buffer.
const BURST: u64 = 256 << 10;

/// Wakes all who wait for one connection.
///
/// A socket and a deadline table know one waker each, that of whoever asked last, and as a rule all who ask are one task. But a
/// handler may poll its parts with wakers of their own, as `FuturesUnordered` does, and while it waits, the server sends
/// what it has written. Then whoever was not the last to ask would wait for ever.
#[derive(Default)]
pub(super) struct WakerSet(Mutex<Vec<Waker>>);

impl WakerSet {
    /// Adds `waker`, and returns the one that wakes all, to wait with instead; `None` if `waker` is that one.
    #[cold]
    pub(super) fn register(self: &Arc<WakerSet>, waker: &Waker) -> Option<Waker> {
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
        // Somebody makes a waker for each poll. Nobody waits in vain if all are woken now.
        let stale = if waiting.len() < WAKERS_MAX { Vec::new() } else { mem::take(&mut *waiting) };
        waiting.push(waker.clone());
        drop(waiting);
        stale.into_iter().for_each(Waker::wake);
    }
}

impl Wake for WakerSet {
    fn wake(self: Arc<WakerSet>) {
        let waiting = mem::take(&mut *lock(&self.0));
        waiting.into_iter().for_each(Waker::wake);
    }
}

/// More than a handler has parts: if more wait, such as for the peer to leave, they wake each other for ever.
const WAKERS_MAX: usize = 1024;

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    /// The parts of a wait with this `limit`, in milliseconds, if each is noticed so `late`, and `taken` bytes in all.
    #[track_caller]
    fn check_parts(limit: u64, late: u64, taken: u64, expected: &[u64]) {
        let (mut progress, mut now, mut parts) = (WriteProgress::default(), 7, Vec::new());
        loop {
            let part = progress.begin_part(now, Duration::from_millis(limit)).as_millis() as u64;
            parts.push(part);
            now += part + late;
            if !progress.goes_on(taken) {
                break;
            }
        }
        assert_eq!(parts, expected);
    }

    #[test]
    fn a_wait_ends_with_its_last_part() {
        check_parts(60_000, 0, 0, &[15_000; 4]);
        check_parts(60_000, 500, 0, &[15_000, 15_000, 15_000, 13_500]);
        check_parts(1_000, 300, 0, &[250, 250, 0]);
        check_parts(0, 0, 0, &[0]);
        assert_eq!(WriteProgress::default().begin_part(0, Duration::MAX), Duration::MAX / PARTS);
    }

    #[test]
    fn a_peer_that_has_taken_much_is_granted_the_limit_once_more() {
        check_parts(4_000, 0, BURST - 1, &[1_000; 4]);
        check_parts(4_000, 0, BURST, &[1_000; 8]);
        check_parts(4_000, 0, u64::MAX, &[1_000; 8]);
    }

    #[derive(Default)]
    struct Count(AtomicUsize);

    impl Wake for Count {
        fn wake(self: Arc<Count>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    #[test]
    fn all_who_have_joined_are_woken_once() {
        let (set, counts) = (Arc::new(WakerSet::default()), [(); 3].map(|()| Arc::new(Count::default())));
        let woken = || counts.each_ref().map(|count| count.0.load(Ordering::SeqCst));
        let wakers = counts.clone().map(Waker::from);
        let all = set.register(&wakers[0]).expect("the waker of all");
        set.register(&wakers[1]);
        set.register(&wakers[1]);
        // What waits for all is no further one.
        assert!(set.register(&all).is_none());
        all.wake_by_ref();
        assert_eq!(woken(), [1, 1, 0]);
        set.register(&wakers[2]);
        all.wake_by_ref();
        assert_eq!(woken(), [1, 1, 1]);
    }

    /// More than sixteen once were, as if all but the last had been of earlier polls.
    #[test]
    fn many_who_wait_are_not_woken_by_each_other() {
        let (set, counts) = (Arc::new(WakerSet::default()), [(); 500].map(|()| Arc::new(Count::default())));
        for count in counts.iter().chain(&counts) {
            set.register(&count.clone().into());
        }
        assert!(counts.iter().all(|count| count.0.load(Ordering::SeqCst) == 0));
        set.wake();
        assert!(counts.iter().all(|count| count.0.load(Ordering::SeqCst) == 1));
    }

    #[test]
    fn a_waker_for_each_poll_does_not_fill_the_memory() {
        let (set, first) = (Arc::new(WakerSet::default()), Arc::new(Count::default()));
        set.register(&first.clone().into());
        for _ in 0..WAKERS_MAX + 9 {
            set.register(&Waker::from(Arc::new(Count::default())));
        }
        assert!(lock(&set.0).len() <= WAKERS_MAX);
        assert_eq!(first.0.load(Ordering::SeqCst), 1);
    }
}
