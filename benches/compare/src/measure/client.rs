//! A workload for clients: they are what is measured, and the limit answers them.

use std::io;
use std::net::SocketAddr;
use std::process::Command;
use std::time::{Duration, Instant};

use super::rounds::{ROUND_MAX, take_turns};
use super::{Calls, Measured, Round, Row};
use crate::application::Exchange;
use crate::asker::{Asker, Job, Order, Report};
use crate::child::Child;
use crate::options::Pace;
use crate::peer::{Foreign, Peer};
use crate::pinned_core::PinnedCore;
use crate::progress::Progress;
use crate::syscalls;
use crate::workload::ClientWorkload;

/// Has all clients do it in turns.
pub(super) fn measure(
    workload: &'static ClientWorkload,
    askers: &[Asker],
    foreign: &Foreign,
    pace: Pace,
    progress: &mut Progress,
) -> io::Result<Measured> {
    let (server, address) = foreign.spawn(Peer::Limit, Exchange::Plain, PinnedCore::Other)?;
    let start = |asker: &Asker| Run::start(*asker, workload.job, address, foreign);
    let mut runs: Vec<Run> = askers.iter().map(start).collect();
    let round = |run: &mut Run| {
        progress.step(workload.name, run.row.peer);
        run.round(&server, workload, pace);
    };
    take_turns(&mut runs, pace.rounds, pace.settle, round, Run::weigh);
    for run in &mut runs {
        run.trace(pace);
    }
    let rows = runs.into_iter().map(|run| run.row).collect();
    Ok(Measured { name: workload.name, title: workload.title, rows, ..Measured::default() })
}

/// One client in one workload. Once something went wrong, its process is gone.
struct Run {
    row: Row,
    child: Option<Child>,
}

impl Run {
    fn start(asker: Asker, job: Job, address: SocketAddr, foreign: &Foreign) -> Run {
        let mut run = Run { row: Row::new(asker.name()), child: None };
        match spawn(asker, job, address, foreign) {
            Ok(child) => run.child = Some(child),
            Err(error) => run.row.failed = Some(error.to_string()),
        }
        run
    }

    fn round(&mut self, server: &Child, workload: &ClientWorkload, pace: Pace) {
        let Some(child) = &mut self.child else { return };
        let watch = child.watch(ROUND_MAX);
        match watch.judge(round(child, server, workload, pace)) {
            Ok(round) => self.row.rounds.push(round),
            Err(error) => {
                self.row.failed = Some(error.to_string());
                self.child = None;
            }
        }
    }

    fn weigh(&mut self) {
        let Some(child) = &self.child else { return };
        self.row.peak = child.peak().ok();
        self.row.settled = child.resident().ok();
    }

    fn trace(&mut self, pace: Pace) {
        let Some(child) = &mut self.child else { return };
        let (watch, id, mut asked) = (child.watch(ROUND_MAX), child.id(), Ok((0, 0)));
        let rows = syscalls::count(id, || asked = ask(child, pace.trace));
        if let (Some(rows), Ok((exchanges, _))) = (rows, watch.judge(asked)) {
            self.row.calls = Some(Calls::from_rows(&rows, exchanges));
        }
    }
}

fn spawn(asker: Asker, job: Job, address: SocketAddr, foreign: &Foreign) -> io::Result<Child> {
    let mut command = match asker {
        Asker::Fasthttp => foreign.go_command()?,
        _ => Command::new(std::env::current_exe()?),
    };
    command.arg("ask");
    if asker != Asker::Fasthttp {
        command.arg(asker.name());
    }
    command.args([job.task.name(), &job.in_flight.to_string(), &address.to_string()]);
    Child::spawn(&mut command, PinnedCore::Measured)
}

fn round(child: &mut Child, server: &Child, workload: &ClientWorkload, pace: Pace) -> io::Result<Round> {
    ask(child, pace.warm_up)?;
    let (cpu, other, started) = (child.cpu_time()?, server.cpu_time()?, Instant::now());
    let (exchanges, allocations) = ask(child, pace.round)?;
    let (wall, cpu, other) = (started.elapsed(), child.cpu_time()? - cpu, server.cpu_time()? - other);
    let time = pace.offer(workload.offered.into());
    let latency = match order(child, Order::Open(time, workload.offered))? {
        Report::Open(latency) => latency,
        report => return Err(io::Error::other(format!("it says {report:?}"))),
    };
    let [wall, cpu, other_cpu] = [wall, cpu, other].map(|time| time.as_secs_f64());
    Ok(Round {
        exchanges,
        wall,
        cpu,
        other_cpu,
        allocations: Some(allocations),
        latency: Some(latency),
        drift: None,
    })
}

/// Has the client ask for so long: how many exchanges it had, and how many allocations they took. A figure per exchange
/// needs one, and a busy machine may have had no core for it in so short a time.
fn ask(child: &mut Child, time: Duration) -> io::Result<(u64, u64)> {
    let mut allocated = 0;
    for _ in 0..ASKED_MAX {
        match order(child, Order::Closed(time))? {
            Report::Closed { exchanges: 0, allocations } => allocated += allocations,
            Report::Closed { exchanges, allocations } => return Ok((exchanges, allocated + allocations)),
            report => return Err(io::Error::other(format!("it says {report:?}"))),
        }
    }
    Err(io::Error::other("it had no exchange in time"))
}

/// How often a client is asked before it has had an exchange.
const ASKED_MAX: usize = 10;

fn order(child: &mut Child, order: Order) -> io::Result<Report> {
    serde_json::from_str(&child.ask(&order.line())?).map_err(io::Error::other)
}

#[cfg(test)]
mod tests {
    use std::process::Command;
    use std::time::Duration;

    use super::{ASKED_MAX, ask};
    use crate::child::Child;
    use crate::pinned_core::PinnedCore;

    #[test]
    fn who_had_no_turn_in_time_is_asked_once_more() {
        const SAYS: &str = r#"
            for exchanges in "$@"; do
                read line
                echo "{\"closed\": {\"exchanges\": $exchanges, \"allocations\": 2}}"
            done
        "#;
        let in_vain = ["0"; ASKED_MAX];
        for (turns, expected) in [(&["0", "0", "3"][..], Some((3, 6))), (&in_vain, None)] {
            let shell =
                Child::spawn(Command::new("sh").args(["-c", SAYS, "sh"]).args(turns), PinnedCore::Other);
            assert_eq!(ask(&mut shell.expect("a shell"), Duration::ZERO).ok(), expected, "{turns:?}");
        }
    }
}
