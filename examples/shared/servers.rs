//! The servers of the tests, each in a temporary folder of its own, and ended with its test.

use std::env;
use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{self, Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

/// A server process.
pub struct Server {
    folder: Folder,
    child: Child,
    /// Starts the same server again, with the same address.
    start: fn(&Path) -> Option<Child>,
    pub url: String,
}

impl Server {
    /// A Redis without a port, which keeps nothing on a disk. `None` if it is not installed.
    pub fn redis() -> Option<Server> {
        let start = |folder: &Path| {
            let mut command = Command::new("redis-server");
            command.args(["--port", "0", "--save", "", "--appendonly", "no", "--unixsocket"]);
            command.arg(folder.join("socket")).arg("--dir").arg(folder);
            command.stdout(Stdio::null()).spawn().ok()
        };
        let folder = Folder::new();
        let child = start(&folder.0).or_else(|| skip("redis-server"))?;
        let socket = folder.0.join("socket");
        wait_for(&socket);
        Some(Server { child, start, url: format!("redis+unix://{}", socket.display()), folder })
    }

    /// A PostgreSQL without a port. `None` if it is not installed.
    pub fn postgres() -> Option<Server> {
        let folder = Folder::new();
        let path = folder.0.to_str()?;
        // The user who runs it fills the folder.
        let is_made = Command::new("chmod").args(["777", path]).status().is_ok()
            && as_postgres("initdb")
                .args(["-A", "trust", "-U", "shared", "-N", "-D"])
                .arg(data(path))
                .status()
                .is_ok_and(|status| status.success());
        let start = |folder: &Path| {
            let path = folder.to_str()?;
            let mut command = as_postgres("postgres");
            command.args(["-D", &data(path), "-k", path, "-c", "listen_addresses="]);
            command.spawn().ok()
        };
        let child = Some(()).filter(|()| is_made).and_then(|()| start(&folder.0));
        let child = child.or_else(|| skip("postgres and initdb"))?;
        // Its last line is the state.
        let pid_file = folder.0.join("data/postmaster.pid");
        wait_until(|| fs::read_to_string(&pid_file).is_ok_and(|text| text.contains("ready")));
        Some(Server { child, start, url: format!("host={path} user=shared dbname=postgres"), folder })
    }

    /// Sends a signal, such as `STOP` and `CONT`.
    pub fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args(["-s", name, &pid]).status().unwrap().success());
    }

    /// Kills the process.
    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        fs::remove_file(self.folder.0.join("socket")).unwrap_or_default();
    }

    /// Starts the process again.
    pub fn restart(&mut self) {
        self.child = (self.start)(&self.folder.0).unwrap();
        wait_for(&self.folder.0.join("socket"));
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // By SIGINT PostgreSQL cuts its connections and ends; if it were killed, its workers would be left behind. A process
        // that runs as another user is a child of the one that was started.
        let file = fs::read_to_string(self.folder.0.join("data/postmaster.pid")).unwrap_or_default();
        match file.lines().next() {
            Some(pid) => drop(Command::new("kill").args(["-s", "INT", pid]).status()),
            None => drop(self.child.kill()),
        }
        drop(self.child.wait());
    }
}

/// A temporary folder.
pub struct Folder(pub PathBuf);

impl Folder {
    pub fn new() -> Folder {
        static NUMBER: AtomicUsize = AtomicUsize::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = env::temp_dir().join(format!("corehttp-shared-{}-{number}", process::id()));
        fs::create_dir_all(&path).unwrap();
        Folder(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        drop(fs::remove_dir_all(&self.0));
    }
}

/// A server that sends `answer` to each connection, again and again, whatever it has received. Returns its URL. Its threads
/// end with the tests.
pub fn nonsense(answer: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("redis://{}", listener.local_addr().unwrap());
    thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            thread::spawn(move || {
                let mut received = [0; 1024];
                while stream.read(&mut received).is_ok_and(|len| len > 0) {
                    if stream.write_all(answer.as_bytes()).is_err() {
                        break;
                    }
                }
            });
        }
    });
    url
}

fn data(folder: &str) -> String {
    format!("{folder}/data")
}

/// PostgreSQL does not run as root, but as the user that is installed with it.
fn as_postgres(program: &str) -> Command {
    let is_root = Command::new("id").arg("-u").output().is_ok_and(|id| id.stdout == b"0\n");
    let run_as: &[&str] = if is_root { &["runuser", "-u", "postgres", "--"] } else { &["env"] };
    let mut command = Command::new(run_as[0]);
    command.args(&run_as[1..]).arg(program);
    command.current_dir("/").stdout(Stdio::null()).stderr(Stdio::null());
    command
}

fn skip<T>(programs: &str) -> Option<T> {
    eprintln!("skipped: {programs} cannot be started");
    None
}

/// Waits until a server accepts at `socket`, which is there a moment earlier.
fn wait_for(socket: &Path) {
    wait_until(|| UnixStream::connect(socket).is_ok());
}

fn wait_until(is_so: impl Fn() -> bool) {
    for _ in 0..500 {
        if is_so() {
            return;
        }
        thread::sleep(Duration::from_millis(20));
    }
    panic!("a server does not start");
}
