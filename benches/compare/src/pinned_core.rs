//! [`PinnedCore`]: which core a process runs on.

use nix::sched::{CpuSet, sched_setaffinity};
use nix::unistd::Pid;

/// The side that is measured, and the side that is not.
#[derive(Clone, Copy)]
pub(crate) enum PinnedCore {
    Measured,
    Other,
}

/// The remark where no process can be pinned to a core.
pub(crate) const UNPINNED: &str =
    "one core only, or no right to choose one: the load disturbs whom it measures";

impl PinnedCore {
    /// Runs `work` with this thread on the pinned_core's core, then takes the load's: what `work` starts stays where it
    /// is, for a core is inherited. So Go and nginx need not be asked.
    pub(crate) fn lend<T>(self, work: impl FnOnce() -> T) -> T {
        self.take();
        let made = work();
        PinnedCore::Other.take();
        made
    }

    /// Moves this thread to the pinned_core's core; `false` where there is but one, or no right to choose.
    pub(crate) fn take(self) -> bool {
        let core = match self {
            PinnedCore::Measured => 0,
            PinnedCore::Other => 1,
        };
        let mut cores = CpuSet::new();
        cores.set(core).is_ok() && sched_setaffinity(Pid::from_raw(0), &cores).is_ok()
    }
}
