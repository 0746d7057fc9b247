//! [`Stop`]: an order to stop a server; and [`Signal`], which gives one.

use std::io;
use std::pin::Pin;

use tokio::sync::watch;

use crate::runtime::{self, Instant};

/// Completes when the server should stop, or fails if the signal can no longer come.
pub(super) type Signal = Pin<Box<dyn Future<Output = io::Result<()>> + Send>>;

/// The output of a signal to stop (see [`Server::stop_on`](crate::Server::stop_on)): `()`, or an [`io::Result`] such as
/// that of [`shutdown_signal`](crate::shutdown_signal).
pub trait IntoIoResult {
    /// Converts the output to a result.
    ///
    /// # Errors
    ///
    /// Fails with the reason why the signal can no longer come.
    fn into_result(self) -> io::Result<()>;
}

impl IntoIoResult for () {
    fn into_result(self) -> io::Result<()> {
        Ok(())
    }
}

impl IntoIoResult for io::Result<()> {
    fn into_result(self) -> io::Result<()> {
        self
    }
}

/// An order to stop. A server accepts no more connections from `close_at` on, and cuts those that are still open at
/// `cut_at`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stop {
    pub(super) close_at: Instant,
    pub(super) cut_at: Instant,
}

/// Waits for the end of the time in which a server that is about to stop accepts connections.
pub(super) async fn delay_elapsed(stop: &mut watch::Receiver<Option<Stop>>) {
    wait_until(stop, |stop| stop.close_at).await;
}

/// Waits for the end of the grace.
pub(super) async fn grace_elapsed(stop: &mut watch::Receiver<Option<Stop>>) {
    wait_until(stop, |stop| stop.cut_at).await;
}

/// Waits for a moment of the order to stop. A later order may bring it forward.
async fn wait_until(stop: &mut watch::Receiver<Option<Stop>>, moment: fn(Stop) -> Instant) {
    loop {
        let ordered = *stop.borrow_and_update();
        let Some(until) = ordered.map(moment) else { return };
        // A moment that has come needs no timer, which would fire a millisecond late.
        if until <= runtime::now() {
            return;
        }
        match runtime::timeout_at(until, stop.changed()).await {
            Ok(Ok(())) => {}
            // No sender is left that could bring the moment forward.
            Ok(Err(_)) => return runtime::sleep_until(until).await,
            Err(_) => return,
        }
    }
}
