//! [`Ticker`]: waits between the ticks of a core.

use std::time::Duration;

use tokio::time::sleep;

use self::imp::SystemTimer;

/// Waits between the ticks of a core, with a timer of the operating system where there is one, and else with a tokio
/// timer.
///
/// While a tokio timer is set, each wait for events has a timeout, so the kernel sets a timer and cancels it again.
/// Both take most of a microsecond of each request that finds the core asleep.
#[derive(Default)]
pub(crate) struct Ticker {
    timer: Option<SystemTimer>,
}

impl Ticker {
    /// Makes the ticker of a core, in the core's runtime.
    pub(crate) fn with_system_timer() -> Ticker {
        Ticker { timer: SystemTimer::new().ok() }
    }

    /// Waits for `duration`, which must not be zero.
    pub(super) async fn wait(&mut self, duration: Duration) {
        debug_assert!(!duration.is_zero(), "zero stops a timer");
        if let Some(timer) = &mut self.timer {
            match timer.wait(duration).await {
                Ok(()) => return,
                Err(_) => self.timer = None,
            }
        }
        sleep(duration).await;
    }
}

/// Linux: a timer is a file (timerfd_create(2)), and its expiry is an event like any other.
#[cfg(target_os = "linux")]
mod imp {
    use std::io;
    use std::time::Duration;

    use rustix::io::Errno;
    use rustix::time::{Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec};
    use rustix::time::{timerfd_create, timerfd_settime};
    use tokio::io::AsyncReadExt;
    use tokio::net::unix::pipe::Receiver;

    /// Read as a pipe: once the timer has expired, the number of its expirations can be read.
    pub(super) struct SystemTimer(Receiver);

    impl SystemTimer {
        pub(super) fn new() -> io::Result<SystemTimer> {
            let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
            let timer = timerfd_create(TimerfdClockId::Monotonic, flags)?;
            Receiver::from_owned_fd_unchecked(timer).map(SystemTimer)
        }

        /// Waits for `duration`, which must not be zero, since zero stops the timer.
        pub(super) async fn wait(&mut self, duration: Duration) -> io::Result<()> {
            let never = Timespec::default();
            let once = Timespec::try_from(duration).map_err(|_| Errno::INVAL)?;
            let setting = Itimerspec { it_interval: never, it_value: once };
            // Setting the timer discards an earlier expiration.
            timerfd_settime(&self.0, TimerfdTimerFlags::empty(), &setting)?;
            self.0.read_u64_le().await?;
            Ok(())
        }
    }
}

/// Other systems: there is no such timer.
#[cfg(not(target_os = "linux"))]
mod imp {
    use std::io;
    use std::time::Duration;

    pub(super) enum SystemTimer {}

    impl SystemTimer {
        pub(super) fn new() -> io::Result<SystemTimer> {
            Err(io::ErrorKind::Unsupported.into())
        }

        pub(super) async fn wait(&mut self, _: Duration) -> io::Result<()> {
            match *self {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Waker};
    use std::time::Instant;

    use super::*;

    #[tokio::test]
    async fn every_wait_takes_its_time() {
        let millis = Duration::from_millis;
        for mut ticker in [Ticker::with_system_timer(), Ticker::default()] {
            for pause in [millis(0), millis(70), millis(0)] {
                // A timer that expires between two waits is no tick of the second.
                let mut cx = Context::from_waker(Waker::noop());
                assert!(pin!(ticker.wait(millis(20))).poll(&mut cx).is_pending());
                tokio::time::sleep(pause).await;
                let start = Instant::now();
                ticker.wait(millis(50)).await;
                assert!(start.elapsed() >= millis(50), "{:?}", start.elapsed());
            }
        }
    }
}
