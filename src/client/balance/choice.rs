//! [`HostChoice`]: how a balancer chooses the next host.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::member::Member;

/// How a [`Balancer`](super::Balancer) chooses the next host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HostChoice {
    /// The host with the fewest pending requests; among equals, the one that has been asked least often.
    #[default]
    LeastPending,
    /// Of two hosts chosen at random, the one with fewer pending requests. This keeps several independent balancers
    /// from all rushing to the same idle host.
    TwoRandom,
}

impl HostChoice {
    /// Chooses one of `candidates`, unless there is none.
    pub(super) fn choose<'a>(
        self,
        candidates: impl Iterator<Item = &'a Arc<Member>> + Clone,
        random_pairs: &RandomPairs,
    ) -> Option<&'a Arc<Member>> {
        let load = |member: &&Arc<Member>| (member.load(), member.assigned());
        let count = candidates.clone().count();
        match self {
            HostChoice::TwoRandom if count > 2 => {
                let (one, other) = random_pairs.two_below(count);
                let two = candidates.enumerate().filter(|(at, _)| [one, other].contains(at));
                two.map(|(_, member)| member).min_by_key(load)
            }
            HostChoice::LeastPending | HostChoice::TwoRandom => candidates.min_by_key(load),
        }
    }
}

/// Random numbers.
#[derive(Default)]
pub(super) struct RandomPairs {
    random: RandomState,
    drawn: AtomicU64,
}

impl RandomPairs {
    /// Two different numbers below `count`, which is at least 2.
    fn two_below(&self, count: usize) -> (usize, usize) {
        let bits = self.random.hash_one(self.drawn.fetch_add(1, Ordering::Relaxed));
        let below = |bits: u64, most: usize| (bits % most as u64) as usize;
        let one = below(bits >> 32, count);
        let other = below(bits & u64::from(u32::MAX), count - 1);
        (one, if other < one { other } else { other + 1 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_pair_of_hosts_is_equally_likely() {
        const THROWS: usize = 6_000;
        let (random_pairs, mut thrown) = (RandomPairs::default(), [[0; 4]; 4]);
        for _ in 0..THROWS {
            let (one, other) = random_pairs.two_below(4);
            thrown[one][other] += 1;
        }
        for (one, row) in thrown.iter().enumerate() {
            for (other, count) in row.iter().enumerate() {
                let expected = if one == other { 0..=0 } else { 350..=650 };
                assert!(expected.contains(count), "{one} and {other}: {count} of {THROWS}");
            }
        }
    }
}
