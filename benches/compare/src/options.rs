//! [`Options`]: what the command line asks for.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use serde::Serialize;

use crate::arena::{Entry, SCENARIOS, Scenario};
use crate::asker::{Asker, Job, Task};
use crate::observing::Observed;
use crate::peer::Peer;
use crate::workload::{CLIENT, ClientWorkload, SERVER, ServerWorkload};

/// The role of this process: the command itself, or one of its children.
pub(crate) enum Role {
    Measure(Options),
    /// Measures servers that are observed, beside themselves bare.
    CompareObserved,
    Serve(Peer),
    Observe(Observed),
    Ask(Asker, Job, SocketAddr),
    Become(String, Vec<String>),
    Help,
}

/// The peers and workloads that are measured, and how long.
#[derive(Default)]
pub(crate) struct Options {
    pub(crate) is_quick: bool,
    /// The rows of the arena alone are asked for.
    is_arena: bool,
    /// The peers that were named; all, if there are none. The limit is always there.
    names: Vec<String>,
    /// Parts of the names of workloads; all, if there are none.
    parts: Vec<String>,
}

impl Options {
    /// # Errors
    ///
    /// With a help text, if it is not understood.
    pub(crate) fn parse(args: impl Iterator<Item = String>) -> Result<Role, String> {
        let args: Vec<String> = args.collect();
        match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
            ["serve", peer] => Peer::named(peer).map(Role::Serve).ok_or_else(help),
            ["ask", asker, task, in_flight, address] => {
                let job = Task::named(task).zip(in_flight.parse().ok());
                let job = job.map(|(task, in_flight)| Job { task, in_flight });
                let parts = Asker::named(asker).zip(job).zip(address.parse().ok());
                parts.map(|((asker, job), address)| Role::Ask(asker, job, address)).ok_or_else(help)
            }
            ["observed", ..] => Observed::from_args(&args[1..]).map(Role::Observe).ok_or_else(help),
            ["observing"] => Ok(Role::CompareObserved),
            ["become", program, ..] => Ok(Role::Become(program.to_owned(), args[2..].to_vec())),
            ["--help" | "-h"] => Ok(Role::Help),
            _ => Options::from_args(args).map(Role::Measure),
        }
    }

    fn from_args(args: Vec<String>) -> Result<Options, String> {
        let mut options = Options::default();
        for arg in args {
            let is_name =
                Peer::named(&arg).is_some() || Asker::named(&arg).is_some() || Entry::named(&arg).is_some();
            if arg == "--quick" {
                options.is_quick = true;
            } else if arg == ARENA {
                options.is_arena = true;
            } else if is_name {
                options.names.push(arg);
            } else if workloads().any(|name| name.contains(&arg)) {
                options.parts.push(arg);
            } else {
                return Err(help());
            }
        }
        let is_empty = options.server_workloads().is_empty() && options.client_workloads().is_empty();
        if is_empty && options.scenarios().is_empty() {
            return Err(format!("none of these does any of that\n\n{}", help()));
        }
        Ok(options)
    }

    pub(crate) fn peers(&self) -> Vec<Peer> {
        Peer::ALL.into_iter().filter(|peer| *peer == Peer::Limit || self.has_name(peer.name())).collect()
    }

    pub(crate) fn askers(&self) -> Vec<Asker> {
        Asker::ALL.into_iter().filter(|asker| *asker == Asker::Raw || self.has_name(asker.name())).collect()
    }

    pub(crate) fn entries(&self) -> Vec<Entry> {
        Entry::ALL.into_iter().filter(|entry| *entry == Entry::Limit || self.has_name(entry.name())).collect()
    }

    /// The rows of the arena. A whole run is one of servers and clients: those have a run of their own.
    pub(crate) fn scenarios(&self) -> Vec<&'static Scenario> {
        let is_asked = self.is_arena || self.is_quick || !self.parts.is_empty();
        let is_asked = is_asked && self.has_names_of(|name| Entry::named(name).is_some());
        SCENARIOS.iter().filter(|it| is_asked && self.has_part_of(it.name)).collect()
    }

    pub(crate) fn server_workloads(&self) -> Vec<&'static ServerWorkload> {
        let is_asked = self.has_names_of(|name| Peer::named(name).is_some());
        SERVER.iter().filter(|it| is_asked && !self.is_arena && self.has_part_of(it.name)).collect()
    }

    pub(crate) fn client_workloads(&self) -> Vec<&'static ClientWorkload> {
        let is_asked = self.has_names_of(|name| Asker::named(name).is_some());
        CLIENT.iter().filter(|it| is_asked && !self.is_arena && self.has_part_of(it.name)).collect()
    }

    pub(crate) fn pace(&self) -> Pace {
        if self.is_quick { QUICK } else { WHOLE }
    }

    pub(crate) fn application_pace(&self) -> Pace {
        if self.is_quick { QUICK_APPLICATION } else { APPLICATION }
    }

    /// How long the run takes, about, with these.
    pub(crate) fn duration(
        &self,
        peers: &[Peer],
        askers: &[Asker],
        entries: &[Entry],
        scenarios: &[&Scenario],
    ) -> Duration {
        let pace = self.pace();
        let server = |it: &&ServerWorkload| {
            let able = peers.iter().filter(|peer| it.lacks(**peer).is_none()).count() as u32;
            let weighed = if it.idle_conns > 0 { pace.weigh() } else { Duration::ZERO };
            (pace.row(it.connections + it.idle_conns, it.rate()) + weighed) * able + pace.settle
        };
        let client = |it: &&ClientWorkload| {
            pace.row(it.job.in_flight, it.offered.into()) * askers.len() as u32 + pace.settle
        };
        let app_pace = self.application_pace();
        let application = |it: &&Scenario| {
            let able = entries.iter().filter(|entry| it.lacks(**entry).is_none()).count() as u32;
            app_pace.row(it.connections, it.rate()) * able + app_pace.settle
        };
        let servers: Duration = self.server_workloads().iter().map(server).sum();
        let clients: Duration = self.client_workloads().iter().map(client).sum();
        servers + clients + scenarios.iter().map(application).sum::<Duration>()
    }

    /// Where the results go. Only a whole run replaces what a whole run wrote.
    pub(crate) fn folder(&self) -> PathBuf {
        let results = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/results"));
        match (self.names.is_empty() && self.parts.is_empty(), self.is_quick, self.is_arena) {
            (false, _, _) => results.join("part"),
            (true, true, _) => results.join("quick"),
            (true, false, true) => results.join(ARENA),
            (true, false, false) => results,
        }
    }

    fn has_name(&self, name: &str) -> bool {
        self.names.is_empty() || self.names.iter().any(|asked| asked == name)
    }

    /// Is anybody of that side asked for?
    fn has_names_of(&self, is_of_side: impl Fn(&str) -> bool) -> bool {
        self.names.is_empty() || self.names.iter().any(|asked| is_of_side(asked))
    }

    fn has_part_of(&self, name: &str) -> bool {
        self.parts.is_empty() || self.parts.iter().any(|asked| name.contains(asked.as_str()))
    }
}

/// How often and how long.
#[derive(Clone, Copy, Serialize)]
pub(crate) struct Pace {
    pub(crate) rounds: usize,
    pub(crate) warm_up: Duration,
    pub(crate) round: Duration,
    /// At a fixed load, at least.
    pub(crate) offer: Duration,
    /// And until so many requests were due.
    pub(crate) offer_min: u32,
    /// Until caches have emptied, and no idle timeout has come.
    pub(crate) settle: Duration,
    /// Under strace.
    pub(crate) trace: Duration,
}

impl Pace {
    /// Until a process with idle connections weighs what it weighs.
    pub(crate) fn weigh(&self) -> Duration {
        self.settle.max(WEIGH_MIN)
    }

    /// How long a fixed load is held at which so many requests are due in a second.
    pub(crate) fn offer(&self, rate: f64) -> Duration {
        self.offer.max(Duration::from_secs_f64(f64::from(self.offer_min) / rate))
    }

    /// How long one peer at one workload takes, which has so many connections, and so many requests due in a second.
    fn row(&self, connections: usize, rate: f64) -> Duration {
        let round = CONNECTION * connections as u32 + self.warm_up + self.round + self.offer(rate);
        round * self.rounds as u32 + self.trace + ATTACH
    }
}

/// corehttp gives memory back once a second.
const WEIGH_MIN: Duration = Duration::from_millis(1_100);
/// To connect and be answered, and to hang up.
const CONNECTION: Duration = Duration::from_micros(100);
/// strace, and to start and end a process.
const ATTACH: Duration = Duration::from_millis(250);

const WHOLE: Pace = Pace {
    rounds: 5,
    warm_up: Duration::from_millis(100),
    round: Duration::from_millis(600),
    offer: Duration::from_millis(600),
    offer_min: 1_000,
    settle: Duration::from_millis(2_000),
    trace: Duration::from_millis(200),
};

const QUICK: Pace = Pace {
    rounds: 2,
    warm_up: Duration::from_millis(20),
    round: Duration::from_millis(80),
    offer: Duration::from_millis(80),
    offer_min: 0,
    settle: Duration::from_millis(300),
    trace: Duration::from_millis(40),
};

/// Rounds of applications: shorter, for there are more rows than minutes.
const APPLICATION: Pace =
    Pace { round: Duration::from_millis(500), offer: Duration::from_millis(400), offer_min: 0, ..WHOLE };

const QUICK_APPLICATION: Pace = Pace { rounds: 1, ..QUICK };

/// The name of all rows of the arena together.
const ARENA: &str = "applications";

fn workloads() -> impl Iterator<Item = &'static str> {
    let servers = SERVER.iter().map(|it| it.name).chain(CLIENT.iter().map(|it| it.name));
    servers.chain(SCENARIOS.iter().map(|it| it.name))
}

pub(crate) fn help() -> String {
    let list = |names: &mut dyn Iterator<Item = &'static str>| names.collect::<Vec<_>>().join(", ");
    format!(
        "usage: observing | [--quick] [applications] [NAME ..] [PART ..]\n\n\
         observing      a minute: what a log and histograms cost, and nothing else\n\
         --quick        four minutes, to see that all works: its figures rank nobody\n\
         applications   whole applications, and neither servers nor clients\n\
         NAME           measure only these: {}; {}; {}\n\
         PART           only workloads with this in their names: {}",
        list(&mut Peer::ALL.into_iter().map(Peer::name)),
        list(&mut Asker::ALL.into_iter().map(Asker::name)),
        list(&mut Entry::ALL.into_iter().map(Entry::name)),
        list(&mut workloads()),
    )
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{Options, Role};

    /// The names of what an option list measures; none if it is not understood.
    fn measured(args: &[&str]) -> Option<String> {
        match Options::parse(args.iter().map(|arg| arg.to_string())) {
            Ok(Role::Measure(options)) => {
                let peers = options.peers().into_iter().map(|it| it.name());
                let workloads = options.server_workloads().into_iter().map(|it| it.name);
                Some(peers.chain(workloads).collect::<Vec<_>>().join(" "))
            }
            _ => None,
        }
    }

    #[test]
    fn names_and_parts_choose_and_the_limit_stays() {
        let chosen = measured(&["hyper", "echo-1"]);
        assert_eq!(chosen.as_deref(), Some("limit hyper echo-1k echo-1m"));
        assert_eq!(measured(&["applications"]).map(|it| it.contains("plaintext")), Some(false));
        assert_eq!(measured(&["--quick", "json"]).map(|it| it.ends_with("h2o json")), Some(true));
        assert_eq!(measured(&["reqwest"]).as_deref(), Some("limit"), "clients only: no server has work");
    }

    /// The time that the documentation promises, with all peers there.
    #[test]
    fn runs_take_as_long_as_is_said() {
        for (args, minutes) in [(&[][..], 25), (&["applications"][..], 12), (&["--quick"][..], 4)] {
            let Ok(Role::Measure(options)) = Options::parse(args.iter().map(|arg: &&str| arg.to_string()))
            else {
                panic!("{args:?}")
            };
            let (peers, askers) = (options.peers(), options.askers());
            let time = options.duration(&peers, &askers, &options.entries(), &options.scenarios());
            let minute = Duration::from_secs(60);
            assert!(time < minute * minutes && time > minute * minutes / 2, "{args:?}: {time:?}");
        }
    }

    /// Fewer than a thousand have no p99.9, and nothing to compare.
    #[test]
    fn a_round_has_a_thousand_requests_that_are_due() {
        let whole = Options::default();
        for workload in whole.server_workloads() {
            let due = workload.rate() * whole.pace().offer(workload.rate()).as_secs_f64();
            assert!(due >= 1_000.0, "{}: {due}", workload.name);
        }
        for workload in whole.client_workloads() {
            let rate = f64::from(workload.offered);
            let due = rate * whole.pace().offer(rate).as_secs_f64();
            assert!(due >= 1_000.0, "{}: {due}", workload.name);
        }
    }

    #[test]
    fn applications_are_measured_by_themselves_or_by_name() {
        let scenarios = |args: &[&str]| match Options::parse(args.iter().map(|arg| arg.to_string())) {
            Ok(Role::Measure(options)) => options.scenarios().iter().map(|it| it.name).collect::<Vec<_>>(),
            _ => panic!("{args:?}"),
        };
        assert_eq!(scenarios(&[]), [""; 0]);
        assert_eq!(scenarios(&["app-ws", "axum"]), ["app-ws", "app-ws-16"]);
        assert_eq!(scenarios(&["applications"]).len(), scenarios(&["--quick"]).len());
    }

    #[test]
    fn what_is_not_understood_is_not_ignored() {
        let ask = &["ask", "ureq", "get", "x", "y"][..];
        for args in [&["--fast"][..], &["hyper2"], &["serve", "nobody"], ask, &["hyper", "client-1"]] {
            assert_eq!(measured(args), None, "{args:?}");
        }
    }
}
