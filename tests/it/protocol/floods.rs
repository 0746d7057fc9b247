//! Floods of faults that name no request: each is counted, one report a second of each kind is passed on, and the server
//! goes on.

use std::mem;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use corehttp::server::{ConnectionEnd, ErrorCause, Unopened};
use corehttp::{Context, Limits, Server, Service, Timeouts};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, duplex};
use tokio::task::{LocalSet, spawn_local};
use tokio::time::advance;

use crate::support::{Served, paused, status};

const LAST: &str = "GET / HTTP/1.1\r\nhost: a.example\r\nconnection: close\r\n\r\n";

fn app(ctx: &mut Context) -> corehttp::Result {
    match ctx.request.path() {
        "/fails" => Err(std::io::Error::other("as told").into()),
        _ => {
            ctx.response.set_text("fine.");
            Ok(())
        }
    }
}

/// The reports of a server: the cause and the number of those that were left out, and the ends of connections.
#[derive(Clone, Default)]
struct Seen(Arc<Mutex<Vec<(String, u64)>>>, Arc<Mutex<Vec<ConnectionEnd>>>);

impl Seen {
    fn attach(&self, server: Server) -> Server {
        let Seen(reports, ends) = self.clone();
        let server = server.on_disconnect(move |report| {
            assert_eq!(report.has_opened(), !is_unopened(report.end));
            ends.lock().unwrap().push(report.end);
        });
        server.on_error(move |report| {
            assert!(report.request.is_none() || report.suppressed == 0);
            let mut told = report.to_string();
            if report.suppressed > 0 {
                told.truncate(told.rfind("; ").unwrap());
                assert_eq!(report.to_string(), format!("{told}; {} more suppressed", report.suppressed));
            }
            match report.cause {
                ErrorCause::Panic => assert!(told.ends_with("a function of the application panicked")),
                _ => assert!(told.ends_with(&report.cause.to_string())),
            }
            reports.lock().unwrap().push((report.cause.to_string(), report.suppressed));
        })
    }

    fn take(&self) -> Vec<(String, u64)> {
        mem::take(&mut self.0.lock().unwrap())
    }

    fn take_ends(&self) -> Vec<ConnectionEnd> {
        mem::take(&mut self.1.lock().unwrap())
    }
}

fn is_unopened(end: ConnectionEnd) -> bool {
    matches!(end, ConnectionEnd::Unopened(_))
}

/// A peer that sends this, and then goes away, or waits until the server closes.
#[derive(Clone)]
struct Fault {
    wire: Vec<u8>,
    from: [u8; 4],
    leaves: bool,
}

const NEAR: [u8; 4] = [127, 0, 0, 1];
const FAR: [u8; 4] = [192, 0, 2, 1];

/// A peer that waits for the server to close.
fn fault(wire: impl AsRef<[u8]>) -> Fault {
    Fault { wire: wire.as_ref().to_vec(), from: NEAR, leaves: false }
}

/// So many connections of such peers, at once.
async fn flood<H: corehttp::Handler>(service: &Service<H>, count: usize, fault: &Fault) {
    let connections: Vec<_> = (0..count)
        .map(|_| {
            let (service, Fault { wire, from, leaves }) = (service.clone(), fault.clone());
            spawn_local(async move {
                let (mut near, far) = duplex(1 << 16);
                near.write_all(&wire).await.unwrap();
                let talk = async move {
                    if leaves {
                        near.shutdown().await.unwrap();
                    }
                    let _ = near.read_to_end(&mut Vec::new()).await;
                };
                let from = SocketAddr::from((from, 4711)).into();
                let _ = tokio::join!(service.serve_connection_from(from, far), talk);
            })
        })
        .collect();
    for connection in connections {
        connection.await.unwrap();
    }
}

/// Asks for a response, and returns it.
async fn ask(mut stream: impl AsyncRead + AsyncWrite + Unpin, wire: &[u8]) -> String {
    let mut received = String::new();
    stream.write_all(wire).await.unwrap();
    stream.read_to_string(&mut received).await.unwrap();
    received
}

/// Checks that of a flood one report a second is passed on, which has the number of the others; that each connection has
/// its end; and that the server then serves `good`.
#[track_caller]
fn check(
    set: impl FnOnce(Server) -> Server,
    fault: Fault,
    (cause, end): (&str, ConnectionEnd),
    good: impl AsyncFnOnce(tokio::io::DuplexStream) -> String,
) {
    let seen = Seen::default();
    paused(LocalSet::new().run_until(async {
        let service = set(seen.attach(Server::new())).service(app);
        let mut total = 0;
        for (passed, count, expected) in [
            (0, 50, Some(0)),
            (999, 50, None),
            (1, 50, Some(99)),
            (1000, 50, Some(49)),
            // Long after the flood, the next fault reports the rest of it.
            (1 << 20, 1, Some(49)),
            (1000, 1, Some(0)),
        ] {
            advance(Duration::from_millis(passed)).await;
            flood(&service, count, &fault).await;
            total += count;
            let expected = expected.into_iter().map(|suppressed| (cause.to_owned(), suppressed));
            assert_eq!(seen.take(), Vec::from_iter(expected), "after {total}");
        }
        assert_eq!(seen.take_ends(), vec![end; total]);
        let (near, far) = duplex(1 << 16);
        let from = SocketAddr::from((NEAR, 1)).into();
        let (served, received) = tokio::join!(service.serve_connection_from(from, far), good(near));
        served.unwrap();
        assert!(status(&received) == 200 && received.ends_with("fine."), "{received}");
        assert_eq!(seen.take(), []);
        assert_eq!(seen.take_ends(), [ConnectionEnd::Last]);
    }));
}

#[test]
fn a_flood_of_malformed_heads_is_reported_once_a_second() {
    for (wire, leaves, cause) in [
        ("GET / HTTP/1.1\r\nhost a\r\n\r\n", false, "a field name is malformed: `host `"),
        ("GET /\r\n\r\n", false, "the request line is malformed"),
        ("GET / HTTP/1.1\r\nho", true, "the peer closed before the message was complete"),
    ] {
        let good = async |near| ask(near, LAST.as_bytes()).await;
        check(|server| server, Fault { leaves, ..fault(wire) }, (cause, ConnectionEnd::Failed), good);
    }
}

#[test]
fn a_flood_of_panics_of_a_hook_is_reported_once_a_second() {
    let open = |connection: &mut corehttp::server::OpenedConnection<'_>| {
        if connection.peer_addr().ip() == Some(FAR.into()) {
            std::panic::resume_unwind(Box::new("quietly"));
        }
    };
    let good = async |near| ask(near, LAST.as_bytes()).await;
    let fault = Fault { from: FAR, ..fault(LAST) };
    check(|server| server.on_connect(open), fault, ("the handler panicked", ConnectionEnd::Refused), good);
}

/// Peers that send half a head are all too late at once.
#[test]
fn a_flood_of_silent_peers_is_reported_once_a_second() {
    let timeouts = Timeouts { head: Duration::from_millis(500), ..Timeouts::default() };
    let seen = Seen::default();
    paused(LocalSet::new().run_until(async {
        let service = seen.attach(Server::new()).timeouts(timeouts).service(app);
        for _ in 0..3 {
            flood(&service, 100, &fault("GET / HT")).await;
            advance(Duration::from_secs(1)).await;
        }
        let late = "the head took longer than 500 ms".to_owned();
        assert_eq!(seen.take(), [(late.clone(), 0), (late.clone(), 99), (late, 99)]);
        assert_eq!(seen.take_ends(), [ConnectionEnd::Failed; 300]);
    }));
}

/// Reports of requests are those of the application, and a flood beside them hides none.
#[test]
fn each_request_that_fails_is_reported() {
    let seen = Seen::default();
    paused(LocalSet::new().run_until(async {
        let service = seen.attach(Server::new()).service(app);
        for _ in 0..3 {
            flood(&service, 50, &fault("GET / HTTP/9.9\r\n\r\n")).await;
            flood(&service, 50, &fault(LAST.replace("/ ", "/fails "))).await;
        }
        let reports = seen.take();
        let failed = reports.iter().filter(|report| report.0 == "the handler failed: as told").count();
        assert_eq!((reports.len(), failed), (151, 150));
    }));
}

#[cfg(feature = "proxy-protocol")]
mod proxy_protocol {
    use corehttp::proxy_protocol::{ProxyHeader, ProxyProtocol};

    use super::*;

    /// Checks that such a header is reported so, once a second, where one is required of near peers.
    #[track_caller]
    fn check_header(fault: Fault, cause: &str) {
        let is_source = |ip: std::net::IpAddr| ip.is_loopback();
        let header = ProxyHeader::new((FAR, 4711).into(), ([10, 0, 0, 1], 443).into());
        let end = if fault.from == NEAR {
            ConnectionEnd::Unopened(Unopened::Handshake)
        } else {
            ConnectionEnd::Failed
        };
        for header in [header.to_bytes_v1(), header.to_bytes_v2()] {
            let good = [&header[..], LAST.as_bytes()].concat();
            let good = async move |near| ask(near, &good).await;
            let set = |server: Server| server.proxy_protocol(ProxyProtocol::required(is_source));
            check(set, fault.clone(), (cause, end), good);
        }
    }

    const MALFORMED: &str = "the PROXY header is malformed";
    const MISSING: &str = "the connection does not begin with a PROXY header";

    #[test]
    fn a_flood_of_bad_headers_is_reported_once_a_second() {
        check_header(fault(LAST), MISSING);
        for lie in [
            "PROXY TCP4 999.1.1.1 1.2.3.4 x y\r\n".into(),
            "PROXY TCP6 1.2.3.4 1.2.3.4 1 2\r\n".into(),
            format!("PROXY TCP4 {}", "1".repeat(1 << 10)),
        ] {
            check_header(fault(lie), MALFORMED);
        }
        // Version 2, for datagrams, and with a length that its addresses exceed.
        for end in [b"\x21\x12\x00\x0c", b"\x21\x11\x00\x01", b"\x31\x11\x00\x0c"] {
            let lie = [&b"\r\n\r\n\0\r\nQUIT\n"[..], end, &[1; 12]].concat();
            check_header(fault(lie), MALFORMED);
        }
        check_header(Fault { leaves: true, ..fault("PROXY TCP4 1.2") }, MALFORMED);
    }

    #[test]
    fn a_flood_of_headers_from_elsewhere_is_reported_once_a_second() {
        let header = ProxyHeader::new((FAR, 4711).into(), ([10, 0, 0, 1], 443).into()).to_bytes_v1();
        let wire = [&header[..], LAST.as_bytes()].concat();
        check_header(
            Fault { from: FAR, ..fault(wire) },
            "the peer begins with a PROXY header, which no `Server::proxy_protocol` expects of it",
        );
    }

    /// The peer is then no source, and served as such.
    #[test]
    fn a_panic_of_the_function_that_knows_the_sources_is_reported_once_a_second() {
        let seen = Seen::default();
        paused(LocalSet::new().run_until(async {
            let panics = ProxyProtocol::required(|_| std::panic::resume_unwind(Box::new("quietly")));
            let service = seen.attach(Server::new()).proxy_protocol(panics).service(app);
            flood(&service, 50, &fault(LAST)).await;
            let reports = [("the handler panicked".to_owned(), 0)];
            assert_eq!((seen.take(), seen.take_ends()), (reports.to_vec(), vec![ConnectionEnd::Last; 50]));
        }));
    }

    /// A peer that says nothing is a probe, and not worth a report, but has its end.
    #[test]
    fn a_flood_of_probes_is_not_reported() {
        let seen = Seen::default();
        paused(LocalSet::new().run_until(async {
            let required = ProxyProtocol::required(|_| true);
            let service = seen.attach(Server::new()).proxy_protocol(required).service(app);
            flood(&service, 50, &Fault { leaves: true, ..fault("") }).await;
            assert_eq!(
                (seen.take(), seen.take_ends()),
                (vec![], vec![ConnectionEnd::Unopened(Unopened::Closed); 50])
            );
            // At a stop as well.
            let stop = async {
                tokio::task::yield_now().await;
                service.stop();
            };
            let silent = fault("");
            tokio::join!(flood(&service, 50, &silent), stop);
            assert_eq!(
                (seen.take(), seen.take_ends()),
                (vec![], vec![ConnectionEnd::Unopened(Unopened::Closed); 50])
            );
        }));
    }
}

#[cfg(feature = "tls")]
mod tls {
    use corehttp::server::CoreCounts;
    use tokio_rustls::TlsConnector;
    use tokio_rustls::rustls::server::ClientHello;

    use super::*;
    use crate::protocol::tls::{Secured, hello_for, host};

    const PANICKED: &str = "a function of the application panicked in the TLS handshake";
    const REFUSED: &str = "the resolver of the configuration refused the peer: no such tenant";
    const GARBAGE: &str =
        "no TLS handshake is possible with the peer: received corrupt message of type InvalidContentType";

    /// A server whose resolver has refused `b.example`, and panics at `c.example`.
    fn secured() -> (Secured, corehttp::tls::ServerTls) {
        let secured = Secured::new();
        let tls =
            secured.tls.clone().config_resolver(async |hello: ClientHello<'_>| match hello.server_name() {
                Some("b.example") => Err("no such tenant".into()),
                Some("c.example") => std::panic::resume_unwind(Box::new("quietly")),
                _ => Ok(None),
            });
        (secured, tls)
    }

    #[track_caller]
    fn check_hello(wire: impl FnOnce(&Secured) -> Fault, cause: &str) {
        let (secured, tls) = secured();
        let (fault, connector) = (wire(&secured), TlsConnector::from(Arc::new(secured.peer())));
        let good = async move |near| {
            let stream = connector.connect(host("a.example"), near).await.unwrap();
            ask(stream, LAST.as_bytes()).await
        };
        check(|server| server.tls(tls), fault, (cause, ConnectionEnd::Unopened(Unopened::Handshake)), good);
    }

    #[test]
    fn a_flood_of_bad_hellos_is_reported_once_a_second() {
        check_hello(|_| fault([0xff; 64]), GARBAGE);
        check_hello(|_| fault(LAST), "the peer speaks plain text, such as HTTP, instead of TLS");
        check_hello(|secured| fault(hello_for(secured.peer(), "b.example")), REFUSED);
    }

    #[test]
    fn a_flood_of_panics_of_a_resolver_is_reported_once_a_second() {
        check_hello(|secured| fault(hello_for(secured.peer(), "c.example")), PANICKED);
    }

    /// A peer could hide the refusals and the panics of the application among faults of its own.
    #[test]
    fn a_flood_hides_no_report_of_another_kind() {
        let ((secured, tls), seen) = (secured(), Seen::default());
        paused(LocalSet::new().run_until(async {
            let service = seen.attach(Server::new()).tls(tls).service(app);
            for _ in 0..2 {
                flood(&service, 50, &fault([0xff; 64])).await;
                flood(&service, 50, &fault(hello_for(secured.peer(), "b.example"))).await;
                flood(&service, 50, &fault(hello_for(secured.peer(), "c.example"))).await;
            }
            assert_eq!(seen.take(), [GARBAGE, REFUSED, PANICKED].map(|cause| (cause.to_owned(), 0)));
        }));
    }

    #[test]
    fn each_fault_of_a_flood_is_counted() {
        let ((secured, tls), seen) = (secured(), Seen::default());
        let served = Served::with(|server| seen.attach(server).tls(tls), app);
        let start = Instant::now();
        for _ in 0..50 {
            for wire in [&[0xff; 64][..], LAST.as_bytes(), &hello_for(secured.peer(), "c.example")] {
                let mut peer = served.connect();
                peer.send(wire);
                peer.receive_all();
            }
        }
        crate::support::eventually("each has its end", || seen.1.lock().unwrap().len() == 150);
        let CoreCounts { accepted, errors, .. } = served.running.counts().total;
        assert_eq!((accepted, errors.tls, errors.panic), (150, 100, 50));
        assert!(seen.take().len() as u64 <= 2 * (1 + start.elapsed().as_secs()));
        assert_eq!(seen.take_ends(), [ConnectionEnd::Unopened(Unopened::Handshake); 150]);
    }
}

#[test]
fn a_flood_of_connections_is_counted() {
    let seen = Seen::default();
    for (limits, is_of_peer) in [
        (Limits { connections_max: 0, ..Limits::default() }, false),
        (Limits { connections_per_peer_max: Some(0), ..Limits::default() }, true),
    ] {
        let served = Served::with(|server| seen.attach(server).limits(limits), app);
        let start = Instant::now();
        for _ in 0..100 {
            let expected = if is_of_peer { 429 } else { 503 };
            assert_eq!(status(&served.connect().receive_all()), expected);
        }
        let seconds = start.elapsed().as_secs();
        assert_eq!(served.running.counts().total.errors.overload, 100);
        crate::support::eventually("each has its end", || seen.1.lock().unwrap().len() == 100);
        assert_eq!(seen.take_ends(), [ConnectionEnd::Unopened(Unopened::Overload); 100]);
        let reports = seen.take();
        assert!(reports.len() as u64 <= 1 + seconds, "{reports:?} in {seconds} s");
    }
}
