//! [`Server::systemd`]: a server that systemd manages, with the sockets that it passes (sd_listen_fds(3)).

use std::io;

use listenfd::ListenFd;
use socket2::SockRef;

use super::server::Server;
use crate::net::Address;
use crate::server::run::Notifier;

impl Server {
    /// Makes the server a service of systemd. Without systemd, nothing changes, so a program can always call it.
    ///
    /// - **Sockets.** Sockets from systemd (`LISTEN_FDS`) replace the addresses set before. They stay open during a
    ///   restart of the service. Connections wait in them meanwhile, and none is lost. They are secure if the server
    ///   has a [`Server::tls`](crate::Server::tls).
    /// - **State.** With `Type=notify`, systemd is notified when all cores listen (`READY=1`), and of the order to stop
    ///   (`STOPPING=1`).
    /// - **Watchdog.** With `WatchdogSec=`, systemd gets a sign of life at least twice in that time (`WATCHDOG=1`), as
    ///   long as the task queue of every core moves. A core that a handler blocks for longer has the service restarted.
    ///
    /// No core waits for a systemd that is busy: a sign of life, or the notification of a stop, is then dropped. The start
    /// waits for at most 30 s.
    ///
    /// # Errors
    ///
    /// Fails with a passed socket other than a listening TCP or Unix stream socket.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// use std::time::Duration;
    /// use corehttp::{Context, Server, shutdown_signal};
    ///
    /// fn main() -> corehttp::Result {
    ///     Server::bind("[::]:8080")
    ///         .systemd()?
    ///         .stop_on(shutdown_signal(), Duration::from_secs(10))
    ///         .run(|ctx: &mut Context| ctx.response.set_text("Hello, World!"))
    /// }
    /// ```
    ///
    /// `/etc/systemd/system/app.socket`, with which the service is started by the first connection, or with the machine:
    ///
    /// ```ini
    /// [Socket]
    /// ListenStream=80
    /// Backlog=4096
    ///
    /// [Install]
    /// WantedBy=sockets.target
    /// ```
    ///
    /// `/etc/systemd/system/app.service`:
    ///
    /// ```ini
    /// [Unit]
    /// Requires=app.socket
    /// After=app.socket
    ///
    /// [Service]
    /// Type=notify
    /// ExecStart=/usr/local/bin/app
    /// # Longer than the grace of the stop.
    /// TimeoutStopSec=15
    /// WatchdogSec=10
    /// Restart=on-failure
    /// LimitNOFILE=1048576
    /// DynamicUser=yes
    /// ```
    ///
    /// # With a handover
    ///
    /// With `Server::handover`, `systemctl reload` has a new process take the place of the one that runs. Before the
    /// old one stops, the new one reports itself as the main process (`MAINPID=`). Only the main process notifies the
    /// watchdog. So the old one is watched while the new one starts. Such a service has no socket unit, as it passes
    /// the sockets on itself. Its unit differs in these lines:
    ///
    /// ```ini
    /// [Service]
    /// # The new process is not the main one yet when it reports.
    /// NotifyAccess=all
    /// RuntimeDirectory=app
    /// # systemd sets the watchdog for the first process alone, in microseconds.
    /// ExecReload=/bin/sh -c 'WATCHDOG_USEC=10000000 /usr/local/bin/app &'
    /// ```
    #[doc(alias("LISTEN_FDS", "socket activation", "sd_notify", "watchdog"))]
    pub fn systemd(mut self) -> io::Result<Server> {
        let mut passed = ListenFd::from_env();
        let sockets = (0..passed.len()).map(|index| Ok((take(&mut passed, index)?, None)));
        let sockets = sockets.collect::<io::Result<Vec<_>>>()?;
        if !sockets.is_empty() {
            self.launch.addresses = sockets;
        }
        self.launch.notifier = Some(Notifier::from_env());
        Ok(self)
    }
}

/// Takes a socket that was passed.
fn take(passed: &mut ListenFd, index: usize) -> io::Result<Address> {
    let tcp = passed.take_tcp_listener(index).ok().flatten().filter(|socket| listens(socket.into()));
    if let Some(listener) = tcp {
        return Ok(listener.into());
    }
    let unix = passed.take_unix_listener(index).ok().flatten().filter(|socket| listens(socket.into()));
    unix.map(Address::from).ok_or_else(|| {
        // systemd passes connections of `Accept=yes`, and datagrams of `ListenDatagram=`.
        let reason = format!(
            "socket {index} of LISTEN_FDS does not listen: its unit needs ListenStream= and Accept=no"
        );
        io::Error::new(io::ErrorKind::InvalidInput, reason)
    })
}

fn listens(socket: SockRef<'_>) -> bool {
    socket.is_listener().unwrap_or(false)
}
