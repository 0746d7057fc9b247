//! [`Measured`]: what one workload came to, as it is written down.

use serde::Serialize;

use crate::load::Latency;
use crate::spread::Spread;
use crate::syscalls;

/// One workload, and a row for each who did it, the limit first.
#[derive(Serialize)]
pub(crate) struct Measured {
    pub(crate) name: &'static str,
    pub(crate) title: &'static str,
    pub(crate) rows: Vec<Row>,
}

impl Measured {
    /// The ranks of the rows by CPU time: one more than there are peers who are surely cheaper, so some share a rank.
    /// None for the limit, and for those whose rounds are too far apart, who may be surely cheaper all the same.
    pub(crate) fn ranks(&self) -> Vec<Option<usize>> {
        let spreads: Vec<Option<Spread>> = self.rows.iter().skip(1).map(Row::cpu).collect();
        let rank = |mine: &Spread| 1 + spreads.iter().flatten().filter(|other| other.is_below(mine)).count();
        let ranks = spreads.iter().map(|mine| mine.as_ref().filter(|it| !it.is_wide()).map(rank));
        std::iter::once(None).chain(ranks).take(self.rows.len()).collect()
    }
}

/// One peer at one workload.
#[derive(Default, Serialize)]
pub(crate) struct Row {
    pub(crate) peer: &'static str,
    pub(crate) rounds: Vec<Round>,
    /// The most memory it had, and what it had a while after: bytes.
    pub(crate) peak: Option<u64>,
    pub(crate) settled: Option<u64>,
    /// Bytes of an answer, its head included.
    pub(crate) answer: Option<u64>,
    /// Bytes that each idle connection holds.
    pub(crate) idle_connection: Option<u64>,
    pub(crate) calls: Option<Calls>,
    /// Why the rest is missing.
    pub(crate) failed: Option<String>,
}

impl Row {
    pub(crate) fn new(peer: &'static str) -> Row {
        Row { peer, ..Row::default() }
    }

    /// Microseconds of CPU time per exchange.
    pub(crate) fn cpu(&self) -> Option<Spread> {
        Spread::of(self.rounds.iter().map(Round::cpu_each))
    }

    /// How many times the limit's CPU time, round by round.
    pub(crate) fn over(&self, limit: &Row) -> Option<Spread> {
        let pairs = self.rounds.iter().zip(&limit.rounds);
        Spread::of(pairs.map(|(mine, limit)| mine.cpu_each() / limit.cpu_each()))
    }

    /// The latency of the slowest of a thousand, in microseconds; none if a round fell behind what was offered, for
    /// then it is that of a queue that grows.
    pub(crate) fn of_thousand(&self) -> Option<Spread> {
        let is_met = self.rounds.iter().all(|round| round.latency.as_ref().is_some_and(Latency::is_met));
        self.spread(|round| Some(round.latency?.of_thousand)).filter(|_| is_met)
    }

    /// A value of all rounds that have it.
    pub(crate) fn spread(&self, value: impl Fn(&Round) -> Option<f64>) -> Option<Spread> {
        Spread::of(self.rounds.iter().filter_map(value))
    }

    /// The median over the rounds.
    pub(crate) fn median(&self, value: impl Fn(&Round) -> Option<f64>) -> Option<f64> {
        self.spread(value).map(|spread| spread.median)
    }
}

/// One round. Times are in seconds.
#[derive(Clone, Copy, Default, Serialize)]
pub(crate) struct Round {
    pub(crate) exchanges: u64,
    pub(crate) wall: f64,
    /// Of whom is measured.
    pub(crate) cpu: f64,
    /// Of the other side.
    pub(crate) other_cpu: f64,
    pub(crate) allocations: Option<u64>,
    pub(crate) latency: Option<Latency>,
}

impl Round {
    /// In microseconds.
    pub(crate) fn cpu_each(&self) -> f64 {
        self.cpu * 1e6 / self.exchanges as f64
    }

    /// Exchanges per second.
    pub(crate) fn rate(&self) -> f64 {
        self.exchanges as f64 / self.wall
    }

    /// The share of its core that whom is measured used.
    pub(crate) fn busy(&self) -> f64 {
        self.cpu / self.wall
    }

    /// The share of its core that the other side used.
    pub(crate) fn other_busy(&self) -> f64 {
        self.other_cpu / self.wall
    }

    pub(crate) fn allocations_each(&self) -> Option<f64> {
        self.allocations.map(|allocations| allocations as f64 / self.exchanges as f64)
    }
}

/// System calls per exchange.
#[derive(Serialize)]
pub(crate) struct Calls {
    pub(crate) all: f64,
    /// Those that achieved nothing.
    pub(crate) in_vain: f64,
    /// By name, the most frequent first.
    pub(crate) each: Vec<(String, f64)>,
}

impl Calls {
    pub(crate) fn of(rows: &[syscalls::Row], exchanges: u64) -> Calls {
        let each = |count: u64| count as f64 / exchanges as f64;
        let often = rows.iter().filter(|row| each(row.calls) >= RARE);
        Calls {
            all: each(rows.iter().map(|row| row.calls).sum()),
            in_vain: each(rows.iter().map(|row| row.errors).sum()),
            each: often.map(|row| (row.name.clone(), each(row.calls))).collect(),
        }
    }
}

/// What happens less often per exchange is not named.
const RARE: f64 = 0.01;

#[cfg(test)]
mod tests {
    use super::{Measured, Round, Row};

    /// A row of a peer that took so many microseconds in each round.
    fn row(cpu: &[f64]) -> Row {
        let round = |cpu: &f64| Round { exchanges: 1, cpu: cpu / 1e6, ..Round::default() };
        Row { rounds: cpu.iter().map(round).collect(), ..Row::default() }
    }

    #[track_caller]
    fn check(rows: &[&[f64]], ranks: &[Option<usize>]) {
        let rows = rows.iter().map(|cpu| row(cpu)).collect();
        assert_eq!(Measured { name: "", title: "", rows }.ranks(), ranks);
    }

    #[test]
    fn ranks_are_shared_unless_the_rounds_say_who_is_cheaper() {
        check(&[&[1.0], &[2.0], &[3.0], &[2.5]], &[None, Some(1), Some(3), Some(2)]);
        check(&[&[1.0], &[2.0, 2.01, 2.02], &[2.02, 2.03, 2.1]], &[None, Some(1), Some(1)]);
        check(&[&[1.0], &[2.0, 2.5, 3.0], &[4.0]], &[None, None, Some(2)]);
        check(&[&[1.0], &[2.0, 2.5, 4.5], &[4.0]], &[None, None, Some(1)]);
        check(&[&[1.0], &[], &[4.0]], &[None, None, Some(1)]);
        check(&[], &[]);
    }
}
