//! [`Nginx`]: the system's nginx, one process on the core of the server.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{self, Command};
use std::time::{Duration, Instant};
use std::{fs, io, thread};

use crate::child::{PinnedCore, spawn_on};

/// An nginx that serves until this is dropped.
pub struct Nginx {
    pub address: SocketAddr,
    process: process::Child,
    _folder: tempfile::TempDir,
}

impl Nginx {
    /// Starts it with these directives of a server, and these beside the server. None where it is not installed.
    pub fn start(server: &str, beside: &str) -> Option<Nginx> {
        Nginx::listen("", server, beside)
    }

    /// Starts it as [`Nginx::start`] does, but over TLS.
    pub fn start_secure(server: &str, beside: &str) -> Option<Nginx> {
        Nginx::listen(" ssl", server, beside)
    }

    fn listen(parameters: &str, server: &str, beside: &str) -> Option<Nginx> {
        let folder = tempfile::tempdir().expect("a directory");
        // nginx cannot say which port it has got, so it is given one that was free just now.
        let free = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
        let address = free.expect("a free port is found");
        let settings = CONF.replace("FOLDER", &folder.path().display().to_string());
        let settings = settings.replace("BESIDE", beside).replace("SERVER", server);
        let path = folder.path().join("nginx.conf");
        fs::write(&path, settings.replace("ADDRESS", &format!("{address}{parameters}"))).expect("a file");
        let mut command = Command::new("nginx");
        command.arg("-c").arg(&path).arg("-p").arg(folder.path());
        let process = match spawn_on(PinnedCore::Server, &mut command) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return None,
            started => started.expect("nginx starts"),
        };
        let deadline = Instant::now() + Duration::from_secs(5);
        while TcpStream::connect(address).is_err() {
            assert!(Instant::now() < deadline, "nginx listens soon");
            thread::sleep(Duration::from_millis(10));
        }
        Some(Nginx { address, process, _folder: folder })
    }

    pub fn id(&self) -> u32 {
        self.process.id()
    }

    /// The time that it has spent on a core so far. It has one thread, as long as it lives, and the kernel says what
    /// that has spent; of a process with others it would forget those that have ended.
    pub fn cpu_time(&self) -> Duration {
        let path = format!("/proc/{}/schedstat", self.process.id());
        let told = fs::read_to_string(path).expect("nginx lives");
        let spent = told.split(' ').next().and_then(|first| first.parse().ok());
        Duration::from_nanos(spent.expect("nanoseconds come first"))
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// As Debian has it, but for one process, no log and another place.
const CONF: &str = "
daemon off;
master_process off;
error_log stderr crit;
pid FOLDER/nginx.pid;
events { worker_connections 4096; }
http {
    access_log off;
    sendfile on;
    tcp_nopush on;
    client_body_temp_path FOLDER/body;
    proxy_temp_path FOLDER/proxy;
    fastcgi_temp_path FOLDER/fastcgi;
    uwsgi_temp_path FOLDER/uwsgi;
    scgi_temp_path FOLDER/scgi;
    BESIDE
    server {
        listen ADDRESS;
        SERVER
    }
}
";
