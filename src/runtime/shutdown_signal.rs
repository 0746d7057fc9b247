//! [`shutdown_signal`]: waits for the signal that ends the process.

use std::io;

/// Completes when the process receives a signal to end. On Unix that is SIGINT, by Ctrl-C, or SIGTERM, by service managers. On
/// other systems it is Ctrl-C. Meant for [`Server::stop_on`](crate::Server::stop_on).
///
/// After the first poll of the future, these signals no longer end the process by themselves, even after it is complete. A
/// tokio runtime with I/O enabled is needed, such as those that a server makes.
///
/// # Other signals
///
/// All other signals have the action of the system, unless the program handles them:
///
/// | signal | who sends it | what happens |
/// |---|---|---|
/// | SIGINT, SIGTERM | Ctrl-C, `systemctl stop`, `docker stop` | the server stops. Without `shutdown_signal` the process ends at once |
/// | SIGHUP | a closing terminal, also `systemctl reload` and logrotate, by their settings | the process ends at once |
/// | SIGQUIT, SIGUSR1, SIGUSR2 | people and programs | the process ends at once |
/// | SIGPIPE | writes to a connection that is closed | nothing: Rust ignores it, and the write fails |
///
/// A process that ends at once cuts the exchanges in flight. A program can handle SIGHUP by tokio, on a thread of its own. It
/// is then safe from closing terminals, or can reload its logs and certificates:
///
/// ```no_run
/// # #[cfg(unix)]
/// # mod unix {
/// use std::{io, thread};
/// use tokio::signal::unix::{SignalKind, signal};
///
/// /// Calls `reload` at each SIGHUP. To be called before the server starts.
/// fn on_hangup(reload: impl Fn() + Send + 'static) {
///     thread::spawn(move || {
///         corehttp::block_on(async {
///             let mut hangups = signal(SignalKind::hangup())?;
///             while hangups.recv().await.is_some() {
///                 reload(); // `AccessLog::reopen`, `ServerTls::replace_identities`
///             }
///             io::Result::Ok(())
///         })
///     });
/// }
/// # }
/// ```
///
/// To serve a new version of the program without a refused connection, start it beside this one and stop this one: see
/// [`Server::reuse_port`](crate::Server::reuse_port).
///
/// # Errors
///
/// Fails if the operating system does not let the process listen.
///
/// # Examples
///
/// ```no_run
/// use std::time::Duration;
/// use corehttp::{Context, Server, shutdown_signal};
///
/// fn main() -> corehttp::Result {
///     Server::bind("[::]:8080")
///         .stop_on(shutdown_signal(), Duration::from_secs(10))
///         .run(|ctx: &mut Context| ctx.response.set_text("Hello, World!"))
/// }
/// ```
#[doc(alias("ctrl_c", "SIGTERM", "SIGINT", "SIGHUP"))]
pub async fn shutdown_signal() -> io::Result<()> {
    imp::shutdown_signal().await
}

#[cfg(unix)]
mod imp {
    use std::future::poll_fn;
    use std::io;
    use std::task::Poll;

    use tokio::signal::unix::{SignalKind, signal};

    pub(super) async fn shutdown_signal() -> io::Result<()> {
        let mut interrupted = signal(SignalKind::interrupt())?;
        let mut terminated = signal(SignalKind::terminate())?;
        poll_fn(|cx| match (interrupted.poll_recv(cx), terminated.poll_recv(cx)) {
            (Poll::Pending, Poll::Pending) => Poll::Pending,
            _ => Poll::Ready(Ok(())),
        })
        .await
    }
}

#[cfg(not(unix))]
mod imp {
    pub(super) use tokio::signal::ctrl_c as shutdown_signal;
}
