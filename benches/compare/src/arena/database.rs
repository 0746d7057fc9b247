//! [`Database`]: a PostgreSQL server of its own, in a folder of its own, which ends with this.

use std::fs::{self, File};
use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, User, geteuid};
use tempfile::TempDir;

use super::dataset::Dataset;
use crate::child::bound;
use crate::peer::free_address;
use crate::pinned_core::PinnedCore;

pub(crate) struct Database {
    server: Child,
    address: SocketAddr,
    _folder: TempDir,
}

impl Database {
    /// Starts a server on the core of the load, and fills it.
    ///
    /// # Errors
    ///
    /// Says what is missing.
    pub(crate) fn start() -> Result<Database, String> {
        Database::try_start().map_err(|error| format!("PostgreSQL: {error}"))
    }

    fn try_start() -> io::Result<Database> {
        let (folder, user) = (tempfile::tempdir()?, user()?);
        let data = folder.path().join("data");
        fs::create_dir(&data)?;
        if let Some(user) = &user {
            for path in [folder.path(), &data] {
                chown(path, Some(user.uid.as_raw()), Some(user.gid.as_raw()))?;
            }
        }
        let initdb = program("initdb")?;
        let made =
            run_as(&user, Command::new(initdb).args(["-A", "trust", "-U", "arena", "-N", "-D"]).arg(&data));
        succeed("initdb", made)?;

        let address = free_address()?;
        let mut command = bound(&program("postgres")?.to_string_lossy())?;
        command.arg("-D").arg(&data).args(["-h", "127.0.0.1", "-p", &address.port().to_string(), "-k", ""]);
        for setting in SETTINGS {
            command.args(["-c", setting]);
        }
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(File::create(folder.path().join("log"))?);
        if let Some(user) = &user {
            command.uid(user.uid.as_raw()).gid(user.gid.as_raw());
        }
        let server = PinnedCore::Other.lend(|| command.spawn())?;
        let database = Database { server, address, _folder: folder };
        database.fill()?;
        Ok(database)
    }

    pub(crate) fn url(&self) -> String {
        format!("postgres://arena@{}/postgres", self.address)
    }

    fn fill(&self) -> io::Result<()> {
        let mut tries = 0;
        while let Err(error) = succeed("psql", self.psql().args(["-c", "SELECT 1"]).output()) {
            tries += 1;
            if tries == TRIES_MAX {
                return Err(error);
            }
            sleep(PAUSE);
        }
        let file = tempfile::NamedTempFile::new()?;
        fs::write(&file, Dataset::sql())?;
        succeed("psql", self.psql().arg("-f").arg(file.path()).output())
    }

    fn psql(&self) -> Command {
        let mut command = Command::new("psql");
        command.args(["-q", "-v", "ON_ERROR_STOP=1", &self.url()]);
        command
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        // A fast shutdown: it disconnects all.
        let _ = kill(Pid::from_raw(self.server.id() as i32), Signal::SIGINT);
        let _ = self.server.wait();
    }
}

/// The database is not measured. It need not survive a crash, and nothing in it runs by itself.
const SETTINGS: [&str; 7] = [
    "autovacuum=off",
    "fsync=off",
    "full_page_writes=off",
    "max_connections=500",
    "max_wal_size=4GB",
    "shared_buffers=256MB",
    "synchronous_commit=off",
];
const TRIES_MAX: u32 = 100;
const PAUSE: Duration = Duration::from_millis(100);

/// The user to run as: PostgreSQL does not run as root.
fn user() -> io::Result<Option<User>> {
    if !geteuid().is_root() {
        return Ok(None);
    }
    let user = User::from_name("postgres")?;
    user.map(Some).ok_or_else(|| io::Error::other("it does not run as root, and there is no user postgres"))
}

fn run_as(user: &Option<User>, command: &mut Command) -> io::Result<std::process::Output> {
    if let Some(user) = user {
        command.uid(user.uid.as_raw()).gid(user.gid.as_raw());
    }
    command.current_dir("/").output()
}

fn succeed(name: &str, output: io::Result<std::process::Output>) -> io::Result<()> {
    let output = output.map_err(|error| io::Error::new(error.kind(), format!("{name}: {error}")))?;
    let complaint = || format!("{name}: {}", String::from_utf8_lossy(&output.stderr).trim());
    if output.status.success() { Ok(()) } else { Err(io::Error::other(complaint())) }
}

/// A program of the server, which Debian does not have on the path.
fn program(name: &str) -> io::Result<PathBuf> {
    let paths = std::env::var_os("PATH").unwrap_or_default();
    let on_path = std::env::split_paths(&paths).map(|folder| folder.join(name)).find(|path| path.exists());
    let of_debian = || {
        let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
        versions
            .map(|version| version.path().join("bin").join(name))
            .find(|path: &PathBuf| Path::exists(path))
    };
    on_path.or_else(of_debian).ok_or_else(|| io::Error::other(format!("{name} is not installed")))
}
