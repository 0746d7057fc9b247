//! Secure connections: accepted peers, exchanges, and peers that do not complete the handshake.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::pin::Pin;
use std::sync::{Arc, mpsc};
use std::task::{self, Poll, ready};
use std::time::Duration;

use corehttp::middleware::wrap;
use corehttp::server::ExchangeReport;
use corehttp::tls::{self, ServerTls};
use corehttp::{BodyPlan, Context, IntoHandler, Limits, Server, Timeouts};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, DuplexStream, ReadBuf, duplex, split};
use tokio::sync::Notify;
use tokio::task::yield_now;
use tokio::time::{Instant, sleep};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio_rustls::rustls::server::ClientHello;
use tokio_rustls::rustls::version::{TLS12, TLS13};
use tokio_rustls::rustls::{
    ClientConfig, ClientConnection, RootCertStore, StreamOwned, SupportedProtocolVersion,
};

use crate::support::certificates::{Authority, Issued, self_signed, self_signed_authority};
use crate::support::{ErrorReports, Peer, Served, TIMEOUT, eventually, paused, send_first, status, undated};

/// A server with one identity, its address, and the roots that its peers trust.
pub struct Secured {
    pub authority: Authority,
    pub tls: ServerTls,
}

impl Secured {
    pub fn new() -> Secured {
        let authority = Authority::new("ours");
        let tls = ServerTls::new(identity(&authority.issue(&["a.example"])));
        Secured { authority, tls }
    }

    /// Servers that should behave alike: one, and one with a resolver that leaves all connections to its identity.
    pub fn both() -> [Secured; 2] {
        let Secured { authority, tls } = Secured::new();
        let tls = tls.config_resolver(async |_: ClientHello<'_>| {
            yield_now().await;
            Ok(None)
        });
        [Secured::new(), Secured { authority, tls }]
    }

    fn serve<Kind, H>(&self, handler: H) -> Served
    where
        H: IntoHandler<Kind>,
        H::Handler: Send + Sync,
    {
        Served::with(|server| server.tls(self.tls.clone()), handler)
    }

    /// The settings of a peer that trusts this server.
    pub fn peer(&self) -> ClientConfig {
        self.peer_of(&[&TLS13, &TLS12], None)
    }

    pub fn peer_of(
        &self,
        versions: &[&'static SupportedProtocolVersion],
        shown: Option<&Issued>,
    ) -> ClientConfig {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(self.authority.pem().as_bytes()).unwrap()).unwrap();
        let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_protocol_versions(versions)
            .unwrap()
            .with_root_certificates(roots);
        let Some(Issued { chain, key }) = shown else { return config.with_no_client_auth() };
        let chain = CertificateDer::pem_slice_iter(chain.as_bytes()).map(Result::unwrap).collect();
        config.with_client_auth_cert(chain, PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap()).unwrap()
    }
}

pub fn identity(issued: &Issued) -> tls::Identity {
    tls::Identity::from_pem(&issued.chain, &issued.key).unwrap()
}

pub fn host(name: &str) -> ServerName<'static> {
    ServerName::try_from(String::from(name)).unwrap()
}

pub type Secure = StreamOwned<ClientConnection, TcpStream>;

/// Connects a peer, whose first write does the handshake.
pub fn connect_to(served: &Served, config: impl Into<Arc<ClientConfig>>, name: &str) -> Secure {
    connect_at(served.addr(), config, name)
}

pub fn connect_at(address: SocketAddr, config: impl Into<Arc<ClientConfig>>, name: &str) -> Secure {
    secure(Peer::new(TcpStream::connect(address).unwrap()), config, name)
}

pub fn secure(peer: Peer, config: impl Into<Arc<ClientConfig>>, name: &str) -> Secure {
    let connection = ClientConnection::new(config.into(), host(name)).unwrap();
    StreamOwned::new(connection, peer.stream)
}

fn connect(served: &Served, config: ClientConfig) -> Secure {
    connect_to(served, config, "a.example")
}

/// Reads to the end, and returns the kind of the error if the stream ends without `close_notify`.
fn receive_all(peer: &mut impl Read) -> String {
    let mut received = Vec::new();
    let end = peer.read_to_end(&mut received);
    let mut received = String::from_utf8_lossy(&received).into_owned();
    if let Err(error) = end {
        received.push_str(&format!("<{:?}: {error}>", error.kind()));
    }
    received
}

/// Sends `wire`, and reads until the response ends with `end`.
#[track_caller]
fn ask(peer: &mut Secure, wire: &[u8], end: &str) -> String {
    peer.write_all(wire).unwrap();
    let mut received = Vec::new();
    while !received.ends_with(end.as_bytes()) {
        let mut byte = [0];
        peer.read_exact(&mut byte).unwrap();
        received.push(byte[0]);
    }
    String::from_utf8(received).unwrap()
}

/// Does a handshake and one exchange: returns the body of the response, or the error.
pub fn greet(served: &Served, config: ClientConfig, name: &str) -> Result<String, String> {
    exchange(&mut connect_to(served, config, name))
}

/// Does the handshake, unless it was done, and the last exchange.
pub fn exchange(peer: &mut Secure) -> Result<String, String> {
    peer.write_all(LAST).map_err(|error| error.to_string())?;
    let mut received = String::new();
    peer.read_to_string(&mut received).map_err(|error| error.to_string())?;
    Ok(received.split("\r\n\r\n").nth(1).unwrap_or_default().into())
}

const GET: &[u8] = b"GET / HTTP/1.1\r\nhost: a.example\r\n\r\n";
pub const LAST: &[u8] = b"GET / HTTP/1.1\r\nhost: a.example\r\nconnection: close\r\n\r\n";

fn fine(ctx: &mut Context) {
    ctx.response.set_text("fine");
}

/// Answers with the session of the peer.
fn tell(ctx: &mut Context) {
    let told =
        ctx.tls().map(|tls| (tls.version, tls.server_name.clone(), tls.certificates.len(), tls.resumed));
    ctx.response.set_text(format!("{told:?}"));
}

#[test]
fn both_versions_are_spoken_and_shown_to_the_handler() {
    let (mut secured, me) = (Secured::new(), Authority::new("theirs").issue(&["me"]));
    let told = |version, peers| format!("Some(({version}, Some(\"a.example\"), {peers}, false))");
    let served = secured.serve(tell);
    assert_eq!(served.running.to_string(), format!("https://{}", served.addr()));
    for (versions, version) in [([&TLS12], "Tls12"), ([&TLS13], "Tls13")] {
        // The server has not asked for a certificate.
        let config = secured.peer_of(&versions, Some(&me));
        assert_eq!(greet(&served, config, "a.example"), Ok(told(version, 0)));
    }
    secured.tls = secured.tls.version_min(tls::Version::Tls13);
    let served = secured.serve(tell);
    assert_eq!(greet(&served, secured.peer(), "a.example"), Ok(told("Tls13", 0)));
    let refused = greet(&served, secured.peer_of(&[&TLS12], None), "a.example").unwrap_err();
    assert!(refused.contains("ProtocolVersion"), "{refused}");
    let plain = Served::new(tell);
    assert!(plain.ask(LAST).ends_with("None"));
}

#[test]
fn sessions_are_resumed() {
    for secured in Secured::both() {
        let served = secured.serve(tell);
        for version in [&TLS12, &TLS13] {
            let config = secured.peer_of(&[version], None);
            for resumed in ["false", "true", "true"] {
                let told = greet(&served, config.clone(), "a.example").unwrap();
                assert!(told.contains(resumed), "{told}");
            }
        }
    }
}

#[test]
fn a_peer_is_shown_the_certificate_for_its_host() {
    let mut secured = Secured::new();
    let names = [&["b.example", "*.b.example"][..], &["c.b.example"], &["d.example", "a.example"]];
    let issued = names.map(|names| secured.authority.issue(names));
    for issued in &issued {
        secured.tls = secured.tls.and_identity(identity(issued));
    }
    let served = secured.serve(fine);
    for (name, expected) in [
        ("b.example", Ok("fine")),
        ("B.EXAMPLE", Ok("fine")),
        ("x.b.example", Ok("fine")),
        ("c.b.example", Ok("fine")),
        ("d.example", Ok("fine")),
        ("a.example", Ok("fine")),
        ("x.y.b.example", Err("only valid for DnsName(\"a.example\")")),
        ("x.c.b.example", Err("only valid for DnsName(\"a.example\")")),
        ("x.a.example", Err("only valid for DnsName(\"a.example\")")),
        ("example", Err("only valid for DnsName(\"a.example\")")),
        ("127.0.0.1", Err("only valid for DnsName(\"a.example\")")),
    ] {
        match (greet(&served, secured.peer(), name), expected) {
            (Ok(received), Ok(expected)) => assert_eq!(received, expected, "{name}"),
            (Err(told), Err(expected)) => assert!(told.contains(expected), "{name}: {told}"),
            (received, expected) => panic!("{name}: {received:?} for {expected:?}"),
        }
    }
    // Two certificates are for this host: the one that names it is shown.
    let mut peer = connect_to(&served, secured.peer(), "c.b.example");
    peer.write_all(GET).unwrap();
    peer.flush().unwrap();
    peer.read_exact(&mut [0]).unwrap();
    let shown = peer.conn.peer_certificates().unwrap()[0].to_vec();
    assert_eq!(shown, CertificateDer::from_pem_slice(issued[1].chain.as_bytes()).unwrap().to_vec());
}

#[test]
fn certificates_can_be_replaced_while_the_server_runs() {
    for secured in Secured::both() {
        let served = secured.serve(fine);
        let mut early = connect(&served, secured.peer());
        ask(&mut early, GET, "fine");
        assert!(greet(&served, secured.peer(), "b.example").is_err());
        secured.tls.replace_identities([]).unwrap_err();
        assert_eq!(greet(&served, secured.peer(), "a.example"), Ok("fine".into()));
        secured.tls.replace_identities([identity(&secured.authority.issue(&["b.example"]))]).unwrap();
        assert_eq!(greet(&served, secured.peer(), "b.example"), Ok("fine".into()));
        assert!(greet(&served, secured.peer(), "a.example").is_err());
        ask(&mut early, GET, "fine");
    }
}

#[test]
fn http_1_1_is_agreed_on_by_alpn() {
    for secured in Secured::both() {
        let served = secured.serve(fine);
        for (offered, expected) in [
            (&[][..], Ok(None)),
            (&["http/1.1"], Ok(Some("http/1.1"))),
            (&["h2", "http/1.1"], Ok(Some("http/1.1"))),
            (&["h2"], Err("NoApplicationProtocol")),
            (&["http/1.0", "HTTP/1.1"], Err("NoApplicationProtocol")),
        ] {
            let mut config = secured.peer();
            config.alpn_protocols = offered.iter().map(|protocol| protocol.as_bytes().to_vec()).collect();
            let mut peer = connect(&served, config);
            let said = peer.write_all(LAST).map_err(|error| error.to_string());
            match expected {
                Ok(agreed) => {
                    assert_eq!(status(&receive_all(&mut peer)), 200, "{offered:?}");
                    assert_eq!(peer.conn.alpn_protocol(), agreed.map(str::as_bytes), "{offered:?}");
                }
                Err(expected) => {
                    assert!(said.as_ref().unwrap_err().contains(expected), "{offered:?}: {said:?}")
                }
            }
        }
    }
}

#[test]
fn peers_are_let_in_by_their_certificates() {
    let mut secured = Secured::new();
    let theirs = Authority::new("theirs");
    let deputy = theirs.deputy("deputy");
    let mut behind = deputy.issue(&["me"]);
    behind.chain.push_str(&deputy.pem());
    let (good, stranger, own) =
        (theirs.issue(&["me"]), Authority::new("else").issue(&["me"]), self_signed(&["me"]));
    // As with a server's certificate: an authority signs for others, and is no peer itself, even if it is trusted.
    let authority = self_signed_authority(&["me"]);
    let late = theirs.issue_for_years(&["me"], 2000, 2010);
    let roots = tls::Roots::from_pem(theirs.pem()).unwrap();
    let roots = roots.and(tls::Roots::from_pem(&authority.chain).unwrap());
    secured.tls = secured.tls.client_auth_required(roots);
    for version in [&TLS12, &TLS13] {
        let refusals = ErrorReports::default();
        let served = Served::with(|server| refusals.attach(server).tls(secured.tls.clone()), tell);
        let told = greet(&served, secured.peer_of(&[version], Some(&good)), "a.example").unwrap();
        assert!(told.contains("Some(\"a.example\"), 1, false"), "{told}");
        let told = greet(&served, secured.peer_of(&[version], Some(&behind)), "a.example").unwrap();
        assert!(told.contains("Some(\"a.example\"), 2, false"), "{told}");
        assert_eq!(refusals.take(), []);
        for (shown, alert, cause) in [
            (None, "CertificateRequired", "peer sent no certificates"),
            (Some(&stranger), "UnknownCA", "UnknownIssuer"),
            (Some(&own), "UnknownCA", "UnknownIssuer"),
            (Some(&late), "CertificateExpired", "expired"),
            (Some(&authority), "CertificateUnknown", "CaUsedAsEndEntity"),
        ] {
            let served = Served::with(|server| refusals.attach(server).tls(secured.tls.clone()), tell);
            // The peer receives the alert, although it has sent its request by then.
            let error = greet(&served, secured.peer_of(&[version], shown), "a.example").unwrap_err();
            let is_told =
                error.contains(alert) || (version.version == TLS12.version && error.contains("alert"));
            assert!(is_told, "{error} for {alert}");
            eventually("its refusal is told", || served.running.counts().total.open == 0);
            let seen = refusals.take();
            assert!(seen.len() == 1 && seen[0].0 == 0 && seen[0].1.contains(cause), "{seen:?} for {cause}");
            assert_eq!(served.running.counts().total.errors.tls, 1);
        }
    }
}

#[test]
fn large_bodies_go_both_ways() {
    let secured = Secured::new();
    let buffered = |ctx: &mut Context| {
        let content = ctx.request.body.bytes().to_vec();
        ctx.response.body.set_bytes(content);
    };
    let streamed = async |ctx: &mut Context| -> corehttp::Result {
        let (mut body, mut out) = ctx.duplex().await?;
        while let Some(piece) = body.chunk().await? {
            out.write_all(piece).await?;
        }
        Ok(out.finish().await?)
    };
    let content: Vec<u8> = (0..1_000_000u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let served = [secured.serve(buffered), secured.serve(wrap(BodyPlan::Stream, streamed))];
    for (served, version) in served.iter().flat_map(|served| [(served, &TLS12), (served, &TLS13)]) {
        let mut peer = connect(served, secured.peer_of(&[version], None));
        let head = format!("POST / HTTP/1.0\r\ncontent-length: {}\r\n\r\n", content.len());
        // The request is sent in pieces, with reads between them, so that an early response does not block both sides.
        let (mut said, mut received) = ([head.as_bytes(), &content].concat(), Vec::new());
        while !said.is_empty() {
            let count = peer.write(&said[..said.len().min(50_000)]).unwrap();
            peer.flush().unwrap();
            said.drain(..count);
            peer.sock.set_nonblocking(true).unwrap();
            let mut room = [0; 100_000];
            while let Ok(count @ 1..) = peer.read(&mut room) {
                received.extend_from_slice(&room[..count]);
            }
            peer.sock.set_nonblocking(false).unwrap();
        }
        peer.read_to_end(&mut received).unwrap();
        let body = received.windows(4).position(|four| four == b"\r\n\r\n").unwrap() + 4;
        assert!(received[body..] == content, "{} bytes came back", received.len() - body);
    }
}

#[test]
fn pipelined_requests_are_answered_in_order() {
    let secured = Secured::new();
    let served = secured.serve(|ctx: &mut Context| ctx.response.set_text(ctx.exchange_number().to_string()));
    // More bytes than one read takes, so that some wait inside of TLS while the socket is silent.
    let count = 2_000;
    let mut peer = connect(&served, secured.peer());
    let mut wire = GET.repeat(count - 1);
    wire.extend_from_slice(LAST);
    peer.write_all(&wire).unwrap();
    let received = receive_all(&mut peer);
    let numbers: Vec<usize> = received
        .split("\r\n\r\n")
        .skip(1)
        .map(|rest| rest.split("HTTP").next().unwrap().parse().unwrap())
        .collect();
    assert_eq!(numbers, Vec::from_iter(1..=count));
}

#[test]
fn only_a_whole_response_ends_with_close_notify() {
    let secured = Secured::new();
    let served = secured.serve(async |ctx: &mut Context| -> corehttp::Result {
        ctx.response.headers.set("connection", "close")?;
        let mut out = ctx.body_writer().await?;
        out.write_all(b"half").await?;
        out.flush().await?;
        Err(io::Error::other("no more"))?
    });
    // The response ends with the connection: a peer that trusts the end of the socket would take half of it for the
    // whole.
    let mut peer = connect(&served, secured.peer());
    peer.write_all(b"GET / HTTP/1.0\r\n\r\n").unwrap();
    let received = receive_all(&mut peer);
    assert!(
        received.contains("half<UnexpectedEof") || received.contains("half<ConnectionReset"),
        "{received}"
    );
    let served = secured.serve(fine);
    for _ in 0..10 {
        let mut peer = connect(&served, secured.peer());
        peer.write_all(LAST).unwrap();
        assert!(receive_all(&mut peer).ends_with("fine"));
    }
}

/// A peer that closes a connection without a request, or between two, is no failure, and must not look like an attack.
#[test]
fn a_peer_that_asks_no_more_hears_the_end_rfc9112_9_8() {
    let secured = Secured::new();
    let pause = Duration::from_millis(300);
    let timeouts = Timeouts { head: pause, idle: pause, ..Timeouts::default() };
    let served = Served::with(|server| server.tls(secured.tls.clone()).timeouts(timeouts), fine);
    let left = [(&b""[..], ""), (b"\r\n", ""), (GET, "fine")].into_iter().flat_map(|(wire, end)| {
        [false, true].map(|says_so| {
            let mut peer = connect(&served, secured.peer());
            peer.conn.complete_io(&mut peer.sock).unwrap();
            ask(&mut peer, wire, end);
            if says_so {
                peer.conn.send_close_notify();
            }
            peer.flush().unwrap();
            (wire, says_so, peer)
        })
    });
    for (wire, says_so, mut peer) in Vec::from_iter(left) {
        assert_eq!(receive_all(&mut peer), "", "{} {says_so}", wire.escape_ascii());
    }
}

/// A secure peer ends with an alert. A server that closes its socket before the alert is read resets the connection,
/// and the end of a response is lost.
#[test]
fn a_last_response_is_whole_for_a_peer_that_has_ended_rfc9112_9_6() {
    let (secured, size) = (Secured::new(), 1 << 20);
    let ((tell, told), has_ended) = (mpsc::channel(), Arc::new(Notify::new()));
    let ended = has_ended.clone();
    let served = secured.serve(async move |ctx: &mut Context| {
        tell.send(()).unwrap();
        ended.notified().await;
        ctx.response.body.set_bytes(vec![b'x'; size]);
    });
    for (wire, version) in [(LAST, &TLS12), (LAST, &TLS13), (b"GET / HTTP/1.0\r\n\r\n", &TLS13)] {
        let mut peer = connect(&served, secured.peer_of(&[version], None));
        peer.write_all(wire).unwrap();
        peer.flush().unwrap();
        told.recv().unwrap();
        peer.conn.send_close_notify();
        peer.flush().unwrap();
        peer.sock.shutdown(Shutdown::Write).unwrap();
        has_ended.notify_one();
        // The peer reads late, so that most of the response waits in the server's socket.
        std::thread::sleep(Duration::from_millis(50));
        let received = receive_all(&mut peer);
        let (head, body) = received.split_once("\r\n\r\n").unwrap();
        assert!(body.len() == size && body.ends_with('x'), "{head}: {} bytes", body.len());
    }
}

#[test]
fn a_stop_sends_close_notify_to_idle_peers() {
    let secured = Secured::new();
    let served = secured.serve(fine);
    let mut peer = connect(&served, secured.peer());
    ask(&mut peer, GET, "fine");
    served.running.stop(Duration::from_secs(60));
    assert_eq!(receive_all(&mut peer), "");
    served.running.wait().unwrap();
    assert_eq!(served.running.counts().total.aborted, 0);
}

#[test]
fn a_failed_handshake_is_reported_and_harms_no_other_peer() {
    // To choose a configuration, rustls reads the hello by a part of its own, which has other words for an alert.
    let alerts = ["the peer refused with an alert of TLS", "got Alert when expecting Handshake"];
    for (secured, alert) in Secured::both().into_iter().zip(alerts) {
        // More bytes than the server keeps of one message; the peer must not pass for one that has left.
        let crumbs =
            [&b"\x16\x03\x01\0\x04\x01\0\xff\xf0"[..], &b"\x16\x03\x01\0\x01x".repeat(12_000)].concat();
        for (wire, cause) in [
            (&crumbs[..], "no TLS handshake"),
            (b"\0\0\0\0\0\0\0\0", "no TLS handshake"),
            (b"\xff\xff\xff\xff\xff\xff\xff\xff", "no TLS handshake"),
            (b"\x80\x2e\x01\0\x02\0\x15\0\0\0\x10", "no TLS handshake"),
            (b"\x16\x03\x01\xff\xff\x01\0\0\0", "no TLS handshake"),
            (b"\x16\x03\x01\0\0", "no TLS handshake"),
            (b"\x16\x03\x01\0\x04\x02\0\0\0", "no TLS handshake"),
            (b"\x16\x03\x01\0\x06\x01\0\0\x02\x03\x03", "no TLS handshake"),
            (b"\x17\x03\x03\0\x01\0", "no TLS handshake"),
            (b"\x15\x03\x01\0\x02\x02\x28", alert),
        ] {
            let refusals = ErrorReports::default();
            let served = Served::with(|server| refusals.attach(server).tls(secured.tls.clone()), fine);
            let mut steady = connect(&served, secured.peer());
            ask(&mut steady, GET, "fine");
            let mut peer = served.connect();
            peer.send(wire);
            let mut received = Vec::new();
            let _ = peer.stream.read_to_end(&mut received);
            // The server sends an alert, or nothing.
            assert!(received.is_empty() || received.starts_with(b"\x15\x03"), "{}", received.escape_ascii());
            drop(peer);
            eventually("its refusal is told", || served.running.counts().total.open <= 1);
            let seen = refusals.take();
            let is_seen = seen.len() == 1 && seen[0].0 == 0 && seen[0].1.contains(cause);
            assert!(is_seen, "{seen:?} for {}", wire.escape_ascii());
            ask(&mut steady, GET, "fine");
        }
    }
}

/// A person who has typed `http` for `https` would see an alert as a blank page. nginx and Go answer likewise.
#[test]
fn plain_http_is_answered_with_a_sentence() {
    const RESPONSE: &str = "HTTP/1.1 400 Bad Request\r\nx-content-type-options: nosniff\r\n\
        content-type: text/plain; charset=utf-8\r\ncontent-length: 59\r\nconnection: close\r\n\r\nThis port speaks HTTPS, and the request came in plain HTTP.";
    for secured in Secured::both() {
        let large =
            [b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 300000\r\n\r\n", &[b'x'; 300_000][..]].concat();
        let wires = [
            GET,
            b"GET / HTTP/1.0\r\n\r\n",
            b"\r\nHEAD / HTTP/1.1\r\nhost: a\r\n\r\n",
            b"post /",
            b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
            &large,
        ];
        for wire in wires {
            for cut in [0, 1, 4, 5] {
                let refusals = ErrorReports::default();
                let served = Served::with(|server| refusals.attach(server).tls(secured.tls.clone()), fine);
                let mut peer = served.connect();
                peer.send(&wire[..cut]);
                peer.send(&wire[cut..]);
                assert_eq!(
                    undated(&peer.receive_all()),
                    RESPONSE,
                    "{} cut at {cut}",
                    wire[..6].escape_ascii()
                );
                drop(peer);
                eventually("its refusal is told", || served.running.counts().total.open == 0);
                let seen = refusals.take();
                assert_eq!(seen, [(400, "the peer speaks plain text, such as HTTP, instead of TLS".into())]);
                assert_eq!(served.running.counts().total.errors.tls, 1);
            }
        }
        // The transport of the peer's bytes makes no difference either.
        let received = paused(async {
            let service = Server::new().tls(secured.tls.clone()).service(fine);
            let (mut near, far) = duplex(64);
            let peer = async {
                near.write_all(GET).await.unwrap();
                let mut received = String::new();
                near.read_to_string(&mut received).await.unwrap();
                received
            };
            tokio::join!(peer, service.serve_connection(far)).0
        });
        assert_eq!(undated(&received), RESPONSE);
    }
}

/// The application explains it in its own words, as any other error.
#[test]
fn plain_http_is_explained_by_the_application() {
    let secured = Secured::new();
    let server = |server: Server| {
        server.tls(secured.tls.clone()).error_response(|report, response| {
            assert!(response.text().unwrap().contains("HTTPS") && report.request.is_none());
            response.set_html(format!("<p>{}</p>", response.status));
        })
    };
    let served = Served::with(server, fine);
    let received = served.ask(GET);
    assert!(
        received.starts_with("HTTP/1.1 400 ") && received.ends_with("\r\n\r\n<p>400 Bad Request</p>"),
        "{received}"
    );
}

fn hello(config: ClientConfig) -> Vec<u8> {
    hello_for(config, "a.example")
}

/// The first bytes of a peer that asks for this host.
pub fn hello_for(config: ClientConfig, name: &str) -> Vec<u8> {
    let mut said = Vec::new();
    let mut connection = ClientConnection::new(Arc::new(config), host(name)).unwrap();
    connection.write_tls(&mut said).unwrap();
    said
}

#[test]
fn a_peer_that_leaves_during_its_handshake_is_not_reported() {
    for secured in Secured::both() {
        let refusals = ErrorReports::default();
        let served = Served::with(|server| refusals.attach(server).tls(secured.tls.clone()), fine);
        let hello = hello(secured.peer());
        for cut in 0..hello.len() {
            let mut peer = served.connect();
            peer.send(&hello[..cut]);
            if cut % 2 == 0 {
                peer.end();
                assert_eq!(peer.receive_all(), "", "cut at {cut}");
            } else {
                peer.reset();
            }
        }
        eventually("all are gone", || served.running.counts().total.open == 0);
        assert_eq!(refusals.take(), []);
        assert_eq!(greet(&served, secured.peer(), "a.example"), Ok("fine".into()));
    }
}

/// A ClientHello of which one octet was changed is refused, or a valid one with another content, and nothing more.
#[test]
fn a_garbled_hello_harms_no_other_peer() {
    for secured in Secured::both() {
        let reports = ErrorReports::default();
        // Beside thousands of handshakes, that of the other peer may take a while.
        let timeouts = Timeouts { head: TIMEOUT, ..Timeouts::default() };
        let served =
            Served::with(|server| reports.attach(server).timeouts(timeouts).tls(secured.tls.clone()), fine);
        let hello = hello(secured.peer());
        let mut peers = Vec::new();
        for at in 0..hello.len() {
            for change in [0x01, 0xff] {
                let mut garbled = hello.clone();
                garbled[at] ^= change;
                let mut peer = served.connect();
                peer.send(&garbled);
                peer.end();
                peers.push(peer);
            }
        }
        assert_eq!(greet(&served, secured.peer(), "a.example"), Ok("fine".into()));
        drop(peers);
        eventually("all are gone", || served.running.counts().total.open == 0);
        let seen = reports.take();
        assert!(
            seen.len() <= 2 * hello.len() && seen.iter().all(|(status, _)| matches!(status, 0 | 400)),
            "{seen:?}"
        );
        assert_eq!(greet(&served, secured.peer(), "a.example"), Ok("fine".into()));
    }
}

/// Hellos that are cut anywhere, or whole, from peers that then fall silent. Each peer ends with the time of the head,
/// and is counted; those that finish are served meanwhile.
#[test]
fn a_flood_of_silent_hellos_harms_no_other_peer() {
    const PEERS: usize = 1000;
    let secured = Secured::new();
    let timeouts = Timeouts { head: Duration::from_secs(1), ..Timeouts::default() };
    let served = Served::with(|server| server.tls(secured.tls.clone()).timeouts(timeouts), fine);
    let said = hello(secured.peer());
    let mut steady = connect(&served, secured.peer());
    ask(&mut steady, GET, "fine");
    let silent: Vec<_> = (0..PEERS)
        .map(|index| {
            let mut peer = served.connect();
            peer.send(&said[..index % (said.len() + 1)]);
            if index % 100 == 0 {
                ask(&mut steady, GET, "fine");
            }
            peer
        })
        .collect();
    assert_eq!(greet(&served, secured.peer(), "a.example"), Ok("fine".into()));
    eventually("the silent ones are gone", || served.running.counts().total.open == 1);
    let counts = served.running.counts().total;
    assert_eq!((counts.errors.timed_out, counts.errors.tls), (PEERS as u64, 0), "{counts:?}");
    ask(&mut steady, GET, "fine");
    drop(silent);
}

#[test]
fn slow_handshakes_hold_up_no_other_peer() {
    for secured in Secured::both() {
        let (served, hello) = (secured.serve(fine), hello(secured.peer()));
        let slow: Vec<Peer> = (0..50)
            .map(|at| {
                let mut peer = served.connect();
                peer.send(&hello[..hello.len() * at / 50]);
                peer
            })
            .collect();
        eventually("all are there", || served.running.counts().total.open == 50);
        assert_eq!(greet(&served, secured.peer(), "a.example"), Ok("fine".into()));
        assert_eq!(served.running.counts().total.errors.tls, 0);
        drop(slow);
    }
}

#[test]
fn connections_beyond_the_limit_get_no_handshake() {
    let secured = Secured::new();
    let limits = Limits { connections_max: 1, ..Limits::default() };
    let refusals = ErrorReports::default();
    let served = Served::with(|server| refusals.attach(server).limits(limits).tls(secured.tls.clone()), fine);
    let mut first = connect(&served, secured.peer());
    ask(&mut first, GET, "fine");
    let mut second = served.connect();
    assert_eq!(second.receive_all(), "");
    assert_eq!(
        refusals.take(),
        [(0, "the server has 1 connections, as many as it may have (`connections_max`)".into())]
    );
    ask(&mut first, GET, "fine");
}

#[test]
fn an_upgraded_connection_stays_secure() {
    let secured = Secured::new();
    let served = secured.serve(async |ctx: &mut Context| -> corehttp::Result {
        let mut upgraded = ctx.upgrade("echo").await?;
        let mut received = Vec::new();
        let end = upgraded.read_to_end(&mut received).await;
        received.extend_from_slice(format!("{:?}", end.map_err(|error| error.kind())).as_bytes());
        upgraded.write_all(&received).await?;
        upgraded.shutdown().await?;
        Ok(())
    });
    let wire = b"GET / HTTP/1.1\r\nhost: a.example\r\nconnection: upgrade\r\nupgrade: echo\r\n\r\n";
    for (says_so, expected) in [(true, "helloOk(5)"), (false, "helloErr(UnexpectedEof)")] {
        let mut peer = connect(&served, secured.peer());
        ask(&mut peer, wire, "\r\n\r\n");
        peer.write_all(b"hello").unwrap();
        if says_so {
            peer.conn.send_close_notify();
        }
        peer.flush().unwrap();
        peer.sock.shutdown(Shutdown::Write).unwrap();
        assert_eq!(receive_all(&mut peer), expected);
    }
}

/// Also behind an upgrade, which takes the connection out of its exchange.
#[test]
fn sessions_are_shown_in_reports() {
    let secured = Secured::new();
    let (sender, seen) = mpsc::channel();
    let report = move |report: &ExchangeReport| {
        let told = report.tls().map(|tls| {
            let alpn = tls.alpn.clone().map(|alpn| String::from_utf8(alpn).unwrap());
            (tls.version, tls.server_name.clone(), alpn, tls.certificates.len(), tls.resumed)
        });
        sender.send(format!("{told:?}")).unwrap();
    };
    let upgrade = async |ctx: &mut Context| -> corehttp::Result {
        if ctx.request.path() == "/upgrade" {
            drop(ctx.upgrade("echo").await?);
        }
        Ok(())
    };
    let plain = Served::with(|server| server.on_exchange(report.clone()), upgrade);
    let served = Served::with(|server| server.tls(secured.tls.clone()).on_exchange(report), upgrade);
    let mut config = secured.peer_of(&[&TLS12], None);
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    let upgrade = b"GET /upgrade HTTP/1.1\r\nhost: a\r\nconnection: upgrade\r\nupgrade: echo\r\n\r\n";
    for (config, agreed) in [(secured.peer(), ("Tls13", "None")), (config, ("Tls12", "Some(\"http/1.1\")"))] {
        for (wire, resumed) in [(LAST, false), (&upgrade[..], true)] {
            let mut peer = connect(&served, config.clone());
            peer.write_all(wire).unwrap();
            receive_all(&mut peer);
            let expected = format!("Some(({}, Some(\"a.example\"), {}, 0, {resumed}))", agreed.0, agreed.1);
            assert_eq!(seen.recv().unwrap(), expected);
        }
    }
    plain.ask(LAST);
    assert_eq!(seen.recv().unwrap(), "None");
}

/// A connection on which each byte arrives alone.
struct Drip(DuplexStream);

impl AsyncRead for Drip {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut task::Context<'_>,
        out: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let mut byte = [0];
        let mut room = ReadBuf::new(&mut byte);
        ready!(Pin::new(&mut self.0).poll_read(cx, &mut room))?;
        out.put_slice(room.filled());
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Drip {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut task::Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut task::Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut task::Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}

/// Serves a peer in memory, byte by byte, on a paused clock. Returns how and when its connection ends, and the reported
/// refusal.
fn talk<Kind>(
    handler: impl IntoHandler<Kind> + Clone,
    pipe: usize,
    act: impl AsyncFn(TlsConnector, DuplexStream, Vec<u8>),
) -> (io::Result<()>, Duration, Vec<(u16, String)>) {
    let [plain, resolved] = Secured::both().map(|secured| {
        let refusals = ErrorReports::default();
        let end = paused(async {
            let service = refusals.attach(Server::new()).tls(secured.tls.clone()).service(handler.clone());
            let ((near, far), start) = (duplex(pipe), Instant::now());
            let served = async { (service.serve_connection(Drip(far)).await, start.elapsed()) };
            let hello = hello(secured.peer());
            tokio::join!(served, act(TlsConnector::from(Arc::new(secured.peer())), near, hello)).0
        });
        (end.0, end.1, refusals.take())
    });
    assert_eq!(format!("{resolved:?}"), format!("{plain:?}"), "with a resolver");
    plain
}

/// A socket that is closed with unread bytes is reset, and the alert would be lost.
#[test]
fn after_a_failed_handshake_the_peer_is_read_to_its_end() {
    let (served, _, seen) = talk(fine, 100, async |_, mut near, _| {
        near.write_all(&[0xff; 40_000]).await.unwrap();
        near.shutdown().await.unwrap();
        let mut received = Vec::new();
        near.read_to_end(&mut received).await.unwrap();
        assert!(received.starts_with(b"\x15\x03"), "{} is no alert", received.escape_ascii());
    });
    assert!(served.is_err() && seen.len() == 1, "{served:?} {seen:?}");
}

#[test]
fn packets_may_be_as_small_as_a_byte() {
    for pipe in [100, 1_000, 1 << 16] {
        let (served, _, seen) = talk(fine, pipe, async |connector, near, _| {
            let peer = connector.connect(host("a.example"), near).await.unwrap();
            // Both ends run side by side, because the server's first bytes fill the pipe as well.
            let ((mut hears, mut says), mut received) = (split(peer), String::new());
            let said = async {
                says.write_all(LAST).await.unwrap();
                says.flush().await.unwrap();
            };
            tokio::join!(said, async { hears.read_to_string(&mut received).await.unwrap() });
            assert!(received.ends_with("fine"), "{received}");
        });
        assert!(served.is_ok() && seen.is_empty(), "{served:?} {seen:?}");
    }
}

#[test]
fn a_handshake_and_the_first_head_share_one_timeout() {
    for said in [0, 1, 5, 100] {
        let (served, time, seen) = talk(fine, 1 << 16, async |_, mut near, hello| {
            near.write_all(&hello[..said]).await.unwrap();
            assert_eq!(near.read_to_end(&mut Vec::new()).await.unwrap(), 0);
        });
        assert_eq!(served.unwrap_err().kind(), ErrorKind::TimedOut);
        assert_eq!(time.as_secs(), 10);
        assert_eq!(seen, [(0, "the handshake took longer than 10 s".into())]);
    }
    // Each byte is progress, and all of them together take too long.
    let (served, time, _) = talk(fine, 1 << 16, async |_, mut near, hello| {
        for byte in hello {
            if near.write_all(&[byte]).await.is_err() {
                return;
            }
            sleep(Duration::from_secs(1)).await;
        }
        panic!("it may go on for ever");
    });
    assert_eq!((served.unwrap_err().kind(), time.as_secs()), (ErrorKind::TimedOut, 10));
    // The head has only the time that the handshake has left.
    let (_, time, seen) = talk(fine, 1 << 16, async |connector, near, _| {
        sleep(Duration::from_secs(6)).await;
        let mut peer = connector.connect(host("a.example"), near).await.unwrap();
        peer.write_all(b"GET / HT").await.unwrap();
        peer.flush().await.unwrap();
        let mut received = String::new();
        peer.read_to_string(&mut received).await.unwrap();
        assert_eq!(status(&received), 408);
    });
    assert_eq!((time.as_secs(), seen), (10, vec![(408, "the head took longer than 10 s".into())]));
}

/// A connection in its handshake has a second before a stop, as one that has not carried a request yet.
#[test]
fn a_handshake_that_goes_on_after_a_stop_is_given_up() {
    let (secured, refusals) = (Secured::new(), ErrorReports::default());
    let (served, time) = paused(async {
        let service = refusals.attach(Server::new()).tls(secured.tls.clone()).service(fine);
        let ((_near, far), start) = (duplex(100), Instant::now());
        let stop = async { service.stop() };
        (tokio::join!(service.serve_connection(far), stop).0, start.elapsed())
    });
    assert!(served.is_ok() && time.as_secs() == 1 && refusals.take().is_empty(), "{served:?} {time:?}");
}

/// Asks for 200,000 bytes of content, and reads them with this pause before each thousand, so that the server waits.
async fn read_slowly(
    connector: TlsConnector,
    near: DuplexStream,
    pause: Duration,
) -> TlsStream<DuplexStream> {
    let mut peer = connector.connect(host("a.example"), near).await.unwrap();
    peer.write_all(b"GET / HTTP/1.0\r\n\r\n").await.unwrap();
    peer.flush().await.unwrap();
    let mut count = 0;
    while count < 200_000 {
        sleep(pause).await;
        let mut room = [0; 1000];
        let received = peer.read(&mut room).await.unwrap();
        count += room[..received].iter().filter(|byte| **byte == b'x').count();
    }
    peer
}

#[test]
fn written_content_leaves_while_the_handler_waits() {
    let pause = Duration::from_secs(3600);
    let busy = async move |ctx: &mut Context| -> corehttp::Result {
        let mut out = ctx.body_writer().await?;
        out.write_all(&[b'x'; 200_000]).await?;
        sleep(pause).await;
        Ok(out.finish().await?)
    };
    let (served, _, seen) = talk(busy, 1 << 12, async |connector, near, _| {
        let start = Instant::now();
        let mut peer = read_slowly(connector, near, Duration::from_millis(1)).await;
        assert!(start.elapsed() < pause);
        peer.read_to_end(&mut Vec::new()).await.unwrap();
    });
    assert!(served.is_ok() && seen.is_empty(), "{served:?} {seen:?}");
}

/// A peer that reads now and then must not be cut off, even if the rest of its response waits inside of TLS.
#[test]
fn a_slow_peer_is_not_cut_off_at_the_end_of_a_response() {
    let large = |ctx: &mut Context| ctx.response.body.set_bytes(vec![b'x'; 200_000]);
    let (served, _, seen) = talk(large, 1 << 12, async |connector, near, _| {
        let mut peer = read_slowly(connector, near, Duration::from_secs(1)).await;
        assert_eq!(peer.read(&mut [0]).await.unwrap(), 0);
    });
    assert!(served.is_ok() && seen.is_empty(), "{served:?} {seen:?}");
}

/// The rest of the response waits inside of TLS, and the server has nothing more to write.
#[test]
fn a_peer_that_does_not_read_the_end_of_a_response_is_cut_off() {
    let small = |ctx: &mut Context| ctx.response.body.set_bytes(vec![b'x'; 10_000]);
    let (served, time, seen) = talk(small, 1 << 12, async |connector, near, _| {
        let mut peer = connector.connect(host("a.example"), near).await.unwrap();
        peer.write_all(LAST).await.unwrap();
        peer.flush().await.unwrap();
        sleep(Duration::from_secs(90)).await;
    });
    assert_eq!((served.unwrap_err().kind(), time.as_secs()), (ErrorKind::TimedOut, 60));
    assert_eq!(seen, [(0, "the wait for the peer to read took longer than 60 s".into())]);
}

/// Many clients read a response only once they have sent all of their request.
#[test]
fn a_response_is_read_after_a_large_body_was_sent_rfc9112_9_6() {
    let secured = Secured::new();
    let served = secured.serve(wrap(BodyPlan::BufferUpTo(100_000), fine));
    let head = "POST / HTTP/1.1\r\nhost: a.example\r\ncontent-length: 3000000\r\n\r\n";
    let wire = [head.as_bytes(), &[b'b'; 3_000_000]].concat();
    for version in [&TLS12, &TLS13] {
        let peer = connect(&served, secured.peer_of(&[version], None));
        assert_eq!(status(&send_first(peer, &wire)), 413, "{version:?}");
    }
}

/// A `close_notify` ends the sending half alone (RFC 8446 §6.1).
#[test]
fn a_peer_that_closes_its_sending_half_is_answered_rfc9112_9_6() {
    let secured = Secured::new();
    let served = secured.serve(async |ctx: &mut Context| {
        sleep(Duration::from_millis(20)).await;
        ctx.response.set_text("fine");
    });
    let mut peer = connect(&served, secured.peer());
    peer.write_all(GET).unwrap();
    peer.conn.send_close_notify();
    peer.flush().unwrap();
    peer.sock.shutdown(Shutdown::Write).unwrap();
    assert!(receive_all(&mut peer).ends_with("fine"));
}

#[test]
fn a_peer_that_reads_nothing_is_cut_off_at_the_limit() {
    let secured = Secured::new();
    let app = async |ctx: &mut Context| -> corehttp::Result {
        if ctx.request.path() == "/memory" {
            ctx.response.body.set_bytes(vec![0; 12 << 20]);
            return Ok(());
        }
        let mut out = ctx.body_writer().await?;
        loop {
            out.write_all(&[b'x'; 100_000]).await?;
        }
    };
    let timeouts = Timeouts { write: Duration::from_millis(200), ..Timeouts::default() };
    let served = Served::with(|server| server.tls(secured.tls.clone()).timeouts(timeouts), app);
    for (count, path) in [(1, "/memory"), (2, "/stream")] {
        let (mut peer, start) = (connect(&served, secured.peer()), std::time::Instant::now());
        peer.write_all(format!("GET {path} HTTP/1.0\r\n\r\n").as_bytes()).unwrap();
        eventually("it is cut off", || served.running.counts().total.errors.timed_out == count);
        // Each record that the send buffer still holds must not be given a part of the limit.
        let waited = start.elapsed();
        assert!((Duration::from_millis(200)..Duration::from_secs(3)).contains(&waited), "{path}: {waited:?}");
    }
}

/// Notes what arrives.
struct Tap {
    stream: TcpStream,
    arrived: Vec<u8>,
}

impl Read for Tap {
    fn read(&mut self, room: &mut [u8]) -> std::io::Result<usize> {
        let count = self.stream.read(room)?;
        self.arrived.extend_from_slice(&room[..count]);
        Ok(count)
    }
}

impl Write for Tap {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.stream.write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.stream.flush()
    }
}

/// The lengths of the records of application data that arrive with the response for `path`.
fn records(served: &Served, config: ClientConfig, path: &str) -> Vec<usize> {
    let tap = Tap { stream: served.connect().stream, arrived: Vec::new() };
    let mut peer = StreamOwned::new(ClientConnection::new(Arc::new(config), host("a.example")).unwrap(), tap);
    peer.conn.complete_io(&mut peer.sock).unwrap();
    peer.sock.arrived.clear();
    write!(peer, "GET {path} HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n").unwrap();
    let mut received = Vec::new();
    peer.read_to_end(&mut received).unwrap();
    assert!(received.len() > 1 << 20, "{path}: {} bytes", received.len());
    let (mut rest, mut lengths) = (&peer.sock.arrived[..], Vec::new());
    while let [kind, _, _, high, low, after @ ..] = rest {
        let length = usize::from(u16::from_be_bytes([*high, *low]));
        // A ticket looks like content in TLS 1.3, and comes before it.
        lengths.extend((*kind == 23).then_some(length));
        rest = &after[length..];
    }
    lengths
}

/// A record that is sent before it is full costs the overhead of a whole one (RFC 8446 §5.2).
#[test]
fn records_are_full_before_they_are_sent() {
    const LEN: usize = 17 << 16;
    let secured = Secured::new();
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), vec![b'x'; LEN]).unwrap();
    let path = file.path().to_owned();
    let app = async move |ctx: &mut Context| -> corehttp::Result {
        let piece_len: usize = match ctx.request.path() {
            "/memory" => return Ok(ctx.response.set_bytes("text/plain", vec![b'x'; LEN])?),
            "/file" => return ctx.send_file(&path).await,
            "/source" => {
                ctx.response.body.set_stream(&[b'x'; LEN][..], None);
                return Ok(());
            }
            pieces => pieces[1..].parse().unwrap(),
        };
        let mut out = ctx.body_writer().await?;
        for piece in [b'x'; LEN].chunks(piece_len) {
            out.write_all(piece).await?;
        }
        Ok(out.finish().await?)
    };
    let served = secured.serve(app);
    let paths = ["/memory", "/source", "/file", "/100", "/1000", "/16384", "/16385", "/100000", "/1114112"];
    for version in [&TLS13, &TLS12] {
        for path in paths {
            let lengths = records(&served, secured.peer_of(&[version], None), path);
            // The end of the content and `close_notify` are short, and so may be the head.
            let short = lengths.iter().filter(|length| **length < 16 << 10).count();
            assert!(short <= 3 && lengths.len() >= 68, "{version:?} {path}: {lengths:?}");
        }
    }
}
