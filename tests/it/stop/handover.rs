//! Handovers: the listening sockets of a server pass to the one that takes its place, and no connection is lost.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::sync::mpsc::channel;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use corehttp::server::ServerCore;
use corehttp::{Context, Server, ServerHandle, Status, shutdown_signal};
use tokio::sync::{Notify, oneshot};

use crate::support::{Peer, eventually, status};

const GET: &str = "GET / HTTP/1.1\r\nhost: a\r\n\r\n";
const LAST: &str = "GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n";

/// A server at any port, or at that of its predecessor, and at a Unix socket.
fn server(directory: &Path, cores: usize, balanced: bool) -> Server {
    Server::bind("127.0.0.1:0")
        .and_bind(directory.join("served"))
        .cores(cores)
        .balanced(balanced)
        .stop_on(shutdown_signal(), Duration::from_secs(60))
        .handover(directory.join("handover"))
}

/// Starts a server that answers with its name.
fn start(server: Server, name: usize) -> ServerHandle {
    server.start(move |ctx: &mut Context| ctx.response.set_text(format!("server {name}."))).unwrap()
}

/// Asks on one connection, or on one connection for each request, and returns the failures.
fn ask_repeatedly(
    address: SocketAddr,
    wire: &str,
    enough: &AtomicBool,
    answered: &AtomicUsize,
) -> Vec<String> {
    let mut lost = Vec::new();
    let mut peer = None;
    while !enough.load(Relaxed) {
        let mut stream: TcpStream = match peer.take().map_or_else(|| TcpStream::connect(address), Ok) {
            Ok(stream) => stream,
            Err(error) => {
                lost.push(format!("connect: {error}"));
                continue;
            }
        };
        let (mut received, mut room) = (String::new(), [0; 500]);
        let sent = stream.write_all(wire.as_bytes());
        while !received.ends_with('.') {
            match stream.read(&mut room) {
                Ok(count @ 1..) => received += &String::from_utf8_lossy(&room[..count]),
                end => {
                    lost.push(format!("{end:?} after {received:?}, {sent:?}"));
                    break;
                }
            }
        }
        answered.fetch_add(1, Relaxed);
        peer = Some(stream).filter(|_| received.ends_with('.') && !received.contains("connection: close"));
    }
    lost
}

/// Clients, half of which connect for each request.
fn storm(
    address: SocketAddr,
    enough: &Arc<AtomicBool>,
    answered: &Arc<AtomicUsize>,
) -> Vec<JoinHandle<Vec<String>>> {
    let client = |index: usize| {
        let (enough, answered) = (enough.clone(), answered.clone());
        let wire = if index.is_multiple_of(2) { LAST } else { GET };
        thread::spawn(move || ask_repeatedly(address, wire, &enough, &answered))
    };
    (0..16).map(client).collect()
}

/// Each server has other cores than the one before, and gets all of its sockets.
#[test]
fn successors_take_over_and_nothing_is_lost() {
    let directory = tempfile::tempdir().unwrap();
    let (enough, answered) = (Arc::<AtomicBool>::default(), Arc::<AtomicUsize>::default());
    let mut running = start(server(directory.path(), 2, false), 0);
    let address = running.local_addr();
    let clients = storm(address, &enough, &answered);
    let spreads = [(3, false), (1, false), (2, true), (2, false), (1, true), (3, false)];
    for (name, (cores, balanced)) in spreads.into_iter().enumerate() {
        let before = answered.load(Relaxed);
        eventually("requests are answered", || answered.load(Relaxed) > before + 100);
        let successor = start(server(directory.path(), cores, balanced), name + 1);
        assert_eq!(successor.local_addr(), address);
        running.wait().unwrap();
        assert_eq!(running.counts().total.aborted, 0);
        running = successor;
    }
    enough.store(true, Relaxed);
    let lost: Vec<_> = clients.into_iter().flat_map(|client| client.join().unwrap()).collect();
    assert_eq!(lost, [""; 0]);
    // The file of a Unix socket goes with the last server.
    assert!(ask_near(&directory.path().join("served")).ends_with("server 6."));
    running.stop(Duration::ZERO);
    running.wait().unwrap();
    assert_eq!(directory.path().read_dir().unwrap().count(), 0);
    assert!(TcpStream::connect(address).is_err(), "no socket is left");
}

#[test]
fn a_successor_that_cannot_start_changes_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let first = start(server(directory.path(), 1, false), 1);
    let make = async |_: ServerCore| -> corehttp::Result<fn(&mut Context)> {
        Err(Status::INTERNAL_SERVER_ERROR.into())
    };
    server(directory.path(), 2, false).start_per_core(make).unwrap_err();
    // Nor do peers that are no server.
    let control = directory.path().join("handover");
    assert_eq!(control.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    for sent in [&b""[..], b"x", b"GET / HTTP/1.1\r\n"] {
        let mut peer = UnixStream::connect(&control).unwrap();
        peer.write_all(sent).unwrap();
    }
    let mut peer = Peer::new(TcpStream::connect(first.local_addr()).unwrap());
    peer.send(GET);
    assert_eq!(status(&peer.receive()), 200);
    assert!(!first.is_stop_ordered());
    let second = start(server(directory.path(), 1, false), 2);
    first.wait().unwrap();
    assert_eq!(second.local_addr(), first.local_addr());
    second.stop(Duration::ZERO);
    second.wait().unwrap();
}

/// Starts a successor whose cores have no handler until `warm` completes, on a thread of its own. Returns once it has
/// received the sockets.
fn start_slowly(server: Server, warm: Arc<Notify>) -> JoinHandle<ServerHandle> {
    let (sender, begun) = channel();
    let make = async move |_: ServerCore| -> corehttp::Result<_> {
        let _ = sender.send(());
        warm.notified().await;
        Ok(|ctx: &mut Context| ctx.response.set_text("warm."))
    };
    let successor = thread::spawn(move || server.start_per_core(make).unwrap());
    begun.recv().unwrap();
    successor
}

/// Asks the server at this Unix socket, and returns its response.
fn ask_near(path: &Path) -> String {
    let (mut near, mut received) = (UnixStream::connect(path).unwrap(), String::new());
    near.write_all(LAST.as_bytes()).unwrap();
    near.read_to_string(&mut received).unwrap();
    received
}

/// A deployment may give up a successor that takes too long to warm up.
#[test]
fn a_successor_that_is_stopped_before_it_listens_changes_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let first = start(server(directory.path(), 1, false), 1);
    let (enough, stopped) = oneshot::channel::<()>();
    let stopped = async move { drop(stopped.await) };
    let second = server(directory.path(), 2, false).stop_on(stopped, Duration::ZERO);
    let second = start_slowly(second, Arc::default());
    enough.send(()).unwrap();
    second.join().unwrap().wait().unwrap();
    // The first one waits for a successor again, and has not been told to stop before.
    let mut next = UnixStream::connect(directory.path().join("handover")).unwrap();
    next.read_exact(&mut [0; 2]).unwrap();
    assert!(!first.is_stop_ordered());
    assert!(ask_near(&directory.path().join("served")).ends_with("server 1."));
    // It ends the wait for a peer that says something else, and still removes its files.
    next.write_all(b"x").unwrap();
    next.read_to_end(&mut Vec::new()).unwrap();
    first.stop(Duration::ZERO);
    first.wait().unwrap();
    assert_eq!(directory.path().read_dir().unwrap().count(), 0);
}

/// Its successor alone would listen at files that are gone.
#[test]
fn a_server_that_is_stopped_while_its_successor_starts_leaves_it_the_files() {
    let directory = tempfile::tempdir().unwrap();
    let (first, warm) = (start(server(directory.path(), 2, false), 1), Arc::<Notify>::default());
    let second = start_slowly(server(directory.path(), 1, false), warm.clone());
    first.stop(Duration::ZERO);
    first.wait().unwrap();
    warm.notify_one();
    let second = second.join().unwrap();
    assert_eq!(second.local_addr(), first.local_addr());
    assert!(ask_near(&directory.path().join("served")).ends_with("warm."));
    let third = start(server(directory.path(), 1, false), 3);
    second.wait().unwrap();
    assert!(ask_near(&directory.path().join("served")).ends_with("server 3."));
    third.stop(Duration::ZERO);
    third.wait().unwrap();
    assert_eq!(directory.path().read_dir().unwrap().count(), 0);
}

/// Addresses that only one of the two servers has are bound anew, or closed.
#[test]
fn a_successor_may_listen_elsewhere() {
    let directory = tempfile::tempdir().unwrap();
    let first = start(server(directory.path(), 1, false), 1);
    let other = Server::bind("127.0.0.2:0").cores(1).handover(directory.path().join("handover"));
    let second = start(other, 2);
    first.wait().unwrap();
    assert!(TcpStream::connect(first.local_addr()).is_err());
    assert!(!directory.path().join("served").exists());
    let mut peer = Peer::new(TcpStream::connect(second.local_addr()).unwrap());
    peer.send(LAST);
    assert!(peer.receive_all().ends_with("server 2."));
    second.stop(Duration::ZERO);
    second.wait().unwrap();
}
