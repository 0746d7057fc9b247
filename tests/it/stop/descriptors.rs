//! Idle connections make room when there is no descriptor left, whoever has them and whoever needs one.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
#[cfg(all(feature = "fs", feature = "tls"))]
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

#[cfg(feature = "fs")]
use corehttp::fs::Files;
use corehttp::server::ErrorLog;
#[cfg(feature = "tls")]
use corehttp::tls::Identity;
use corehttp::{Client, Context, Result, Server, block_on};
use rlimit::{Resource, setrlimit};

use crate::support::{Peer, Served, alone, eventually, get, status, use_up_descriptors};

/// Takes all descriptors, of 256.
fn take_all() -> Vec<std::fs::File> {
    setrlimit(Resource::NOFILE, 256, 256).unwrap();
    use_up_descriptors()
}

/// A server on every address of this machine that is no part of the crate, so that it has no idle connections to close.
fn elsewhere() -> SocketAddr {
    let listener = TcpListener::bind("0.0.0.0:0").unwrap();
    let addr = listener.local_addr().unwrap();
    thread::spawn(move || {
        for accepted in listener.incoming() {
            // Without a descriptor the peer waits in the backlog.
            match accepted {
                Ok(stream) => drop(thread::spawn(move || answer_all(stream))),
                Err(_) => thread::sleep(Duration::from_millis(5)),
            }
        }
    });
    addr
}

fn answer_all(mut stream: TcpStream) {
    let mut head = Vec::new();
    let mut piece = [0; 1024];
    while let Ok(count @ 1..) = stream.read(&mut piece) {
        head.extend_from_slice(&piece[..count]);
        if head.ends_with(b"\r\n\r\n") {
            head.clear();
            stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok").unwrap();
        }
    }
}

/// Leaves `client` with 36 idle connections, each to an address of its own.
async fn make_idle(client: &Client, port: u16) {
    for host in 1..=36 {
        client.get(&format!("http://127.0.0.{host}:{port}/")).await.unwrap();
    }
}

/// 36 peers whose requests were answered with `expected`.
fn idle_peers(served: &Served, expected: u16) -> Vec<Peer> {
    let peers = Vec::from_iter((0..36).map(|_| {
        let mut peer = served.connect();
        peer.send(get("/"));
        assert_eq!(status(&peer.receive()), expected);
        peer
    }));
    // A connection that was used just now may have a request on its way.
    thread::sleep(Duration::from_millis(700));
    peers
}

/// `getaddrinfo` says that the name is unknown when it cannot open a file or a socket.
#[test]
fn a_client_closes_idle_connections_for_a_look_up() {
    alone("stop::descriptors::a_client_closes_idle_connections_for_a_look_up", || {
        let port = elsewhere().port();
        let client = Client::new();
        block_on(async {
            make_idle(&client, port).await;
            assert_eq!(client.idle_connections(), 36);
            let taken = take_all();
            client.get(&format!("http://localhost:{port}/")).await.unwrap();
            assert!((4..36).contains(&client.idle_connections()), "{}", client.idle_connections());
            drop(taken);
        })
        .unwrap();
    });
}

/// If nothing is idle, the error says what was lacking, and not that the name is unknown.
#[test]
fn a_look_up_that_fails_for_want_of_descriptors_says_so() {
    alone("stop::descriptors::a_look_up_that_fails_for_want_of_descriptors_says_so", || {
        let client = Client::new();
        block_on(async {
            let taken = take_all();
            let error = client.get("http://localhost:1/").await.unwrap_err();
            assert!(format!("{error:#}").contains("os error 24"), "{error:#}");
            drop(taken);
            let error = client.get("http://localhost:1/").await.unwrap_err();
            assert!(!format!("{error:#}").contains("os error 24"), "{error:#}");
        })
        .unwrap();
    });
}

/// A gateway whose own client has all the idle connections.
#[test]
fn a_server_accepts_where_a_client_has_the_idle_connections() {
    alone("stop::descriptors::a_server_accepts_where_a_client_has_the_idle_connections", || {
        let port = elsewhere().port();
        let client = Client::new();
        let used = client.clone();
        let app = async move |ctx: &mut Context| -> Result {
            if ctx.request.path() == "/fill" {
                make_idle(&used, port).await;
            }
            Ok(())
        };
        let served = Served { running: Server::bind("127.0.0.1:0").cores(1).start(app).unwrap() };
        let mut first = served.connect();
        first.send(get("/fill"));
        assert_eq!(status(&first.receive()), 200);
        drop(first);
        eventually("it has closed", || served.running.counts().total.open == 0);
        assert_eq!(client.idle_connections(), 36);
        let mut taken = take_all();
        // The peer takes the last descriptor, and the server has none to accept it with.
        taken.pop();
        let start = Instant::now();
        let mut late = served.connect();
        late.send(get("/"));
        assert_eq!(status(&late.receive()), 200);
        assert!(start.elapsed() < Duration::from_secs(1), "{:?}", start.elapsed());
        assert!(client.idle_connections() < 36);
    });
}

/// A gateway whose peers have all the idle connections.
#[test]
fn a_client_dials_where_a_server_has_the_idle_connections() {
    alone("stop::descriptors::a_client_dials_where_a_server_has_the_idle_connections", || {
        let port = elsewhere().port();
        let client = Client::new();
        let app = async move |ctx: &mut Context| -> Result {
            if ctx.request.path() == "/there" {
                client.get(&format!("http://127.0.0.1:{port}/")).await?;
            }
            Ok(())
        };
        let served = Served { running: Server::bind("127.0.0.1:0").cores(2).start(app).unwrap() };
        let ask = |peer: &mut Peer, path| {
            peer.send(get(path));
            status(&peer.receive())
        };
        let mut idle = Vec::from_iter((0..36).map(|_| served.connect()));
        idle.iter_mut().for_each(|peer| assert_eq!(ask(peer, "/"), 200));
        let mut peer = served.connect();
        assert_eq!(ask(&mut peer, "/"), 200);
        // A connection that was used just now may have a request on its way.
        thread::sleep(Duration::from_millis(700));
        let _taken = take_all();
        assert_eq!(ask(&mut peer, "/there"), 200);
        assert!(served.running.counts().total.open < 37);
    });
}

/// A certificate that is renewed, and a folder that is served, are read however many peers are idle.
#[cfg(all(feature = "fs", feature = "tls"))]
#[test]
fn files_of_settings_are_read_where_a_server_has_the_idle_connections() {
    alone("stop::descriptors::files_of_settings_are_read_where_a_server_has_the_idle_connections", || {
        let folder = tempfile::tempdir().unwrap();
        let served = Served::with(|server| server, |_: &mut Context| ());
        for read in [
            |path: &Path| drop(Files::new(path).unwrap()),
            |path: &Path| {
                let error = Identity::from_files(path.join("a.pem"), path.join("a.key")).unwrap_err();
                assert!(format!("{error:#}").contains("No such file"), "{error:#}");
            },
        ] {
            let idle = idle_peers(&served, 200);
            let taken = take_all();
            read(folder.path());
            eventually("some are closed", || served.running.counts().total.open < 36);
            drop((idle, taken));
            eventually("all are closed", || served.running.counts().total.open == 0);
        }
    });
}

/// logrotate renames the log of a server whose peers have all the descriptors.
#[test]
fn a_log_is_opened_again_where_a_server_has_the_idle_connections() {
    alone("stop::descriptors::a_log_is_opened_again_where_a_server_has_the_idle_connections", || {
        let folder = tempfile::tempdir().unwrap();
        let [path, rotated] = ["errors.log", "errors.log.1"].map(|name| folder.path().join(name));
        let log = ErrorLog::open(&path).unwrap();
        let fails = |_: &mut Context| -> Result { Err(corehttp::Error::other("broken")) };
        let served = Served::with(|server| server.observe(log.clone()), fails);
        let idle = idle_peers(&served, 500);
        let taken = take_all();
        std::fs::rename(&path, &rotated).unwrap();
        log.reopen();
        eventually("the file is opened again", || path.exists());
        assert!(served.running.counts().total.open < 36);
        drop((idle, taken));
    });
}
