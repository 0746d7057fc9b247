//! Where a server listens, on which cores it serves, and its counts.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::rc::Rc;
use std::sync::{Arc, Barrier, Mutex, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use corehttp::middleware::{self, wrap};
use corehttp::net::{MemoryConnector, MemoryListener};
use corehttp::server::{CoreCounts, ErrorCounts, ServerCore};
use corehttp::{
    Address, BodyPlan, Client, Context, Error, Limits, PeerAddr, Request, Result, Server, ServerHandle,
    Status, block_on,
};
use cpu_time::ProcessTime;
use socket2::{Domain, Socket, Type};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::support::{ErrorReports, Served, alone, eventually, eventually_eq, get, paused, status};
#[cfg(target_os = "linux")]
use crate::support::{Peer, use_up_descriptors};

const GET: &[u8] = b"GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n";

/// Answers with the address of the peer.
fn who(ctx: &mut Context) {
    ctx.response.set_text(match ctx.peer_addr() {
        PeerAddr::Tcp(address) => address.ip().to_canonical().to_string(),
        other => other.to_string(),
    });
}

fn start(server: Server) -> Served {
    Served { running: server.start(who).unwrap() }
}

/// Checks that a request over `stream` is answered with `body`.
#[track_caller]
fn check(mut stream: impl Read + Write, body: &str) {
    stream.write_all(GET).unwrap();
    let mut received = String::new();
    stream.read_to_string(&mut received).unwrap();
    assert!(status(&received) == 200 && received.ends_with(&format!("\r\n\r\n{body}")), "{received}");
}

/// How many threads of this process are a server's cores.
fn cores_alive() -> usize {
    let threads = fs::read_dir("/proc/self/task").unwrap();
    let names = threads.filter_map(|thread| fs::read_to_string(thread.ok()?.path().join("comm")).ok());
    names.filter(|name| name.starts_with("corehttp-")).count()
}

#[cfg(target_os = "linux")]
#[test]
fn each_core_has_a_thread_and_none_is_left_behind() {
    alone("stop::runtime::each_core_has_a_thread_and_none_is_left_behind", || {
        for (cores, expected) in [(0, 1), (1, 1), (2, 2), (9, 9)] {
            let served = start(Server::bind("127.0.0.1:0").cores(cores));
            assert_eq!((cores_alive(), served.running.counts().cores.len()), (expected, expected));
            drop(served);
            eventually("they are gone", || cores_alive() == 0);
        }
        let served = start(Server::bind("127.0.0.1:0"));
        let all = thread::available_parallelism().unwrap().get();
        assert_eq!((cores_alive(), served.running.counts().cores.len()), (all, all));
    });
}

#[test]
fn settings_of_any_size_work() {
    for backlog in [0, 1, u16::MAX] {
        let served = start(Server::bind("127.0.0.1:0").cores(1).backlog(backlog));
        check(served.connect().stream, "127.0.0.1");
    }
    // So many threads are not started here.
    let most = Server::new().cores(usize::MAX);
    assert!(format!("{most:?}").contains("cores: 1024,"), "{most:?}");
}

#[test]
fn each_core_has_a_handler_with_state_of_its_own() {
    let make = async |core: ServerCore| {
        tokio::task::yield_now().await;
        let hits = Rc::new(Cell::new(0));
        Ok(async move |ctx: &mut Context| {
            hits.set(hits.get() + 1);
            ctx.response.set_text(format!("{} of {}: {}", core.index(), core.count(), hits.get()));
        })
    };
    let server = Server::bind("127.0.0.1:0").cores(2).balanced(true);
    let served = Served { running: server.start_per_core(make).unwrap() };
    let mut peers = [(); 2].map(|()| served.connect());
    for round in 1..=3 {
        let received = peers.each_mut().map(|peer| {
            peer.send("GET / HTTP/1.1\r\nhost: a\r\n\r\n");
            peer.receive()
        });
        let [mut first, mut second] =
            received.each_ref().map(|received| received.rsplit("\r\n").next().unwrap());
        if first > second {
            std::mem::swap(&mut first, &mut second);
        }
        assert_eq!([first, second], [format!("0 of 2: {round}"), format!("1 of 2: {round}")]);
    }
}

/// Checks that a server which cannot start fails with this error, and leaves nothing behind.
#[track_caller]
fn check_fails(outcome: Result<ServerHandle>, text: &str) {
    let error = outcome.map(drop).unwrap_err();
    assert!(error.to_string().contains(text), "{error} does not say {text:?}");
    eventually("no core is left", || cores_alive() == 0);
}

#[test]
fn a_server_that_cannot_start_says_why_and_leaves_no_thread() {
    alone("stop::runtime::a_server_that_cannot_start_says_why_and_leaves_no_thread", || {
        let theirs = TcpListener::bind("127.0.0.1:0").unwrap();
        let taken = theirs.local_addr().unwrap().to_string();
        let free = start(Server::bind("127.0.0.1:0")).addr();
        for address in
            [&taken, "192.0.2.1:80", "no-port", "127.0.0.1:65536", "unix:/no/such/directory/socket", ""]
        {
            check_fails(Server::bind(address).cores(2).start(who), address);
            // The addresses that were bound before are released, too.
            check_fails(Server::bind(free).and_bind(address).cores(2).start(who), address);
            assert_eq!(TcpStream::connect(free).unwrap_err().kind(), ErrorKind::ConnectionRefused);
            let error = Server::bind(address).run(who).unwrap_err();
            assert!(error.to_string().contains(address), "{error}");
        }
        for faulty in [0, 1, 2] {
            let server = || Server::bind("127.0.0.1:0").cores(3);
            let fails = async move |core: ServerCore| match core.index() == faulty {
                true => Err(Error::new(Status::INTERNAL_SERVER_ERROR, "the database is gone")),
                false => Ok(who),
            };
            check_fails(server().start_per_core(fails), "the database is gone");
            let panics = async move |core: ServerCore| {
                if core.index() == faulty {
                    std::panic::resume_unwind(Box::new("quietly"));
                }
                Ok(who)
            };
            check_fails(server().start_per_core(panics), "panicked");
        }
    });
}

/// The other cores must end although they wait for the one that has failed.
#[test]
fn a_core_that_cannot_start_is_told_of_while_the_others_wait() {
    alone("stop::runtime::a_core_that_cannot_start_is_told_of_while_the_others_wait", || {
        for (faulty, panics) in [(0, false), (1, false), (2, false), (0, true), (1, true), (2, true)] {
            let make = async move |core: ServerCore| match core.index() == faulty {
                true if panics => std::panic::resume_unwind(Box::new("quietly")),
                true => Err(Error::new(Status::INTERNAL_SERVER_ERROR, "the database is gone")),
                false => Ok(std::future::pending::<fn(&mut Context)>().await),
            };
            let (sender, outcome) = mpsc::channel();
            thread::spawn(move || sender.send(Server::bind("127.0.0.1:0").cores(3).start_per_core(make)));
            let outcome = outcome.recv_timeout(Duration::from_secs(10)).expect("nobody is waited for");
            check_fails(outcome, if panics { "panicked" } else { "the database is gone" });
        }
        let server = Server::bind("127.0.0.1:0").cores(2).stop_on(async {}, Duration::ZERO);
        let make = async |core: ServerCore| match core.index() {
            0 => Ok(who as fn(&mut Context)),
            _ => Ok(std::future::pending().await),
        };
        server.run_per_core(make).unwrap();
    });
}

fn has_ipv6() -> bool {
    TcpListener::bind((Ipv6Addr::LOCALHOST, 0)).is_ok()
}

/// The inodes of the sockets in this process's network that listen at `address`.
#[cfg(target_os = "linux")]
fn listeners(address: SocketAddr) -> BTreeSet<String> {
    const LISTENS: &str = "0A";
    let SocketAddr::V4(address) = address else { panic!("{address} is in another file") };
    let local = format!("{:08X}:{:04X}", u32::from_ne_bytes(address.ip().octets()), address.port());
    let sockets = fs::read_to_string("/proc/self/net/tcp").unwrap();
    let listening = sockets.lines().filter_map(|line| {
        let columns: Vec<_> = line.split_whitespace().collect();
        (columns[1] == local && columns[3] == LISTENS).then(|| columns[9].to_owned())
    });
    listening.collect()
}

#[cfg(target_os = "linux")]
#[test]
fn each_core_has_its_own_listener_unless_connections_are_balanced() {
    for (cores, balanced, expected) in [(1, false, 1), (3, false, 3), (3, true, 1)] {
        let served = start(Server::bind("127.0.0.1:0").cores(cores).balanced(balanced));
        assert_eq!(listeners(served.addr()).len(), expected, "{cores} cores, balanced: {balanced}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_port_is_shared_with_another_server_if_both_share_it() {
    for (cores, first, second) in [(1, false, true), (3, false, true), (1, true, false), (3, false, false)] {
        let served = start(Server::bind("127.0.0.1:0").cores(cores).reuse_port(first));
        let address = served.addr();
        let error = Server::bind(address).cores(cores).reuse_port(second).start(who).unwrap_err().to_string();
        assert!(error.starts_with(&format!("cannot listen on {address}: ")), "{error}");
        assert_eq!(listeners(address).len(), cores, "{first}, {second}");
    }
    let served = start(Server::bind("127.0.0.1:0"));
    Server::bind(served.addr()).start(who).expect_err("by default, a port is not shared");
    for cores in [1, 3] {
        let served = start(Server::bind("127.0.0.1:0").cores(cores).reuse_port(true));
        let address = served.addr();
        let of_the_first = listeners(address);
        assert_eq!(of_the_first.len(), cores);
        drop(start(Server::bind(address).cores(cores).reuse_port(true)));
        // A program that another test is just starting may hold its sockets for a moment.
        eventually_eq(|| listeners(address), of_the_first);
        check(TcpStream::connect(address).unwrap(), "127.0.0.1");
    }
}

/// An address overlaps with the one for all of them, and `::ffff:a.b.c.d` is `a.b.c.d`.
#[cfg(target_os = "linux")]
#[test]
fn a_port_is_shared_with_servers_at_other_addresses_if_both_share_it() {
    for (first, second, overlap) in [
        ("127.0.0.1", "0.0.0.0", true),
        ("0.0.0.0", "127.0.0.1", true),
        ("0.0.0.0", "127.0.0.2", true),
        ("127.0.0.1", "::ffff:127.0.0.1", true),
        ("127.0.0.1", "::", true),
        ("::", "127.0.0.1", true),
        ("::", "0.0.0.0", true),
        ("127.0.0.1", "127.0.0.2", false),
    ] {
        // Something else may have the port at the second address, but not five times.
        let is_refused = (0..5).all(|_| {
            let served = start(Server::bind((first, 0)).cores(1));
            Server::bind((second, served.addr().port())).cores(1).reuse_port(true).start(who).is_err()
        });
        assert_eq!(is_refused, overlap, "{first}, {second}");
    }
}

/// How many of six connections are established while the only core is busy.
#[cfg(target_os = "linux")]
fn queued(set: impl FnOnce(Server) -> Server) -> usize {
    let (busy, done) = (Arc::new(Barrier::new(2)), Arc::new(Barrier::new(2)));
    let (at_work, ends) = (Arc::clone(&busy), Arc::clone(&done));
    let works = move |_: &mut Context| {
        at_work.wait();
        ends.wait();
    };
    let served = Served::with(set, works);
    let mut first = served.connect();
    first.send(GET);
    busy.wait();
    let connect = || TcpStream::connect_timeout(&served.addr(), Duration::from_millis(100)).ok();
    let queued: Vec<_> = (0..6).map_while(|_| connect()).collect();
    done.wait();
    assert_eq!(status(&first.receive_all()), 200);
    queued.len()
}

#[cfg(target_os = "linux")]
#[test]
fn the_backlog_bounds_how_many_wait_to_be_accepted() {
    assert_eq!(queued(|server| server), 6);
    // The system rounds up a little.
    assert!((1..=3).contains(&queued(|server| server.backlog(1))));
}

/// Checks that such a server can be reached at `hosts`, and not at `strangers`.
#[track_caller]
fn check_listens(bind: impl Fn() -> Server, hosts: &[&str], strangers: &[&str]) {
    let served = start(bind());
    for host in hosts.iter().filter(|host| has_ipv6() || !host.contains(':')) {
        check(TcpStream::connect((*host, served.addr().port())).unwrap(), host);
    }
    for host in strangers {
        // Another program may have the same port there, but hardly three times.
        let is_refused = || TcpStream::connect((*host, start(bind()).addr().port())).is_err();
        assert!((0..3).any(|_| is_refused()), "{host}");
    }
}

#[test]
fn an_address_is_of_one_family_or_of_both() {
    for cores in [1, 2] {
        let bind = |address: &str| Server::bind(address).cores(cores);
        check_listens(|| bind("127.0.0.1:0"), &["127.0.0.1"], &["127.0.0.2", "::1"]);
        check_listens(|| bind("0.0.0.0:0"), &["127.0.0.1", "127.0.0.1"], &["::1"]);
        check_listens(|| bind("[::]:0"), &["127.0.0.1", "::1"], &[]);
        check_listens(|| bind(":0"), &["127.0.0.1", "::1"], &[]);
        if has_ipv6() {
            check_listens(|| bind("[::1]:0"), &["::1"], &["127.0.0.1"]);
            check_listens(|| bind("[::]:0").dual_stack(false), &["::1"], &["127.0.0.1"]);
        }
        check_listens(|| Server::new().and_bind(SocketAddr::from(([127, 0, 0, 1], 0))), &["127.0.0.1"], &[]);
    }
}

#[test]
fn a_running_server_tells_all_its_addresses() {
    let served = start(Server::bind("localhost:0").and_bind("127.0.0.1:0").and_bind(MemoryListener::new()));
    let addresses = served.running.addresses();
    assert_eq!(served.addr().to_string(), addresses[0].to_string());
    for address in addresses {
        match address {
            Address::Tcp(address) => check(TcpStream::connect(address).unwrap(), &address.ip().to_string()),
            other => assert_eq!(other.to_string(), "memory"),
        }
    }
    let urls: Vec<_> = addresses
        .iter()
        .filter(|it| matches!(it, Address::Tcp(_)))
        .map(|it| format!("http://{it}"))
        .collect();
    assert_eq!(served.running.to_string(), urls.join(", "));
    assert_eq!(start(Server::bind(MemoryListener::new())).running.to_string(), "no address");
    let nowhere = Server::new().start(who).unwrap_err();
    assert!(nowhere.to_string().contains("no address"), "{nowhere}");
}

/// How many connections each core has had.
fn accepted(served: &Served) -> Vec<u64> {
    served.running.counts().cores.iter().map(|core| core.accepted).collect()
}

#[test]
fn an_open_listener_is_served_by_all_cores() {
    for cores in [1, 2, 3] {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        // A peer that has come before the server is served, too.
        let first = TcpStream::connect(address).unwrap();
        let served = start(Server::bind(listener).cores(cores).tcp_keepalive(Duration::from_secs(60)));
        assert_eq!((served.addr(), served.running.addresses().len()), (address, 1));
        let others = [(); 5].map(|()| TcpStream::connect(address).unwrap());
        eventually("all have come in", || accepted(&served).iter().sum::<u64>() == 6);
        assert!(accepted(&served).iter().all(|count| *count == 6 / cores as u64), "{:?}", accepted(&served));
        others.into_iter().chain([first]).for_each(|stream| check(stream, "127.0.0.1"));
        drop(served);
        assert_eq!(TcpStream::connect(address).unwrap_err().kind(), ErrorKind::ConnectionRefused);
        drop(TcpListener::bind(address).unwrap());
    }
}

#[cfg(unix)]
#[test]
fn a_bound_socket_is_made_to_listen_and_one_that_cannot_is_an_error() {
    use std::os::fd::OwnedFd;
    use std::os::unix::net::UnixListener;
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    socket.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
    let served = start(Server::bind(TcpListener::from(socket)).cores(2));
    let stream = TcpStream::connect(served.addr()).unwrap();
    let local = stream.local_addr().unwrap();
    let connected = TcpListener::from(OwnedFd::from(stream));
    let error = Server::bind(connected).cores(2).start(who).unwrap_err().to_string();
    assert!(error.starts_with(&format!("cannot listen on {local}: ")), "{error}");
    let file = TcpListener::from(OwnedFd::from(File::open("/dev/null").unwrap()));
    let error = Server::bind(file).start(who).unwrap_err().to_string();
    assert!(error.starts_with("cannot listen on a socket without an address: "), "{error}");
    // A server on such a socket would drop each connection.
    let tcp = UnixListener::from(OwnedFd::from(TcpListener::bind("127.0.0.1:0").unwrap()));
    let error = Server::bind(tcp).start(who).unwrap_err().to_string();
    assert!(error.starts_with("cannot listen on a socket without a path: "), "{error}");
    check(TcpStream::connect(served.addr()).unwrap(), "127.0.0.1");
}

#[cfg(unix)]
#[test]
fn an_open_unix_listener_keeps_its_file() {
    use std::os::unix::net::{UnixListener, UnixStream};
    let dir = TempDir::new().unwrap();
    let path = &dir.path().join("socket");
    for cores in [1, 2] {
        let served = start(Server::bind(UnixListener::bind(path).unwrap()).cores(cores));
        let addresses = served.running.addresses().iter().map(ToString::to_string);
        assert_eq!(addresses.collect::<Vec<_>>(), [format!("unix:{}", path.display())]);
        for _ in 0..5 {
            check(UnixStream::connect(path).unwrap(), "unix");
        }
        drop(served);
        assert_eq!(UnixStream::connect(path).unwrap_err().kind(), ErrorKind::ConnectionRefused);
        fs::remove_file(path).unwrap();
    }
}

#[cfg(unix)]
#[test]
fn unix_sockets_come_and_go_with_their_server() {
    use std::os::unix::net::{UnixListener, UnixStream};
    let dir = TempDir::new().unwrap();
    let path = &dir.path().join("socket");
    // A socket that a dead process has left there is replaced.
    drop(UnixListener::bind(path).unwrap());
    for cores in [1, 2] {
        let served = start(Server::bind(path.as_path()).cores(cores));
        for _ in 0..10 {
            check(UnixStream::connect(path).unwrap(), "unix");
        }
        assert_eq!(served.running.addresses()[0].to_string(), format!("unix:{}", path.display()));
        assert_eq!(served.running.to_string(), format!("unix:{}", path.display()));
        drop(served);
        assert!(!path.exists());
    }
}

/// With the umask alone, a proxy in front could connect only as the same user.
#[cfg(unix)]
#[test]
fn a_unix_socket_has_the_mode_that_was_set() {
    use std::os::unix::fs::PermissionsExt;
    use std::os::unix::net::UnixStream;
    let dir = TempDir::new().unwrap();
    let path = &dir.path().join("socket");
    for mode in [0o600, 0o660, 0o666, 0o777] {
        let served = start(Server::bind(path.as_path()).cores(1).unix_mode(mode));
        assert_eq!(fs::symlink_metadata(path).unwrap().permissions().mode() & 0o7777, mode);
        check(UnixStream::connect(path).unwrap(), "unix");
        drop(served);
    }
}

#[cfg(unix)]
#[test]
fn a_peer_of_a_unix_socket_has_credentials() {
    use std::os::unix::fs::MetadataExt;

    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("socket");
    let own = std::fs::metadata(dir.path()).unwrap();
    let (sender, seen) = std::sync::mpsc::channel();
    let running = Server::new()
        .and_bind(path.as_path())
        .and_bind("127.0.0.1:0")
        .cores(1)
        .on_connect(move |conn| sender.send(conn.peer_credentials()).unwrap())
        .start(|ctx: &mut Context| ctx.response.set_text(format!("{:?}", ctx.peer_credentials())))
        .unwrap();
    let text = |client: Client| {
        let url = format!("http://{}/", running.local_addr());
        block_on(async { client.get(&url).await.unwrap().text().unwrap().to_owned() }).unwrap()
    };
    let told = text(Client::builder().connect_to(path.as_path()).build());
    let found = seen.recv().unwrap().unwrap();
    assert_eq!((found.uid, found.gid), (own.uid(), own.gid()));
    assert!(found.pid.is_none_or(|pid| pid as u32 == std::process::id()));
    assert_eq!(told, format!("{:?}", Some(found)));
    assert_eq!((text(Client::new()).as_str(), seen.recv().unwrap()), ("None", None));
}

#[cfg(unix)]
#[test]
fn a_unix_socket_that_is_in_use_is_an_error() {
    use std::os::unix::net::UnixStream;
    let dir = TempDir::new().unwrap();
    let path = &dir.path().join("socket");
    let text = format!("unix:{}", path.display());
    let _served = start(Server::bind(&text));
    let error = Server::bind(&text).start(who).unwrap_err();
    assert!(error.to_string().contains(&text), "{error}");
    check(UnixStream::connect(path).unwrap(), "unix");
    let precious = &dir.path().join("precious");
    fs::write(precious, "precious").unwrap();
    Server::bind(precious.as_path()).start(who).unwrap_err();
    assert_eq!(fs::read_to_string(precious).unwrap(), "precious");
}

/// Sends a request over memory, in a runtime of its own.
fn ask_over(connector: &MemoryConnector) -> io::Result<String> {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        let mut stream = connector.connect().await?;
        stream.write_all(GET).await?;
        let mut received = String::new();
        stream.read_to_string(&mut received).await?;
        Ok(received)
    })
}

#[test]
fn memory_connections_come_from_any_thread_to_any_core() {
    for (cores, balanced) in [(1, false), (2, false), (2, true)] {
        let listener = MemoryListener::new();
        let connector = listener.connector();
        let served = start(Server::bind(listener).cores(cores).balanced(balanced));
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..25 {
                        assert!(ask_over(&connector).unwrap().ends_with("\r\n\r\nmemory"));
                    }
                });
            }
        });
        served.running.stop(Duration::from_secs(60));
        served.running.wait().unwrap();
        assert_eq!(served.running.counts().total.requests, 100);
        // A server that has stopped refuses connections.
        assert_eq!(ask_over(&connector).unwrap_err().kind(), ErrorKind::ConnectionRefused);
    }
}

#[test]
fn balanced_connections_are_spread_evenly() {
    let served = start(Server::bind("127.0.0.1:0").and_bind("127.0.0.1:0").cores(2).balanced(true));
    let open = || served.running.counts().cores.iter().map(|core| core.open).collect::<Vec<_>>();
    let mut peers: Vec<_> = (0..64).map(|_| served.connect()).collect();
    eventually_eq(open, [32, 32]);
    // A peer that leaves makes room on its core.
    for _ in 0..16 {
        drop(peers.swap_remove(0));
        eventually("one has gone", || open().iter().sum::<u64>() == 63);
        peers.push(served.connect());
        eventually_eq(open, [32, 32]);
    }
}

/// The system chooses by a hash of the addresses, which has no eye for those that are open.
#[test]
fn a_core_that_has_clearly_more_connections_gives_new_ones_away() {
    for _ in 0..8 {
        let served = start(Server::bind("127.0.0.1:0").cores(2));
        let mut peers = Vec::new();
        for count in 1..=32 {
            let mut peer = served.connect();
            peer.send("GET / HTTP/1.1\r\nhost: a\r\n\r\n");
            peer.receive();
            peers.push(peer);
            let open = served.running.counts().cores.iter().map(|core| core.open).collect::<Vec<_>>();
            let (least, most) = (open.iter().min().unwrap(), open.iter().max().unwrap());
            assert_eq!(least + most, count);
            assert!(*most <= least * 5 / 4 + 1, "{open:?}");
        }
    }
}

/// Closed connections of a core's own listener must not count as open, or all new ones would go to the first core.
#[cfg(target_os = "linux")]
#[test]
fn what_one_listener_balances_is_spread_evenly_beside_others() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("socket");
    let served = start(Server::bind("127.0.0.1:0").and_bind(format!("unix:{}", path.display())).cores(2));
    let open = || served.running.counts().cores.iter().map(|core| core.open).collect::<Vec<_>>();
    for _ in 0..64 {
        served.ask("GET / HTTP/1.0\r\n\r\n");
    }
    eventually_eq(open, [0, 0]);
    let connect = |_| std::os::unix::net::UnixStream::connect(&path).unwrap();
    let _peers: Vec<_> = (0..16).map(connect).collect();
    eventually_eq(open, [8, 8]);
}

#[cfg(target_os = "linux")]
#[test]
fn pinned_threads_stay_on_one_core_each() {
    let cpus = |ctx: &mut Context| {
        let status = fs::read_to_string("/proc/thread-self/status").unwrap();
        let allowed = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
        ctx.response.set_text(allowed.unwrap().trim());
    };
    let all = core_affinity::get_core_ids().unwrap().len();
    for (pinned, expected) in [(true, all.min(2)), (false, 1)] {
        let server = Server::bind("127.0.0.1:0").cores(2).balanced(true).pinned(pinned);
        let served = Served { running: server.start(cpus).unwrap() };
        let mut peers = [(); 2].map(|()| served.connect());
        let mut received = peers.each_mut().map(|peer| {
            peer.send("GET / HTTP/1.1\r\nhost: a\r\n\r\n");
            peer.receive().rsplit("\r\n").next().unwrap().to_owned()
        });
        received.sort();
        let distinct = received.iter().collect::<BTreeSet<_>>().len();
        assert_eq!(distinct, expected, "{received:?}");
        assert!(!pinned || received.iter().all(|cpus| cpus.parse::<usize>().is_ok()), "{received:?}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_server_without_descriptors_waits_until_there_are_some() {
    alone("stop::runtime::a_server_without_descriptors_waits_until_there_are_some", || {
        let reports = ErrorReports::default();
        let served = start(reports.attach(Server::bind("127.0.0.1:0").cores(1)));
        let keep_alive = "GET / HTTP/1.1\r\nhost: a\r\n\r\n";
        let mut early = served.connect();
        early.send(keep_alive);
        early.receive();
        rlimit::setrlimit(rlimit::Resource::NOFILE, 64, 64).unwrap();
        let mut files = use_up_descriptors();
        files.pop();
        // The peer takes the last descriptor, and the server has none to accept it with.
        let mut late = served.connect();
        late.send(GET);
        let (spent, start) = (ProcessTime::now(), Instant::now());
        while start.elapsed() < Duration::from_millis(200) {
            early.send(keep_alive);
            assert_eq!(status(&early.receive()), 200);
            thread::sleep(Duration::from_millis(10));
        }
        assert!(spent.elapsed() < Duration::from_millis(100), "{:?} is a busy loop", spent.elapsed());
        let counted = served.running.counts().total;
        assert_eq!((counted.accepted, counted.errors.accept > 0), (1, true));
        // The pause grows to a second, and seven shorter ones precede that.
        let failed_max = 8 + start.elapsed().as_secs();
        assert!(counted.errors.accept <= failed_max, "{} of {failed_max}", counted.errors.accept);
        // The first is reported, and another once a second has passed; the others are only counted.
        let (reported, reports_max) = (reports.take(), 2 + start.elapsed().as_secs());
        assert!((1..=reports_max).contains(&(reported.len() as u64)), "{} of {reports_max}", reported.len());
        assert!(counted.errors.accept > reported.len() as u64, "{counted:?}");
        for (status, cause) in reported {
            assert!(status == 0 && cause.starts_with("no connection could be accepted: "), "{cause}");
            assert!(cause.contains("os error 24"), "{cause}");
        }
        files.clear();
        assert_eq!(status(&late.receive_all()), 200);
        check(served.connect().stream, "127.0.0.1");
    });
}

/// Idle connections close for those that wait to be accepted: the longest silent first, and none that is busy.
#[cfg(target_os = "linux")]
#[test]
fn idle_connections_make_room_when_there_is_no_descriptor() {
    alone("stop::runtime::idle_connections_make_room_when_there_is_no_descriptor", || {
        let served = start(Server::bind("127.0.0.1:0").cores(1));
        let ask = |peer: &mut Peer| {
            peer.send("GET / HTTP/1.1\r\nhost: a\r\n\r\n");
            assert_eq!(status(&peer.receive()), 200);
        };
        let idle = || {
            let mut peer = served.connect();
            ask(&mut peer);
            peer
        };
        let mut busy = served.connect();
        busy.send("POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 2\r\nconnection: close\r\n\r\n1");
        let old = Vec::from_iter((0..32).map(|_| idle()));
        // The clock of a server goes on four times a second.
        thread::sleep(Duration::from_millis(300));
        let mut recent = Vec::from_iter((0..8).map(|_| idle()));
        thread::sleep(Duration::from_millis(600));
        rlimit::setrlimit(rlimit::Resource::NOFILE, 256, 256).unwrap();
        let mut files = use_up_descriptors();
        files.pop();
        let (mut late, start) = (served.connect(), Instant::now());
        late.send(GET);
        assert_eq!(status(&late.receive_all()), 200);
        assert!(start.elapsed() < Duration::from_millis(500), "{:?}", start.elapsed());
        assert_eq!(served.running.counts().total.errors.accept, 1);
        let closed = old.iter().filter(|peer| {
            peer.stream.set_nonblocking(true).unwrap();
            peer.stream.peek(&mut [0]).is_ok_and(|received| received == 0)
        });
        assert!((31..=32).contains(&closed.count()));
        recent.iter_mut().for_each(ask);
        busy.send("2");
        assert_eq!(status(&busy.receive_all()), 200);
        drop(files);
    });
}

/// Each step of the start lacks a descriptor once, and none is kept.
#[cfg(target_os = "linux")]
#[test]
fn a_server_without_descriptors_does_not_start() {
    alone("stop::runtime::a_server_without_descriptors_does_not_start", || {
        let directory = TempDir::new().unwrap();
        rlimit::setrlimit(rlimit::Resource::NOFILE, 64, 64).unwrap();
        let (mut files, mut failures) = (use_up_descriptors(), 0);
        let all = files.len();
        let running = loop {
            let server = Server::bind("127.0.0.1:0").and_bind(directory.path().join("socket")).cores(2);
            match server.start(who) {
                Ok(running) => break running,
                Err(error) => {
                    let error = error.to_string();
                    let is_clear =
                        ["os error 24", "lack of descriptors"].iter().any(|part| error.contains(part));
                    assert!(is_clear, "{error}");
                }
            }
            failures += 1;
            files.pop().unwrap();
        };
        assert!(failures > 4, "{failures}");
        running.stop(Duration::ZERO);
        running.wait().unwrap();
        drop(files);
        // tokio keeps two for signals.
        assert_eq!(use_up_descriptors().len(), all - 2);
    });
}

/// Options without a field are set on each socket, before it listens.
#[cfg(target_os = "linux")]
#[test]
fn an_application_sets_options_of_its_own_before_its_sockets_listen() {
    use std::os::fd::BorrowedFd;

    use nix::sys::socket::{GetSockOpt, SetSockOpt};
    use nix::{getsockopt_impl, setsockopt_impl, sockopt_impl};
    use socket2::SockRef;

    sockopt_impl!(DeferAccept, Both, libc::IPPROTO_TCP, libc::TCP_DEFER_ACCEPT, u32);
    sockopt_impl!(FastOpen, Both, libc::IPPROTO_TCP, libc::TCP_FASTOPEN, u32);

    let sockets = Arc::<Mutex<Vec<_>>>::default();
    let noted = sockets.clone();
    let set = move |socket: BorrowedFd<'_>| {
        assert!(!SockRef::from(&socket).is_listener()?);
        DeferAccept.set(&socket, &60)?;
        FastOpen.set(&socket, &77)?;
        noted.lock().unwrap().push(socket.try_clone_to_owned()?);
        Ok(())
    };
    let served = Served::with(|server| server.cores(2).on_listen(set), who);
    let sockets = sockets.lock().unwrap();
    assert_eq!(sockets.len(), 2);
    for socket in &*sockets {
        assert!(SockRef::from(socket).is_listener().unwrap());
        assert!(DeferAccept.get(socket).unwrap() >= 60);
        assert_eq!(FastOpen.get(socket), Ok(77));
    }
    // A silent peer is connected, and not accepted before it sends something.
    let mut silent = served.connect();
    check(served.connect().stream, "127.0.0.1");
    assert_eq!(served.running.counts().total.accepted, 1);
    silent.send(GET);
    assert_eq!(status(&silent.receive_all()), 200);
    assert_eq!(served.running.counts().total.accepted, 2);
}

/// A handler that needs a descriptor of its own fails, and is answered for; once there are some, all goes on.
#[cfg(all(target_os = "linux", feature = "fs"))]
#[test]
fn handlers_without_descriptors_fail_until_there_are_some() {
    alone("stop::runtime::handlers_without_descriptors_fail_until_there_are_some", || {
        let behind = start(Server::bind("127.0.0.1:0").cores(1));
        let (file, port) = (tempfile::NamedTempFile::new().unwrap(), behind.addr().port());
        fs::write(file.path(), "content").unwrap();
        let (path, client) = (file.path().to_owned(), Client::new());
        let app = async move |ctx: &mut Context| -> Result {
            match ctx.request.path() {
                "/file" => ctx.send_file(&path).await,
                // A look-up takes descriptors, too.
                "/name" => {
                    ctx.forward(
                        client.open_call(&ctx.request.forwarded_to(&format!("http://localhost:{port}"))?),
                    )
                    .await
                }
                "/address" => {
                    ctx.forward(
                        client.open_call(&ctx.request.forwarded_to(&format!("http://127.0.0.1:{port}"))?),
                    )
                    .await
                }
                _ => Ok(()),
            }
        };
        let served = Served { running: Server::bind("127.0.0.1:0").cores(1).start(app).unwrap() };
        let mut peer = served.connect();
        let mut ask = |path| {
            peer.send(get(path));
            status(&peer.receive())
        };
        assert_eq!(ask("/"), 200);
        rlimit::setrlimit(rlimit::Resource::NOFILE, 64, 64).unwrap();
        let files = use_up_descriptors();
        let paths = ["/address", "/name", "/file"];
        for _ in 0..3 {
            let statuses = paths.map(&mut ask);
            assert!(statuses.iter().all(|status| (500..=504).contains(status)), "{statuses:?}");
            assert_eq!(ask("/"), 200);
        }
        drop(files);
        assert_eq!(paths.map(&mut ask), [200; 3]);
        assert_eq!(served.running.counts().total.open, 1);
    });
}

/// The counts of a server after `talk`, when all peers are gone.
fn counts(set: impl FnOnce(Server) -> Server, talk: impl FnOnce(&Served)) -> CoreCounts {
    let app = async |ctx: &mut Context| -> Result {
        match ctx.request.path() {
            "/fail" => return Err(Error::new(Status::CONFLICT, "it is taken")),
            "/panic" => std::panic::resume_unwind(Box::new("quietly")),
            "/read" => drop(ctx.body_reader().read_to_end(&mut Vec::new()).await?),
            "/write" => {
                let mut out = ctx.body_writer().await?;
                loop {
                    out.write_all(&[0; 1 << 16]).await?;
                }
            }
            _ => ctx.response.set_text("fine"),
        }
        Ok(())
    };
    let plan = |request: &Request| match request.path() {
        "/refuse" => BodyPlan::Refuse(Status::FORBIDDEN),
        "/read" => BodyPlan::Stream,
        _ => BodyPlan::Buffer,
    };
    let served = Served::with(set, wrap(middleware::plan(plan), app));
    talk(&served);
    eventually("all have gone", || served.running.counts().total.open == 0);
    let stats = served.running.counts();
    let mut sum = CoreCounts::default();
    stats.cores.iter().for_each(|core| sum += core);
    assert_eq!(stats.total, sum);
    stats.total
}

#[test]
fn requests_connections_and_bytes_are_counted() {
    for cores in [1, 2] {
        let (mut said, mut received) = (0, 0);
        let counted = counts(
            |server| server.cores(cores),
            |served| {
                for _ in 0..5 {
                    let wire = "POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 3\r\n\r\nabc".repeat(3);
                    said += wire.len() as u64;
                    received += served.ask(wire).len() as u64;
                }
            },
        );
        assert_eq!(
            (counted.accepted, counted.requests, counted.errors.overload, counted.aborted),
            (5, 15, 0, 0)
        );
        assert_eq!(
            (counted.received, counted.sent, counted.errors),
            (said, received, ErrorCounts::default())
        );
    }
}

/// Traffic counts while an exchange goes on, and also if its connection is cut.
#[test]
fn bytes_are_counted_while_they_flow_and_when_they_are_cut() {
    let (mut near, far) = tokio::io::duplex(64);
    let source = Mutex::new(Some(far));
    let app = async move |ctx: &mut Context| -> Result {
        if ctx.request.path() == "/source" {
            ctx.response.body.set_stream(source.lock().unwrap().take().expect("it is asked once"), None);
            return Ok(());
        }
        let (mut body, mut out) = ctx.duplex().await?;
        while let Some(chunk) = body.chunk().await? {
            out.write_all(chunk).await?;
        }
        Ok(out.finish().await?)
    };
    let plan = |request: &Request| match request.path() {
        "/buffered" => BodyPlan::Buffer,
        _ => BodyPlan::Stream,
    };
    let served = Served::new(wrap(middleware::plan(plan), app));
    let mut peers = ["/source", "/echo", "/buffered", "/half-a-head"].map(|_| served.connect());
    let post = |path: &str| format!("POST {path} HTTP/1.1\r\nhost: a\r\ncontent-length: 9\r\n\r\nhello");
    let said =
        ["GET /source HTTP/1.1\r\nhost: a\r\n\r\n".into(), post("/echo"), post("/buffered"), "GET /h".into()];
    peers.iter_mut().zip(&said).for_each(|(peer, said)| peer.send(said));
    paused(near.write_all(b"sourced")).unwrap();
    let received =
        peers[0].receive_through("sourced\r\n").len() + peers[1].receive_through("hello\r\n").len();
    let counts = || {
        let stats = served.running.counts().total;
        (stats.received as usize, stats.sent as usize)
    };
    let in_all = said.iter().map(String::len).sum::<usize>();
    eventually("they are counted", || counts() == (in_all - said[3].len(), received));
    served.running.stop(Duration::ZERO);
    served.running.wait().unwrap();
    assert_eq!((counts(), served.running.counts().total.aborted), ((in_all, received), 4));
}

/// Checks that the error in `talk` is counted once, under `kind`.
#[track_caller]
fn check_error(kind: fn(&mut ErrorCounts) -> &mut u64, talk: impl FnOnce(&Served)) {
    let mut expected = ErrorCounts::default();
    *kind(&mut expected) = 1;
    assert_eq!(counts(|server| server, talk).errors, expected);
}

#[test]
fn errors_are_counted_by_kind() {
    check_error(|errors| &mut errors.wire, |served| assert_eq!(status(&served.ask("bad\r\n")), 400));
    check_error(|errors| &mut errors.incomplete, |served| assert_eq!(status(&served.ask("GET / HT")), 400));
    check_error(|errors| &mut errors.rejected, |served| assert_eq!(status(&served.ask(get("/fail"))), 409));
    check_error(|errors| &mut errors.panic, |served| assert_eq!(status(&served.ask(get("/panic"))), 500));
    check_error(|errors| &mut errors.refused, |served| assert_eq!(status(&served.ask(get("/refuse"))), 403));
    check_error(
        |errors| &mut errors.io,
        |served| {
            let mut peer = served.connect();
            peer.send("POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 3\r\n\r\n");
            eventually("the head is there", || served.running.counts().total.requests == 1);
            peer.reset();
            eventually("it is noticed", || served.running.counts().total.errors.io == 1);
        },
    );
    check_error(
        |errors| &mut errors.incomplete,
        |served| {
            let cut = "POST /read HTTP/1.1\r\nhost: a\r\ncontent-length: 3\r\n\r\nab";
            assert_eq!(status(&served.ask(cut)), 400);
        },
    );
    check_error(
        |errors| &mut errors.wire,
        |served| {
            let odd =
                "POST /read HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n+1\r\na\r\n0\r\n\r\n";
            assert_eq!(status(&served.ask(odd)), 400);
        },
    );
    check_error(
        |errors| &mut errors.io,
        |served| {
            let mut peer = served.connect();
            peer.send(get("/write"));
            eventually("it is asked", || served.running.counts().total.requests == 1);
            peer.reset();
        },
    );
    let none = Limits { connections_max: 0, ..Limits::default() };
    let counted =
        counts(|server| server.limits(none), |served| assert_eq!(status(&served.ask(get("/"))), 503));
    assert_eq!((counted.accepted, counted.errors.overload), (1, 1));
}
