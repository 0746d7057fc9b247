//! [`MemoryStore`]: sessions in the memory of the process.

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::SystemTime;

use bytes::Bytes;

use super::session_id::SessionId;
use super::session_store::{SessionStore, StoredSession};
use crate::memory::lock;
use crate::server::Result;

/// Sessions in the memory of the process, for all cores together. They end with the process. Clones share the sessions.
///
/// At most 10,000 sessions are kept by default ([`MemoryStore::with_sessions_max`]). To make room for another one, expired
/// sessions are dropped first. Next go those that were never used after their beginning, down to an eighth of all. Then go used
/// ones. Of either kind, the one that expires first goes first.
///
/// So requests without a cookie, each of which begins a session, push out an eighth of the used sessions at most. A
/// [`RateLimit`](crate::middleware::RateLimit) stops a client that returns the cookies of all these sessions. A session without
/// values is not stored at all.
#[derive(Clone)]
pub struct MemoryStore {
    sessions: Arc<Mutex<SessionMap>>,
    sessions_max: usize,
}

impl MemoryStore {
    /// Creates an empty store with room for 10,000 sessions.
    pub fn new() -> MemoryStore {
        MemoryStore::with_sessions_max(10_000)
    }

    /// Creates an empty store with room for so many sessions, at least 1.
    pub fn with_sessions_max(sessions_max: usize) -> MemoryStore {
        MemoryStore { sessions: Arc::default(), sessions_max: sessions_max.max(1) }
    }

    /// Returns how many sessions are kept. Some of them may have expired.
    pub fn len(&self) -> usize {
        lock(&self.sessions).by_id.len()
    }

    /// Returns whether no sessions are kept.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Default for MemoryStore {
    fn default() -> MemoryStore {
        MemoryStore::new()
    }
}

impl SessionStore for MemoryStore {
    async fn load(&self, id: &SessionId) -> Result<Option<StoredSession>> {
        Ok(lock(&self.sessions).get(id))
    }

    async fn insert(&self, id: &SessionId, session: StoredSession) -> Result {
        let mut sessions = lock(&self.sessions);
        sessions.make_room(self.sessions_max, SystemTime::now());
        sessions.insert(*id, session);
        Ok(())
    }

    async fn replace(
        &self,
        id: &SessionId,
        before: &Bytes,
        data: Bytes,
        expires_at: SystemTime,
    ) -> Result<bool> {
        let mut sessions = lock(&self.sessions);
        let is_same = sessions.by_id.get(id).is_some_and(|entry| entry.session.data == *before);
        if is_same {
            sessions.change(id, |session| *session = StoredSession { data, expires_at, ..*session });
        }
        Ok(is_same)
    }

    async fn touch(&self, id: &SessionId, expires_at: SystemTime) -> Result {
        lock(&self.sessions).change(id, |session| session.expires_at = expires_at);
        Ok(())
    }

    async fn delete(&self, id: &SessionId) -> Result<bool> {
        Ok(lock(&self.sessions).remove(id).is_some())
    }
}

impl fmt::Debug for MemoryStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryStore").field("sessions_max", &self.sessions_max).finish_non_exhaustive()
    }
}

/// Sessions by their id, and in the order in which they expire.
#[derive(Default)]
struct SessionMap {
    by_id: HashMap<SessionId, Entry>,
    /// The ones that were never used since they began, and the ones that were: together the same entries.
    unused: BTreeSet<(SystemTime, SessionId)>,
    used: BTreeSet<(SystemTime, SessionId)>,
}

struct Entry {
    session: StoredSession,
    is_used: bool,
}

impl SessionMap {
    /// Adds a session, in place of one with the same id.
    fn insert(&mut self, id: SessionId, session: StoredSession) {
        self.remove(&id);
        self.put(id, Entry { session, is_used: false });
    }

    /// Returns a session, which is used from now on.
    fn get(&mut self, id: &SessionId) -> Option<StoredSession> {
        let entry = self.by_id.get_mut(id)?;
        if !entry.is_used {
            entry.is_used = true;
            self.unused.remove(&(entry.session.expires_at, *id));
            self.used.insert((entry.session.expires_at, *id));
        }
        Some(entry.session.clone())
    }

    fn change(&mut self, id: &SessionId, change: impl FnOnce(&mut StoredSession)) {
        if let Some(mut entry) = self.remove(id) {
            change(&mut entry.session);
            self.put(*id, entry);
        }
    }

    fn remove(&mut self, id: &SessionId) -> Option<Entry> {
        let entry = self.by_id.remove(id)?;
        self.order(entry.is_used).remove(&(entry.session.expires_at, *id));
        Some(entry)
    }

    /// Drops the sessions that have expired, and as many others that there is room for one more.
    fn make_room(&mut self, sessions_max: usize, now: SystemTime) {
        for is_used in [false, true] {
            while let Some((_, id)) = self.order(is_used).first().copied().filter(|(end, _)| *end <= now) {
                self.remove(&id);
            }
        }
        while self.by_id.len() >= sessions_max {
            // New sessions keep a share, or those of new users would push each other out before they are used.
            let is_used = self.unused.len() <= sessions_max / UNUSED_SHARE && !self.used.is_empty();
            let Some((_, id)) = self.order(is_used).first().copied() else { break };
            self.remove(&id);
        }
    }

    fn put(&mut self, id: SessionId, entry: Entry) {
        self.order(entry.is_used).insert((entry.session.expires_at, id));
        self.by_id.insert(id, entry);
        debug_assert_eq!(self.by_id.len(), self.unused.len() + self.used.len(), "both have the same entries");
    }

    fn order(&mut self, is_used: bool) -> &mut BTreeSet<(SystemTime, SessionId)> {
        if is_used { &mut self.used } else { &mut self.unused }
    }
}

/// The part of all sessions that those may always have which were not used since they began.
const UNUSED_SHARE: usize = 8;

#[cfg(test)]
mod tests {
    use std::ops::Range;
    use std::time::Duration;

    use super::*;
    use crate::runtime::block_on;

    const NOW: SystemTime = SystemTime::UNIX_EPOCH;

    fn id(number: u8) -> SessionId {
        SessionId::parse(&format!("{number:032x}")).unwrap()
    }

    fn expiring(seconds: u64) -> StoredSession {
        let expires_at = NOW + Duration::from_secs(seconds);
        StoredSession { data: Bytes::from_static(b"{}"), begun_at: NOW, expires_at }
    }

    #[test]
    fn the_sessions_that_expire_first_make_room() {
        let mut sessions = SessionMap::default();
        let kept = |sessions: &SessionMap| {
            (0..9).filter(|number| sessions.by_id.contains_key(&id(*number))).collect::<Vec<_>>()
        };
        for (number, seconds) in [(0, 50), (1, 20), (2, 30), (3, 20)] {
            sessions.make_room(4, NOW);
            sessions.insert(id(number), expiring(seconds));
        }
        assert_eq!(kept(&sessions), [0, 1, 2, 3]);
        sessions.make_room(4, NOW);
        assert_eq!(kept(&sessions), [0, 2, 3], "of two that expire at the same time, one is enough");
        // A session that was used expires later.
        sessions.insert(id(3), expiring(60));
        sessions.make_room(3, NOW);
        assert_eq!(kept(&sessions), [0, 3]);
        // The expired ones are dropped even if there is room.
        sessions.make_room(4, NOW + Duration::from_secs(50));
        assert_eq!(kept(&sessions), [3]);
        sessions.remove(&id(3));
        sessions.make_room(1, NOW);
        assert!(sessions.unused.is_empty() && sessions.used.is_empty());
    }

    #[test]
    fn sessions_that_were_used_outlast_a_flood_of_new_ones() {
        const MAX: u8 = 80;
        let mut sessions = SessionMap::default();
        for number in 0..MAX {
            sessions.insert(id(number), expiring(number.into()));
            sessions.get(&id(number)).unwrap();
        }
        let kept = |sessions: &SessionMap, numbers: Range<u8>| {
            numbers.filter(|number| sessions.by_id.contains_key(&id(*number))).count()
        };
        for number in MAX..u8::MAX {
            sessions.make_room(MAX.into(), NOW);
            sessions.insert(id(number), expiring(number.into()));
        }
        // Sessions that were not used for the longest time have made room, and one more for the last new one.
        assert_eq!((kept(&sessions, 0..11), kept(&sessions, 11..MAX)), (0, 69));
        assert_eq!(kept(&sessions, u8::MAX - 11..u8::MAX), 11, "the last new ones are kept");
        // A new one that is used stays as well.
        sessions.get(&id(u8::MAX - 11)).unwrap();
        for number in MAX..200 {
            sessions.make_room(MAX.into(), NOW);
            sessions.insert(id(number), expiring(300));
        }
        assert!(sessions.by_id.contains_key(&id(u8::MAX - 11)));
        assert_eq!(sessions.by_id.len(), usize::from(MAX));
    }

    #[test]
    fn a_change_adds_no_session_and_undoes_no_other() {
        let store = MemoryStore::with_sessions_max(0);
        let kept = block_on(async {
            let later = NOW + Duration::from_secs(9);
            let (before, data) = (expiring(1).data, Bytes::from_static(b"[]"));
            assert!(!store.replace(&id(1), &before, data.clone(), later).await.unwrap());
            store.touch(&id(1), later).await.unwrap();
            assert!(store.is_empty());
            store.insert(&id(1), expiring(1)).await.unwrap();
            store.touch(&id(1), later).await.unwrap();
            assert_eq!(store.load(&id(1)).await.unwrap(), Some(expiring(9)));
            assert!(store.replace(&id(1), &before, data.clone(), later).await.unwrap());
            assert!(!store.replace(&id(1), &before, Bytes::new(), later).await.unwrap(), "it has changed");
            let kept = store.load(&id(1)).await.unwrap().unwrap();
            store.insert(&id(2), expiring(2)).await.unwrap();
            assert!(!store.delete(&id(1)).await.unwrap(), "there was room for one");
            assert_eq!((store.len(), store.load(&id(1)).await.unwrap()), (1, None));
            assert!(store.delete(&id(2)).await.unwrap() && store.is_empty());
            kept.data
        });
        assert_eq!(kept.unwrap(), "[]");
    }
}
