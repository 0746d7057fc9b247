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
use crate::server::{CoreEvents, Observer};

/// An access log: a line for each exchange, once it is over. An [observer](crate::Server::observe) of any number of servers.
/// A clone refers to the same log.
///
/// The cores format the lines, and a thread of the log's own writes them, usually within 20 ms. A core never waits for
/// it or for another core, and allocates for no line of up to 1 KiB. Within these 20 ms, the lines of several cores are
/// not in the order of their exchanges. If 4 MiB of lines wait, because a disk is slow or full, further ones are dropped,
/// which is counted, and noted on standard error. When the last clone is dropped, those of servers included, the lines
/// that wait are written, and the drop waits for that at most 5 s. So let the process wait for its servers.
///
/// # Examples
///
/// ```no_run
/// use corehttp::{Context, Server, TrustedProxies};
/// use corehttp::access_log::{self, AccessLog};
///
/// fn main() -> corehttp::Result {
///     let log = AccessLog::open("/var/log/app/access.log", access_log::Format::Combined)?;
///     // After the file was renamed by logrotate, call `log.reopen()`.
///     Server::bind("127.0.0.1:8080")
///         .trusted_proxies(TrustedProxies::new(["10.0.0.0/8"])?) // or each line names the proxy in front
///         .observe(log.clone())
///         .run(|ctx: &mut Context| ctx.response.set_text("Hello, World!"))
/// }
/// ```
#[derive(Clone)]
pub struct AccessLog {
    inner: Arc<LogInner>,
}

struct LogInner {
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
        Ok(AccessLog { inner: Arc::new(LogInner { queue, format, thread: Some(thread) }) })
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
    /// use tokio::signal::unix::{SignalKind, signal};
    ///
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
        self.inner.queue.reopen_requested.store(true, Ordering::Release);
    }

    /// Returns how many lines were dropped, because too many waited, or because they could not be written.
    pub fn dropped(&self) -> u64 {
        self.inner.queue.dropped()
    }
}

impl Observer for AccessLog {
    fn attach(&self, core: &mut CoreEvents) {
        let log = self.inner.clone();
        core.on_exchange(move |report| log.queue.push(|line| log.format.write(report, line)));
    }
}

impl Drop for LogInner {
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
        f.debug_struct("AccessLog").field("format", &self.inner.format).finish_non_exhaustive()
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
