//! [`Server::handover`]: a server that takes over from another process, and hands over to the next one.

use std::path::PathBuf;

use super::server::Server;
use crate::server::run::Handover;

impl Server {
    /// Sets the path of a Unix socket over which the listening sockets of this server pass to the process that takes its
    /// place, and over which it gets those of its predecessor, if there is one. Default: none.
    ///
    /// The server first connects to `path`. If another process serves there, this one takes over its sockets for all
    /// addresses that both have, and binds the others. Once all of its cores listen, the predecessor stops, as with
    /// [`ServerHandle::stop`](crate::ServerHandle::stop) and the grace of [`Server::stop_on`] (10 s without). Then this
    /// server waits at `path` for its own successor. If a successor fails or is stopped before it listens, nothing changes.
    /// If its predecessor is stopped meanwhile, the successor still gets the place. One successor starts at a time, and
    /// another one fails after 10 s. A successor that needs more than 300 s fails before it listens, and its predecessor
    /// goes on.
    ///
    /// The sockets are never closed, so no connection is refused or reset, whatever the system does with connections
    /// that wait in a closed socket ([`Server::reuse_port`] describes that). Addresses are matched as they are written,
    /// and a core of the successor gets a socket of its own. Addresses that only the predecessor has are closed.
    ///
    /// A process that may connect to `path` gets the sockets and can stop the server. The mode of the path is 0600, and its
    /// directory must be one that only this user can write to.
    ///
    /// # Examples
    ///
    /// A new version takes over when it is started:
    ///
    /// ```no_run
    /// use std::time::Duration;
    /// use corehttp::{Context, Server, shutdown_signal};
    ///
    /// fn main() -> corehttp::Result {
    ///     Server::bind("[::]:8080")
    ///         .handover("/run/app/handover.sock")
    ///         .stop_on(shutdown_signal(), Duration::from_secs(10))
    ///         .run(|ctx: &mut Context| ctx.response.set_text("Hello, World!"))
    /// }
    /// ```
    #[doc(alias("hot restart", "graceful restart", "SCM_RIGHTS", "expose-fd"))]
    pub fn handover(mut self, path: impl Into<PathBuf>) -> Server {
        self.launch.handover = Some(Handover::new(path.into()));
        self
    }
}
