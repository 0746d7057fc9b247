//! [`all`]: every workload, every peer, round by round.

mod client;
mod record;
mod results;
mod rounds;
mod server;

use std::io;

pub(crate) use record::{Calls, Measured, Rank, Round, Row};
pub(crate) use results::Results;

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
    peers.retain(|peer| match foreign.is_missing(*peer) {
        Some(why) => {
            skipped.push((peer.name(), why.to_owned()));
            false
        }
        None => true,
    });
    askers.retain(|asker| foreign.can_ask(*asker));
    skipped.extend(foreign.strace.as_ref().err().map(|why| ("system calls", why.clone())));
    for (who, why) in &skipped {
        eprintln!("skipped: {who}: {why}");
    }

    let (servers, clients) = (options.server_workloads(), options.client_workloads());
    let (pace, duration) = (options.pace(), options.duration(&peers, &askers));
    let able = |it: &&ServerWorkload| peers.iter().filter(|peer| it.lacks(**peer).is_none()).count();
    let each = servers.iter().map(able).sum::<usize>() + askers.len() * clients.len();
    let mut progress = Progress::new(each * pace.rounds, duration);
    let mut results = Results {
        is_quick: options.is_quick,
        is_pinned,
        workloads: servers.len() + clients.len(),
        pace,
        machine,
        skipped,
        server: Vec::new(),
        client: Vec::new(),
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
    progress.end();
    Ok(results)
}
