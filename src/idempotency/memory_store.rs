//! [`MemoryStore`]: the outcomes of requests in the memory of the process.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::store::{Claim, IdempotencyStore, StoredResponse};
use crate::memory::lock;
use crate::message::Status;
use crate::runtime::{self, Instant, later};
use crate::server::{Error, Result};

/// The outcomes of requests in the memory of the process, for all cores together. They end with the process. Clones share
/// them.
///
/// An outcome is kept for a day, unless there is no room for it any longer: then the oldest one goes first. The claim of a
/// request that is being handled stays, however long that takes. With as many of these as there is room for, another
/// request is answered with 503.
#[derive(Clone)]
pub struct MemoryStore {
    outcomes: Arc<Mutex<Outcomes>>,
    bounds: Bounds,
}

#[derive(Clone, Copy, Debug)]
struct Bounds {
    keys: usize,
    bytes: usize,
    time: Duration,
}

impl MemoryStore {
    /// Creates an empty store with room for 10,000 keys and 64 MiB of responses, which are kept for 24 hours.
    pub fn new() -> MemoryStore {
        let bounds = Bounds { keys: 10_000, bytes: 64 << 20, time: Duration::from_secs(24 * 60 * 60) };
        MemoryStore { outcomes: Arc::default(), bounds }
    }

    /// Sets how many keys there are at most.
    #[must_use]
    pub fn keys_max(mut self, keys: usize) -> MemoryStore {
        self.bounds.keys = keys;
        self
    }

    /// Sets how many bytes of responses there are at most.
    #[must_use]
    pub fn bytes_max(mut self, bytes: usize) -> MemoryStore {
        self.bounds.bytes = bytes;
        self
    }

    /// Sets how long an outcome is kept. Clients learn it from the documentation of the service.
    #[must_use]
    pub fn time(mut self, time: Duration) -> MemoryStore {
        self.bounds.time = time;
        self
    }

    /// Returns how many keys there are. The outcomes of some may be too old.
    pub fn len(&self) -> usize {
        lock(&self.outcomes).by_key.len()
    }

    /// Returns whether there are no keys.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Default for MemoryStore {
    fn default() -> MemoryStore {
        MemoryStore::new()
    }
}

impl IdempotencyStore for MemoryStore {
    async fn claim(&self, key: &str, fingerprint: u64) -> Result<Claim> {
        lock(&self.outcomes).claim(key, fingerprint, &self.bounds)
    }

    async fn complete(&self, key: &str, response: Option<StoredResponse>) -> Result {
        lock(&self.outcomes).complete(key, response, &self.bounds);
        Ok(())
    }

    async fn release(&self, key: &str) -> Result {
        lock(&self.outcomes).release(key);
        Ok(())
    }
}

impl fmt::Debug for MemoryStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryStore").field("bounds", &self.bounds).finish_non_exhaustive()
    }
}

#[derive(Default)]
struct Outcomes {
    by_key: HashMap<Arc<str>, Outcome>,
    /// The keys whose requests were handled, and until when each is kept, in this order.
    done: VecDeque<(Arc<str>, Instant)>,
    bytes: usize,
}

struct Outcome {
    fingerprint: u64,
    state: State,
}

enum State {
    Running,
    Done(Option<StoredResponse>),
}

impl Outcomes {
    fn claim(&mut self, key: &str, fingerprint: u64, bounds: &Bounds) -> Result<Claim> {
        let now = runtime::now();
        while self.done.front().is_some_and(|(_, until)| *until <= now) {
            self.drop_oldest();
        }
        if let Some(outcome) = self.by_key.get(key) {
            return Ok(match &outcome.state {
                _ if outcome.fingerprint != fingerprint => Claim::Mismatched,
                State::Running => Claim::Running,
                State::Done(response) => Claim::Done(response.clone()),
            });
        }
        while self.by_key.len() >= bounds.keys {
            if !self.drop_oldest() {
                return Err(Error::new(
                    Status::SERVICE_UNAVAILABLE,
                    "too many requests with a key are being handled",
                ));
            }
        }
        self.by_key.insert(key.into(), Outcome { fingerprint, state: State::Running });
        Ok(Claim::New)
    }

    fn complete(&mut self, key: &str, response: Option<StoredResponse>, bounds: &Bounds) {
        let Some((key, outcome)) = self.by_key.get_key_value(key) else { return };
        if !matches!(outcome.state, State::Running) {
            return;
        }
        let key = key.clone();
        let fingerprint = outcome.fingerprint;
        let len = response.as_ref().map_or(0, StoredResponse::len);
        while self.bytes + len > bounds.bytes && self.drop_oldest() {}
        // The key is kept all the same, or the request would be handled twice.
        let response = response.filter(|_| self.bytes + len <= bounds.bytes);
        self.bytes += response.as_ref().map_or(0, StoredResponse::len);
        self.by_key.insert(key.clone(), Outcome { fingerprint, state: State::Done(response) });
        self.done.push_back((key, later(runtime::now(), bounds.time)));
    }

    fn release(&mut self, key: &str) {
        if matches!(self.by_key.get(key), Some(Outcome { state: State::Running, .. })) {
            self.by_key.remove(key);
        }
    }

    /// Drops the oldest outcome. Returns whether there was one.
    fn drop_oldest(&mut self) -> bool {
        let Some((key, _)) = self.done.pop_front() else { return false };
        if let Some(Outcome { state: State::Done(Some(response)), .. }) = self.by_key.remove(&key) {
            self.bytes -= response.len();
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::Response;

    fn response(len: usize) -> Option<StoredResponse> {
        let mut response = Response::new();
        response.body.set_bytes(vec![b'x'; len]);
        StoredResponse::of(&response, usize::MAX)
    }

    /// The answer to a request with this key and a fingerprint of 1.
    async fn claim(store: &MemoryStore, key: &str) -> String {
        match store.claim(key, 1).await {
            Ok(Claim::Done(response)) => {
                format!("done {:?}", response.map(|response| response.content.len()))
            }
            Ok(claim) => format!("{claim:?}"),
            Err(error) => error.status().as_u16().to_string(),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_outcome_is_kept_for_its_time_and_a_claim_for_as_long_as_it_takes() {
        let store = MemoryStore::new().time(Duration::from_secs(60));
        assert_eq!(claim(&store, "a").await, "New");
        tokio::time::sleep(Duration::from_secs(100)).await;
        assert_eq!(claim(&store, "a").await, "Running");
        assert!(matches!(store.claim("a", 2).await, Ok(Claim::Mismatched)));
        store.complete("a", response(3)).await.unwrap();
        store.release("a").await.unwrap();
        store.complete("a", response(4)).await.unwrap();
        store.complete("b", response(4)).await.unwrap();
        tokio::time::sleep(Duration::from_secs(59)).await;
        assert_eq!(claim(&store, "a").await, "done Some(3)");
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(claim(&store, "a").await, "New");
        store.release("a").await.unwrap();
        assert!(store.is_empty() && lock(&store.outcomes).bytes == 0);
    }

    #[tokio::test]
    async fn the_oldest_outcome_makes_room_and_a_claim_does_not() {
        let store = MemoryStore::new().keys_max(2).bytes_max(10);
        assert_eq!(claim(&store, "a").await, "New");
        store.complete("a", response(6)).await.unwrap();
        assert_eq!(claim(&store, "b").await, "New");
        store.complete("b", response(6)).await.unwrap();
        assert_eq!((claim(&store, "b").await.as_str(), store.len()), ("done Some(6)", 1));
        for key in ["c", "d"] {
            assert_eq!(claim(&store, key).await, "New");
        }
        assert_eq!((claim(&store, "e").await.as_str(), store.len()), ("503", 2));
        store.complete("c", response(11)).await.unwrap();
        assert_eq!(claim(&store, "c").await, "done None");
        assert_eq!((claim(&store, "e").await.as_str(), store.len()), ("New", 2));
        assert_eq!(lock(&store.outcomes).bytes, 0);
    }
}
