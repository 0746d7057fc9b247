//! [`shutdown_signal`]: waits for the signal that ends the process.

use std::io;

/// Completes when the process receives a signal to end: on Unix SIGINT, which Ctrl-C sends, or SIGTERM, which service
/// managers send before they kill; on other systems Ctrl-C. Meant for [`Server::on_stop`](crate::Server::on_stop).
///
/// Once the future has been polled, these signals no longer end the process by themselves. A tokio runtime with I/O
/// enabled is needed, such as those that a server makes.
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
///         .on_stop(shutdown_signal(), Duration::from_secs(10))
///         .run(|ctx: &mut Context| ctx.response.set_text("Hello, World!"))
/// }
/// ```
#[doc(alias("ctrl_c", "SIGTERM", "SIGINT"))]
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
