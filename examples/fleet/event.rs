//! [`Fleet`]: three servers; [`Event`]: the trouble they have.

use std::time::Duration;

use corehttp::Result;
use tokio::time::sleep;

use crate::process::{Folder, Process};

/// Three servers, each at a port of its own.
pub struct Fleet<'f> {
    folder: &'f Folder,
    servers: Vec<(u16, Process)>,
    /// That of the server which was started last.
    version: usize,
}

impl Fleet<'_> {
    pub fn start<'f>(folder: &'f Folder, ports: &[u16]) -> Result<Fleet<'f>> {
        let servers = ports.iter().map(|port| Ok((*port, Process::member(folder, *port, 1)?)));
        Ok(Fleet { folder, servers: servers.collect::<Result<_>>()?, version: 1 })
    }

    /// Starts a server of another version in place of one that has ended, and waits until it has passed its checks.
    async fn replace(&mut self, at: usize) -> Result {
        self.version += 1;
        let (port, server) = &mut self.servers[at];
        *server = Process::member(self.folder, *port, self.version)?;
        sleep(CHECKED).await;
        Ok(())
    }
}

/// In this time, a server has started and has passed five checks.
const CHECKED: Duration = Duration::from_secs(2);

/// The trouble that a fleet has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    None,
    /// Each server is stopped and replaced, one after the other.
    Rolled,
    /// One server gets SIGKILL, and is replaced two seconds later.
    Killed,
    /// One server gets SIGSTOP, and SIGCONT three seconds later.
    Halted,
    /// One server answers all but its checks with 500 at once. It is replaced three seconds later.
    Broken,
}

impl Event {
    pub const ALL: [Event; 5] = [Event::None, Event::Rolled, Event::Killed, Event::Halted, Event::Broken];

    pub fn name(self) -> &'static str {
        match self {
            Event::None => "nothing happens",
            Event::Rolled => "all are rolled",
            Event::Killed => "one is killed",
            Event::Halted => "one is halted for 3 s",
            Event::Broken => "one answers 500 for 3 s",
        }
    }

    /// Whether requests may fail that must not be sent twice: that a server has begun to handle them is all that is known.
    pub fn may_fail_posts(self) -> bool {
        match self {
            Event::Killed | Event::Broken => true,
            Event::None | Event::Rolled | Event::Halted => false,
        }
    }

    pub async fn happen(self, fleet: &mut Fleet<'_>) -> Result {
        match self {
            Event::None => sleep(Duration::from_secs(3)).await,
            Event::Rolled => {
                for at in 0..fleet.servers.len() {
                    fleet.servers[at].1.stop().await?;
                    fleet.replace(at).await?;
                }
            }
            Event::Killed => {
                fleet.servers[0].1.signal("KILL")?;
                sleep(Duration::from_secs(2)).await;
                fleet.replace(0).await?;
            }
            Event::Halted => {
                fleet.servers[1].1.signal("STOP")?;
                sleep(Duration::from_secs(3)).await;
                fleet.servers[1].1.signal("CONT")?;
                sleep(CHECKED).await;
            }
            Event::Broken => {
                fleet.servers[2].1.signal("USR2")?;
                sleep(Duration::from_secs(3)).await;
                fleet.servers[2].1.stop().await?;
                fleet.replace(2).await?;
            }
        }
        Ok(())
    }
}
