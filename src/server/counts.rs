//! [`ServerCounts`]: the counts of a server, and of each of its cores.

use std::fmt;
use std::iter::zip;
use std::ops::AddAssign;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, OnceLock};

use crate::exchange::{ExchangeError, Phase};
use crate::memory::{CachePadded, Counter, POOL_NAMES, PoolCounts, ReuseCounters};
use crate::net::tls;
use crate::runtime::{MemoryBudget, MemoryCounts};
use crate::server::error::ErrorCause;

/// The counts of a server so far, for each core and in total.
///
/// The counters are read without a lock, so they may be a moment apart.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
///
/// use corehttp::net::MemoryListener;
/// use corehttp::{Context, Server};
///
/// # fn main() -> corehttp::Result {
/// let server = Server::bind(MemoryListener::new()).start(|ctx: &mut Context| ctx.response.set_text("hi"))?;
/// let counts = server.counts();
/// assert_eq!((counts.total.requests, counts.cores[0].open), (0, 0));
/// println!("{counts}"); // one line for people; the feature `metrics` writes text for Prometheus
/// server.stop(Duration::ZERO);
/// server.wait()
/// # }
/// ```
#[doc(alias("metrics", "prometheus"))]
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ServerCounts {
    /// The sum over all cores.
    pub total: CoreCounts,
    /// The counts of each core.
    pub cores: Vec<CoreCounts>,
    /// The memory of peers, which the cores share.
    pub memory: MemoryCounts,
}

impl ServerCounts {
    pub(super) fn from_cores(cores: &[Arc<CoreCounterSet>]) -> ServerCounts {
        let memory = cores.first().map(|core| core.memory_counts()).unwrap_or_default();
        let cores: Vec<CoreCounts> = cores.iter().map(|core| core.counts()).collect();
        let mut total = CoreCounts::default();
        cores.iter().for_each(|core| total += core);
        ServerCounts { total, cores, memory }
    }
}

/// The counts of one core, or of all of them together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CoreCounts {
    /// Connections open now.
    pub open: u64,
    /// Connections accepted, including those that were then refused.
    pub accepted: u64,
    /// Connections still open at the end of a stop's grace period.
    pub aborted: u64,
    /// Requests whose head was received and valid.
    pub requests: u64,
    /// Bytes received, without the overhead of TLS and without upgraded connections, but with WebSockets.
    pub received: u64,
    /// Bytes sent, counted likewise.
    pub sent: u64,
    /// Messages that WebSockets have received. A message in several parts counts once.
    pub messages_received: u64,
    /// Messages that WebSockets have sent.
    pub messages_sent: u64,
    /// Errors, by kind.
    pub errors: ErrorCounts,
    /// In the order of [`GUARDS`].
    pub(super) refusals: [u64; GUARDS.len()],
    /// In the order of [`POOL_NAMES`].
    pub(super) pools: [PoolCounts; POOL_NAMES.len()],
}

impl CoreCounts {
    /// Returns the counts of the objects that a core keeps to use them again, each kind with its name:
    ///
    /// - `contexts`, each with the buffers of an exchange. A connection takes one while it is busy;
    /// - `futures`, each for the handler of a busy connection;
    /// - `encoders` and `decoders`, the states of content codings. Large content, which another thread encodes, is not
    ///   counted;
    /// - `transforms`, each for a response that may be compressed;
    /// - `deflaters` and `inflaters`, the states of compressed WebSockets.
    ///
    /// The first two are counted once a second. The others are those of the thread: of several services on one thread,
    /// the newest one counts them. The memory of codecs is known to within a few KB. An allocator may keep freed
    /// memory: see [On the open internet](crate::guide::open_internet).
    pub fn pools(&self) -> impl Iterator<Item = (&'static str, PoolCounts)> + use<> {
        zip(POOL_NAMES, self.pools)
    }

    /// Returns how many requests each guard of [`middleware`](crate::middleware) has refused, with the guard's name.
    /// The names are `rate_limit`, `concurrency_limit`, `cross_origin`, `https_redirect` and `guard`. The
    /// refusals of `https_redirect` are of hosts that are not allowed. All guards made of functions are `guard`.
    pub fn refusals(&self) -> impl Iterator<Item = (&'static str, u64)> + use<> {
        zip(GUARDS, self.refusals)
    }

    /// The same counts as those of a core that has ended: nothing is open or kept.
    #[allow(dead_code, reason = "unused without the feature `metrics`")]
    pub(crate) fn ended(mut self) -> CoreCounts {
        self.open = 0;
        self.pools.iter_mut().for_each(|pool| (pool.kept, pool.bytes) = (0, 0));
        self
    }
}

impl AddAssign<&CoreCounts> for CoreCounts {
    fn add_assign(&mut self, other: &CoreCounts) {
        let CoreCounts { open, accepted, aborted, requests, received, sent, errors, refusals, pools, .. } =
            other;
        self.open += open;
        self.accepted += accepted;
        self.aborted += aborted;
        self.requests += requests;
        self.received += received;
        self.sent += sent;
        self.messages_received += other.messages_received;
        self.messages_sent += other.messages_sent;
        self.errors += errors;
        zip(&mut self.refusals, refusals).for_each(|(sum, count)| *sum += count);
        zip(&mut self.pools, pools).for_each(|(sum, pool)| *sum += *pool);
    }
}

/// How often something went wrong, by kind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ErrorCounts {
    /// Messages that broke RFC 9112, or a limit.
    pub wire: u64,
    /// Peers that were too slow.
    pub timed_out: u64,
    /// Connections that ended inside a message, except after an error response. Also handlers, such as those of
    /// gateways, that failed after an early close.
    pub incomplete: u64,
    /// Sockets that failed.
    pub io: u64,
    /// Handlers that failed or took too long. A bare [`Status`](crate::Status) does not count, unless it cuts a
    /// response off. Failures to read or to write are counted above.
    pub handler: u64,
    /// Requests that a handler rejected, with a cause and a status of 4xx, as with the error of
    /// [`Request::form`](crate::Request::form) for a malformed form.
    pub rejected: u64,
    /// Panics of handlers, of values that they left behind, and of other functions of the application, such as a
    /// resolver of TLS.
    pub panic: u64,
    /// Requests that a handler's [`BodyPlan`](crate::BodyPlan) refused, and CONNECT requests without a plan.
    pub refused: u64,
    /// Connections beyond a limit of connections, and requests refused for lack of memory
    /// ([`Limits::memory_max`](crate::Limits::memory_max)).
    pub overload: u64,
    /// Attempts to accept that failed for lack of descriptors or memory. The peers wait for another attempt, which the
    /// server makes at least once a second. For lack of descriptors, the connections that have been idle for longest
    /// are closed: of each client, and of each server of the process with a time limit for idle connections. The
    /// failure of a listener for good, which stops the server, counts as well.
    pub accept: u64,
    /// Reports of the server's certificates: about to expire, expired, or refused.
    pub certificate: u64,
    /// TLS handshakes that failed. A peer that merely went away, or a panic of the application, does not count.
    pub tls: u64,
    /// Requests that a [`SharedRateLimit`](crate::middleware::SharedRateLimit) could not count, after a failure of its
    /// store.
    pub rates: u64,
}

impl ErrorCounts {
    /// A count of one, of the kind of `cause`.
    fn from_cause(cause: &ErrorCause) -> ErrorCounts {
        let mut one = ErrorCounts::default();
        let count = match cause {
            ErrorCause::Exchange(error) => one.counter_for(error),
            // An error that the handler got from a read or a write, and passed on, is one of the connection and not of
            // the handler.
            ErrorCause::Handler(error) => match error.downcast_cause() {
                Some(error) => one.counter_for(error),
                None if error.is_peer_fault() => &mut one.rejected,
                None => &mut one.handler,
            },
            ErrorCause::ProxyHeader(_) => &mut one.wire,
            ErrorCause::Panic | ErrorCause::Tls(tls::Error::Panic) => &mut one.panic,
            ErrorCause::Refused => &mut one.refused,
            ErrorCause::Connections(_) | ErrorCause::ConnectionsOfPeer(_) => &mut one.overload,
            ErrorCause::Accept(_) | ErrorCause::Listener(_) => &mut one.accept,
            ErrorCause::Certificate(_) => &mut one.certificate,
            ErrorCause::Tls(_) => &mut one.tls,
            ErrorCause::Rates(_) => &mut one.rates,
        };
        *count = 1;
        one
    }

    /// The place of `cause`'s kind in [`ERROR_KINDS`].
    pub(crate) fn kind_of(cause: &ErrorCause) -> usize {
        let counts = ErrorCounts::from_cause(cause).counts_mut().map(|count| *count);
        counts.iter().position(|count| *count > 0).expect("a cause has a kind")
    }

    /// The count of this error's kind.
    fn counter_for(&mut self, error: &ExchangeError) -> &mut u64 {
        match error {
            ExchangeError::Wire(..) => &mut self.wire,
            ExchangeError::TimedOut(Phase::Handler, _) => &mut self.handler,
            ExchangeError::NoMemory | ExchangeError::TimedOut(Phase::Queue | Phase::Memory, _) => {
                &mut self.overload
            }
            ExchangeError::TimedOut(..) => &mut self.timed_out,
            ExchangeError::Incomplete | ExchangeError::PeerClosed | ExchangeError::NoCloseFrame => {
                &mut self.incomplete
            }
            ExchangeError::Io(_) => &mut self.io,
            ExchangeError::Length
            | ExchangeError::Unfinished
            | ExchangeError::Discarded
            | ExchangeError::Source(_) => &mut self.handler,
        }
    }

    /// All counts, with the names of their kinds.
    pub(crate) fn by_kind(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let counts = self.clone().counts_mut().map(|count| *count);
        zip(ERROR_KINDS, counts)
    }

    /// All counts, in the order of [`ERROR_KINDS`].
    fn counts_mut(&mut self) -> [&mut u64; ERROR_KINDS.len()] {
        let ErrorCounts {
            wire,
            timed_out,
            incomplete,
            io,
            handler,
            rejected,
            panic,
            refused,
            overload,
            accept,
            certificate,
            tls,
            rates,
        } = self;
        [
            wire,
            timed_out,
            incomplete,
            io,
            handler,
            rejected,
            panic,
            refused,
            overload,
            accept,
            certificate,
            tls,
            rates,
        ]
    }
}

/// The kinds of errors that are counted apart.
pub(crate) const ERROR_KINDS: [&str; 13] = [
    "wire",
    "timed_out",
    "incomplete",
    "io",
    "handler",
    "rejected",
    "panic",
    "refused",
    "overload",
    "accept",
    "certificate",
    "tls",
    "rates",
];

impl AddAssign<&ErrorCounts> for ErrorCounts {
    fn add_assign(&mut self, other: &ErrorCounts) {
        zip(self.counts_mut(), other.clone().counts_mut()).for_each(|(count, other)| *count += *other);
    }
}

/// The counters of one core. [`CoreCounts`] are their values at one moment, and
/// [`CoreCounters`](crate::server::CoreCounters) is a handle for observers.
///
/// Only that core writes those of type [`Counter`], so no such write waits for another, and all of them have cache lines
/// that no other core writes.
#[derive(Default)]
pub(crate) struct CoreCounterSet {
    /// One for each [`OpenGuard`]. Other cores read it when they accept, and those that give a connection to this one
    /// count it.
    open: CachePadded<AtomicU64>,
    pub(super) accepted: Counter,
    pub(super) aborted: Counter,
    pub(super) requests: Counter,
    pub(super) received: Counter,
    pub(super) sent: Counter,
    pub(super) messages_received: Counter,
    pub(super) messages_sent: Counter,
    /// One for each of [`ErrorCounts::counts_mut`].
    errors: [Counter; ERROR_KINDS.len()],
    /// In the order of [`GUARDS`]. Not beside the counters that each request writes, which share a line.
    refusals: Box<CachePadded<[Counter; GUARDS.len()]>>,
    pub(super) pools: Arc<ReuseCounters>,
    /// The memory of all cores, once this one has started.
    pub(super) memory: OnceLock<MemoryBudget>,
}

/// A guard whose refusals are counted.
#[derive(Clone, Copy, Debug)]
pub(crate) enum GuardKind {
    RateLimit,
    ConcurrencyLimit,
    CrossOrigin,
    HttpsRedirect,
    /// Made of a function.
    Function,
}

/// The names of guards, in the order of [`GuardKind`].
const GUARDS: [&str; 5] = ["rate_limit", "concurrency_limit", "cross_origin", "https_redirect", "guard"];
const _: () = assert!(GuardKind::Function as usize + 1 == GUARDS.len(), "each guard has a name");

impl CoreCounterSet {
    /// Counts an error, by its kind.
    pub(super) fn count_error(&self, cause: &ErrorCause) {
        let mut errors = ErrorCounts::from_cause(cause);
        zip(&self.errors, errors.counts_mut()).for_each(|(counter, count)| counter.add(*count));
    }

    /// Counts a request that a guard has refused.
    pub(super) fn count_refusal(&self, guard: GuardKind) {
        self.refusals.0[guard as usize].add(1);
    }

    /// How many connections the core has, or is about to have.
    pub(super) fn open(&self) -> u64 {
        self.open.0.load(Relaxed)
    }

    /// The memory that the peers of all cores fill.
    pub(crate) fn memory_counts(&self) -> MemoryCounts {
        self.memory.get().map(MemoryBudget::counts).unwrap_or_default()
    }

    pub(crate) fn counts(&self) -> CoreCounts {
        let CoreCounterSet { open: _, accepted, aborted, requests, received, sent, errors: counters, .. } =
            self;
        let mut errors = ErrorCounts::default();
        zip(errors.counts_mut(), counters).for_each(|(count, counter)| *count = counter.get());
        CoreCounts {
            open: self.open(),
            accepted: accepted.get(),
            aborted: aborted.get(),
            requests: requests.get(),
            received: received.get(),
            sent: sent.get(),
            messages_received: self.messages_received.get(),
            messages_sent: self.messages_sent.get(),
            errors,
            refusals: self.refusals.0.each_ref().map(Counter::get),
            pools: self.pools.counts(),
        }
    }
}

/// A connection of a core, or one on its way there. The connection counts as open until the guard is dropped.
pub(crate) struct OpenGuard(Arc<CoreCounterSet>);

impl OpenGuard {
    pub(super) fn new(counters: &Arc<CoreCounterSet>) -> OpenGuard {
        counters.open.0.fetch_add(1, Relaxed);
        OpenGuard(counters.clone())
    }
}

impl Drop for OpenGuard {
    fn drop(&mut self) {
        let open = self.0.open.0.fetch_sub(1, Relaxed);
        debug_assert!(open > 0, "an open connection is counted until its guard is dropped");
    }
}

impl fmt::Display for ServerCounts {
    /// Writes the total as one line for people.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.total.fmt(f)
    }
}

impl fmt::Display for CoreCounts {
    /// Writes one line for people: the errors only of the kinds that there were.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let CoreCounts { open, accepted, aborted, requests, received, sent, errors, .. } = self;
        write!(
            f,
            "connections: {open} open, {accepted} accepted, {aborted} aborted; requests: {requests}; "
        )?;
        write!(f, "bytes: {received} received, {sent} sent")?;
        if self.messages_received + self.messages_sent > 0 {
            write!(f, "; messages: {} received, {} sent", self.messages_received, self.messages_sent)?;
        }
        let mut separator = "; errors: ";
        for (kind, count) in errors.by_kind().filter(|(_, count)| *count > 0) {
            write!(f, "{separator}{count} {kind}")?;
            separator = ", ";
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::mem::offset_of;

    use super::*;

    /// A request writes some counters, and these must not share a line with those of another core, nor with the count
    /// that other cores use.
    #[test]
    fn no_cache_line_that_two_cores_write_is_touched_by_a_request() {
        const LINES: usize = align_of::<CachePadded<u8>>();
        assert_eq!((align_of::<CoreCounterSet>(), offset_of!(CoreCounterSet, open) % LINES), (LINES, 0));
        let [requests, received, sent, messages_received, messages_sent] = [
            offset_of!(CoreCounterSet, requests),
            offset_of!(CoreCounterSet, received),
            offset_of!(CoreCounterSet, sent),
            offset_of!(CoreCounterSet, messages_received),
            offset_of!(CoreCounterSet, messages_sent),
        ];
        for counter in
            [requests, received, sent, messages_received, messages_sent, offset_of!(CoreCounterSet, errors)]
        {
            assert_ne!(counter / LINES, offset_of!(CoreCounterSet, open) / LINES);
        }
        assert_eq!(
            [requests / 64, received / 64, sent / 64],
            [requests / 64; 3],
            "one line for each request"
        );
    }

    #[test]
    fn counts_are_a_line_for_people() {
        let quiet = CoreCounts { open: 1, accepted: 2, aborted: 3, requests: 4, ..CoreCounts::default() };
        let errors = ErrorCounts { accept: 8, timed_out: 9, ..ErrorCounts::default() };
        let (received, sent, messages_received) = (5, 6, 7);
        let busy = CoreCounts { received, sent, messages_received, errors, ..quiet.clone() };
        let beginning = "connections: 1 open, 2 accepted, 3 aborted; requests: 4; bytes: ";
        assert_eq!(quiet.to_string(), format!("{beginning}0 received, 0 sent"));
        let total = format!(
            "{beginning}5 received, 6 sent; messages: 7 received, 0 sent; errors: 9 timed_out, 8 accept"
        );
        let counts = ServerCounts { total: busy, cores: vec![quiet], memory: MemoryCounts::default() };
        assert_eq!(counts.to_string(), total);
    }
}
