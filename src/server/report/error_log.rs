//! [`ErrorLog`]: a line for each failure that an operator must see.

use std::backtrace::{Backtrace, BacktraceStatus};
use std::fmt;
use std::io::{self, Write};
use std::panic::PanicHookInfo;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread;
use std::time::SystemTime;

use super::observer::{CoreEvents, Observer};
use super::report_limiter::{KindLimiter, KindState};
use crate::lines::{LineTarget, LineWriter, Log, notice};
use crate::memory::lock;
use crate::message::HttpDate;
use crate::server::error::ErrorReport;

/// An error log: a line for each [fault of the server](ErrorReport::is_fault), with the time and the level. An
/// [observer](crate::Server::observe) of any number of servers. A clone refers to the same log. For anything else than
/// lines, such as an alarm, use [`Server::on_error`](crate::Server::on_error). A server may have both.
///
/// ```text
/// 2026-11-28T09:30:00Z error 500 Internal Server Error to 192.0.2.1:50000, POST /orders: the handler failed: the pool is closed
/// ```
///
/// Behind a [proxy](crate::Server::trusted_proxies) the line has the client, and the proxy:
/// `to 192.0.2.1 through 10.0.0.1:50000`. Of a panic it has the request. The message and the place are written by the
/// panic hook of the program: see [`ErrorLog::panic_hook`].
///
/// A thread of the log's own writes, so a blocked terminal halts no core. The thread starts with the first line. Of
/// each kind, a core writes at most 10 lines a second, and at most one of failures without a request. The next line has
/// the number of those left out. Each certificate has its line. If 4 MiB of lines wait, further ones are dropped and
/// counted. The drop of the last clone waits at most 5 s for the lines to be written.
///
/// A server without an observer of errors, other than metrics, writes the faults that belong to no request to standard error:
///
/// - connections not accepted, for lack of descriptors or memory, or by
///   [`Limits::connections_max`](crate::Limits::connections_max)
/// - the failure of a listener, which stops the server
/// - a certificate that was refused as a replacement, or expires soon, with the number of days
///
/// # Examples
///
/// ```no_run
/// use corehttp::server::ErrorLog;
/// use corehttp::{Context, Server};
///
/// Server::bind("127.0.0.1:8080")
///     .observe(ErrorLog::stderr())
///     .run(|ctx: &mut Context| ctx.response.set_text("Hello, World!"))?;
/// # Ok::<(), corehttp::Error>(())
/// ```
#[doc(alias("error_log", "eprintln", "stderr", "syslog"))]
#[derive(Clone)]
pub struct ErrorLog {
    inner: Arc<LogInner>,
    scope: Scope,
}

/// The reports that are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scope {
    /// Faults that concern no single request.
    Server,
    /// Faults of the server.
    Faults,
    /// All, even those of peers.
    All,
}

struct LogInner {
    /// The place to write to, until the thread has it.
    target: Mutex<Option<LineTarget>>,
    writer: OnceLock<LineWriter>,
    /// How many lines were dropped, because the thread could not be made yet.
    unwritten: AtomicU64,
}

impl ErrorLog {
    /// Creates a log that writes to standard error.
    pub fn stderr() -> ErrorLog {
        ErrorLog::from_target(LineTarget::stderr())
    }

    /// Creates a log that writes to `writer`. Each write has whole lines, and is flushed.
    pub fn from_writer(writer: impl Write + Send + 'static) -> ErrorLog {
        ErrorLog::from_target(LineTarget::from_writer(writer))
    }

    /// Opens a log that appends to the file at `path`. The file is created if need be.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be opened.
    pub fn open(path: impl AsRef<Path>) -> io::Result<ErrorLog> {
        LineTarget::from_path(path.as_ref()).map(ErrorLog::from_target)
    }

    fn from_target(target: LineTarget) -> ErrorLog {
        let target = Mutex::new(Some(target));
        let inner = LogInner { target, writer: OnceLock::new(), unwritten: AtomicU64::new(0) };
        ErrorLog { inner: Arc::new(inner), scope: Scope::Faults }
    }

    /// The log of a server that nobody watches.
    pub(in crate::server) fn without_requests(self) -> ErrorLog {
        ErrorLog { scope: Scope::Server, ..self }
    }

    /// Writes the refusals and failures of peers as well, with the level `info`. Default: no. A server on the open
    /// internet has many of them.
    #[must_use]
    pub fn all(self) -> ErrorLog {
        ErrorLog { scope: Scope::All, ..self }
    }

    /// Opens the file again before the next line, after it was renamed or removed. After a failure, the log goes on in
    /// the old file, and tries once a second. Does nothing for a log that was made from a writer.
    pub fn reopen(&self) {
        // The thread begins with the first line.
        if let Some(target) = &mut *lock(&self.inner.target) {
            target.request_reopen();
        }
        if let Some(writer) = self.inner.writer.get() {
            writer.reopen();
        }
    }

    /// Returns a [hook](std::panic::set_hook) that writes panics to this log: a line with the thread, the place and the
    /// message, and a backtrace below it if `RUST_BACKTRACE` asks for one.
    ///
    /// The hook of the standard library writes to standard error on the thread that panics. A terminal or a pipe that
    /// nobody reads then halts a core forever, at the first panic of a handler that finds it full.
    ///
    /// At most 10 panics a second are written. Panics after the drop of the log go to standard error, which is waited for
    /// for 100 ms at most. With `panic = "abort"`, all of them do. A panic that ends the process at once, such as one amid
    /// another, may be lost.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// use corehttp::server::ErrorLog;
    /// use corehttp::{Context, Server};
    ///
    /// let log = ErrorLog::stderr();
    /// std::panic::set_hook(Box::new(log.panic_hook()));
    /// Server::bind("127.0.0.1:8080").observe(log).run(|ctx: &mut Context| ctx.response.set_text("Hello, World!"))?;
    /// # Ok::<(), corehttp::Error>(())
    /// ```
    pub fn panic_hook(&self) -> impl Fn(&PanicHookInfo<'_>) + Send + Sync + 'static {
        // The program never drops its hook, which must not keep the log.
        let inner = Arc::downgrade(&self.inner);
        let panics = Mutex::<KindState>::default();
        move |panic| {
            let Some(suppressed) = lock(&panics).admit(LINES_A_SECOND) else { return };
            let text = panic_line(SystemTime::now(), panic, suppressed);
            match inner.upgrade() {
                Some(inner) if cfg!(panic = "unwind") => inner.write(&text),
                _ => notice(text),
            }
        }
    }

    /// Returns how many lines were dropped, for lack of room or of a thread, or after a failure to write.
    pub fn dropped(&self) -> u64 {
        let LogInner { writer, unwritten, .. } = &*self.inner;
        unwritten.load(Ordering::Relaxed) + writer.get().map_or(0, LineWriter::dropped)
    }
}

impl Default for ErrorLog {
    /// As [`ErrorLog::stderr`].
    fn default() -> ErrorLog {
        ErrorLog::stderr()
    }
}

impl Observer for ErrorLog {
    fn attach(&self, core: &mut CoreEvents) {
        let log = self.clone();
        let limiter = KindLimiter::new(LINES_A_SECOND);
        core.on_error(move |report| {
            if log.scope.has(report)
                && let Some(suppressed) = limiter.admit(report)
            {
                log.inner.write(&line(SystemTime::now(), report, suppressed));
            }
        });
    }
}

impl Scope {
    fn has(self, report: &ErrorReport<'_>) -> bool {
        match self {
            Scope::Server => report.request.is_none() && report.is_fault(),
            Scope::Faults => report.is_fault(),
            Scope::All => true,
        }
    }
}

impl LogInner {
    fn write(&self, line: &str) {
        let Some(writer) = self.writer() else {
            self.unwritten.fetch_add(1, Ordering::Relaxed);
            return Log::Error.count_dropped(1);
        };
        writer.push(|lines| {
            lines.extend_from_slice(line.as_bytes());
            lines.push(b'\n');
        });
    }

    /// The thread that writes, which begins with the first line. If it cannot be made, the next line tries again.
    fn writer(&self) -> Option<&LineWriter> {
        if self.writer.get().is_none() {
            let mut target = lock(&self.target);
            if target.is_some()
                && let Ok(writer) = LineWriter::start(Log::Error, &mut target)
            {
                let _ = self.writer.set(writer);
            }
        }
        self.writer.get()
    }
}

/// The line of a report. It cannot be forged: characters that end a line are blanks.
fn line(time: SystemTime, report: &ErrorReport<'_>, suppressed: u64) -> String {
    let level = if report.is_fault() { "error" } else { "info" };
    one_line(time, format_args!("{level} {report}"), suppressed)
}

/// The line of a panic, above its backtrace.
fn panic_line(time: SystemTime, panic: &PanicHookInfo<'_>, suppressed: u64) -> String {
    let thread = thread::current();
    let thread = thread.name().unwrap_or("without a name");
    let line = one_line(time, format_args!("error thread {thread} {panic}"), suppressed);
    let backtrace = Backtrace::capture();
    match backtrace.status() {
        BacktraceStatus::Captured => format!("{line}\n{backtrace}"),
        _ => line,
    }
}

fn one_line(time: SystemTime, event: fmt::Arguments<'_>, suppressed: u64) -> String {
    let mut line = format!("{} {event}", HttpDate::new(time).to_rfc3339());
    if suppressed > 0 {
        line.push_str(&format!("; {suppressed} more suppressed"));
    }
    line.replace(['\r', '\n'], " ")
}

/// As many lines of one kind tell what happens; more hide the rest.
const LINES_A_SECOND: u32 = 10;

impl fmt::Debug for ErrorLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ErrorLog").field("scope", &self.scope).finish_non_exhaustive()
    }
}
