//! [`all`]: every workload, every peer, round by round.

mod application;
mod client;
mod record;
mod results;
mod rounds;
mod server;

use std::io;

use application::Arena;
pub(crate) use record::{Calls, Measured, Rank, Round, Row};
pub(crate) use results::Results;
pub(crate) use rounds::take_turns;

use crate::machine::Machine;
use crate::options::Options;
use crate::peer::Foreign;
use crate::pinned_core::{PinnedCore, UNPINNED};
use crate::progress::Progress;
use crate::steal::Steal;
use crate::workload::ServerWorkload;

/// Measures what the options ask for, and has what is there kept after each workload: a run that is broken off has not
/// been for nothing.
pub(crate) fn all(options: &Options, keep: impl Fn(&Results) -> io::Result<()>) -> io::Result<Results> {
    let foreign = Foreign::find();
    // Before this process has but one core.
    let machine = Machine::look(&foreign);
    let is_pinned = PinnedCore::Other.take();
    let (mut peers, mut askers) = (options.peers(), options.askers());
    let mut skipped: Vec<(&str, String)> = Vec::new();
    let has_servers = !options.server_workloads().is_empty();
    peers.retain(|peer| match foreign.is_missing(*peer).filter(|_| has_servers) {
        Some(why) => {
            skipped.push((peer.name(), why.to_owned()));
            false
        }
        None => true,
    });
    askers.retain(|asker| foreign.can_ask(*asker));
    skipped.extend(foreign.strace.as_ref().err().map(|why| ("system calls", why.clone())));
    let (servers, clients) = (options.server_workloads(), options.client_workloads());
    let arena = Arena::open(options, &mut skipped)?;
    let (pace, app_pace) = (options.pace(), options.application_pace());
    let duration = options.duration(&peers, &askers, &arena.entries, &arena.scenarios);
    let able = |it: &&ServerWorkload| peers.iter().filter(|peer| it.lacks(**peer).is_none()).count();
    let each = servers.iter().map(able).sum::<usize>() + askers.len() * clients.len();
    let mut progress = Progress::new(each * pace.rounds + arena.turns() * app_pace.rounds, duration);
    for (who, why) in &skipped {
        eprintln!("skipped: {who}: {why}");
    }
    let mut results = Results {
        is_quick: options.is_quick,
        is_pinned,
        workloads: servers.len() + clients.len() + arena.scenarios.len(),
        pace: if servers.is_empty() && clients.is_empty() { app_pace } else { pace },
        machine,
        skipped,
        server: Vec::new(),
        client: Vec::new(),
        applications: Vec::new(),
    };
    if !is_pinned {
        eprintln!("{UNPINNED}");
    }
    for workload in servers {
        let steal = Steal::watch();
        let measured = server::measure(workload, &peers, &foreign, pace, &mut progress);
        results.server.push(Measured { stolen: steal.share(), ..measured }.level());
        keep(&results)?;
    }
    for workload in clients {
        let steal = Steal::watch();
        let measured = client::measure(workload, &askers, &foreign, pace, &mut progress)?;
        results.client.push(Measured { stolen: steal.share(), ..measured }.level());
        keep(&results)?;
    }
    for scenario in &arena.scenarios {
        let steal = Steal::watch();
        let measured = arena.measure(scenario, app_pace, &mut progress);
        results.applications.push(Measured { stolen: steal.share(), ..measured }.level());
        keep(&results)?;
    }
    progress.end();
    Ok(results)
}
