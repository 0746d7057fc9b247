//! [`ClientTable`]: which clients have sent requests recently, in bounded memory; and [`Rate`]: how many they may send.

use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use crate::memory::lock;
use crate::runtime::now;

/// When each client that has sent requests recently may send as many as a new one, for a bounded number of clients.
///
/// A client can only be in one bucket of the table. The hash has a random key, so that no client can choose addresses
/// to fill the bucket of another.
pub(super) struct ClientTable {
    buckets: Box<[Mutex<[Entry; BUCKET_LEN]>]>,
    hasher: RandomState,
    /// The time zero of the entries.
    epoch: Instant,
}

/// A client, and when it may send as many requests as a new one, in nanoseconds. In the past, the entry is free.
#[derive(Clone, Copy, Debug, Default)]
struct Entry {
    client: u64,
    whole_at: u64,
}

impl ClientTable {
    /// Creates a table with room for `clients_max`, rounded up to whole buckets.
    pub(super) fn new(clients_max: usize) -> ClientTable {
        let buckets = (0..clients_max.div_ceil(BUCKET_LEN).max(1)).map(|_| Mutex::default()).collect();
        ClientTable { buckets, hasher: RandomState::new(), epoch: now().into_std() }
    }

    /// Counts a request of a client. Returns whether it may send one.
    pub(super) fn count(&self, client: u64, arrived: Instant, rate: Rate) -> bool {
        let mut bucket = lock(self.bucket(client));
        let now = self.nanos(arrived);
        let known = bucket.iter().position(|entry| entry.client == client);
        let debt = known.map_or(0, |at| bucket[at].whole_at.saturating_sub(now));
        if rate.wait(debt) > 0 {
            return false;
        }
        // A free entry is whole the longest. In a full bucket, the client is forgotten that will be whole the soonest.
        let at = known.or_else(|| (0..BUCKET_LEN).min_by_key(|at| bucket[*at].whole_at)).unwrap_or(0);
        bucket[at] = Entry { client, whole_at: now.saturating_add(debt).saturating_add(rate.share) };
        true
    }

    /// How long a client has to wait until it may send a request.
    pub(super) fn wait(&self, client: u64, arrived: Instant, rate: Rate) -> Duration {
        let bucket = lock(self.bucket(client));
        let now = self.nanos(arrived);
        let entry = bucket.iter().find(|entry| entry.client == client);
        let debt = entry.map_or(0, |entry| entry.whole_at.saturating_sub(now));
        Duration::from_nanos(rate.wait(debt))
    }

    /// In how long a client may send a whole burst.
    pub(super) fn debt(&self, client: u64, arrived: Instant) -> Duration {
        let bucket = lock(self.bucket(client));
        let entry = bucket.iter().find(|entry| entry.client == client);
        Duration::from_nanos(entry.map_or(0, |entry| entry.whole_at.saturating_sub(self.nanos(arrived))))
    }

    fn bucket(&self, client: u64) -> &Mutex<[Entry; BUCKET_LEN]> {
        // The high half of the product is below the number of buckets, for all hashes equally often.
        let at = (u128::from(self.hasher.hash_one(client)) * self.buckets.len() as u128) >> 64;
        &self.buckets[at as usize]
    }

    fn nanos(&self, arrived: Instant) -> u64 {
        nanos(arrived.saturating_duration_since(self.epoch))
    }
}

/// How many clients share a lock. With 8, entries of 16 bytes fill two lines of the cache.
const BUCKET_LEN: usize = 8;

/// How many requests a client may send, by the generic cell rate algorithm (ITU-T I.371): each request puts off the
/// moment at which the client may send a whole burst again, by the share of one request.
#[derive(Clone, Copy)]
pub(super) struct Rate {
    /// The nanoseconds for one request.
    share: u64,
    /// How many requests may be sent at once.
    burst: u32,
}

impl Rate {
    /// So many requests in each interval, all of them at once if need be.
    pub(super) fn new(requests: u32, interval: Duration) -> Rate {
        let requests = requests.max(1);
        Rate { share: (nanos(interval) / u64::from(requests)).max(1), burst: requests }
    }

    pub(super) fn with_burst(self, requests: u32) -> Rate {
        Rate { burst: requests.max(1), ..self }
    }

    /// How many requests a client may send at once that may send a whole burst in `debt`.
    pub(super) fn left(self, debt: Duration) -> u32 {
        let sent = nanos(debt).div_ceil(self.share);
        u32::try_from(u64::from(self.burst).saturating_sub(sent)).unwrap_or(0)
    }

    /// How long a client has to wait that may send a whole burst in `debt`, in nanoseconds.
    fn wait(self, debt: u64) -> u64 {
        debt.saturating_sub(self.share.saturating_mul(u64::from(self.burst - 1)))
    }
}

impl fmt::Debug for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "one request in {:?}, {} at once", Duration::from_nanos(self.share), self.burst)
    }
}

/// The nanoseconds of a duration, at most those of 584 years.
fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ten requests a second.
    const RATE: fn() -> Rate = || Rate::new(10, Duration::from_secs(1));

    /// At so many milliseconds each, a client sends so many requests, and so many of them are admitted.
    #[track_caller]
    fn check(rate: Rate, steps: &[(u64, u32, u32)]) {
        let table = ClientTable::new(1);
        for (at, sent, admitted) in steps {
            let arrived = table.epoch + Duration::from_millis(*at);
            let may_send = (0..*sent).filter(|_| {
                let wait = table.wait(7, arrived, rate);
                let is_admitted = table.count(7, arrived, rate);
                assert_eq!(wait.is_zero(), is_admitted, "{wait:?} at {at} ms");
                is_admitted
            });
            assert_eq!(may_send.count() as u32, *admitted, "at {at} ms");
            let others = table.wait(8, arrived, rate);
            assert_eq!(others, Duration::ZERO, "others do not wait");
        }
    }

    #[test]
    fn a_burst_is_followed_by_one_request_per_share() {
        check(RATE(), &[(0, 12, 10), (99, 1, 0), (100, 2, 1), (350, 3, 2), (400, 2, 1)]);
        // After a while, a whole burst again, and no more.
        check(RATE(), &[(0, 10, 10), (1000, 11, 10), (60_000, 11, 10)]);
        check(RATE().with_burst(1), &[(0, 2, 1), (50, 1, 0), (100, 2, 1), (1000, 2, 1)]);
        check(RATE().with_burst(20), &[(0, 21, 20), (100, 2, 1), (2100, 21, 20)]);
    }

    #[test]
    fn every_setting_is_a_rate() {
        check(Rate::new(0, Duration::from_millis(100)).with_burst(0), &[(0, 2, 1), (99, 1, 0), (100, 2, 1)]);
        check(Rate::new(1, Duration::MAX), &[(0, 2, 1), (u32::MAX.into(), 1, 0)]);
        check(Rate::new(u32::MAX, Duration::MAX).with_burst(u32::MAX), &[(0, 9, 9), (u32::MAX.into(), 9, 9)]);
        check(Rate::new(u32::MAX, Duration::ZERO), &[(0, 9, 9)]);
    }

    #[test]
    fn the_wait_ends_when_the_next_request_is_admitted() {
        let table = ClientTable::new(0);
        let at = |millis| table.epoch + Duration::from_millis(millis);
        (0..10).for_each(|_| assert!(table.count(7, at(0), RATE())));
        assert_eq!(table.wait(7, at(0), RATE()), Duration::from_millis(100));
        assert_eq!(table.wait(7, at(60), RATE()), Duration::from_millis(40));
        assert_eq!(table.wait(7, at(100), RATE()), Duration::ZERO);
        // A clock that was read earlier than another one.
        assert_eq!(table.wait(7, table.epoch - Duration::from_millis(5), RATE()), Duration::from_millis(100));
    }

    #[test]
    fn a_full_bucket_forgets_the_client_with_the_fewest_recent_requests() {
        let table = ClientTable::new(8);
        assert_eq!(table.buckets.len(), 1);
        for client in 0..8 {
            (0..=client).for_each(|_| assert!(table.count(client, table.epoch, RATE())));
        }
        assert!(table.count(8, table.epoch, RATE()), "a new client is not refused because of others");
        let clients = || lock(&table.buckets[0]).map(|entry| entry.client);
        assert_eq!(clients(), [8, 1, 2, 3, 4, 5, 6, 7]);
        // Clients 8 and 1 may send a whole burst again after 200 ms at most, so they need no room.
        let later = table.epoch + Duration::from_millis(200);
        (9..11).for_each(|client| assert!(table.count(client, later, RATE())));
        assert_eq!(clients(), [9, 10, 2, 3, 4, 5, 6, 7]);
    }

    #[test]
    fn a_client_has_one_bucket_of_many() {
        let table = ClientTable::new(1 << 10);
        let arrived = table.epoch;
        for _ in 0..10 {
            (0..512).for_each(|client| assert!(table.count(client << 16, arrived, RATE())));
        }
        let refused = (0..512).filter(|client| !table.count(client << 16, arrived, RATE())).count();
        // Few of the buckets are full when half of the entries are taken.
        assert!(refused > 450, "{refused} of 512 are remembered");
        let used = table.buckets.iter().filter(|bucket| lock(bucket)[0].whole_at > 0).count();
        assert!(used > 100, "{used} of 128 buckets are used");
    }
}
