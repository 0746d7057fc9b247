//! [`Notifier`]: reports the state of a server to systemd (sd_notify(3)).

use std::process;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::Duration;

use sd_notify::NotifyState;

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
        notify(NotifyState::MainPid(process::id()));
    }

    /// Reports that all cores listen.
    pub(in crate::server) fn ready(&self) {
        self.is_main_process.store(true, Relaxed);
        notify(NotifyState::Ready);
    }

    /// Sends no further notification of the watchdog, since a successor does.
    pub(in crate::server) fn retire(&self) {
        self.is_main_process.store(false, Relaxed);
    }

    /// Reports that a stop was ordered, if all cores have listened. The manager would stop the whole service for a
    /// successor that fails before that, its predecessor included.
    pub(in crate::server) fn stopping(&self) {
        if self.is_main_process.load(Relaxed) {
            notify(NotifyState::Stopping);
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
                notify(NotifyState::Watchdog);
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

/// A manager that does not listen is no reason to stop.
fn notify(state: NotifyState<'_>) {
    let _ = sd_notify::notify(&[state]);
}

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
}
