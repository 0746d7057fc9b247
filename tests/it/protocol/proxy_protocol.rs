//! The PROXY protocol on a server: whose header counts, what it changes, and headers that are refused.

use std::io::Write;
use std::net::TcpStream;
use std::time::Duration;

use corehttp::client::HealthCheck;
use corehttp::proxy_protocol::{ProxyHeader, ProxyProtocol, ProxyVersion};
use corehttp::server::ExchangeReport;
use corehttp::{
    Client, Context, Limits, PeerAddr, Request, Response, Server, Timeouts, TrustedProxies, block_on,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};
use tokio::time::sleep;

use crate::support::{ErrorReports, Peer, Served, eventually, paused, status};

const LAST: &str = "GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n";
const GET: &str = "GET / HTTP/1.1\r\nhost: a\r\n\r\n";

/// Answers with the address of the peer, and those of the header.
fn tell(ctx: &mut Context) {
    let header = ctx.proxy_header();
    let told = header.as_ref().map(|header| (header.source(), header.destination()));
    ctx.response.set_text(format!("{} {told:?}", ctx.peer_addr()));
}

fn required() -> ProxyProtocol {
    ProxyProtocol::required(|ip| ip.is_loopback())
}

fn optional() -> ProxyProtocol {
    ProxyProtocol::optional(|ip| ip.is_loopback())
}

fn served(proxy_protocol: ProxyProtocol) -> (Served, ErrorReports) {
    let reports = ErrorReports::default();
    let served = Served::with(|server| reports.attach(server).proxy_protocol(proxy_protocol), tell);
    (served, reports)
}

fn header(source: [u8; 4]) -> ProxyHeader {
    ProxyHeader::new((source, 4711).into(), ([10, 0, 0, 1], 443).into())
}

/// Bytes that the server has not read turn its close into a reset.
fn is_unanswered(received: &str) -> bool {
    received.is_empty() || received == "<ConnectionReset>"
}

const TOLD: &str = "192.0.2.1:4711 Some((Some(192.0.2.1:4711), Some(10.0.0.1:443)))";

#[test]
fn the_address_in_the_header_takes_the_place_of_the_sockets() {
    for policy in [required(), optional()] {
        let (served, reports) = served(policy);
        let header = header([192, 0, 2, 1]);
        for header in [header.to_bytes_v1(), header.to_bytes_v2()] {
            let mut peer = served.connect();
            peer.send([&header[..], GET.as_bytes()].concat());
            peer.receive_through(TOLD);
            // The header is that of the connection.
            peer.send(GET);
            peer.receive_through(TOLD);
        }
        let mut peer = served.connect();
        peer.send([&header.to_bytes_v2()[..], b"GET nonsense\r\n\r\n"].concat());
        assert_eq!(status(&peer.receive_all()), 400);
        assert_eq!(reports.take().len(), 1);
    }
}

/// The source of the header is the peer, whoever has sent the header: its fields are believed if it is a proxy's.
/// The report says what a load balancer sends that was set up before its server.
#[test]
fn a_header_that_nobody_reads_is_named() {
    let header = header([192, 0, 2, 1]);
    for header in [header.to_bytes_v1(), header.to_bytes_v2(), b"PROXY UNKNOWN\r\n".to_vec()] {
        let reports = ErrorReports::default();
        let served = Served::with(|server| reports.attach(server), tell);
        let mut peer = served.connect();
        peer.send([&header[..], GET.as_bytes()].concat());
        assert_eq!(status(&peer.receive_all()), 400);
        let cause = "the peer begins with a PROXY header, which no `Server::proxy_protocol` expects of it";
        assert_eq!(reports.take(), [(400, cause.to_owned())]);
    }
}

#[test]
fn the_address_in_the_header_is_looked_for_among_the_trusted_proxies() {
    for (networks, source, client) in [
        ("10.0.0.0/8", [10, 0, 0, 9], "192.0.2.7"),
        ("10.0.0.0/8", [192, 0, 2, 66], "192.0.2.66"),
        ("127.0.0.0/8", [192, 0, 2, 66], "192.0.2.66"),
    ] {
        let proxies = TrustedProxies::new([networks]).unwrap();
        let served = Served::with(
            |server| server.trusted_proxies(proxies).proxy_protocol(required()),
            |ctx: &mut Context| ctx.response.set_text(format!("<{}>", ctx.client_ip().unwrap())),
        );
        let request = GET.replace("\r\n\r\n", "\r\nx-forwarded-for: 192.0.2.7\r\n\r\n");
        let received = served.ask([&header(source).to_bytes_v2()[..], request.as_bytes()].concat());
        assert!(received.ends_with(&format!("<{client}>")), "{networks} {source:?}: {received}");
    }
}

#[test]
fn the_address_stands_in_reports() {
    let (sender, seen) = std::sync::mpsc::channel();
    let served = Served::with(
        |server| {
            let server = server.on_error(move |report| sender.send(report.to_string()).unwrap());
            server.proxy_protocol(required())
        },
        tell,
    );
    let mut peer = served.connect();
    peer.send([&header([192, 0, 2, 1]).to_bytes_v1()[..], b"nonsense\r\n\r\n"].concat());
    peer.receive_all();
    let report = seen.recv().unwrap();
    assert!(report.starts_with("400 Bad Request to 192.0.2.1:4711"), "{report}");
}

/// Also behind an upgrade, which takes the connection out of its exchange.
#[test]
fn the_header_is_shown_in_reports_of_exchanges() {
    let (sender, seen) = std::sync::mpsc::channel();
    let report = move |report: &ExchangeReport| {
        let header = report.proxy_header();
        let told = header.map(|header| (header.source(), header.unique_id().map(<[u8]>::to_vec)));
        sender.send(format!("{told:?}")).unwrap();
    };
    let upgrade = async |ctx: &mut Context| -> corehttp::Result {
        if ctx.request.path() == "/upgrade" {
            drop(ctx.upgrade("echo").await?);
        }
        Ok(())
    };
    let served = Served::with(|server| server.on_exchange(report).proxy_protocol(optional()), upgrade);
    let mut header = header([192, 0, 2, 1]).to_bytes_v2();
    header.extend_from_slice(b"\x05\0\x02id");
    header[15] += 5;
    let upgrade = "GET /upgrade HTTP/1.1\r\nhost: a\r\nconnection: upgrade\r\nupgrade: echo\r\n\r\n";
    for wire in [LAST, upgrade] {
        served.ask([&header[..], wire.as_bytes()].concat());
        assert_eq!(seen.recv().unwrap(), "Some((Some(192.0.2.1:4711), Some([105, 100])))", "{wire}");
    }
    served.ask(LAST);
    assert_eq!(seen.recv().unwrap(), "None");
}

/// Packets end anywhere.
#[test]
fn a_header_may_come_in_pieces() {
    let header = header([192, 0, 2, 1]);
    for header in [header.to_bytes_v1(), header.to_bytes_v2()] {
        let wire = [&header[..], LAST.as_bytes()].concat();
        paused(async {
            let service = Server::new().proxy_protocol(required()).service(tell);
            for cut in 1..=header.len() {
                let (mut near, far) = duplex(1 << 16);
                let from = std::net::SocketAddr::from(([127, 0, 0, 1], 1)).into();
                let talk = async {
                    near.write_all(&wire[..cut]).await.unwrap();
                    sleep(Duration::from_secs(1)).await;
                    near.write_all(&wire[cut..]).await.unwrap();
                    let mut received = String::new();
                    near.read_to_string(&mut received).await.unwrap();
                    assert!(received.ends_with(TOLD), "cut at {cut}: {received}");
                };
                tokio::join!(service.serve_connection_from(from, far), talk).0.unwrap();
            }
        });
    }
}

#[test]
fn a_truncated_header_is_malformed_or_late() {
    let header = header([192, 0, 2, 1]);
    for wire in [header.to_bytes_v1(), header.to_bytes_v2()] {
        for cut in 1..wire.len() {
            let (served, reports) = served(required());
            assert_eq!(served.ask(&wire[..cut]), "", "cut at {cut}");
            assert_eq!(reports.take(), [(0, "the PROXY header is malformed".into())], "cut at {cut}");
        }
        // A peer that only probes the port is no error.
        let (served, reports) = served(required());
        assert_eq!(served.ask(""), "");
        assert_eq!(reports.take(), []);
        let timeouts = Timeouts { head: Duration::from_millis(100), ..Timeouts::default() };
        for policy in [required(), optional()] {
            let late =
                Served::with(|server| reports.attach(server).timeouts(timeouts).proxy_protocol(policy), tell);
            for cut in [0, 1, 11, wire.len() - 1, wire.len()] {
                let mut peer = late.connect();
                peer.send(&wire[..cut]);
                assert!(cut == wire.len() || is_unanswered(&peer.receive_all()));
            }
            eventually("all are closed", || late.running.counts().total.open == 0);
            let seen = reports.take();
            assert!(seen.iter().all(|(_, cause)| cause.contains("head")), "{seen:?}");
        }
    }
}

#[test]
fn a_source_without_a_header_is_closed_without_a_response() {
    for (wire, ends) in [
        (LAST, true),
        ("PROXY nonsense\r\n\r\n", true),
        ("\r\n\r\nGET / HTTP/1.1\r\n\r\n", true),
        ("POST / HTTP/1.1\r\nhost: a\r\n\r\n", true),
        // One that never ends is refused as soon as it is too long.
        (&format!("PROXY UNKNOWN {}", "x".repeat(200)), false),
        ("\r\n\r\n\0\r\nQUIT\n!\x11\u{7ff}", false),
    ] {
        let (served, reports) = served(required());
        let mut peer = served.connect();
        peer.send(wire);
        if ends {
            peer.end();
        }
        assert!(is_unanswered(&peer.receive_all()), "{wire}");
        assert_eq!(reports.take().len(), 1);
        assert_eq!(served.running.counts().total.errors.wire, 1);
    }
}

#[test]
fn the_header_of_another_peer_is_malformed_http() {
    let (served, _) = served(ProxyProtocol::required(|ip| !ip.is_loopback()));
    let header = header([192, 0, 2, 1]);
    for header in [header.to_bytes_v1(), header.to_bytes_v2()] {
        let refused = served.ask([&header[..], LAST.as_bytes()].concat());
        assert_eq!(status(&refused), 400, "{refused}");
    }
    assert!(served.ask(LAST).contains("127.0.0.1"));
}

/// Wherever its header ends, such a peer cannot pass for another.
#[test]
fn the_header_of_another_peer_changes_no_address() {
    let nobody = || ProxyProtocol::required(|_| false);
    let header = header([192, 0, 2, 1]);
    for header in [header.to_bytes_v1(), header.to_bytes_v2()] {
        let (served, _) = served(nobody());
        for cut in 1..=header.len() {
            let received = served.ask([&header[..cut], LAST.as_bytes()].concat());
            assert!(!received.contains("192.0.2.1"), "cut at {cut}: {received}");
            // `P`, `PR` and so on are the start of a method that nobody has heard of.
            assert!(cut < 6 || status(&received) == 400, "cut at {cut}: {received}");
            let received = served.ask(&header[..cut]);
            assert!(received.is_empty() || status(&received) == 400, "cut at {cut}: {received}");
        }
        eventually("all are closed", || served.running.counts().total.open == 0);
        assert_eq!(served.running.counts().total.accepted, 2 * header.len() as u64);
    }
}

/// A header that says less or more than it holds is refused, and none of the bytes behind it is taken for a request.
#[test]
fn a_header_that_lies_about_itself_is_malformed() {
    const V2: &[u8] = b"\r\n\r\n\0\r\nQUIT\n";
    let v2 = |rest: &[u8]| [V2, rest].concat();
    for wire in [
        b"PROXY TCP4 192.0.2.1 10.0.0.1 4711 443 1\r\n".to_vec(),
        b"PROXY TCP4 192.0.2.1 10.0.0.1 4711\r\n".to_vec(),
        b"PROXY TCP4 192.0.2.1 10.0.0.1 4711 65536\r\n".to_vec(),
        b"PROXY TCP4 192.0.2.1 10.0.0.1 -1 443\r\n".to_vec(),
        b"PROXY TCP4 2001:db8::1 ::1 4711 443\r\n".to_vec(),
        b"PROXY TCP6 192.0.2.1 10.0.0.1 4711 443\r\n".to_vec(),
        b"PROXY TCP4 a.example 10.0.0.1 4711 443\r\n".to_vec(),
        b"PROXY TCP4 192.0.2.1 10.0.0.1 4711 443\n".to_vec(),
        b"proxy TCP4 192.0.2.1 10.0.0.1 4711 443\r\n".to_vec(),
        // Of another version, of another command, with less than its addresses, and with a field that is cut.
        v2(b"\x31\x11\0\x0cabcdefghijkl"),
        v2(b"\x2f\x11\0\x0cabcdefghijkl"),
        v2(b"\x21\x11\0\x0babcdefghijk"),
        v2(b"\x21\x21\0\x0cabcdefghijkl"),
        v2(b"\x21\x11\0\x0fabcdefghijkl\x01\0\x09"),
        v2(b"\x21\x12\0\x0cabcdefghijkl"),
    ] {
        for policy in [required(), optional()] {
            let (served, reports) = served(policy);
            let received = served.ask([&wire[..], LAST.as_bytes()].concat());
            // An optional header that begins otherwise is none.
            let is_refused = is_unanswered(&received) || status(&received) == 400;
            assert!(is_refused, "{}: {received}", wire.escape_ascii());
            assert_eq!(reports.take().len(), 1, "{}", wire.escape_ascii());
        }
    }
}

#[test]
fn a_function_that_panics_names_no_source() {
    let (served, _) = served(ProxyProtocol::required(|_| panic!("this panic is part of the test")));
    assert!(served.ask(LAST).contains("127.0.0.1"));
    assert_eq!(status(&served.ask([&header([1; 4]).to_bytes_v1()[..], LAST.as_bytes()].concat())), 400);
}

#[test]
fn an_optional_header_may_be_absent() {
    let (served, reports) = served(optional());
    for wire in [LAST, "POST / HTTP/1.1\r\nhost: a\r\nconnection: close\r\ncontent-length: 1\r\n\r\nx"] {
        let received = served.ask(wire);
        assert!(received.contains("\r\n\r\n127.0.0.1:") && received.ends_with("None"), "{received}");
        // The first byte may be that of a header, and come alone.
        let mut peer = served.connect();
        peer.send(&wire[..1]);
        std::thread::sleep(Duration::from_millis(5));
        peer.send(&wire[1..]);
        assert!(peer.receive_all().ends_with("None"));
    }
    assert_eq!(reports.take(), []);
}

#[test]
fn a_proxys_own_connection_keeps_the_sockets_address() {
    let (served, reports) = served(required());
    for header in [
        "PROXY UNKNOWN\r\n",
        "\r\n\r\n\0\r\nQUIT\n\x20\0\0\0",
        "\r\n\r\n\0\r\nQUIT\n\x20\x11\0\x0cabcdefghijkl",
    ] {
        let received = served.ask(format!("{header}{LAST}"));
        assert!(received.contains("\r\n\r\n127.0.0.1:"), "{received}");
        assert!(received.ends_with("Some((None, None))"), "{received}");
        // A health check may be a connection alone.
        assert_eq!(served.ask(header), "");
    }
    assert_eq!(reports.take(), []);
}

#[test]
fn connections_are_counted_by_the_address_in_the_header() {
    let limits = Limits { connections_per_peer_max: Some(1), ..Limits::default() };
    for policy in [required(), optional()] {
        let served = Served::with(|server| server.limits(limits).proxy_protocol(policy), tell);
        let open = |source: [u8; 4]| {
            let mut peer = served.connect();
            peer.send([&header(source).to_bytes_v2()[..], GET.as_bytes()].concat());
            peer
        };
        let (mut first, mut other) = (open([192, 0, 2, 1]), open([192, 0, 2, 2]));
        first.receive_through("))");
        other.receive_through("))");
        assert_eq!(status(&open([192, 0, 2, 1]).receive_all()), 429);
        drop(first);
        eventually("its place is free", || served.running.counts().total.open == 1);
        open([192, 0, 2, 1]).receive_through("))");
    }
}

#[test]
fn a_stop_does_not_wait_for_a_header() {
    let (served, reports) = served(required());
    let mut peer = served.connect();
    peer.send("PROXY TCP4");
    eventually("it is there", || served.running.counts().total.open == 1);
    served.running.stop(Duration::from_secs(60));
    assert_eq!(peer.receive_all(), "");
    served.running.wait().unwrap();
    assert_eq!(reports.take(), []);
}

#[cfg(unix)]
#[test]
fn a_header_is_read_from_a_unix_socket_on_request() {
    let header = header([192, 0, 2, 1]).to_bytes_v1();
    let with_header = [&header[..], LAST.as_bytes()].concat();
    for (policy, wire, expected) in [
        (required(), &with_header[..], TOLD),
        (required(), LAST.as_bytes(), ""),
        (optional(), &with_header[..], TOLD),
        (optional(), LAST.as_bytes(), "None"),
        (optional(), &LAST.replace("GET", "POST").into_bytes(), "None"),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("socket");
        let running = Server::bind(path.clone())
            .cores(1)
            .proxy_protocol(policy.on_unix_sockets(true))
            .start(tell)
            .unwrap();
        for cut in [1, 5, wire.len()] {
            let mut stream = std::os::unix::net::UnixStream::connect(&path).unwrap();
            stream.write_all(&wire[..cut]).unwrap();
            std::thread::sleep(Duration::from_millis(5));
            let _ = stream.write_all(&wire[cut..]);
            let mut received = String::new();
            let _ = std::io::Read::read_to_string(&mut stream, &mut received);
            assert!(received.ends_with(expected), "cut at {cut}: {received}");
            assert_eq!(received.is_empty(), expected.is_empty(), "cut at {cut}: {received}");
        }
        running.stop(Duration::ZERO);
    }
}

/// Also on a stream of the application, which only a read can look into.
#[test]
fn an_optional_header_may_be_absent_on_any_stream() {
    let header = header([192, 0, 2, 1]).to_bytes_v1();
    for (wire, expected) in [(&[&header[..], LAST.as_bytes()].concat()[..], TOLD), (LAST.as_bytes(), "None")]
    {
        for cut in 1..=wire.len().min(20) {
            paused(async {
                let service = Server::new().proxy_protocol(optional()).service(tell);
                let (mut near, far) = duplex(1 << 16);
                let from = std::net::SocketAddr::from(([127, 0, 0, 1], 1)).into();
                let talk = async {
                    near.write_all(&wire[..cut]).await.unwrap();
                    sleep(Duration::from_secs(1)).await;
                    near.write_all(&wire[cut..]).await.unwrap();
                    let mut received = String::new();
                    near.read_to_string(&mut received).await.unwrap();
                    assert!(received.ends_with(expected), "cut at {cut}: {received}");
                };
                tokio::join!(service.serve_connection_from(from, far), talk).0.unwrap();
            });
        }
    }
}

#[cfg(feature = "tls")]
#[test]
fn a_header_comes_before_tls() {
    let secured = crate::protocol::tls::Secured::new();
    let (tls, reports) = (secured.tls.clone(), ErrorReports::default());
    let served = Served::with(|server| reports.attach(server).tls(tls).proxy_protocol(required()), tell);
    let mut stream = TcpStream::connect(served.addr()).unwrap();
    stream.write_all(&header([192, 0, 2, 1]).to_bytes_v1()).unwrap();
    let mut peer = crate::protocol::tls::secure(Peer::new(stream), secured.peer(), "a.example");
    assert_eq!(crate::protocol::tls::exchange(&mut peer).unwrap(), TOLD);
    // The failure of the handshake behind it is that of the client.
    let plain = served.ask([&header([192, 0, 2, 1]).to_bytes_v1()[..], LAST.as_bytes()].concat());
    assert_eq!((status(&plain), reports.take().len()), (400, 1));
}

/// The peer of such a connection is the proxy, on this machine, and the client may be anywhere.
#[cfg(feature = "metrics")]
#[test]
fn a_page_for_this_machine_is_not_shown_behind_a_proxy() {
    let server = Server::bind("127.0.0.1:0").cores(1).proxy_protocol(optional());
    let page = corehttp::metrics::Page::new(&corehttp::metrics::Metrics::new());
    let served = Served { running: server.start(page).unwrap() };
    for (header, expected) in [("", 200), ("PROXY UNKNOWN\r\n", 403)] {
        let mut peer = served.connect();
        peer.send(format!("{header}GET / HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n"));
        assert_eq!(status(&peer.receive_all()), expected, "{header}");
    }
}

/// The text that `client` gets.
async fn text(client: &Client, url: &str) -> String {
    client.get(url).await.unwrap().text().unwrap().to_owned()
}

#[test]
fn a_client_begins_its_connections_with_a_header() {
    let (served, reports) = served(required());
    let url = format!("http://{}/", served.addr());
    for version in [ProxyVersion::V1, ProxyVersion::V2] {
        let own = Client::builder().proxy_protocol(version).build();
        let other = own.on_behalf_of(&header([192, 0, 2, 1]), version);
        block_on(async {
            for _ in 0..2 {
                assert!(text(&own, &url).await.ends_with("Some((None, None))"));
                assert_eq!(text(&other, &url).await, TOLD);
            }
            // The health checks of a balancer are those of its own client.
            let balancer = own.balance([&url]).unwrap().health_check(HealthCheck::get("/").unwrap()).build();
            let (through, mut response) = (balancer.through(&other), Response::new());
            for (balancer, expected) in
                [(&through, TOLD), (&balancer, "Some((None, None))"), (&through, TOLD)]
            {
                balancer.send(&Request::get("/").unwrap(), &mut response).await.unwrap();
                assert!(response.text().unwrap().ends_with(expected), "{response:?}");
            }
            assert!(balancer.counts() == through.counts() && balancer.counts()[0].served == 3);
        })
        .unwrap();
        assert_eq!((other.counts().total.dials, other.counts().total.failed), (1, 0));
    }
    assert_eq!(reports.take(), []);
    // Without a header, it is closed at once, and with one that is not expected, refused.
    let asks = |client: Client, url: &str| {
        block_on(async { client.get(url).await.map(|response| response.status.as_u16()) })
    };
    assert!(asks(Client::new(), &url).unwrap().is_err());
    let plain = Served::new(tell);
    let status = asks(
        Client::builder().proxy_protocol(ProxyVersion::V2).build(),
        &format!("http://{}/", plain.addr()),
    );
    assert_eq!(status.unwrap().unwrap(), 400);
}

#[test]
fn a_gateway_passes_the_address_of_each_client_on() {
    let (behind, reports) = served(required());
    let url = format!("http://{}", behind.addr());
    let client = Client::new();
    let pass = async move |ctx: &mut Context| -> corehttp::Result {
        let client = ctx.connection_state::<Client>().unwrap();
        let onward = ctx.request.forwarded_to(&url)?;
        ctx.forward(client.open_call(&onward)).await
    };
    let front = Served::with(
        |server| {
            server.on_connect(move |conn| match (conn.peer_addr(), conn.local_addr()) {
                (PeerAddr::Tcp(peer), Some(local)) => {
                    conn.set_state(client.on_behalf_of(&ProxyHeader::new(peer, local), ProxyVersion::V2));
                }
                _ => conn.refuse(),
            })
        },
        pass,
    );
    let mut peers = [(); 3].map(|()| front.connect());
    for _ in 0..3 {
        for peer in &mut peers {
            peer.send(GET);
            let (own, there) = (peer.stream.local_addr().unwrap(), front.addr());
            peer.receive_through(&format!("{own} Some((Some({own}), Some({there})))"));
        }
    }
    // Each has a connection of its own behind the gateway, which is closed with it.
    assert_eq!(behind.running.counts().total.accepted, 3);
    drop(peers);
    eventually("the connections behind are closed", || behind.running.counts().total.open == 0);
    assert_eq!(reports.take(), []);
}

#[cfg(feature = "tls")]
#[test]
fn a_client_sends_its_header_before_tls() {
    let secured = crate::protocol::tls::Secured::new();
    let (tls, reports) = (secured.tls.clone(), ErrorReports::default());
    let served = Served::with(|server| reports.attach(server).tls(tls).proxy_protocol(required()), tell);
    let tls = corehttp::tls::ClientTls::new().dangerous().accept_any_certificate();
    let client = Client::builder().tls(tls).build().on_behalf_of(&header([192, 0, 2, 1]), ProxyVersion::V2);
    let url = format!("https://{}/", served.addr());
    block_on(async { assert_eq!(text(&client, &url).await, TOLD) }).unwrap();
    assert_eq!(reports.take(), []);
}
