//! [`all`]: every workload, every peer, round by round.

mod client;
mod record;
mod results;
mod server;

use std::io;

pub(crate) use record::{Calls, Measured, Round, Row};
pub(crate) use results::Results;

use crate::machine::Machine;
use crate::options::Options;
use crate::peer::Foreign;
use crate::progress::Progress;
use crate::seat::Seat;

/// Measures what the options ask for, and has what is there kept after each workload: a run that is broken off has not
/// been for nothing.
pub(crate) fn all(options: &Options, keep: impl Fn(&Results) -> io::Result<()>) -> io::Result<Results> {
    let foreign = Foreign::find();
    // Before this process has but one core.
    let machine = Machine::look(&foreign);
    if !Seat::Other.take() {
        eprintln!("one core only, or no right to choose one: the load disturbs whom it measures");
    }
    let (mut peers, mut askers) = (options.peers(), options.askers());
    let mut skipped = Vec::new();
    peers.retain(|peer| match foreign.is_missing(*peer) {
        Some(why) => {
            skipped.push((peer.name(), why.to_owned()));
            false
        }
        None => true,
    });
    askers.retain(|asker| foreign.can_ask(*asker));
    for (who, why) in &skipped {
        eprintln!("skipped: {who}: {why}");
    }

    let (servers, clients) = (options.server_workloads(), options.client_workloads());
    let (pace, duration) = (options.pace(), options.duration(&peers, &askers));
    let each = peers.len() * servers.len() + askers.len() * clients.len();
    let mut progress = Progress::new(each * pace.rounds, duration);
    let mut results = Results::new(options.is_quick, servers.len() + clients.len(), pace, machine, skipped);
    for workload in servers {
        results.server.push(server::measure(workload, &peers, &foreign, pace, &mut progress));
        keep(&results)?;
    }
    for workload in clients {
        results.client.push(client::measure(workload, &askers, &foreign, pace, &mut progress)?);
        keep(&results)?;
    }
    progress.end();
    Ok(results)
}
