//! [`Arena`]: what rows of applications need, and how one is measured.

use std::io;
use std::time::Instant;

use super::rounds::{ROUND_MAX, attempt, own_time, take_turns};
use super::{Calls, Measured, Round, Row};
use crate::arena::{Addresses, Data, Entry, Programs, Scenario};
use crate::child::Child;
use crate::load::Load;
use crate::options::{Options, Pace};
use crate::progress::Progress;
use crate::syscalls;

/// The entries that can be had, and what they are given; nothing where no row is asked for.
pub(super) struct Arena {
    given: Option<(Programs, Data)>,
    pub(super) entries: Vec<Entry>,
    pub(super) scenarios: Vec<&'static Scenario>,
}

impl Arena {
    /// Builds and makes what is asked for, and notes what cannot be had.
    pub(super) fn open(options: &Options, skipped: &mut Vec<(&'static str, String)>) -> io::Result<Arena> {
        let (mut entries, mut scenarios) = (options.entries(), options.scenarios());
        if scenarios.is_empty() {
            return Ok(Arena { given: None, entries, scenarios });
        }
        let needs_database = scenarios.iter().any(|it| it.kind.needs_database());
        let (programs, data) = (Programs::build(), Data::make(needs_database)?);
        entries.retain(|entry| match entry.is_missing(&programs) {
            Some(why) => {
                skipped.push((entry.name(), why.to_owned()));
                false
            }
            None => true,
        });
        if let (true, Err(why)) = (needs_database, &data.database) {
            scenarios.retain(|it| !it.kind.needs_database());
            skipped.push(("rows with a database", why.clone()));
        }
        Ok(Arena { given: Some((programs, data)), entries, scenarios })
    }

    /// How many turns a round has, of all rows together.
    pub(super) fn turns(&self) -> usize {
        let able = |it: &&Scenario| self.entries.iter().filter(|entry| it.lacks(**entry).is_none()).count();
        self.scenarios.iter().map(able).sum()
    }

    /// Has all entries that can do it, and keep its rules, do it in turns.
    pub(super) fn measure(&self, scenario: &Scenario, pace: Pace, progress: &mut Progress) -> Measured {
        let able = self.entries.iter().filter(|entry| scenario.lacks(**entry).is_none());
        let given = self.given.as_ref().expect("there is a row");
        let mut runs: Vec<Run> = able.map(|entry| Run::start(*entry, scenario, given)).collect();
        let round = |run: &mut Run| {
            progress.step(scenario.name, run.row.peer);
            run.attempt(|server| server.round(scenario, &given.1, pace));
        };
        take_turns(&mut runs, pace.rounds, pace.settle, round, Run::weigh);
        runs.iter_mut().for_each(|run| run.trace(scenario, &given.1, pace));
        let absent = self.entries.iter().filter_map(|entry| Some((entry.name(), scenario.lacks(*entry)?)));
        Measured {
            name: scenario.name,
            title: scenario.title,
            absent: absent.collect(),
            rows: runs.into_iter().map(|run| run.row).collect(),
            stolen: None,
            is_scored: scenario.is_scored(),
        }
    }
}

/// One entry in one row. Once something went wrong, its process is gone.
struct Run {
    row: Row,
    server: Option<Server>,
}

impl Run {
    fn start(entry: Entry, scenario: &Scenario, (programs, data): &(Programs, Data)) -> Run {
        let mut run = Run { row: Row::new(entry.name()), server: None };
        let started = entry.spawn(programs, data).and_then(|(child, addresses)| {
            let outcome = scenario.validate(addresses, data);
            child.watch(ROUND_MAX).judge(outcome)?;
            Ok(Server { child, addresses, response: None })
        });
        match started {
            Ok(server) => run.server = Some(server),
            Err(error) => run.row.failed = Some(error.to_string()),
        }
        run
    }

    fn attempt(&mut self, work: impl FnOnce(&mut Server) -> io::Result<Round>) {
        attempt(&mut self.row, &mut self.server, |server| &server.child, work);
    }

    fn weigh(&mut self) {
        let Some(server) = &self.server else { return };
        self.row.peak = server.child.peak().ok();
        self.row.settled = server.child.resident().ok();
        self.row.response = server.response;
    }

    fn trace(&mut self, scenario: &Scenario, data: &Data, pace: Pace) {
        let Some(server) = &self.server else { return };
        let watch = server.child.watch(ROUND_MAX);
        let traced = server.trace(scenario, data, pace);
        // Without strace, or if it was too much for somebody, there is no figure.
        self.row.calls = watch.judge(traced).unwrap_or_default();
    }
}

struct Server {
    child: Child,
    addresses: Addresses,
    response: Option<u64>,
}

impl Server {
    fn round(&mut self, scenario: &Scenario, data: &Data, pace: Pace) -> io::Result<Round> {
        let mut load = Load::open(scenario.plan(self.addresses, data), scenario.connections)?;
        load.run(pace.warm_up)?;
        let (cpu, own, started) = (self.child.cpu_time()?, own_time()?, Instant::now());
        let exchanges = load.run(pace.round)? / scenario.unit;
        let (wall, other_cpu) = (started.elapsed(), own_time()? - own);
        let cpu = self.child.cpu_time()? - cpu;
        self.response = Some(load.response());
        let latency = Some(load.offer(scenario.offered, pace.offer(scenario.rate()))?);
        let [wall, cpu, other_cpu] = [wall, cpu, other_cpu].map(|time| time.as_secs_f64());
        Ok(Round { exchanges, wall, cpu, other_cpu, allocations: None, latency, drift: None })
    }

    fn trace(&self, scenario: &Scenario, data: &Data, pace: Pace) -> io::Result<Option<Calls>> {
        let mut load = Load::open(scenario.plan(self.addresses, data), scenario.connections)?;
        let mut exchanges = Ok(0);
        let rows = syscalls::count(self.child.id(), || {
            exchanges = load.run(pace.trace);
        });
        let exchanges = exchanges? / scenario.unit;
        Ok(rows.map(|rows| Calls::from_rows(&rows, exchanges.max(1))))
    }
}
