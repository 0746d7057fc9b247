//! [`BalancerChoice`]: which of several hosts gets a request.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::member::Member;
use crate::memory::stable_hash;

/// How a [`Balancer`](super::Balancer) chooses the next host.
///
/// A host's load is the number of its pending requests, with its penalties, in proportion to its
/// [weight](super::Balancer::set_weight).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum BalancerChoice {
    /// The host with the least load, by turns among equals. Requests that a host has missed, being down, slow or not there, are
    /// not made up for.
    #[default]
    LeastPending,
    /// Of two hosts drawn at random by their weights, the one with less load, by turns between equals. With this choice,
    /// several independent balancers do not all rush to the same idle host.
    TwoRandom,
    /// The host whose turn it is, by the weights alone. For requests that take equally long.
    RoundRobin,
}

impl BalancerChoice {
    /// Chooses one of `candidates`, unless there is none.
    pub(super) fn choose<'a>(
        self,
        candidates: impl Iterator<Item = &'a Arc<Member>> + Clone,
        random_pairs: &RandomPairs,
    ) -> Option<&'a Arc<Member>> {
        let load = |member: &&Arc<Member>| (member.load(), member.turn());
        match self {
            BalancerChoice::TwoRandom if candidates.clone().count() > 2 => {
                let shares = candidates.clone().map(|member| member.share());
                let (one, other) = random_pairs.two_of(shares);
                let two = candidates.enumerate().filter(|(at, _)| [one, other].contains(at));
                two.map(|(_, member)| member).min_by_key(load)
            }
            BalancerChoice::LeastPending | BalancerChoice::TwoRandom => candidates.min_by_key(load),
            BalancerChoice::RoundRobin => candidates.min_by_key(|member| member.turn()),
        }
    }
}

/// Chooses the host of a key: the one for which the two have the highest score (rendezvous hashing). Each gets as many keys
/// as its weight says, and a host that comes or goes moves no keys between the others.
///
/// A host that has more than its share of the pending requests, and a quarter more, is passed over for the next one (Mirrokni
/// and others, "Consistent hashing with bounded loads"): so one popular key does not bring a host down.
pub(super) fn choose_by_key<'a>(
    key: &[u8],
    candidates: impl Iterator<Item = &'a Arc<Member>> + Clone,
) -> Option<&'a Arc<Member>> {
    let pending: usize = candidates.clone().map(|member| member.pending()).sum();
    let shares: f64 = candidates.clone().map(|member| member.share() as f64).sum();
    let has_room = |member: &&Arc<Member>| {
        let part = member.share() as f64 / shares;
        (member.pending() as f64) < ((pending + 1) as f64 * part * LOAD_MAX).ceil()
    };
    let key = stable_hash(&[key]);
    let score = |member: &&Arc<Member>| score(key, member.id(), member.share());
    candidates.filter(has_room).max_by(|one, other| score(one).total_cmp(&score(other)))
}

/// The most that a host may have of its share of the load.
const LOAD_MAX: f64 = 1.25;

/// The score of a host for a key with this hash: the larger the share of the host, the more often it is the highest. Balancers
/// of several versions must choose alike. A peer that finds keys for one host meets the bound of its load.
fn score(key: u64, id: &str, share: u64) -> f64 {
    let hash = stable_hash(&[id.as_bytes(), &key.to_le_bytes()]);
    // From the upper 53 bits, which a float holds exactly, a number between 0 and 1, without both.
    let uniform = ((hash >> 11) as f64 + 0.5) / (1_u64 << 53) as f64;
    share as f64 / -uniform.ln()
}

/// Draws pairs of different numbers at random.
#[derive(Default)]
pub(super) struct RandomPairs {
    random: RandomState,
    drawn: AtomicU64,
}

impl RandomPairs {
    /// The positions of two different ones of these shares, each drawn in proportion to those that are left. A share of 0 counts
    /// as 1.
    fn two_of(&self, shares: impl Iterator<Item = u64> + Clone) -> (usize, usize) {
        let shares = shares.map(|share| share.max(1));
        let bits = self.random.hash_one(self.drawn.fetch_add(1, Ordering::Relaxed));
        // Hosts may come and go between two looks at them.
        let all: u64 = shares.clone().sum();
        let (one, share) = at(shares.clone(), (bits >> 32) % all.max(1));
        let others = shares.enumerate().map(|(at, share)| if at == one { 0 } else { share });
        let (other, _) = at(others, (bits & u64::from(u32::MAX)) % all.saturating_sub(share).max(1));
        (one, other)
    }
}

/// The position and the size of the share in which `point` lies, if the shares are laid side by side.
fn at(shares: impl Iterator<Item = u64>, mut point: u64) -> (usize, u64) {
    let found = shares.enumerate().find(|(_, share)| {
        let is_within = point < *share;
        point = point.saturating_sub(*share);
        is_within
    });
    found.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_pair_of_hosts_is_equally_likely() {
        const THROWS: usize = 6_000;
        let random_pairs = RandomPairs::default();
        let mut thrown = [[0; 4]; 4];
        for _ in 0..THROWS {
            let (one, other) = random_pairs.two_of([7; 4].into_iter());
            thrown[one][other] += 1;
        }
        for (one, row) in thrown.iter().enumerate() {
            for (other, count) in row.iter().enumerate() {
                let expected = if one == other { 0..=0 } else { 350..=650 };
                assert!(expected.contains(count), "{one} and {other}: {count} of {THROWS}");
            }
        }
    }

    #[test]
    fn hosts_are_drawn_by_their_shares() {
        const THROWS: usize = 6_000;
        let random_pairs = RandomPairs::default();
        let mut thrown = [0; 4];
        for _ in 0..THROWS {
            let (one, other) = random_pairs.two_of([100, 100, 0, 1_000].into_iter());
            assert_ne!(one, other);
            thrown[one] += 1;
            thrown[other] += 1;
        }
        assert!(thrown[3] > THROWS * 97 / 100 && thrown[2] < THROWS / 50, "{thrown:?}");
        assert!(thrown[0].abs_diff(thrown[1]) < THROWS / 10, "{thrown:?}");
    }

    /// The host of each of 10,000 keys, by the scores alone.
    fn hosts_of_keys(hosts: &[(String, u64)]) -> Vec<&str> {
        let host_of = |key: u32| {
            let key = stable_hash(&[key.to_string().as_bytes()]);
            let score = |(origin, share): &&(String, u64)| score(key, origin, *share);
            let best = hosts.iter().max_by(|one, other| score(one).total_cmp(&score(other)));
            best.map_or("", |(origin, _)| origin.as_str())
        };
        (0..10_000).map(host_of).collect()
    }

    #[test]
    fn a_host_that_goes_moves_its_own_keys_alone() {
        let mut hosts: Vec<_> = (0..10).map(|number| (format!("http://h{number}:80"), 100)).collect();
        hosts[9].1 = 200;
        let whole = hosts.clone();
        let before = hosts_of_keys(&whole);
        for (origin, share) in &whole {
            let keys = before.iter().filter(|host| *host == origin).count() as u64;
            assert!(keys.abs_diff(share * 10_000 / 1_100) < 120, "{origin}: {keys}");
        }
        hosts.remove(3);
        let after = hosts_of_keys(&hosts);
        for (before, after) in before.iter().zip(&after) {
            assert!(before == after || *before == "http://h3:80", "{before} {after}");
        }
    }
}
