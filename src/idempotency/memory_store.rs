//! [`MemoryStore`]: the outcomes of requests in the memory of the process.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::scope_queues::ScopeQueues;
use super::store::{Claim, IdempotencyStore, StoredResponse, scope_of};
use crate::memory::lock;
use crate::message::Status;
use crate::runtime::{self, Instant, later};
use crate::server::{Error, Result};

/// The outcomes of requests in the memory of the process, for all cores together. They end with the process. Clones share
/// them.
///
/// An outcome is kept for 24 hours, unless its room is needed. Outcomes with a status of 4xx go first, since the requests were
/// refused. Among these, and after them among the others, the client with the most room loses its oldest one. The
/// [scope](super::Idempotency::scope) of a key names its client. The room of an outcome is its bytes, and as many more as there
/// are for each key on average.
///
/// So a client that sends many requests pushes out its own outcomes. Each of `n` clients with accepted requests has a safe
/// share: less than half of an `n`th of the keys and less than half of an `n`th of the bytes. Within it, a client loses
/// nothing, unless requests in progress take the room. Clients without a name share one scope, and a client can invent names.
/// Against both, put authentication and a [`RateLimit`](crate::middleware::RateLimit) around the middleware.
///
/// The claim of a request in progress stays, however long that takes. A client may add one while its claims are no more than
/// the keys left without a claim. So a client alone can take about half of [`keys_max`](MemoryStore::keys_max), and the next
/// one half of the rest. A request beyond is answered with 503.
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
    /// Creates an empty store with room for 10,000 keys, and for 64 MiB with their responses. Outcomes are kept for 24 hours.
    pub fn new() -> MemoryStore {
        let bounds = Bounds { keys: 10_000, bytes: 64 << 20, time: Duration::from_secs(24 * 60 * 60) };
        MemoryStore { outcomes: Arc::default(), bounds }
    }

    /// Sets how many keys there are at most, claims included. Default: 10,000.
    #[must_use]
    pub fn keys_max(mut self, keys: usize) -> MemoryStore {
        self.bounds.keys = keys;
        self
    }

    /// Sets how many bytes the keys and the kept responses take at most, together. Default: 64 MiB.
    #[must_use]
    pub fn bytes_max(mut self, bytes: usize) -> MemoryStore {
        self.bounds.bytes = bytes;
        self
    }

    /// Sets how long an outcome is kept. Default: 24 hours. Clients should find this time in the documentation of the service.
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
    /// The keys whose requests were handled, by the numbers of their outcomes: the oldest first.
    done: BTreeMap<u64, Arc<str>>,
    /// The same outcomes by their clients: those of requests that were refused, and the others.
    refused: ScopeQueues,
    accepted: ScopeQueues,
    running: Running,
    last_number: u64,
    bytes: usize,
}

/// How many requests are being handled, and of which clients.
#[derive(Default)]
struct Running {
    count: usize,
    by_scope: HashMap<Box<str>, usize>,
}

impl Running {
    /// Whether a client may have another request handled: it has no more of them than there are keys without a claim.
    fn may_add(&self, scope: &str, bounds: &Bounds) -> bool {
        let unclaimed = bounds.keys.saturating_sub(self.count);
        unclaimed > 0 && self.by_scope.get(scope).is_none_or(|own| *own <= unclaimed)
    }

    fn add(&mut self, scope: &str) {
        self.count += 1;
        match self.by_scope.get_mut(scope) {
            Some(own) => *own += 1,
            None => drop(self.by_scope.insert(scope.into(), 1)),
        }
    }

    fn remove(&mut self, scope: &str) {
        let Some(own) = self.by_scope.get_mut(scope) else { return };
        self.count -= 1;
        *own -= 1;
        if *own == 0 {
            self.by_scope.remove(scope);
        }
    }
}

struct Outcome {
    fingerprint: u64,
    state: State,
}

enum State {
    Running,
    Done { until: Instant, response: Option<StoredResponse> },
}

impl Outcome {
    /// Whether the request was refused, and may be handled once more with less harm than others.
    fn is_refusal(&self) -> bool {
        matches!(&self.state, State::Done { response: Some(response), .. } if response.status.is_client_error())
    }

    /// How many bytes it takes with its key.
    fn len(&self, key: &str) -> usize {
        match &self.state {
            State::Running | State::Done { response: None, .. } => key.len(),
            State::Done { response: Some(response), .. } => key.len() + response.len(),
        }
    }
}

impl Outcomes {
    fn claim(&mut self, key: &str, fingerprint: u64, bounds: &Bounds) -> Result<Claim> {
        let now = runtime::now();
        while self.oldest_until().is_some_and(|until| until <= now) {
            self.drop_numbered(self.done.first_key_value().map(|(number, _)| *number));
        }
        if let Some(outcome) = self.by_key.get(key) {
            return Ok(match &outcome.state {
                _ if outcome.fingerprint != fingerprint => Claim::Mismatched,
                State::Running => Claim::Running,
                State::Done { response, .. } => Claim::Done(response.clone()),
            });
        }
        if !self.running.may_add(scope_of(key), bounds) {
            let cause = "too many requests with a key are being handled";
            return Err(Error::new(Status::SERVICE_UNAVAILABLE, cause));
        }
        while self.by_key.len() >= bounds.keys && self.make_room() {}
        self.running.add(scope_of(key));
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
        self.running.remove(scope_of(&key));
        let len = key.len() + response.as_ref().map_or(0, StoredResponse::len);
        // A response that can never fit costs others nothing.
        while len <= bounds.bytes && self.bytes + len > bounds.bytes && self.make_room() {}
        // The key is kept all the same, or the request would be handled twice.
        let response = response.filter(|_| self.bytes + len <= bounds.bytes);
        let state = State::Done { until: later(runtime::now(), bounds.time), response };
        self.add_done(key, Outcome { fingerprint, state }, bounds);
    }

    fn release(&mut self, key: &str) {
        if matches!(self.by_key.get(key), Some(Outcome { state: State::Running, .. })) {
            self.by_key.remove(key);
            self.running.remove(scope_of(key));
        }
    }

    fn add_done(&mut self, key: Arc<str>, outcome: Outcome, bounds: &Bounds) {
        self.last_number += 1;
        self.bytes += outcome.len(&key);
        // Without this, a client could fill the keys with outcomes of a few bytes, and never look the largest.
        let size = outcome.len(&key).saturating_add((bounds.bytes / bounds.keys.max(1)).max(1));
        let number = self.last_number;
        self.queues(outcome.is_refusal()).push(scope_of(&key), number, size);
        self.done.insert(number, key.clone());
        self.by_key.insert(key, outcome);
    }

    /// Drops one outcome, so that there is room for another. Returns whether there was one.
    fn make_room(&mut self) -> bool {
        let number = self.refused.oldest_of_largest().or_else(|| self.accepted.oldest_of_largest());
        self.drop_numbered(number)
    }

    /// Drops an outcome, which is the oldest one of its client and kind. Returns whether there was one.
    fn drop_numbered(&mut self, number: Option<u64>) -> bool {
        let key = number.and_then(|number| self.done.remove(&number));
        let Some((key, outcome)) = key.and_then(|key| self.by_key.remove_entry(&key)) else { return false };
        self.bytes -= outcome.len(&key);
        self.queues(outcome.is_refusal()).pop(scope_of(&key));
        true
    }

    /// Until when the oldest outcome is kept.
    fn oldest_until(&self) -> Option<Instant> {
        let (_, key) = self.done.first_key_value()?;
        match self.by_key.get(key)?.state {
            State::Running => None,
            State::Done { until, .. } => Some(until),
        }
    }

    fn queues(&mut self, is_refusal: bool) -> &mut ScopeQueues {
        if is_refusal { &mut self.refused } else { &mut self.accepted }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::{Headers, Response};

    fn response(len: usize) -> Option<StoredResponse> {
        with_status(Status::OK, len)
    }

    fn with_status(status: Status, len: usize) -> Option<StoredResponse> {
        let mut response = Response::new();
        response.status = status;
        response.body.set_bytes(vec![b'x'; len]);
        StoredResponse::of(&response, &Headers::new(), usize::MAX)
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
        let store = MemoryStore::new().keys_max(2).bytes_max(12);
        assert_eq!(claim(&store, "a").await, "New");
        store.complete("a", response(6)).await.unwrap();
        assert_eq!(claim(&store, "b").await, "New");
        store.complete("b", response(6)).await.unwrap();
        assert_eq!((claim(&store, "b").await.as_str(), store.len()), ("done Some(6)", 1));
        for key in ["c", "d"] {
            assert_eq!(claim(&store, key).await, "New");
        }
        assert_eq!((claim(&store, "e").await.as_str(), store.len()), ("503", 2));
        store.complete("c", response(12)).await.unwrap();
        assert_eq!(claim(&store, "c").await, "done None");
        assert_eq!((claim(&store, "e").await.as_str(), store.len()), ("New", 2));
        assert_eq!(lock(&store.outcomes).bytes, 0);
    }

    /// Has requests with these keys handled, one after another.
    async fn handle_all(store: &MemoryStore, keys: impl Iterator<Item = String>, len: usize) {
        for key in keys {
            store.claim(&key, 1).await.unwrap();
            store.complete(&key, response(len)).await.unwrap();
        }
    }

    #[tokio::test]
    async fn the_client_with_the_most_room_makes_room() {
        for (keys_max, bytes_max, len) in [(100, 1 << 20, 1), (10_000, 100 << 10, 1 << 10)] {
            let store = MemoryStore::new().keys_max(keys_max).bytes_max(bytes_max);
            handle_all(&store, (0..20).map(|number| format!("ada\n{number}")), len).await;
            handle_all(&store, (0..10_000).map(|number| format!("a flood\n{number}")), len).await;
            for number in 0..20 {
                let kept = claim(&store, &format!("ada\n{number}")).await;
                assert_eq!(kept, format!("done Some({len})"), "{number} of {keys_max}");
            }
            // Once the other client takes as much room, its oldest outcomes go as well.
            handle_all(&store, (20..1000).map(|number| format!("ada\n{number}")), len).await;
            assert_eq!(claim(&store, "a flood\n9999").await, format!("done Some({len})"));
            assert_eq!(claim(&store, "ada\n0").await, "New");
        }
    }

    /// A flood of slow requests once took all keys, and other clients were refused.
    #[tokio::test]
    async fn a_client_whose_requests_run_leaves_room_to_others() {
        let store = MemoryStore::new().keys_max(100);
        handle_all(&store, (0..100).map(|number| format!("eve\n{number}")), 1).await;
        for (scope, expected) in [("a flood", 51), ("another", 25), ("ada", 13)] {
            let claims = async |of: std::ops::Range<u32>| {
                let mut claimed = 0;
                for number in of {
                    claimed += usize::from(claim(&store, &format!("{scope}\n{number}")).await == "New");
                }
                claimed
            };
            assert_eq!(claims(0..100).await, expected, "{scope}");
            assert_eq!(claim(&store, &format!("{scope}\n0")).await, "Running");
            assert_eq!(claim(&store, &format!("{scope}\n99")).await, "503");
        }
        // A request that has ended makes room, be it done or given up.
        store.complete("a flood\n0", response(1)).await.unwrap();
        store.complete("a flood\n0", response(1)).await.unwrap();
        store.release("ada\n0").await.unwrap();
        store.release("ada\n0").await.unwrap();
        assert_eq!(lock(&store.outcomes).running.count, 87);
        assert_eq!(claim(&store, "ada\n99").await, "New");
        for (scope, claims) in [("a flood", 51), ("another", 25), ("ada", 100)] {
            for number in 0..claims {
                store.release(&format!("{scope}\n{number}")).await.unwrap();
            }
        }
        assert!(lock(&store.outcomes).running.by_scope.is_empty());
    }

    #[tokio::test]
    async fn refusals_make_room_before_others() {
        let store = MemoryStore::new().keys_max(3);
        handle_all(&store, ["ada\n1".to_owned(), "ada\n2".to_owned()].into_iter(), 1).await;
        for number in 0..10 {
            let key = format!("{number}\nk");
            store.claim(&key, 1).await.unwrap();
            store.complete(&key, with_status(Status::UNAUTHORIZED, 1)).await.unwrap();
        }
        assert_eq!((claim(&store, "ada\n1").await.as_str(), store.len()), ("done Some(1)", 3));
        assert_eq!(claim(&store, "9\nk").await, "done Some(1)");
    }
}
