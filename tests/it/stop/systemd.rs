//! A server as a service of systemd: the sockets that are passed to it, and what it reports.

use std::env;
use std::io::{BufRead, BufReader, ErrorKind};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
#[cfg(feature = "handover")]
use std::sync::Arc;
use std::thread;
use std::time::Duration;

#[cfg(feature = "handover")]
use corehttp::Status;
use corehttp::server::ServerCore;
use corehttp::{Context, Server};
#[cfg(feature = "handover")]
use rlimit::{Resource, setrlimit};
use tokio::sync::Notify;

use crate::support::{Peer, TIMEOUT, use_up_descriptors};

/// Set in the process that is the service.
const SERVICE: &str = "COREHTTP_TEST_SERVICE";

const LAST: &str = "GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n";

/// Serves until a request says that it is enough.
fn serve() {
    let server = Server::bind("127.0.0.1:0").cores(2).systemd().unwrap();
    let (sender, enough) = std::sync::mpsc::channel();
    let running = server.start(move |ctx: &mut Context| {
        if ctx.request.path() == "/enough" {
            sender.send(()).unwrap();
        }
        ctx.response.set_text(ctx.peer_addr().to_string());
    });
    let running = running.unwrap();
    if env::var_os("NOTIFY_SOCKET").is_none() {
        enough.recv().unwrap();
    } else {
        // The manager closes it.
        std::io::copy(&mut std::io::stdin(), &mut std::io::sink()).unwrap();
    }
    running.stop(TIMEOUT);
    running.wait().unwrap();
}

/// Starts this program again, as `command` would start a service.
fn start(command: &mut Command, test: &str) -> std::io::Result<Child> {
    command.args([test, "--exact", "--nocapture"]).env(SERVICE, "1").stdout(Stdio::null()).spawn()
}

/// Listens at `path` as a service manager does.
fn manage(path: &Path) -> UnixDatagram {
    let manager = UnixDatagram::bind(path).unwrap();
    manager.set_read_timeout(Some(TIMEOUT)).unwrap();
    manager
}

/// Receives the next report of a service.
fn receive(manager: &UnixDatagram) -> String {
    let mut room = [0; 100];
    let count = manager.recv(&mut room).unwrap();
    String::from_utf8_lossy(&room[..count]).into_owned()
}

#[test]
fn a_service_reports_its_state_and_that_it_lives() {
    if env::var_os(SERVICE).is_some() {
        return serve();
    }
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("notify");
    let manager = manage(&path);
    let mut command = Command::new(env::current_exe().unwrap());
    command.env("NOTIFY_SOCKET", &path).env("WATCHDOG_USEC", "100000").stdin(Stdio::piped());
    let test = "stop::systemd::a_service_reports_its_state_and_that_it_lives";
    let mut service = start(&mut command, test).unwrap();
    let mut told = Vec::new();
    while told.last().is_none_or(|last| last != "STOPPING=1\n") {
        told.push(receive(&manager));
        if ["READY=1\n", "WATCHDOG=1\n"].iter().all(|state| told.iter().any(|told| told == state)) {
            drop(service.stdin.take());
        }
    }
    assert!(service.wait().unwrap().success());
    told.dedup();
    assert_eq!(told[0], "READY=1\n");
    told.retain(|state| state != "WATCHDOG=1\n");
    assert_eq!(told, ["READY=1\n", "STOPPING=1\n"]);
}

/// Fills the queue of a manager. Each datagram has a socket of its own, whose buffer would be full before.
fn fill(path: &Path) {
    let send = || {
        let socket = UnixDatagram::unbound().unwrap();
        socket.set_nonblocking(true).unwrap();
        socket.send_to(b"FILLED=1\n", path)
    };
    let full = std::iter::repeat_with(send).find_map(Result::err).unwrap();
    assert_eq!(full.kind(), ErrorKind::WouldBlock);
}

/// The first process of a machine may be frozen, or busy for long.
#[test]
fn a_manager_that_reads_nothing_holds_up_no_core() {
    const PLACE: &str = "COREHTTP_TEST_PLACE";
    if let Some(place) = env::var_os(PLACE) {
        let server = Server::bind(Path::new(&place)).cores(1).systemd().unwrap();
        let running = server.start(async |ctx: &mut Context| {
            // Several notifications of the watchdog are due meanwhile.
            tokio::time::sleep(Duration::from_millis(100)).await;
            ctx.response.set_text("done");
        });
        let running = running.unwrap();
        std::io::copy(&mut std::io::stdin(), &mut std::io::sink()).unwrap();
        running.stop(TIMEOUT);
        return running.wait().unwrap();
    }
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("notify");
    let place = directory.path().join("served");
    let manager = manage(&path);
    fill(&path);
    let mut command = Command::new(env::current_exe().unwrap());
    command.env("NOTIFY_SOCKET", &path).env("WATCHDOG_USEC", "40000").env(PLACE, &place);
    command.stdin(Stdio::piped());
    let test = "stop::systemd::a_manager_that_reads_nothing_holds_up_no_core";
    let mut service = start(&mut command, test).unwrap();
    let connected = (0..).find_map(|_| {
        thread::sleep(Duration::from_millis(1));
        UnixStream::connect(&place).ok()
    });
    let mut near = connected.unwrap();
    near.set_read_timeout(Some(TIMEOUT)).unwrap();
    std::io::Write::write_all(&mut near, LAST.as_bytes()).unwrap();
    let mut received = String::new();
    std::io::Read::read_to_string(&mut near, &mut received).unwrap();
    assert!(received.ends_with("\r\n\r\ndone"), "{received}");
    let mut told = String::new();
    while told != "READY=1\n" {
        told = receive(&manager);
        assert!(["FILLED=1\n", "READY=1\n", "WATCHDOG=1\n"].contains(&&*told), "{told}");
    }
    // The order to stop is given while nobody reads, and the service ends nevertheless.
    fill(&path);
    drop(service.stdin.take());
    assert!(service.wait().unwrap().success());
}

/// Its manager would take a want of descriptors, which passes, for the end of the cores.
#[test]
fn a_service_without_descriptors_shows_that_it_lives() {
    if env::var_os(SERVICE).is_some() {
        setrlimit(Resource::NOFILE, 64, 64).unwrap();
        let running = Server::bind("127.0.0.1:0").cores(1).systemd().unwrap().start(|_: &mut Context| ());
        let running = running.unwrap();
        let socket = UnixDatagram::unbound().unwrap();
        let taken = use_up_descriptors();
        socket.send_to(b"TAKEN=1\n", env::var_os("NOTIFY_SOCKET").unwrap()).unwrap();
        std::io::copy(&mut std::io::stdin(), &mut std::io::sink()).unwrap();
        running.stop(TIMEOUT);
        running.wait().unwrap();
        return drop(taken);
    }
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("notify");
    let manager = manage(&path);
    let mut command = Command::new(env::current_exe().unwrap());
    command.env("NOTIFY_SOCKET", &path).env("WATCHDOG_USEC", "40000").stdin(Stdio::piped());
    let test = "stop::systemd::a_service_without_descriptors_shows_that_it_lives";
    let mut service = start(&mut command, test).unwrap();
    while receive(&manager) != "TAKEN=1\n" {}
    for _ in 0..3 {
        assert_eq!(receive(&manager), "WATCHDOG=1\n");
    }
    drop(service.stdin.take());
    while receive(&manager) != "STOPPING=1\n" {}
    assert!(service.wait().unwrap().success());
}

#[test]
fn a_service_listens_on_the_sockets_that_it_is_given() {
    if env::var_os(SERVICE).is_some() {
        return serve();
    }
    let (directory, port) = (tempfile::tempdir().unwrap(), TcpListener::bind("127.0.0.1:0").unwrap());
    let (path, address) = (directory.path().join("socket"), port.local_addr().unwrap());
    drop(port);
    let mut command = Command::new("systemd-socket-activate");
    command.arg("-l").arg(&path).arg("-l").arg(address.to_string()).stderr(Stdio::null());
    command.args(["-E", SERVICE]).arg(env::current_exe().unwrap());
    let mut service =
        match start(&mut command, "stop::systemd::a_service_listens_on_the_sockets_that_it_is_given") {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                return eprintln!("skipped: systemd-socket-activate is not installed");
            }
            started => started.unwrap(),
        };
    let tcp = (0..).find_map(|_| {
        thread::sleep(Duration::from_millis(1));
        TcpStream::connect(address).ok()
    });
    // The first connection starts the service.
    let mut peer = Peer::new(tcp.unwrap());
    peer.send(LAST);
    assert!(peer.receive_all().contains("\r\n\r\n127.0.0.1:"));
    let ask = |target: &str| {
        use std::io::{Read, Write};
        let mut received = String::new();
        let mut near = UnixStream::connect(&path).unwrap();
        near.write_all(LAST.replace("/ ", target).as_bytes()).unwrap();
        near.read_to_string(&mut received).unwrap();
        received
    };
    assert!(ask("/ ").ends_with("\r\n\r\nunix"));
    assert!(ask("/enough ").ends_with("\r\n\r\nunix"));
    assert!(service.wait().unwrap().success());
}

/// A unit with `Accept=yes` passes each connection to a service of its own, and one of datagrams passes no connections.
#[test]
fn a_socket_that_does_not_listen_is_refused() {
    if env::var_os(SERVICE).is_some() {
        let error = Server::bind("127.0.0.1:0").systemd().unwrap_err();
        assert_eq!(
            error.to_string(),
            "socket 0 of LISTEN_FDS does not listen: its unit needs ListenStream= and Accept=no"
        );
        return;
    }
    for option in ["--accept", "--datagram"] {
        let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let mut command = Command::new("systemd-socket-activate");
        command.args([option, "-l", &address.to_string(), "-E", SERVICE]).arg(env::current_exe().unwrap());
        command.stderr(Stdio::piped());
        let mut manager = match start(&mut command, "stop::systemd::a_socket_that_does_not_listen_is_refused")
        {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                return eprintln!("skipped: systemd-socket-activate is not installed");
            }
            started => started.unwrap(),
        };
        let mut reports = BufReader::new(manager.stderr.take().unwrap()).lines().map(Result::unwrap);
        reports.find(|line| line.starts_with("Listening on ")).expect("it listens");
        if option == "--accept" {
            drop(TcpStream::connect(address).unwrap());
            let ended = reports.find(|line| line.contains(" died with code ")).unwrap();
            assert!(ended.ends_with(" 0"), "{ended}");
            manager.kill().unwrap();
            manager.wait().unwrap();
        } else {
            UdpSocket::bind("127.0.0.1:0").unwrap().send_to(b"x", address).unwrap();
            // The manager itself has become the service.
            assert!(manager.wait().unwrap().success());
        }
    }
}

/// Set in a process that cannot serve.
#[cfg(feature = "handover")]
const BROKEN: &str = "COREHTTP_TEST_BROKEN";

/// Set in a process that takes many times as long to start as its notifications of the watchdog are apart.
#[cfg(feature = "handover")]
const SLOW: &str = "COREHTTP_TEST_SLOW";

/// Serves at a Unix socket, which it takes over from the process before, until a request says that it is enough.
#[cfg(feature = "handover")]
fn serve_in_turn(directory: &Path) {
    let enough = Arc::new(Notify::new());
    let is_enough = enough.clone();
    let server = Server::bind(directory.join("served")).cores(2).systemd().unwrap();
    let stopped = async move {
        is_enough.notified().await;
        Ok(())
    };
    let app = move |_: &mut Context| enough.notify_one();
    let make = async move |_: ServerCore| {
        if env::var_os(SLOW).is_some() {
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        match env::var_os(BROKEN) {
            Some(_) => Err(Status::INTERNAL_SERVER_ERROR.into()),
            None => Ok(app.clone()),
        }
    };
    server.stop_on(stopped, TIMEOUT).handover(directory.join("handover")).run_per_core(make).unwrap();
}

/// The directory of processes that serve in turn.
#[cfg(feature = "handover")]
const DIRECTORY: &str = "COREHTTP_TEST_DIRECTORY";

/// Starts a process that serves in turn, as `test` does where [`DIRECTORY`] is set.
#[cfg(feature = "handover")]
fn start_in_turn(test: &str, directory: &Path, more: &[(&str, &str)]) -> Child {
    let mut command = Command::new(env::current_exe().unwrap());
    command
        .env("NOTIFY_SOCKET", directory.join("notify"))
        .env(DIRECTORY, directory)
        .envs(more.iter().copied());
    start(&mut command, test).unwrap()
}

/// The manager would take the end of the first process for that of the service, and its stop for one of all.
#[cfg(feature = "handover")]
#[test]
fn a_successor_becomes_the_main_process_before_its_predecessor_stops() {
    if let Some(directory) = env::var_os(DIRECTORY) {
        return serve_in_turn(Path::new(&directory));
    }
    let directory = tempfile::tempdir().unwrap();
    let manager = manage(&directory.path().join("notify"));
    let begin = |more: &[(&str, &str)]| {
        let test = "stop::systemd::a_successor_becomes_the_main_process_before_its_predecessor_stops";
        start_in_turn(test, directory.path(), more)
    };
    let told = || receive(&manager);
    let mut main = begin(&[]);
    assert_eq!(told(), "READY=1\n");
    for _ in 0..3 {
        assert!(!begin(&[(BROKEN, "1")]).wait().unwrap().success(), "and reports nothing");
        let mut successor = begin(&[]);
        assert_eq!([told(), told()], [format!("MAINPID={}\n", successor.id()), "READY=1\n".into()]);
        assert!(main.wait().unwrap().success());
        std::mem::swap(&mut main, &mut successor);
    }
    let mut near = UnixStream::connect(directory.path().join("served")).unwrap();
    std::io::Write::write_all(&mut near, LAST.as_bytes()).unwrap();
    assert_eq!(told(), "STOPPING=1\n");
    assert!(main.wait().unwrap().success());
    manager.set_nonblocking(true).unwrap();
    assert!(manager.recv(&mut [0]).is_err(), "no process has reported anything else");
}

/// Its notification would pass for one of the process that still serves, which may have none.
#[cfg(feature = "handover")]
#[test]
fn a_successor_sends_no_notification_of_the_watchdog_before_it_serves() {
    if let Some(directory) = env::var_os(DIRECTORY) {
        return serve_in_turn(Path::new(&directory));
    }
    let directory = tempfile::tempdir().unwrap();
    let manager = manage(&directory.path().join("notify"));
    let begin = |more: &[(&str, &str)]| {
        let test = "stop::systemd::a_successor_sends_no_notification_of_the_watchdog_before_it_serves";
        start_in_turn(test, directory.path(), more)
    };
    let told = || receive(&manager);
    let mut main = begin(&[]);
    assert_eq!(told(), "READY=1\n");
    let mut successor = begin(&[(SLOW, "1"), ("WATCHDOG_USEC", "20000")]);
    assert_eq!([told(), told()], [format!("MAINPID={}\n", successor.id()), "READY=1\n".into()]);
    assert!(main.wait().unwrap().success());
    assert_eq!(told(), "WATCHDOG=1\n");
    let mut near = UnixStream::connect(directory.path().join("served")).unwrap();
    std::io::Write::write_all(&mut near, LAST.as_bytes()).unwrap();
    assert!(successor.wait().unwrap().success());
}
