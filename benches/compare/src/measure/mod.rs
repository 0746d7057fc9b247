//! [`all`]: every workload, every peer, round by round.

mod client;
mod record;
mod server;

use std::io;

pub(crate) use record::{Calls, Measured, Round, Row};

use crate::machine::Machine;
use crate::options::Options;
use crate::peer::Foreign;
use crate::progress::Progress;
use crate::results::Results;
use crate::seat::Seat;

/// Measures what the options ask for.
pub(crate) fn all(options: &Options) -> io::Result<Results> {
    let foreign = Foreign::find();
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
    let each = peers.len() * servers.len() + askers.len() * clients.len();
    let (pace, mut progress) = (options.pace(), Progress::new(each * options.pace().rounds));
    let server = servers.iter().map(|it| server::measure(it, &peers, &foreign, pace, &mut progress));
    let server = server.collect();
    let client = clients.iter().map(|it| client::measure(it, &askers, &foreign, pace, &mut progress));
    let client = client.collect::<io::Result<_>>()?;
    progress.end();
    Ok(Results { is_quick: options.is_quick, machine, skipped, server, client })
}
