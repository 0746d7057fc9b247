//! [`Ticker`]: waits between the ticks of a core.
//!
//! There is a module for each operating system, with the same timer.

#[cfg(not(target_os = "linux"))]
mod elsewhere;
#[cfg(target_os = "linux")]
mod linux;

use std::time::Duration;

use tokio::time::sleep;

#[cfg(not(target_os = "linux"))]
use self::elsewhere::SystemTimer;
#[cfg(target_os = "linux")]
use self::linux::SystemTimer;

/// Waits between the ticks of a core, without a timer of tokio's if the operating system has one to spare.
///
/// While tokio has a timer, each wait for events has a time limit, so the kernel sets a timer and cancels it again. That
/// takes most of a microsecond of each request that finds the core asleep.
#[derive(Default)]
pub(crate) struct Ticker {
    timer: Option<SystemTimer>,
}

impl Ticker {
    /// To be called in the runtime of the core.
    pub(crate) fn of_system() -> Ticker {
        Ticker { timer: SystemTimer::new().ok() }
    }

    /// Waits for `duration`, which must not be zero.
    pub(super) async fn wait(&mut self, duration: Duration) {
        if let Some(timer) = &mut self.timer {
            match timer.wait(duration).await {
                Ok(()) => return,
                Err(_) => self.timer = None,
            }
        }
        sleep(duration).await;
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
        for mut ticker in [Ticker::of_system(), Ticker::default()] {
            for pause in [millis(0), millis(70), millis(0)] {
                // What expires while nobody waits is no tick of the next wait.
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
