//! [`Stop`]: an order to stop a server; and [`Signal`], which gives one.

use std::io;
use std::pin::Pin;

use tokio::sync::watch;

use crate::runtime::{self, Instant};

/// Completes when the server should stop, or fails if the signal can no longer come.
pub(super) type Signal = Pin<Box<dyn Future<Output = io::Result<()>> + Send>>;

/// The output of a signal to stop (see [`Server::on_stop`](crate::Server::on_stop)): `()`, or an [`io::Result`] such as
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

/// An order to stop. Connections that are still open at `cut_at` are cut.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stop {
    pub(super) cut_at: Instant,
}

/// Waits for the end of the grace, which a later call may have made shorter.
pub(super) async fn grace_elapsed(stop: &mut watch::Receiver<Option<Stop>>) {
    loop {
        let ordered = *stop.borrow_and_update();
        let Some(Stop { cut_at }) = ordered else { return };
        match runtime::timeout_at(cut_at, stop.changed()).await {
            Ok(Ok(())) => {}
            // No sender is left that could make the grace shorter.
            Ok(Err(_)) => return runtime::sleep_until(cut_at).await,
            Err(_) => return,
        }
    }
}
