//! [`Observed`]: a GET with a parameter, twice in each server: bare, and observed.
//!
//! | | a line for each request, in a file | how often and how long, by route and status |
//! |---|---|---|
//! | corehttp | `AccessLog` | `Metrics`, and a function that gets a report of each exchange |
//! | axum | tower-http's `TraceLayer` at one event, by tracing-subscriber to tracing-appender's thread | axum-prometheus |
//! | actix-web | its `Logger`, by env_logger | actix-web-prom |
//! | fasthttp | a middleware that formats it into a buffer | another, with Prometheus's client |

use std::io;
use std::path::PathBuf;
use std::process::Command;

use super::{actix, axum, corehttp};
use crate::peer::{Foreign, Peer};

/// A server, and the log that it writes if it is observed.
#[derive(Clone)]
pub(crate) struct Observed {
    pub(super) peer: Peer,
    pub(super) log: Option<PathBuf>,
}

impl Observed {
    pub(super) const PEERS: [Peer; 4] = [Peer::Corehttp, Peer::Axum, Peer::Actix, Peer::Fasthttp];

    /// The server that these arguments ask for: those of [`Observed::command`] from the second on.
    pub(crate) fn from_args(args: &[String]) -> Option<Observed> {
        let peer = Peer::named(args.first()?).filter(|peer| Observed::PEERS.contains(peer))?;
        Some(Observed { peer, log: args.get(1).map(PathBuf::from) })
    }

    /// The process that serves it.
    pub(super) fn command(&self, foreign: &Foreign) -> io::Result<Command> {
        let mut command = match self.peer {
            Peer::Fasthttp => foreign.go_command()?,
            _ => Command::new(std::env::current_exe()?),
        };
        command.args(["observed", self.peer.name()]).args(&self.log);
        Ok(command)
    }

    /// In the child: serves until the parent ends.
    pub(crate) fn serve(self) -> io::Result<()> {
        match self.peer {
            Peer::Corehttp => corehttp::serve(self.log),
            Peer::Axum => axum::serve(self.log),
            Peer::Actix => actix::serve(self.log),
            _ => Err(io::Error::other("this is no Rust")),
        }
    }
}
