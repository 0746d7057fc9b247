//! nginx and HAProxy, with their defaults.

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command};
use std::time::{Duration, Instant};
use std::{fs, thread};

use tempfile::TempDir;

/// A proxy that runs until this is dropped.
pub(crate) struct Proxy {
    address: SocketAddr,
    child: Child,
    _folder: TempDir,
}

/// Starts nginx with these directives of a server. None where it is not installed.
pub(crate) fn nginx(server: &str) -> Option<Proxy> {
    nginx_listening("", server)
}

/// Starts nginx with these options of its port, and these directives of a server. None where it is not installed.
pub(crate) fn nginx_listening(options: &str, server: &str) -> Option<Proxy> {
    Proxy::start("nginx", &["-c"], |folder, address| {
        let folder = folder.display();
        format!(
            "daemon off; master_process off; error_log stderr crit; pid {folder}/pid; events {{}} http {{ \
             access_log off; client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy; \
             fastcgi_temp_path {folder}/fastcgi; uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi; \
             server {{ listen {address} {options}; {server} }} }}"
        )
    })
}

/// Starts nginx that passes bytes on, with these directives of a server. None where it, or its module, is not installed.
#[cfg(feature = "proxy-protocol")]
pub(crate) fn nginx_stream(server: &str) -> Option<Proxy> {
    let module = "/usr/lib/nginx/modules/ngx_stream_module.so";
    if !Path::new(module).exists() {
        eprintln!("skipped: nginx has no module for streams");
        return None;
    }
    Proxy::start("nginx", &["-c"], |folder, address| {
        format!(
            "load_module {module}; daemon off; master_process off; error_log stderr crit; pid {}/pid; \
             events {{}} stream {{ server {{ listen {address}; {server} }} }}",
            folder.display()
        )
    })
}

/// Starts HAProxy in front of `server`. None where it is not installed.
pub(crate) fn haproxy(server: SocketAddr) -> Option<Proxy> {
    haproxy_for("", &format!("server only {server}"))
}

/// Starts HAProxy with these options of its port, and these lines of a section. None where it is not installed.
pub(crate) fn haproxy_for(options: &str, section: &str) -> Option<Proxy> {
    // Without times, HAProxy warns; these are the ones of its own first example.
    Proxy::start("haproxy", &["-q", "-f"], |_, address| {
        format!(
            "defaults\n mode http\n timeout connect 5s\n timeout client 50s\n timeout server 50s\n\
             listen all\n bind {address} {options}\n {section}\n"
        )
    })
}

impl Proxy {
    fn start(name: &str, args: &[&str], settings: impl FnOnce(&Path, SocketAddr) -> String) -> Option<Proxy> {
        let folder = tempfile::tempdir().expect("a directory");
        // Neither reports a port that it was given by the system, so it gets one that was free a moment ago.
        let free = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
        let address = free.expect("a port is free");
        let path = folder.path().join("settings");
        fs::write(&path, settings(folder.path(), address)).expect("a file is written");
        let child = match Command::new(name).args(args).arg(&path).spawn() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                eprintln!("skipped: {name} is not installed");
                return None;
            }
            child => child.expect("a proxy that is there starts"),
        };
        let proxy = Proxy { address, child, _folder: folder };
        let deadline = Instant::now() + Duration::from_secs(20);
        while TcpStream::connect(address).is_err() {
            assert!(Instant::now() < deadline, "{name} listens soon");
            thread::sleep(Duration::from_millis(10));
        }
        Some(proxy)
    }

    #[cfg(feature = "proxy-protocol")]
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
