//! [`Child`]: a server or a client in a process and on a core of its own, so that its time and its memory are its own.

use std::env;
use std::fs;
use std::io::{self, BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::os::unix::process::CommandExt;
use std::process::{self, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use nix::sys::prctl::set_pdeathsig;
use nix::sys::signal::{Signal, kill};
use nix::time::{ClockId, clock_getcpuclockid};
use nix::unistd::Pid;
use tempfile::TempDir;

use crate::allocations::allocations;
use crate::pinned_core::PinnedCore;

/// A process that runs until this is dropped.
pub(crate) struct Child {
    process: process::Child,
    questions: ChildStdin,
    responses: BufReader<ChildStdout>,
    clock: ClockId,
    /// The files that the process reads, which are removed with it.
    folder: Option<TempDir>,
}

impl Child {
    pub(crate) fn spawn(command: &mut Command, pinned_core: PinnedCore) -> io::Result<Child> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = pinned_core.lend(|| command.spawn())?;
        let questions = process.stdin.take().ok_or(io::ErrorKind::BrokenPipe)?;
        let responses = BufReader::new(process.stdout.take().ok_or(io::ErrorKind::BrokenPipe)?);
        let clock = clock_getcpuclockid(Pid::from_raw(process.id() as i32))?;
        Ok(Child { process, questions, responses, clock, folder: None })
    }

    /// With files that it needs until its end.
    pub(crate) fn with_folder(mut self, folder: TempDir) -> Child {
        self.folder = Some(folder);
        self
    }

    /// From now on it has so much time: if it hangs, it is killed, and whatever waits for it ends.
    pub(crate) fn watch(&self, time: Duration) -> Watch {
        Watch::start(self.id(), time)
    }

    /// Says a line, and returns the line that is said in return.
    pub(crate) fn ask(&mut self, question: &str) -> io::Result<String> {
        writeln!(self.questions, "{question}")?;
        self.receive()
    }

    /// The next line it says.
    pub(crate) fn receive(&mut self) -> io::Result<String> {
        let mut line = String::new();
        match self.responses.read_line(&mut line)? {
            0 => Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the process ended")),
            _ => Ok(line.trim_end().to_owned()),
        }
    }

    /// The time its threads spent on a core so far, in the kernel and out of it, whoever wrote it.
    pub(crate) fn cpu_time(&self) -> io::Result<Duration> {
        Ok(self.clock.now()?.into())
    }

    /// The bytes it has resident.
    pub(crate) fn resident(&self) -> io::Result<u64> {
        self.memory("smaps_rollup", "Rss:")
    }

    /// The most bytes it ever had resident.
    pub(crate) fn peak(&self) -> io::Result<u64> {
        self.memory("status", "VmHWM:")
    }

    pub(crate) fn id(&self) -> u32 {
        self.process.id()
    }

    fn memory(&self, file: &str, name: &str) -> io::Result<u64> {
        let text = fs::read_to_string(format!("/proc/{}/{file}", self.id()))?;
        let line = text.lines().find_map(|line| line.strip_prefix(name));
        let kib = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok());
        kib.map(|kib| kib * 1024).ok_or_else(|| io::Error::other(format!("{file} has no {name}")))
    }
}

/// Kills a process when its time is over.
pub(crate) struct Watch {
    time: Duration,
    end: Sender<()>,
    thread: JoinHandle<bool>,
}

impl Watch {
    fn start(process: u32, time: Duration) -> Watch {
        let (end, ended) = mpsc::channel();
        let thread = thread::spawn(move || {
            let is_late = ended.recv_timeout(time) == Err(RecvTimeoutError::Timeout);
            if is_late {
                // It may have ended by itself, but nobody has its number until its parent has asked how.
                let _ = kill(Pid::from_raw(process as i32), Signal::SIGKILL);
            }
            is_late
        });
        Watch { time, end, thread }
    }

    /// The outcome in time. An error after the process was killed has no other cause.
    pub(crate) fn judge<T>(self, outcome: io::Result<T>) -> io::Result<T> {
        drop(self.end);
        match self.thread.join() {
            Ok(false) => outcome,
            _ => Err(io::Error::other(format!("it hung for {:?}", self.time))),
        }
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// In the child: says where it listens, then answers each line with its allocations, and ends with the parent.
pub(crate) fn announce(address: SocketAddr) {
    println!("{address}");
    thread::spawn(|| {
        for _ in io::stdin().lines() {
            println!("{}", allocations());
        }
        process::exit(0);
    });
}

/// A program that reads nothing, and would not see that its parent is gone: the kernel ends it then.
pub(crate) fn bound(program: &str) -> io::Result<Command> {
    let mut command = Command::new(env::current_exe()?);
    command.args(["become", program]);
    Ok(command)
}

/// In the child: makes another program of this process, which ends with the parent. Returns if it cannot.
pub(crate) fn become_program(program: &str, args: &[String]) -> io::Result<()> {
    set_pdeathsig(Signal::SIGKILL)?;
    Err(Command::new(program).args(args).exec())
}

#[cfg(test)]
mod tests {
    use std::process::Command;
    use std::time::Duration;

    use super::Child;
    use crate::pinned_core::PinnedCore;

    #[track_caller]
    fn check(command: &mut Command, time: Duration, expected: Result<&str, &str>) {
        let mut child = Child::spawn(command, PinnedCore::Other).expect("the program is there");
        let watch = child.watch(time);
        let received = watch.judge(child.ask("are you there?")).map_err(|error| error.to_string());
        assert_eq!(received.as_deref().map_err(String::as_str), expected);
    }

    #[test]
    fn who_hangs_is_killed_and_who_answers_is_heard() {
        let (moment, hour) = (Duration::from_millis(20), Duration::from_secs(3_600));
        check(Command::new("sleep").arg("3600"), moment, Err("it hung for 20ms"));
        check(Command::new("sh").args(["-c", "read line"]), hour, Err("the process ended"));
        check(&mut Command::new("cat"), hour, Ok("are you there?"));
    }
}
