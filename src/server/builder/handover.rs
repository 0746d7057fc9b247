//! [`Server::handover`]: a server that takes over from another process, and hands over to the next one.

use std::path::PathBuf;

use super::server::Server;
use crate::server::run::Handover;

impl Server {
    /// Sets the path of a Unix socket over which the listening sockets pass from one process to the next. A process
    /// takes over those of its predecessor, if any, and passes them on to its successor. Default: none.
    ///
    /// The server first connects to `path`. If another process serves there, this one takes over its sockets for all
    /// common addresses, and binds the others. Once all of its cores listen, the predecessor stops, as with
    /// [`ServerHandle::stop`](crate::ServerHandle::stop) and the grace of [`Server::stop_on`] (10 s without). Then this
    /// server waits at `path` for its own successor. A successor that does not come to listen changes nothing. If the
    /// predecessor is stopped during the start of its successor, the successor still gets the place. One successor
    /// starts at a time, and another one fails after 10 s. A successor fails after 300 s without listening. Its
    /// predecessor then goes on.
    ///
    /// The sockets are never closed, so no connection is refused or reset (unlike with [`Server::reuse_port`]). Addresses are
    /// matched as they are written. A core of the successor gets a socket of its own. Addresses that only the predecessor has
    /// are closed.
    ///
    /// A process that may connect to `path` gets the sockets and can stop the server. The mode of the path is 0600. Its
    /// directory must be writable by this user alone.
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
