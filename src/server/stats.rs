//! [`ServerStats`]: the counts of a server, also as text for Prometheus.

use std::fmt;
use std::iter::zip;
use std::ops::AddAssign;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use crate::exchange::{ExchangeError, Phase};
use crate::memory::{CachePadded, Counter, POOL_NAMES, PoolCounters, PoolCounts};
use crate::net::tls;
use crate::server::error::ErrorCause;

/// The counts of a server so far, for each core and in total.
///
/// The counters are read without a lock while the cores go on counting, so they may be a moment apart.
///
/// # Examples
///
/// A second server, reachable only from this machine, shows the counts of the first to Prometheus. `Display` writes
/// them in its text format:
///
/// ```no_run
/// use corehttp::{Context, Server};
///
/// fn main() -> corehttp::Result {
///     let running = Server::bind("[::]:8080").start(|ctx: &mut Context| ctx.response.set_text("hi"))?;
///     let seen = running.clone();
///     Server::bind("127.0.0.1:9090").cores(1).start(move |ctx: &mut Context| {
///         ctx.response.set_text(seen.stats().to_string());
///     })?;
///     running.wait()
/// }
/// ```
#[doc(alias("metrics", "prometheus"))]
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ServerStats {
    /// The sum over all cores.
    pub total: ServerCounts,
    /// The counts of each core.
    pub cores: Vec<ServerCounts>,
}

impl ServerStats {
    pub(super) fn from_cores<'a>(cores: impl Iterator<Item = &'a CoreStats>) -> ServerStats {
        let cores: Vec<ServerCounts> = cores.map(CoreStats::counts).collect();
        let mut total = ServerCounts::default();
        cores.iter().for_each(|core| total += core);
        ServerStats { total, cores }
    }

    fn write_pools(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, kind, help, count) in POOL_METRICS {
            writeln!(f, "# HELP corehttp_pool_{name} {help}\n# TYPE corehttp_pool_{name} {kind}")?;
            let pools = |(number, core): (usize, &ServerCounts)| core.pools().map(move |pool| (number, pool));
            for (number, (pool, counts)) in self.cores.iter().enumerate().flat_map(pools) {
                writeln!(f, "corehttp_pool_{name}{{core=\"{number}\",pool=\"{pool}\"}} {}", count(&counts))?;
            }
        }
        Ok(())
    }
}

/// The counts of one core, or of all of them together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ServerCounts {
    /// Connections open now.
    pub open: u64,
    /// Connections accepted, including those that were then refused.
    pub accepted: u64,
    /// Connections that were still open when the grace period of a stop was over.
    pub cut: u64,
    /// Requests whose head was received and valid.
    pub requests: u64,
    /// Bytes received, without those that TLS adds, and without those of connections that were upgraded; but with those of
    /// WebSockets.
    pub received: u64,
    /// Bytes sent, counted likewise.
    pub sent: u64,
    /// Messages that WebSockets have received. One that was received in parts counts once.
    pub messages_received: u64,
    /// Messages that WebSockets have sent.
    pub messages_sent: u64,
    /// Errors, by kind.
    pub errors: ErrorCounts,
    /// In the order of [`POOL_NAMES`].
    pub(super) pools: [PoolCounts; POOL_NAMES.len()],
}

impl ServerCounts {
    /// Returns the counts of the objects that a core keeps to use them again, each kind with its name:
    ///
    /// - `contexts`, each with the buffers of an exchange. A connection takes one while it is busy;
    /// - `futures`, each for the handler of a busy connection;
    /// - `encoders` and `decoders`, the states of content codings. Content that is so large that another thread encodes it
    ///   is not counted;
    /// - `transforms`, each for a response that may be compressed;
    /// - `deflaters` and `inflaters`, the states of compressed WebSockets.
    ///
    /// The first two are counted once a second, when memory that was not needed is freed. The others are those of the
    /// thread, so of several services on one thread, the one that was made last counts them. Memory that the codecs take
    /// is known to within a few KB. An allocator may keep memory that was freed: see [On the open
    /// internet](crate#on-the-open-internet).
    pub fn pools(&self) -> impl Iterator<Item = (&'static str, PoolCounts)> + use<> {
        zip(POOL_NAMES, self.pools)
    }

    /// The same counts as those of a core that has ended: nothing is open or kept.
    #[allow(dead_code, reason = "unused without the feature `metrics`")]
    pub(crate) fn ended(mut self) -> ServerCounts {
        self.open = 0;
        self.pools.iter_mut().for_each(|pool| (pool.kept, pool.bytes) = (0, 0));
        self
    }
}

impl AddAssign<&ServerCounts> for ServerCounts {
    fn add_assign(&mut self, other: &ServerCounts) {
        let ServerCounts { open, accepted, cut, requests, received, sent, errors, pools, .. } = other;
        self.open += open;
        self.accepted += accepted;
        self.cut += cut;
        self.requests += requests;
        self.received += received;
        self.sent += sent;
        self.messages_received += other.messages_received;
        self.messages_sent += other.messages_sent;
        self.errors += errors;
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
    /// Connections that ended inside a message, unless the peer had already got an error. Also peers that closed before
    /// they were answered in full, if a handler fails because of that, as a gateway does.
    pub incomplete: u64,
    /// Sockets that failed.
    pub io: u64,
    /// Handlers that failed or took too long. A handler that fails with a bare [`Status`](crate::Status) is not
    /// counted, because that is a response like any other, unless it cuts one off. Nor is a handler that fails because
    /// it could not read or write: that is counted above.
    pub handler: u64,
    /// Requests that a handler rejected: it failed with a cause and a status of 4xx, as with the error of
    /// [`Request::form`](crate::Request::form) for a malformed form.
    pub rejected: u64,
    /// Panics of handlers, of values that they left behind when these were dropped, and of other functions that were given
    /// to the server, such as a resolver of TLS.
    pub panic: u64,
    /// Requests that a handler's [`BodyPlan`](crate::BodyPlan) refused, and CONNECT requests that it did not plan for.
    pub refused: u64,
    /// Connections refused because there were too many.
    pub overload: u64,
    /// Attempts to accept that failed for lack of descriptors or memory. The peers wait until an attempt succeeds; the
    /// server makes one at least once a second. For lack of descriptors the core that accepts closes those of its
    /// connections that have been idle for longest, if they have a time limit for that.
    pub accept: u64,
    /// TLS handshakes that failed, except those where the peer merely went away, or a function of the application panicked.
    pub tls: u64,
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
            ErrorCause::Accept(_) => &mut one.accept,
            ErrorCause::Tls(_) => &mut one.tls,
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
            ExchangeError::TimedOut(..) => &mut self.timed_out,
            ExchangeError::Incomplete | ExchangeError::PeerClosed | ExchangeError::NoCloseFrame => {
                &mut self.incomplete
            }
            ExchangeError::Io(_) => &mut self.io,
            ExchangeError::Length | ExchangeError::Unfinished | ExchangeError::Source(_) => &mut self.handler,
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
            tls,
        } = self;
        [wire, timed_out, incomplete, io, handler, rejected, panic, refused, overload, accept, tls]
    }
}

/// The kinds of errors that are counted apart.
pub(crate) const ERROR_KINDS: [&str; 11] = [
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
    "tls",
];

impl AddAssign<&ErrorCounts> for ErrorCounts {
    fn add_assign(&mut self, other: &ErrorCounts) {
        zip(self.counts_mut(), other.clone().counts_mut()).for_each(|(count, other)| *count += *other);
    }
}

/// The counters of one core. Only that core writes those of type [`Counter`], so no such write waits for another, and
/// all of them have cache lines that no other core writes.
#[derive(Default)]
pub(crate) struct CoreStats {
    /// One for each [`OpenGuard`]. Other cores read it when they accept, and those that give a connection to this one
    /// count it.
    open: CachePadded<AtomicU64>,
    pub(super) accepted: Counter,
    pub(super) cut: Counter,
    pub(super) requests: Counter,
    pub(super) received: Counter,
    pub(super) sent: Counter,
    pub(super) messages_received: Counter,
    pub(super) messages_sent: Counter,
    /// One for each of [`ErrorCounts::counts_mut`].
    errors: [Counter; ERROR_KINDS.len()],
    pub(super) pools: Arc<PoolCounters>,
}

impl CoreStats {
    /// Counts an error, by its kind.
    pub(super) fn count_error(&self, cause: &ErrorCause) {
        let mut errors = ErrorCounts::from_cause(cause);
        zip(&self.errors, errors.counts_mut()).for_each(|(counter, count)| counter.add(*count));
    }

    /// How many connections the core has, or is about to have.
    pub(super) fn open(&self) -> u64 {
        self.open.0.load(Relaxed)
    }

    pub(crate) fn counts(&self) -> ServerCounts {
        let CoreStats { open: _, accepted, cut, requests, received, sent, errors: counters, .. } = self;
        let mut errors = ErrorCounts::default();
        zip(errors.counts_mut(), counters).for_each(|(count, counter)| *count = counter.get());
        ServerCounts {
            open: self.open(),
            accepted: accepted.get(),
            cut: cut.get(),
            requests: requests.get(),
            received: received.get(),
            sent: sent.get(),
            messages_received: self.messages_received.get(),
            messages_sent: self.messages_sent.get(),
            errors,
            pools: self.pools.counts(),
        }
    }
}

/// A connection of a core, or one on its way there. The connection counts as open until the guard is dropped.
pub(crate) struct OpenGuard(Arc<CoreStats>);

impl OpenGuard {
    pub(super) fn new(core: &Arc<CoreStats>) -> OpenGuard {
        core.open.0.fetch_add(1, Relaxed);
        OpenGuard(core.clone())
    }
}

impl Drop for OpenGuard {
    fn drop(&mut self) {
        let open = self.0.open.0.fetch_sub(1, Relaxed);
        debug_assert!(open > 0, "an open connection is counted until its guard is dropped");
    }
}

impl fmt::Display for ServerStats {
    /// Writes the counts of each core in the text format of Prometheus. Its content type is
    /// `text/plain; version=0.0.4`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, kind, help, count) in SERVER_METRICS {
            writeln!(f, "# HELP corehttp_{name} {help}\n# TYPE corehttp_{name} {kind}")?;
            for (number, core) in self.cores.iter().enumerate() {
                writeln!(f, "corehttp_{name}{{core=\"{number}\"}} {}", count(core))?;
            }
        }
        writeln!(f, "# HELP corehttp_errors_total What went wrong.\n# TYPE corehttp_errors_total counter")?;
        for (number, core) in self.cores.iter().enumerate() {
            for (kind, count) in core.errors.by_kind() {
                writeln!(f, "corehttp_errors_total{{core=\"{number}\",kind=\"{kind}\"}} {count}")?;
            }
        }
        self.write_pools(f)
    }
}

/// The name of a metric, its type, its meaning, and its count, of a core or of a pool.
type Metric<T> = (&'static str, &'static str, &'static str, fn(&T) -> u64);

pub(crate) const POOL_METRICS: [Metric<PoolCounts>; 4] = [
    ("reused_total", "counter", "How often an object was used again.", |pool| pool.reused),
    ("created_total", "counter", "How often an object was made, because none was free.", |pool| pool.created),
    ("kept", "gauge", "Objects that are free.", |pool| pool.kept),
    ("bytes", "gauge", "Memory of the objects that are free.", |pool| pool.bytes),
];

pub(crate) const SERVER_METRICS: [Metric<ServerCounts>; 8] = [
    ("connections_open", "gauge", "Connections open now.", |core| core.open),
    ("connections_accepted_total", "counter", "Connections accepted.", |core| core.accepted),
    ("connections_cut_total", "counter", "Connections cut by a stop.", |core| core.cut),
    ("requests_total", "counter", "Requests whose head was received and valid.", |core| core.requests),
    ("received_bytes_total", "counter", "Bytes received.", |core| core.received),
    ("sent_bytes_total", "counter", "Bytes sent.", |core| core.sent),
    ("messages_received_total", "counter", "Messages that WebSockets have received.", |core| {
        core.messages_received
    }),
    ("messages_sent_total", "counter", "Messages that WebSockets have sent.", |core| core.messages_sent),
];

#[cfg(test)]
mod tests {
    use std::mem::offset_of;

    use super::*;
    use crate::memory::PoolKind;
    use crate::server::ErrorCounts;

    /// A request writes some counters, and these must not share a line with those of another core, nor with the count
    /// that other cores use.
    #[test]
    fn no_cache_line_that_two_cores_write_is_touched_by_a_request() {
        const LINES: usize = align_of::<CachePadded<u8>>();
        assert_eq!((align_of::<CoreStats>(), offset_of!(CoreStats, open) % LINES), (LINES, 0));
        let [requests, received, sent, messages_received, messages_sent] = [
            offset_of!(CoreStats, requests),
            offset_of!(CoreStats, received),
            offset_of!(CoreStats, sent),
            offset_of!(CoreStats, messages_received),
            offset_of!(CoreStats, messages_sent),
        ];
        for counter in
            [requests, received, sent, messages_received, messages_sent, offset_of!(CoreStats, errors)]
        {
            assert_ne!(counter / LINES, offset_of!(CoreStats, open) / LINES);
        }
        assert_eq!(
            [requests / 64, received / 64, sent / 64],
            [requests / 64; 3],
            "one line for each request"
        );
    }

    #[test]
    fn each_count_of_each_core_is_a_line() {
        let errors = ErrorCounts { accept: 8, ..ErrorCounts::default() };
        let mut busy = ServerCounts {
            open: 1,
            accepted: 2,
            cut: 3,
            requests: 4,
            received: 5,
            sent: 6,
            messages_received: 7,
            messages_sent: 9,
            errors,
            pools: [PoolCounts::default(); POOL_NAMES.len()],
        };
        busy.pools[PoolKind::Decoders as usize].reused = 10;
        let stats = ServerStats { cores: vec![ServerCounts::default(), busy], ..ServerStats::default() };
        let text = stats.to_string();
        for line in [
            "# TYPE corehttp_connections_open gauge",
            "corehttp_connections_open{core=\"0\"} 0",
            "corehttp_connections_open{core=\"1\"} 1",
            "# HELP corehttp_connections_accepted_total Connections accepted.",
            "# TYPE corehttp_connections_accepted_total counter",
            "corehttp_connections_accepted_total{core=\"1\"} 2",
            "corehttp_connections_cut_total{core=\"1\"} 3",
            "corehttp_requests_total{core=\"1\"} 4",
            "corehttp_received_bytes_total{core=\"1\"} 5",
            "corehttp_sent_bytes_total{core=\"1\"} 6",
            "corehttp_messages_received_total{core=\"1\"} 7",
            "corehttp_messages_sent_total{core=\"1\"} 9",
            "corehttp_errors_total{core=\"0\",kind=\"accept\"} 0",
            "corehttp_errors_total{core=\"1\",kind=\"accept\"} 8",
            "corehttp_errors_total{core=\"1\",kind=\"timed_out\"} 0",
            "# TYPE corehttp_pool_kept gauge",
            "corehttp_pool_reused_total{core=\"0\",pool=\"decoders\"} 0",
            "corehttp_pool_reused_total{core=\"1\",pool=\"decoders\"} 10",
        ] {
            assert!(text.lines().any(|found| found == line), "{line}\n{text}");
        }
        assert_eq!(text.lines().count(), 8 * (2 + 2) + 2 + 2 * 11 + 4 * (2 + 2 * 7));
        assert!(text.ends_with('\n'));
    }
}
