//! [`Zone`]: records that dnsmasq serves, and that change.

use std::env;
use std::fs;
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{self, Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Records of names below `internal`, each valid for one second. They are served until this is dropped.
pub struct Zone {
    dnsmasq: Child,
    port: u16,
    /// The file with the addresses.
    hosts: PathBuf,
}

impl Zone {
    /// Serves these records of services, each as dnsmasq takes it, and these addresses, each before its name. None where dnsmasq
    /// is not installed.
    pub fn serve(services: &[String], hosts: &str) -> Option<Zone> {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = env::temp_dir().join(format!("corehttp-zone-{}-{count}", process::id()));
        fs::write(&path, hosts).unwrap();
        // dnsmasq reports no port that it was given by the system, so it gets one that was free a moment ago.
        let free = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
        let port = free.unwrap().port();
        let dnsmasq = match start(port, services, &path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                eprintln!("skipped: dnsmasq is not installed");
                return None;
            }
            started => started.unwrap(),
        };
        let zone = Zone { dnsmasq, port, hosts: path };
        zone.wait_until_served();
        Some(zone)
    }

    /// The name server.
    pub fn address(&self) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], self.port))
    }

    /// Replaces the addresses, which are read again while the server runs.
    pub fn set_hosts(&self, hosts: &str) {
        fs::write(&self.hosts, hosts).unwrap();
        self.signal("HUP");
    }

    /// Replaces the records of services, which are read only when the server starts.
    pub fn set_services(&mut self, services: &[String]) {
        self.kill();
        self.dnsmasq = start(self.port, services, &self.hosts).unwrap();
        self.wait_until_served();
    }

    /// Sends a signal to the server, such as `STOP`.
    pub fn signal(&self, name: &str) {
        let id = self.dnsmasq.id().to_string();
        assert!(Command::new("kill").args(["-s", name, &id]).status().unwrap().success());
    }

    /// Kills the server, so that its port is closed.
    pub fn kill(&mut self) {
        let _ = self.dnsmasq.kill();
        let _ = self.dnsmasq.wait();
    }

    fn wait_until_served(&self) {
        let deadline = Instant::now() + Duration::from_secs(20);
        while TcpStream::connect(self.address()).is_err() {
            assert!(Instant::now() < deadline, "dnsmasq listens soon");
            thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Zone {
    fn drop(&mut self) {
        self.kill();
        let _ = fs::remove_file(&self.hosts);
    }
}

fn start(port: u16, services: &[String], hosts: &Path) -> io::Result<Child> {
    let mut command = Command::new("dnsmasq");
    command
        .args(["--no-daemon", "--conf-file=/dev/null", "--no-resolv", "--no-hosts", "--local=/internal/"])
        .args(["--listen-address=127.0.0.1", "--bind-interfaces", "--local-ttl=1"])
        .arg(format!("--port={port}"))
        .arg(format!("--addn-hosts={}", hosts.display()))
        .args(services.iter().map(|record| format!("--srv-host={record}")));
    command.stderr(Stdio::null()).spawn()
}
