//! [`Progress`]: a line that says what runs and how long it still takes.

use std::io::{self, IsTerminal, Write};
use std::time::{Duration, Instant};

pub(crate) struct Progress {
    started: Instant,
    done: usize,
    all: usize,
    /// The workload of the line before, where lines stay.
    last: String,
}

impl Progress {
    /// Of so many steps, which take about the same time, and so much all together.
    pub(crate) fn new(all: usize, time: Duration) -> Progress {
        eprintln!("this takes about {}", minutes(time));
        Progress { started: Instant::now(), done: 0, all, last: String::new() }
    }

    /// Says that a step begins.
    pub(crate) fn step(&mut self, workload: &str, who: &str) {
        let left = self.left().map_or_else(String::new, |left| format!(", {} left", minutes(left)));
        let line = format!("[{}/{}{left}] {workload}: {who}", self.done, self.all);
        let mut error = io::stderr();
        if error.is_terminal() {
            // Back to the start of the line, and clear it.
            let _ = write!(error, "\r\x1b[2K{line}");
        } else if self.last != workload {
            let _ = writeln!(error, "[{}/{}{left}] {workload}", self.done, self.all);
            self.last = workload.to_owned();
        }
        self.done = (self.done + 1).min(self.all);
    }

    /// Says how long all of it took.
    pub(crate) fn end(&self) {
        let start = if io::stderr().is_terminal() { "\r\x1b[2K" } else { "" };
        eprintln!("{start}done after {}", minutes(self.started.elapsed()));
    }

    fn left(&self) -> Option<Duration> {
        let elapsed = self.started.elapsed();
        (self.done > 0).then(|| elapsed.mul_f64((self.all - self.done) as f64 / self.done as f64))
    }
}

fn minutes(time: Duration) -> String {
    let seconds = time.as_secs();
    format!("{}:{:02} min", seconds / 60, seconds % 60)
}
