//! [`ClientCounts`]: the counts of a client, by host.

use std::collections::BTreeMap;
use std::ops::AddAssign;
use std::time::Duration;

use crate::client::error::ClientPhase;
use crate::message::Timings;

/// The counts of a client so far, for each host and in total.
///
/// Requests go on meanwhile, so the counts may be a moment apart. Clones of a client count together, and so do its hosts,
/// balancers and pipelines.
///
/// # Examples
///
/// ```
/// use corehttp::Client;
///
/// # corehttp::block_on(async {
/// let client = Client::new();
/// client.get("http://127.0.0.1:1/").await.unwrap_err(); // nothing listens there
/// let counts = client.counts();
/// assert_eq!((counts.total.dials, counts.total.opened, counts.total.connect.failed), (1, 0, 1));
/// assert_eq!(counts.hosts["http://127.0.0.1:1"], counts.total);
/// # });
/// ```
#[doc(alias = "metrics")]
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ClientCounts {
    /// The sum over all hosts.
    pub total: HostCounts,
    /// The counts of each host, by scheme, host and port as [`Host::origin`](crate::client::Host::origin) writes them. These
    /// are the first 256 hosts that the client was used for.
    pub hosts: BTreeMap<Box<str>, HostCounts>,
    /// The counts of all further hosts together.
    pub other: HostCounts,
}

impl ClientCounts {
    /// Computes the total.
    pub(super) fn sum_up(mut self) -> ClientCounts {
        self.total = self.other.clone();
        self.hosts.values().for_each(|host| self.total += host);
        self
    }
}

/// How many hosts are counted apart. A program that is given its URLs by others could otherwise be made to count without
/// end.
pub(super) const HOSTS_MAX: usize = 256;

/// Adds the counts of another client. Beyond 256 hosts, its further ones count as [`ClientCounts::other`].
impl AddAssign<&ClientCounts> for ClientCounts {
    fn add_assign(&mut self, added: &ClientCounts) {
        let ClientCounts { total, hosts, other } = added;
        self.total += total;
        self.other += other;
        for (host, counts) in hosts {
            match self.hosts.contains_key(host) || self.hosts.len() < HOSTS_MAX {
                true => *self.hosts.entry(host.clone()).or_default() += counts,
                false => self.other += counts,
            }
        }
    }
}

/// The counts of one host, or of several together.
///
/// A request counts again after a redirect, with each retry, and when sent without its expectation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct HostCounts {
    /// Connections that are open now, and not in use. One to a proxy that reads requests counts for its last host.
    pub idle: u64,
    /// Connections that are in use now, or about to be opened.
    pub busy: u64,
    /// Requests that wait now for one of the connections of the host.
    pub waiting: u64,
    /// Connections that were dialed, successfully or not.
    pub dials: u64,
    /// Connections that were opened, with the handshakes of the proxy and of TLS.
    pub opened: u64,
    /// Idle connections that turned out to be closed by the server.
    pub stale: u64,
    /// Requests on connections that had carried others before.
    pub reused: u64,
    /// Requests whose responses were received to their end, or upgraded the connection.
    pub answered: u64,
    /// Requests that failed on a connection, the sum over `failed` of `send`, `wait` and `receive`.
    pub failed: u64,
    /// Requests that were abandoned on a connection, or with the rest of their response unread.
    pub canceled: u64,
    /// Requests that were sent again on another connection, after the server had closed theirs.
    pub retries: u64,
    /// Requests that were sent again by a [`Retry`](crate::client::Retry).
    pub retries_by_policy: u64,
    /// Requests that a [`Retry`](crate::client::Retry) did not send again, with the host's
    /// [budget](crate::client::RetryBudget) used up.
    pub retries_refused: u64,
    /// Waits for one of the connections of the host.
    pub queue: PhaseCounts,
    /// Look-ups of the host's addresses.
    pub resolve: PhaseCounts,
    /// Attempts to connect, with the handshakes of the proxy.
    pub connect: PhaseCounts,
    /// TLS handshakes.
    pub tls: PhaseCounts,
    /// Requests on their way to the server.
    pub send: PhaseCounts,
    /// Waits for the head of a response.
    pub wait: PhaseCounts,
    /// Bodies of responses that were received whole. A body that came with its head does not count.
    pub receive: PhaseCounts,
    /// Bytes received, without the overhead of TLS, and without upgraded connections.
    pub received: u64,
    /// Bytes sent, counted likewise.
    pub sent: u64,
}

/// The counts of one phase of exchanges.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PhaseCounts {
    /// How often the phase took time and came to its end.
    pub ended: u64,
    /// How long it took in total, without failures.
    pub time: Duration,
    /// How often an exchange failed in it.
    pub failed: u64,
}

impl HostCounts {
    /// Counts the failure of a dial or of an exchange in `phase`.
    pub(in crate::client) fn count_failure(&mut self, phase: ClientPhase) {
        let counts = match phase {
            ClientPhase::Queue => &mut self.queue,
            ClientPhase::Resolve => &mut self.resolve,
            ClientPhase::Connect | ClientPhase::Prepare => &mut self.connect,
            ClientPhase::Tls => &mut self.tls,
            ClientPhase::Send => &mut self.send,
            ClientPhase::Wait | ClientPhase::Redirect => &mut self.wait,
            ClientPhase::Receive => &mut self.receive,
        };
        counts.failed += 1;
        self.failed = self.send.failed + self.wait.failed + self.receive.failed;
    }

    /// Counts the phases in which a connection was opened.
    pub(in crate::client) fn count_opening(&mut self, timings: &Timings) {
        self.resolve.count(timings.resolve);
        self.connect.ended += 1;
        self.connect.time += timings.connect;
        self.tls.count(timings.tls);
    }

    /// Counts the phases of an exchange on an open connection, as far as they came to their end.
    pub(in crate::client) fn count_exchange(&mut self, timings: &Timings) {
        self.reused += u64::from(timings.reused);
        self.send.count(timings.send);
        self.wait.count(timings.wait);
    }

    /// The counts of each phase, with its name.
    pub(crate) fn phases(&self) -> [(&'static str, PhaseCounts); 7] {
        let HostCounts { queue, resolve, connect, tls, send, wait, receive, .. } = *self;
        [
            ("queue", queue),
            ("resolve", resolve),
            ("connect", connect),
            ("tls", tls),
            ("send", send),
            ("wait", wait),
            ("receive", receive),
        ]
    }

    fn phases_mut(&mut self) -> [&mut PhaseCounts; 7] {
        let HostCounts { queue, resolve, connect, tls, send, wait, receive, .. } = self;
        [queue, resolve, connect, tls, send, wait, receive]
    }
}

impl PhaseCounts {
    /// Counts a phase, unless it took no time.
    pub(in crate::client) fn count(&mut self, took: Duration) {
        self.ended += u64::from(!took.is_zero());
        self.time = self.time.saturating_add(took);
    }
}

impl AddAssign<&HostCounts> for HostCounts {
    fn add_assign(&mut self, other: &HostCounts) {
        let HostCounts {
            idle,
            busy,
            waiting,
            dials,
            opened,
            stale,
            reused,
            answered,
            failed,
            canceled,
            retries,
            retries_by_policy,
            retries_refused,
            queue: _,
            resolve: _,
            connect: _,
            tls: _,
            send: _,
            wait: _,
            receive: _,
            received,
            sent,
        } = other;
        self.idle += idle;
        self.busy += busy;
        self.waiting += waiting;
        self.dials += dials;
        self.opened += opened;
        self.stale += stale;
        self.reused += reused;
        self.answered += answered;
        self.failed += failed;
        self.canceled += canceled;
        self.retries += retries;
        self.retries_by_policy += retries_by_policy;
        self.retries_refused += retries_refused;
        self.received += received;
        self.sent += sent;
        for (phase, (_, other)) in self.phases_mut().into_iter().zip(other.phases()) {
            phase.ended += other.ended;
            phase.time = phase.time.saturating_add(other.time);
            phase.failed += other.failed;
        }
    }
}
