//! [`Child`]: a server in a process and on a core of its own, so that its time and its memory
//! are its own. A benchmark starts itself again, with the server's name in the environment.

use std::io::{self, BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{self, ChildStdout, Command, Stdio};
use std::sync::OnceLock;
use std::time::Duration;
use std::{env, fs, thread};

use core_affinity::CoreId;
use cpu_time::ProcessTime;

/// A server that runs until this is dropped.
pub struct Child {
    pub address: SocketAddr,
    process: process::Child,
    responses: BufReader<ChildStdout>,
}

impl Child {
    /// Starts this program again as the server of that name.
    pub fn spawn(server: &str) -> Child {
        Child::spawn_with(server, &[])
    }

    /// The same, with these variables in its environment.
    pub fn spawn_with(server: &str, environment: &[(&str, String)]) -> Child {
        let program = env::current_exe().expect("a benchmark is a file");
        Child::start(
            Command::new(program).env(SERVER, server).envs(environment.iter().cloned()),
            Command::spawn,
        )
    }

    /// Starts another program, which does what [`announce`] does, but need not answer [`Child::cpu_time`].
    pub fn spawn_program(program: &Path, environment: &[(&str, String)]) -> Child {
        Child::start(Command::new(program).envs(environment.iter().cloned()), Command::spawn)
    }

    /// Starts a program in this way, such as [`spawn_on`] a core.
    pub fn start(
        command: &mut Command,
        spawn: impl FnOnce(&mut Command) -> io::Result<process::Child>,
    ) -> Child {
        let mut process =
            spawn(command.stdin(Stdio::piped()).stdout(Stdio::piped())).expect("the program starts");
        let mut responses = BufReader::new(process.stdout.take().expect("stdout is a pipe"));
        let address = line(&mut responses).parse().expect("a server says its address first");
        Child { address, process, responses }
    }

    /// The time its threads spent on a core so far, in the kernel and out of it.
    pub fn cpu_time(&mut self) -> Duration {
        let mut questions = self.process.stdin.as_ref().expect("stdin is a pipe");
        writeln!(questions, "how long?").expect("the server listens");
        Duration::from_nanos(line(&mut self.responses).parse().expect("nanoseconds"))
    }

    /// The bytes of memory it holds.
    pub fn resident(&self) -> u64 {
        resident(self.process.id())
    }

    pub fn id(&self) -> u32 {
        self.process.id()
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // Closes its stdin first, and then it ends by itself: only so it writes a profile, if it was built to.
        let _ = self.process.wait();
    }
}

/// The bytes of memory that this process holds.
pub fn resident(id: u32) -> u64 {
    let rollup = fs::read_to_string(format!("/proc/{id}/smaps_rollup")).expect("the server lives");
    let line = rollup.lines().find_map(|line| line.strip_prefix("Rss:")).expect("a line of that name");
    let kib: u64 = line.trim().trim_end_matches(" kB").parse().expect("a number of KiB");
    kib * 1024
}

/// Starts a program on a core of its own. A core is inherited, and a thread that has taken one cannot see that there are
/// others: so a new thread takes it.
pub fn spawn_on(pinned_core: PinnedCore, command: &mut Command) -> io::Result<process::Child> {
    let on_core = || {
        pin(pinned_core);
        command.spawn()
    };
    thread::scope(|scope| scope.spawn(on_core).join()).expect("a thread that starts a program")
}

/// Builds a program of this file or folder of `support`, which is written in Go, and returns it. `None` without Go, or
/// what it depends on.
pub fn build_go(source: &str, program: PathBuf) -> Option<PathBuf> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("support").join(source);
    // A folder is a module of its own, and what it depends on is that of its folder.
    let folder = if source.is_dir() { source.as_path() } else { Path::new(".") };
    let built =
        Command::new("go").args(["build", "-o"]).args([&program, &source]).current_dir(folder).status();
    built.is_ok_and(|status| status.success()).then_some(program)
}

/// The server this process was started to be, if it was.
pub fn server() -> Option<String> {
    env::var(SERVER).ok()
}

/// Says where the server listens, then answers [`Child::cpu_time`], and ends with the parent.
pub fn announce(address: SocketAddr) {
    println!("{address}");
    thread::spawn(|| {
        for _ in io::stdin().lines() {
            println!("{}", ProcessTime::now().as_duration().as_nanos());
        }
        process::exit(0);
    });
}

/// Keeps this process, and those it starts from here on, on one core, the server's or the load's; `false` where there is
/// but one.
pub fn pin(pinned_core: PinnedCore) -> bool {
    // A process that is pinned already may use one core only.
    static CORES: OnceLock<usize> = OnceLock::new();
    let cores = *CORES.get_or_init(|| thread::available_parallelism().map_or(2, usize::from));
    let id = match pinned_core {
        PinnedCore::Server => 0,
        PinnedCore::Load => 1,
    };
    cores > 1 && core_affinity::set_for_current(CoreId { id })
}

/// Who sits on which core.
#[derive(Clone, Copy)]
pub enum PinnedCore {
    Server,
    Load,
}

/// Is this `cargo bench`, on a system whose `/proc` tells what the benchmark asks?
pub fn wanted() -> bool {
    if !cfg!(target_os = "linux") {
        println!("skipped: this benchmark reads /proc and pins cores as Linux does");
    }
    cfg!(target_os = "linux") && env::args().any(|arg| arg == "--bench")
}

/// The names that the command line asks for: all of them, if it has none.
pub fn chosen<const N: usize>(names: [&'static str; N]) -> Vec<&'static str> {
    let wanted: Vec<String> = env::args().skip(1).filter(|arg| !arg.starts_with('-')).collect();
    names.into_iter().filter(|name| wanted.is_empty() || wanted.iter().any(|one| one == name)).collect()
}

const SERVER: &str = "COREHTTP_BENCH_SERVER";

fn line(from: &mut impl BufRead) -> String {
    let mut line = String::new();
    from.read_line(&mut line).expect("the server answers");
    line.trim().to_owned()
}
