//! [`Process`]: a server, the balancer or Redis.

use std::env;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{self, Child, Command};
use std::time::Duration;

use corehttp::{Error, Result};
use tokio::time::sleep;

/// A process that is killed when the example ends. Its log is a file.
pub struct Process(Child);

impl Process {
    /// A server of the fleet.
    pub fn member(folder: &Folder, port: u16, version: usize) -> Result<Process> {
        let mut command = Command::new(env::current_exe()?);
        command.args(["serve", &port.to_string(), &format!("version {version}"), &folder.redis_url()]);
        Process::spawn(command, &folder.0.join(format!("{port}.log")))
    }

    /// HAProxy, which has the first port, and sends to the others.
    pub fn balancer(folder: &Folder, [front, one, two, three]: [u16; 4]) -> Result<Process> {
        let path = folder.0.join("haproxy.cfg");
        fs::write(&path, include_str!("haproxy.cfg"))?;
        let mut command = Command::new("haproxy");
        command.arg("-db").arg("-f").arg(&path);
        for (name, port) in [("FRONT", front), ("1", one), ("2", two), ("3", three)] {
            command.env(format!("FLEET_{name}"), port.to_string());
        }
        Process::spawn(command, &folder.0.join("haproxy.log"))
    }

    /// A Redis without a port, which keeps nothing on a disk.
    pub fn redis(folder: &Folder) -> Result<Process> {
        let mut command = Command::new("redis-server");
        command.args(["--port", "0", "--save", "", "--unixsocket"]).arg(folder.redis_socket());
        Process::spawn(command, &folder.0.join("redis.log"))
    }

    fn spawn(mut command: Command, log: &Path) -> Result<Process> {
        let log = File::options().create(true).append(true).open(log)?;
        let child = command.stdout(log.try_clone()?).stderr(log).spawn();
        let name = command.get_program().to_string_lossy();
        child.map(Process).map_err(|error| Error::other(format!("{name} does not start: {error}")))
    }

    /// Sends a signal, such as `TERM`.
    pub fn signal(&self, name: &str) -> Result {
        Command::new("kill").args(["-s", name, &self.0.id().to_string()]).status()?;
        Ok(())
    }

    /// Sends SIGTERM, and waits until the process has finished its requests.
    pub async fn stop(&mut self) -> Result {
        self.signal("TERM")?;
        while self.0.try_wait()?.is_none() {
            sleep(Duration::from_millis(20)).await;
        }
        Ok(())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The folder of the logs, which stays.
pub struct Folder(pub PathBuf);

impl Folder {
    pub fn new() -> Result<Folder> {
        let path = env::temp_dir().join(format!("corehttp-fleet-{}", process::id()));
        fs::create_dir_all(&path)?;
        Ok(Folder(path))
    }

    /// The lines that HAProxy has written so far.
    pub fn balancer_log(&self) -> Result<String> {
        Ok(fs::read_to_string(self.0.join("haproxy.log"))?)
    }

    pub fn redis_socket(&self) -> PathBuf {
        self.0.join("redis.socket")
    }

    fn redis_url(&self) -> String {
        format!("redis+unix://{}", self.redis_socket().display())
    }
}
