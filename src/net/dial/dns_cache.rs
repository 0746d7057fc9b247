//! [`DnsCache`]: a cache of the addresses that a [`Resolver`] has found.

use std::collections::HashMap;
use std::error::Error;
use std::fmt;
use std::io;
use std::net::IpAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::OnceCell;
use tokio::time::Instant;

use super::race::interleaved;
use super::resolver::{AnyResolver, Resolver, SystemResolver};
use crate::memory::lock;
use crate::net::UriHost;

/// A bounded cache of the results of a [`Resolver`], for all threads and runtimes.
///
/// Concurrent callers with the same unknown name share one query, which runs within the first caller. If that caller is
/// cancelled, the next one starts a new query, and so does a caller that comes more than a second later. A failure is
/// returned to all callers that wait for it, and is not cached.
pub(crate) struct DnsCache {
    resolver: Box<dyn AnyResolver>,
    keep: Duration,
    known: Mutex<HashMap<Box<str>, DnsEntry>>,
}

/// The addresses of a host, for one connection to it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Addresses {
    /// In the resolver's order, none of them twice. Empty if no name was looked up, as for a Unix socket.
    pub(super) found: Arc<[IpAddr]>,
    /// How many connections were opened with this name before: the offset in the round-robin.
    rotation: usize,
}

impl Addresses {
    /// The addresses in the order in which this connection tries them.
    pub(crate) fn rotated(&self) -> impl Iterator<Item = IpAddr> {
        interleaved(&self.found, self.rotation)
    }
}

impl DnsCache {
    /// Caches each result of `resolver` for `keep`. With zero nothing is cached, but concurrent queries are still
    /// shared.
    pub(crate) fn new(resolver: impl Resolver, keep: Duration) -> DnsCache {
        DnsCache { resolver: Box::new(resolver), keep: keep.min(KEEP_MAX), known: Mutex::default() }
    }

    /// Returns the addresses of `host`, which is a name or an address. An IPv6 address may be in brackets.
    ///
    /// # Errors
    ///
    /// Fails with `InvalidInput` if `host` is neither, without a query; with `NotFound` if the name has no address; and
    /// with the error of the resolver.
    pub(crate) async fn resolve(&self, host: &str) -> io::Result<Addresses> {
        let name = match UriHost::parse(host)? {
            UriHost::Address(address) => return Ok(Addresses { found: Arc::new([address]), rotation: 0 }),
            UriHost::Name(name) => name.to_ascii_lowercase(),
        };
        let (query, rotation) = self.join(&name);
        let result = query.get_or_init(|| self.look_up(&name, &query)).await;
        let found = result.clone().map_err(io::Error::from)?;
        Ok(Addresses { found, rotation })
    }

    /// Removes these addresses of `host`, which cannot be reached, from the cache. Newer ones are kept.
    pub(crate) fn forget(&self, host: &str, addresses: &Addresses) {
        let (mut known, name) = (lock(&self.known), host.to_ascii_lowercase());
        let result = known.get(&*name).and_then(|entry| entry.query.get());
        if result
            .is_some_and(|result| result.as_ref().is_ok_and(|known| Arc::ptr_eq(known, &addresses.found)))
        {
            known.remove(&*name);
        }
    }

    /// The query for `name` that is already running, that has a result which is still valid, or that the caller is to
    /// run; and how many callers have joined one before.
    fn join(&self, name: &str) -> (Arc<SharedQuery>, usize) {
        let (mut known, now) = (lock(&self.known), Instant::now());
        if let Some(entry) = known.get_mut(name) {
            let rotation = entry.rotation.wrapping_add(1);
            if entry.good_until <= now {
                *entry = DnsEntry::new(now);
            }
            entry.rotation = rotation;
            return (entry.query.clone(), rotation);
        }
        let entry = DnsEntry::new(now);
        let query = entry.query.clone();
        if make_room(&mut known) {
            known.insert(name.into(), entry);
        }
        debug_assert!(known.len() <= NAMES_MAX, "the cache is bounded");
        (query, 0)
    }

    async fn look_up(&self, name: &str, query: &Arc<SharedQuery>) -> QueryResult {
        let (result, keep) = match self.resolver.resolve(name).await {
            Ok((found, ttl)) => (addresses(found), ttl.map_or(self.keep, |ttl| ttl.min(self.keep))),
            Err(error) => (Err(error), self.keep),
        };
        let result = result.map_err(Failure::from);
        let mut known = lock(&self.known);
        // A later query for the same name may be in the cache instead, if the cache was full or this query took long.
        let entry = known.get_mut(name).filter(|entry| !entry.query.initialized());
        match (entry, &result) {
            (Some(entry), Ok(_)) => {
                (entry.query, entry.good_until) = (query.clone(), Instant::now() + keep);
            }
            (Some(entry), Err(_)) if Arc::ptr_eq(&entry.query, query) => drop(known.remove(name)),
            (_, _) => {}
        }
        result
    }
}

impl Default for DnsCache {
    fn default() -> DnsCache {
        DnsCache::new(SystemResolver, KEEP)
    }
}

/// How long a result is cached by default: the operating system does not report how long it is valid.
const KEEP: Duration = Duration::from_secs(60);

/// A century, which is within the range of clocks.
const KEEP_MAX: Duration = Duration::from_secs(100 * 365 * 24 * 60 * 60);

/// How long callers join a query that has no result yet. The future in which the query runs may never be polled again.
const JOIN_MAX: Duration = Duration::from_secs(1);

const NAMES_MAX: usize = 1024;

/// More addresses than a client could try within its time limit.
const ADDRESSES_MAX: usize = 64;

/// The cache entry of one name.
struct DnsEntry {
    query: Arc<SharedQuery>,
    /// Until when callers join the query, or, once it has a result, until when that is valid.
    good_until: Instant,
    /// How many callers have joined after the first.
    rotation: usize,
}

impl DnsEntry {
    fn new(now: Instant) -> DnsEntry {
        DnsEntry { query: Arc::default(), good_until: now + JOIN_MAX, rotation: 0 }
    }

    /// Entries with the least worth are dropped first: abandoned look-ups, then answers by age.
    fn worth(&self) -> (bool, Instant) {
        (self.query.initialized(), self.good_until)
    }
}

type SharedQuery = OnceCell<QueryResult>;
type QueryResult = Result<Arc<[IpAddr]>, Failure>;

/// Makes room for one more name, if necessary by dropping the entry with the least worth. Returns whether there is
/// room.
///
/// There is none while that many names are being looked up at once. The next one is then looked up without an entry.
fn make_room(known: &mut HashMap<Box<str>, DnsEntry>) -> bool {
    if known.len() < NAMES_MAX {
        return true;
    }
    let unattended = known.iter().filter(|(_, entry)| Arc::strong_count(&entry.query) == 1);
    let least = unattended.min_by_key(|(_, entry)| entry.worth()).map(|(name, _)| name.clone());
    least.is_some_and(|name| known.remove(&name).is_some())
}

/// The addresses of a resolver's result that are worth trying.
fn addresses(found: Vec<IpAddr>) -> io::Result<Arc<[IpAddr]>> {
    let mut addresses = Vec::with_capacity(found.len().min(ADDRESSES_MAX));
    for address in found {
        if addresses.len() < ADDRESSES_MAX && !addresses.contains(&address) {
            addresses.push(address);
        }
    }
    if addresses.is_empty() {
        return Err(io::Error::new(io::ErrorKind::NotFound, "the name has no address"));
    }
    Ok(addresses.into())
}

/// The error of a failed query, for all callers that waited for it.
#[derive(Clone, Debug)]
struct Failure(Arc<io::Error>);

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Error for Failure {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.0.source()
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Failure {
        Failure(Arc::new(error))
    }
}

impl From<Failure> for io::Error {
    fn from(failure: Failure) -> io::Error {
        io::Error::new(failure.0.kind(), failure)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::future::poll_fn;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::task::Poll;

    use tokio::runtime::Builder;
    use tokio::task::{JoinHandle, yield_now};
    use tokio::time::{advance, sleep, timeout};

    use super::*;

    /// Answers the first query for a name with one address, the second with two, and so on, after a while each.
    #[derive(Clone)]
    struct ScriptedResolver {
        asked: Arc<Mutex<BTreeMap<String, u8>>>,
        fails: Arc<AtomicBool>,
        takes: Duration,
    }

    impl Default for ScriptedResolver {
        fn default() -> ScriptedResolver {
            ScriptedResolver { asked: Arc::default(), fails: Arc::default(), takes: Duration::from_secs(1) }
        }
    }

    impl ScriptedResolver {
        fn asked(&self) -> String {
            let asked = self.asked.lock().unwrap();
            asked.iter().map(|(name, times)| format!("{name}:{times} ")).collect()
        }
    }

    impl Resolver for ScriptedResolver {
        async fn resolve(&self, name: &str) -> io::Result<Vec<IpAddr>> {
            let times = {
                let mut asked = self.asked.lock().unwrap();
                let times = asked.entry(name.to_owned()).or_default();
                *times += 1;
                *times
            };
            sleep(self.takes).await;
            match self.fails.load(Ordering::Relaxed) {
                false => Ok((1..=times).map(|last| [192, 0, 2, last].into()).collect()),
                true => Err(io::Error::new(io::ErrorKind::HostUnreachable, "no name server")),
            }
        }
    }

    fn script() -> (ScriptedResolver, Arc<DnsCache>) {
        let script = ScriptedResolver::default();
        (script.clone(), Arc::new(DnsCache::new(script, KEEP)))
    }

    /// Runs `test` on a clock that moves only when all tasks wait.
    fn run(test: impl Future<Output = ()>) {
        Builder::new_current_thread().enable_time().start_paused(true).build().unwrap().block_on(test);
    }

    /// Looks `name` up in a task, which has begun when this function returns.
    async fn ask(names: &Arc<DnsCache>, name: &'static str) -> JoinHandle<io::Result<Addresses>> {
        let names = names.clone();
        let asks = tokio::spawn(async move { names.resolve(name).await });
        yield_now().await;
        asks
    }

    #[test]
    fn only_names_are_looked_up() {
        run(async {
            let (script, names) = script();
            for (host, address) in [("127.0.0.1", "127.0.0.1"), ("[::1]", "::1"), ("::1", "::1")] {
                assert_eq!(*names.resolve(host).await.unwrap().found, [address.parse::<IpAddr>().unwrap()]);
            }
            for host in ["", "127.1", "0x7f000001", "2130706433", "[a]", "[::1", "a b", "a\0"] {
                assert_eq!(
                    names.resolve(host).await.unwrap_err().kind(),
                    io::ErrorKind::InvalidInput,
                    "{host:?}"
                );
            }
            assert_eq!(script.asked(), "");
        });
    }

    #[test]
    fn names_are_looked_up_by_the_system_by_default() {
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        let found = runtime.block_on(DnsCache::default().resolve("LocalHost")).unwrap();
        assert!(found.found.iter().all(IpAddr::is_loopback), "{found:?}");
    }

    #[test]
    fn a_response_is_kept_for_a_while() {
        run(async {
            let (script, names) = script();
            assert_eq!(names.resolve("a").await.unwrap().found.len(), 1);
            advance(KEEP - Duration::from_millis(1)).await;
            assert_eq!(names.resolve("A").await.unwrap().found.len(), 1, "names have no case");
            advance(Duration::from_millis(1)).await;
            assert_eq!(names.resolve("a").await.unwrap().found.len(), 2);
            let known = names.resolve("a").await.unwrap();
            names.forget("A", &known);
            assert_eq!(names.resolve("a").await.unwrap().found.len(), 3);
            names.forget("a", &known);
            assert_eq!(names.resolve("a").await.unwrap().found.len(), 3, "other addresses are known by now");
            assert_eq!(names.resolve("a.").await.unwrap().found.len(), 1, "another name");
            assert_eq!(script.asked(), "a:3 a.:1 ");
            assert_eq!(DnsCache::default().keep, Duration::from_secs(60));
        });
    }

    /// Returns for how many seconds an address is valid, which is also its last octet; not for the name `a`.
    struct Brief(u8);

    impl Resolver for Brief {
        async fn resolve(&self, name: &str) -> io::Result<Vec<IpAddr>> {
            Ok(self.resolve_with_ttl(name).await?.0)
        }

        async fn resolve_with_ttl(&self, name: &str) -> io::Result<(Vec<IpAddr>, Option<Duration>)> {
            let ttl = (name != "a").then_some(Duration::from_secs(self.0.into()));
            Ok((vec![[192, 0, 2, self.0].into()], ttl))
        }
    }

    #[test]
    fn a_response_is_kept_no_longer_than_it_is_valid() {
        for (ttl, name, keep, expected) in [
            (5, "b", KEEP, 5),
            (90, "b", KEEP, 60),
            (90, "b", Duration::MAX, 90),
            (0, "b", KEEP, 0),
            (5, "b", Duration::ZERO, 0),
            (5, "a", KEEP, 60),
        ] {
            run(async {
                let names = DnsCache::new(Brief(ttl), keep);
                let first = names.resolve(name).await.unwrap().found;
                let mut kept = 0;
                while Arc::ptr_eq(&first, &names.resolve(name).await.unwrap().found) {
                    advance(Duration::from_secs(1)).await;
                    kept += 1;
                }
                assert_eq!(kept, expected, "{ttl} {name} {keep:?}");
            });
        }
    }

    #[test]
    fn each_connection_takes_another_turn_even_after_another_look_up() {
        run(async {
            let names = DnsCache::new(Brief(5), KEEP);
            for rotation in 0..20 {
                assert_eq!(names.resolve("b").await.unwrap().rotation, rotation);
                advance(Duration::from_secs(1)).await;
            }
            let callers = Vec::from_iter((20..50).map(|_| names.resolve("b")));
            for (rotation, caller) in (20..).zip(callers) {
                assert_eq!(caller.await.unwrap().rotation, rotation);
            }
        });
    }

    #[test]
    fn one_look_up_serves_all_callers_that_come_meanwhile() {
        run(async {
            let (script, names) = script();
            let callers = [ask(&names, "a").await, ask(&names, "a").await, ask(&names, "b").await];
            for caller in callers {
                assert_eq!(caller.await.unwrap().unwrap().found.len(), 1);
            }
            assert_eq!(script.asked(), "a:1 b:1 ");
        });
    }

    #[test]
    fn a_cancelled_caller_hands_over_to_the_next() {
        run(async {
            let (script, names) = script();
            let (first, second) = (ask(&names, "a").await, ask(&names, "a").await);
            let third = ask(&names, "a").await;
            first.abort();
            assert_eq!(second.await.unwrap().unwrap().found.len(), 2);
            assert_eq!(third.await.unwrap().unwrap().found.len(), 2);
            assert_eq!(script.asked(), "a:2 ");
            let alone = ask(&names, "b").await;
            alone.abort();
            assert!(alone.await.unwrap_err().is_cancelled());
            assert_eq!(
                names.resolve("b").await.unwrap().found.len(),
                2,
                "nobody waits for the cancelled one"
            );
        });
    }

    /// A name must not be out of reach while a future is held that began its query and is not polled.
    #[test]
    fn a_query_that_is_not_polled_does_not_hold_up_later_callers() {
        run(async {
            let (script, names) = script();
            let mut held = Box::pin(names.resolve("a"));
            assert!(poll_fn(|cx| Poll::Ready(held.as_mut().poll(cx))).await.is_pending());
            advance(JOIN_MAX).await;
            let (second, third) = (ask(&names, "a").await, ask(&names, "a").await);
            for caller in [second, third] {
                let result = timeout(JOIN_MAX * 9, caller).await.expect("it does not wait for the first");
                assert_eq!(result.unwrap().unwrap().found.len(), 2);
            }
            assert_eq!(held.await.unwrap().found.len(), 1);
            assert_eq!(names.resolve("a").await.unwrap().found.len(), 2, "the newer result is kept");
            assert_eq!(script.asked(), "a:2 ");
        });
    }

    #[test]
    fn a_response_that_takes_long_is_kept_all_the_same() {
        run(async {
            let script = ScriptedResolver { takes: JOIN_MAX * 3 / 2, ..ScriptedResolver::default() };
            let names = Arc::new(DnsCache::new(script.clone(), KEEP));
            let first = ask(&names, "a").await;
            advance(JOIN_MAX).await;
            let second = ask(&names, "a").await;
            assert_eq!(first.await.unwrap().unwrap().found.len(), 1);
            assert_eq!(names.resolve("a").await.unwrap().found.len(), 1);
            assert_eq!(second.await.unwrap().unwrap().found.len(), 2);
            assert_eq!(names.resolve("a").await.unwrap().found.len(), 1);
            assert_eq!(script.asked(), "a:2 ");
        });
    }

    #[test]
    fn a_failure_is_returned_to_all_waiting_callers_and_is_not_cached() {
        run(async {
            let (script, names) = script();
            script.fails.store(true, Ordering::Relaxed);
            for caller in [ask(&names, "a").await, ask(&names, "a").await] {
                let error = caller.await.unwrap().unwrap_err();
                assert_eq!(
                    (error.kind(), &*error.to_string()),
                    (io::ErrorKind::HostUnreachable, "no name server")
                );
            }
            script.fails.store(false, Ordering::Relaxed);
            assert_eq!(names.resolve("a").await.unwrap().found.len(), 2);
        });
        run(async {
            let script = ScriptedResolver { takes: Duration::ZERO, ..ScriptedResolver::default() };
            let names = DnsCache::new(script.clone(), KEEP);
            script.fails.store(true, Ordering::Relaxed);
            names.resolve("a").await.unwrap_err();
            script.fails.store(false, Ordering::Relaxed);
            assert_eq!(
                names.resolve("a").await.unwrap().found.len(),
                2,
                "nor for as long as others may join"
            );
        });
    }

    #[test]
    fn a_response_is_bounded_and_names_no_address_twice() {
        let found = |count: u8| (0..count).map(|last| IpAddr::from([192, 0, 2, last])).collect::<Vec<_>>();
        assert_eq!(addresses(found(0)).unwrap_err().kind(), io::ErrorKind::NotFound);
        assert_eq!(addresses(found(64)).unwrap().to_vec(), found(64));
        assert_eq!(addresses(found(65)).unwrap().to_vec(), found(64));
        assert_eq!(addresses([found(2), found(3)].concat()).unwrap().to_vec(), found(3));
    }

    #[test]
    fn the_oldest_answer_makes_room_for_a_new_one() {
        run(async {
            for keep in [KEEP * 60, Duration::MAX] {
                let names = DnsCache::new(ScriptedResolver::default(), keep);
                for number in 0..=NAMES_MAX {
                    names.resolve(&format!("n{number}")).await.unwrap();
                }
                for (name, times) in [("n1", 1), ("n1024", 1), ("n0", 2), ("n1", 2)] {
                    assert_eq!(names.resolve(name).await.unwrap().found.len(), times, "{name}");
                    assert_eq!(lock(&names.known).len(), NAMES_MAX);
                }
            }
        });
    }

    #[test]
    fn a_look_up_under_way_is_not_displaced() {
        run(async {
            let (_, names) = script();
            let mut running: Vec<_> =
                (0..NAMES_MAX).map(|number| names.join(&format!("n{number}")).0).collect();
            for times in [1, 2] {
                assert_eq!(names.resolve("late").await.unwrap().found.len(), times, "not noted");
            }
            running.pop();
            for _ in 0..2 {
                assert_eq!(
                    names.resolve("late").await.unwrap().found.len(),
                    3,
                    "noted instead of an abandoned one"
                );
            }
            running.pop();
            names.resolve("later").await.unwrap();
            assert_eq!(names.resolve("late").await.unwrap().found.len(), 3, "an old result is worth more");
        });
    }

    #[test]
    fn a_look_up_without_room_does_not_answer_for_a_later_one() {
        run(async {
            let (script, names) = script();
            let mut running: Vec<_> =
                (0..NAMES_MAX).map(|number| names.join(&format!("n{number}")).0).collect();
            let first = ask(&names, "a").await;
            running.pop();
            advance(Duration::from_millis(500)).await;
            let second = ask(&names, "a").await;
            script.fails.store(true, Ordering::Relaxed);
            first.await.unwrap().unwrap_err();
            script.fails.store(false, Ordering::Relaxed);
            let third = ask(&names, "a").await;
            assert_eq!(second.await.unwrap().unwrap().found, third.await.unwrap().unwrap().found);
            assert_eq!(script.asked(), "a:2 ");
        });
    }
}
