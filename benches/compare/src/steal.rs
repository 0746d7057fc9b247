//! [`Steal`]: the share of the cores' time that the machine below this one gave to somebody else.

use std::fs;

/// Counts from a moment on.
pub(crate) struct Steal {
    before: Option<Ticks>,
}

/// Hundredths of a second, of all cores together.
#[derive(Debug, PartialEq, Eq)]
struct Ticks {
    stolen: u64,
    all: u64,
}

impl Steal {
    pub(crate) fn watch() -> Steal {
        Steal { before: now() }
    }

    /// Of all time since then; none where the kernel does not say.
    pub(crate) fn share(&self) -> Option<f64> {
        let (before, after) = (self.before.as_ref()?, now()?);
        let all = after.all.checked_sub(before.all).filter(|all| *all > 0)?;
        Some(after.stolen.saturating_sub(before.stolen) as f64 / all as f64)
    }
}

fn now() -> Option<Ticks> {
    ticks(&fs::read_to_string("/proc/stat").ok()?)
}

/// Of `/proc/stat`: user, nice, system, idle, iowait, irq, softirq and steal. The columns after them are within `user`.
fn ticks(stat: &str) -> Option<Ticks> {
    let columns = stat.lines().next()?.strip_prefix("cpu ")?.split_whitespace().take(COLUMNS);
    let columns: Vec<u64> = columns.map(str::parse).collect::<Result<_, _>>().ok()?;
    let stolen = *columns.get(COLUMNS - 1)?;
    Some(Ticks { stolen, all: columns.iter().sum() })
}

const COLUMNS: usize = 8;

#[cfg(test)]
mod tests {
    use super::{Ticks, ticks};

    #[track_caller]
    fn check(stat: &str, expected: Option<(u64, u64)>) {
        assert_eq!(ticks(stat), expected.map(|(stolen, all)| Ticks { stolen, all }), "{stat}");
    }

    #[test]
    fn what_is_stolen_is_the_eighth_of_all() {
        check("cpu  10 0 20 60 5 0 2 3 7 0\ncpu0 1 1 1 1 1 1 1 1 1 1\n", Some((3, 100)));
        check("cpu  10 0 20 60 5 0 2", None);
        check("cpu  10 0 20 60 5 0 2 x", None);
        check("cpu0 10 0 20 60 5 0 2 3", None);
        check("", None);
    }
}
