//! [`AccessLog`]: writes a line for each exchange.

use std::fmt;
use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use super::format::Format;
use super::writer::{LineQueue, LogTarget};
use crate::server::ExchangeReport;

/// An access log: a line for each exchange, once it is over.
///
/// The cores format the lines, and a thread of the log's own writes them, usually within 20 ms. A core never waits for
/// it or for another core, and allocates for no line of up to 1 KiB. Within these 20 ms, the lines of several cores are
/// not in the order of their exchanges. If 4 MiB of lines wait, because a disk is slow or full, further ones are dropped,
/// which is counted, and noted on standard error. Dropping the log writes the lines that wait, and waits for that at
/// most 5 s; later ones are lost, so keep it until the server has stopped.
///
/// # Examples
///
/// ```no_run
/// use corehttp::{Context, Server};
/// use corehttp::access_log::{self, AccessLog};
///
/// fn main() -> corehttp::Result {
///     let log = AccessLog::open("/var/log/app/access.log", access_log::Format::Combined)?;
///     // After the file was renamed by logrotate, call `log.reopen()`.
///     Server::bind("127.0.0.1:8080")
///         .on_exchange(log.recorder())
///         .run(|ctx: &mut Context| ctx.response.set_text("Hello, World!"))
/// }
/// ```
pub struct AccessLog {
    queue: Arc<LineQueue>,
    format: Format,
    thread: Option<JoinHandle<()>>,
}

impl AccessLog {
    /// Opens a log that appends to the file at `path`, which is created if there is none.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be opened, or if there can be no further thread.
    pub fn open(path: impl AsRef<Path>, format: Format) -> io::Result<AccessLog> {
        AccessLog::from_target(LogTarget::from_path(path.as_ref())?, format)
    }

    /// Creates a log that writes to `writer`, such as standard output. Each write has whole lines, and is flushed.
    ///
    /// # Errors
    ///
    /// Fails if there can be no further thread.
    pub fn from_writer(writer: impl Write + Send + 'static, format: Format) -> io::Result<AccessLog> {
        AccessLog::from_target(LogTarget::from_writer(writer), format)
    }

    fn from_target(target: LogTarget, format: Format) -> io::Result<AccessLog> {
        let queue = Arc::new(LineQueue::new());
        let lines = queue.clone();
        let thread =
            thread::Builder::new().name("access-log".into()).spawn(move || lines.write_to(target))?;
        Ok(AccessLog { queue, format, thread: Some(thread) })
    }

    /// Returns the function for [`Server::on_exchange`](crate::Server::on_exchange). A client is named as by
    /// [`ExchangeReport::client_ip`].
    pub fn recorder(&self) -> impl Fn(&ExchangeReport<'_>) + Send + Sync + 'static {
        let (queue, format) = (self.queue.clone(), self.format.clone());
        move |report| queue.push(|line| format.write(report, report.client_ip(), line))
    }

    /// Opens the file again before the next line is written, since it was renamed or removed. If that fails, which is
    /// noted on standard error, the log goes on in the old one. Does nothing for a log made by [`AccessLog::from_writer`].
    ///
    /// # Examples
    ///
    /// At SIGHUP, which logrotate can send, and which ends the process unless it is handled:
    ///
    /// ```no_run
    /// # #[cfg(unix)]
    /// # fn serve(log: corehttp::access_log::AccessLog) {
    /// use std::io;
    /// use std::sync::Arc;
    /// use tokio::signal::unix::{SignalKind, signal};
    ///
    /// let log = Arc::new(log);
    /// let reopened = log.clone();
    /// std::thread::spawn(move || {
    ///     corehttp::block_on(async {
    ///         let mut hangups = signal(SignalKind::hangup())?;
    ///         while hangups.recv().await.is_some() {
    ///             reopened.reopen();
    ///         }
    ///         io::Result::Ok(())
    ///     })
    /// });
    /// # }
    /// ```
    #[doc(alias("logrotate", "SIGHUP"))]
    pub fn reopen(&self) {
        self.queue.reopen_requested.store(true, Ordering::Release);
    }

    /// Returns how many lines were dropped, because too many waited, or because they could not be written.
    pub fn dropped(&self) -> u64 {
        self.queue.dropped()
    }
}

impl Drop for AccessLog {
    fn drop(&mut self) {
        self.queue.end_requested.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            if !is_over_within(&thread, END_WAIT_MAX) {
                eprintln!("the access log has not ended in time, and lines of it may be lost");
            }
        }
    }
}

/// Waits for a thread to end, and returns whether it has. A writer that stalls must not keep the process.
fn is_over_within(thread: &JoinHandle<()>, wait_max: Duration) -> bool {
    let (pause, mut waited) = (Duration::from_millis(1), Duration::ZERO);
    while !thread.is_finished() && waited < wait_max {
        thread::sleep(pause);
        waited += pause;
    }
    thread.is_finished()
}

/// How long the drop of a log waits for its last lines to be written.
const END_WAIT_MAX: Duration = Duration::from_secs(5);

impl fmt::Debug for AccessLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AccessLog").field("format", &self.format).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    #[test]
    fn a_thread_that_stalls_is_left_alone() {
        let (release, stalled) = channel::<()>();
        let thread = thread::spawn(move || stalled.recv().unwrap_or_default());
        assert!(!is_over_within(&thread, Duration::from_millis(2)));
        drop(release);
        assert!(is_over_within(&thread, Duration::MAX));
    }
}
