//! [`take_turns`]: round by round, so that a machine which slows down slows all of them.

use std::collections::VecDeque;
use std::io;
use std::thread::sleep;
use std::time::{Duration, Instant};

use nix::time::ClockId;

use super::{Round, Row};
use crate::child::Child;

/// No round takes as long, idle connections included.
pub(super) const ROUND_MAX: Duration = Duration::from_secs(60);

/// Has each of them so many rounds, and weighs it when it has rested since its last one: all for as long, and no two at
/// the same time. Every round begins with another, so that nobody always comes after the same one.
pub(crate) fn take_turns<T>(
    all: &mut [T],
    rounds: usize,
    rest: Duration,
    mut round: impl FnMut(&mut T),
    mut weigh: impl FnMut(&mut T),
) {
    let count = all.len();
    let mut resting: VecDeque<(usize, Instant)> = VecDeque::new();
    for turn in 0..rounds {
        for index in (0..count).map(|place| (place + turn) % count) {
            round(&mut all[index]);
            if turn == rounds - 1 {
                resting.push_back((index, Instant::now()));
            }
            while let Some((index, _)) = resting.pop_front_if(|(_, since)| since.elapsed() >= rest) {
                weigh(&mut all[index]);
            }
        }
    }
    for (index, since) in resting {
        sleep(rest.saturating_sub(since.elapsed()));
        weigh(&mut all[index]);
    }
}

/// Has a server one more round, unless it has failed before. One that fails now is gone.
pub(super) fn attempt<S>(
    row: &mut Row,
    server: &mut Option<S>,
    child: impl Fn(&S) -> &Child,
    work: impl FnOnce(&mut S) -> io::Result<Round>,
) {
    let Some(running) = server else { return };
    let watch = child(running).watch(ROUND_MAX);
    match watch.judge(work(running)) {
        Ok(round) => row.rounds.push(round),
        Err(error) => {
            row.failed = Some(error.to_string());
            *server = None;
        }
    }
}

/// The CPU time of this process so far.
pub(super) fn own_time() -> io::Result<Duration> {
    Ok(ClockId::CLOCK_PROCESS_CPUTIME_ID.now()?.into())
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::thread::sleep;
    use std::time::Duration;

    use super::take_turns;

    /// The events of three peers in two rounds of 10 ms.
    fn events(rest: Duration) -> String {
        let said = RefCell::new(String::new());
        let mut all = ["a", "b", "c"];
        let round = |who: &mut &str| {
            sleep(Duration::from_millis(10));
            said.borrow_mut().push_str(who);
        };
        let weigh = |who: &mut &str| said.borrow_mut().push_str(&who.to_uppercase());
        take_turns(&mut all, 2, rest, round, weigh);
        said.into_inner()
    }

    #[test]
    fn each_round_begins_with_another_and_each_is_weighed_once_it_has_rested() {
        assert_eq!(events(Duration::ZERO), "abcbBcCaA");
        assert_eq!(events(Duration::from_millis(5)), "abcbcBaCA");
        assert_eq!(events(Duration::from_millis(300)), "abcbcaBCA");
    }
}
