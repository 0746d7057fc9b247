//! [`LookUps`]: the look-ups under way, of which each serves all callers that need its answer.

use std::collections::HashMap;
use std::hash::Hash;
use std::io;
use std::sync::{Arc, Mutex};

use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, watch};

use crate::error_text::SharedError;
use crate::memory::lock;

/// Look-ups under way, by their keys: a bounded number of them, and one for each key.
///
/// A look-up does not depend on its callers. It goes on when all of them have left, so a caller with little time finds
/// the answer that another one had no time to wait for. It gives way to those that callers wait for: see
/// [`LookUp::give_way`].
pub(super) struct LookUps<K: Clone + Eq + Hash, A>(Arc<UnderWay<K, A>>);

struct UnderWay<K, A> {
    by_key: Mutex<HashMap<K, Arc<AnswerSender<A>>>>,
    /// A permit for each look-up that may still begin. The semaphore is fair, so callers are served in turn.
    permits: Arc<Semaphore>,
    /// Notified when a caller finds no permit, and when one leaves while there is none.
    wanted: Notify,
}

type AnswerSender<A> = watch::Sender<Option<LookUpResult<A>>>;

/// The answer for a name, such as its addresses, or why there is none, for all callers.
pub(super) type LookUpResult<A> = Result<A, SharedError>;

impl<K: Clone + Eq + Hash, A: Clone> LookUps<K, A> {
    /// At most `most` look-ups are under way at once.
    pub(super) fn new(most: usize) -> LookUps<K, A> {
        LookUps(Arc::new(UnderWay {
            by_key: Mutex::default(),
            permits: Arc::new(Semaphore::new(most)),
            wanted: Notify::new(),
        }))
    }

    /// Waits for the look-up with this key. If there is none, `begin` begins one as soon as a permit is free.
    ///
    /// # Errors
    ///
    /// Fails with the error of the look-up or of `begin`, and if the look-up ends without an answer.
    pub(super) async fn join(
        &self,
        key: K,
        begin: impl FnOnce(LookUp<K, A>) -> io::Result<()>,
    ) -> io::Result<A> {
        let answer = match self.find(&key) {
            Some(answer) => answer,
            None => {
                self.0.ask_to_give_way();
                let permit = self.0.permits.clone().acquire_owned().await.map_err(io::Error::other)?;
                self.find_or_begin(key, permit, begin)?
            }
        };
        Ok(Awaiting { answer: Some(answer), under_way: &self.0 }.answer().await?)
    }

    fn find(&self, key: &K) -> Option<watch::Receiver<Option<LookUpResult<A>>>> {
        lock(&self.0.by_key).get(key).map(|answer| answer.subscribe())
    }

    /// Begins a look-up, unless another caller has begun it while this one waited for its permit.
    fn find_or_begin(
        &self,
        key: K,
        permit: OwnedSemaphorePermit,
        begin: impl FnOnce(LookUp<K, A>) -> io::Result<()>,
    ) -> io::Result<watch::Receiver<Option<LookUpResult<A>>>> {
        let mut by_key = lock(&self.0.by_key);
        if let Some(answer) = by_key.get(&key) {
            return Ok(answer.subscribe());
        }
        let (answer, receiver) = watch::channel(None);
        let answer = Arc::new(answer);
        by_key.insert(key.clone(), answer.clone());
        drop(by_key);
        begin(LookUp { under_way: self.0.clone(), key, answer, _permit: permit })?;
        Ok(receiver)
    }
}

impl<K: Eq + Hash + Clone, A> UnderWay<K, A> {
    /// Has look-ups that nobody awaits end, if there is no permit.
    fn ask_to_give_way(&self) {
        if self.permits.available_permits() == 0 {
            self.wanted.notify_waiters();
        }
    }
}

/// A caller that awaits a look-up.
struct Awaiting<'a, K: Eq + Hash + Clone, A> {
    /// `None` once it has left.
    answer: Option<watch::Receiver<Option<LookUpResult<A>>>>,
    under_way: &'a UnderWay<K, A>,
}

impl<K: Eq + Hash + Clone, A: Clone> Awaiting<'_, K, A> {
    async fn answer(mut self) -> LookUpResult<A> {
        // The look-up has panicked, or its runtime has ended.
        let cut_short = || io::Error::other("the look-up was cut short");
        let answer = self.answer.as_mut().ok_or_else(cut_short)?;
        let result = answer.wait_for(Option::is_some).await.map_err(|_| cut_short())?.clone();
        result.expect("an answer was waited for")
    }
}

impl<K: Eq + Hash + Clone, A> Drop for Awaiting<'_, K, A> {
    fn drop(&mut self) {
        self.answer = None;
        self.under_way.ask_to_give_way();
    }
}

/// One look-up under way. If it is dropped before it ends, its callers find that it was cut short.
pub(super) struct LookUp<K: Eq + Hash + Clone, A> {
    under_way: Arc<UnderWay<K, A>>,
    key: K,
    answer: Arc<AnswerSender<A>>,
    _permit: OwnedSemaphorePermit,
}

impl<K: Eq + Hash + Clone, A> LookUp<K, A> {
    /// Ends the look-up, with a result for all its callers.
    pub(super) fn end(self, result: LookUpResult<A>) {
        self.answer.send_replace(Some(result));
    }

    /// Leaves the place to another look-up of the same key, unless a caller waits for the answer. Returns whether it has left.
    pub(super) fn leave(&self) -> bool {
        let mut by_key = lock(&self.under_way.by_key);
        // Under the lock, so that no caller finds this look-up any more.
        let has_left = self.answer.receiver_count() == 0;
        if has_left {
            self.remove_from(&mut by_key);
        }
        has_left
    }

    fn remove_from(&self, by_key: &mut HashMap<K, Arc<AnswerSender<A>>>) {
        if by_key.get(&self.key).is_some_and(|answer| Arc::ptr_eq(answer, &self.answer)) {
            by_key.remove(&self.key);
        }
    }

    /// Ready once no caller waits for the answer while others find no permit.
    pub(super) async fn give_way(&self) {
        let mut wanted = self.under_way.wanted.notified();
        loop {
            wanted.await;
            // Made before the look, so that no caller leaves unnoticed.
            wanted = self.under_way.wanted.notified();
            if self.leave() {
                return;
            }
        }
    }
}

impl<K: Eq + Hash + Clone, A> Drop for LookUp<K, A> {
    fn drop(&mut self) {
        self.remove_from(&mut lock(&self.under_way.by_key));
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;
    use std::sync::mpsc::{self, Sender};
    use std::thread;
    use std::time::{Duration, Instant};

    use tokio::runtime::{Builder, Runtime};
    use tokio::time::timeout;

    use super::*;

    const BRIEF: Duration = Duration::from_millis(20);

    /// Calls of the system that hang until they are let go, and how many have begun.
    #[derive(Default)]
    struct Hung(Mutex<Vec<Sender<()>>>);

    impl Hung {
        fn begun(&self) -> usize {
            lock(&self.0).len()
        }

        /// Looks `name` up on a thread that hangs, for a caller with little time.
        async fn ask(
            &'static self,
            look_ups: &LookUps<&'static str, Arc<[IpAddr]>>,
            name: &'static str,
        ) -> Option<io::Result<Arc<[IpAddr]>>> {
            let begin = |look_up: LookUp<_, _>| {
                let (let_go, held) = mpsc::channel();
                lock(&self.0).push(let_go);
                thread::spawn(move || {
                    let found = held.recv().map(|()| Arc::from([[192, 0, 2, 1].into()]));
                    look_up.end(found.map_err(|gone| io::Error::other(gone).into()));
                });
                Ok(())
            };
            timeout(BRIEF, look_ups.join(name, begin)).await.ok()
        }
    }

    fn hung() -> &'static Hung {
        Box::leak(Box::default())
    }

    fn runtime() -> Runtime {
        Builder::new_current_thread().enable_time().build().unwrap()
    }

    #[test]
    fn a_name_that_hangs_takes_one_thread_whoever_asks_and_in_whichever_runtime() {
        let look_ups = LookUps::new(2);
        let hung = hung();
        for _ in 0..3 {
            let late = runtime()
                .block_on(async { tokio::join!(hung.ask(&look_ups, "a"), hung.ask(&look_ups, "a")) });
            assert!(late.0.is_none() && late.1.is_none());
        }
        assert_eq!(hung.begun(), 1);
        lock(&hung.0)[0].send(()).unwrap();
        let start = Instant::now();
        while !lock(&look_ups.0.by_key).is_empty() && start.elapsed() < Duration::from_secs(10) {
            thread::yield_now();
        }
        runtime().block_on(hung.ask(&look_ups, "a"));
        assert_eq!(hung.begun(), 2, "an answer is for those who wait, and nothing is kept");
    }

    #[test]
    fn names_that_hang_take_no_more_threads_than_there_may_be() {
        let look_ups = LookUps::new(2);
        let hung = hung();
        let names = ["a", "b", "c", "c"];
        for name in names {
            assert!(runtime().block_on(hung.ask(&look_ups, name)).is_none());
        }
        assert_eq!(hung.begun(), 2);
        lock(&hung.0)[0].send(()).unwrap();
        runtime().block_on(async { hung.ask(&look_ups, "c").await });
        assert_eq!((hung.begun(), look_ups.0.permits.available_permits()), (3, 0), "the next in line");
    }

    #[test]
    fn callers_of_a_look_up_that_ends_without_an_answer_learn_of_it() {
        let look_ups = LookUps::<_, Arc<[IpAddr]>>::new(1);
        for _ in 0..2 {
            let cut = runtime().block_on(look_ups.join("a", |look_up| {
                drop(look_up);
                Ok(())
            }));
            assert_eq!(cut.unwrap_err().to_string(), "the look-up was cut short");
        }
        let refused = runtime().block_on(look_ups.join("a", |_| Err(io::ErrorKind::OutOfMemory.into())));
        assert_eq!(refused.unwrap_err().kind(), io::ErrorKind::OutOfMemory);
        let failed = runtime().block_on(look_ups.join("a", |look_up| {
            look_up.end(Err(io::Error::from_raw_os_error(24).into()));
            Ok(())
        }));
        assert_eq!(failed.unwrap_err().raw_os_error(), Some(24), "no descriptors");
        let found = runtime().block_on(look_ups.join("a", |look_up| {
            look_up.end(Ok(Arc::from([[192, 0, 2, 1].into()])));
            Ok(())
        }));
        assert_eq!(*found.unwrap(), [IpAddr::from([192, 0, 2, 1])]);
    }
}
