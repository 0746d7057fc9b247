//! [`Notifier`]: reports the state of a server to systemd (sd_notify(3)).

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use std::{env, io, process, thread};

use sd_notify::NotifyState;
use socket2::{Domain, SockAddr, Socket, Type};

use crate::runtime;

/// The service manager, which learns of the state of the server.
#[derive(Clone, Default)]
pub(crate) struct Notifier {
    /// How long the manager waits for a sign of life.
    watchdog: Option<Duration>,
    /// How often each core has shown that it runs.
    beats: Arc<[AtomicU64]>,
    /// Whether this is the process that the manager watches.
    is_main_process: Arc<AtomicBool>,
}

impl Notifier {
    pub(in crate::server) fn from_env() -> Notifier {
        Notifier { watchdog: sd_notify::watchdog_enabled(), ..Notifier::default() }
    }

    /// The notifier of a server with so many cores.
    pub(in crate::server) fn with_cores(self, count: usize) -> Notifier {
        Notifier { beats: (0..count).map(|_| AtomicU64::new(0)).collect(), ..self }
    }

    /// Reports that this process takes the place of the one that the manager has started, or of its successor.
    pub(in crate::server) fn replace_main_process(&self) {
        notify(NotifyState::MainPid(process::id()), WAIT_MAX);
    }

    /// Reports that all cores listen.
    pub(in crate::server) fn ready(&self) {
        self.is_main_process.store(true, Relaxed);
        notify(NotifyState::Ready, WAIT_MAX);
    }

    /// Sends no further notification of the watchdog, since a successor does.
    pub(in crate::server) fn retire(&self) {
        self.is_main_process.store(false, Relaxed);
    }

    /// Reports that a stop was ordered, if all cores have listened. The manager would stop the whole service for a
    /// successor that fails before that, its predecessor included. The order may come from a core, which does not wait for
    /// a manager that is busy: the end of the process is news enough.
    pub(in crate::server) fn stopping(&self) {
        if self.is_main_process.load(Relaxed) {
            notify(NotifyState::Stopping, Duration::ZERO);
        }
    }

    /// Shows that this core runs, for as long as it does. The first core reports to the manager, which would take a
    /// notification of a successor that starts, or of a predecessor that stops, for one of the main process.
    pub(in crate::server) async fn beat(self, index: usize) {
        let Some(limit) = self.watchdog else { return };
        let mut seen = vec![0; self.beats.len()];
        loop {
            self.beats[index].fetch_add(1, Relaxed);
            if index == 0 && self.has_moved(&mut seen) && self.is_main_process.load(Relaxed) {
                notify(NotifyState::Watchdog, Duration::ZERO);
            }
            // Two cores that beat in turns may look as if one had not moved, but not twice in a row.
            runtime::sleep(limit / 4).await;
        }
    }

    /// Whether all cores have shown that they run since the last call, which has left in `seen` what it saw.
    fn has_moved(&self, seen: &mut [u64]) -> bool {
        let moved = self.beats.iter().zip(seen).map(|(beats, seen)| {
            let beats = beats.load(Relaxed);
            std::mem::replace(seen, beats) != beats
        });
        moved.fold(true, |all, moved| all & moved)
    }
}

/// Sends a notification. If the queue of the manager is full, waits at most so long for room. A manager that does not
/// listen is no reason to stop.
fn notify(state: NotifyState<'_>, wait_max: Duration) {
    let Some(path) = env::var_os("NOTIFY_SOCKET") else { return };
    let mut waited = Duration::ZERO;
    while let Err(error) = send(&state, path.as_bytes())
        && error.kind() == io::ErrorKind::WouldBlock
        && waited < wait_max
    {
        thread::sleep(FULL_QUEUE_PAUSE);
        waited += FULL_QUEUE_PAUSE;
    }
}

/// `@` stands for the zero byte that an abstract address begins with.
fn send(state: &NotifyState<'_>, path: &[u8]) -> io::Result<()> {
    let address = match path.split_first() {
        Some((b'@', name)) => SockAddr::unix(OsStr::from_bytes(&[b"\0", name].concat()))?,
        _ => SockAddr::unix(OsStr::from_bytes(path))?,
    };
    socket()?.send_to(format!("{state}\n").as_bytes(), &address).map(drop)
}

/// The socket of all notifications. It is kept, since a manager that hears nothing of a process without free descriptors would
/// end it.
fn socket() -> io::Result<&'static Socket> {
    static SOCKET: OnceLock<Socket> = OnceLock::new();
    if let Some(socket) = SOCKET.get() {
        return Ok(socket);
    }
    let socket = Socket::new(Domain::UNIX, Type::DGRAM, None)?;
    socket.set_nonblocking(true)?;
    Ok(SOCKET.get_or_init(|| socket))
}

/// How long a start waits before it looks for room in the queue again.
const FULL_QUEUE_PAUSE: Duration = Duration::from_millis(10);

/// How long a start may wait for a manager that is busy. It takes a service that was never ready for one that has failed,
/// by default after 90 s.
const WAIT_MAX: Duration = Duration::from_secs(30);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_core_that_stands_still_keeps_back_the_notification() {
        let notifier = Notifier::default().with_cores(3);
        let mut seen = [0; 3];
        let beat = |core: usize| {
            notifier.beats[core].fetch_add(1, Relaxed);
        };
        assert!(!notifier.has_moved(&mut seen));
        for stuck in [0, 1, 2] {
            (0..3).for_each(beat);
            assert!(notifier.has_moved(&mut seen));
            (0..3).filter(|core| *core != stuck).for_each(beat);
            assert!(!notifier.has_moved(&mut seen));
        }
    }

    /// The address of a manager is a path or an abstract one (sd_notify(3)).
    #[cfg(target_os = "linux")]
    #[test]
    fn an_abstract_address_is_notified() {
        use std::os::linux::net::SocketAddrExt;
        use std::os::unix::net::{SocketAddr, UnixDatagram};

        let name = format!("corehttp-notify-{}", process::id());
        let manager = UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap();
        send(&NotifyState::Ready, format!("@{name}").as_bytes()).unwrap();
        let mut room = [0; 100];
        let count = manager.recv(&mut room).unwrap();
        assert_eq!(&room[..count], b"READY=1\n");
    }
}
