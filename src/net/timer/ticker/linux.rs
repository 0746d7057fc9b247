//! Linux: a timer is a file (timerfd_create(2)), and its expiry is an event like any other.

use std::io;
use std::time::Duration;

use rustix::io::Errno;
use rustix::time::{Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec};
use rustix::time::{timerfd_create, timerfd_settime};
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe::Receiver;

/// Read as a pipe is: when it has expired there is something to read, and that is how often.
pub(super) struct SystemTimer(Receiver);

impl SystemTimer {
    pub(super) fn new() -> io::Result<SystemTimer> {
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let timer = timerfd_create(TimerfdClockId::Monotonic, flags)?;
        Receiver::from_owned_fd_unchecked(timer).map(SystemTimer)
    }

    /// Waits for `duration`, which must not be zero: that would stop the timer.
    pub(super) async fn wait(&mut self, duration: Duration) -> io::Result<()> {
        let never = Timespec::default();
        let once = Timespec::try_from(duration).map_err(|_| Errno::INVAL)?;
        let setting = Itimerspec { it_interval: never, it_value: once };
        // If it has expired already, that is forgotten.
        timerfd_settime(&self.0, TimerfdTimerFlags::empty(), &setting)?;
        self.0.read_u64_le().await?;
        Ok(())
    }
}
