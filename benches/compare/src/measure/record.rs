//! [`Measured`]: what one workload came to, as it is written down.

use std::fmt;

use serde::Serialize;

use crate::load::Latency;
use crate::spread::Spread;
use crate::syscalls;

/// One workload, and a row for each who did it, the limit first if there is one.
#[derive(Default, Serialize)]
pub(crate) struct Measured {
    pub(crate) name: &'static str,
    pub(crate) title: &'static str,
    pub(crate) rows: Vec<Row>,
    /// Who cannot do it, and why.
    pub(crate) absent: Vec<(&'static str, &'static str)>,
    /// The share of the cores' time that the host gave to others meanwhile.
    pub(crate) stolen: Option<f64>,
    /// Do the bytes of a response count besides the rate?
    pub(crate) is_scored: bool,
}

impl Measured {
    /// Notes of each round how much longer than usual it took the one in the middle, for then the machine was slower by
    /// so much. Peers take turns for that: what slowed all of them is no difference between them.
    pub(crate) fn level(mut self) -> Measured {
        let whole = self.rows.iter().filter(|row| row.failed.is_none());
        let usual: Vec<(&Row, f64)> = whole.filter_map(|row| Some((row, row.cpu()?.median))).collect();
        if usual.len() < PEERS_MIN {
            return self;
        }
        let drift = |index: usize| {
            let each = |(row, usual): &(&Row, f64)| Some(row.rounds.get(index)?.cpu_each() / usual);
            Some(Spread::from_values(usual.iter().filter_map(each))?.median)
        };
        let drifts: Vec<f64> = (0..).map_while(drift).collect();
        for row in &mut self.rows {
            row.rounds.iter_mut().zip(&drifts).for_each(|(round, drift)| round.drift = Some(*drift));
        }
        self
    }

    /// Who does the reads and writes and nothing else.
    pub(crate) fn limit(&self) -> Option<&Row> {
        self.rows.iter().find(|row| row.is_limit())
    }

    /// By the arena: requests a second, times the square of how many times the least bytes a response has. None for
    /// those who failed.
    pub(crate) fn scores(&self) -> Vec<(&'static str, f64)> {
        let whole = || self.rows.iter().filter(|row| row.failed.is_none());
        let least = whole().filter_map(|row| row.response).min().unwrap_or_default() as f64;
        let score = |row: &Row| {
            let times = least / row.response? as f64;
            Some((row.peer, row.median(|round| Some(round.rate()))? * times * times))
        };
        if self.is_scored { whole().filter_map(score).collect() } else { Vec::new() }
    }

    /// The ranks of the rows by CPU time: one more than there are peers who are surely cheaper. A row has a place only if
    /// no other has a lower median without being surely cheaper: it shares one otherwise, also with a row whose rounds are
    /// too far apart to be ranked. So nobody is first beside a lower median.
    pub(crate) fn ranks(&self) -> Vec<Rank> {
        let peers = self.rows.iter().filter(|row| !row.is_limit() && row.failed.is_none());
        let spreads: Vec<Spread> = peers.filter_map(Row::cpu).collect();
        let place = |mine: Spread| {
            let cheaper = spreads.iter().filter(|other| other.median < mine.median);
            let (surely, perhaps): (Vec<&Spread>, Vec<&Spread>) =
                cheaper.partition(|other| other.is_below(&mine));
            if perhaps.is_empty() { Rank::Place(1 + surely.len()) } else { Rank::Shared }
        };
        let rank = |row: &Row| match row.cpu() {
            _ if row.is_limit() => Rank::Limit,
            _ if row.failed.is_some() => Rank::Failed,
            Some(mine) if row.rounds.len() >= ROUNDS_MIN && !mine.is_wide() => place(mine),
            Some(_) if row.rounds.len() >= ROUNDS_MIN => Rank::Wide,
            _ => Rank::Few,
        };
        self.rows.iter().map(rank).collect()
    }
}

/// Of fewer, the one in the middle would be compared with itself.
const PEERS_MIN: usize = 5;
/// Fewer have no quartiles to speak of, and rank nobody.
const ROUNDS_MIN: usize = 3;

/// How a row stands among the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rank {
    /// It is what the others are compared with.
    Limit,
    Place(usize),
    /// Another may be cheaper.
    Shared,
    /// Its rounds are too far apart.
    Wide,
    /// Its rounds are too few.
    Few,
    Failed,
}

impl fmt::Display for Rank {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Rank::Limit => Ok(()),
            Rank::Place(place) => write!(f, "{place}"),
            Rank::Shared => f.write_str("shared"),
            Rank::Wide => f.write_str("wide"),
            Rank::Few => f.write_str("–"),
            Rank::Failed => f.write_str("failed"),
        }
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
    /// Bytes of a response, its head included.
    pub(crate) response: Option<u64>,
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

    pub(crate) fn is_limit(&self) -> bool {
        matches!(self.peer, "limit" | "raw")
    }

    /// Microseconds of CPU time per exchange, at the usual speed of the machine.
    pub(crate) fn cpu(&self) -> Option<Spread> {
        Spread::from_values(self.rounds.iter().map(|round| round.cpu_each() / round.drift.unwrap_or(1.0)))
    }

    /// How many times the limit's CPU time, round by round.
    pub(crate) fn over(&self, limit: &Row) -> Option<Spread> {
        let pairs = self.rounds.iter().zip(&limit.rounds);
        Spread::from_values(pairs.map(|(mine, limit)| mine.cpu_each() / limit.cpu_each()))
    }

    /// The latency of the slowest of a thousand, in microseconds; none if a round fell behind what was offered, for
    /// then it is that of a queue that grows.
    pub(crate) fn of_thousand(&self) -> Option<Spread> {
        self.spread(|round| round.latency?.of_thousand).filter(|_| !self.is_overloaded())
    }

    /// Did it fall behind what was offered?
    pub(crate) fn is_overloaded(&self) -> bool {
        self.rounds.iter().filter_map(|round| round.latency).any(|latency| !latency.is_met())
    }

    /// A value of all rounds that have it.
    pub(crate) fn spread(&self, value: impl Fn(&Round) -> Option<f64>) -> Option<Spread> {
        Spread::from_values(self.rounds.iter().filter_map(value))
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
    /// How many times longer than usual it took all of them, if there are enough to tell.
    pub(crate) drift: Option<f64>,
}

impl Round {
    /// In microseconds, as it was measured.
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
    /// System calls that achieved nothing.
    pub(crate) in_vain: f64,
    /// By name, the most frequent first.
    pub(crate) each: Vec<(String, f64)>,
}

impl Calls {
    pub(crate) fn from_rows(rows: &[syscalls::Row], exchanges: u64) -> Calls {
        let each = |count: u64| count as f64 / exchanges as f64;
        let often = rows.iter().filter(|row| each(row.calls) >= RARE);
        Calls {
            all: each(rows.iter().map(|row| row.calls).sum()),
            in_vain: each(rows.iter().map(|row| row.errors).sum()),
            each: often.map(|row| (row.name.clone(), each(row.calls))).collect(),
        }
    }
}

/// System calls that happen less often per exchange are not named.
const RARE: f64 = 0.01;

#[cfg(test)]
mod tests {
    use super::{Measured, Rank, Round, Row};

    /// A row of a peer that took so many microseconds in each round.
    fn row(cpu: &[f64]) -> Row {
        let round = |cpu: &f64| Round { exchanges: 1, cpu: cpu / 1e6, ..Round::default() };
        Row { rounds: cpu.iter().map(round).collect(), ..Row::default() }
    }

    fn limit() -> Row {
        Row { peer: "limit", ..row(&[1.0; 3]) }
    }

    /// The ranks of rows that took so many microseconds in each round, beside the limit.
    #[track_caller]
    fn check(rows: &[&[f64]], ranks: &str) {
        let rows = std::iter::once(limit()).chain(rows.iter().map(|cpu| row(cpu))).collect();
        let measured = Measured { rows, ..Measured::default() };
        let said: Vec<String> = measured.ranks().iter().map(Rank::to_string).collect();
        assert_eq!(said.join(" ").trim_start(), ranks);
    }

    #[test]
    fn ranks_are_shared_unless_the_rounds_say_who_is_cheaper() {
        check(&[&[2.0; 3], &[3.0; 3], &[2.5; 3]], "1 3 2");
        check(&[&[2.0, 2.01, 2.02], &[2.02, 2.03, 2.1]], "1 shared");
        check(&[&[2.02, 2.03, 2.1], &[2.0, 2.01, 2.02], &[3.0; 3]], "shared 1 3");
        check(&[&[2.0, 2.5, 3.0], &[4.0; 3]], "wide 2");
        check(&[&[2.0, 4.5, 5.0], &[4.0; 3]], "wide 1");
        check(&[&[2.0, 2.5, 4.5], &[4.0; 3]], "wide shared");
        check(&[&[15.3; 3], &[12.0, 12.9, 16.0]], "shared wide");
        check(&[], "");
    }

    /// The CPU times of rows, at the usual speed of the machine.
    #[track_caller]
    fn check_level(rows: &[&[f64]], expected: &[(f64, f64, f64)]) {
        let rows = rows.iter().map(|cpu| row(cpu)).collect();
        let measured = Measured { rows, ..Measured::default() }.level();
        let digits = |value: f64| (value * 1e3).round() / 1e3;
        let spreads = measured.rows.iter().filter_map(Row::cpu);
        let spreads = spreads.map(|it| (digits(it.low), digits(it.median), digits(it.high)));
        assert_eq!(spreads.collect::<Vec<_>>(), expected);
    }

    #[test]
    fn what_slowed_all_of_a_round_is_no_difference_between_them() {
        let slow: [&[f64]; 5] =
            [&[1.0, 1.0, 1.2], &[2.0, 2.0, 2.4], &[3.0, 3.0, 3.6], &[4.0, 4.0, 4.8], &[5.0, 5.0, 6.0]];
        check_level(&slow, &[1.0, 2.0, 3.0, 4.0, 5.0].map(|at| (at, at, at)));
        // Of one alone nobody knows why it was slow, and four are too few.
        let alone: [&[f64]; 5] = [&[1.0; 3], &[2.0; 3], &[3.0; 3], &[4.0; 3], &[5.0, 5.0, 6.0]];
        check_level(&alone[3..], &[(4.0, 4.0, 4.0), (5.0, 5.0, 6.0)]);
        let steady = [1.0, 2.0, 3.0, 4.0].map(|at| (at, at, at));
        check_level(&alone, &[&steady[..], &[(5.0, 5.0, 6.0)]].concat());
        check_level(&slow[..4], &[(1.0, 1.0, 1.2), (2.0, 2.0, 2.4), (3.0, 3.0, 3.6), (4.0, 4.0, 4.8)]);
        check_level(&[], &[]);
    }

    #[test]
    fn a_score_falls_with_the_square_of_the_bytes() {
        let of = |peer, bytes| Row { peer, response: Some(bytes), ..row(&[1.0; 3]) };
        let level = |mut row: Row| {
            row.rounds.iter_mut().for_each(|round| round.wall = 0.01);
            row
        };
        let rows = vec![level(of("one", 1_000)), level(of("two", 2_000)), of("three", 4_000)];
        let rows = rows.into_iter().take(2).collect();
        let mut measured = Measured { rows, is_scored: true, ..Measured::default() };
        assert_eq!(measured.scores(), [("one", 100.0), ("two", 25.0)]);
        measured.is_scored = false;
        assert_eq!(measured.scores(), []);
    }

    #[test]
    fn who_had_too_few_rounds_or_failed_has_no_rank_and_takes_nobodys() {
        check(&[&[2.0; 2], &[4.0; 2]], "– –");
        check(&[&[], &[4.0; 3]], "– 1");
        let failed = Row { failed: Some("it hung".into()), ..row(&[2.0; 3]) };
        let measured = Measured { rows: vec![limit(), failed, row(&[4.0; 3])], ..Measured::default() };
        assert_eq!(measured.ranks(), [Rank::Limit, Rank::Failed, Rank::Place(1)]);
        assert_eq!(Measured::default().ranks(), []);
    }
}
