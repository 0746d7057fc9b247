//! [`Signal`]: tells a server to stop; and [`SignalOutcome`]: how it may end.

use std::io;
use std::pin::Pin;

/// Completes when the server should stop, or fails when nothing can tell it to any more.
pub(super) type Signal = Pin<Box<dyn Future<Output = io::Result<()>> + Send>>;

/// What a signal to stop may return (see [`Server::on_stop`](crate::Server::on_stop)): `()`, or an [`io::Result`] such
/// as that of [`shutdown_signal`](crate::shutdown_signal).
pub trait SignalOutcome {
    /// Converts it to a result.
    ///
    /// # Errors
    ///
    /// Fails with the reason why the signal can no longer come.
    fn into_result(self) -> io::Result<()>;
}

impl SignalOutcome for () {
    fn into_result(self) -> io::Result<()> {
        Ok(())
    }
}

impl SignalOutcome for io::Result<()> {
    fn into_result(self) -> io::Result<()> {
        self
    }
}
