//! [`shutdown_signal`]: waits for the signal that ends the process.

use std::io;

/// Completes when the process receives a signal to end: on Unix SIGINT, which Ctrl-C sends, or SIGTERM, which service
/// managers send before they kill; on other systems Ctrl-C. Meant for [`Server::stop_on`](crate::Server::stop_on).
///
/// Once the future has been polled, these signals no longer end the process by themselves, nor does a second one after
/// it is complete. A tokio runtime with I/O enabled is needed, such as those that a server makes.
///
/// # Other signals
///
/// All other signals do what the system has them do, unless the program says otherwise:
///
/// | signal | who sends it | what happens |
/// |---|---|---|
/// | SIGINT, SIGTERM | Ctrl-C; `systemctl stop`, `docker stop` | with `shutdown_signal`, the server stops; else the process ends at once |
/// | SIGHUP | a terminal that closes; `systemctl reload` and logrotate, if they are told to | the process ends at once |
/// | SIGQUIT, SIGUSR1, SIGUSR2 | people and programs | the process ends at once |
/// | SIGPIPE | writes to a connection that is closed | nothing: Rust ignores it, and the write fails |
///
/// A process that ends at once cuts the exchanges in flight. A program that is started from a terminal, or that reopens
/// its logs and reads its certificates again on SIGHUP, as others do, handles that signal by tokio, on a thread of its
/// own:
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
