//! [`Foreign`]: the peers and tools that are no Rust, where there is what they need.

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use super::{PAUSE, Peer, h2o, nginx};
use crate::application::Exchange;
use crate::asker::Asker;
use crate::child::Child;
use crate::pinned_core::PinnedCore;
use crate::syscalls;

/// The programs that are installed on this machine.
pub(crate) struct Foreign {
    /// The program with Go's peers, and Go's version.
    pub(crate) go: Result<(PathBuf, String), String>,
    /// nginx's version.
    pub(crate) nginx: Result<String, String>,
    pub(crate) h2o: Result<String, String>,
    /// The version of what counts system calls, if it may.
    pub(crate) strace: Result<String, String>,
}

impl Foreign {
    /// Looks for what is there, and builds the Go program.
    pub(crate) fn find() -> Foreign {
        Foreign {
            go: build_go(),
            nginx: said(Command::new("nginx").arg("-v"), "nginx version: nginx/"),
            h2o: said(Command::new("h2o").arg("-v"), "h2o version "),
            strace: find_strace(),
        }
    }

    /// Why a peer cannot be measured here.
    pub(crate) fn is_missing(&self, peer: Peer) -> Option<&str> {
        let missing = match peer {
            Peer::Fasthttp | Peer::NetHttp => self.go.as_ref().err(),
            Peer::Nginx => self.nginx.as_ref().err(),
            Peer::H2o => self.h2o.as_ref().err(),
            _ => None,
        };
        missing.map(String::as_str)
    }

    /// Can a client be measured here?
    pub(crate) fn can_ask(&self, asker: Asker) -> bool {
        asker != Asker::Fasthttp || self.go.is_ok()
    }

    /// Starts a peer to answer one kind of exchange, and says where it listens.
    pub(crate) fn spawn(
        &self,
        peer: Peer,
        exchange: Exchange,
        pinned_core: PinnedCore,
    ) -> io::Result<(Child, SocketAddr)> {
        let mut command = match peer {
            Peer::Nginx => return nginx::spawn(pinned_core),
            Peer::H2o => return h2o::spawn(pinned_core),
            Peer::Fasthttp | Peer::NetHttp => {
                let mut command = self.go_command()?;
                // fasthttp is told by its settings, not by its handler, that bodies are read as they come.
                let reads = if exchange == Exchange::Upload { "stream" } else { "buffer" };
                command.args([peer.name(), reads]);
                command
            }
            _ => {
                let mut command = Command::new(std::env::current_exe()?);
                command.args(["serve", peer.name()]);
                command
            }
        };
        let mut child = Child::spawn(&mut command, pinned_core)?;
        let address = child.watch(START_MAX).judge(child.receive())?.parse().map_err(io::Error::other)?;
        Ok((child, address))
    }

    /// The program with Go's peers.
    pub(crate) fn go_command(&self) -> io::Result<Command> {
        match &self.go {
            Ok((program, _)) => Ok(Command::new(program)),
            Err(missing) => Err(io::Error::other(missing.clone())),
        }
    }
}

/// No program takes as long to listen.
const START_MAX: Duration = Duration::from_secs(10);

fn build_go() -> Result<(PathBuf, String), String> {
    let version = said(Command::new("go").arg("version"), "go version ")?;
    let program = std::env::current_exe().map_err(|error| error.to_string())?.with_file_name("compare-go");
    let mut command = Command::new("go");
    command.args(["build", "-o"]).arg(&program).arg(".").current_dir(Path::new(FOLDER));
    let built = command.output().map_err(|error| error.to_string())?;
    let complaint = || format!("go build: {}", String::from_utf8_lossy(&built.stderr).trim());
    if built.status.success() { Ok((program, version)) } else { Err(complaint()) }
}

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/go");

/// strace's version. Many systems let only root watch a process that is there already.
fn find_strace() -> Result<String, String> {
    let version = said(Command::new("strace").arg("-V"), "strace -- version ")?;
    let busy = Command::new("yes").stdout(Stdio::null()).spawn();
    let mut busy = busy.map_err(|error| format!("yes: {error}"))?;
    let counted = syscalls::count(busy.id(), || sleep(PAUSE));
    let _ = busy.kill().and_then(|()| busy.wait());
    counted.map(|_| version).ok_or_else(|| "strace may not watch other processes".to_owned())
}

/// The version that a program says on either output, after `start`.
fn said(command: &mut Command, start: &str) -> Result<String, String> {
    let program = command.get_program().to_owned();
    let output = command.output().map_err(|_| format!("{} is not installed", program.display()))?;
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text);
    let line = text.lines().next().unwrap_or_default();
    if !output.status.success() {
        return Err(format!("{} does not work: {line}", program.display()));
    }
    Ok(line.trim_start_matches(start).to_owned())
}
