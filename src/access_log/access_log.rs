//! [`AccessLog`]: writes a line for each exchange.

use std::fmt;
use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;

use super::format::Format;
use crate::lines::{LineTarget, LineWriter, Log};
use crate::server::{CoreEvents, Observer};

/// An access log: a line for each exchange, once it is over. An [observer](crate::Server::observe) of any number of servers.
/// A clone refers to the same log.
///
/// The cores format the lines, and a thread of the log's own writes them, usually within 20 ms. A core never waits for it or
/// for another core, and allocates for no line of up to 1 KiB. Within these 20 ms, the lines of several cores are not in the
/// order of their exchanges. If 4 MiB of lines wait for a slow or full disk, further ones are dropped and
/// [counted](AccessLog::dropped), with a note on standard error. The drop of the last clone, those of servers included, writes
/// the lines that wait, for at most 5 s. So let the process wait for its servers.
///
/// # Examples
///
/// A log in the format of Apache. [`Format::Json`](crate::access_log::Format::Json) makes each line a JSON object.
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
    writer: LineWriter,
    format: Format,
}

impl AccessLog {
    /// Opens a log that appends to the file at `path`. The file is created if need be.
    ///
    /// # Errors
    ///
    /// Fails if the operating system cannot open the file or start a thread.
    pub fn open(path: impl AsRef<Path>, format: Format) -> io::Result<AccessLog> {
        AccessLog::from_target(LineTarget::from_path(path.as_ref())?, format)
    }

    /// Creates a log that writes to `writer`, such as standard output. Each write has whole lines, and is flushed.
    ///
    /// # Errors
    ///
    /// Fails if no thread can be started.
    pub fn from_writer(writer: impl Write + Send + 'static, format: Format) -> io::Result<AccessLog> {
        AccessLog::from_target(LineTarget::from_writer(writer), format)
    }

    fn from_target(target: LineTarget, format: Format) -> io::Result<AccessLog> {
        let writer = LineWriter::start(Log::Access, &mut Some(target))?;
        Ok(AccessLog { inner: Arc::new(LogInner { writer, format }) })
    }

    /// Opens the file again before the next line. Call this after a rename or a removal. A failure is noted on standard error.
    /// The log then goes on in the old file, and tries again every second. Does nothing for a log made by
    /// [`AccessLog::from_writer`].
    ///
    /// # Examples
    ///
    /// SIGHUP, as of logrotate, ends the process unless it is handled. Here it reopens the log:
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
        self.inner.writer.reopen();
    }

    /// Returns how many lines were dropped, for too many waiting lines or failed writes.
    pub fn dropped(&self) -> u64 {
        self.inner.writer.dropped()
    }
}

impl Observer for AccessLog {
    fn attach(&self, core: &mut CoreEvents) {
        let log = self.inner.clone();
        core.on_exchange(move |report| log.writer.push(|out| log.format.write(report, out)));
    }
}

impl fmt::Debug for AccessLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AccessLog").field("format", &self.inner.format).finish_non_exhaustive()
    }
}
