//! [`DnsCache`]: a cache of the addresses that a [`Resolver`] has found.

use std::collections::HashMap;
use std::future::poll_fn;
use std::io;
use std::net::IpAddr;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Duration;

use tokio::runtime::{Handle, Id};
use tokio::time::{Instant, timeout};

use super::look_ups::{LookUp, LookUpResult, LookUps};
use super::race::interleaved;
use super::resolver::{AnyResolver, Resolver, SrvRecord, SystemResolver};
use crate::descriptors::want_of_descriptors;
use crate::memory::lock;
use crate::net::UriHost;

/// A bounded cache of the results of a [`Resolver`], for all threads and runtimes.
///
/// A name that is not known is looked up by a task, for all callers of its runtime. Another runtime has a task of its
/// own, because this one may never be polled again. A failure is returned to all callers that wait for it, and is not
/// cached.
pub(crate) struct DnsCache {
    resolver: Arc<dyn AnyResolver>,
    keep: Duration,
    /// Names that are not looked up, in lower case and without a final dot.
    fixed: Arc<HashMap<Box<str>, Arc<[IpAddr]>>>,
    known: Mutex<HashMap<Box<str>, DnsEntry>>,
    look_ups: LookUps<LookUpKey, Arc<[IpAddr]>>,
    srv_look_ups: LookUps<LookUpKey, SrvAnswer>,
}

/// The runtime in which a name is looked up, and the name.
type LookUpKey = (Id, Box<str>);

/// The SRV records of a name, and for how long they are valid.
type SrvAnswer = (Arc<[SrvRecord]>, Duration);

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
        DnsCache::from_parts(Arc::new(resolver), keep.min(KEEP_MAX), Arc::default())
    }

    /// The same resolver, whose results are kept for `keep`. Nothing is known yet.
    pub(crate) fn kept_for(&self, keep: Duration) -> DnsCache {
        DnsCache::from_parts(self.resolver.clone(), keep.min(KEEP_MAX), self.fixed.clone())
    }

    /// Another resolver, whose results are kept for as long. Nothing is known yet.
    pub(crate) fn asking(&self, resolver: impl Resolver) -> DnsCache {
        DnsCache::from_parts(Arc::new(resolver), self.keep, self.fixed.clone())
    }

    /// The same resolver, which is not asked for `name`: it has these addresses. With none, it cannot be reached.
    pub(crate) fn with_fixed(&self, name: &str, found: Vec<IpAddr>) -> DnsCache {
        let mut fixed = HashMap::clone(&self.fixed);
        fixed.insert(fixed_key(&name.to_ascii_lowercase()).into(), addresses(found).unwrap_or_default());
        DnsCache::from_parts(self.resolver.clone(), self.keep, Arc::new(fixed))
    }

    fn from_parts(
        resolver: Arc<dyn AnyResolver>,
        keep: Duration,
        fixed: Arc<HashMap<Box<str>, Arc<[IpAddr]>>>,
    ) -> DnsCache {
        let look_ups = LookUps::new(NAMES_MAX);
        let srv_look_ups = LookUps::new(NAMES_MAX);
        DnsCache { resolver, keep, fixed, known: Mutex::default(), look_ups, srv_look_ups }
    }

    /// Returns the addresses of `host`, which is a name or an address. An IPv6 address may be in brackets.
    ///
    /// # Errors
    ///
    /// Fails with `InvalidInput` if `host` is neither, without a query; with `NotFound` if the name has no address; and
    /// with the error of the resolver.
    pub(crate) async fn resolve(self: &Arc<DnsCache>, host: &str) -> io::Result<Addresses> {
        let name = match UriHost::parse(host)? {
            UriHost::Address(address) => return Ok(Addresses { found: Arc::new([address]), rotation: 0 }),
            UriHost::Name(name) => Box::from(name.to_ascii_lowercase()),
        };
        let Turn { known, is_kept, rotation } = self.take_turn(&name);
        let found = match self.fixed.get(fixed_key(&name)).cloned().or(known) {
            Some(found) if found.is_empty() => return Err(no_address()),
            Some(found) => found,
            None if is_kept => match timeout(ANSWER_MAX, self.look_up(name.clone())).await {
                Ok(found) => found?,
                Err(_) => self.last(&name).ok_or(io::ErrorKind::TimedOut)?,
            },
            None => self.look_up(name).await?,
        };
        Ok(Addresses { found, rotation })
    }

    /// Has the last addresses of `name` stay while it cannot be looked up (RFC 8767), as long as the name is not dropped for
    /// others.
    pub(crate) fn keep_last(&self, name: &str) {
        let mut known = lock(&self.known);
        entry(&mut known, &name.to_ascii_lowercase()).is_kept = true;
    }

    /// Returns the addresses of `host` as [`DnsCache::resolve`] does, and for how long they are still valid.
    ///
    /// # Errors
    ///
    /// As [`DnsCache::resolve`].
    pub(crate) async fn resolve_with_ttl(
        self: &Arc<DnsCache>,
        host: &str,
    ) -> io::Result<(Arc<[IpAddr]>, Duration)> {
        let found = self.resolve(host).await?.found;
        let name = host.to_ascii_lowercase();
        if self.fixed.contains_key(fixed_key(&name)) || !matches!(UriHost::parse(host), Ok(UriHost::Name(_)))
        {
            return Ok((found, KEEP_MAX));
        }
        // Names that were needed more recently may have taken the place of this one.
        let good_until = lock(&self.known).get(&*name).map(|entry| entry.good_until);
        let left = good_until.map(|until| until.saturating_duration_since(Instant::now()));
        Ok((found, left.unwrap_or_default()))
    }

    /// Looks up the SRV records of a service (RFC 2782), and returns for how long they are valid, at most as long as addresses
    /// are kept. They are not cached, since only the task of a balancer looks them up.
    ///
    /// # Errors
    ///
    /// Fails with the error of the resolver.
    pub(crate) async fn resolve_srv(self: &Arc<DnsCache>, service: &str) -> io::Result<SrvAnswer> {
        let runtime = Handle::try_current().map_err(io::Error::other)?;
        let name: Box<str> = service.to_ascii_lowercase().into();
        let cache = self.clone();
        let begin = |look_up: LookUp<_, _>| {
            let name = name.clone();
            runtime.spawn(async move {
                let asked = pin!(cache.resolver.resolve_srv(&name));
                let Some(answer) = while_awaited(asked, &look_up).await else { return };
                let found = answer.map(|(found, ttl)| (found.into(), cache.kept(ttl)));
                look_up.end(found.map_err(From::from));
            });
            Ok(())
        };
        self.srv_look_ups.join((runtime.id(), name.clone()), begin).await
    }

    /// For how long an answer is kept that is valid for so long.
    fn kept(&self, ttl: Option<Duration>) -> Duration {
        ttl.map_or(self.keep, |ttl| ttl.min(self.keep))
    }

    /// Has `host` looked up again, since these addresses cannot be reached. Newer ones are kept.
    pub(crate) fn forget(&self, host: &str, addresses: &Addresses) {
        let mut known = lock(&self.known);
        let name = host.to_ascii_lowercase();
        if let Some(entry) = known.get_mut(&*name)
            && entry.found.as_ref().is_some_and(|found| Arc::ptr_eq(found, &addresses.found))
        {
            entry.good_until = Instant::now();
        }
    }

    /// The addresses of `name`, as far as they are known, and the turn of one caller more.
    fn take_turn(&self, name: &str) -> Turn {
        let mut known = lock(&self.known);
        let is_new = !known.contains_key(name);
        let entry = entry(&mut known, name);
        entry.rotation = entry.rotation.wrapping_add(usize::from(!is_new));
        let is_kept = entry.is_kept && entry.found.is_some();
        Turn { known: entry.valid_at(Instant::now()), is_kept, rotation: entry.rotation }
    }

    /// The last addresses of `name`, which could not be looked up, if they stay: they are valid for a while more.
    fn last(&self, name: &str) -> Option<Arc<[IpAddr]>> {
        let mut known = lock(&self.known);
        let entry = known.get_mut(name).filter(|entry| entry.is_kept)?;
        let now = Instant::now();
        if entry.good_until <= now {
            entry.good_until = now + PAUSE_AFTER_FAILURE;
        }
        entry.found.clone()
    }

    async fn look_up(self: &Arc<DnsCache>, name: Box<str>) -> io::Result<Arc<[IpAddr]>> {
        let runtime = Handle::try_current().map_err(io::Error::other)?;
        let cache = self.clone();
        let begin = |look_up: LookUp<_, _>| {
            let name = name.clone();
            runtime.spawn(async move { cache.ask(&name, look_up).await });
            Ok(())
        };
        self.look_ups.join((runtime.id(), name.clone()), begin).await
    }

    /// Asks the resolver, and stores its answer. Gives up once no caller has waited for long.
    async fn ask(&self, name: &str, look_up: LookUp<LookUpKey, Arc<[IpAddr]>>) {
        // The caller may have waited for its permit, while another runtime has found the answer.
        if let Some(found) = lock(&self.known).get(name).and_then(|entry| entry.valid_at(Instant::now())) {
            return look_up.end(Ok(found));
        }
        let asked = pin!(self.resolver.resolve(name));
        let Some(answer) = while_awaited(asked, &look_up).await else { return };
        // `getaddrinfo` states that a name is unknown if it has no descriptor to look it up with.
        let answer = answer.map_err(|error| want_of_descriptors().unwrap_or(error));
        look_up.end(self.store(name, answer));
    }

    fn store(
        &self,
        name: &str,
        answer: io::Result<(Vec<IpAddr>, Option<Duration>)>,
    ) -> LookUpResult<Arc<[IpAddr]>> {
        let (found, ttl) = match answer.and_then(|(found, ttl)| Ok((addresses(found)?, ttl))) {
            Ok(answer) => answer,
            Err(error) => return self.last(name).ok_or(error.into()),
        };
        let mut known = lock(&self.known);
        // Names that were needed more recently may have taken the place of this one.
        let entry = entry(&mut known, name);
        entry.found = Some(found.clone());
        entry.good_until = Instant::now() + self.kept(ttl);
        Ok(found)
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

/// The outcome of a resolver that was asked; `None` once no caller has waited for it for long, or while others find no room.
async fn while_awaited<T, A>(
    mut asked: impl Future<Output = T> + Unpin,
    look_up: &LookUp<LookUpKey, A>,
) -> Option<T> {
    let mut given_up = pin!(look_up.give_way());
    let mut answered = poll_fn(|cx| match Pin::new(&mut asked).poll(cx) {
        Poll::Ready(answer) => Poll::Ready(Some(answer)),
        Poll::Pending => given_up.as_mut().poll(cx).map(|()| None),
    });
    loop {
        match timeout(UNAWAITED_MAX, &mut answered).await {
            Ok(answer) => return answer,
            Err(_) if look_up.leave() => return None,
            Err(_) => {}
        }
    }
}

/// How long a look-up goes on for callers that may still come.
const UNAWAITED_MAX: Duration = Duration::from_secs(30);

/// For how long last addresses stay that nobody has needed (RFC 8767 §5). Targets of a service come and go.
const STALE_MAX: Duration = Duration::from_secs(24 * 60 * 60);

/// How many names are known, and how many are looked up at once.
const NAMES_MAX: usize = 1024;

/// More addresses than a client could try within its time limit.
const ADDRESSES_MAX: usize = 64;

/// How long the look-up of a name may take whose last addresses stay, before these are used (RFC 8767 §5).
const ANSWER_MAX: Duration = Duration::from_millis(1_800);

/// The time until such a name is looked up again.
const PAUSE_AFTER_FAILURE: Duration = Duration::from_secs(5);

/// The part of an entry that one caller needs.
struct Turn {
    /// The addresses, if they are still valid.
    known: Option<Arc<[IpAddr]>>,
    /// Whether there are last ones, which stay while the name cannot be looked up.
    is_kept: bool,
    /// How many callers have asked for the name before.
    rotation: usize,
}

/// The cache entry of one name.
struct DnsEntry {
    found: Option<Arc<[IpAddr]>>,
    /// Until when the addresses are valid.
    good_until: Instant,
    /// Whether the last addresses stay while the name cannot be looked up.
    is_kept: bool,
    /// How many callers have asked for the name after the first.
    rotation: usize,
}

impl DnsEntry {
    fn new(now: Instant) -> DnsEntry {
        DnsEntry { found: None, good_until: now, is_kept: false, rotation: 0 }
    }

    fn valid_at(&self, now: Instant) -> Option<Arc<[IpAddr]>> {
        self.found.clone().filter(|_| self.good_until > now)
    }
}

/// The entry of `name`, which is new if there was none.
fn entry<'a>(known: &'a mut HashMap<Box<str>, DnsEntry>, name: &str) -> &'a mut DnsEntry {
    if !known.contains_key(name) {
        make_room(known);
    }
    known.entry(name.into()).or_insert_with(|| DnsEntry::new(Instant::now()))
}

/// Makes room for one more name, if necessary by dropping one: without an answer, or else with the oldest. Names whose last
/// addresses are to stay are dropped after all others.
fn make_room(known: &mut HashMap<Box<str>, DnsEntry>) {
    if known.len() < NAMES_MAX {
        return;
    }
    let now = Instant::now();
    let is_kept =
        |entry: &DnsEntry| entry.is_kept && now.saturating_duration_since(entry.good_until) < STALE_MAX;
    let least =
        known.iter().min_by_key(|(_, entry)| (is_kept(entry), entry.found.is_some(), entry.good_until));
    if let Some(name) = least.map(|(name, _)| name.clone()) {
        known.remove(&name);
    }
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
        return Err(no_address());
    }
    Ok(addresses.into())
}

fn no_address() -> io::Error {
    io::Error::new(io::ErrorKind::NotFound, "the name has no address")
}

/// A name, in lower case, as it is among those that are not looked up. With its final dot it is the same name (RFC 1034
/// §3.1).
fn fixed_key(name: &str) -> &str {
    name.strip_suffix('.').unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::future::pending;
    use std::sync::atomic::{AtomicBool, Ordering};

    use tokio::runtime::Builder;
    use tokio::task::{JoinHandle, JoinSet, yield_now};
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
        let found = runtime.block_on(Arc::new(DnsCache::default()).resolve("LocalHost")).unwrap();
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

    #[test]
    fn the_last_addresses_of_a_name_stay_if_they_are_to_rfc8767() {
        run(async {
            let (script, names) = script();
            names.keep_last("A");
            script.fails.store(true, Ordering::Relaxed);
            assert!(names.resolve("a").await.is_err(), "there are none yet");
            script.fails.store(false, Ordering::Relaxed);
            for name in ["a", "b"] {
                names.resolve(name).await.unwrap();
            }
            advance(KEEP).await;
            script.fails.store(true, Ordering::Relaxed);
            assert!(names.resolve("b").await.is_err(), "it is not to be kept");
            let last = names.resolve("a").await.unwrap();
            assert_eq!((last.found.len(), script.asked().as_str()), (2, "a:3 b:2 "));
            // They are valid for a while, unless they cannot be reached.
            assert!(Arc::ptr_eq(&last.found, &names.resolve("a").await.unwrap().found));
            assert_eq!(script.asked(), "a:3 b:2 ");
            names.forget("a", &last);
            assert_eq!(names.resolve("a").await.unwrap().found.len(), 2);
            assert_eq!(script.asked(), "a:4 b:2 ");
            script.fails.store(false, Ordering::Relaxed);
            advance(PAUSE_AFTER_FAILURE).await;
            assert_eq!(names.resolve("a").await.unwrap().found.len(), 5);
        });
    }

    #[test]
    fn the_last_addresses_stay_however_many_other_names_are_needed() {
        run(async {
            let (script, names) = script();
            names.keep_last("a");
            names.resolve("a").await.unwrap();
            advance(KEEP).await;
            for number in 0..2 * NAMES_MAX {
                names.resolve(&format!("{number}.example")).await.unwrap();
            }
            script.fails.store(true, Ordering::Relaxed);
            assert!(names.resolve("a").await.is_ok());
            // A day later, nobody needs them any more.
            advance(KEEP + STALE_MAX).await;
            script.fails.store(false, Ordering::Relaxed);
            for number in 0..NAMES_MAX {
                names.resolve(&format!("{number}.example")).await.unwrap();
            }
            script.fails.store(true, Ordering::Relaxed);
            assert!(names.resolve("a").await.is_err());
        });
    }

    #[test]
    fn the_last_addresses_are_used_if_a_look_up_takes_long_rfc8767_5() {
        run(async {
            let script = ScriptedResolver { takes: Duration::from_secs(20), ..ScriptedResolver::default() };
            let names = Arc::new(DnsCache::new(script.clone(), KEEP));
            names.keep_last("a");
            let first = names.resolve("a").await.unwrap();
            advance(KEEP).await;
            let began = Instant::now();
            for _ in 0..3 {
                assert!(Arc::ptr_eq(&names.resolve("a").await.unwrap().found, &first.found));
            }
            assert_eq!((began.elapsed().as_millis() / 100, script.asked().as_str()), (18, "a:2 "));
            // The look-up goes on without the callers.
            sleep(script.takes).await;
            assert_eq!(names.resolve("a").await.unwrap().found.len(), 2);
            assert_eq!(script.asked(), "a:2 ");
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
                let names = Arc::new(DnsCache::new(Brief(ttl), keep));
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
            let names = Arc::new(DnsCache::new(Brief(5), KEEP));
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

    /// Twenty callers of 200 ms never had an answer of a resolver that takes 300 ms, and each began a query.
    #[test]
    fn a_look_up_goes_on_for_callers_that_come_when_the_first_has_left() {
        run(async {
            let script =
                ScriptedResolver { takes: Duration::from_millis(300), ..ScriptedResolver::default() };
            let names = Arc::new(DnsCache::new(script.clone(), KEEP));
            let mut found = Vec::new();
            for _ in 0..20 {
                found.push(timeout(Duration::from_millis(200), names.resolve("a")).await.is_ok());
            }
            assert_eq!((found[0], found[1..].iter().all(|found| *found)), (false, true));
            let alone = ask(&names, "b").await;
            alone.abort();
            assert!(alone.await.unwrap_err().is_cancelled());
            sleep(script.takes * 2).await;
            let late = timeout(Duration::ZERO, names.resolve("b")).await.expect("it is known");
            assert_eq!(late.unwrap().found.len(), 1);
            assert_eq!(script.asked(), "a:1 b:1 ");
        });
    }

    /// Never answers.
    struct Silent;

    impl Resolver for Silent {
        async fn resolve(&self, _: &str) -> io::Result<Vec<IpAddr>> {
            pending().await
        }
    }

    #[test]
    fn a_look_up_ends_some_time_after_its_last_caller_has_left() {
        run(async {
            let names = Arc::new(DnsCache::new(Silent, KEEP));
            let tasks = || Handle::current().metrics().num_alive_tasks();
            for _ in 0..3 {
                timeout(UNAWAITED_MAX * 2, names.resolve("a")).await.unwrap_err();
            }
            assert_eq!(tasks(), 1);
            sleep(UNAWAITED_MAX * 2).await;
            assert_eq!(tasks(), 0);
        });
    }

    /// Names that hang must not keep others from being looked up, once their callers have left.
    #[test]
    fn look_ups_that_nobody_awaits_give_way() {
        run(async {
            let hangs = ScriptedResolver { takes: UNAWAITED_MAX * 2, ..ScriptedResolver::default() };
            let names = Arc::new(DnsCache::new(hangs.clone(), KEEP));
            let hung: Vec<String> = (0..NAMES_MAX + 100).map(|at| format!("n{at}")).collect();
            let mut asking = JoinSet::new();
            for name in hung {
                let names = names.clone();
                asking.spawn(async move { timeout(Duration::from_millis(500), names.resolve(&name)).await });
            }
            let late = names.clone();
            let late = tokio::spawn(async move { late.resolve("late").await.map(|_| Instant::now()) });
            let begun = Instant::now();
            assert!(asking.join_all().await.iter().all(Result::is_err));
            let took = late.await.unwrap().unwrap() - begun;
            assert_eq!(took.as_secs(), hangs.takes.as_secs(), "it began with the end of the others");
            assert_eq!(tokio::runtime::Handle::current().metrics().num_alive_tasks(), 0);
        });
    }

    /// A runtime that is not polled must not keep a name from the others.
    #[test]
    fn each_runtime_looks_up_for_itself_and_finds_what_another_has_found() {
        let (script, names) = script();
        let runtime = || Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        let (halted, other) = (runtime(), runtime());
        drop(halted.block_on(ask(&names, "a")));
        let found = |seconds| {
            other.block_on(async { timeout(Duration::from_secs(seconds), names.resolve("a")).await })
        };
        assert_eq!(found(2).unwrap().unwrap().found.len(), 2);
        assert_eq!(found(0).unwrap().unwrap().found.len(), 2);
        assert_eq!(script.asked(), "a:2 ");
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
            let names = Arc::new(DnsCache::new(script.clone(), KEEP));
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
                let names = Arc::new(DnsCache::new(ScriptedResolver::default(), keep));
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
    fn no_more_names_than_that_are_looked_up_at_once_and_the_next_wait_in_line() {
        run(async {
            let names = Arc::new(DnsCache::new(ScriptedResolver::default(), KEEP));
            let mut callers = Vec::new();
            for number in 0..NAMES_MAX + 2 {
                let names = names.clone();
                let name = format!("n{number}");
                callers.push(tokio::spawn(async move { names.resolve(&name).await.map(|_| Instant::now()) }));
            }
            let start = Instant::now();
            let mut waited = Vec::new();
            for caller in callers {
                waited.push(caller.await.unwrap().unwrap().duration_since(start).as_secs());
            }
            assert_eq!((waited[NAMES_MAX - 1], &waited[NAMES_MAX..]), (1, &[2, 2][..]));
            assert_eq!(lock(&names.known).len(), NAMES_MAX);
        });
    }
}
