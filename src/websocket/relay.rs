//! [`Relays`]: wakes the members of a broadcast, those of a core by a task of that core.

use std::collections::BTreeMap;
use std::mem;
use std::sync::{Arc, Mutex};
use std::task::Waker;

use tokio::sync::watch;

use crate::memory::lock;
use crate::runtime::{Handle, Id, yield_now};

/// The relays of a broadcast, one for each runtime in which members wait.
///
/// To wake a task of another thread takes a system call, and the sender would make one for each member. So a sender
/// wakes one task of each core, its relay, and the relay wakes the members, a few at a time.
pub(super) struct Relays {
    /// Changed by each message, and closed once no message can follow.
    sent: watch::Receiver<()>,
    relays: Mutex<Vec<Arc<Relay>>>,
}

impl Relays {
    pub(super) fn new(sent: watch::Receiver<()>) -> Arc<Relays> {
        Arc::new(Relays { sent, relays: Mutex::default() })
    }

    /// Returns a place to wait in, at the relay of the current runtime; `None` outside of a runtime.
    pub(super) fn place(self: &Arc<Relays>) -> Option<Place> {
        let handle = Handle::current()?;
        let mut relays = lock(&self.relays);
        let known = relays.iter().find(|relay| relay.runtime == handle.id()).cloned();
        let relay = known.unwrap_or_else(|| {
            let relay = Arc::new(Relay { runtime: handle.id(), waiting: Mutex::default() });
            relays.push(relay.clone());
            let entry = RelayEntry { relays: self.clone(), relay: relay.clone() };
            handle.spawn(run(self.sent.clone(), entry));
            relay
        });
        drop(relays);
        let mut waiting = lock(&relay.waiting);
        waiting.places += 1;
        let key = waiting.places;
        drop(waiting);
        Some(Place { relay, key })
    }
}

/// The members of a broadcast that wait in one runtime.
struct Relay {
    runtime: Id,
    waiting: Mutex<Waiting>,
}

#[derive(Default)]
struct Waiting {
    /// How many places there were, which is the key of the last one.
    places: u64,
    wakers: BTreeMap<u64, Waker>,
}

impl Relay {
    /// Wakes all members that wait. Other tasks, and sockets that have become ready, have their turns in between.
    async fn wake_all(&self) {
        let mut wakers = mem::take(&mut lock(&self.waiting).wakers).into_values();
        loop {
            wakers.by_ref().take(WOKEN_AT_ONCE).for_each(Waker::wake);
            if wakers.len() == 0 {
                return;
            }
            yield_now().await;
        }
    }
}

/// So many members write to their sockets in less than a millisecond.
const WOKEN_AT_ONCE: usize = 64;

/// Wakes the members of a runtime for each message, and for the last time once the broadcast is over.
async fn run(mut sent: watch::Receiver<()>, entry: RelayEntry) {
    let mut is_over = false;
    while !is_over {
        is_over = sent.changed().await.is_err();
        entry.relay.wake_all().await;
    }
}

/// A relay, which is forgotten when its task ends, with the broadcast or with the runtime.
struct RelayEntry {
    relays: Arc<Relays>,
    relay: Arc<Relay>,
}

impl Drop for RelayEntry {
    fn drop(&mut self) {
        lock(&self.relays.relays).retain(|relay| !Arc::ptr_eq(relay, &self.relay));
    }
}

/// The place in which a member waits.
pub(super) struct Place {
    relay: Arc<Relay>,
    key: u64,
}

impl Place {
    /// Has `waker` woken by the next message. A message that is here before the waker may not wake it.
    pub(super) fn register(&self, waker: &Waker) {
        let mut waiting = lock(&self.relay.waiting);
        let is_known = waiting.wakers.get(&self.key).is_some_and(|known| known.will_wake(waker));
        let stale = if is_known { None } else { waiting.wakers.insert(self.key, waker.clone()) };
        // A waker may be the last owner of a task, whose own places need the lock.
        drop(waiting);
        drop(stale);
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // As in `register`, the waker is dropped after the lock.
        let waker = lock(&self.relay.waiting).wakers.remove(&self.key);
        drop(waker);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::block_on;

    fn waiting(place: &Place) -> usize {
        lock(&place.relay.waiting).wakers.len()
    }

    #[test]
    fn a_place_waits_once_and_leaves_nothing_behind() {
        let (_sent, notified) = watch::channel(());
        let relays = Relays::new(notified);
        block_on(async {
            let (one, other) = (relays.place().unwrap(), relays.place().unwrap());
            assert!(Arc::ptr_eq(&one.relay, &other.relay), "a runtime has one relay");
            (0..3).for_each(|_| one.register(Waker::noop()));
            other.register(Waker::noop());
            assert_eq!(waiting(&one), 2);
            drop(other);
            assert_eq!(waiting(&one), 1);
        })
        .unwrap();
        assert!(lock(&relays.relays).is_empty(), "a relay ends with its runtime");
        assert!(relays.place().is_none());
    }

    #[test]
    fn all_who_wait_are_woken_by_a_message_and_by_the_end() {
        use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
        struct Count(AtomicUsize);
        impl std::task::Wake for Count {
            fn wake(self: Arc<Count>) {
                self.0.fetch_add(1, Relaxed);
            }
        }
        let (sent, notified) = watch::channel(());
        let relays = Relays::new(notified);
        let count = Arc::new(Count(AtomicUsize::new(0)));
        block_on(async {
            let places: Vec<Place> = (0..150).filter_map(|_| relays.place()).collect();
            let register = || places.iter().for_each(|place| place.register(&count.clone().into()));
            let woken = async |times: usize| {
                while count.0.load(Relaxed) < times * places.len() {
                    yield_now().await;
                }
                assert_eq!(waiting(&places[0]), 0);
            };
            for times in [1, 2] {
                register();
                sent.send_replace(());
                woken(times).await;
            }
            register();
            drop(sent);
            woken(3).await;
        })
        .unwrap();
    }
}
