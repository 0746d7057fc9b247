//! [`Child`]: a server or a client in a process and on a core of its own, so that its time and its memory are its own.

use std::io::{self, BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::process::{self, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;
use std::{fs, thread};

use nix::time::{ClockId, clock_getcpuclockid};
use nix::unistd::Pid;

use crate::allocations::allocations;
use crate::seat::Seat;

/// A process that runs until this is dropped.
pub(crate) struct Child {
    process: process::Child,
    questions: ChildStdin,
    answers: BufReader<ChildStdout>,
    clock: ClockId,
}

impl Child {
    pub(crate) fn spawn(command: &mut Command, seat: Seat) -> io::Result<Child> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = seat.lend(|| command.spawn())?;
        let questions = process.stdin.take().ok_or(io::ErrorKind::BrokenPipe)?;
        let answers = BufReader::new(process.stdout.take().ok_or(io::ErrorKind::BrokenPipe)?);
        let clock = clock_getcpuclockid(Pid::from_raw(process.id() as i32))?;
        Ok(Child { process, questions, answers, clock })
    }

    /// Says a line, and returns the line that is said in return.
    pub(crate) fn ask(&mut self, question: &str) -> io::Result<String> {
        writeln!(self.questions, "{question}")?;
        self.hear()
    }

    /// The next line it says.
    pub(crate) fn hear(&mut self) -> io::Result<String> {
        let mut line = String::new();
        match self.answers.read_line(&mut line)? {
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
