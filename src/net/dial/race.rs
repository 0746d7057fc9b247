//! [`race`]: tries the addresses of a host, known as "happy eyeballs" (RFC 8305).

use std::collections::VecDeque;
use std::error::Error;
use std::fmt;
use std::future::poll_fn;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::timeout;

use crate::descriptors::is_out_of_descriptors;
use crate::error_text::write_error;

/// Tries one address after the other until one succeeds, and drops the attempts that are still running.
///
/// # Errors
///
/// Fails if all attempts failed, with the most specific error and its address; and with `NotFound` if there is no
/// address.
pub(super) async fn race<T, F>(
    addresses: VecDeque<SocketAddr>,
    attempt: impl Fn(SocketAddr) -> F,
) -> io::Result<T>
where
    F: Future<Output = io::Result<T>>,
{
    let mut failures = Failures::default();
    let connected =
        stagger(addresses, attempt, |address, end| end.map_err(|error| failures.note(address, error)).ok());
    let connected = connected.await;
    connected.ok_or_else(|| failures.into())
}

/// Attempts one address after the other until `decide` makes a result of the end of one, and drops the attempts that are still
/// running. `None` if there is no result.
///
/// The next attempt starts when one ends, or when none has ended for a quarter of a second (RFC 8305 §5).
pub(crate) async fn stagger<T, R, F: Future<Output = T>>(
    mut addresses: VecDeque<SocketAddr>,
    attempt: impl Fn(SocketAddr) -> F,
    mut decide: impl FnMut(SocketAddr, T) -> Option<R>,
) -> Option<R> {
    let mut running = Vec::new();
    loop {
        if let Some(address) = addresses.pop_front() {
            running.push(Connecting { address, connects: Box::pin(attempt(address)) });
        }
        if running.is_empty() {
            return None;
        }
        let limit = if addresses.is_empty() { Duration::MAX } else { ATTEMPT_DELAY };
        if let Ok((address, end)) = timeout(limit, poll_fn(|cx| poll_all(&mut running, cx))).await
            && let Some(result) = decide(address, end)
        {
            return Some(result);
        }
    }
}

/// The recommended "Connection Attempt Delay" (RFC 8305 §8).
const ATTEMPT_DELAY: Duration = Duration::from_millis(250);

/// The addresses in `found` with the two families alternating, beginning with the family of the first (RFC 8305 §4).
///
/// Resolvers put the family first that this machine can use (RFC 6724), which is usually IPv6. Within each family, the
/// addresses of the same scope as its first are rotated.
pub(super) fn interleaved(found: &[IpAddr], rotation: usize) -> impl Iterator<Item = IpAddr> {
    let family = found.first().is_some_and(IpAddr::is_ipv6);
    let (mut first, mut second): (Vec<_>, Vec<_>) =
        found.iter().partition(|address| address.is_ipv6() == family);
    rotate(&mut first, rotation);
    rotate(&mut second, rotation);
    let len = first.len().max(second.len());
    (0..len).flat_map(move |at| [first.get(at).copied(), second.get(at).copied()]).flatten()
}

fn rotate(addresses: &mut [IpAddr], rotation: usize) {
    if let Some(alike) = addresses.chunk_by_mut(|one, other| scope(one) == scope(other)).next() {
        alike.rotate_left(rotation % alike.len());
    }
}

/// The scope by which a resolver orders the addresses of one family (RFC 6724 §6): whether an address is one of this
/// machine, of this link or of a private network.
fn scope(address: &IpAddr) -> [bool; 3] {
    match address {
        IpAddr::V4(v4) => [v4.is_loopback(), v4.is_link_local(), v4.is_private()],
        IpAddr::V6(v6) => [v6.is_loopback(), v6.is_unicast_link_local(), v6.is_unique_local()],
    }
}

struct Connecting<F> {
    address: SocketAddr,
    connects: Pin<Box<F>>,
}

/// Ready with the first attempt that has ended, and its result.
fn poll_all<F: Future>(
    running: &mut Vec<Connecting<F>>,
    cx: &mut Context<'_>,
) -> Poll<(SocketAddr, F::Output)> {
    for at in 0..running.len() {
        if let Poll::Ready(end) = running[at].connects.as_mut().poll(cx) {
            return Poll::Ready((running.remove(at).address, end));
        }
    }
    Poll::Pending
}

/// The failed attempts so far.
#[derive(Debug, Default)]
struct Failures {
    count: usize,
    /// The first of the most specific errors.
    specific: Option<(SocketAddr, io::Error)>,
}

impl Failures {
    fn note(&mut self, address: SocketAddr, error: io::Error) {
        self.count += 1;
        let known = self.specific.as_ref().map(|(_, known)| weight(known));
        if known < Some(weight(&error)) {
            self.specific = Some((address, error));
        }
    }
}

/// How specific an error is to the host. An error such as a missing IPv6 route is this machine's. So is a want of
/// descriptors, but that address has not been tried, and may be once there are some.
fn weight(error: &io::Error) -> u8 {
    match error.kind() {
        _ if is_out_of_descriptors(error) => 4,
        io::ErrorKind::ConnectionRefused | io::ErrorKind::ConnectionReset => 3,
        io::ErrorKind::TimedOut | io::ErrorKind::PermissionDenied => 2,
        io::ErrorKind::HostUnreachable => 1,
        _ => 0,
    }
}

impl From<Failures> for io::Error {
    fn from(failures: Failures) -> io::Error {
        match failures.specific {
            Some((address, cause)) => {
                Unreachable { address: address.to_string(), others: failures.count - 1, cause }.into()
            }
            None => io::Error::new(
                io::ErrorKind::NotFound,
                "the host has no address that can be connected to from here",
            ),
        }
    }
}

/// The error of a host of which no address could be reached.
#[derive(Debug)]
pub(super) struct Unreachable {
    /// One of the addresses.
    pub(super) address: String,
    pub(super) others: usize,
    pub(super) cause: io::Error,
}

impl From<Unreachable> for io::Error {
    fn from(error: Unreachable) -> io::Error {
        io::Error::new(error.cause.kind(), error)
    }
}

impl fmt::Display for Unreachable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_error(f, self, |f| match self.others {
            0 => write!(f, "{} cannot be reached", self.address),
            others => {
                write!(f, "{} cannot be reached, nor can {others} more of the host's addresses", self.address)
            }
        })
    }
}

impl Error for Unreachable {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&self.cause)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};
    use std::io::ErrorKind as Kind;

    use tokio::runtime::Builder;
    use tokio::time::{Instant, sleep};

    use super::*;

    const V4: &str = "192.0.2.1:80";
    const OTHER_V4: &str = "192.0.2.2:80";
    const V6: &str = "[2001:db8::1]:80";

    /// For each address, after how many milliseconds the attempt ends, and how.
    type Plan<'a> = &'a [(&'a str, u64, Result<(), Kind>)];

    /// The winner and when it won, when each attempt began, and how many were dropped before they ended.
    async fn run(plan: Plan<'_>) -> (Result<(String, u128), Kind>, Vec<u128>, usize) {
        let start = Instant::now();
        let begun = RefCell::new(Vec::new());
        let ended = Cell::new(0);
        let attempt = async |address: SocketAddr| {
            begun.borrow_mut().push(start.elapsed().as_millis());
            let of = |row: &&(&str, u64, Result<(), Kind>)| row.0 == address.to_string();
            let &(_, after, end) = plan.iter().find(of).unwrap();
            sleep(Duration::from_millis(after)).await;
            ended.set(ended.get() + 1);
            end.map(|()| address).map_err(io::Error::from)
        };
        let addresses = plan.iter().map(|(address, ..)| address.parse().unwrap()).collect();
        let raced = race(addresses, attempt).await;
        let raced = raced.map(|winner| (winner.to_string(), start.elapsed().as_millis()));
        let dropped = begun.borrow().len() - ended.get();
        (raced.map_err(|error| error.kind()), begun.take(), dropped)
    }

    #[track_caller]
    fn check(plan: Plan<'_>, end: Result<(&str, u128), Kind>, begun: &[u128], dropped: usize) {
        let runtime = Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        let end = end.map(|(winner, at)| (winner.to_owned(), at));
        assert_eq!(runtime.block_on(run(plan)), (end, begun.to_vec(), dropped), "{plan:?}");
    }

    #[test]
    fn the_first_to_connect_wins_rfc8305_5() {
        check(&[(V6, 10, Ok(()))], Ok((V6, 10)), &[0], 0);
        check(&[(V6, 249, Ok(())), (V4, 0, Ok(()))], Ok((V6, 249)), &[0], 0);
        check(&[(V6, 9999, Ok(())), (V4, 10, Ok(()))], Ok((V4, 260)), &[0, 250], 1);
        check(&[(V6, 300, Ok(())), (V4, 100, Ok(()))], Ok((V6, 300)), &[0, 250], 1);
        let slow = [(V6, 9999, Ok(())), (V4, 9999, Ok(())), (OTHER_V4, 5, Ok(()))];
        check(&slow, Ok((OTHER_V4, 505)), &[0, 250, 500], 2);
    }

    #[test]
    fn a_failure_starts_the_next_attempt_at_once_rfc8305_5() {
        let refused = Err(Kind::ConnectionRefused);
        check(&[(V6, 0, refused), (V4, 10, Ok(()))], Ok((V4, 10)), &[0, 0], 0);
        check(&[(V6, 300, refused), (V4, 9000, Ok(()))], Ok((V4, 9250)), &[0, 250], 0);
        let late = [(V6, 300, refused), (V4, 9999, Ok(())), (OTHER_V4, 10, Ok(()))];
        check(&late, Ok((OTHER_V4, 310)), &[0, 250, 300], 1);
    }

    #[test]
    fn the_most_specific_failure_is_reported() {
        let (refused, no_way, late) = (Kind::ConnectionRefused, Kind::NetworkUnreachable, Kind::TimedOut);
        check(&[(V6, 5, Err(refused))], Err(refused), &[0], 0);
        check(&[(V6, 0, Err(no_way)), (V4, 5, Err(refused))], Err(refused), &[0, 0], 0);
        check(&[(V6, 0, Err(refused)), (V4, 5, Err(no_way))], Err(refused), &[0, 0], 0);
        check(&[(V6, 0, Err(no_way)), (V4, 0, Err(late))], Err(late), &[0, 0], 0);
        check(&[(V6, 0, Err(no_way)), (V4, 0, Err(Kind::Other))], Err(no_way), &[0, 0], 0);
        check(&[], Err(Kind::NotFound), &[], 0);
    }

    /// The caller can do something about it, and the address may be the one that works.
    #[cfg(unix)]
    #[test]
    fn a_want_of_descriptors_is_reported_before_what_another_address_failed_with() {
        let refused = || io::Error::from(Kind::ConnectionRefused);
        for errno in [23, 24] {
            let want = || io::Error::from_raw_os_error(errno);
            for errors in [[refused(), want()], [want(), refused()]] {
                let mut failures = Failures::default();
                errors.into_iter().for_each(|error| failures.note(V4.parse().unwrap(), error));
                let error = io::Error::from(failures);
                assert!(is_out_of_descriptors(&error), "{error:?}");
            }
        }
    }

    #[test]
    fn an_error_names_an_address_and_its_cause() {
        let mut failures = Failures::default();
        for (address, kind) in [(V6, Kind::NetworkUnreachable), (V4, Kind::ConnectionRefused)] {
            failures.note(address.parse().unwrap(), kind.into());
        }
        let error = io::Error::from(failures);
        assert_eq!(
            error.to_string(),
            "192.0.2.1:80 cannot be reached, nor can 1 more of the host's addresses"
        );
        assert_eq!(error.source().unwrap().to_string(), "connection refused");
    }

    #[test]
    fn address_families_alternate_beginning_with_the_first_address_rfc8305_4() {
        for (found, expected) in [
            ("", ""),
            ("::1", "::1"),
            ("::1 ::2 1.1.1.1 ::3 2.2.2.2", "::1 1.1.1.1 ::2 2.2.2.2 ::3"),
            ("1.1.1.1 ::1", "1.1.1.1 ::1"),
            ("1.1.1.1 2.2.2.2 3.3.3.3 ::1", "1.1.1.1 ::1 2.2.2.2 3.3.3.3"),
            ("1.1.1.1 2.2.2.2", "1.1.1.1 2.2.2.2"),
        ] {
            let found: Vec<IpAddr> = found.split_whitespace().map(|text| text.parse().unwrap()).collect();
            let ordered: Vec<String> = interleaved(&found, 0).map(|address| address.to_string()).collect();
            assert_eq!(ordered.join(" "), expected, "{found:?}");
        }
    }

    /// Connections must not all go to the first address of a name.
    #[test]
    fn each_turn_begins_with_another_address_of_the_same_family_and_scope() {
        for (found, firsts) in [
            ("1.1.1.1", "1.1.1.1 1.1.1.1"),
            ("1.1.1.1 2.2.2.2 3.3.3.3", "1.1.1.1 2.2.2.2 3.3.3.3 1.1.1.1"),
            ("::1 1.1.1.1", "::1 ::1"),
            ("fd00::1 1.1.1.1 fd00::2 2.2.2.2", "fd00::1 fd00::2 fd00::1"),
            ("2001:db8::1 2001:db8::2 fd00::1 fe80::1", "2001:db8::1 2001:db8::2 2001:db8::1"),
            ("10.0.0.1 10.0.0.2 1.1.1.1", "10.0.0.1 10.0.0.2 10.0.0.1"),
            ("1.1.1.1 10.0.0.1 2.2.2.2", "1.1.1.1 1.1.1.1"),
        ] {
            let found: Vec<IpAddr> = found.split_whitespace().map(|text| text.parse().unwrap()).collect();
            for (rotation, first) in firsts.split_whitespace().enumerate() {
                let mut ordered = Vec::from_iter(interleaved(&found, rotation));
                assert_eq!(ordered[0].to_string(), first, "{found:?} {rotation}");
                let mut all = found.clone();
                all.sort();
                ordered.sort();
                assert_eq!(ordered, all);
            }
        }
        let found = ["::1", "1.1.1.1", "::1", "2.2.2.2"].map(|text| text.parse().unwrap());
        let second = interleaved(&found, 1).map(|address| address.to_string());
        assert_eq!(Vec::from_iter(second), ["::1", "2.2.2.2", "::1", "1.1.1.1"]);
    }
}
